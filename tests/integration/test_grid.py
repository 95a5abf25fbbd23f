"""Grids with the real broker and the real Spark: exact cells, tries anew, and nothing left."""

from __future__ import annotations

import contextlib
import json
import signal
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession
from rich.console import Console

from partitioners.errors import InputError
from partitioners.kafka import ensure_topic
from partitioners.stream_names import parse_named
from pipelines.benchmark.cell import Cell
from pipelines.benchmark.grid.cells import Place, run_cell, run_cells
from pipelines.benchmark.grid.folder import GridFolder, find_grid, make_grid_folder
from pipelines.benchmark.grid.plan import Axes, make_plan
from pipelines.benchmark.grid.steps import clean, open_numbers, prepare_topics, problems
from pipelines.benchmark.html_report import write_report
from pipelines.benchmark.site import Site
from pipelines.broker import EmbeddedBroker
from pipelines.commands.configure import make_config
from pipelines.topics import client_settings, try_topics
from tests.integration.programs import Program, keyed_lines

pytestmark = [pytest.mark.broker, pytest.mark.spark]

NUM_RECORDS = 3_000


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    return keyed_lines(tmp_path / "in.csv", NUM_RECORDS)


@pytest.fixture
def place(broker: EmbeddedBroker, spark: SparkSession) -> Place:
    """The broker and the Spark that all tests share."""
    settings = client_settings(broker.bootstrap, {})
    shared = Site(broker.bootstrap, settings, spark, ())
    return Place(
        bootstrap=broker.bootstrap,
        kafka={},
        master=None,
        console=Console(quiet=True),
        quiet=True,
        open_site=lambda **_wanted: contextlib.nullcontext(shared),
    )


@pytest.fixture
def where(broker: EmbeddedBroker, tmp_path: Path) -> Iterator[tuple[object, ...]]:
    """The options that say where; no topic of the grid `g` is left in the end."""
    yield ("--bootstrap", broker.bootstrap, "--runs-dir", tmp_path / "runs")
    assert not topics_of("g", broker.bootstrap)


def topics_of(grid: str, bootstrap: str) -> list[str]:
    client = AdminClient({"bootstrap.servers": bootstrap})
    return [name for name in client.list_topics(timeout=10).topics if f"-{grid}-" in name]


def planned(runs: Path, lines: Path, *partitioners: str, **changes: Any) -> GridFolder:
    """Plan the grid `g`."""
    base = make_config(
        "keyed-sum",
        run_id="grid",
        inputs=[lines],
        encoding="auto",
        workload_option=None,
        window_ms=10_000,
        slide_ms=2_000,
        pace=("max", 0.0),
        emit=None,
        top=None,
        partitioner="key_hash",
        partitions=2,
    )
    axes = Axes(partitioners=[parse_named(name) for name in partitioners])
    return make_grid_folder(runs, make_plan("g", replace(base, **changes), axes))


def test_a_cell_that_fails_stops_no_other(
    lines: Path, where: tuple[object, ...], place: Place, tmp_path: Path
) -> None:
    """The topic of one cannot be made."""
    grid = planned(tmp_path / "runs", lines, "key_hash", "hot_fill")
    found = json.loads((grid.path / "grid.json").read_text())
    found["cells"][0]["config"]["run_id"] = "no name for a topic"
    (grid.path / "grid.json").write_text(json.dumps(found))
    grid = find_grid(grid.path.parent, "g")

    opened: list[str] = []

    def counted(**wanted: Any) -> AbstractContextManager[Site]:
        opened.append(wanted["master"])
        return place.open_site(**wanted)

    done: list[Cell] = []
    run_cells(grid, open_numbers(grid), replace(place, open_site=counted), on_cell=done.append)
    assert [(cell.partitioner, cell.exact) for cell in done] == [("hot_fill", True)]
    assert len(opened) == 2, "the cell after the one that failed gets a new site"
    assert [problem.number for problem in problems(grid)] == open_numbers(grid) == [1]
    assert "no name for a topic" in problems(grid)[0].reason
    write_report(grid.path)
    assert clean(grid, place) == []
    kept = {path.name for path in grid.path.iterdir()}
    assert kept == {"grid.json", "cells", "failures", "report.html", "run.lock"}


def test_a_cell_is_tried_anew_and_stopped_without_a_trace(
    lines: Path,
    where: tuple[object, ...],
    place: Place,
    broker: EmbeddedBroker,
    tmp_path: Path,
) -> None:
    grid = planned(tmp_path / "runs", lines, "pkg", pace="rate", pace_value=1_000.0)
    work = grid.work_path(1)
    # What an earlier try left: a topic with other partitions, and files of a checkpoint.
    ensure_topic({"bootstrap.servers": broker.bootstrap}, "keyed-sum-g-1", 5)
    (work / "checkpoint").mkdir(parents=True)
    (work / "checkpoint" / "offsets").write_text("of another topic")

    program = Program("grid", "cell", "g", 1, *where)
    commits = work / "checkpoint" / "commits"
    program.wait_until(lambda: commits.is_dir() and any(commits.iterdir()), "a first batch")
    assert topics_of("g", broker.bootstrap)
    code, _, err = program.stop(signal.SIGTERM)
    assert code == 143
    assert "stopped by SIGTERM" in err
    assert program.survivors() == []
    assert not topics_of("g", broker.bootstrap)
    assert [path.name for path in work.iterdir()] == ["run.lock"]
    failure = grid.read_failure(1)
    assert failure is not None
    assert failure["reason"] == "stopped by SIGTERM"

    cell = run_cell(grid, 1, place)
    assert cell.exact
    assert cell.produced == cell.delivered == NUM_RECORDS
    assert (cell.partitions, cell.run_id) == (2, "g-1")
    kept = grid.read_cell(1)
    assert kept is not None
    assert kept.to_json() == cell.to_json()
    assert grid.read_failure(1) is None
    assert not list((grid.path / "work").iterdir())
    assert problems(grid) == []


def test_topics_are_tried_and_left_overs_removed(
    lines: Path,
    where: tuple[object, ...],
    place: Place,
    broker: EmbeddedBroker,
    tmp_path: Path,
) -> None:
    grid = planned(tmp_path / "runs", lines)
    client = {"bootstrap.servers": broker.bootstrap}
    ensure_topic(client, "keyed-sum-g-1", 5)
    assert prepare_topics(grid, place) == ["keyed-sum-g-1"]
    assert not topics_of("g", broker.bootstrap)
    ensure_topic(client, "keyed-sum-g-1", 5)
    assert clean(grid, place) == ["keyed-sum-g-1"]
    with pytest.raises(InputError, match=r"cannot create topic .* with 100001 partitions"):
        try_topics(client, {"keyed-sum-g-1": 100_001})
