"""Lists of values as results: states of any length, beside the numbers that all others are.

A state is one int64 in every array of the engine; that of a list is its *number* among the
different lists of a shard and batch, which are kept apart and go with the runs to the sink. Equal
lists have one number, so whether a key's list has changed is told as for any other aggregate. What
is kept from batch to batch is the values' counts, as for a median: numbers mean nothing after
their batch, and a list is made anew from its values where it is needed again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipelines.aggregates import Gives, Int64s, OfValues
from pipelines.approximate import single_values


@dataclass(frozen=True)
class Collect(OfValues):
    """All values of an integer column, ascending; equal ones are there as often as they came.

    In this order a list depends neither on batches nor on partitions. It is written whole for every
    stretch of windows between two of its changes, so it costs 8 bytes for each of its values there,
    whatever slides it.

    Example:
        >>> Collect("bids", "price").gives
        'list'
    """

    neutral: ClassVar[tuple[int, ...]] = (0,)
    gives: ClassVar[Gives] = "list"

    def default_type(self, digits: int) -> pa.DataType:
        """See `Aggregate`."""
        return pa.list_(pa.decimal128(19, digits) if digits else pa.int64())

    def finish(self, states: Int64s, count: Int64s, type_: pa.DataType) -> pa.Array:  # noqa: ARG002
        """See `Aggregate`: nothing, for the lists are not in the states; see `finish_lists`."""
        return pa.nulls(len(count), type_)

    def finish_lists(self, lists: pa.ListArray, count: Int64s, type_: pa.DataType) -> pa.Array:
        """Turn lists of int64 into a column of the results; null where a key has left."""
        flat = single_values(lists.flatten().to_numpy(), type_.value_type, self.name)
        ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(lists.value_lengths().to_numpy())])
        gone = pa.array(count == 0)
        return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), flat, type_, mask=gone)


class Lists:
    """The different lists of a shard and batch, by number; the empty one is number 0.

    Example:
        >>> lists = Lists()
        >>> lists.add(np.array([7, 8, 7, 8]), np.array([2, 0, 1, 1])).tolist()
        [1, 0, 2, 3]
        >>> lists.add(np.array([7, 8]), np.array([2])).tolist()
        [1]
        >>> lists.array(np.array([3, 1])).to_pylist()
        [[8], [7, 8]]
    """

    def __init__(self) -> None:
        self._numbers: dict[bytes, int] = {b"": 0}
        self._contents: list[bytes] = [b""]

    def add(self, values: Int64s, lengths: Int64s) -> Int64s:
        """The numbers of lists.

        Args:
            values: int64[sum of lengths], one list after the other.
            lengths: int64[n]

        Returns:
            int64[n]
        """
        flat = np.ascontiguousarray(values).tobytes()
        out = np.empty(len(lengths), dtype=np.int64)
        at = 0
        for i, length in enumerate(lengths.tolist()):
            content = flat[at : at + 8 * length]
            at += 8 * length
            number = self._numbers.setdefault(content, len(self._contents))
            if number == len(self._contents):
                self._contents.append(content)
            out[i] = number
        return out

    def collect(
        self, cells: Sequence[Int64s], key: Int64s, window: Int64s
    ) -> npt.NDArray[np.int64]:
        """The numbers of the lists of keys in windows; see `SlidingCells.slide_cells`."""
        # Compiled code is loaded only where it is used.
        from pipelines.sliding_cells import expand_cells

        cell_key, value, count, *events = cells
        lengths = np.zeros(len(key), dtype=np.int64)
        nothing = np.empty(0, dtype=np.int64)
        expand_cells(cell_key, value, count.copy(), *events, key, window, lengths, nothing)
        values = np.empty(int(lengths.sum()), dtype=np.int64)
        if len(values):
            expand_cells(cell_key, value, count.copy(), *events, key, window, lengths, values)
        return self.add(values, lengths)

    def array(self, numbers: Int64s) -> pa.ListArray:
        """The lists of these numbers."""
        contents = [self._contents[number] for number in numbers.tolist()]
        ends = np.cumsum([0, *(len(content) // 8 for content in contents)])
        flat = np.frombuffer(b"".join(contents), dtype=np.int64)
        return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), pa.array(flat))
