"""Every message of a topic is on time, late or dead: once, whatever the windows and the batches."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from streams import Engine, Row

from pipelines.aggregates import Max, Sum
from pipelines.json_records import JsonQuery
from pipelines.panes import Windows
from pipelines.sessions import Sessions

NO_RECORDS = (
    None,
    b"",
    b"no json",
    b"[1]",
    b'{"ts": 1}',
    b'{"user": "a", "price": 2}',
    b'{"ts": 1, "user": "a", "price": "x"}',
    b'{"ts": 1, "user": "a", "price": NaN}',
)


def messages(num_partitions: int, per_partition: int) -> tuple[list[list[Row]], int]:
    """Partitions with late and dead messages among the others, and how many are dead."""
    random = np.random.default_rng(8)
    partitions: list[list[Row]] = []
    for _ in range(num_partitions):
        times = np.arange(per_partition) * 50 - random.choice([0, 0, 0, 20_000], per_partition)
        rows: list[Row] = []
        for i, ts in enumerate(times.tolist()):
            record = {"ts": ts, "user": f"user-{i % 5}", "price": i % 7}
            rows.append((None, json.dumps(record).encode()))
        for place in random.integers(0, per_partition, 40).tolist():
            rows.insert(place, (None, NO_RECORDS[place % len(NO_RECORDS)]))
        partitions.append(rows)
    return partitions, 40 * num_partitions


@pytest.mark.parametrize("batch_rows", [150, 100_000])
@pytest.mark.parametrize(
    ("windows", "update_ms"),
    [
        (Windows(1_000, 1_000), 0),
        (Windows(1_000, 1_000), 3_000),
        ([Windows(3_000, 1_000), Windows(4_500, 4_500)], 0),
        (Sessions(800), 0),
    ],
)
def test_on_time_late_and_dead_are_all_that_was_sent(
    tmp_path: Path,
    windows: Windows | list[Windows] | Sessions,
    update_ms: int,
    batch_rows: int,
) -> None:
    partitions, dead = messages(num_partitions=3, per_partition=400)
    query = JsonQuery("test", (Sum("spent", "price"), Max("most", "price")), time="ts", key="user")
    engine = Engine(
        query,  # type: ignore[arg-type]
        windows,
        tmp_path,
        num_partitions=3,
        num_shards=2,
        progress="records",
        lateness_ms=500,
        update_ms=update_ms,
    )
    summary = engine.run(partitions, batch_rows)
    sent = [len(rows) for rows in partitions]
    assert summary.dead == dead
    assert summary.late > 50
    assert summary.on_time > 500
    assert summary.on_time + summary.late + summary.dead == sum(sent)
    assert summary.records == sum(summary.records_per_partition.values()) == sum(sent) - dead
