"""Aggregates that are nearly right in little memory, whatever the number of different values.

Both keep *cells*, counts of what a value is reduced to: a register and a rank, or a bucket. Cells
slide by addition and deduction as the values of exact aggregates do (`value_sets`). So the results
do not depend on batches, partitions or how often a window slid, and a batch done again gives the
same ones. Sketches that merge by chance or by order, such as KLL and t-digest, give neither, and
have no deduction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from partitioners.errors import InputError
from pipelines.aggregates import Int64s, Quantile, SlidingCells


@dataclass(frozen=True)
class ApproxDistinct(SlidingCells):
    """About how many different values an integer column has, by HyperLogLog.

    The standard error is 1.04 / sqrt(2 ** index_bits): 1.6 % for 12, of at most 4,096 registers a
    key. Estimated as in O. Ertl, New cardinality estimation algorithms for HyperLogLog sketches,
    arXiv:1702.01284, algorithm 6, which needs no correction of small or large numbers.

    Attributes:
        index_bits: Bits of a register's number, 4 to 16.

    Example:
        >>> ApproxDistinct("users", "user_id").cells
        'user_id/registers12'
    """

    index_bits: int = 12
    neutral: ClassVar[tuple[int, ...]] = (0,)

    def __post_init__(self) -> None:
        if not 4 <= self.index_bits <= 16:
            raise InputError(f"index_bits must be from 4 to 16, not {self.index_bits}")

    @property
    def cells(self) -> str:
        """See `OfValues`."""
        return f"{self.column}/registers{self.index_bits}"

    def reduce_values(self, values: Int64s) -> Int64s:
        """See `OfValues`."""
        # Compiled code is loaded only where it is used.
        from pipelines.sliding_cells import register_codes

        out = np.empty(len(values), dtype=np.int64)
        register_codes(np.ascontiguousarray(values), self.index_bits, out)
        return out

    def slide_cells(self, cells: Sequence[Int64s], key: Int64s, window: Int64s) -> Int64s:
        """See `SlidingCells`."""
        from pipelines.sliding_cells import distinct_estimates

        out = np.zeros((1, len(key)), dtype=np.int64)
        distinct_estimates(*cells, key, window, self.index_bits, out[0])
        return out


@dataclass(frozen=True)
class ApproxQuantile(Quantile):
    """About a quantile of an integer column divided by `scale`, from buckets of values.

    A bucket holds the values that agree in their first `mantissa_bits` + 1 binary digits, so what
    is given is off by at most one part in 2 ** (mantissa_bits + 1) of the exact quantile's two
    neighbours: 0.4 % for 7. Integers of up to so many digits are exact. A key has at most some
    thousand buckets, mostly some hundred, however many values it has. The buckets are those of
    HdrHistogram; the guarantee is that of C. Masson et al., DDSketch, VLDB 2019, section 2.

    Attributes:
        mantissa_bits: 3 to 20.
    """

    mantissa_bits: int = 7

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 3 <= self.mantissa_bits <= 20:
            raise InputError(f"mantissa_bits must be from 3 to 20, not {self.mantissa_bits}")

    @property
    def cells(self) -> str:
        """See `OfValues`."""
        return f"{self.column}/buckets{self.mantissa_bits}"

    def reduce_values(self, values: Int64s) -> Int64s:
        """See `OfValues`; the first bits of a positive double are exponent and mantissa."""
        bits = np.abs(values.astype(np.float64)).view(np.int64) >> (52 - self.mantissa_bits)
        return np.where(values < 0, -bits, bits)

    def _middles(self, buckets: Int64s) -> Int64s:
        """The middle of the integers of each bucket."""
        shift = 52 - self.mantissa_bits
        low = (np.abs(buckets) << shift).view(np.float64)
        high = ((np.abs(buckets) + 1) << shift).view(np.float64)
        middle = np.minimum(low + np.maximum(high - low - 1.0, 0.0) / 2, 2.0**63 - 1024)
        return (np.sign(buckets) * middle).astype(np.int64)

    def finish(self, states: Int64s, count: Int64s, type_: pa.DataType) -> pa.Array:
        """See `Aggregate`."""
        return super().finish(np.stack([self._middles(row) for row in states]), count, type_)


@dataclass(frozen=True)
class TopK(SlidingCells):
    """The k most frequent values of an integer column, exactly, with how often they are there.

    A list of (value, count), the most frequent first and of equals the smaller value. It keeps
    every different value of a window, and two numbers for each of the k places.

    Attributes:
        k: How many, 1 to 50.
    """

    k: int = 10

    def __post_init__(self) -> None:
        if not 1 <= self.k <= 50:
            raise InputError(f"k of a TopK must be from 1 to 50, not {self.k}")
        columns = [f"{what}{i}" for i in range(self.k) for what in ("value", "count")]
        # What other aggregates have as attributes of their class.
        object.__setattr__(self, "columns", tuple(columns))
        object.__setattr__(self, "neutral", (0,) * (2 * self.k))

    def slide_cells(self, cells: Sequence[Int64s], key: Int64s, window: Int64s) -> Int64s:
        """See `SlidingCells`."""
        from pipelines.sliding_cells import top_values

        out = np.zeros((2 * self.k, len(key)), dtype=np.int64)
        top_values(*cells, key, window, self.k, out)
        return out

    def default_type(self, digits: int) -> pa.DataType:
        """See `Aggregate`."""
        value = pa.decimal128(19, digits) if digits else pa.int64()
        return pa.list_(pa.struct([("value", value), ("count", pa.int64())]))

    def finish(self, states: Int64s, count: Int64s, type_: pa.DataType) -> pa.Array:
        """See `Aggregate`."""
        values, counts = states[0::2].T, states[1::2].T
        there = counts > 0
        ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(there.sum(axis=1))])
        kind = type_.value_type
        flat = single_values(values[there], kind.field("value").type, self.name)
        items = pa.StructArray.from_arrays([flat, pa.array(counts[there])], fields=list(kind))
        gone = pa.array(count == 0)
        return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), items, type_, mask=gone)


def single_values(values: Int64s, type_: pa.DataType, name: str) -> pa.Array:
    """Values as a column; decimals are scaled integers."""
    from pipelines import wide

    if pa.types.is_decimal128(type_):
        return wide.to_array(np.stack(wide.split(values)), type_, name)
    return pa.array(values).cast(type_)
