"""What a workload is: one file with data, parse, query and oracle, in that order."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipelines.aggregates import Aggregates
from pipelines.text_input import LineChunk, RejectedLine

if TYPE_CHECKING:
    import duckdb

Int64s = npt.NDArray[np.int64]
Emit = Literal["all", "changed", "top"]

DATA = Path(__file__).resolve().parent.parent / "data"

RECORDS = pa.schema(
    [
        pa.field("timestamp_ms", pa.int64(), nullable=False),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary(), nullable=False),
    ]
)


@dataclass(frozen=True)
class Parsed:
    """The records of a chunk of lines.

    Attributes:
        table: Schema `RECORDS`, in the order of the lines.
        rejected: Lines that do not parse.
        ignored: Lines that are well formed but none of the query's business.
    """

    table: pa.Table
    rejected: list[RejectedLine] = field(default_factory=list)
    ignored: int = 0


@dataclass(frozen=True)
class Decoded:
    """Raw record values as a combiner needs them.

    Attributes:
        timestamp_ms: int64[n] event times.
        columns: The columns the aggregates read, int64[n] each.
        good: bool[n], False where the value is none of this workload's; None: all good.
    """

    timestamp_ms: Int64s
    columns: dict[str, Int64s] = field(default_factory=dict)
    good: npt.NDArray[np.bool_] | None = None


class Parser(ABC):
    """Turns lines into records; keeps what must be carried from chunk to chunk."""

    @abstractmethod
    def parse(self, chunk: LineChunk) -> Parsed:
        """Parse the next chunk; chunks come in the order of the input."""


class Workload(ABC):
    """A query over a keyed stream. Instances are pickled to Spark's Python workers.

    Attributes:
        name: Its name in the registry.
        default_input: A file that ships with the project, or None.
        default_encoding: The encoding of that file; "auto" decides line by line.
        default_window_ms: Window of the query.
        default_slide_ms: Slide of the query.
        default_emit: What is written of each window: `all`, `changed` or `top`.
        key_fields: Columns of the results that hold the key.
        value_fields: Columns of the results that hold the values.
        aggregates: What to compute.
        k: How many keys the top of a window has.
    """

    name: ClassVar[str]
    default_input: ClassVar[Path | None] = None
    default_encoding: ClassVar[str] = "auto"
    default_window_ms: int
    default_slide_ms: int
    default_emit: ClassVar[Emit] = "all"
    key_fields: ClassVar[tuple[pa.Field, ...]]
    value_fields: ClassVar[tuple[pa.Field, ...]]
    aggregates: ClassVar[Aggregates]
    k: ClassVar[int] = 10

    @abstractmethod
    def parser(self) -> Parser:
        """A new parser, at the start of an input."""

    @abstractmethod
    def decode(self, keys: pa.Array, values: pa.Array) -> Decoded:
        """Read raw record values; `keys` and `values` are binary arrays of one length."""

    def valid_keys(self, keys: pa.Array) -> npt.NDArray[np.bool_] | None:
        """Which raw keys (binary, all different) are this workload's; None: all of them.

        Unless a workload knows better, keys of a text column must be UTF-8.
        """
        if not pa.types.is_string(self.key_fields[0].type):
            return None
        try:
            keys.cast(pa.string())
        except pa.ArrowInvalid:
            return np.array([key is None or _is_utf8(key) for key in keys.to_pylist()])
        return None

    def finish_keys(self, keys: pa.Array) -> list[pa.Array]:
        """Turn raw keys (binary, all different) into the key columns."""
        return [keys.cast(self.key_fields[0].type)]

    def finish_values(self, states: Int64s) -> list[pa.Array]:
        """Turn states into the value columns.

        Args:
            states: int64[num state columns, n]; a key that has left has its neutral states.
        """
        return self.aggregates.finish(states, self.value_fields)

    @abstractmethod
    def oracle_records(self, connection: duckdb.DuckDBPyConnection, lines: str) -> str:
        """Return SQL for the records of an input, written apart from `parser` and `decode`.

        Args:
            connection: Where the SQL will run; functions may be registered here.
            lines: Name of a relation (line_number, line).

        Returns:
            A query with record_index (from 0, in order of input), timestamp_ms, the key columns by
            name, and the columns `oracle_values` reads.
        """

    @abstractmethod
    def oracle_values(self) -> dict[str, str]:
        """The value columns as SQL aggregates over those records, by name."""

    def oracle_order(self) -> str:
        """SQL aggregates expressions that order the keys of a window, as in ORDER BY."""
        return "count(*) DESC"

    def oracle_gone(self) -> dict[str, Any]:
        """The values of a key that has left its last window, by name."""
        return dict.fromkeys(self.oracle_values(), 0)


def _is_utf8(key: bytes) -> bool:
    try:
        key.decode()
    except UnicodeDecodeError:
        return False
    return True
