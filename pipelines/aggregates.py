"""Aggregates over windows: what a combiner keeps per pane and key, and how a reducer slides it.

An aggregate's state is a few int64 columns per key. It is *created* from raw records, *accumulated*
per pane and key, *combined* over panes and partitions, and *finished* into a column of the results.
How it slides:

| `slides` | a pane that leaves the window | examples |
|---|---|---|
| "adds" | is deducted: the state is a sum, columns are subtracted | count, sum, mean, variance |
| "newest" | needs nothing: the newest pane decides, and leaves last | the latest event time |
| "stacks" | is forgotten: two stacks of combined panes (`stacks`) | minimum, first, a user's own |
| "values" | its values are deducted one by one (`value_sets`) | quantiles, distinct values |
| "deducts" | is taken out by the aggregate's own `deduct` | an exclusive or |
| "derived" | needs nothing: it follows from the other states of the key | a ratio to rank by |

Integers only, so that a window's value never depends on how often it slid or in which order its
parts came; money and measured decimals are scaled to integers by the workload. Sums have any size.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from partitioners.errors import InputError
from pipelines import wide

Int64s = npt.NDArray[np.int64]
Slides = Literal["adds", "newest", "stacks", "deducts", "values", "derived"]
ByColumn = Literal["sum", "min", "max"]
Gives = Literal["integer", "value", "total", "real", "list"]

SMALLEST = -(2**63)
LARGEST = 2**63 - 1
TIMESTAMP = "timestamp_ms"
"""The column of event times, which every aggregate may read."""


@dataclass(frozen=True)
class Aggregate(ABC):
    """One aggregate of a query; a user's own derives from it.

    Attributes:
        name: Its column in the results.
        columns: Suffixes of its state columns; one without a name has the aggregate's.
        neutral: The state of no records; combining with it changes nothing.
        slides: See the module; "deducts" where the class has a `deduct` and says nothing else.
        by_column: How to combine, where each column is summed, or its least or largest value taken;
            None: `combine` says.
        gives: What the result is: an integer of its own, a value of the column read, a total of
            such values, a real number, or a list of values (see `lists`).

    Example:
        >>> class Product(Aggregate):
        ...     neutral = (1,)
        ...     def create(self, columns):
        ...         return [columns["x"]]
        ...     def combine(self, a, b):
        ...         return a * b
        >>> Product("product").slides
        'stacks'
    """

    name: str
    columns: ClassVar[tuple[str, ...]] = ("",)
    neutral: ClassVar[tuple[int, ...]]
    slides: ClassVar[Slides] = "stacks"
    by_column: ClassVar[ByColumn | None] = None
    gives: ClassVar[Gives] = "integer"

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "deduct" in vars(cls) and "slides" not in vars(cls):
            cls.slides = "deducts"

    @abstractmethod
    def create(self, columns: Mapping[str, Int64s]) -> Sequence[Int64s]:
        """The states of single records.

        Args:
            columns: What the workload decoded, int64[n] each, and `TIMESTAMP`.

        Returns:
            int64[n] for each state column.
        """

    def combine(self, a: Int64s, b: Int64s) -> Int64s:
        """Combine states, int64[num columns, n] each: associative and commutative."""
        if self.by_column == "sum":
            return a + b
        if self.by_column == "min":
            return np.minimum(a, b)
        if self.by_column == "max":
            return np.maximum(a, b)
        raise NotImplementedError(f"{type(self).__name__} needs a combine method or by_column")

    def deduct(self, a: Int64s, b: Int64s) -> Int64s:
        """Take states b out of states a: `deduct(combine(a, b), b)` is a, for every a and b.

        An aggregate that has it slides by one combine and one deduction for each partial; one that
        cannot have it, such as a maximum, leaves it away and slides by two stacks.
        """
        raise NotImplementedError(f"{type(self).__name__} has no deduct")

    def carry(self, states: Int64s) -> None:  # noqa: B027 - most states need none
        """Make equal states equal in their columns too, in place; for sums of limbs."""

    def finish(self, states: Int64s, count: Int64s, type_: pa.DataType) -> pa.Array:  # noqa: ARG002
        """Turn states into a column of the results.

        Args:
            states: int64[num columns, n]; neutral where a key has left the window.
            count: int64[n], records in the window.
            type_: Of the column.
        """
        return pa.array(states[0], type=type_)

    @property
    def reads(self) -> tuple[str, ...]:
        """The columns of records that `create` reads; one's own aggregate names them."""
        column = getattr(self, "column", None)
        return () if column is None else (column,)

    def default_type(self, digits: int) -> pa.DataType:
        """The type of the results' column where none is asked for.

        Args:
            digits: Decimal places of the values of the column read.
        """
        if self.gives == "real":
            return pa.float64()
        if self.gives == "total":
            return pa.decimal128(38, digits)
        return pa.decimal128(19, digits) if self.gives == "value" and digits else pa.int64()

    @property
    def column_names(self) -> tuple[str, ...]:
        """The full names of the state columns."""
        return tuple(f"{self.name}.{each}" if each else self.name for each in self.columns)


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


def _values(values: Int64s, count: Int64s, type_: pa.DataType, name: str) -> pa.Array:
    """Single values as a column; null where a key has left."""
    gone = count == 0
    if pa.types.is_decimal128(type_):
        column = wide.to_array(np.stack(wide.split(values)), type_, name)
        return pc.if_else(pa.array(gone), pa.scalar(None, type_), column) if gone.any() else column
    column = pa.array(values, mask=gone)
    return column.view(type_) if pa.types.is_temporal(type_) else column.cast(type_)


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
        return _values(states[0], count, type_, self.name)


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
        return _values(states[1], count, type_, self.name)


@dataclass(frozen=True)
class First(Last):
    """The value of the record with the smallest event time; of several, the smallest value."""

    neutral: ClassVar[tuple[int, ...]] = (LARGEST, LARGEST)

    def combine(self, a: Int64s, b: Int64s) -> Int64s:
        """See `Aggregate`."""
        return np.where((b[0] < a[0]) | ((b[0] == a[0]) & (b[1] < a[1])), b, a)


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


@dataclass(frozen=True)
class Aggregates:
    """The aggregates of a query; the first is always the number of records.

    Args:
        others: Aggregates beside the count.
        order_by: Names of the aggregates by which the top is found, largest first; keys break ties,
            smallest bytes first, the null key before all.

    Example:
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
