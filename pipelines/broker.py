"""A real Kafka broker on this machine: one KRaft node, started from its jars, no Docker.

`EmbeddedBroker` ends with the process that started it, even if that is killed. The functions
`start_detached`, `stop_detached` and `broker_status` keep one running between commands.
"""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

from partitioners.errors import InputError, RunError
from pipelines.broker_files import (
    BrokerRecord,
    format_storage,
    log_tail,
    read_record,
    write_record,
    write_settings,
)
from pipelines.broker_process import (
    NotReadyError,
    choose_port,
    launch,
    stop_process,
    wait_until_ready,
    why_it_failed,
)
from pipelines.jars import broker_classpath
from pipelines.java import find_java
from pipelines.places import keyspread_home, storage_error

DEFAULT_PORT = 9092
# A slow CI machine under load took over a minute; a broker that dies is noticed at once.
DEFAULT_START_TIMEOUT_S = 120.0
DEFAULT_STOP_TIMEOUT_S = 30.0
# Between choosing a free port and binding it another program may take it.
_PORT_ATTEMPTS = 3


class EmbeddedBroker:
    """One Kafka broker on a data folder, as a context manager.

    Stopped and started again on the same folder it has the same data and the same port.

    Args:
        data_dir: Folder for its log, settings and topics; made if missing.
        port: Port of its listener on 127.0.0.1; None or 0 takes a free one.
        heap_mb: Java heap; 768 carried 4 M small messages.
        start_timeout_s: How long `start` waits for the first answer.
        detached: Whether it outlives the process that started it.
        quick_start: Start in half the processor time, and carry less afterwards.

    Example:
        ```python
        with EmbeddedBroker(Path("/tmp/broker")) as broker:
            print(broker.bootstrap)
        ```
    """

    def __init__(
        self,
        data_dir: Path | str,
        port: int | None = None,
        heap_mb: int = 768,
        *,
        start_timeout_s: float = DEFAULT_START_TIMEOUT_S,
        detached: bool = False,
        quick_start: bool = False,
    ) -> None:
        if port is not None and not 0 <= port <= 65535:
            raise InputError(f"port must be from 1 to 65535, not {port}: name another port")
        if heap_mb < 256:
            raise InputError(f"heap_mb must be at least 256, not {heap_mb}: give the broker more")
        self.data_dir = Path(data_dir).absolute()
        self.heap_mb = heap_mb
        self.start_timeout_s = start_timeout_s
        self.detached = detached
        self.quick_start = quick_start
        self._asked_port = port or None
        self._port: int | None = None
        self._process: psutil.Process | None = None
        self._owner_pid = os.getpid()
        self._lock = threading.Lock()

    @property
    def bootstrap(self) -> str:
        """What to give a client as `bootstrap.servers`."""
        if self._port is None:
            raise RunError("the broker has not been started: call start() first")
        return f"127.0.0.1:{self._port}"

    @property
    def port(self) -> int:
        """The port of its listener."""
        return int(self.bootstrap.rpartition(":")[2])

    @property
    def pid(self) -> int | None:
        """Process id while it runs, else None."""
        return self._process.pid if self._process is not None and self.running else None

    @property
    def running(self) -> bool:
        """Whether its process is alive."""
        process = self._process
        return (
            process is not None
            and process.is_running()
            and process.status() != psutil.STATUS_ZOMBIE
        )

    def start(self) -> Self:
        """Start it and wait until it answers a metadata request.

        Raises:
            InputError: The port is in use, the folder cannot be written or has a live broker.
            RunError: The broker ended or did not answer in time; the end of its log is included.
        """
        with self._lock:
            if self.running:
                return self
            if (live := read_record(self.data_dir)) is not None:
                raise InputError(
                    f"a broker (pid {live.pid}, {live.bootstrap}) already runs on {self.data_dir}: "
                    "use it, stop it, or name another folder"
                )
            java, jars = find_java(), broker_classpath()
            for attempt in range(1, _PORT_ATTEMPTS + 1):
                # A restart keeps its port, for clients have it in their metadata.
                fixed = self._asked_port or self._port
                port = choose_port(fixed)
                try:
                    write_settings(
                        self.data_dir, port=port, controller_port=choose_port(None, port)
                    )
                    format_storage(self.data_dir, java, jars)
                    self._process = launch(
                        self.data_dir,
                        java,
                        jars,
                        heap_mb=self.heap_mb,
                        detached=self.detached,
                        quick_start=self.quick_start,
                    )
                except OSError as error:
                    raise storage_error(error, self.data_dir) from error
                self._owner_pid = os.getpid()
                bootstrap = f"127.0.0.1:{port}"
                try:
                    wait_until_ready(self._process, bootstrap, self.start_timeout_s)
                    write_record(self.data_dir, self._process, bootstrap)
                except BaseException as error:
                    stop_process(self._process, 0)
                    if isinstance(error, OSError):
                        raise storage_error(error, self.data_dir) from error
                    if not isinstance(error, NotReadyError):
                        raise
                    tail = log_tail(self.data_dir)
                    if "Address already in use" in tail and attempt < _PORT_ATTEMPTS:
                        continue
                    raise RunError(why_it_failed(str(error), tail, self.data_dir)) from None
                self._port = port
                return self
        raise AssertionError("unreachable")

    def stop(self, timeout_s: float = DEFAULT_STOP_TIMEOUT_S) -> None:
        """Stop it: SIGTERM, then SIGKILL if it has not ended in time. Its data stays.

        Args:
            timeout_s: How long it may take to shut down cleanly.
        """
        # A forked child has the object but not the broker: its exit must not stop the parent's.
        if os.getpid() != self._owner_pid:
            return
        with self._lock:
            if self._process is not None:
                stop_process(self._process, timeout_s)
                BrokerRecord.path(self.data_dir).unlink(missing_ok=True)
                self._process = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()


