"""What a run puts in each partition of its topic: a function of the input and the config alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
class PartitionStretch:
    """Consecutive messages of one partition."""

    partition: int
    keys: list[bytes | None]
    values: list[bytes]
    mark_places: Int64s  # which of them are watermark records

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def num_records(self) -> int:
        """Messages that are no watermark records."""
        return len(self.keys) - len(self.mark_places)

    def without_first(self, count: int) -> PartitionStretch:
        """Leave out messages that are in the topic already.

        Args:
            count: How many, from the front.
        """
        if not count:
            return self
        places = self.mark_places[self.mark_places >= count] - count
        return PartitionStretch(self.partition, self.keys[count:], self.values[count:], places)


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
            out[rows] = partitioner.partition_batch(taken, timestamps[rows])
        self._next_source = (self._next_source + len(keys)) % num_sources
        return RoutedChunk(keys, values, timestamps, out, self.clock.advance(timestamps))


def partition_sequences(
    chunk: RoutedChunk, start: int, stop: int, num_partitions: int
) -> Iterator[PartitionStretch]:
    """Cut a stretch of a chunk into what each partition gets, in order, watermarks included.

    Args:
        chunk: Routed records.
        start: First record.
        stop: One past the last.
        num_partitions: Partitions of the topic; each gets every watermark.
    """
    partitions = chunk.partitions[start:stop]
    order = np.argsort(partitions, kind="stable")
    bounds = np.searchsorted(partitions[order], np.arange(num_partitions + 1))
    taken = pa.array(order + start)
    keys, values = chunk.keys.take(taken).to_pylist(), chunk.values.take(taken).to_pylist()
    positions, marks_ms, _ = chunk.watermarks
    among = (positions >= start) & (positions < stop)
    marks = [encode_watermark(int(value)) for value in marks_ms[among]]
    places = positions[among] - start
    for partition in range(num_partitions):
        low, high = int(bounds[partition]), int(bounds[partition + 1])
        its_keys, its_values = keys[low:high], values[low:high]
        # A watermark stands right after the record at its place, which may be of another partition.
        mark_places = np.searchsorted(order[low:high], places, side="right") + np.arange(len(marks))
        for place, mark in zip(mark_places.tolist(), marks, strict=True):
            its_keys.insert(place, None)
            its_values.insert(place, mark)
        if its_keys:
            yield PartitionStretch(partition, its_keys, its_values, mark_places)


def first_unsent(chunk: RoutedChunk, sent: Sequence[int]) -> int:
    """Say where in a chunk the first message stands that is not in the topic yet.

    Args:
        chunk: Routed records.
        sent: For each partition, how many of its messages of this chunk are in the topic; those
            beyond the chunk count too.

    Returns:
        A place in the chunk; its length if all of it is in the topic.
    """
    size = len(chunk.partitions)
    first = size
    for partition, count in enumerate(sent):
        records = 2 * np.flatnonzero(chunk.partitions == partition)
        messages = np.sort(np.concatenate([records, 2 * chunk.watermarks.positions + 1]))
        if count < len(messages):
            first = min(first, int(messages[count]) // 2)
    return first


def _column(table: pa.Table, name: str) -> Any:
    column = table.column(name)
    return column.chunk(0) if column.num_chunks else pa.array([], type=column.type)
