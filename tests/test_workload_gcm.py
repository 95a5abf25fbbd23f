"""Both queries over the Google cluster trace."""

import csv
import gzip
from decimal import Decimal
from pathlib import Path

import pytest
from odd_lines import CASES, event
from workload_runs import run_workload

EXPECTED = Path(__file__).parent / "data" / "gcm_expected_q1_60s_1s.csv.gz"


def test_q1_equals_the_published_sums_of_every_window(tmp_path: Path) -> None:
    found = run_workload("gcm-q1", tmp_path, partitioner="pkg", partitions=5)
    with gzip.open(EXPECTED, "rt") as file:
        expected = [
            (
                int(row["window_start_s"]) * 1000,
                int(row["scheduling_class"]),
                Decimal(row["sum_cpu"]),
                int(row["count"]),
            )
            for row in csv.DictReader(file)
        ]
    assert found.table("start_ms, scheduling_class, total_cpu, count") == sorted(expected)
    assert len(expected) == 2_701
    assert found.comparison.exact
    assert (found.report.produced, found.report.ignored, found.report.dead) == (16_385, 0, 0)


def test_q2_means_of_45_minutes_by_the_second(tmp_path: Path) -> None:
    found = run_workload("gcm-q2", tmp_path, partitioner="cam", emit="changed")
    assert found.comparison.differences == []
    assert found.comparison.windows > 3_300


@pytest.mark.parametrize("partitioner", ["key_hash", "pkg", "shuffle", "hot_fill"])
@pytest.mark.parametrize("name", ["gcm-q1", "gcm-q2"])
def test_odd_lines_are_exact(tmp_path: Path, name: str, partitioner: str) -> None:
    lines = [line for line, _ in CASES[name]] * 3
    settings = {"window_ms": 60_000, "slide_ms": 20_000, "batch_records": 7}
    found = run_workload(name, tmp_path, lines=lines, partitioner=partitioner, **settings)
    assert found.comparison.differences == []
    assert found.report.ignored == 3 * 3
    assert len(found.dead) == 3 * sum(bool(reason) for _, reason in CASES[name])


def test_a_worked_example(tmp_path: Path) -> None:
    lines = [
        event("0.1"),
        event("0.2", "2"),
        event("0.2"),
        event("0.25", ""),
        event("", "2"),  # states no request, so it is in no count
        event("0.3").replace("5000000", "6000000", 1),
    ]
    tumbling = {"window_ms": 1_000, "slide_ms": 1_000}
    found = run_workload("gcm-q1", tmp_path, lines=lines, **tumbling)
    assert found.table("start_ms, scheduling_class, total_cpu::VARCHAR, count") == [
        (5_000, 0, "0.300000000", 2),
        (5_000, 2, "0.200000000", 1),
        (5_000, None, "0.250000000", 1),
        (6_000, 0, "0.300000000", 1),
    ]
    (tmp_path / "q2").mkdir()
    means = run_workload("gcm-q2", tmp_path / "q2", lines=lines, **tumbling)
    # 0.1 + 0.2 + 0.2 + 0.25 in floating point, divided by 4, need not be 0.1875.
    assert means.table("start_ms, mean_cpu, count") == [(5_000, 0.1875, 4), (6_000, 0.3, 1)]


def test_the_top_of_equal_counts_is_by_the_digits_of_the_key(tmp_path: Path) -> None:
    jobs = ["9", "10", "100", "11", "1000000000"] * 2 + ["8"] * 3
    lines = [f"5000000,,{job},0,1,4,u,0,2,0.1,0,0,0" for job in jobs]
    settings = {"window_ms": 1_000, "slide_ms": 1_000, "emit": "top", "top": 4}
    found = run_workload("gcm-q2", tmp_path, lines=lines, **settings)
    assert found.comparison.exact
    assert [row[0] for row in found.table("job_id")] == [8, 10, 100, 1_000_000_000]
