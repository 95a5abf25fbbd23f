"""An Airflow with pages and scheduler, as `make airflow` starts it, in a folder of its own."""

from __future__ import annotations

import contextlib
import importlib
import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from pipelines.broker import EmbeddedBroker
from pipelines.broker_process import choose_port
from tests.airflow.rest import AirflowRest
from tests.containers.waiting import wait_until
from tests.integration.programs import ROOT

BIN = ROOT / ".venv-airflow" / "bin"


class ServedAirflow(AirflowRest):
    """A running Airflow.

    Args:
        settings: The environment of its programs.
        password: Of the user `admin`.
    """

    def __init__(self, settings: Mapping[str, str], password: str) -> None:
        super().__init__(settings["AIRFLOW__API__BASE_URL"], password)
        self._settings = dict(settings)
        self.runs_dir = Path(settings["KEYSPREAD_RUNS_DIR"])

    def call(self, program: str, *arguments: object) -> subprocess.CompletedProcess[str]:
        """Run a program of Airflow's environment to its end."""
        return subprocess.run(
            [str(BIN / program), *map(str, arguments)],
            env=self._settings,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )

    def topics(self) -> list[str]:
        """Topics that runs have left."""
        client = AdminClient({"bootstrap.servers": self._settings["KEYSPREAD_BOOTSTRAP"]})
        return [name for name in client.list_topics(timeout=30).topics if name[0] != "_"]

    def cells(self, grid: str) -> list[dict[str, Any]]:
        """The cells of a grid that are done."""
        paths = sorted((self.runs_dir / grid / "cells").iterdir(), key=lambda path: int(path.stem))
        return [json.loads(path.read_text()) for path in paths]


@contextlib.contextmanager
def served_airflow(folder: Path, **changes: str) -> Iterator[ServedAirflow]:
    """Start a broker and Airflow, and stop them.

    Args:
        folder: For everything that they write.
        changes: Of the environment that `make airflow` gives.
    """
    starter = _starter()
    home = folder / "home"
    with pytest.MonkeyPatch.context() as patch, EmbeddedBroker(folder / "broker") as broker:
        patch.setattr(starter, "HOME", home)
        home.mkdir()
        own = {"KEYSPREAD_RUNS_DIR": str(folder / "runs"), **changes}
        port = choose_port(None)
        settings = {**starter.environment(port, broker.bootstrap), **own}
        starter.prepare(settings)
        with starter.standalone(settings) as process:
            wait_until(lambda: process.poll() is not None or is_well(settings), "well")
            assert process.poll() is None, (home / "airflow.log").read_text()[-3000:]
            passwords = json.loads((home / starter.PASSWORDS.name).read_text())
            yield ServedAirflow(settings, passwords["admin"])


def is_well(settings: Mapping[str, str]) -> bool:
    """Whether the pages answer, and scheduler and DAG processor are at work."""
    url = f"{settings['AIRFLOW__API__BASE_URL']}/api/v2/monitor/health"
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            health = json.load(answer)
    except OSError:
        return False
    parts = ("metadatabase", "scheduler", "dag_processor")
    return all(health[part]["status"] == "healthy" for part in parts)


def _starter() -> ModuleType:
    """What `make airflow` runs."""
    sys.path.insert(0, str(ROOT / "scripts"))
    try:
        return importlib.import_module("airflow_up")
    finally:
        sys.path.remove(str(ROOT / "scripts"))
