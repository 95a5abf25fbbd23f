"""TPC-H queries over lineitem as a stream: the ship date is the event time.

Lines of `lineitem.tbl` in the order of their ship date (`keyspread data prepare tpch` sorts them).
Prices, quantities, discounts and taxes are exact decimals. With the option `whole`, one window of
20 years holds the whole table, and the results are those of TPC's own query.

TPC-H 3.0.1, sections 2.4.1 (Q1) and 2.4.6 (Q6). Q1 is in Holistic (VLDB 2017), section 5; Q1, Q6
and the quantity per part are in Prompt (SIGMOD 2020), section 7.1.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from partitioners.errors import InputError
from pipelines.aggregates import Aggregates, Mean, Sum
from pipelines.workloads.base import DATA, Decoded, Int64s
from pipelines.workloads.delimited import (
    DAY_MS,
    Column,
    DelimitedWorkload,
    Layout,
    date_ms,
    decimal,
    integer,
    mean_sql,
    one_character,
)

if TYPE_CHECKING:
    import duckdb

# From 1990 on, so that a window that is a multiple of it holds all of 1992 to 1998.
WHOLE_TABLE_MS = 7_305 * DAY_MS
NUM_COLUMNS = 16
_NUMBER = "[+-]?[0-9]{1,9}([.][0-9]{1,2})?"
_SHARE = "[+-]?[0-9]{1,1}([.][0-9]{1,2})?"
_NOT_A_NUMBER = "is no decimal number of at most two places"

LINEITEM = {
    "l_orderkey": Column(0, integer, "l_orderkey is no integer"),
    "l_partkey": Column(1, integer, "l_partkey is no integer"),
    "l_quantity": Column(4, decimal(2), f"l_quantity {_NOT_A_NUMBER}"),
    "l_extendedprice": Column(5, decimal(2), f"l_extendedprice {_NOT_A_NUMBER}"),
    "l_discount": Column(6, decimal(2, 1), f"l_discount {_NOT_A_NUMBER}"),
    "l_tax": Column(7, decimal(2, 1), f"l_tax {_NOT_A_NUMBER}"),
    "l_returnflag": Column(8, one_character, "l_returnflag is not one character"),
    "l_linestatus": Column(9, one_character, "l_linestatus is not one character"),
    "l_shipdate": Column(10, date_ms, "l_shipdate is no date YYYY-MM-DD"),
}
# The same in SQL: how a column is checked, and its type.
_SQL_TYPES = {
    "l_orderkey": ("-?[0-9]{1,18}", "BIGINT"),
    "l_partkey": ("-?[0-9]{1,18}", "BIGINT"),
    "l_quantity": (_NUMBER, "DECIMAL(15, 2)"),
    "l_extendedprice": (_NUMBER, "DECIMAL(15, 2)"),
    "l_discount": (_SHARE, "DECIMAL(15, 2)"),
    "l_tax": (_SHARE, "DECIMAL(15, 2)"),
    "l_returnflag": (".", "VARCHAR"),
    "l_linestatus": (".", "VARCHAR"),
    "l_shipdate": ("[0-9]{4}-[0-9]{2}-[0-9]{2}", "DATE"),
}


def lineitem_layout(*names: str) -> Layout:
    """The layout of `lineitem.tbl`, of which a query reads these columns."""
    return Layout(NUM_COLUMNS, {name: LINEITEM[name] for name in names}, "|", True)


def midnight_ms(date: str) -> int:
    """Milliseconds of a date `YYYY-MM-DD`.

    Example:
        >>> midnight_ms("1970-01-02")
        86400000
    """
    return int(np.datetime64(date, "ms").astype(np.int64))


class Lineitem(DelimitedWorkload):
    """What all queries over lineitem share.

    Args:
        whole: One window of 20 years, for TPC's own answer.
    """

    # data
    default_input: ClassVar[Path | None] = DATA / "tpch" / "lineitem.tbl.gz"
    default_slide_ms = DAY_MS

    def __init__(self, whole: bool = False) -> None:
        if not isinstance(whole, bool):
            raise InputError(f"whole must be true or false, not {whole}")
        self.whole = whole
        if whole:
            self.default_window_ms = self.default_slide_ms = WHOLE_TABLE_MS

    # oracle
    def lineitem_sql(self, lines: str) -> str:
        """SQL for the lines that read, with the columns of the query typed."""
        places = {name: column.position + 1 for name, column in LINEITEM.items()}
        read = ", ".join(
            f"TRY_CAST(f[{places[name]}] AS {_SQL_TYPES[name][1]}) AS {name}"
            for name in self.layout.columns
        )
        checks = " AND ".join(
            f"regexp_full_match(f[{places[name]}], '{_SQL_TYPES[name][0]}')"
            for name in self.layout.columns
        )
        return f"""
            SELECT * FROM (
                SELECT line_number, {read} FROM (
                    SELECT line_number, string_split(regexp_replace(line, '[|]$', ''), '|') AS f
                    FROM {lines}
                ) WHERE len(f) = {NUM_COLUMNS} AND {checks}
            ) WHERE l_shipdate IS NOT NULL
        """


class TpchQ1(Lineitem):
    """The pricing summary report of the last 90 days, of what was shipped up to 1998-09-02."""

    # data
    name: ClassVar[str] = "tpch-q1"
    default_window_ms = 90 * DAY_MS
    last_ship_date: ClassVar[str] = "1998-09-02"

    # parse
    layout: ClassVar[Layout] = lineitem_layout(
        "l_quantity",
        "l_extendedprice",
        "l_discount",
        "l_tax",
        "l_returnflag",
        "l_linestatus",
        "l_shipdate",
    )
    carried: ClassVar[tuple[str, ...]] = ("l_quantity", "l_extendedprice", "l_discount", "l_tax")

    def select(self, lines: pl.DataFrame, lines_before: int) -> pl.DataFrame:  # noqa: ARG002
        """See `DelimitedWorkload`."""
        return lines.filter(pl.col("l_shipdate") <= midnight_ms(self.last_ship_date)).select(
            *self.carried,
            timestamp_ms="l_shipdate",
            key=pl.format("{}|{}", "l_returnflag", "l_linestatus"),
        )

    def decode(self, keys: pa.Array, values: pa.Array) -> Decoded:
        """See `Workload`."""
        decoded = super().decode(keys, values)
        columns = decoded.columns
        columns["disc_price"] = columns["l_extendedprice"] * (100 - columns["l_discount"])
        columns["charge"] = columns["disc_price"] * (100 + columns["l_tax"])
        return decoded

    def valid_keys(self, keys: pa.Array) -> npt.NDArray[np.bool_] | None:
        """See `Workload`."""
        names = [key is not None and _is_pair(key) for key in keys.to_pylist()]
        return None if all(names) else np.array(names)

    # query
    key_fields: ClassVar[tuple[pa.Field, ...]] = (
        pa.field("l_returnflag", pa.string()),
        pa.field("l_linestatus", pa.string()),
    )
    value_fields: ClassVar[tuple[pa.Field, ...]] = (
        pa.field("sum_qty", pa.decimal128(38, 2)),
        pa.field("sum_base_price", pa.decimal128(38, 2)),
        pa.field("sum_disc_price", pa.decimal128(38, 4)),
        pa.field("sum_charge", pa.decimal128(38, 6)),
        pa.field("avg_qty", pa.float64()),
        pa.field("avg_price", pa.float64()),
        pa.field("avg_disc", pa.float64()),
        pa.field("count_order", pa.int64()),
    )
    aggregates: Aggregates = Aggregates(
        Sum("sum_qty", "l_quantity"),
        Sum("sum_base_price", "l_extendedprice"),
        Sum("sum_disc_price", "disc_price"),
        Sum("sum_charge", "charge"),
        Sum("sum_disc", "l_discount"),
    )
    # Means whose sums are kept anyway, or kept for them.
    _means: ClassVar[dict[str, str]] = {
        "avg_qty": "sum_qty",
        "avg_price": "sum_base_price",
        "avg_disc": "sum_disc",
    }

    def finish_keys(self, keys: pa.Array) -> list[pa.Array]:
        """See `Workload`."""
        parts = pc.split_pattern(keys.cast(pa.string()), "|")
        return [pc.list_element(parts, 0), pc.list_element(parts, 1)]

    def finish_values(self, states: Int64s) -> list[pa.Array]:
        """See `Workload`."""
        count = states[0]
        blocks = {each.name: (each, states[rows]) for each, rows in self.aggregates.blocks}
        columns = []
        for field in self.value_fields:
            if field.name == "count_order":
                columns.append(pa.array(count))
            elif field.name in self._means:
                mean = Mean(field.name, "", scale=100)
                columns.append(mean.finish(blocks[self._means[field.name]][1], count, field.type))
            else:
                each, block = blocks[field.name]
                columns.append(each.finish(block, count, field.type))
        return columns

    # oracle
    def oracle_records(
        self,
        connection: duckdb.DuckDBPyConnection,  # noqa: ARG002 - plain SQL needs no functions
        lines: str,
    ) -> str:
        """See `Workload`."""
        return f"""
            SELECT *, row_number() OVER (ORDER BY line_number) - 1 AS record_index,
                   epoch_ms(l_shipdate::TIMESTAMP) AS timestamp_ms
            FROM ({self.lineitem_sql(lines)})
            WHERE l_shipdate <= DATE '1998-12-01' - INTERVAL 90 DAY
        """

    def oracle_values(self) -> dict[str, str]:
        """See `Workload`."""
        disc_price = "l_extendedprice * (1 - l_discount)"
        return {
            "sum_qty": "sum(l_quantity)",
            "sum_base_price": "sum(l_extendedprice)",
            "sum_disc_price": f"sum({disc_price})",
            "sum_charge": f"sum({disc_price} * (1 + l_tax))",
            "avg_qty": mean_sql("l_quantity", 2),
            "avg_price": mean_sql("l_extendedprice", 2),
            "avg_disc": mean_sql("l_discount", 2),
            "count_order": "count(*)",
        }

    def oracle_gone(self) -> dict[str, object]:
        """See `Workload`."""
        return {**super().oracle_gone(), **dict.fromkeys(self._means)}


class TpchQ6(Lineitem):
    """The revenue that discounts of 0.05 to 0.07 on small quantities cost in the last 365 days.

    The window that starts with 1994 holds TPC's answer. With `whole`, what was shipped in other
    years is ignored, as in TPC's query. There are no groups, so the records have the null key.
    """

    # data
    name: ClassVar[str] = "tpch-q6"
    default_window_ms = 365 * DAY_MS

    # parse
    layout: ClassVar[Layout] = lineitem_layout(
        "l_quantity", "l_extendedprice", "l_discount", "l_shipdate"
    )
    carried: ClassVar[tuple[str, ...]] = ("discounted",)

    def select(self, lines: pl.DataFrame, lines_before: int) -> pl.DataFrame:  # noqa: ARG002
        """See `DelimitedWorkload`."""
        wanted = pl.col("l_discount").is_between(5, 7) & (pl.col("l_quantity") < 2400)
        if self.whole:
            first, end = midnight_ms("1994-01-01"), midnight_ms("1995-01-01")
            wanted &= pl.col("l_shipdate").is_between(first, end, closed="left")
        return lines.filter(wanted).select(
            timestamp_ms="l_shipdate",
            key=pl.lit(None, dtype=pl.String),
            discounted=pl.col("l_extendedprice") * pl.col("l_discount"),
        )

    # query
    key_fields: ClassVar[tuple[pa.Field, ...]] = ()
    value_fields: ClassVar[tuple[pa.Field, ...]] = (pa.field("revenue", pa.decimal128(38, 4)),)
    aggregates: Aggregates = Aggregates(Sum("revenue", "discounted"))

    # oracle
    def oracle_records(
        self,
        connection: duckdb.DuckDBPyConnection,  # noqa: ARG002 - plain SQL needs no functions
        lines: str,
    ) -> str:
        """See `Workload`."""
        year = "AND year(l_shipdate) = 1994" if self.whole else ""
        return f"""
            SELECT *, row_number() OVER (ORDER BY line_number) - 1 AS record_index,
                   epoch_ms(l_shipdate::TIMESTAMP) AS timestamp_ms
            FROM ({self.lineitem_sql(lines)})
            WHERE l_discount BETWEEN 0.05 AND 0.07 AND l_quantity < 24 {year}
        """

    def oracle_values(self) -> dict[str, str]:
        """See `Workload`."""
        return {"revenue": "sum(l_extendedprice * l_discount)"}


class TpchParts(Lineitem):
    """Quantity of each part in the last 45 minutes of the replay.

    Line i of the table has event time i * 1000 / event_rate milliseconds.

    Args:
        event_rate: Lines per second of event time.
    """

    # data
    name: ClassVar[str] = "tpch-parts"
    default_window_ms = 2_700_000
    default_slide_ms = 60_000

    def __init__(self, event_rate: int = 10) -> None:
        super().__init__()
        if not isinstance(event_rate, int) or not 1 <= event_rate <= 10**9:
            raise InputError(f"event_rate must be from 1 to 1,000,000,000, not {event_rate}")
        self.event_rate = event_rate

    # parse
    layout: ClassVar[Layout] = lineitem_layout("l_partkey", "l_quantity", "l_shipdate")
    carried: ClassVar[tuple[str, ...]] = ("l_quantity",)

    def select(self, lines: pl.DataFrame, lines_before: int) -> pl.DataFrame:
        """See `DelimitedWorkload`."""
        number = pl.int_range(pl.len(), dtype=pl.Int64) + lines_before
        return lines.select(
            timestamp_ms=number * 1000 // self.event_rate,
            key=pl.col("l_partkey").cast(pl.String),
            l_quantity="l_quantity",
        )

    # query
    key_fields: ClassVar[tuple[pa.Field, ...]] = (pa.field("l_partkey", pa.int64()),)
    value_fields: ClassVar[tuple[pa.Field, ...]] = (
        pa.field("sum_qty", pa.decimal128(38, 2)),
        pa.field("count", pa.int64()),
    )
    aggregates: Aggregates = Aggregates(Sum("sum_qty", "l_quantity"), order_by=("sum_qty",))

    # oracle
    def oracle_records(
        self,
        connection: duckdb.DuckDBPyConnection,  # noqa: ARG002 - plain SQL needs no functions
        lines: str,
    ) -> str:
        """See `Workload`."""
        return f"""
            SELECT *, record_index * 1000 // {self.event_rate} AS timestamp_ms FROM (
                SELECT *, row_number() OVER (ORDER BY line_number) - 1 AS record_index
                FROM ({self.lineitem_sql(lines)})
            )
        """

    def oracle_values(self) -> dict[str, str]:
        """See `Workload`."""
        return {"sum_qty": "sum(l_quantity)", "count": "count(*)"}

    def oracle_order(self) -> str:
        """See `Workload`; parts of equal quantity in the order of their digits."""
        return "sum(l_quantity) DESC, l_partkey::VARCHAR"


def _is_pair(key: bytes) -> bool:
    try:
        return key.decode().count("|") == 1
    except UnicodeDecodeError:
        return False
