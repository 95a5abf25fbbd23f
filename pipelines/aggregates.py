"""Aggregates over windows: what a combiner keeps per pane and key, and how a reducer slides it.

A measure is one int64 per key. It is *created* as `neutral`, *accumulated* from raw records by a
Polars expression, *combined* by a numpy ufunc, and, where the measure can, *deducted* when its pane
leaves the window. Integers only, so that a window's value never depends on how often it slid;
money is scaled to an integer by the workload.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import polars as pl

SMALLEST = -(2**63)


@dataclass(frozen=True)
class Measure(ABC):
    """One int64 per key.

    Attributes:
        name: The column it is kept in.
        neutral: The value of no records; combining with it changes nothing.
        combine: Associative and commutative ufunc.
        deducts: Whether a pane is taken off again by subtraction.
    """

    name: str
    neutral: ClassVar[int]
    combine: ClassVar[np.ufunc]
    deducts: ClassVar[bool]

    @abstractmethod
    def accumulate(self) -> pl.Expr:
        """The measure of a group of raw records."""


@dataclass(frozen=True)
class Count(Measure):
    """The number of records."""

    neutral: ClassVar[int] = 0
    combine: ClassVar[np.ufunc] = np.add
    deducts: ClassVar[bool] = True

    def accumulate(self) -> pl.Expr:
        """See `Measure`."""
        return pl.len().cast(pl.Int64).alias(self.name)


@dataclass(frozen=True)
class Sum(Measure):
    """The sum of an integer column; beyond 64 bits it wraps."""

    column: str
    neutral: ClassVar[int] = 0
    combine: ClassVar[np.ufunc] = np.add
    deducts: ClassVar[bool] = True

    def accumulate(self) -> pl.Expr:
        """See `Measure`."""
        return pl.col(self.column).sum().alias(self.name)


@dataclass(frozen=True)
class Latest(Measure):
    """The largest value of a column that grows with event time, such as the event time itself.

    A maximum cannot be deducted, and here need not be: the largest value a key ever had came with
    its newest pane, which is the last of its panes to leave the window. So the running maximum is
    that of the window for as long as the key has a record in it.
    """

    column: str
    neutral: ClassVar[int] = SMALLEST
    combine: ClassVar[np.ufunc] = np.maximum
    deducts: ClassVar[bool] = False

    def accumulate(self) -> pl.Expr:
        """See `Measure`."""
        return pl.col(self.column).max().alias(self.name)


@dataclass(frozen=True)
class Aggregate:
    """The measures of a query; the first is always the number of records.

    Args:
        others: Measures beside the count.
        order_by: Names of the measures by which the top is found, largest first; keys break ties,
            smallest bytes first, the null key before all.

    Example:
        >>> Aggregate(Sum("total", "x")).names
        ('count', 'total')
    """

    others: tuple[Measure, ...] = ()
    order_by: tuple[str, ...] = ("count",)
    measures: tuple[Measure, ...] = field(init=False)

    def __init__(self, *others: Measure, order_by: tuple[str, ...] = ("count",)) -> None:
        object.__setattr__(self, "others", others)
        object.__setattr__(self, "order_by", order_by)
        object.__setattr__(self, "measures", (Count("count"), *others))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the measures, in the order of their rows in arrays."""
        return tuple(measure.name for measure in self.measures)

    @property
    def order_rows(self) -> tuple[int, ...]:
        """The rows of the measures in `order_by`."""
        return tuple(self.names.index(name) for name in self.order_by)

    def neutral(self) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
        """The value of no records, as an int64 column [measures, 1]."""
        return np.array([[m.neutral] for m in self.measures], dtype=np.int64)
