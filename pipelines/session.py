"""The Spark session: state store, Arrow and Python workers, set for the engine."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

from pyspark import SparkConf, SparkContext
from pyspark.find_spark_home import _find_spark_home
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from partitioners.errors import InputError, RunError
from pipelines.java import find_java

STATE_STORE = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"

# The Java heap; Python workers and RocksDB come on top.
DRIVER_MEMORY = "2g"

# A batch is a few large rows to Spark. To write, compile and load a program for each step of its
# plan takes Java longer than to interpret them.
_FEW_ROWS = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


def _is_a_default(setting: str) -> bool:
    """Whether spark-defaults.conf says something: Spark reads it, but what we set would win."""
    folder = os.environ.get("SPARK_CONF_DIR") or Path(_find_spark_home(), "conf")
    file = Path(folder, "spark-defaults.conf")
    if not file.is_file():
        return False
    lines = file.read_text(encoding="utf-8").splitlines()
    return any(re.split(r"[\s=:]", line.strip(), maxsplit=1)[0] == setting for line in lines)


@contextlib.contextmanager
def _without_zips(folder: Path | None) -> Iterator[None]:
    """Have Spark's Python processes find the installed PySpark, where it is kept compiled.

    Spark has them look into its zips of the same first, and compile PySpark anew: half a second of
    processor time for each of the eight that a query starts. Here Spark is begun from a folder of
    links that lacks the zips. Where no such folder can be made, all stays as it is.

    Args:
        folder: Where to make it; None: nowhere.
    """
    home = None if folder is None or "SPARK_HOME" in os.environ else _linked_home(folder)
    if home is None:
        yield
        return
    os.environ["SPARK_HOME"] = str(home)
    try:
        yield
    finally:
        del os.environ["SPARK_HOME"]


def _linked_home(folder: Path) -> Path | None:
    """Make links to all of Spark but its Python side; None: not possible there."""
    home = folder / "spark-home"
    if ":" in str(home):  # Java takes it for the end of an entry of a class path.
        return None
    # A run that was killed may have left those to another Spark.
    shutil.rmtree(home, ignore_errors=True)
    try:
        home.mkdir(parents=True)
        for part in Path(_find_spark_home()).iterdir():
            if part.name != "python":
                (home / part.name).symlink_to(part)
    except OSError:
        return None
    return home


def _require_python_here(python: str) -> None:
    """Refuse a path that Spark finds on the executors alone: it starts Python on the driver too."""
    if os.sep in python and not Path(python).exists():
        folder = Path(python).parent.parent
        raise InputError(
            f"Spark starts PYSPARK_PYTHON, {python}, on this machine too, and it is not there: "
            f"unpack the archive here as well (`mkdir -p {folder} && tar -xzf ARCHIVE -C {folder}`)"
        )


def query_session(spark: SparkSession, num_shards: int) -> SparkSession:
    """Make the session of one query: its settings are not the next one's affair.

    Whether Spark compiles plans is as the user has set it for Spark; it does not by itself.

    Args:
        spark: A session of `spark_session`.
        num_shards: Reducers, each one Spark state partition.
    """
    session = spark.newSession()
    session.conf.set("spark.sql.shuffle.partitions", str(num_shards))
    given = spark.sparkContext.getConf()
    for name, value in _FEW_ROWS.items():
        if not given.contains(name):
            session.conf.set(name, value)
    return session


def spark_session(
    master: str = "local[2]",
    *,
    app_name: str = "keyspread",
    state_memory_mb: int = 256,
    local_dir: Path | str | None = None,
    log_file: Path | str | None = None,
    config: dict[str, str] | None = None,
    imported: threading.Event | None = None,
) -> SparkSession:
    """Make the Spark session of a run.

    What depends on a query (number of shards) is set on a session of its own, see `query_session`.

    Args:
        master: Spark master.
        app_name: Name of the application.
        state_memory_mb: Bound of RocksDB's memory over all state stores of a node.
        local_dir: Where shuffles spill; Spark's default if None.
        log_file: Where the output of the JVM and the Python workers goes, appended;
            None: where that of this process goes.
        config: Further settings, which win. The driver's memory may stand in
            spark-defaults.conf too; it is 2 GB otherwise.
        imported: Waited for once the JVM runs, for a caller who imports modules meanwhile.

    Raises:
        InputError: No fitting Java, or a Python that is not on this machine.
        RunError: A session with another master is running.
    """
    # On a cluster Python may lie elsewhere, such as in an archive that Spark unpacks.
    elsewhere = None if master.startswith("local") else os.environ.get("PYSPARK_PYTHON")
    python = elsewhere or sys.executable
    _require_python_here(python)
    running = SparkSession.getActiveSession()
    if running is not None and running.sparkContext.master != master:
        raise RunError(
            f"Spark already runs here with master {running.sparkContext.master}: stop it before "
            f"starting one with {master}"
        )
    os.environ["PYSPARK_PYTHON"] = python
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["JAVA_HOME"] = str(find_java().home)
    if local := master.startswith("local"):
        # On one machine nothing needs its host name, which may have no address.
        os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    logging = Path(__file__).with_name("log4j2.properties").as_uri()
    settings = {
        "spark.driver.defaultJavaOptions": f"-Dlog4j2.configurationFile={logging}",
        "spark.python.daemon.module": "pipelines.worker_daemon",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.execution.pyspark.udf.faulthandler.enabled": "true",
        "spark.python.worker.faulthandler.enabled": "true",
        "spark.sql.streaming.stateStore.providerClass": STATE_STORE,
        "spark.sql.streaming.stateStore.rocksdb.boundedMemoryUsage": "true",
        "spark.sql.streaming.stateStore.rocksdb.maxMemoryUsageMB": str(state_memory_mb),
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        # A query whose broker has gone cannot end its batch, and need not: it is done again.
        "spark.sql.streaming.stopTimeout": "15s",
        # A batch without records cannot close a window here, so it is not worth running.
        "spark.sql.streaming.noDataMicroBatches.enabled": "false",
        # Each task has a Python worker with one busy thread; pools of threads only get in the way.
        "spark.executorEnv.POLARS_MAX_THREADS": "1",
        "spark.executorEnv.OMP_NUM_THREADS": "1",
        "spark.executorEnv.ARROW_NUM_THREADS": "1",
        # Spark sets it for DataFrames only, and an executor has a daemon for each environment.
        "spark.executorEnv.SPARK_SIMPLIFIED_TRACEBACK": "1",
    }
    if not _is_a_default("spark.driver.memory"):
        settings["spark.driver.memory"] = DRIVER_MEMORY
    if local:
        settings["spark.driver.host"] = settings["spark.driver.bindAddress"] = "127.0.0.1"
    if local_dir is not None:
        settings["spark.local.dir"] = str(local_dir)
    conf = SparkConf().setMaster(master).setAppName(app_name)
    conf.setAll(list({**settings, **(config or {})}.items()))
    if running is not None:
        return running
    gateway = None
    if log_file is not None:
        # A cluster's driver may have to ship the zips.
        links = Path(local_dir).absolute() if local and local_dir is not None else None
        with _without_zips(links), Path(log_file).open("ab") as log:
            kwargs = {"stdout": log, "stderr": log}
            gateway = launch_gateway(conf, popen_kwargs=kwargs)  # type: ignore[no-untyped-call]
    if imported is not None:
        imported.wait()
    return SparkSession(SparkContext(gateway=gateway, conf=conf))
