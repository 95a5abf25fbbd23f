#!/usr/bin/python3 -IS
"""Says whether a part of the stack does its work: `healthy spark-worker`; exit code 1 if not.

Standard library alone, and no start of Java or Airflow: each container runs it every few seconds.
"""

import json
import socket
import sys
from collections.abc import Callable
from http.client import HTTPException
from typing import Any
from urllib.request import urlopen

TIMEOUT_S = 5
AIRFLOW_HEALTH = "http://airflow-api-server:8080/api/v2/monitor/health"


def read(url: str) -> Any:
    """Read a JSON page."""
    with urlopen(url, timeout=TIMEOUT_S) as answer:  # noqa: S310 - our own addresses
        return json.load(answer)


def spark_master() -> bool:
    """Whether the master leads."""
    return bool(read("http://127.0.0.1:8080/json/")["status"] == "ALIVE")


def spark_worker() -> bool:
    """Whether the master counts on this worker, not only whether it runs."""
    own_id = read("http://127.0.0.1:8081/json/")["id"]
    workers = read("http://spark-master:8080/json/")["workers"]
    return any(each["id"] == own_id and each["state"] == "ALIVE" for each in workers)


def reports() -> bool:
    """Whether the reports can be read."""
    with urlopen("http://127.0.0.1:8088/", timeout=TIMEOUT_S) as answer:
        return bool(answer.status == 200)


def airflow(component: str) -> Callable[[], bool]:
    """Whether a component's heartbeat stands in the database."""
    return lambda: bool(read(AIRFLOW_HEALTH)[component]["status"] == "healthy")


CHECKS: dict[str, Callable[[], bool]] = {
    "spark-master": spark_master,
    "spark-worker": spark_worker,
    "reports": reports,
    "airflow-api-server": airflow("metadatabase"),
    "airflow-scheduler": airflow("scheduler"),
    "airflow-dag-processor": airflow("dag_processor"),
    "airflow-triggerer": airflow("triggerer"),
}


def main() -> int:
    """Check the part that the command line names."""
    part = sys.argv[1]
    try:
        healthy = CHECKS[part]()
    except (OSError, HTTPException, ValueError, LookupError, TypeError) as error:
        print(f"{part} on {socket.gethostname()}: {error!r}")  # noqa: T201 - for `docker inspect`
        return 1
    print(f"{part} on {socket.gethostname()}: {'healthy' if healthy else 'not yet healthy'}")  # noqa: T201
    return 0 if healthy else 1


if __name__ == "__main__":
    sys.exit(main())
