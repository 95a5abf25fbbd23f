"""Runs the combiner and the reducers on given records, batch by batch, without Spark or Kafka."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.batch_log import BatchLog
from pipelines.combine import Combiner
from pipelines.events import EventReducer, PerEvent
from pipelines.panes import Windows
from pipelines.plan import WindowPlan
from pipelines.punctuation import END_MS, encode_watermark
from pipelines.reduce import ShardReducer
from pipelines.sessions import SessionReducer, Sessions, with_times
from pipelines.sinks import ParquetSink, ResultWriter
from pipelines.summary import QuerySummary, batch_record
from pipelines.workloads import Workload

Row = tuple[bytes | None, bytes | None]


class MemoryStore:
    """A state store in a dict that counts its calls."""

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}
        self.calls = 0

    def get(self, name: str) -> bytes | None:
        self.calls += 1
        return self.values.get(name)

    def put(self, name: str, value: bytes) -> None:
        self.calls += 1
        self.values[name] = value

    def remove(self, name: str) -> None:
        self.calls += 1
        del self.values[name]


@dataclasses.dataclass
class Engine:
    """The engine's stages on Python lists of rows."""

    workload: Workload
    windows: Windows | Sequence[Windows] | Sessions | PerEvent
    folder: Path
    num_partitions: int = 1
    num_shards: int = 1
    emit: str = "all"
    k: int = 10
    progress: str = "watermarks"
    lateness_ms: int = 0
    arrow_rows: int = 1000
    update_ms: int = 0

    def __post_init__(self) -> None:
        self.plan: Any
        if isinstance(self.windows, PerEvent):
            self.plan = self.windows
        elif isinstance(self.windows, Sessions):
            self.plan, self.workload = self.windows, with_times(self.workload)
        else:
            self.plan = WindowPlan.of(self.windows, self.workload.aggregates)
        by_records = self.progress == "records"
        self.combiner = Combiner(
            self.workload,
            self.plan,
            self.num_shards,
            self.lateness_ms if by_records else None,
            update_ms=self.update_ms,
        )
        holding = None if by_records else self.num_partitions
        self.reducer: Any = ShardReducer(
            self.workload.aggregates, self.plan, holding, self.emit, self.k, self.update_ms
        )
        if isinstance(self.plan, Sessions):
            self.reducer = SessionReducer(self.workload.aggregates, self.plan, holding)
        elif isinstance(self.plan, PerEvent):
            self.reducer = EventReducer(self.workload.aggregates, self.plan, self.num_partitions)
        self.writer = ResultWriter(
            (ParquetSink(self.folder),),
            self.workload,
            self.plan.windows,
            self.emit,
            self.k,
            self.update_ms > 0,
        )
        self.stores = [MemoryStore() for _ in range(self.num_shards)]
        self.summary = QuerySummary()
        self.batch_id = 0

    def batch(self, rows: Sequence[Sequence[Row]]) -> None:
        """Process one batch: new rows of each partition."""
        combined = [
            row
            for partition, part in enumerate(rows)
            for row in self.combiner.run(arrow_batches(part, partition, self.arrow_rows))
        ]
        shards, tops, written = [], [], 0
        for shard, store in enumerate(self.stores):
            mine = [row for row in combined if row.shard == shard]
            if not mine:
                continue
            store.calls = 0
            output = self.reducer.process(store, mine)
            if self.emit == "top":
                tops += output.blobs
            elif output.blobs:
                written += self.writer.write_shard(output.blobs, self.batch_id, shard)
            times = {"total_seconds": 0.0, "sink_seconds": 0.0}
            shards.append({"shard": shard, **output.summary, "state_calls": store.calls, **times})
        written += self.writer.write_top(tops, self.batch_id) if tops else 0
        order = self.workload.aggregates.order_rows
        entry = batch_record(self.batch_id, shards, written, self.batch_id, self.k, order)
        BatchLog(self.folder).write(entry)
        self.summary.add(entry, self.plan.windows, self.workload)
        self.batch_id += 1

    def run(self, partitions: Sequence[Sequence[Row]], batch_rows: int) -> QuerySummary:
        """Process whole partitions, at most `batch_rows` rows of each per batch."""
        longest = max(len(rows) for rows in partitions)
        for low in range(0, longest, batch_rows):
            self.batch([rows[low : low + batch_rows] for rows in partitions])
        return self.summary

    def results(self) -> list[dict[str, Any]]:
        return read_results(self.folder)


def arrow_batches(rows: Sequence[Row], partition: int, size: int) -> Iterator[pa.RecordBatch]:
    for low in range(0, len(rows), size):
        part = rows[low : low + size]
        yield pa.RecordBatch.from_pydict(
            {
                "key": pa.array([key for key, _ in part], type=pa.binary()),
                "value": pa.array([value for _, value in part], type=pa.binary()),
                "partition": pa.array([partition] * len(part), type=pa.int32()),
            }
        )


def read_results(folder: Path) -> list[dict[str, Any]]:
    """All result rows, in an order of their own."""
    files = sorted(folder.glob("*.parquet"))
    if not files:
        return []
    rows = pa.concat_tables([pq.read_table(file) for file in files]).to_pylist()
    return sorted(rows, key=lambda row: [(value is not None, value) for value in row.values()])


def out_of_order(num_records: int, span_ms: int, jitter_ms: int, seed: int = 0) -> list[int]:
    """Times that grow but for a jitter; some are negative."""
    random = np.random.default_rng(seed)
    times = np.sort(random.integers(-span_ms // 4, span_ms, num_records))
    return (times - random.integers(0, jitter_ms + 1, num_records)).tolist()


def keyed(times: Sequence[int], seed: int) -> list[Row]:
    """Records `ts,-,x` of seven keys, skewed."""
    random = np.random.default_rng(seed)
    keys = random.zipf(1.4, len(times)).tolist()
    xs = random.integers(-5, 6, len(times)).tolist()
    return [
        (b"k%d" % (key % 7), b"%d,-,%d" % (time, x))
        for time, key, x in zip(times, keys, xs, strict=True)
    ]


def deal(
    rows: Sequence[Row],
    timestamps: Sequence[int],
    num_partitions: int,
    *,
    slide_ms: int,
    lateness_ms: int = 0,
    every: int = 100,
    seed: int = 0,
) -> list[list[Row]]:
    """Deal rows to partitions at random, with watermark records as a replay sends them."""
    random = np.random.default_rng(seed)
    partitions: list[list[Row]] = [[] for _ in range(num_partitions)]
    targets = random.integers(0, num_partitions, len(rows)).tolist()
    largest = sent = -(2**62)
    since = 0
    for row, timestamp, target in zip(rows, timestamps, targets, strict=True):
        partitions[target].append(row)
        largest = max(largest, timestamp)
        since += 1
        watermark = (largest - lateness_ms) // slide_ms * slide_ms
        if watermark > sent and since >= every:
            for partition in partitions:
                partition.append((None, encode_watermark(watermark)))
            sent, since = watermark, 0
    for partition in partitions:
        partition.append((None, encode_watermark(END_MS)))
    return partitions
