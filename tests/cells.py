"""Cells as runs write them, for tests of what is shown of them."""

from __future__ import annotations

from typing import Any

from pipelines.benchmark.cell import Cell
from pipelines.benchmark.prepare import RunConfig


def make_cell(**changes: Any) -> Cell:
    """A cell of a small run; options of the configuration are changed with it."""
    base: dict[str, Any] = {
        "run_id": "run-1",
        "workload": "wordcount",
        "partitioner": "key_hash",
        "partitions": 2,
        "sources": 1,
        "shards": 1,
        "read": 100,
        "produced": 100,
        "delivered": 100,
        "ignored": 0,
        "dead": 0,
        "on_time": 100,
        "late": 0,
        "skipped": 0,
        "exact": True,
        "windows_compared": 3,
        "differences": [],
        "imbalance": 0.5,
        "replication_factor": 1.0,
        "fragmentation": 1.0,
        "records_per_partition": [75, 25],
        "partial_rows": 40,
        "load_over_time": {
            "slot_records": 64,
            "first_ms": [0, 64_000],
            "records": [[50, 14], [25, 11]],
        },
        "hot_keys": [{"key": "the", "share": 0.2, "num_partitions": 1}],
        "delivered_per_s": 1_000.0,
        "produce_seconds": 0.1,
        "total_seconds": 1.0,
        "latency_ms": {"p50": 10.0, "p95": 20.0, "p99": 30.0, "max": 40.0},
        "latency_curve_ms": [[0.0, 5.0], [0.5, 10.0], [0.99, 30.0], [1.0, 40.0]],
        "publish_delay_ms": dict.fromkeys(("p50", "p95", "p99", "max")),
        "combine_seconds_per_partition": [0.2, 0.1],
        "reduce_seconds_per_shard": [0.3],
        "state_rows": 5,
        "state_bytes": 1_000,
        "last_window": {},
        "repetition": 1,
        "versions": {"python": "3.11"},
        "machine": {"processors": 2, "memory_bytes": 2**34},
    }
    cell = {**base, **{name: value for name, value in changes.items() if name in Cell.__slots__}}
    config = RunConfig(
        run_id=cell["run_id"],
        workload=cell["workload"],
        inputs=("/data/in.txt.gz",),
        partitioner=cell["partitioner"],
        partitions=cell["partitions"],
        sources=cell["sources"],
        shards=cell["shards"],
    ).public()
    config |= {name: value for name, value in changes.items() if name not in Cell.__slots__}
    return Cell(**{"config": config, **cell})
