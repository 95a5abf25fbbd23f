"""Lines ``ts,key,x``: how many records each key has in each window, and the sum of x.

The plainest keyed stream; the benchmarks use it. The key may hold commas: ts (milliseconds) ends at
the first comma, x begins after the last. Keys are any bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pyarrow as pa

from pipelines.aggregates import Aggregates, Sum
from pipelines.text_input import LineChunk, RejectedLine
from pipelines.workloads.base import RECORDS, Decoded, Parsed, Parser, Workload
from pipelines.workloads.fields import comma_fields, parse_integers, slices

if TYPE_CHECKING:
    import duckdb

# Integers of more digits may not fit 64 bits.
_INTEGER = "-?[0-9]{1,18}"
# Readers of Parquet keep microseconds, which end with the year 294247; this is the year 33658.
_END_MS = 10**15


class LineParser(Parser):
    """Takes the event time and the key out of each line; the line itself is the value."""

    def parse(self, chunk: LineChunk) -> Parsed:
        """See `Parser`."""
        lines = pa.array(chunk.lines, type=pa.string()).cast(pa.binary())
        flat, begins, first, last, ends, good = comma_fields(lines)
        timestamps, good_time = parse_integers(flat, begins, np.where(good, first, begins))
        _, good_x = parse_integers(flat, np.where(good, last + 1, ends), ends)
        near = np.abs(timestamps) < _END_MS
        reasons = np.select(
            [~good, ~good_time, ~near, ~good_x],
            [
                "expected ts,key,x",
                "ts is no integer of at most 18 digits",
                "ts is no time in milliseconds: it is beyond the year 33658",
                "x is no integer of at most 18 digits",
            ],
            default="",
        )
        keep = pa.array(np.flatnonzero(reasons == ""))
        rejected = [
            RejectedLine(chunk.path, chunk.first_line_number + i, str(reasons[i]), chunk.lines[i])
            for i in np.flatnonzero(reasons != "").tolist()
        ]
        keys = slices(flat, np.where(good, first + 1, ends), np.where(good, last, ends))
        table = pa.table([pa.array(timestamps), keys, lines], schema=RECORDS)
        return Parsed(table.take(keep) if rejected else table, rejected)


class KeyedSum(Workload):
    """Count and sum per key."""

    # data
    name: ClassVar[str] = "keyed-sum"
    default_window_ms = 1_800_000
    default_slide_ms = 60_000

    # parse
    def parser(self) -> LineParser:
        """See `Workload`."""
        return LineParser()

    def decode(self, keys: pa.Array, values: pa.Array) -> Decoded:  # noqa: ARG002
        """See `Workload`."""
        flat, begins, first, last, ends, good = comma_fields(values)
        timestamps, good_time = parse_integers(flat, begins, np.where(good, first, begins))
        xs, good_x = parse_integers(flat, np.where(good, last + 1, ends), ends)
        good &= good_time & good_x & (np.abs(timestamps) < _END_MS)
        return Decoded(timestamps, {"x": xs}, None if good.all() else good)

    # query
    key_fields: ClassVar[tuple[pa.Field, ...]] = (pa.field("key", pa.binary()),)
    value_fields: ClassVar[tuple[pa.Field, ...]] = (
        pa.field("count", pa.int64()),
        pa.field("sum", pa.decimal128(38, 0)),
    )
    aggregates: Aggregates = Aggregates(Sum("sum", "x"))

    # oracle
    def oracle_records(
        self,
        connection: duckdb.DuckDBPyConnection,  # noqa: ARG002 - plain SQL needs no functions
        lines: str,
    ) -> str:
        """See `Workload`."""
        return f"""
            WITH matched AS (
                SELECT line_number,
                       regexp_extract(line, '^({_INTEGER}),(.*),({_INTEGER})$',
                                      ['ts', 'key', 'x'], 's') AS field
                FROM {lines}
            )
            SELECT row_number() OVER (ORDER BY line_number) - 1 AS record_index,
                   field.ts::BIGINT AS timestamp_ms, encode(field.key) AS key,
                   field.x::BIGINT AS x
            FROM matched WHERE field.ts <> '' AND abs(field.ts::BIGINT) < {_END_MS}
        """

    def oracle_values(self) -> dict[str, str]:
        """See `Workload`."""
        return {"count": "count(*)", "sum": "sum(x)"}
