"""Prompt's two queries over the taxi trips of DEBS 2015: fare and distance of each taxi.

The official lines, as `debs_q1` reads them; a trip counts at its drop-off. Coordinates play no
part, so trips with zero coordinates count too. Times are New York's as written, taken as UTC: on
the two days a year when clocks change, an hour is missing or comes twice.

Prompt (Abdelhamid, Mahmood, Daghistani, Aref; SIGMOD 2020), section 7.1: total fare of each taxi
over 2 h windows with a 5 min slide; total distance over 45 min with a slide of 1 min.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import polars as pl
import pyarrow as pa

from pipelines.aggregates import Aggregates, Sum
from pipelines.workloads.base import DATA, sql_utc_time
from pipelines.workloads.delimited import Column, DelimitedWorkload, Layout, decimal, utc_ms

if TYPE_CHECKING:
    import duckdb

NUM_COLUMNS = 17


def medallion(text: pl.Expr) -> pl.Expr:
    """Take a text that is not empty."""
    return pl.when(text != "").then(text)


class TaxiTrips(DelimitedWorkload):
    """A total per medallion.

    Attributes:
        measured: The column that is totalled, and its place in the SQL list, from 1.
        total: Name of the total in the results.
    """

    # data
    default_input: ClassVar[Path | None] = DATA / "debs2015_first_hour.csv.gz"
    measured: ClassVar[tuple[str, int]]
    total: ClassVar[str]

    # parse
    def select(self, lines: pl.DataFrame, lines_before: int) -> pl.DataFrame:  # noqa: ARG002
        """See `DelimitedWorkload`."""
        return lines.select("timestamp_ms", "key", *self.carried)

    # query
    key_fields: ClassVar[tuple[pa.Field, ...]] = (pa.field("medallion", pa.string()),)

    # oracle
    def oracle_records(
        self,
        connection: duckdb.DuckDBPyConnection,  # noqa: ARG002 - plain SQL needs no functions
        lines: str,
    ) -> str:
        """See `Workload`."""
        column, place = self.measured
        return f"""
            WITH split AS (
                SELECT line_number, string_split(line, ',') AS f FROM {lines}
            ), valid AS (
                SELECT *, {sql_utc_time("f[4]")} AS dropoff FROM split
                WHERE len(f) = {NUM_COLUMNS} AND f[1] <> '' AND length(f[4]) = 19
                  AND regexp_full_match(f[{place}], '[+-]?[0-9]{{1,9}}([.][0-9]{{1,2}})?')
            )
            SELECT row_number() OVER (ORDER BY line_number) - 1 AS record_index,
                   epoch_ms(dropoff) AS timestamp_ms, f[1] AS medallion,
                   f[{place}]::DECIMAL(18, 2) AS {column}
            FROM valid WHERE dropoff IS NOT NULL
        """

    def oracle_values(self) -> dict[str, str]:
        """See `Workload`."""
        return {self.total: f"sum({self.measured[0]})", "count": "count(*)"}

    def oracle_order(self) -> str:
        """See `Workload`."""
        return f"sum({self.measured[0]}) DESC"


def _layout(measured: str, position: int) -> Layout:
    number = f"{measured.replace('_', ' ')} is no decimal number of at most two places"
    columns = {
        "key": Column(0, medallion, "medallion is empty"),
        "timestamp_ms": Column(3, utc_ms, "drop-off time is not YYYY-MM-DD HH:MM:SS"),
        measured: Column(position, decimal(2), number),
    }
    return Layout(NUM_COLUMNS, columns)


class DebsFare(TaxiTrips):
    """Total fare of each taxi in the last two hours."""

    # data
    name: ClassVar[str] = "debs-fare"
    default_window_ms = 7_200_000
    default_slide_ms = 300_000
    measured: ClassVar[tuple[str, int]] = ("fare_amount", 12)
    total: ClassVar[str] = "total_fare"

    # parse
    layout: ClassVar[Layout] = _layout("fare_amount", 11)
    carried: ClassVar[tuple[str, ...]] = ("fare_amount",)

    # query
    value_fields: ClassVar[tuple[pa.Field, ...]] = (
        pa.field("total_fare", pa.decimal128(38, 2)),
        pa.field("count", pa.int64()),
    )
    aggregates: Aggregates = Aggregates(Sum("total_fare", "fare_amount"), order_by=("total_fare",))


class DebsDistance(TaxiTrips):
    """Total distance of each taxi, in miles, in the last 45 minutes."""

    # data
    name: ClassVar[str] = "debs-distance"
    default_window_ms = 2_700_000
    default_slide_ms = 60_000
    measured: ClassVar[tuple[str, int]] = ("trip_distance", 6)
    total: ClassVar[str] = "total_distance"

    # parse
    layout: ClassVar[Layout] = _layout("trip_distance", 5)
    carried: ClassVar[tuple[str, ...]] = ("trip_distance",)

    # query
    value_fields: ClassVar[tuple[pa.Field, ...]] = (
        pa.field("total_distance", pa.decimal128(38, 2)),
        pa.field("count", pa.int64()),
    )
    aggregates: Aggregates = Aggregates(
        Sum("total_distance", "trip_distance"), order_by=("total_distance",)
    )
