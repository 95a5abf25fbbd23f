"""A workload in several windows at once: each kind is compared with the oracle by itself."""

from __future__ import annotations

import gzip
import itertools
from pathlib import Path
from typing import Any

import duckdb
import pytest
from workload_runs import run_workload

from pipelines.workloads import create_workload

MINUTE_MS = 60_000
DISORDERED = [f"{i * 500 - i * 7919 % 40_000},key-{i * i % 13},{i % 90 - 45}" for i in range(4_000)]


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("debs-q2", {"emit": "top", "partitioner": "pkg", "batch_records": 900}),
        ("gcm-q2", {"emit": "changed", "partitioner": "hot_fill", "slide_ms": MINUTE_MS}),
    ],
)
def test_each_kind_of_windows_is_exact(name: str, changes: dict[str, Any], tmp_path: Path) -> None:
    shipped = create_workload(name).default_input
    assert shipped is not None
    with gzip.open(shipped, "rt") as file:
        lines = [line.rstrip("\n") for line in itertools.islice(file, 800)]
    more = ((15 * MINUTE_MS, 15 * MINUTE_MS), (20 * MINUTE_MS, 2 * MINUTE_MS))
    outcome = run_workload(name, tmp_path, lines=lines, more_windows=more, **changes)
    assert outcome.comparison.differences == []
    sizes = duckdb.sql(
        "SELECT DISTINCT (epoch_ms(window_end) - epoch_ms(window_start)) // 60000 AS size "
        f"FROM '{outcome.folder}/*.parquet' ORDER BY size"
    ).fetchall()
    assert [size for (size,) in sizes] == [15, 20, 45 if name == "gcm-q2" else 30]


def test_records_are_late_where_they_miss_a_window_of_any_kind(tmp_path: Path) -> None:
    windows = {"window_ms": 60_000, "slide_ms": 20_000}
    late = []
    for number, more in enumerate([(), ((12_000, 3_000),), ((120_000, 120_000),)]):
        folder = tmp_path / str(number)
        folder.mkdir()
        outcome = run_workload(
            "keyed-sum",
            folder,
            lines=DISORDERED,
            lateness_ms=10_000,
            punctuation_records=50,
            more_windows=more,
            **windows,
        )
        assert outcome.comparison.differences == []
        late.append(outcome.report.late)
    assert late[1] > late[0] == late[2] > 0
