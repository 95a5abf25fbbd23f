"""Grids with the real broker and the real Spark: exact cells, tries anew, and nothing left."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from partitioners.kafka import ensure_topic
from pipelines.broker import EmbeddedBroker
from tests.integration.programs import Program, keyed_lines, run_json

pytestmark = [pytest.mark.broker, pytest.mark.spark]

NUM_RECORDS = 3_000


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    return keyed_lines(tmp_path / "in.csv", NUM_RECORDS)


@pytest.fixture
def where(broker: EmbeddedBroker, tmp_path: Path) -> Iterator[tuple[object, ...]]:
    """The options that say where; no topic of the grid `g` is left in the end."""
    yield ("--bootstrap", broker.bootstrap, "--runs-dir", tmp_path / "runs")
    assert not topics_of("g", broker.bootstrap)


def topics_of(grid: str, bootstrap: str) -> list[str]:
    client = AdminClient({"bootstrap.servers": bootstrap})
    return [name for name in client.list_topics(timeout=10).topics if f"-{grid}-" in name]


def plan(lines: Path, where: tuple[object, ...], *more: object) -> dict[str, Any]:
    return run_json(
        *("grid", "plan", "keyed-sum", "--input", lines, "--id", "g", *where),
        *("--windows", "10 s/2 s", "--partitions", 2, *more),
    )


def test_a_grid_is_run_and_a_failed_cell_stops_no_other(
    lines: Path, where: tuple[object, ...], broker: EmbeddedBroker, tmp_path: Path
) -> None:
    """One cell cannot be run because its topic cannot be made."""
    both = ("--partitioner", "key_hash", "--partitioner", "hot_fill")
    assert [cell["number"] for cell in plan(lines, where, *both)["cells"]] == [1, 2]
    found = json.loads((tmp_path / "runs" / "g" / "grid.json").read_text())
    found["cells"][0]["config"]["run_id"] = "no name for a topic"
    (tmp_path / "runs" / "g" / "grid.json").write_text(json.dumps(found))

    program = Program("grid", "run", "--resume", "g", *where, "--json")
    code, out, err = program.finish()
    assert code == 1, err
    assert program.survivors() == []
    result = json.loads(out)
    assert [cell["partitioner"] for cell in result["cells"]] == ["hot_fill"]
    assert all(cell["exact"] for cell in result["cells"])
    (problem,) = result["problems"]
    assert problem["number"] == 1
    assert "no name for a topic" in problem["reason"]
    assert Path(result["report"]).is_file()
    kept = {path.name for path in (tmp_path / "runs" / "g").iterdir()}
    assert kept == {"grid.json", "cells", "failures", "report.html", "run.lock"}


def test_a_cell_is_tried_anew_and_stopped_without_a_trace(
    lines: Path, where: tuple[object, ...], broker: EmbeddedBroker, tmp_path: Path
) -> None:
    plan(lines, where, "--partitioner", "pkg", "--rate", 1_000)
    folder = tmp_path / "runs" / "g"
    # What an earlier try left: a topic with other partitions, and files of a checkpoint.
    ensure_topic({"bootstrap.servers": broker.bootstrap}, "keyed-sum-g-1", 5)
    (folder / "work" / "1" / "checkpoint").mkdir(parents=True)
    (folder / "work" / "1" / "checkpoint" / "offsets").write_text("of another topic")

    program = Program("grid", "cell", "g", 1, *where)
    commits = folder / "work" / "1" / "checkpoint" / "commits"
    program.wait_until(lambda: commits.is_dir() and any(commits.iterdir()), "a first batch")
    assert topics_of("g", broker.bootstrap)
    code, _, err = program.stop(signal.SIGTERM)
    assert code == 143
    assert "stopped by SIGTERM" in err
    assert program.survivors() == []
    assert not topics_of("g", broker.bootstrap)
    assert [path.name for path in (folder / "work" / "1").iterdir()] == ["run.lock"]
    assert json.loads((folder / "failures" / "1.json").read_text())["reason"] == (
        "stopped by SIGTERM"
    )

    cell = run_json("grid", "cell", "g", 1, *where)
    assert cell["exact"]
    assert cell["produced"] == cell["delivered"] == NUM_RECORDS
    assert (cell["partitions"], cell["run_id"]) == (2, "g-1")
    assert cell == json.loads((folder / "cells" / "1.json").read_text())
    assert not (folder / "failures" / "1.json").exists()
    assert not list((folder / "work").iterdir())
    assert run_json("grid", "check", "g", "--runs-dir", folder.parent)["problems"] == []


def test_topics_are_tried_and_left_overs_removed(
    lines: Path, where: tuple[object, ...], broker: EmbeddedBroker
) -> None:
    plan(lines, where)
    ensure_topic({"bootstrap.servers": broker.bootstrap}, "keyed-sum-g-1", 5)
    assert run_json("grid", "topics", "g", *where)["topics"] == ["keyed-sum-g-1"]
    assert not topics_of("g", broker.bootstrap)
    ensure_topic({"bootstrap.servers": broker.bootstrap}, "keyed-sum-g-1", 5)
    assert run_json("grid", "clean", "g", *where)["topics"] == ["keyed-sum-g-1"]