@dataclass(frozen=True)
class BrokerStatus:
    """What `broker_status` found."""

    running: bool
    data_dir: Path
    pid: int | None = None
    bootstrap: str | None = None
    uptime_s: float | None = None


def default_broker_dir() -> Path:
    """Give the folder of the broker that `keyspread broker start` starts."""
    return keyspread_home() / "broker"


def start_detached(
    data_dir: Path | str | None = None,
    port: int | None = DEFAULT_PORT,
    heap_mb: int = 768,
    *,
    start_timeout_s: float = DEFAULT_START_TIMEOUT_S,
) -> BrokerStatus:
    """Start a broker that outlives this process.

    Args:
        data_dir: Its folder; None takes `default_broker_dir()`.
        port: Port of its listener; None takes a free one.
        heap_mb: Java heap.
        start_timeout_s: How long to wait for its first answer.

    Returns:
        Its status.

    Raises:
        InputError: It runs already, the port is in use, or the folder cannot be written.
        RunError: It did not start.
    """
    folder = Path(data_dir or default_broker_dir()).absolute()
    broker = EmbeddedBroker(folder, port, heap_mb, start_timeout_s=start_timeout_s, detached=True)
    broker.start()
    return broker_status(folder)


def stop_detached(
    data_dir: Path | str | None = None, timeout_s: float = DEFAULT_STOP_TIMEOUT_S
) -> bool:
    """Stop the broker of a folder, whoever started it.

    Args:
        data_dir: Its folder; None takes `default_broker_dir()`.
        timeout_s: How long it may take to shut down cleanly.

    Returns:
        Whether there was one to stop.
    """
    folder = Path(data_dir or default_broker_dir()).absolute()
    record = read_record(folder)
    if record is None:
        return False
    stop_process(psutil.Process(record.pid), timeout_s)
    BrokerRecord.path(folder).unlink(missing_ok=True)
    return True


def broker_status(data_dir: Path | str | None = None) -> BrokerStatus:
    """Say whether a broker runs on a folder; a left-over pid file is removed.

    Args:
        data_dir: Its folder; None takes `default_broker_dir()`.
    """
    folder = Path(data_dir or default_broker_dir()).absolute()
    record = read_record(folder)
    if record is None:
        return BrokerStatus(False, folder)
    uptime_s = time.time() - record.start_time_s
    return BrokerStatus(True, folder, record.pid, record.bootstrap, uptime_s)
