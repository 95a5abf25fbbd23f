"""The stack of docker-compose.yml under a name and ports of its own, and Airflow's REST of it."""

from __future__ import annotations

import json
import os
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from confluent_kafka.admin import AdminClient

from tests.containers.kafka_cluster import free_ports
from tests.containers.versions import ROOT
from tests.containers.waiting import wait_until

PORTS = ("AIRFLOW", "KAFKA", "KAFKA_2", "KAFKA_3", "SPARK", "REPORTS")
# Of one run; the first one on a machine compiles what the others find.
DAG_SECONDS = 1_000.0


class RefusedError(Exception):
    """What REST answered instead of doing it."""


class Stack:
    """The stack.

    Args:
        folder: Keeps its passwords.
        project: Its name in Docker.
        environment: Of `docker compose`, such as profiles.
    """

    def __init__(
        self,
        folder: Path,
        project: str = "keyspread-test",
        environment: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.project = project
        self._environment = {**os.environ, "COMPOSE_PROFILES": "", **environment}
        self.env_file = folder / "stack.env"
        subprocess.run(
            [ROOT / "infra" / "secrets.sh", self.env_file], check=True, capture_output=True
        )
        self.ports = dict(zip(PORTS, free_ports(len(PORTS)), strict=True))
        with self.env_file.open("a") as file:
            file.writelines(f"{name}_PORT={port}\n" for name, port in self.ports.items())
        lines = self.env_file.read_text().splitlines()
        self._password = dict(line.split("=", 1) for line in lines)["AIRFLOW_PASSWORD"]
        self._token = ""

    def compose(self, *args: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Call `docker compose`."""
        ran = subprocess.run(
            ["docker", "compose", "-p", self.project, "--env-file", self.env_file, *args],
            cwd=ROOT,
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert ran.returncode == 0 or not check, f"{args}: {ran.stderr[-3000:]}"
        return ran

    def states(self) -> dict[str, str]:
        """Each service's health."""
        lines = self.compose("ps", "--format", "json").stdout.splitlines()
        found = [json.loads(line) for line in lines if line.strip()]
        return {each["Service"]: each["Health"] or each["State"] for each in found}

    def rest(self, method: str, path: str, body: Any = None) -> Any:
        """Ask Airflow."""
        if not self._token:
            login = {"username": "admin", "password": self._password}
            self._token = self._ask("POST", "/auth/token", login)["access_token"]
        return self._ask(method, f"/api/v2{path}", body)

    def _ask(self, method: str, path: str, body: Any) -> Any:
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.ports['AIRFLOW']}{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json", "Authorization": f"Bearer {self._token}"},
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            raise RefusedError(f"{error.code} {error.read().decode()}") from error

    def trigger(self, dag: str, **params: Any) -> str:
        """Start a run of a DAG; gives its id."""
        wait_until(lambda: self._knows(dag), f"{dag} parsed")
        self.rest("PATCH", f"/dags/{dag}", {"is_paused": False})
        begun = self.rest("POST", f"/dags/{dag}/dagRuns", {"logical_date": None, "conf": params})
        return str(begun["dag_run_id"])

    def _knows(self, dag: str) -> bool:
        try:
            return bool(self.rest("GET", f"/dags/{dag}"))
        except RefusedError:
            return False

    def state(self, dag: str, run: str) -> str:
        """The state of a run."""
        return str(self.rest("GET", f"/dags/{dag}/dagRuns/{urllib.parse.quote(run)}")["state"])

    def wait_for(self, dag: str, run: str) -> str:
        """Wait for the end of a run; gives its state."""
        wait_until(
            lambda: self.state(dag, run) in ("success", "failed"), "ended", DAG_SECONDS, every=1
        )
        return self.state(dag, run)

    def span(self, dag: str, run: str, task: str) -> tuple[str, str]:
        """When the last try of a task began and ended."""
        path = f"/dags/{dag}/dagRuns/{urllib.parse.quote(run)}/taskInstances"
        found = self.rest("GET", path)["task_instances"]
        (one,) = (each for each in found if each["task_id"] == task)
        return str(one["start_date"]), str(one["end_date"])

    def said(self, dag: str, run: str, task: str) -> Any:
        """The object that a task gave."""
        of_run = f"/dags/{dag}/dagRuns/{urllib.parse.quote(run)}/taskInstances/{task}"
        value = self.rest("GET", f"{of_run}/xcomEntries/return_value")["value"]
        return json.loads(value) if isinstance(value, str) else value

    def topics(self) -> list[str]:
        """Topics that runs have left."""
        client = AdminClient({"bootstrap.servers": f"127.0.0.1:{self.ports['KAFKA']}"})
        return [name for name in client.list_topics(timeout=30).topics if name[0] != "_"]

    def report(self, path: str) -> str:
        """Read a file of the runs, as a browser does."""
        url = f"http://127.0.0.1:{self.ports['REPORTS']}/{path}"
        with urllib.request.urlopen(url, timeout=60) as answer:
            return str(answer.read().decode())

    def cells(self, grid: str) -> list[dict[str, Any]]:
        """The cells of a grid that are done."""
        plan = json.loads(self.report(f"{grid}/grid.json"))
        return [
            json.loads(self.report(f"{grid}/cells/{number}.json"))
            for number in range(1, len(plan["cells"]) + 1)
        ]

    def in_runs(self, pattern: str) -> list[str]:
        """Files of the runs that fit a shell pattern."""
        listed = self.compose(
            "exec", "-T", "reports", "sh", "-c", f"ls -d /runs/{pattern}", check=False
        )
        return listed.stdout.split()
