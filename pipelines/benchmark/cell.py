"""One cell of a benchmark: everything measured in one run of one workload and partitioner."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
from collections.abc import Collection
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from pipelines.key_names import redact_key

REPORTED_PACKAGES = (
    "keyspread",
    "confluent-kafka",
    "duckdb",
    "numba",
    "numpy",
    "polars",
    "pyarrow",
    "pyspark",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """The figures of one run; `read = produced + ignored + dead`, `produced = on_time + late`."""

    run_id: str
    workload: str
    partitioner: str
    partitions: int
    sources: int
    shards: int
    config: dict[str, Any]

    read: int  # lines or records in the input
    produced: int  # records handed to the client, watermark records left out
    delivered: int  # of these, acknowledged by the broker
    ignored: int  # well-formed, but not part of the query
    dead: int  # in dead-letters.jsonl
    on_time: int
    late: int
    skipped: int  # records an earlier attempt had delivered already
    exact: bool
    windows_compared: int
    differences: list[str]  # what differs from the oracle; the first few

    imbalance: float
    replication_factor: float
    fragmentation: float
    records_per_partition: list[int]
    partial_rows: int
    # `slot_records` of the stream each: `first_ms` (event time) and `records` of each partition.
    load_over_time: dict[str, Any] = field(default_factory=dict)
    # The hottest few keys: `key` (shown), `share` of all records, `num_partitions` it is on.
    hot_keys: list[dict[str, Any]] = field(default_factory=list)

    delivered_per_s: float
    produce_seconds: float  # from the first send to the last acknowledgement
    # From this attempt's first send to Spark's commit of the last results, so it holds all of the
    # seconds above and, where all was sent first, the query's start; 0: nothing sent, or not noted.
    consume_seconds: float = 0.0
    total_seconds: float
    latency_ms: dict[str, float | None]
    latency_curve_ms: list[list[float]] = field(default_factory=list)  # [share, latency] rising
    publish_delay_ms: dict[str, float | None]  # how far sends fell behind their schedule
    combine_seconds_per_partition: list[float]
    reduce_seconds_per_shard: list[float]
    state_rows: int
    state_bytes: int
    state_calls: int = 0  # of a shard in a batch, at most
    largest_lag_per_partition: list[int] = field(default_factory=list)  # records before a batch

    last_window: dict[str, Any]
    repetition: int = 1
    versions: dict[str, str] = field(default_factory=lambda: installed_versions())
    machine: dict[str, Any] = field(default_factory=lambda: this_machine())

    def to_json(self) -> str:
        """Give the cell as one JSON object on one line."""
        return json.dumps(asdict(self), default=str)

    @classmethod
    def from_json(cls, text: str) -> Cell:
        """Read a cell back.

        Args:
            text: What `to_json` gave.
        """
        return cls(**json.loads(text))

    def redacted(self, key_columns: Collection[str]) -> Cell:
        """Give the cell with hashes in place of keys.

        Args:
            key_columns: The columns of `last_window` that hold the key.
        """
        hot_keys = [{**hot, "key": redact_key(hot["key"])} for hot in self.hot_keys]
        last_window = dict(self.last_window)
        if "rows" in last_window:
            last_window["rows"] = [
                {
                    name: redact_key(value) if name in key_columns else value
                    for name, value in row.items()
                }
                for row in last_window["rows"]
            ]
        return replace(self, hot_keys=hot_keys, last_window=last_window, differences=self._shown())

    def _shown(self) -> list[str]:
        """The differences as far as they name no key."""
        return [f"{len(self.differences)} differences"] if self.differences else []

    def write(self, folder: Path) -> Path:
        """Write the cell to `cells/<workload>-<partitioner>-<partitions>-<repetition>.json`.

        Args:
            folder: The run's folder.
        """
        cells = folder / "cells"
        cells.mkdir(exist_ok=True)
        name = f"{self.workload}-{self.partitioner}-{self.partitions}-{self.repetition}.json"
        written = cells / f".{name}.tmp"
        written.write_text(self.to_json() + "\n", encoding="utf-8")
        return written.replace(cells / name)


def installed_versions() -> dict[str, str]:
    """Give the versions of what a run depends on."""
    versions = {"python": platform.python_version()}
    for package in REPORTED_PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            versions[package] = "not installed"
    return versions


def this_machine() -> dict[str, Any]:
    """Describe the machine as far as it bears on the figures."""
    import psutil

    return {
        "system": f"{platform.system()} {platform.release()}",
        "architecture": platform.machine(),
        "processors": os.cpu_count(),
        "memory_bytes": psutil.virtual_memory().total,
    }
