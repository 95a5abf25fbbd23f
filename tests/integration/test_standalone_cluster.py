"""A run on a Spark cluster whose executors have working directories of their own."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psutil
import pyspark
import pytest

from partitioners.errors import InputError
from pipelines.broker_process import choose_port
from pipelines.java import find_java
from pipelines.session import spark_session
from tests.containers.waiting import wait_until
from tests.integration.programs import keyed_lines, run_json

SPARK_HOME = Path(pyspark.__file__).parent
DEPLOY = "org.apache.spark.deploy"


@contextmanager
def daemon(name: str, log: Path, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
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
            [*command, *arguments], stdout=output, stderr=output, env={**os.environ, **own}
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


@pytest.fixture
def master(tmp_path: Path) -> Iterator[str]:
    """A master and a worker on this machine."""
    port = choose_port(None)
    address = f"spark://127.0.0.1:{port}"
    with ExitStack() as stack:
        web = ("--webui-port", "0")
        stack.enter_context(
            daemon("master.Master", tmp_path / "master.log", "--port", str(port), *web)
        )
        resources = ("--cores", "2", "--memory", "2g", "--work-dir", str(tmp_path / "work"))
        worker = stack.enter_context(
            daemon("worker.Worker", tmp_path / "worker.log", *resources, *web, address)
        )

        def registered() -> bool:
            log = (tmp_path / "worker.log").read_text()
            assert worker.poll() is None, log
            return "Successfully registered with master" in log

        wait_until(registered, "registered")
        yield address


@pytest.mark.broker
@pytest.mark.spark
def test_results_of_a_relative_folder_are_where_the_command_was_given(
    master: str, tmp_path: Path
) -> None:
    keyed_lines(tmp_path / "in.csv", 2_000)
    asked = ["--input", "in.csv", "--master", master, "--runs-dir", "runs", "--partitions", "2"]
    assert run_json("run", "keyed-sum", *asked, cwd=tmp_path)["exact"]
    assert list(tmp_path.glob("runs/*/results/*.parquet"))
    assert not list(tmp_path.glob("work/**/*.parquet"))


def test_a_python_that_only_executors_have_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYSPARK_PYTHON", "./environment/bin/python")
    with pytest.raises(InputError, match=r"not there: .* tar -xzf ARCHIVE -C environment"):
        spark_session("spark://127.0.0.1:7077")
