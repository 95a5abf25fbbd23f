"""Where runs take place: a broker and a Spark session, started before and stopped after."""

from __future__ import annotations

import contextlib
import logging
import re
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from partitioners.errors import InputError, RunError
from pipelines.broker import EmbeddedBroker, broker_status
from pipelines.broker_files import log_path
from pipelines.topics import OWN_BROKER, client_settings, require_answer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Below this a run stops by itself, while the broker and Spark can still write what they must.
LEAST_FREE_BYTES = 24 << 20
DISK_CHECK_SECONDS = 0.5
JVM_STOP_SECONDS = 30.0
# A Spark that is asked to join a master that is not there tries for a minute and then says little.
MASTER_ANSWER_SECONDS = 3.0
_OTHER_MASTER = re.compile(
    r"yarn|k8s://.+|local(\[(\*|\d+)(, *\d+)?\])?|local-cluster\[\d+, *\d+, *\d+\]"
)
_MASTER_PORT = 7077

Say = Callable[[str], None]

# For short queries on little data: the JVM's second compiler would take more time than it gives.
QUICK_START = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"}


@dataclass(frozen=True, slots=True)
class Site:
    """A broker that answers, and a Spark session.

    Attributes:
        bootstrap: The broker's address.
        settings: librdkafka settings for clients.
        spark: The session.
        pids: Processes that were started for it.
        broker: The broker, where it is the site's own.
    """

    bootstrap: str
    settings: Mapping[str, Any]
    spark: SparkSession
    pids: tuple[int, ...]
    broker: EmbeddedBroker | None = None

    def check_broker(self) -> None:
        """See that the site's own broker is alive: nobody else would bring it back.

        Raises:
            RunError: It is not.
        """
        if self.broker is not None and not self.broker.running:
            raise RunError(
                "the run's Kafka broker has ended: it was killed or ran out of memory (its log is "
                f"{log_path(self.broker.data_dir)}); give it more memory if nobody killed it"
            )


@contextlib.contextmanager
def open_site(
    *,
    bootstrap: str | None,
    kafka: Mapping[str, Any],
    broker_dir: Path,
    master: str,
    spark_dir: Path,
    say: Say,
    quick_start: bool = False,
    meanwhile: Callable[[], None] | None = None,
) -> Iterator[Site]:
    """Start what runs need, and stop it afterwards.

    Args:
        bootstrap: Servers to use; None takes the broker of `keyspread broker start` if that runs,
            else starts one in `broker_dir`.
        kafka: librdkafka settings.
        broker_dir: Data folder of a broker of the site's own; it stays.
        master: Spark master.
        spark_dir: For Spark's temporary files; it goes.
        say: Tells the user what is going on.
        quick_start: Set Spark and the broker for runs of seconds on little data.
        meanwhile: Called while the two boot, for imports and other work of seconds.

    Raises:
        InputError: The broker or the master does not answer, or there is no fitting Java.
    """
    require_master(master)
    with contextlib.ExitStack() as stack:
        broker = None
        if bootstrap is None and not broker_dir.exists() and (status := broker_status()).running:
            bootstrap = status.bootstrap
            say(f"using the broker at {bootstrap}")
        if bootstrap is not None:
            # Before seconds go into a start of Spark that would be for nothing.
            require_answer(client_settings(bootstrap, kafka), OWN_BROKER)
        # Spark and the broker boot side by side: each alone leaves a core idle half the time.
        say("starting Spark" + ("" if bootstrap else " and a Kafka broker"))
        started = (
            None if bootstrap else stack.enter_context(_booting_broker(broker_dir, quick_start))
        )
        imported = threading.Event()
        spark = stack.enter_context(
            _booting_spark(master, spark_dir, QUICK_START if quick_start else {}, imported)
        )
        # However this ends, the thread that waits for it must.
        stack.callback(imported.set)
        booted = False

        def tell(kind: type[BaseException] | None, *_error: object) -> None:
            if kind is not None and not booted:
                say("stopping what has been started")

        stack.push(tell)
        if meanwhile is not None:
            meanwhile()
        imported.set()
        if started is not None:
            broker = started.result()
            bootstrap = broker.bootstrap
        assert bootstrap is not None
        settings = client_settings(bootstrap, kafka)
        session = _booted(spark, master, spark_dir)
        if master.startswith("local"):
            _warm_up(session)
        if not master.startswith("local"):
            from pipelines.executors import require_same_environment

            require_same_environment(session)
        booted = True
        pids = [process.pid for process in psutil.Process().children(recursive=True)]
        yield Site(bootstrap, settings, session, tuple(pids), broker)
        say("stopping Spark" + (" and the broker" if broker else ""))


def require_master(master: str) -> None:
    """See that a Spark master is one, and that somebody listens there.

    Args:
        master: As Spark takes it.

    Raises:
        InputError: It is none, or nobody does.

    Example:
        >>> require_master("local[2]")
        >>> require_master("lokal[2]")
        Traceback (most recent call last):
        partitioners.errors.InputError: "lokal[2]" is no Spark master: give one such as local[2], \
spark://host:7077, yarn or k8s://https://host:443
    """
    if master.startswith("spark://"):
        _require_listener(master)
    elif not _OTHER_MASTER.fullmatch(master):
        raise InputError(
            f'"{master}" is no Spark master: give one such as local[2], spark://host:7077, yarn or '
            "k8s://https://host:443"
        )


