"""The end of a batch on the driver: results into the sink, what was done into the batch log."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame

from pipelines.batch_log import BatchLog
from pipelines.listener import BatchProgress
from pipelines.sinks import ResultWriter
from pipelines.stages import REDUCED, sink_stage
from pipelines.summary import QuerySummary, batch_record


class BatchSink:
    """What `foreachBatch` calls: writes a batch's results, then its entry in the batch log."""

    def __init__(
        self,
        writer: ResultWriter,
        on_batch: Callable[[BatchProgress], None] | None,
    ) -> None:
        self._writer = writer
        self._on_batch = on_batch
        self._log = BatchLog(Path(writer.folder))
        self.lock = threading.Lock()
        self.last_batch_id = -1
        self.summary = QuerySummary()
        for batch in self._log.read():
            self._add(batch)

    @property
    def folder(self) -> Path:
        """Where the results are."""
        return Path(self._writer.folder)

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        """Write one batch."""
        if batch_id <= self.last_batch_id:
            self._forget_from(batch_id)
        rows = frame.mapInArrow(sink_stage(self._writer, batch_id), REDUCED).collect()
        written = 0
        if self._writer.emit == "top":
            written = self._writer.write_top(
                [bytes(row["runs"]) for row in rows if row["runs"]], batch_id
            )
        shards = sorted(
            (
                {"shard": row["shard"], **json.loads(row["summary"])}
                for row in rows
                if row["summary"]
            ),
            key=lambda shard: int(shard["shard"]),
        )
        written += sum(shard["rows"] for shard in shards)
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

    def _add(self, batch: dict[str, Any]) -> None:
        self.summary.add(batch, self._writer.windows, self._writer.workload)
        self.last_batch_id = batch["batch_id"]

    def _forget_from(self, batch_id: int) -> None:
        """Take a batch that is done again out of the sums."""
        with self.lock:
            self.summary = QuerySummary()
            self.last_batch_id = -1
            for batch in self._log.read():
                if batch["batch_id"] < batch_id:
                    self._add(batch)
