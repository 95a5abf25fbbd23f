"""All aggregates of a query together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from partitioners.errors import InputError
from pipelines.aggregates.base import (
    Aggregate,
    Int64s,
)
from pipelines.aggregates.of_values import Derived, OfValues
from pipelines.aggregates.sums import Count


@dataclass(frozen=True)
class Aggregates:
    """The aggregates of a query; the first is always the number of records.

    Args:
        others: Aggregates beside the count.
        order_by: Names of the aggregates by which the top is found, largest first; keys break ties,
            smallest bytes first, the null key before all.

    Example:
        >>> from pipelines.aggregates import Sum
        >>> Aggregates(Sum("total", "x")).names
        ('count', 'total.high', 'total.low')
    """

    others: tuple[Aggregate, ...] = ()
    order_by: tuple[str, ...] = ("count",)
    all: tuple[Aggregate, ...] = field(init=False)

    def __init__(self, *others: Aggregate, order_by: tuple[str, ...] = ("count",)) -> None:
        object.__setattr__(self, "others", others)
        object.__setattr__(self, "order_by", order_by)
        object.__setattr__(self, "all", (Count("count"), *others))
        for each in others:
            if each.gives == "list" and each.name in order_by:
                raise InputError(
                    f"{each.name} is a list and orders nothing: leave it out of order_by"
                )

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all state columns, in the order of their rows in arrays."""
        return tuple(name for each in self.by_row for name in each.column_names)

    @property
    def by_row(self) -> list[Aggregate]:
        """All in the order of their state columns: first those whose columns travel."""
        return sorted(self.all, key=lambda each: each.slides in ("values", "derived"))

    @property
    def blocks(self) -> list[tuple[Aggregate, slice]]:
        """Each aggregate with the rows of its state columns."""
        out, at = [], 0
        for each in self.by_row:
            out.append((each, slice(at, at + len(each.columns))))
            at += len(each.columns)
        return out

    @property
    def order_rows(self) -> tuple[int, ...]:
        """The rows of the state columns in `order_by`."""
        rows = {each.name: rows for each, rows in self.blocks}
        return tuple(
            row for name in self.order_by for row in range(rows[name].start, rows[name].stop)
        )

    @property
    def stacked(self) -> list[tuple[Aggregate, slice]]:
        """The blocks that slide by two stacks."""
        return [(each, rows) for each, rows in self.blocks if each.slides == "stacks"]

    @property
    def collected(self) -> dict[int, Aggregate]:
        """The rows of state columns that are numbers of lists, with their aggregates."""
        return {rows.start: each for each, rows in self.blocks if each.gives == "list"}

    @property
    def value_columns(self) -> tuple[str, ...]:
        """The names of the cells that are kept: columns, or what their values are reduced to."""
        columns = [each.cells for each in self.all if isinstance(each, OfValues)]
        return tuple(dict.fromkeys(columns))

    def cell_values(self, cells: str, columns: Mapping[str, Int64s]) -> Int64s:
        """What cells of that name keep of records."""
        each = self._of_cells(cells)
        return each.reduce_values(columns[each.column])

    def _of_cells(self, cells: str) -> OfValues:
        return next(each for each in self.all if isinstance(each, OfValues) and each.cells == cells)

    @property
    def num_travelling(self) -> int:
        """The first rows of state columns, which partials carry; the others the reducer finds."""
        return sum(
            len(each.columns) for each in self.all if each.slides not in ("values", "derived")
        )

    def value_rules(self, column: str) -> tuple[int | None, int | None]:
        """`absent` and `last_ms` of cells."""
        each = self._of_cells(column)
        return each.absent, each.last_ms

    def derive(self, states: Int64s) -> None:
        """Set the states that follow from others, int64[num state columns, n], in place."""
        for each, rows in self.blocks:
            if isinstance(each, Derived):
                states[rows] = each.derive(dict(zip(self.names, states, strict=True)))

    def neutral(self) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
        """The state of no records, as an int64 column [num state columns, 1]."""
        return np.array([[value] for each in self.by_row for value in each.neutral], dtype=np.int64)

    def finish(self, states: Int64s, fields: Sequence[Any]) -> list[pa.Array]:
        """Finish the aggregates that the fields name, in their order."""
        rows = {each.name: (each, block) for each, block in self.blocks}
        columns = []
        for wanted in fields:
            each, block = rows[wanted.name]
            columns.append(each.finish(states[block], states[0], wanted.type))
        return columns
