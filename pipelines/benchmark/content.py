"""What a run puts in each partition of its topic: a function of the input and the config alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipelines.benchmark.watermark_clock import WatermarkClock, Watermarks
from pipelines.punctuation import encode_watermark

if TYPE_CHECKING:
    from partitioners.base import Partitioner

Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class RoutedChunk:
    """Records in stream order, where each goes, and the watermark records among them."""

    keys: pa.Array
    values: pa.Array
    timestamps_ms: Int64s
    partitions: npt.NDArray[np.int32]
    watermarks: Watermarks


@dataclass(frozen=True, slots=True)
class Messages:
    """What is sent, in order: records, and after some of them a watermark to every partition."""

    keys: pa.Array
    values: pa.Array
    partitions: npt.NDArray[np.int32]
    is_mark: npt.NDArray[np.bool_]
    places: Int64s  # of records: where they stand in the chunk; of watermarks: of the one before

    def __len__(self) -> int:
        return len(self.partitions)

    def take(self, rows: npt.NDArray[Any] | slice) -> Messages:
        """Choose some of them.

        Args:
            rows: A slice, or places or a mask in order.
        """
        if isinstance(rows, slice):
            length = max(rows.stop - rows.start, 0)
            keys, values = (a.slice(rows.start, length) for a in (self.keys, self.values))
        else:
            at = pa.array(np.flatnonzero(rows) if rows.dtype == bool else rows)
            keys, values = self.keys.take(at), self.values.take(at)
        return Messages(keys, values, self.partitions[rows], self.is_mark[rows], self.places[rows])


class TopicContent:
    """Routes chunks of records and places the watermark records.

    Several sources are several partitioners with load estimates of their own; record i of the
    stream belongs to source i mod S.

    Args:
        partitioners: One for each source.
        clock: Says where watermark records go.
    """

    def __init__(self, partitioners: Sequence[Partitioner], clock: WatermarkClock) -> None:
        self.partitioners = partitioners
        self.clock = clock
        self._next_source = 0

    def route(self, table: pa.Table) -> RoutedChunk:
        """Route the next records.

        Args:
            table: Columns timestamp_ms, key, value.
        """
        table = table.combine_chunks()
        keys, values = _column(table, "key"), _column(table, "value")
        timestamps = _column(table, "timestamp_ms").to_numpy(zero_copy_only=False)
        num_sources = len(self.partitioners)
        out = np.empty(len(keys), np.int32)
        for place in range(min(num_sources, len(keys))):
            partitioner = self.partitioners[(self._next_source + place) % num_sources]
            rows = slice(place, None, num_sources)
            taken = keys if num_sources == 1 else keys.take(pa.array(np.arange(len(keys))[rows]))
            # A chunk is a batch of its own to those that plan whole batches: chunks are of fixed
            # size, so a run that is resumed repeats the same plans.
            out[rows] = partitioner.partition_micro_batch(taken, timestamps[rows])
        self._next_source = (self._next_source + len(keys)) % num_sources
        return RoutedChunk(keys, values, timestamps, out, self.clock.advance(timestamps))


def with_watermarks(chunk: RoutedChunk, num_partitions: int) -> Messages:
    """Put the watermark records where they belong, one for each partition.

    Args:
        chunk: Routed records.
        num_partitions: Partitions of the topic.
    """
    size = len(chunk.partitions)
    positions, marks_ms, _ = chunk.watermarks
    marks = pa.array([encode_watermark(int(mark)) for mark in marks_ms], pa.binary())
    copies = pa.array(np.repeat(np.arange(len(marks)), num_partitions))
    nulls = pa.nulls(len(copies), pa.binary())
    places = np.concatenate([np.arange(size), np.repeat(positions, num_partitions)])
    # Sorted by place, records before the watermarks that stand behind them.
    order = np.argsort(places, kind="stable")
    targets = np.tile(np.arange(num_partitions, dtype=np.int32), len(marks))
    rows = pa.array(order)
    return Messages(
        keys=pa.concat_arrays([chunk.keys, nulls]).take(rows),
        values=pa.concat_arrays([chunk.values, marks.take(copies)]).take(rows),
        partitions=np.concatenate([chunk.partitions, targets])[order],
        is_mark=order >= size,
        places=places[order],
    )


def not_in_topic(messages: Messages, in_topic: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Say which messages an earlier attempt has not delivered, and count down.

    A partition's content is a fixed sequence, so what is in the topic is its beginning.

    Args:
        messages: The next messages.
        in_topic: For each partition, how many of the messages from here on it holds; lowered by
            those found here.
    """
    missing = np.ones(len(messages), dtype=bool)
    for partition in np.flatnonzero(in_topic):
        rows = np.flatnonzero(messages.partitions == partition)[: in_topic[partition]]
        missing[rows] = False
        in_topic[partition] -= len(rows)
    return missing


def _column(table: pa.Table, name: str) -> Any:
    column = table.column(name)
    return column.chunk(0) if column.num_chunks else pa.array([], type=column.type)
