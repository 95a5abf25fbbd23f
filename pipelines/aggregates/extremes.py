"""Aggregates that take one record's value: least, largest, first, last."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from pipelines.aggregates.base import (
    LARGEST,
    SMALLEST,
    TIMESTAMP,
    Aggregate,
    ByColumn,
    Gives,
    Int64s,
    Slides,
    in_type,
)


@dataclass(frozen=True)
class Extreme(Aggregate):
    """The least or the largest value of an integer column."""

    column: str
    gives: ClassVar[Gives] = "value"

    def create(self, columns: Mapping[str, Int64s]) -> Sequence[Int64s]:
        """See `Aggregate`."""
        return [columns[self.column]]

    def finish(self, states: Int64s, count: Int64s, type_: pa.DataType) -> pa.Array:
        """See `Aggregate`."""
        return in_type(states[0], count, type_, self.name)


@dataclass(frozen=True)
class Min(Extreme):
    """The least value."""

    neutral: ClassVar[tuple[int, ...]] = (LARGEST,)
    by_column: ClassVar[ByColumn | None] = "min"


@dataclass(frozen=True)
class Max(Extreme):
    """The largest value."""

    neutral: ClassVar[tuple[int, ...]] = (SMALLEST,)
    by_column: ClassVar[ByColumn | None] = "max"


@dataclass(frozen=True)
class Latest(Max):
    """The largest value of a column that grows with event time, such as the event time itself.

    A maximum cannot be deducted, and here need not be: the largest value a key ever had came with
    its newest pane, which is the last of its panes to leave the window. So the running maximum is
    that of the window for as long as the key has a record in it.
    """

    slides: ClassVar[Slides] = "newest"


@dataclass(frozen=True)
class Last(Aggregate):
    """The value of the record with the largest event time; of several, the largest value."""

    column: str
    columns: ClassVar[tuple[str, ...]] = ("time", "")
    neutral: ClassVar[tuple[int, ...]] = (SMALLEST, SMALLEST)
    gives: ClassVar[Gives] = "value"

    def create(self, columns: Mapping[str, Int64s]) -> Sequence[Int64s]:
        """See `Aggregate`."""
        return [columns[TIMESTAMP], columns[self.column]]

    def combine(self, a: Int64s, b: Int64s) -> Int64s:
        """See `Aggregate`."""
        return np.where((b[0] > a[0]) | ((b[0] == a[0]) & (b[1] > a[1])), b, a)

    def finish(self, states: Int64s, count: Int64s, type_: pa.DataType) -> pa.Array:
        """See `Aggregate`."""
        return in_type(states[1], count, type_, self.name)


@dataclass(frozen=True)
class First(Last):
    """The value of the record with the smallest event time; of several, the smallest value."""

    neutral: ClassVar[tuple[int, ...]] = (LARGEST, LARGEST)

    def combine(self, a: Int64s, b: Int64s) -> Int64s:
        """See `Aggregate`."""
        return np.where((b[0] < a[0]) | ((b[0] == a[0]) & (b[1] < a[1])), b, a)
