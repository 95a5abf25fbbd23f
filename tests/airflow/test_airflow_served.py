"""Airflow as `make airflow` starts it: triggers, its form in a browser, whole benchmarks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tests.airflow.rest import AirflowRest, grid_id
from tests.airflow.served_airflow import ServedAirflow, served_airflow

pytestmark = pytest.mark.airflow

# A task's token lives so long, and this much longer by Airflow's leeway: no cell is as quick.
TOKEN_SECONDS, LEEWAY_SECONDS = 15, 10
BY_DEFAULT = {
    (name, partitions) for name in ("key_hash", "pkg", "cam", "hot_fill") for partitions in (4, 8)
}


@pytest.fixture(scope="module")
def airflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedAirflow]:
    short = {"AIRFLOW__EXECUTION_API__JWT_EXPIRATION_TIME": str(TOKEN_SECONDS)}
    with served_airflow(tmp_path_factory.mktemp("airflow"), **short) as running:
        yield running


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """3,600 words."""
    path = tmp_path_factory.mktemp("words") / "words.txt"
    path.write_text("one two two three three three\n" * 600)
    return path


def by_command(airflow: ServedAirflow, dag: str, conf: dict[str, Any]) -> str:
    """Trigger a DAG by `airflow dags trigger`; gives the id of its run."""
    done = airflow.call("airflow", "dags", "trigger", dag, "--conf", json.dumps(conf), "-o", "json")
    assert done.returncode == 0, done.stdout + done.stderr
    (begun,) = json.loads(done.stdout.splitlines()[-1])
    return str(begun["dag_run_id"])


def seconds(airflow: AirflowRest, dag: str, run: str, task: str) -> float:
    begin, end = map(datetime.fromisoformat, airflow.span(dag, run, task))
    return (end - begin).total_seconds()


def test_a_cell_outlives_its_token(airflow: ServedAirflow, words: Path) -> None:
    asked = airflow.call("airflow", "config", "get-value", "execution_api", "jwt_expiration_time")
    assert asked.stdout.split()[-1] == str(TOKEN_SECONDS)
    dag, slowly = "benchmark_wordcount", f"{3_600 // (2 * TOKEN_SECONDS + LEEWAY_SECONDS)}/s"
    conf = {"partitioners": ["pkg"], "partitions": [2], "input": str(words), "speed": slowly}
    run = by_command(airflow, dag, conf)
    assert airflow.wait_for(dag, run) == "success"
    cell = airflow.task(dag, run, "cell")
    assert cell["try_number"] == 1
    assert seconds(airflow, dag, run, "cell") > TOKEN_SECONDS + LEEWAY_SECONDS
    (figures,) = airflow.cells(grid_id(dag, run))
    assert figures["exact"]
    assert figures["produced"] == figures["delivered"] == 3_600


@pytest.mark.parametrize(
    ("conf", "reason"),
    [
        ({"partitioners": ["pgk"]}, "Invalid input for param partitioners: 'pgk' does not match"),
        ({"partitions": [0]}, "Invalid input for param partitions: 0 is less than the minimum"),
        ({"speed": "fast"}, "Invalid input for param speed: 'fast' does not match"),
    ],
)
def test_the_command_refuses_with_the_reason(
    airflow: ServedAirflow, conf: dict[str, Any], reason: str
) -> None:
    before = airflow.runs("benchmark_debs")
    done = airflow.call(
        "airflow", "dags", "trigger", "benchmark_debs", "--conf", json.dumps(conf), "-o", "json"
    )
    assert done.returncode != 0
    assert reason in done.stderr
    assert airflow.runs("benchmark_debs") == before


def by_form(airflow: ServedAirflow, dag: str, field: str, value: str, folder: Path) -> Any:
    """Trigger a DAG in its page."""
    token = airflow.log_in()
    program = Path(__file__).with_name("form_in_browser.py")
    done = airflow.call("python", program, airflow.address, token, dag, field, value, folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_the_form_refuses_with_the_reason(airflow: ServedAirflow, tmp_path: Path) -> None:
    dag = "benchmark_gcm"
    before = airflow.runs(dag)
    found = by_form(airflow, dag, "speed", "fast", tmp_path / "first")
    assert "Invalid input for param speed: 'fast' does not match" in found["refused"]
    assert airflow.runs(dag) == before
    # The same hands, with what the form cannot know: a run begins, and says it.
    found = by_form(airflow, dag, "input", "/no/such/file", tmp_path / "second")
    assert found["refused"] is None
    (run,) = (each["dag_run_id"] for each in airflow.runs(dag) if each not in before)
    assert airflow.wait_for(dag, run) == "failed"
    assert "/no/such/file: No such file or directory" in airflow.log(dag, run, "prepare")


def test_a_slowdown_makes_the_nightly_run_red(airflow: ServedAirflow) -> None:
    dag, conf = "benchmark_nightly_compare", {"partitioners": ["pkg"], "partitions": [2]}
    first = by_command(airflow, dag, conf)
    assert airflow.wait_for(dag, first) == "success"
    assert airflow.said(dag, first, "compare")["previous"] is None
    # As if that night had been a thousand times faster.
    for path in (airflow.runs_dir / grid_id(dag, first) / "cells").iterdir():
        cell = json.loads(path.read_text())
        cell["delivered_per_s"] *= 1_000
        path.write_text(json.dumps(cell))
    second = by_command(airflow, dag, conf)
    assert airflow.wait_for(dag, second) == "failed"
    states = {each["task_id"]: each["state"] for each in airflow.tasks(dag, second)}
    assert states.pop("compare") == "failed"
    assert set(states.values()) == {"success"}
    assert "Regression: " in airflow.log(dag, second, "compare")
    cells = airflow.cells(grid_id(dag, second))
    assert len(cells) == 3
    assert all(cell["exact"] for cell in cells)


@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("dag", ["benchmark_tpch", "benchmark_gcm", "benchmark_wordcount"])
def test_a_benchmark_as_its_form_stands(airflow: ServedAirflow, dag: str) -> None:
    run = by_command(airflow, dag, {})
    assert airflow.wait_for(dag, run, seconds=1_700) == "success"
    grid = grid_id(dag, run)
    cells = airflow.cells(grid)
    assert len(cells) == len(BY_DEFAULT)
    assert {(cell["partitioner"], cell["partitions"]) for cell in cells} == BY_DEFAULT
    for cell in cells:
        assert cell["exact"], cell["differences"]
        assert cell["produced"] == cell["delivered"] == cell["on_time"] + cell["late"] > 0
    assert all(each["state"] == "success" for each in airflow.tasks(dag, run))
    report = (airflow.runs_dir / grid / "report.html").read_text()
    assert all(f">{cell['partitioner']}<" in report for cell in cells)
    (event,) = airflow.asset_events(dag, run)
    assert (event["name"], event["source_task_id"]) == (f"{dag}_results", "report")
    assert event["extra"]["grid"] == grid
    assert Path(event["extra"]["report"]) == airflow.runs_dir / grid / "report.html"
    assert not (airflow.runs_dir / grid / "work").exists()
    assert airflow.topics() == []
