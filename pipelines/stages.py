"""The stages as Spark runs them: the shapes in which rows travel between Spark and Python.

Combine is a source of rows, see `source`; the sink is `mapInArrow`; reduce, in `processor`, is
`transformWithStateInPandas`. Everything that computes is in `combine`, `reduce` and `sinks`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    BinaryType,
    IntegerType,
    StringType,
    StructField,
    StructType,
)

from pipelines.combine import Combiner
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

_COMBINED_IN_ARROW = to_arrow_schema(COMBINED)
ArrowStage = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def combined_rows(
    combiner: Combiner, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """What a combiner makes of the records of a partition, as rows of `COMBINED`."""
    labels = shard_labels(combiner.num_shards)
    for row in combiner.run(batches):
        yield pa.RecordBatch.from_arrays(
            [
                pa.array([labels[row.shard]], type=pa.int32()),
                pa.array([row.partition], type=pa.int32()),
                pa.array([row.progress]),
                pa.array([row.partials], type=pa.binary()),
            ],
            schema=_COMBINED_IN_ARROW,
        )


def sink_stage(writer: ResultWriter, batch_id: int) -> ArrowStage:
    """The function for `mapInArrow` over a shard's output: writes its rows, hands on the summary.

    What the driver writes, such as a top that it merges first, is handed on as it is.
    """
    at_workers = writer.at_workers
    hands_on = bool(writer.on_driver.sinks)

    def stage(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        shard, summary = -1, ""
        kept: list[bytes] = []

        def blobs() -> Iterator[bytes]:
            nonlocal shard, summary
            for batch in batches:
                for row in batch.to_pylist():
                    shard = row["shard"]
                    summary = row["summary"] or summary
                    if row["runs"]:
                        if hands_on:
                            kept.append(row["runs"])
                        yield row["runs"]

        source = blobs()
        first = next(source, None)
        started = time.perf_counter()
        rows = 0
        if first is not None and at_workers.sinks:
            rows = at_workers.write_shard(_chain(first, source), batch_id, shard)
        for _rest in source:
            pass
        for blob in kept:
            yield _reduced(shard, "", blob)
        if shard < 0:
            return
        values = json.loads(summary)
        values["rows"] = rows
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
