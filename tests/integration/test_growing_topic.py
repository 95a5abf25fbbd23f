"""Partitions are added to a topic while it is written and read."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.containers.traffic import Traffic

pytestmark = [pytest.mark.broker, pytest.mark.spark]


def test_partitions_added_under_load_lose_and_double_nothing(
    bootstrap: str, spark: SparkSession, tmp_path: Path
) -> None:
    # Windows wait for half a minute of event time, so that they are written all along.
    with Traffic(
        bootstrap,
        f"growing-{tmp_path.name}",
        spark,
        tmp_path,
        num_partitions=2,
        lateness_ms=30_000,
        metadata_refresh_s=0.5,
    ) as traffic:
        traffic.wait_for_windows()
        for num_partitions in (3, 7):
            traffic.grow(num_partitions)
            traffic.wait_for_windows()
    traffic.check()
