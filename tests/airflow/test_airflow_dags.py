"""The DAGs in Airflow itself: they parse, refuse bad parameters, and run to an exact cell."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pipelines.broker import EmbeddedBroker
from tests.integration.programs import ROOT

pytestmark = pytest.mark.airflow

BIN = ROOT / ".venv-airflow" / "bin"
DAG_IDS = [
    "benchmark_debs",
    "benchmark_gcm",
    "benchmark_nightly_compare",
    "benchmark_tpch",
    "benchmark_wordcount",
]
LOOK = Path(__file__).with_name("look_at_dags.py")
# What every DAG refuses, and with which words: something for each of its parameters.
REFUSED_BY_ALL = [
    ({"workload": "keyed-sum"}, "'keyed-sum' is not one of"),
    ({"partitioners": ["pgk"]}, "pgk"),
    ({"partitioners": []}, "partitioners"),
    ({"partitioners": ["pkg", "pkg"]}, "has non-unique elements"),
    ({"partitions": [0]}, "0 is less than the minimum of 1"),
    ({"partitions": ["many"]}, "'many' is not of type 'integer'"),
    ({"partitions": [4, 4]}, "has non-unique elements"),
    ({"sources": 3}, "3 is not of type 'array'"),
    ({"sources": [0]}, "0 is less than the minimum of 1"),
    ({"windows": ["30"]}, "'30' does not match"),
    ({"speed": "fast"}, "'fast' does not match"),
    ({"repetitions": 101}, "101 is greater than the maximum of 100"),
    ({"shards": 0}, "0 is less than the minimum of 1"),
    ({"input": ""}, "input"),
]
REFUSED = [(dag, *each) for dag in DAG_IDS for each in REFUSED_BY_ALL] + [
    # Workloads of another DAG.
    ("benchmark_debs", {"workload": "gcm-q1"}, "'gcm-q1' is not one of ['debs-q1'"),
    ("benchmark_gcm", {"workload": "wordcount"}, "'wordcount' is not one of ['gcm-q1'"),
    ("benchmark_nightly_compare", {"workload": "tpch-q1"}, "'tpch-q1' is not one of ['debs-q1'"),
    ("benchmark_tpch", {"workload": "debs-q1"}, "'debs-q1' is not one of ['tpch-q1'"),
    ("benchmark_wordcount", {"workload": "tpch-q6"}, "'tpch-q6' is not one of ['wordcount'"),
    ("benchmark_tpch", {"scale": 0}, "0 is less than the minimum of 0.001"),
    ("benchmark_tpch", {"scale": 1_001}, "1001 is greater than the maximum of 1000"),
    ("benchmark_tpch", {"scale": "big"}, "'big' is not of type 'number'"),
]


@pytest.fixture(scope="module")
def airflow(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of an Airflow with a database of its own."""
    home = tmp_path_factory.mktemp("airflow")
    settings = {
        **os.environ,
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "dags"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
        "KEYSPREAD_RUNS_DIR": str(home / "runs"),
    }
    run(settings, "airflow", "db", "migrate")
    run(settings, "airflow", "pools", "set", "keyspread", "1", "one at a time")
    return settings


def run(settings: dict[str, str], program: str, *arguments: str, good: bool | None = True) -> str:
    done = subprocess.run(
        [str(BIN / program), *arguments],
        env=settings,
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
    )
    assert good is None or (done.returncode == 0) is good, done.stdout + done.stderr
    return done.stdout + done.stderr


def listed(settings: dict[str, str], *command: str) -> list[dict[str, Any]]:
    """What a command of Airflow lists."""
    out = run(settings, "airflow", *command, "-o", "json")
    # Warnings may stand around it.
    found: list[dict[str, Any]] = json.JSONDecoder().raw_decode(out[out.index("[{") :])[0]
    return found


@pytest.fixture(scope="module")
def looked(airflow: dict[str, str]) -> dict[str, Any]:
    """What a DagBag sees."""
    asked = json.dumps([(dag, conf) for dag, conf, _ in REFUSED])
    out = run(airflow, "python", str(LOOK), asked)
    found: dict[str, Any] = json.loads(out.splitlines()[-1])
    return found


def test_every_dag_is_there_with_its_tasks(looked: dict[str, Any]) -> None:
    assert looked["import_errors"] == {}
    assert sorted(looked["dags"]) == DAG_IDS
    for dag_id, dag in looked["dags"].items():
        steps = ["cell", "clean", "prepare", "report", "topics", "verify"]
        if dag_id == "benchmark_nightly_compare":
            steps.insert(2, "compare")
        assert sorted(dag["tasks"]) == steps
        assert {task["pool"] for task in dag["tasks"].values()} == {"keyspread"}
        assert dag["tasks"]["cell"]["retries"] == 1
        assert dag["tasks"]["cell"]["mapped"]
        assert dag["tasks"]["report"]["teardown"]
        assert dag["tasks"]["clean"]["teardown"]
        assert dag["tasks"]["verify"]["trigger_rule"] == "all_done"
        assert dag["tasks"]["report"]["outlets"] == [f"{dag_id}_results"]
        assert dag["schedule"] is None
        assert not dag["paused_when_new"]


