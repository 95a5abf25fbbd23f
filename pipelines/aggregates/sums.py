"""Aggregates that are sums, and so slide by subtraction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from pipelines import wide
from pipelines.aggregates.base import (
    TIMESTAMP,
    Aggregate,
    ByColumn,
    Gives,
    Int64s,
    Slides,
)


@dataclass(frozen=True)
class Count(Aggregate):
    """The number of records."""

    neutral: ClassVar[tuple[int, ...]] = (0,)
    slides: ClassVar[Slides] = "adds"
    by_column: ClassVar[ByColumn | None] = "sum"

    def create(self, columns: Mapping[str, Int64s]) -> Sequence[Int64s]:
        """See `Aggregate`."""
        return [np.ones(len(columns[TIMESTAMP]), dtype=np.int64)]


@dataclass(frozen=True)
class Sum(Aggregate):
    """The sum of an integer column, of any size.

    The column of the results may be int64 (a total beyond it ends the query with a message), a
    decimal128 (records are its unscaled values) or float64.
    """

    column: str
    columns: ClassVar[tuple[str, ...]] = ("high", "low")
    neutral: ClassVar[tuple[int, ...]] = (0, 0)
    slides: ClassVar[Slides] = "adds"
    by_column: ClassVar[ByColumn | None] = "sum"
    gives: ClassVar[Gives] = "total"

    def create(self, columns: Mapping[str, Int64s]) -> Sequence[Int64s]:
        """See `Aggregate`."""
        return wide.split(columns[self.column])

    def carry(self, states: Int64s) -> None:
        """See `Aggregate`."""
        wide.carry(states)

    def finish(self, states: Int64s, count: Int64s, type_: pa.DataType) -> pa.Array:  # noqa: ARG002
        """See `Aggregate`."""
        return wide.to_array(states, type_, self.name)


@dataclass(frozen=True)
class Mean(Sum):
    """The mean of an integer column divided by `scale`: the nearest double to the exact mean."""

    scale: int = 1
    gives: ClassVar[Gives] = "real"

    def finish(self, states: Int64s, count: Int64s, type_: pa.DataType) -> pa.Array:
        """See `Aggregate`."""
        there = count > 0
        means = wide.to_floats(states, np.where(there, count, 1) * self.scale)
        return pa.array(means, mask=~there, type=type_)


@dataclass(frozen=True)
class Variance(Aggregate):
    """The variance of an integer column divided by `scale`, from exact sums of x and x squared.

    Attributes:
        sample: Divide by count - 1, as SQL's `var_samp` (null for one record); else by count.
    """

    column: str
    scale: int = 1
    sample: bool = True
    columns: ClassVar[tuple[str, ...]] = ("high", "low", "square3", "square2", "square1", "square0")
    neutral: ClassVar[tuple[int, ...]] = (0,) * 6
    slides: ClassVar[Slides] = "adds"
    by_column: ClassVar[ByColumn | None] = "sum"
    gives: ClassVar[Gives] = "real"

    def create(self, columns: Mapping[str, Int64s]) -> Sequence[Int64s]:
        """See `Aggregate`."""
        values = columns[self.column]
        return [*wide.split(values), *wide.split_squares(values)]

    def carry(self, states: Int64s) -> None:
        """See `Aggregate`."""
        wide.carry(states[:2])
        wide.carry(states[2:])

    def finish(self, states: Int64s, count: Int64s, type_: pa.DataType) -> pa.Array:
        """See `Aggregate`."""
        sums, squares = wide.to_integers(states[:2]), wide.to_integers(states[2:])
        scale = self.scale * self.scale
        freedom = count - self.sample
        out = [
            (n * square - total * total) / (n * free * scale) if free > 0 else None
            for n, free, total, square in zip(
                count.tolist(), freedom.tolist(), sums, squares, strict=True
            )
        ]
        return pa.array(out, type=type_)
