"""`make airflow`: Airflow with the benchmark DAGs and a broker, on this machine, until Ctrl-C.

Everything is under runs/airflow. `KEYSPREAD_BOOTSTRAP` and `KEYSPREAD_MASTER` name other servers;
`AIRFLOW_PORT` another port; `KEYSPREAD_SCHEDULES=on` lets the DAGs run by themselves.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from http.client import HTTPConnection, HTTPException
from pathlib import Path

import psutil

from partitioners.errors import KeyspreadError, RunError
from pipelines.broker import EmbeddedBroker
from pipelines.broker_process import choose_port
from pipelines.interrupt import Interrupted, ignore_stop_signals, stoppable

ROOT = Path(__file__).resolve().parent.parent
HOME = ROOT / "runs" / "airflow"
AIRFLOW = ROOT / ".venv-airflow" / "bin" / "airflow"
PASSWORDS = HOME / "simple_auth_manager_passwords.json.generated"
POOL = ("keyspread", "1", "One step of a benchmark at a time")
READY_SECONDS = 300.0
STOP_SECONDS = 20.0


def environment(port: int, bootstrap: str) -> dict[str, str]:
    """Give the settings of Airflow and of the tasks.

    Args:
        port: Of Airflow's pages, on 127.0.0.1.
        bootstrap: Kafka servers.
    """
    address = f"http://127.0.0.1:{port}"
    given = {
        name: value
        for name, value in os.environ.items()
        # Another installation's settings are not for this one.
        if not name.startswith(("AIRFLOW", "_AIRFLOW", "PYTHONPATH", "VIRTUAL_ENV"))
    }
    return {
        **given,
        "PATH": f"{AIRFLOW.parent}:{os.environ.get('PATH', '')}",
        "AIRFLOW_HOME": str(HOME),
        "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "dags"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
        "AIRFLOW__CORE__PARALLELISM": "4",
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{address}/execution/",
        "AIRFLOW__API__BASE_URL": address,
        "AIRFLOW__API__HOST": "127.0.0.1",
        "AIRFLOW__API__PORT": str(port),
        "AIRFLOW__API__WORKERS": "1",
        # A task is given a new token as long as its heartbeats come in time; a day is on the safe
        # side for a machine that a cell keeps busy.
        "AIRFLOW__EXECUTION_API__JWT_EXPIRATION_TIME": "86400",
        # The scheduler may be up before the API server: runs that a stop left open go on then, and
        # five tries (the default) are over in nine seconds.
        "AIRFLOW__WORKERS__EXECUTION_API_RETRIES": "30",
        "AIRFLOW__WORKERS__EXECUTION_API_RETRY_WAIT_MAX": "5",
        "AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL": "30",
        "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
        "KEYSPREAD_BIN": str(ROOT / ".venv" / "bin" / "keyspread"),
        "KEYSPREAD_BOOTSTRAP": bootstrap,
        "KEYSPREAD_RUNS_DIR": str(ROOT / "runs"),
    }


def main() -> int:
    """Start all, say where it is, and wait."""
    HOME.mkdir(parents=True, exist_ok=True)
    try:
        with stoppable(), contextlib.ExitStack() as stack:
            port = choose_port(int(os.environ.get("AIRFLOW_PORT", "8080")))
            bootstrap = os.environ.get("KEYSPREAD_BOOTSTRAP")
            if not bootstrap:
                say("starting a Kafka broker ...")
                bootstrap = stack.enter_context(EmbeddedBroker(HOME / "broker")).bootstrap
            settings = environment(port, bootstrap)
            say("starting Airflow (its log: runs/airflow/airflow.log) ...")
            prepare(settings)
            process = stack.enter_context(standalone(settings))
            wait_until_ready(process, port)
            password = json.loads(PASSWORDS.read_text(encoding="utf-8"))["admin"]
            say(f"\nAirflow:  http://127.0.0.1:{port}  user admin, password {password}")
            say(f"Kafka:    {bootstrap}\nReports:  runs/<grid>/report.html\nCtrl-C stops all.")
            process.wait()
            raise RunError(f"Airflow has ended: its log is {HOME / 'airflow.log'}")
    except (KeyspreadError, ValueError) as error:
        say(f"airflow: {error}")
        return 1
    except Interrupted as error:
        say(f"\nairflow: {error}")
        return error.exit_code


def say(text: str) -> None:
    """Print at once, also into a pipe."""
    print(text, flush=True)


def prepare(settings: dict[str, str]) -> None:
    """Make the database, and the pool in which one step runs at a time; once."""
    made_with = (AIRFLOW.parent.parent / ".keyspread-setup").read_text(encoding="utf-8")
    stamp = HOME / "prepared"
    if stamp.is_file() and stamp.read_text(encoding="utf-8") == made_with:
        return
    with (HOME / "airflow.log").open("ab") as log:
        for arguments in (("db", "migrate"), ("pools", "set", *POOL)):
            done = subprocess.run(
                [str(AIRFLOW), *arguments], env=settings, stdout=log, stderr=log, check=False
            )
            if done.returncode:
                raise RunError(
                    f"`airflow {' '.join(arguments)}` failed: see {HOME / 'airflow.log'}; where "
                    "its database is of another version, remove runs/airflow"
                )
    stamp.write_text(made_with, encoding="utf-8")


@contextlib.contextmanager
def standalone(settings: dict[str, str]) -> Iterator[psutil.Popen]:
    """Run `airflow standalone`, and leave no process of it behind."""
    with (HOME / "airflow.log").open("ab") as log:
        process = psutil.Popen(
            [str(AIRFLOW), "standalone"],
            env=settings,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            # Ctrl-C is for us: we stop the parts in order.
            start_new_session=True,
        )
    try:
        yield process
    finally:
        ignore_stop_signals()
        say("stopping Airflow ...")
        family = []
        with contextlib.suppress(psutil.NoSuchProcess):
            family = [process, *process.children(recursive=True)]
            process.send_signal(signal.SIGINT)
        _gone, alive = psutil.wait_procs(family, timeout=STOP_SECONDS)
        for left in alive:
            with contextlib.suppress(psutil.NoSuchProcess):
                left.kill()
        psutil.wait_procs(alive, timeout=STOP_SECONDS)


def wait_until_ready(process: psutil.Popen, port: int) -> None:
    """Wait until the pages answer, and scheduler and DAG processor are at work."""
    deadline = time.monotonic() + READY_SECONDS
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError, HTTPException, ValueError, LookupError):
            with contextlib.closing(HTTPConnection("127.0.0.1", port, timeout=5)) as connection:
                connection.request("GET", "/api/v2/monitor/health")
                health = json.load(connection.getresponse())
            if all(
                health[part]["status"] == "healthy"
                for part in ("metadatabase", "scheduler", "dag_processor")
            ):
                return
        with contextlib.suppress(psutil.TimeoutExpired):
            process.wait(1)
            raise RunError(f"Airflow has ended: its log is {HOME / 'airflow.log'}")
    raise RunError(f"Airflow is not ready after {READY_SECONDS:g} s: see {HOME / 'airflow.log'}")


if __name__ == "__main__":
    sys.exit(main())
