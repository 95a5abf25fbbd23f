"""Fare and distance of each taxi."""

from decimal import Decimal
from pathlib import Path

import pytest
from odd_lines import CASES, taxi
from workload_runs import run_workload


@pytest.mark.parametrize(
    ("name", "partitioner", "windows"), [("debs-fare", "cam", 36), ("debs-distance", "pkg", 103)]
)
def test_the_first_hour_is_exact(tmp_path: Path, name: str, partitioner: str, windows: int) -> None:
    found = run_workload(name, tmp_path, partitioner=partitioner, partitions=8, shards=3)
    assert found.comparison.differences == []
    assert found.comparison.windows == windows
    assert (found.report.produced, found.report.ignored, found.report.dead) == (10_799, 0, 0)


@pytest.mark.parametrize("partitioner", ["key_hash", "pkg", "shuffle", "hot_fill"])
@pytest.mark.parametrize("name", ["debs-fare", "debs-distance"])
@pytest.mark.parametrize("emit", ["all", "changed", "top"])
def test_odd_lines_are_exact(tmp_path: Path, name: str, partitioner: str, emit: str) -> None:
    lines = [line for line, _ in CASES[name]]
    settings = {"batch_records": 3, "emit": emit, "window_ms": 120_000, "slide_ms": 60_000}
    found = run_workload(name, tmp_path, lines=lines, partitioner=partitioner, **settings)
    assert found.comparison.differences == []
    assert len(found.dead) == sum(bool(reason) for _, reason in CASES[name])


def test_cents_add_up(tmp_path: Path) -> None:
    # In floating point 0.1 and 0.2 make 0.30000000000000004.
    lines = [taxi(fare="0.10"), taxi(fare="0.20"), taxi("M2", fare="-0.3")]
    lines.append(taxi(fare="100", dropoff="2013-01-01 02:00:00"))
    settings = {"window_ms": 7_200_000, "slide_ms": 7_200_000}
    found = run_workload("debs-fare", tmp_path, lines=lines, **settings)
    assert found.table("window_start::VARCHAR, medallion, total_fare, count") == [
        ("2013-01-01 00:00:00+00", "M1", Decimal("0.30"), 2),
        ("2013-01-01 00:00:00+00", "M2", Decimal("-0.30"), 1),
        ("2013-01-01 02:00:00+00", "M1", Decimal("100.00"), 1),
    ]
