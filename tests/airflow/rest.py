"""Airflow as others see it: its REST interface, for the stack and for an Airflow without Docker."""

from __future__ import annotations

import importlib
import json
import sys
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

from tests.containers.waiting import wait_until
from tests.integration.programs import ROOT

# Of one run; the first one on a machine compiles what the others find.
DAG_SECONDS = 1_000.0
ENDED = ("success", "failed")


class RefusedError(Exception):
    """What REST answered instead of doing it."""


class AirflowRest:
    """Airflow's REST interface.

    Args:
        address: Of its pages, as `http://127.0.0.1:8080`.
        password: Of the user `admin`.
    """

    def __init__(self, address: str, password: str) -> None:
        self.address = address
        self.password = password
        self._token = ""

    def rest(self, method: str, path: str, body: Any = None) -> Any:
        """Ask Airflow."""
        if not self._token:
            self._token = self.log_in()
        return self._ask(method, f"/api/v2{path}", body)

    def log_in(self) -> str:
        """Give a token."""
        login = {"username": "admin", "password": self.password}
        return str(self._ask("POST", "/auth/token", login)["access_token"])

    def _ask(self, method: str, path: str, body: Any) -> Any:
        request = urllib.request.Request(
            f"{self.address}{path}",
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

    def runs(self, dag: str) -> list[Any]:
        """All runs of a DAG."""
        return list(self.rest("GET", f"/dags/{dag}/dagRuns")["dag_runs"])

    def state(self, dag: str, run: str) -> str:
        """The state of a run."""
        return str(self.rest("GET", f"/dags/{dag}/dagRuns/{urllib.parse.quote(run)}")["state"])

    def wait_for(self, dag: str, run: str, seconds: float = DAG_SECONDS) -> str:
        """Wait for the end of a run; gives its state."""
        wait_until(lambda: self.state(dag, run) in ENDED, "ended", seconds, every=1)
        return self.state(dag, run)

    def tasks(self, dag: str, run: str) -> list[dict[str, Any]]:
        """The last tries of all tasks of a run; those of cells one by one."""
        path = f"/dags/{dag}/dagRuns/{urllib.parse.quote(run)}/taskInstances"
        return list(self.rest("GET", path)["task_instances"])

    def task(self, dag: str, run: str, name: str) -> dict[str, Any]:
        """The last try of a task that there is once."""
        (one,) = (each for each in self.tasks(dag, run) if each["task_id"] == name)
        return one

    def span(self, dag: str, run: str, task: str) -> tuple[str, str]:
        """When the last try of a task began and ended."""
        one = self.task(dag, run, task)
        return str(one["start_date"]), str(one["end_date"])

    def set_state(self, dag: str, run: str, task: str, state: str, map_index: int = -1) -> None:
        """Set a task's state, as a person does in the page."""
        where = f"/dags/{dag}/dagRuns/{urllib.parse.quote(run)}/taskInstances/{task}"
        if map_index >= 0:
            where += f"/{map_index}"
        self.rest("PATCH", where, {"new_state": state})

    def said(self, dag: str, run: str, task: str) -> Any:
        """The object that a task gave."""
        of_run = f"/dags/{dag}/dagRuns/{urllib.parse.quote(run)}/taskInstances/{task}"
        value = self.rest("GET", f"{of_run}/xcomEntries/return_value")["value"]
        return json.loads(value) if isinstance(value, str) else value

    def asset_events(self, dag: str, run: str) -> list[dict[str, Any]]:
        """What a run told of its asset."""
        query = urllib.parse.urlencode({"source_dag_id": dag, "source_run_id": run})
        return list(self.rest("GET", f"/assets/events?{query}")["asset_events"])

    def log(self, dag: str, run: str, task: str, attempt: int = 1) -> str:
        """What a try of a task wrote, as JSON."""
        of_run = f"/dags/{dag}/dagRuns/{urllib.parse.quote(run)}/taskInstances/{task}"
        return json.dumps(self.rest("GET", f"{of_run}/logs/{attempt}"))


def grid_id(dag: str, run: str) -> str:
    """How the DAGs name the grid of a run."""
    sys.path.insert(0, str(ROOT / "dags"))
    try:
        return str(importlib.import_module("keyspread_dags.command").grid_id(dag, run))
    finally:
        sys.path.remove(str(ROOT / "dags"))
