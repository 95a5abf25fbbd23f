"""Starts reading a topic where it is combined."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession

from pipelines.combine import Combiner
from pipelines.source.files import Shipped
from pipelines.source.planned import CombinedTopic, Topic
from pipelines.stages import COMBINED, combined_rows

_numbers = itertools.count()


def read_combined(
    session: SparkSession,
    combiner: Combiner,
    settings: Mapping[str, Any],
    topic: str,
    batch_records: int,
) -> DataFrame:
    """A topic from its beginning, as the partials of its partitions (columns of `COMBINED`).

    Args:
        session: Belongs to this query alone.
        combiner: Combines.
        settings: librdkafka's.
        topic: Name of the topic.
        batch_records: Records in a batch at most.

    Raises:
        InputError: A file that the settings name cannot be read.
    """
    name = f"keyspread_{next(_numbers)}"
    read = Topic(Shipped.of(settings), topic, batch_records, COMBINED, pickled(combiner))

    class OneTopic(CombinedTopic):
        topic = read

        @classmethod
        def name(cls) -> str:
            return name

    session.dataSource.register(OneTopic)
    return session.readStream.format(name).load()


def pickled(combiner: Combiner) -> bytes:
    """A combiner as `Topic.combine` has it."""

    def combine(batches: Iterable[pa.RecordBatch], planned_ms: int) -> Iterator[pa.RecordBatch]:
        if combiner.max_future_ms is not None:
            batches = (_with_now(batch, planned_ms) for batch in batches)
        return combined_rows(combiner, batches)

    return bytes(cloudpickle.dumps(combine))  # type: ignore[no-untyped-call]


def _with_now(batch: pa.RecordBatch, now_ms: int) -> pa.RecordBatch:
    now = pa.repeat(pa.scalar(now_ms, pa.int64()), batch.num_rows)
    return pa.RecordBatch.from_arrays([*batch.columns, now], [*batch.schema.names, "now"])
