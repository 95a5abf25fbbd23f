"""Aggregates of the values of a window, kept as counts of each; and what follows from them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import pyarrow as pa

from partitioners.errors import InputError
from pipelines.aggregates.base import (
    SMALLEST,
    TIMESTAMP,
    Aggregate,
    ByColumn,
    Gives,
    Int64s,
    Slides,
)


@dataclass(frozen=True)
class OfValues(Aggregate):
    """Needs every value of a column, with how often it is there.

    Attributes:
        absent: A record with this value has none; None: every record has one.
        last_ms: Only values of so long before the window's end count; None: of the whole window.
            What is said of one aggregate of a column holds for all of that column.
    """

    column: str
    absent: int | None = field(default=None, kw_only=True)
    last_ms: int | None = field(default=None, kw_only=True)
    slides: ClassVar[Slides] = "values"
    by_column: ClassVar[ByColumn | None] = "max"

    def create(self, columns: Mapping[str, Int64s]) -> Sequence[Int64s]:
        """See `Aggregate`; the values travel by themselves."""
        return [np.zeros(len(columns[TIMESTAMP]), dtype=np.int64)] * len(self.columns)

    @property
    def cells(self) -> str:
        """Names what the values are reduced to; aggregates of one name share their cells."""
        return self.column

    def reduce_values(self, values: Int64s) -> Int64s:
        """What to keep of values, int64[n]; only whether it is equal, and its order, matter."""
        return values


@dataclass(frozen=True)
class Quantile(OfValues):
    """An exact quantile of an integer column divided by `scale`.

    Between two values it is interpolated, as SQL's `quantile_cont` does.
    """

    quantile: float = 0.5
    scale: int = 1
    columns: ClassVar[tuple[str, ...]] = ("low", "high")
    neutral: ClassVar[tuple[int, ...]] = (0, 0)
    gives: ClassVar[Gives] = "real"

    def __post_init__(self) -> None:
        if not 0.0 <= self.quantile <= 1.0:
            raise InputError(f"quantile must be from 0 to 1, not {self.quantile}")

    def finish(self, states: Int64s, count: Int64s, type_: pa.DataType) -> pa.Array:
        """See `Aggregate`."""
        place = self.quantile * (count - 1)
        low, high = states
        # As unsigned numbers, for the difference of two int64s need not be one.
        apart = (high - low).view(np.uint64)
        values = (low + apart * (place - np.floor(place))) / self.scale
        return pa.array(values, mask=count == 0, type=type_)


@dataclass(frozen=True)
class Median(Quantile):
    """The exact median; of an even number, the mean of the middle two."""


@dataclass(frozen=True)
class Distinct(OfValues):
    """How many different values an integer column has, exactly."""

    neutral: ClassVar[tuple[int, ...]] = (0,)


@dataclass(frozen=True)
class SlidingCells(OfValues):
    """Has its own way over the cells of a shard and the events that change them."""

    @abstractmethod
    def slide_cells(self, cells: Sequence[Int64s], key: Int64s, window: Int64s) -> Int64s:
        """The states of keys in windows.

        Args:
            cells: Key, value and count of each cell, ordered by key and value, the counts before
                the first event, which may be changed; then the cell, window and change of each
                event, ordered by key and window.
            key: int64[n], ordered with `window`.
            window: int64[n]; the events up to it count.

        Returns:
            int64[num columns, n]; neutral where there is no value.
        """


@dataclass(frozen=True)
class OfWindow(OfValues):
    """Computed from all the values of a key in a window, anew for each window that changes.

    For what does not slide, such as a clustering; it costs what the values of a window cost.
    """

    @abstractmethod
    def compute(self, values: Int64s) -> Sequence[int]:
        """The state of a key with these values.

        Args:
            values: int64[n], ascending; equal ones are there as often as they came.

        Returns:
            A number for each state column.
        """


@dataclass(frozen=True)
class Derived(Aggregate):
    """A number that follows from the other states of a key: what its windows are ranked by.

    A key whose number is `SMALLEST` has no place in the ranking.
    """

    neutral: ClassVar[tuple[int, ...]] = (SMALLEST,)
    slides: ClassVar[Slides] = "derived"
    by_column: ClassVar[ByColumn | None] = "max"

    def create(self, columns: Mapping[str, Int64s]) -> Sequence[Int64s]:
        """See `Aggregate`; there is nothing to carry."""
        return [np.full(len(columns[TIMESTAMP]), SMALLEST, dtype=np.int64)]

    @abstractmethod
    def derive(self, states: Mapping[str, Int64s]) -> Int64s:
        """The number of each key and window.

        Args:
            states: The other state columns by name, int64[n] each.
        """
