"""The stages as Spark runs them: combine (`mapInArrow`), reduce (`transformWithStateInPandas`), sink.

Everything that computes is in `combine`, `reduce` and `sinks`; here are only the shapes in which rows
travel between Spark and Python.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import pandas as pd
import pyarrow as pa
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import (
    BinaryType,
    IntegerType,
    StringType,
    StructField,
    StructType,
)

from pipelines.combine import Combiner, ShardRow
from pipelines.reduce import ShardReducer
from pipelines.shards import shard_labels
from pipelines.sinks import ResultWriter

COMBINED = StructType(
    [
        StructField("label", IntegerType(), False),
        StructField("partition", IntegerType(), False),
        StructField("progress", StringType(), False),
        StructField("partials", BinaryType(), False),
    ]
)
REDUCED = StructType(
    [
        StructField("shard", IntegerType(), False),
        StructField("summary", StringType(), False),
        StructField("runs", BinaryType(), False),
    ]
)

ArrowStage = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def combine_stage(combiner: Combiner) -> ArrowStage:
    """The function for `mapInArrow` over Kafka's (key, value, partition)."""
    labels = shard_labels(combiner.num_shards)

    def stage(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for row in combiner.run(batches):
            yield pa.RecordBatch.from_arrays(
                [
                    pa.array([labels[row.shard]], type=pa.int32()),
                    pa.array([row.partition], type=pa.int32()),
                    pa.array([row.progress]),
                    pa.array([row.partials], type=pa.binary()),
                ],
                names=COMBINED.names,
            )

    return stage


class StateStore:
    """The state of one shard in Spark's state store, as a map from names to bytes."""

    def __init__(self, state: Any) -> None:
        self._state = state
        self.calls = 0

    def get(self, name: str) -> bytes | None:
        """See `pending.Store`."""
        self.calls += 1
        row = self._state.getValue((name,))
        return None if row is None else bytes(row[0])

    def put(self, name: str, value: bytes) -> None:
        """See `pending.Store`."""
        self.calls += 1
        self._state.updateValue((name,), (value,))

    def remove(self, name: str) -> None:
        """See `pending.Store`."""
        self.calls += 1
        self._state.removeKey((name,))


class ShardProcessor(StatefulProcessor):
    """Runs a `ShardReducer`: one call per shard and batch."""

    def __init__(self, reducer: ShardReducer, num_shards: int) -> None:
        self._reducer = reducer
        self._shard_of = {label: i for i, label in enumerate(shard_labels(num_shards))}

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Declare the state."""
        self._state = handle.getMapState("shard", "name string", "value binary")

    def handleInputRows(  # noqa: N802 - Spark's name
        self, key: Any, rows: Any, timerValues: Any  # noqa: ARG002, N803 - Spark's names
    ) -> Iterator[pd.DataFrame]:
        """Reduce the rows of a batch."""
        shard = self._shard_of[int(key[0])]
        started = time.perf_counter()
        taken = [
            ShardRow(shard, int(partition), progress, bytes(partials))
            for frame in rows
            for partition, progress, partials in zip(
                frame["partition"], frame["progress"], frame["partials"], strict=True
            )
        ]
        store = StateStore(self._state)
        output = self._reducer.process(store, taken)
        output.summary["state_calls"] = store.calls
        output.summary["total_seconds"] = time.perf_counter() - started
        summary = json.dumps(output.summary)
        blobs = [*output.blobs, b""]
        texts = [""] * len(output.blobs) + [summary]
        yield pd.DataFrame({"shard": [shard] * len(blobs), "summary": texts, "runs": blobs}).astype(
            {"shard": "int32"}
        )

    def close(self) -> None:
        """Nothing is held open."""


def sink_stage(writer: ResultWriter, batch_id: int) -> ArrowStage:
    """The function for `mapInArrow` over a shard's output: writes its rows, hands on the summary.

    With emit `top` it writes nothing and hands on the shard's candidates: the driver merges them.
    """

    def stage(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        started = time.perf_counter()
        shard, summary, candidates = -1, "", b""

        def blobs() -> Iterator[bytes]:
            nonlocal shard, summary
            for batch in batches:
                for row in batch.to_pylist():
                    shard = row["shard"]
                    summary = row["summary"] or summary
                    if row["runs"]:
                        yield row["runs"]

        source = blobs()
        first = next(source, None)
        if writer.emit == "top":
            for candidates in [first, *source] if first else []:
                yield _reduced(shard, "", candidates)
        elif first is not None:
            rows = writer.write_shard(_chain(first, source), batch_id, shard)
        if shard < 0:
            return
        values = json.loads(summary)
        values["rows"] = 0 if writer.emit == "top" or first is None else rows
        values["sink_seconds"] = time.perf_counter() - started
        yield _reduced(shard, json.dumps(values), b"")

    return stage


def _chain(first: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    yield first
    yield from rest


def _reduced(shard: int, summary: str, runs: bytes) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [
            pa.array([shard], type=pa.int32()),
            pa.array([summary]),
            pa.array([runs], type=pa.binary()),
        ],
        names=REDUCED.names,
    )
