"""The compose stack itself: benchmarks triggered by REST, a worker killed, `down` and `up`."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.containers.compose_stack import RefusedError, Stack
from tests.containers.versions import ROOT
from tests.containers.waiting import wait_until

pytestmark = pytest.mark.containers

WORDCOUNT = "benchmark_wordcount"


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    running = Stack(tmp_path_factory.mktemp("stack"))
    try:
        running.compose("up", "-d", "--build", "--wait", "--wait-timeout", "600")
        yield running
    finally:
        running.compose("down", "--volumes", "--timeout", "20", check=False)


@pytest.fixture(scope="module")
def grid_id():
    """How the DAGs name the grid of a run."""
    sys.path.insert(0, str(ROOT / "dags"))
    try:
        return importlib.import_module("keyspread_dags.command").grid_id
    finally:
        sys.path.remove(str(ROOT / "dags"))


def test_without_passwords_it_says_what_to_do(tmp_path) -> None:
    empty = tmp_path / "empty.env"
    empty.touch()
    ran = subprocess.run(
        ["docker", "compose", "--env-file", empty, "config"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode != 0
    assert 'run "make secrets" once' in ran.stderr


def test_all_is_healthy(stack: Stack) -> None:
    states = stack.states()
    assert len(states) == 10
    assert set(states.values()) == {"healthy"}


def test_nothing_runs_as_root(stack: Stack) -> None:
    for service in stack.states():
        if service != "postgres":  # its image steps down by itself
            user = stack.compose("exec", "-T", service, "id", "-u").stdout.strip()
            assert user not in ("", "0"), service


def test_a_benchmark_is_exact_and_its_report_is_there(stack: Stack, grid_id) -> None:
    run = stack.trigger(WORDCOUNT, partitioners=["key_hash", "hot_fill"], partitions=[4])
    assert stack.wait_for(WORDCOUNT, run) == "success"
    grid = grid_id(WORDCOUNT, run)
    cells = stack.cells(grid)
    assert {cell["partitioner"] for cell in cells} == {"key_hash", "hot_fill"}
    assert all(cell["exact"] and cell["produced"] == cell["delivered"] > 0 for cell in cells)
    assert "<html" in stack.report(f"{grid}/report.html")


@pytest.mark.parametrize(
    ("dag", "workload"),
    [
        ("benchmark_debs", "debs-q1"),
        ("benchmark_gcm", "gcm-q1"),
        ("benchmark_tpch", "tpch-q6"),
    ],
)
def test_each_benchmark_is_exact(stack: Stack, grid_id, dag: str, workload: str) -> None:
    run = stack.trigger(dag, workload=workload, partitioners=["pkg"], partitions=[4])
    assert stack.wait_for(dag, run) == "success"
    (cell,) = stack.cells(grid_id(dag, run))
    assert cell["exact"], cell["differences"]


def test_a_worker_killed_in_mid_cell(stack: Stack, grid_id) -> None:
    run = stack.trigger(WORDCOUNT, partitioners=["pkg"], partitions=[4], speed="4000/s")
    grid = grid_id(WORDCOUNT, run)
    commits = f"{grid}/work/1/checkpoint/commits/[0-9]*"
    wait_until(lambda: len(stack.in_runs(commits)) >= 1, "a first batch", 300, every=1)
    stack.compose("kill", "spark-worker-1")
    assert stack.wait_for(WORDCOUNT, run) == "success"
    (cell,) = stack.cells(grid)
    assert cell["exact"], cell["differences"]
    assert cell["produced"] == cell["delivered"]
    stack.compose("up", "-d", "--wait", "spark-worker-1")


def test_the_scheduler_restarted_in_mid_cell(stack: Stack, grid_id) -> None:
    run = stack.trigger(WORDCOUNT, partitioners=["pkg"], partitions=[4], speed="4000/s")
    grid = grid_id(WORDCOUNT, run)
    commits = f"{grid}/work/1/checkpoint/commits/[0-9]*"
    wait_until(lambda: len(stack.in_runs(commits)) >= 1, "a first batch", 300, every=1)
    stack.compose("restart", "--timeout", "20", "airflow-scheduler")
    assert stack.wait_for(WORDCOUNT, run) == "success"
    (cell,) = stack.cells(grid)
    assert cell["exact"], cell["differences"]
    assert cell["produced"] == cell["delivered"]
    assert stack.topics() == []


def test_two_runs_at_once_take_turns(stack: Stack, grid_id) -> None:
    runs = [stack.trigger(WORDCOUNT, partitioners=["pkg"], partitions=[4]) for _ in range(2)]
    assert [stack.wait_for(WORDCOUNT, run) for run in runs] == ["success", "success"]
    for run in runs:
        (cell,) = stack.cells(grid_id(WORDCOUNT, run))
        assert cell["exact"], cell["differences"]
    spans = [stack.span(WORDCOUNT, run, "cell") for run in runs]
    (_, end), (begin, _) = sorted(spans)
    assert end <= begin
    assert stack.topics() == []


def test_the_nightly_run_compares_with_the_one_before(stack: Stack, grid_id) -> None:
    # One repetition has no noise to exceed: slower is then no regression.
    dag, params = "benchmark_nightly_compare", {"partitioners": ["pkg"], "repetitions": 1}
    runs = []
    for _night in range(2):
        runs.append(stack.trigger(dag, **params))
        assert stack.wait_for(dag, runs[-1]) == "success"
    assert stack.cells(grid_id(dag, runs[1]))[0]["exact"]
    compared = stack.said(dag, runs[1], "compare")
    assert compared["regression"] is False
    assert grid_id(dag, runs[0]) in json.dumps(compared)
    assert stack.said(dag, runs[0], "compare")["previous"] is None


def test_executors_with_another_python_are_refused(stack: Stack) -> None:
    ran = stack.compose(
        *("exec", "-T", "-e", "PYSPARK_PYTHON=/usr/bin/python3", "airflow-scheduler"),
        *("keyspread", "run", "wordcount"),
        check=False,
    )
    assert ran.returncode == 2, ran.stderr
    assert "have no Python package 'pipelines'" in ran.stderr
    assert "make executor-env" in ran.stderr


@pytest.mark.parametrize(
    ("params", "reason"),
    [
        ({"partitioners": ["magic"]}, "magic"),
        ({"partitions": [0]}, "partitions"),
        ({"speed": "fast"}, "speed"),
    ],
)
def test_bad_parameters_are_refused(stack: Stack, params, reason: str) -> None:
    with pytest.raises(RefusedError, match=rf"(?s)^4\d\d .*{reason}"):
        stack.trigger(WORDCOUNT, **params)


def test_down_and_up_keep_everything(stack: Stack, grid_id) -> None:
    before = stack.rest("GET", f"/dags/{WORDCOUNT}/dagRuns")["dag_runs"]
    assert before
    stack.compose("down", "--timeout", "20")
    assert stack.states() == {}
    stack.compose("up", "-d", "--wait", "--wait-timeout", "300")
    assert stack.rest("GET", f"/dags/{WORDCOUNT}/dagRuns")["dag_runs"] == before
    first = min(before, key=lambda each: each["run_after"])["dag_run_id"]
    assert all(cell["exact"] for cell in stack.cells(grid_id(WORDCOUNT, first)))
