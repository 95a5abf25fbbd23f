"""What a workload is: one file with data, parse, query and oracle, in that order."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipelines.query import Decoded, Query
from pipelines.text_input import LineChunk, RejectedLine

if TYPE_CHECKING:
    import duckdb

Int64s = npt.NDArray[np.int64]
Emit = Literal["all", "changed", "top"]

__all__ = ["DATA", "RECORDS", "Decoded", "Int64s", "Parsed", "Parser", "Workload"]

DATA = Path(__file__).resolve().parent.parent / "data"

RECORDS = pa.schema(
    [
        pa.field("timestamp_ms", pa.int64(), nullable=False),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary(), nullable=False),
    ]
)


def sql_utc_time(text: str) -> str:
    """SQL for a text `YYYY-MM-DD HH:MM:SS` as a timestamp, null where it is none.

    A second 60 is the first of the next minute, as Unix time has leap seconds; DuckDB alone refuses
    it.

    Args:
        text: SQL for the text.
    """
    return (
        f"(try_strptime(regexp_replace({text}, ':60$', ':59'), '%Y-%m-%d %H:%M:%S') "
        f"+ CASE WHEN {text} LIKE '%:60' THEN INTERVAL 1 SECOND ELSE INTERVAL 0 SECOND END)"
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


class Parser(ABC):
    """Turns lines into records; keeps what must be carried from chunk to chunk."""

    @abstractmethod
    def parse(self, chunk: LineChunk) -> Parsed:
        """Parse the next chunk; chunks come in the order of the input."""


class Workload(Query):
    """A query with an input that ships, a parser and an oracle.

    Attributes:
        default_input: A file that ships with the project, or None.
        default_encoding: The encoding of that file; "auto" decides line by line.
        default_window_ms: Window of the query.
        default_slide_ms: Slide of the query.
        default_emit: What is written of each window: `all`, `changed` or `top`.
    """

    default_input: ClassVar[Path | None] = None
    default_encoding: ClassVar[str] = "auto"
    default_window_ms: int
    default_slide_ms: int
    default_emit: ClassVar[Emit] = "all"

    @abstractmethod
    def parser(self) -> Parser:
        """A new parser, at the start of an input."""

    def check_windows(self, window_ms: int, slide_ms: int) -> None:
        """Refuse windows that the query cannot have.

        Raises:
            InputError: With the mend.
        """

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
        """The value columns as SQL aggregates over those records, by name.

        Beside the columns of the records there is `window_end_ms`.
        """

    def oracle_expected(
        self,
        connection: duckdb.DuckDBPyConnection,  # noqa: ARG002 - of those that have their own
        window_ms: int,  # noqa: ARG002
    ) -> bool:
        """Fill the oracle's table `expected` from `records`, where SQL over windows cannot.

        Returns:
            Whether it did; the others leave it to `benchmark.oracle`.
        """
        return False

    def publish(self, results_dir: Path, folder: Path) -> None:
        """Write results in a form that the workload's own definition asks for, if there is one.

        Args:
            results_dir: The Parquet files.
            folder: Where it goes: the run's.
        """

    def oracle_order(self) -> str:
        """SQL aggregate expressions that order the keys of a window, as in ORDER BY."""
        return "count(*) DESC"

    def oracle_ranked(self) -> str:
        """SQL condition on the value columns: which keys have a place in that order."""
        return "true"

    def oracle_gone(self) -> dict[str, Any]:
        """The values of a key that has left its last window, by name."""
        return dict.fromkeys(self.oracle_values(), 0)
