"""The compose stack itself: benchmarks triggered by REST, a worker killed, `down` and `up`."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.airflow.rest import RefusedError, grid_id
from tests.containers.compose_stack import WORDCOUNT, Stack
from tests.containers.versions import ROOT
from tests.containers.waiting import wait_until
from tests.dashboards import (
    BOARDS,
    RATE_INTERVAL,
    has_values,
    label_queries,
    panels,
    read_board,
)

pytestmark = pytest.mark.containers

# What a cancelled task may take to be gone with all that belonged to it.
CANCEL_SECONDS = 30.0
# What the stack may take from `up` until all is healthy, with its images built.
HEALTHY_SECONDS = 300.0


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    running = Stack(tmp_path_factory.mktemp("stack"))
    try:
        running.compose("up", "-d", "--build", "--wait", "--wait-timeout", "600")
        yield running
    finally:
        everything = ("--profile", "*", "down", "--volumes", "--remove-orphans", "--timeout", "20")
        running.compose(*everything, check=False)


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
    # Of the process itself, not `id -u`: the image of postgres begins as root and steps down.
    users = {service: stack.users(service) for service in stack.states()}
    assert {service for service, ids in users.items() if 0 in ids} == set()
    assert "postgres" in users


def test_airflow_reports_what_it_read(stack: Stack) -> None:
    report = ("airflow", "dags", "report", "-o", "plain")
    said = stack.compose("exec", "-T", "airflow-scheduler", *report).stdout
    read = re.findall(r"^(\w+\.py) +0:00:", said, re.MULTILINE)
    assert sorted(read) == sorted(path.name for path in (ROOT / "dags").glob("*.py"))


def test_a_benchmark_is_exact_and_its_report_is_there(stack: Stack) -> None:
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
def test_each_benchmark_is_exact(stack: Stack, dag: str, workload: str) -> None:
    run = stack.trigger(dag, workload=workload, partitioners=["pkg"], partitions=[4])
    assert stack.wait_for(dag, run) == "success"
    grid = grid_id(dag, run)
    (cell,) = stack.cells(grid)
    assert cell["exact"], cell["differences"]
    report = stack.report(f"{grid}/report.html")
    assert "<html" in report
    assert f">{workload}<" in report


def test_nothing_was_compiled_for_these(stack: Stack) -> None:
    assert len(stack.in_runs("*/cells/*.json")) >= 4
    for service in ("airflow-scheduler", "spark-worker-1", "spark-worker-2"):
        assert not [path for path in stack.changed(service) if path.endswith((".nbc", ".nbi"))]


def test_a_worker_killed_in_mid_cell(stack: Stack) -> None:
    run, grid = stack.in_mid_cell()
    # The only program of Spark is that of this cell.
    (program,) = stack.spark_applications()
    assert program in stack.executors("spark-worker-1")
    for java in ("airflow-scheduler", "spark-worker-1", "spark-worker-2"):
        assert stack.num_mapping(java, "/opt/keyspread/spark.jsa") == 1, java
    stack.compose("kill", "spark-worker-1")
    assert stack.spark_applications() == [program]
    assert stack.wait_for(WORDCOUNT, run) == "success"
    (cell,) = stack.cells(grid)
    assert cell["exact"], cell["differences"]
    assert cell["produced"] == cell["delivered"]
    assert stack.task(WORDCOUNT, run, "cell")["try_number"] == 1
    stack.compose("up", "-d", "--wait", "spark-worker-1")


def test_the_scheduler_restarted_in_mid_cell(stack: Stack) -> None:
    run, grid = stack.in_mid_cell()
    stack.compose("restart", "--timeout", "20", "airflow-scheduler")
    assert stack.wait_for(WORDCOUNT, run) == "success"
    (cell,) = stack.cells(grid)
    assert cell["exact"], cell["differences"]
    assert cell["produced"] == cell["delivered"]
    assert stack.topics() == []


def test_a_task_cancelled_leaves_nothing_after_half_a_minute(stack: Stack) -> None:
    run, grid = stack.in_mid_cell()
    checkpoint, cell = f"{grid}/work/1/checkpoint", f"grid cell {grid}"
    assert stack.spark_applications()
    assert stack.topics()
    assert cell in stack.processes("airflow-scheduler")
    stack.set_state(WORDCOUNT, run, "cell", "failed", map_index=0)

    def is_gone() -> bool:
        left = stack.spark_applications() or stack.topics() or stack.in_runs(checkpoint)
        return not left and cell not in stack.processes("airflow-scheduler")

    wait_until(is_gone, "gone", CANCEL_SECONDS)
    assert stack.wait_for(WORDCOUNT, run) == "failed"
    assert stack.task(WORDCOUNT, run, "report")["state"] == "success"
    assert "stopped by SIGTERM" in stack.report(f"{grid}/report.html")
    assert stack.in_runs(f"{grid}/work") == []


def see_panels(stack: Stack, board: dict[str, Any]) -> None:
    """See that Prometheus answers all that a dashboard asks, and that no panel stays empty."""
    values = {"__rate_interval": RATE_INTERVAL}
    for variable, (metric, label) in label_queries(board).items():
        (values[variable],) = stack.prometheus(f"label/{label}/values", {"match[]": metric})
    for panel in panels(board):
        wait_until(partial(has_values, panel, values, stack.values), f"values in {panel}", 60)


def test_prometheus_reads_a_run_and_spark(stack: Stack) -> None:
    # By name: with the whole profile came Grafana.
    stack.compose("up", "-d", "--wait", "--wait-timeout", "120", "prometheus")
    run, _grid = stack.in_mid_cell()

    def are_up() -> bool:
        targets = stack.prometheus("targets")["activeTargets"]
        found = sorted((each["labels"]["job"], each["health"]) for each in targets)
        jobs = ("keyspread", "prometheus", "spark", "spark", "spark-master")
        return found == [(job, "up") for job in jobs]

    wait_until(are_up, "up", 60)

    def is_counted() -> bool:
        found = stack.values("sum by (workload, partitioner) (keyspread_records_total)")
        return [each["metric"] for each in found] == [
            {"workload": "wordcount", "partitioner": "pkg"}
        ]

    wait_until(is_counted, "counted", 60)
    for path in BOARDS:
        see_panels(stack, read_board(path))

    def health_of_rules() -> set[tuple[str, str]]:
        groups = stack.prometheus("rules")["groups"]
        return {
            (Path(each["file"]).name, rule["health"]) for each in groups for rule in each["rules"]
        }

    # Each group is evaluated for the first time when its turn comes.
    fine = {("alerts.yml", "ok"), ("opentelemetry.yml", "ok")}
    wait_until(lambda: health_of_rules() == fine, "evaluated", 120)
    assert stack.wait_for(WORDCOUNT, run) == "success"
    stack.compose("--profile", "observability", "rm", "-s", "-f", "prometheus")


def test_two_runs_at_once_take_turns(stack: Stack) -> None:
    runs = [stack.trigger(WORDCOUNT, partitioners=["pkg"], partitions=[4]) for _ in range(2)]
    assert [stack.wait_for(WORDCOUNT, run) for run in runs] == ["success", "success"]
    for run in runs:
        (cell,) = stack.cells(grid_id(WORDCOUNT, run))
        assert cell["exact"], cell["differences"]
    first, second = sorted(runs, key=lambda run: stack.span(WORDCOUNT, run, "cell"))
    # What ends a run goes before the cells of another: nobody waits for others' with a report.
    assert stack.span(WORDCOUNT, first, "clean")[1] <= stack.span(WORDCOUNT, second, "cell")[0]
    assert stack.topics() == []


def test_the_nightly_run_compares_with_the_one_before(stack: Stack) -> None:
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


def test_down_and_up_keep_everything(
    stack: Stack, record_testsuite_property: Callable[[str, object], None]
) -> None:
    before = stack.rest("GET", f"/dags/{WORDCOUNT}/dagRuns")["dag_runs"]
    assert before
    stack.compose("down", "--timeout", "20")
    assert stack.states() == {}
    began = time.monotonic()
    # `--wait-timeout 300` alone would not do: compose counts anew at each service that others
    # wait for. So the call as a whole is ended after the five minutes that the stack may take.
    stack.compose("up", "-d", "--wait", "--wait-timeout", "300", seconds=HEALTHY_SECONDS)
    record_testsuite_property("healthy_after_s", round(time.monotonic() - began))
    assert stack.rest("GET", f"/dags/{WORDCOUNT}/dagRuns")["dag_runs"] == before
    first = min(before, key=lambda each: each["run_after"])["dag_run_id"]
    assert all(cell["exact"] for cell in stack.cells(grid_id(WORDCOUNT, first)))
