"""What an aggregate is: see the package for the ways in which they slide."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

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

    To accumulate a record is to `create` its state and to `combine` that with the states before.

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


def in_type(values: Int64s, count: Int64s, type_: pa.DataType, name: str) -> pa.Array:
    """Single values as a column; null where a key has left."""
    gone = count == 0
    if pa.types.is_decimal128(type_):
        column = wide.to_array(np.stack(wide.split(values)), type_, name)
        return pc.if_else(pa.array(gone), pa.scalar(None, type_), column) if gone.any() else column
    column = pa.array(values, mask=gone)
    return column.view(type_) if pa.types.is_temporal(type_) else column.cast(type_)