def test_schedules_come_by_a_setting(airflow: dict[str, str]) -> None:
    out = run({**airflow, "KEYSPREAD_SCHEDULES": "on"}, "python", str(LOOK))
    dags = json.loads(out.splitlines()[-1])["dags"]
    schedules = {dag_id: dag["schedule"] for dag_id, dag in dags.items()}
    assert schedules["benchmark_nightly_compare"] == "0 0 * * *"
    weekly = [schedule for schedule in schedules.values() if schedule.endswith("* * 1")]
    assert len(set(weekly)) == 4


def test_bad_parameters_are_refused_with_the_reason(looked: dict[str, Any]) -> None:
    said = list(zip(REFUSED, looked["refused"], strict=True))
    taken = [each for each, answer in said if answer is None]
    assert taken == []
    for (dag, conf, reason), answer in said:
        (name,) = conf
        assert reason in answer, (dag, conf)
        assert name in answer, (dag, conf)
    for dag, found in looked["dags"].items():
        refused = {name for of_dag, conf, _ in REFUSED for name in conf if of_dag == dag}
        assert refused == set(found["params"]), dag


def test_the_report_of_airflow_says_how_long_each_file_takes(airflow: dict[str, str]) -> None:
    files = listed(airflow, "dags", "report")
    assert sorted(each["file"] for each in files) == [f"{dag_id}.py" for dag_id in DAG_IDS]
    assert all(each["duration"] and each["dag_num"] == "1" for each in files)


@pytest.fixture(scope="module")
def served(airflow: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with EmbeddedBroker(tmp_path_factory.mktemp("broker")) as broker:
        yield {**airflow, "KEYSPREAD_BOOTSTRAP": broker.bootstrap}


def test_a_run_ends_with_exact_cells_and_a_report(served: dict[str, str], tmp_path: Path) -> None:
    lines = tmp_path / "words.txt"
    lines.write_text("one two two three three three\n" * 200)
    conf = {"partitioners": ["key_hash", "pkg"], "partitions": [2], "input": str(lines)}
    run(served, "airflow", "dags", "test", "benchmark_wordcount", "--conf", json.dumps(conf))
    (grid,) = Path(served["KEYSPREAD_RUNS_DIR"]).glob("benchmark-wordcount-*")
    cells = [json.loads(path.read_text()) for path in sorted((grid / "cells").iterdir())]
    assert [(cell["partitioner"], cell["exact"]) for cell in cells] == [
        ("key_hash", True),
        ("pkg", True),
    ]
    assert (grid / "report.html").is_file()
    assert not (grid / "work").exists()


def test_a_cell_that_fails_makes_the_run_red(served: dict[str, str], tmp_path: Path) -> None:
    # The first cell, and it alone, is told of servers that are not there.
    program, runs = tmp_path / "keyspread", tmp_path / "runs"
    program.write_text(
        '#!/bin/sh\nif [ "$2 $4" = "cell 1" ]; then KEYSPREAD_BOOTSTRAP=127.0.0.1:1; fi\n'
        f'exec {ROOT / ".venv" / "bin" / "keyspread"} "$@"\n'
    )
    program.chmod(0o755)
    settings = {**served, "KEYSPREAD_BIN": str(program), "KEYSPREAD_RUNS_DIR": str(runs)}
    # A DAG that no other test runs: its only run is this one.
    dag, conf = "benchmark_tpch", {"partitioners": ["key_hash", "pkg"], "partitions": [2]}
    run(settings, "airflow", "dags", "test", dag, "--conf", json.dumps(conf), good=None)
    (grid,) = runs.glob("benchmark-tpch-*")
    (cell,) = [json.loads(path.read_text()) for path in (grid / "cells").iterdir()]
    assert (cell["partitioner"], cell["exact"]) == ("pkg", True)
    assert "127.0.0.1:1" in json.loads((grid / "failures" / "1.json").read_text())["reason"]
    named = r"<li><strong>tpch-q1 key_hash, 2 partitions, [^<]*</strong>: [^<]*127\.0\.0\.1:1"
    report = (grid / "report.html").read_text()
    assert len(re.findall(named, report)) == report.count("<li><strong>") == 1
    assert not (grid / "work").exists()
    (begun,) = listed(settings, "dags", "list-runs", dag)
    assert begun["state"] == "failed"
    tasks = listed(settings, "tasks", "states-for-dag-run", dag, begun["run_id"])
    assert {each["task_id"] + each["map_index"]: each["state"] for each in tasks} == {
        "prepare": "success",
        "topics": "success",
        "cell0": "failed",
        "cell1": "success",
        "verify": "failed",
        "report": "success",
        "clean": "success",
    }


@pytest.mark.parametrize(
    ("conf", "reason"),
    [
        ({"input": "/no/such/file"}, "/no/such/file: No such file or directory"),
        ({"partitons": [2]}, 'no parameter "partitons": the DAG has input, partitioners'),
    ],
)
def test_what_no_schema_can_say_fails_the_first_task(
    served: dict[str, str], conf: dict[str, Any], reason: str
) -> None:
    conf_text = json.dumps(conf)
    # `dags test` ends with 0 also where the run has failed.
    out = run(served, "airflow", "dags", "test", "benchmark_gcm", "--conf", conf_text, good=None)
    assert reason in out
    assert not list(Path(served["KEYSPREAD_RUNS_DIR"]).glob("benchmark-gcm-*"))
