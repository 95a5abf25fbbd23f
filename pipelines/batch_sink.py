"""The end of a batch on the driver: results into the sink, what was done into the batch log."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
from pyspark.sql import DataFrame, Row

from pipelines.batch_log import BatchLog
from pipelines.listener import BatchProgress
from pipelines.sinks import ResultWriter, Sink
from pipelines.stages import REDUCED, sink_stage
from pipelines.summary import QuerySummary, batch_record


class BatchSink:
    """What `foreachBatch` calls: writes a batch's results, then its entry in the batch log."""

    def __init__(
        self,
        writer: ResultWriter,
        log_dir: Path,
        on_batch: Callable[[BatchProgress], None] | None,
    ) -> None:
        self._writer = writer
        self._on_driver = writer.on_driver
        self._on_batch = on_batch
        self._log = BatchLog(log_dir)
        self.lock = threading.Lock()
        self._last_batch_id = -1
        self.summary = QuerySummary()
        for batch in self._log.read():
            self._add(batch)

    def results(self) -> pl.DataFrame:
        """What the first sink that can be read back holds."""
        sinks = self._writer.sinks
        readable = [sink for sink in sinks if type(sink).read is not Sink.read]
        return (*readable, *sinks)[0].read()

    def end_batch(self, num_partitions: int) -> int | None:
        """Number of the last batch, where every topic partition's end is in; None: not yet."""
        with self.lock:
            return self._last_batch_id if self.summary.ended(num_partitions) else None

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        """Write one batch."""
        if batch_id <= self._last_batch_id:
            self._forget_from(batch_id)
        rows = frame.mapInArrow(sink_stage(self._writer, batch_id), REDUCED).collect()
        at_driver = self._write_here(rows, batch_id)
        shards = sorted(
            (
                {"shard": row["shard"], **json.loads(row["summary"])}
                for row in rows
                if row["summary"]
            ),
            key=lambda shard: int(shard["shard"]),
        )
        written = max(at_driver, sum(shard["rows"] for shard in shards))
        for sink in self._writer.sinks:
            sink.commit(batch_id)
        batch = batch_record(
            batch_id,
            shards,
            written,
            time.time_ns() // 1_000_000,
            self._writer.k,
            self._writer.workload.aggregates.order_rows,
        )
        self._log.write(batch)
        with self.lock:
            self._add(batch)
        if self._on_batch is not None:
            self._on_batch(BatchProgress(batch_id, self.summary.records, self.summary.windows))

    def _write_here(self, rows: list[Row], batch_id: int) -> int:
        """Write what the driver writes; returns the number of rows."""
        handed = [(row["shard"], bytes(row["runs"])) for row in rows if row["runs"]]
        if self._writer.emit == "top":
            return self._on_driver.write_top([blob for _, blob in handed], batch_id)
        by_shard: dict[int, list[bytes]] = {}
        for shard, blob in handed:
            by_shard.setdefault(shard, []).append(blob)
        return sum(
            self._on_driver.write_shard(blobs, batch_id, shard) for shard, blobs in by_shard.items()
        )

    def _add(self, batch: dict[str, Any]) -> None:
        self.summary.add(batch, self._writer.windows, self._writer.workload)
        self._last_batch_id = batch["batch_id"]

    def _forget_from(self, batch_id: int) -> None:
        """Take a batch that is done again out of the sums."""
        with self.lock:
            self.summary = QuerySummary()
            self._last_batch_id = -1
            for batch in self._log.read():
                if batch["batch_id"] < batch_id:
                    self._add(batch)