def _require_listener(master: str) -> None:
    reasons = []
    for address in master.removeprefix("spark://").split(","):
        host, _, port = address.partition(":")
        try:
            socket.create_connection(
                (host, int(port or _MASTER_PORT)), timeout=MASTER_ANSWER_SECONDS
            ).close()
        except (OSError, ValueError, OverflowError) as error:
            reasons.append(f"{address}: {getattr(error, 'strerror', None) or error}")
        else:
            return
    raise InputError(
        f"no Spark master answers at --master {master} ({'; '.join(reasons)}): check the address "
        "and that the master runs, or leave it out to run Spark here"
    )


@contextlib.contextmanager
def _booting_broker(broker_dir: Path, quick_start: bool) -> Iterator[Future[EmbeddedBroker]]:
    """Start a broker in a thread; stop it in the end, however far it came."""
    broker = EmbeddedBroker(broker_dir, quick_start=quick_start)
    with ThreadPoolExecutor(1, thread_name_prefix="keyspread-broker") as pool:
        started = pool.submit(broker.start)
        try:
            yield started
        finally:
            wait([started])
            broker.stop()


@contextlib.contextmanager
def _booting_spark(
    master: str, spark_dir: Path, spark_config: Mapping[str, str], imported: threading.Event
) -> Iterator[Future[SparkSession]]:
    """Start Spark in a thread; stop it in the end, however far it came.

    Args:
        master: Spark master.
        spark_dir: For its files.
        spark_config: Further settings.
        imported: Set when no other thread imports modules any more: Spark's Python side imports
            some with circles, which two threads may not enter at once.
    """
    from pyspark import SparkContext

    from pipelines.session import spark_session

    spark_dir.mkdir(parents=True, exist_ok=True)
    log = _spark_log(spark_dir)
    # Py4J logs a traceback for each call to a JVM that has gone; the error itself is ours to tell.
    root = logging.getLogger()
    root.addFilter(_is_not_of_py4j)
    with ThreadPoolExecutor(1, thread_name_prefix="keyspread-spark") as pool:
        spark = pool.submit(
            spark_session,
            master,
            local_dir=spark_dir,
            log_file=log,
            config=dict(spark_config),
            imported=imported,
        )
        try:
            yield spark
        finally:
            wait([spark])
            # A stop signal to the whole group may have taken the JVM: then there is none to ask.
            with contextlib.suppress(Exception):
                if SparkContext._active_spark_context is not None:
                    SparkContext._active_spark_context.stop()
            _stop_java()
            shutil.rmtree(spark_dir, ignore_errors=True)
            root.removeFilter(_is_not_of_py4j)


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    return Path(record.pathname).parent.name != "py4j"


def _booted(spark: Future[SparkSession], master: str, spark_dir: Path) -> SparkSession:
    """Wait for Spark.

    Raises:
        RunError: It did not start.
    """
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    try:
        session = spark.result()
    except (PySparkException, Py4JError) as error:
        reason = next(filter(None, map(str.strip, str(error).splitlines())), "no reason given")
        raise RunError(
            f"Spark did not start with --master {master} ({reason[:200]}): check the master "
            f"and the memory; its log is {_spark_log(spark_dir)}"
        ) from error
    # It prints a traceback where the JVM was killed; that the JVM has gone is ours to tell.
    server: Any = getattr(session.sparkContext, "_accumulatorServer", None)
    if server is not None:
        server.handle_error = _say_nothing
    return session


def _warm_up(session: SparkSession) -> None:
    """Have Spark start its Python processes, which import for seconds, before a query needs them.

    It goes on in a thread of its own, for a topic is to be made meanwhile.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    tasks = session.sparkContext.defaultParallelism

    def start_workers() -> None:
        # Where Spark is stopped or killed meanwhile, others will say so.
        with contextlib.suppress(PySparkException, Py4JError, OSError):
            session.range(0, tasks, 1, tasks).mapInArrow(lambda batches: batches, "id long").count()

    threading.Thread(target=start_workers, name="keyspread-warm-up", daemon=True).start()


def _say_nothing(_request: object, _address: object) -> None:
    pass


def _spark_log(spark_dir: Path) -> Path:
    return spark_dir.with_name("spark.log")


def _stop_java() -> None:
    """End the JVM, which `SparkContext.stop` leaves running for a next session."""
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    if gateway is None:
        return
    with contextlib.suppress(Exception):
        gateway.shutdown()
    # Its end of our pipe is what it waits for.
    process = getattr(gateway, "proc", None)
    if process is not None:
        process.stdin.close()
        try:
            process.wait(timeout=JVM_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    SparkContext._gateway = None
    SparkContext._jvm = None


class DiskWatch:
    """Notices in time that a disk runs full.

    Args:
        folders: Where a run writes.
    """

    def __init__(self, *folders: Path) -> None:
        self._folders = folders
        self._next_check_s = 0.0

    def check(self, *, now: bool = False) -> None:
        """Look, if it is time to.

        Args:
            now: Look in any case.

        Raises:
            InputError: A disk is nearly full.
        """
        if time.monotonic() < self._next_check_s and not now:
            return
        self._next_check_s = time.monotonic() + DISK_CHECK_SECONDS
        for folder in self._folders:
            free = shutil.disk_usage(folder).free
            if free < LEAST_FREE_BYTES:
                raise InputError(
                    f"the disk that holds {folder} is full ({free >> 20} MiB left), so the run "
                    "was stopped while nothing is lost: free some space and resume it"
                )
