"""Workloads over lines of delimited columns: which columns are read, how, and what is no record.

Every column that a query reads is checked by a strict pattern first, so that parser and oracle
agree on what a number, a time or a date is. A line with another number of columns, or with a column
that does not read, is rejected with the reason. Decimals become integers of so many places.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.aggregates import TIMESTAMP
from pipelines.text_input import LineChunk, RejectedLine
from pipelines.workloads.base import RECORDS, Decoded, Parsed, Parser, Workload
from pipelines.workloads.fields import read_int64s, write_int64s

Read = Callable[[pl.Expr], pl.Expr]

DAY_MS = 86_400_000
# Readers of Parquet keep microseconds, which end with the year 294247; this is the year 33658.
END_MS = 10**15
ROW = "row"
"""The column with the number of a line in its chunk, from 0."""
REASON = "reason"
"""The column that says why a line is no record."""

_TIME = r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d$"
_DATE = r"^\d{4}-\d\d-\d\d$"
_INTEGER_KEY = "^(0|-?[1-9][0-9]{0,17})$"


@dataclass(frozen=True)
class Column:
    """One column that a query reads.

    Attributes:
        position: Its place in the line, from 0.
        read: From its text to its value; null where it does not read.
        reason: What to say of a line where it does not.
        optional: An empty text is a null value and no reason.
    """

    position: int
    read: Read
    reason: str
    optional: bool = False


def utc_ms(text: pl.Expr) -> pl.Expr:
    """Read `YYYY-MM-DD HH:MM:SS` as milliseconds; Polars alone would take seconds of one digit."""
    time = text.str.to_datetime("%Y-%m-%d %H:%M:%S", strict=False, time_unit="ms")
    return pl.when(text.str.contains(_TIME)).then(time.cast(pl.Int64))


def date_ms(text: pl.Expr) -> pl.Expr:
    """Read `YYYY-MM-DD` as the milliseconds of its midnight."""
    day = text.str.to_date("%Y-%m-%d", strict=False).cast(pl.Int64)
    return pl.when(text.str.contains(_DATE)).then(day * DAY_MS)


def integer(text: pl.Expr) -> pl.Expr:
    """Read an integer of up to 18 digits."""
    return pl.when(text.str.contains(r"^-?\d{1,18}$")).then(text.cast(pl.Int64, strict=False))


def one_character(text: pl.Expr) -> pl.Expr:
    """Take a text of exactly one character."""
    return pl.when(text.str.len_chars() == 1).then(text)


def decimal(places: int, whole_digits: int = 9) -> Read:
    """Make a reader of decimals such as -73.9565, as integers of so many places.

    Args:
        places: Digits behind the point, at most.
        whole_digits: Digits before it, at most; together no more than 18.

    Example:
        >>> pl.DataFrame({"x": ["1.5", "-0.25", "7", "1.234", "1."]}).select(
        ...     decimal(2)(pl.col("x"))
        ... )["x"].to_list()
        [150, -25, 700, None, None]
    """
    pattern = rf"^[+-]?\d{{1,{whole_digits}}}(?:\.\d{{1,{places}}})?$"

    def read(text: pl.Expr) -> pl.Expr:
        sign = pl.when(text.str.starts_with("-")).then(-1).otherwise(1)
        parts = text.str.strip_chars_start("+-").str.split_exact(".", 1)
        whole = parts.struct.field("field_0").cast(pl.Int64, strict=False)
        fraction = parts.struct.field("field_1").fill_null("").str.pad_end(places, "0")
        value = sign * (whole * 10**places + fraction.cast(pl.Int64, strict=False))
        return pl.when(text.str.contains(pattern)).then(value).alias(text.meta.output_name())

    return read


@dataclass(frozen=True)
class Layout:
    """How lines are cut, and what is read of them.

    Attributes:
        num_columns: Of a line.
        columns: Those that are read.
        separator: Between columns.
        trailing_separator: Lines may end in one.
    """

    num_columns: int
    columns: Mapping[str, Column]
    separator: str = ","
    trailing_separator: bool = False

    def read(self, lines: Sequence[str]) -> pl.DataFrame:
        """Read lines.

        Args:
            lines: Without line ends.

        Returns:
            A row for each: `ROW`, `REASON` (null for a good line) and the columns.
        """
        line = pl.col("line")
        if self.trailing_separator:
            line = line.str.strip_suffix(self.separator)
        fields = pl.DataFrame({"line": pl.Series(lines, dtype=pl.String)}).select(
            fields=line.str.split(self.separator)
        )
        texts = fields.select(
            pl.col("fields").list.len().alias("num_columns"),
            *(
                pl.col("fields").list.get(column.position, null_on_oob=True).alias(name)
                for name, column in self.columns.items()
            ),
        )
        values = [column.read(pl.col(name)).alias(name) for name, column in self.columns.items()]
        frame = texts.select(pl.all().name.prefix("text."), *values).with_row_index(ROW)
        return frame.select(ROW, self._reason().alias(REASON), *self.columns)

    def _reason(self) -> pl.Expr:
        width = pl.col("text.num_columns")
        reason: Any = pl.when(width != self.num_columns).then(
            pl.format(f"{{}} columns instead of {self.num_columns}", width)
        )
        for name, column in self.columns.items():
            unread = pl.col(name).is_null()
            if column.optional:
                unread &= pl.col(f"text.{name}") != ""
            reason = reason.when(unread).then(pl.lit(column.reason))
        out: pl.Expr = reason.otherwise(None)
        return out


class DelimitedParser(Parser):
    """Reads the lines of a `DelimitedWorkload`."""

    def __init__(self, workload: DelimitedWorkload) -> None:
        self._workload = workload
        self._lines_before = 0

    def parse(self, chunk: LineChunk) -> Parsed:
        """See `Parser`."""
        frame = self._workload.complete(self._workload.layout.read(chunk.lines))
        bad = frame.select(ROW, REASON).drop_nulls(REASON)
        good = frame.filter(pl.col(REASON).is_null()) if len(bad) else frame
        records = self._workload.select(good, self._lines_before)
        self._lines_before += len(good)
        rejected = [
            RejectedLine(chunk.path, chunk.first_line_number + row, reason, chunk.lines[row])
            for row, reason in bad.iter_rows()
        ]
        return Parsed(self._table(records), rejected, ignored=len(good) - len(records))

    def _table(self, records: pl.DataFrame) -> pa.Table:
        numbers = [records[name].to_numpy() for name in (TIMESTAMP, *self._workload.carried)]
        keys = records["key"].to_arrow().cast(pa.binary())
        columns = [pa.array(numbers[0]), keys, write_int64s(*numbers)]
        return pa.table(columns, schema=RECORDS)


class DelimitedWorkload(Workload):
    """A workload over delimited lines.

    Attributes:
        layout: Of the lines.
        carried: What a record's value holds beside its event time: the columns of `select` that
            the aggregates read, int64 each.
    """

    layout: ClassVar[Layout]
    carried: ClassVar[tuple[str, ...]]

    def parser(self) -> DelimitedParser:
        """See `Workload`."""
        return DelimitedParser(self)

    def complete(self, lines: pl.DataFrame) -> pl.DataFrame:
        """Add columns from elsewhere to lines that were read, and reasons to refuse them."""
        return lines

    @abstractmethod
    def select(self, lines: pl.DataFrame, lines_before: int) -> pl.DataFrame:
        """Make records of good lines.

        Args:
            lines: What `complete` gave.
            lines_before: Good lines of earlier chunks.

        Returns:
            Columns `timestamp_ms`, `key` (text or null) and those of `carried`, in the order of the
            lines; lines that are none of the query's business are left out.
        """

    def decode(self, keys: pa.Array, values: pa.Array) -> Decoded:  # noqa: ARG002
        """See `Workload`."""
        (timestamps, *columns), good = read_int64s(values, 1 + len(self.carried))
        return Decoded(timestamps, dict(zip(self.carried, columns, strict=True)), good)

    def valid_keys(self, keys: pa.Array) -> npt.NDArray[np.bool_] | None:
        """See `Workload`; keys of an integer column must be integers in plain decimal."""
        if not self.key_fields:
            return None
        if not pa.types.is_integer(self.key_fields[0].type):
            return super().valid_keys(keys)
        matches = pc.match_substring_regex(keys, _INTEGER_KEY).fill_null(True)
        found: npt.NDArray[np.bool_] = matches.to_numpy(zero_copy_only=False)
        return None if found.all() else found

    def finish_keys(self, keys: pa.Array) -> list[pa.Array]:
        """See `Workload`."""
        return [keys.cast(pa.string()).cast(field.type) for field in self.key_fields]


def mean_sql(column: str, places: int) -> str:
    """SQL for the mean of a decimal column: one division of two integers, so the nearest double.

    Args:
        column: Its name.
        places: Its digits behind the point.
    """
    scale = 10**places
    return f"(sum({column}) * {scale})::HUGEINT::DOUBLE / (count(*) * {scale})::DOUBLE"
