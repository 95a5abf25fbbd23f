"""The most profitable cells: against the oracle, and against the definition in plain loops."""

import csv
import gzip
from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from statistics import median

import pytest
from odd_lines import CASES, taxi
from workload_runs import run_workload

from partitioners.errors import InputError
from pipelines.benchmark.parts import check_run, shipped_config
from pipelines.workloads.debs_q2 import DebsQ2

WINDOW, PROFIT, SLIDE = 1800, 900, 60
SHIPPED = DebsQ2.default_input


def naive(lines: Sequence[str]) -> Iterator[tuple[int, list[tuple[str, float, float, int]]]]:
    """Of each window, in seconds: the ten best cells, by what is known when it ends."""
    trips = []
    for line, row in enumerate(csv.reader(lines)):
        ended = int(datetime.fromisoformat(row[3] + "+00:00").timestamp())
        x1, y1, x2, y2 = (int(Decimal(value) * 10**6) for value in row[6:10])
        cells = [
            (
                (2 * (x + 74913585) + 2993) // 5986 + 1,
                (1000 * (41474937 - y) + 1122889) // 2245778 + 1,
            )
            for x, y in ((x1, y1), (x2, y2))
        ]
        if all(1 <= x <= 600 and 1 <= y <= 600 for x, y in cells):
            names = [f"{x}.{y}" for x, y in cells]
            trips.append((ended, line, row[0], *names, Decimal(row[11]) + Decimal(row[14])))
    for end in range(trips[0][0] // SLIDE * SLIDE + SLIDE, trips[-1][0] + WINDOW + SLIDE, SLIDE):
        known = [trip for trip in trips if end - WINDOW <= trip[0] < end]
        taxis = {trip[2]: trip[4] for trip in known}
        empty: dict[str, int] = defaultdict(int)
        for cell in taxis.values():
            empty[cell] += 1
        profits, newest = defaultdict(list), {}
        last: dict[str, str] = {}
        for ended, line, name, begins, ends, profit in trips:
            if ended >= end:
                break
            left = last.get(name)
            last[name] = ends
            if ended < end - WINDOW:
                continue
            newest |= {cell: line for cell in (left, begins, ends) if cell}
            if ended >= end - PROFIT:
                profits[begins].append(profit)
        found = [
            (float(median(profits[cell]) / empty[cell]), newest[cell], cell)
            for cell in profits
            if empty[cell]
        ]
        found.sort(key=lambda each: (-each[0], -each[1]))
        yield (
            end - WINDOW,
            [(cell, at, float(median(profits[cell])), empty[cell]) for at, _, cell in found[:10]],
        )


@pytest.mark.parametrize("partitioner", ["key_hash", "hot_fill"])
def test_the_first_hour_is_as_defined(tmp_path: Path, partitioner: str) -> None:
    settings = {"partitions": 8, "shards": 3, "emit": "top"}
    found = run_workload("debs-q2", tmp_path, partitioner=partitioner, **settings)
    assert found.comparison.differences == []
    assert found.comparison.windows == 88
    assert (found.report.ignored, found.report.dead) == (185, 0)
    assert SHIPPED is not None
    with gzip.open(SHIPPED, "rt") as lines:
        wanted = [
            (start * 1000, rank, *row)
            for start, rows in naive(lines.read().splitlines())
            for rank, row in enumerate(rows, 1)
        ]
    columns = "start_ms, rank, cell, profitability, median_profit, empty_taxis"
    assert found.table(columns) == wanted
    assert len(wanted) > 600


@pytest.mark.parametrize("partitioner", ["pkg", "shuffle", "dalton"])
@pytest.mark.parametrize("emit", ["all", "changed", "top"])
def test_odd_lines_are_exact(tmp_path: Path, partitioner: str, emit: str) -> None:
    lines = [line for line, _ in CASES["debs-q2"]]
    settings = {"batch_records": 3, "emit": emit, "lateness_ms": 60_000}
    found = run_workload("debs-q2", tmp_path, lines=lines, partitioner=partitioner, **settings)
    assert found.comparison.differences == []
    assert len(found.dead) == sum(bool(reason) for _, reason in CASES["debs-q2"])


@pytest.mark.parametrize("batch_records", [1, 2, 1000])
@pytest.mark.parametrize("emit", ["all", "changed", "top"])
def test_a_taxi_is_empty_where_it_was_last(tmp_path: Path, batch_records: int, emit: str) -> None:
    lines = [
        taxi("A", "2013-01-01 00:00:10", fare="10"),
        taxi("B", "2013-01-01 00:03:00", fare="20"),
        taxi("A", "2013-01-01 00:20:00", fare="5").replace("-73.962440", "-73.98"),
        # Ended before the trip above: it pays, but leaves the taxi where it is.
        taxi("A", "2013-01-01 00:19:00", fare="7"),
        taxi("A", "2013-01-01 02:00:00", fare="-1.01"),
    ]
    found = run_workload(
        "debs-q2",
        tmp_path,
        lines=lines,
        emit=emit,
        batch_records=batch_records,
        lateness_ms=120_000,
    )
    assert found.comparison.differences == []
    assert found.report.late == 0
    if emit == "all":
        minutes = "(start_ms - epoch_ms(TIMESTAMP '2013-01-01')) // 60000"
        rows = found.table(f"{minutes}, cell, empty_taxis")
        empty = {minute: number for minute, cell, number in rows if cell == "319.339"}
        assert [empty[minute] for minute in (-29, -27, -26, -10, -9, 3, 4)] == [1, 1, 2, 2, 1, 1, 0]


def test_late_trips_are_counted_and_exact(tmp_path: Path) -> None:
    assert SHIPPED is not None
    with gzip.open(SHIPPED, "rt") as file:
        lines = file.read().splitlines()[:3000]
    # Every 50th line comes 400 lines later than it should.
    moved = [line for i, line in enumerate(lines) if i % 50]
    for i in range(0, len(lines), 50):
        moved.insert(min(i + 400, len(moved)), lines[i])
    settings = {"punctuation_records": 20, "emit": "all"}
    found = run_workload("debs-q2", tmp_path, lines=moved, partitioner="pkg", **settings)
    assert found.comparison.differences == []
    assert found.report.late > 50


def test_windows_that_do_not_fit_are_refused() -> None:
    config = shipped_config("x", "debs-q2", "pkg", 3, {"profit_ms": 90_000})
    with pytest.raises(InputError, match=r"do not fit windows of 1800000 ms .* profit_ms="):
        check_run(config)
    with pytest.raises(InputError, match="profit_ms must be from 1"):
        DebsQ2(profit_ms=0)
