"""A Spark master and a worker of their own processes, as on a cluster."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psutil
import pyspark

from pipelines.broker_process import choose_port
from pipelines.java import find_java
from tests.containers.waiting import wait_until

SPARK_HOME = Path(pyspark.__file__).parent
DEPLOY = "org.apache.spark.deploy"


@contextmanager
def daemon(
    name: str, log: Path, *arguments: str, environment: Mapping[str, str]
) -> Iterator[subprocess.Popen[bytes]]:
    """Spark's own master or worker, and what it starts."""
    command = [SPARK_HOME / "bin" / "spark-class", f"{DEPLOY}.{name}", "--host", "127.0.0.1"]
    own = {
        "JAVA_HOME": str(find_java().home),
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
    }
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*command, *arguments], stdout=output, stderr=output, env={**environment, **own}
        )
    try:
        yield process
    finally:
        below = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(signal.SIGTERM)
        process.wait(30)
        for child in below:
            if child.is_running():
                child.kill()


@contextmanager
def running_cluster(folder: Path, python_path: str | None = None) -> Iterator[str]:
    """A master and a worker on this machine.

    Args:
        folder: For their logs, and `work`, in which every executor has a folder of its own.
        python_path: `PYTHONPATH` of executors; None: that of this process, "": none, as on a
            machine that has never heard of Keyspread.

    Yields:
        The master's address.
    """
    environment = dict(os.environ)
    if python_path is not None:
        environment.pop("PYTHONPATH", None)
    if python_path:
        environment["PYTHONPATH"] = python_path
    port = choose_port(None)
    address = f"spark://127.0.0.1:{port}"
    log = folder / "worker.log"
    web = ("--webui-port", "0")
    resources = ("--cores", "2", "--memory", "2g", "--work-dir", str(folder / "work"))
    with ExitStack() as stack:

        def start(name: str, log: Path, *arguments: str) -> subprocess.Popen[bytes]:
            return stack.enter_context(daemon(name, log, *arguments, *web, environment=environment))

        start("master.Master", folder / "master.log", "--port", str(port))
        worker = start("worker.Worker", log, *resources, address)

        def registered() -> bool:
            assert worker.poll() is None, log.read_text()
            return "Successfully registered with master" in log.read_text()

        wait_until(registered, "registered")
        yield address
