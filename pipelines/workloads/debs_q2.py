"""Query 2 of the ACM DEBS 2015 Grand Challenge: the ten most profitable cells.

A cell (250 m) is as profitable as its median profit over its number of empty taxis. Profits are the
fare and tip of trips that began in the cell and ended in the last 15 minutes. A taxi is empty in
the cell of its last drop-off, if that was in the last 30 minutes and no later pick-up is known;
a pick-up is known once its trip has ended, as in the challenge, where a trip is one event.

A trip makes up to three records at its drop-off, each keyed by a cell::

    leaves   the cell of the taxi's drop-off before: that drop-off is its last no longer
    profit   the pick-up's cell
    arrives  the drop-off's cell: the taxi is empty there

The parser knows the taxis, so a stream is keyed by cell alone. Within a window of 30 minutes the
empty taxis are the drop-offs that arrive or leave, less those that leave: a drop-off that arrived
before the window began is in both counts, and no other has to be remembered. A taxi's last drop-off
is by the order of lines; a trip that comes after a later trip of its taxi leaves it where it is.

Cells without an empty taxi, or without a profit, have no profitability and no place in the ten.
Cells of equal profitability are ordered by their newest record, newest first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import polars as pl
import pyarrow as pa

from partitioners.errors import InputError
from pipelines.aggregates import SMALLEST, Aggregates, Derived, Distinct, Latest, Median, Sum
from pipelines.text_input import LineChunk, RejectedLine
from pipelines.workloads.base import (
    DATA,
    RECORDS,
    Decoded,
    Emit,
    Int64s,
    Parsed,
    Parser,
    Workload,
    sql_utc_time,
)
from pipelines.workloads.debs_taxi import NUM_COLUMNS, medallion
from pipelines.workloads.delimited import REASON, ROW, Column, Layout, decimal, utc_ms
from pipelines.workloads.fields import read_int64s, write_int64s

if TYPE_CHECKING:
    import duckdb

GRID_CELLS = 600
PROFIT_MS = 900_000
FRESHNESS_BITS = 20
_CENTS = 100
_COORDINATES = ("pickup_longitude", "pickup_latitude", "dropoff_longitude", "dropoff_latitude")
_LEAVES, _PROFIT, _ARRIVES = range(3)
_degrees = decimal(6, 3)
_money = decimal(2)

_LAYOUT = Layout(
    NUM_COLUMNS,
    {
        "taxi": Column(0, medallion, "medallion is empty"),
        "timestamp_ms": Column(3, utc_ms, "drop-off time is not YYYY-MM-DD HH:MM:SS"),
        **{
            name: Column(6 + i, _degrees, "a coordinate is no decimal number of at most six places")
            for i, name in enumerate(_COORDINATES)
        },
        "fare": Column(11, _money, "fare amount is no decimal number of at most two places"),
        "tip": Column(14, _money, "tip amount is no decimal number of at most two places"),
    },
)


def _cell(longitude: str, latitude: str) -> tuple[pl.Expr, pl.Expr]:
    """The 250 m cell of a point in micro-degrees; 1.1 is the north-western corner."""
    x = (2 * (pl.col(longitude) + 74_913_585) + 2_993) // 5_986 + 1
    y = (1_000 * (41_474_937 - pl.col(latitude)) + 1_122_889) // 2_245_778 + 1
    return x, y


class CellParser(Parser):
    """Reads the official CSV lines; keeps of each taxi its last drop-off."""

    def __init__(self) -> None:
        self._trips = 0
        self._last = pl.DataFrame(
            schema={
                "taxi": pl.String,
                "timestamp_ms": pl.Int64,
                "trip": pl.Int64,
                "to": pl.String,
            }
        )

    def parse(self, chunk: LineChunk) -> Parsed:
        """See `Parser`."""
        lines = _LAYOUT.read(chunk.lines)
        bad = lines.select(ROW, REASON).drop_nulls(REASON)
        good = lines.filter(pl.col(REASON).is_null()) if len(bad) else lines
        trips = self._trips_of(good)
        records = self._records(trips)
        rejected = [
            RejectedLine(chunk.path, chunk.first_line_number + row, reason, chunk.lines[row])
            for row, reason in bad.iter_rows()
        ]
        names = ("timestamp_ms", "profit", "trip", "leaves", "newest")
        values = write_int64s(*(records[name].to_numpy() for name in names))
        keys = records["cell"].to_arrow().cast(pa.binary())
        timestamps = pa.array(records["timestamp_ms"].to_numpy())
        table = pa.table([timestamps, keys, values], schema=RECORDS)
        return Parsed(table, rejected, ignored=len(good) - len(trips))

    def _trips_of(self, lines: pl.DataFrame) -> pl.DataFrame:
        """Trips within the grid, numbered from 1 over the whole input."""
        from_x, from_y = _cell(*_COORDINATES[:2])
        to_x, to_y = _cell(*_COORDINATES[2:])
        cells = {"from_x": from_x, "from_y": from_y, "to_x": to_x, "to_y": to_y}
        inside = pl.all_horizontal(pl.col(name).is_between(1, GRID_CELLS) for name in cells)
        trips = (
            lines.with_columns(**cells)
            .filter(inside)
            .select(
                ROW,
                "taxi",
                "timestamp_ms",
                # Odd, so that 0 is no profit.
                profit=2 * (pl.col("fare") + pl.col("tip")) + 1,
                begins=pl.format("{}.{}", "from_x", "from_y"),
                to=pl.format("{}.{}", "to_x", "to_y"),
            )
        )
        numbers = np.arange(self._trips + 1, self._trips + 1 + len(trips), dtype=np.int64)
        self._trips += len(trips)
        return trips.with_columns(trip=pl.Series(numbers))

    def _records(self, trips: pl.DataFrame) -> pl.DataFrame:
        """The records of the trips, in their order."""
        known = pl.concat([self._last, trips.select(self._last.columns)])
        newest = pl.col("timestamp_ms").cum_max().over("taxi") == pl.col("timestamp_ms")
        drops = known.filter(newest).with_columns(
            left=pl.col("trip").shift(1).over("taxi"), left_cell=pl.col("to").shift(1).over("taxi")
        )
        self._last = drops.group_by("taxi", maintain_order=True).last().select(self._last.columns)
        since = self._trips - len(trips)
        drops = drops.filter(pl.col("trip") > since)
        nothing = pl.lit(0, pl.Int64)

        def made(rows: pl.DataFrame, kind: int, cell: str, **columns: pl.Expr) -> pl.DataFrame:
            given = {"profit": nothing, "trip": nothing, "leaves": nothing, **columns}
            return rows.select(
                "timestamp_ms",
                cell=pl.col(cell),
                newest=pl.col("trip"),
                kind=pl.lit(kind),
                **given,
            )

        leaving = drops.filter(pl.col("left").is_not_null())
        return pl.concat(
            [
                made(
                    leaving, _LEAVES, "left_cell", trip=pl.col("left"), leaves=pl.lit(1, pl.Int64)
                ),
                made(trips, _PROFIT, "begins", profit=pl.col("profit")),
                made(drops, _ARRIVES, "to", trip=pl.col("trip")),
            ]
        ).sort("newest", "kind")


@dataclass(frozen=True)
class Profitability(Derived):
    """Median profit over empty taxis: the bits of the double, in the order of values."""

    def derive(self, states: Mapping[str, Int64s]) -> Int64s:
        """See `Derived`."""
        low, high = states["median_profit.low"], states["median_profit.high"]
        empty = empty_taxis(states)
        there = (low != 0) & (empty > 0)
        # One division of two integers gives the nearest double.
        ratio = twice_median(low, high) / (2.0 * _CENTS * np.where(there, empty, 1))
        return np.where(there, sortable(ratio), SMALLEST)


def empty_taxis(states: Mapping[str, Int64s]) -> Int64s:
    """How many taxis are empty, int64[n]."""
    return states["trips"] - states["leaves.low"]


def twice_median(low: Int64s, high: Int64s) -> Int64s:
    """Two times the median in cents, from the middle two as the parser wrote them."""
    return (low - 1) // 2 + (high - 1) // 2


def sortable(values: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> Int64s:
    """Doubles as integers of the same order; its own reverse on the bits of doubles.

    Example:
        >>> sortable(np.array([-2.0, -1.0, 0.0, 1.5])).tolist() == sorted(
        ...     sortable(np.array([-2.0, -1.0, 0.0, 1.5])).tolist()
        ... )
        True
    """
    # Minus zero is zero.
    bits = (values + 0.0).view(np.int64)
    return np.where(bits < 0, bits ^ np.int64(2**63 - 1), bits)


class DebsQ2(Workload):
    """Ten most profitable cells.

    Args:
        profit_ms: Profits are those of so long before the window's end.
    """

    # data
    name: ClassVar[str] = "debs-q2"
    default_input: ClassVar[Path | None] = DATA / "debs2015_first_hour.csv.gz"
    default_window_ms = 1_800_000
    default_slide_ms = 60_000
    default_emit: ClassVar[Emit] = "top"

    def __init__(self, profit_ms: int = PROFIT_MS) -> None:
        if not 1 <= profit_ms <= 10**15:
            raise InputError(f"profit_ms must be from 1 to 10^15, not {profit_ms}")
        self.profit_ms = profit_ms
        self.aggregates = Aggregates(
            Median("median_profit", "profit", absent=0, last_ms=profit_ms),
            Distinct("trips", "trip", absent=0),
            Sum("leaves", "leaves"),
            Latest("freshness", "freshness"),
            Profitability("profitability"),
            order_by=("profitability", "freshness"),
        )

    def check_windows(self, window_ms: int, slide_ms: int) -> None:
        """See `Workload`."""
        if self.profit_ms > window_ms or (window_ms - self.profit_ms) % slide_ms:
            raise InputError(
                f"profits of the last {self.profit_ms} ms do not fit windows of {window_ms} ms "
                f"that slide by {slide_ms} ms: set --workload-option profit_ms=... to the window "
                "less a multiple of the slide"
            )

    # parse
    def parser(self) -> CellParser:
        """See `Workload`."""
        return CellParser()

    def decode(self, keys: pa.Array, values: pa.Array) -> Decoded:  # noqa: ARG002
        """See `Workload`."""
        (timestamps, profit, trip, leaves, newest), good = read_int64s(values, 5)
        freshness = (timestamps << FRESHNESS_BITS) | (newest & ((1 << FRESHNESS_BITS) - 1))
        columns = {"profit": profit, "trip": trip, "leaves": leaves, "freshness": freshness}
        return Decoded(timestamps, columns, good)

    # query
    key_fields: ClassVar[tuple[pa.Field, ...]] = (pa.field("cell", pa.string()),)
    value_fields: ClassVar[tuple[pa.Field, ...]] = (
        pa.field("profitability", pa.float64()),
        pa.field("median_profit", pa.float64()),
        pa.field("empty_taxis", pa.int64()),
    )

    def finish_values(self, states: Int64s) -> list[pa.Array]:
        """See `Workload`."""
        named = dict(zip(self.aggregates.names, states, strict=True))
        low, high = named["median_profit.low"], named["median_profit.high"]
        number = named["profitability"]
        bits = np.where(number < 0, number ^ np.int64(2**63 - 1), number)
        return [
            pa.array(bits.view(np.float64), mask=number == SMALLEST),
            pa.array(twice_median(low, high) / (2.0 * _CENTS), mask=low == 0),
            pa.array(empty_taxis(named)),
        ]

    # oracle
    def oracle_records(
        self,
        connection: duckdb.DuckDBPyConnection,  # noqa: ARG002 - plain SQL needs no functions
        lines: str,
    ) -> str:
        """See `Workload`."""

        def micro(column: int) -> str:
            return f"(f[{column}]::DECIMAL(18, 6) * 1000000)::BIGINT"

        def x(column: int) -> str:
            return f"floor_div(2 * ({micro(column)} + 74913585) + 2993, 5986) + 1"

        def y(column: int) -> str:
            return f"floor_div(1000 * (41474937 - {micro(column)}) + 1122889, 2245778) + 1"

        patterns = dict.fromkeys((7, 8, 9, 10), "[+-]?[0-9]{1,3}([.][0-9]{1,6})?")
        patterns |= dict.fromkeys((12, 15), "[+-]?[0-9]{1,9}([.][0-9]{1,2})?")
        readable = " AND ".join(
            f"regexp_full_match(f[{place}], '{pattern}')" for place, pattern in patterns.items()
        )
        inside = " AND ".join(
            f"{name} BETWEEN 1 AND {GRID_CELLS}" for name in ("from_x", "from_y", "to_x", "to_y")
        )
        return f"""
            WITH split AS (
                SELECT line_number, string_split(line, ',') AS f FROM {lines}
            ), valid AS (
                SELECT *, {sql_utc_time("f[4]")} AS dropoff FROM split
                WHERE len(f) = {NUM_COLUMNS} AND f[1] <> '' AND length(f[4]) = 19 AND {readable}
            ), cells AS (
                SELECT line_number, f[1] AS taxi, epoch_ms(dropoff) AS ms,
                       {x(7)} AS from_x, {y(8)} AS from_y, {x(9)} AS to_x, {y(10)} AS to_y,
                       ((f[12]::DECIMAL(18, 2) + f[15]::DECIMAL(18, 2)) * 100)::BIGINT AS cents
                FROM valid WHERE dropoff IS NOT NULL
            ), trips AS (
                SELECT row_number() OVER (ORDER BY line_number) AS trip, taxi, ms, cents,
                       format('{{}}.{{}}', from_x, from_y) AS begins,
                       format('{{}}.{{}}', to_x, to_y) AS ends
                FROM cells WHERE {inside}
            ), placed AS (
                SELECT *, ms < max(ms) OVER (PARTITION BY taxi ORDER BY trip) AS overtaken
                FROM trips
            ), last AS (
                SELECT trip, ms, ends, lag(trip) OVER before AS left_trip,
                       lag(ends) OVER before AS left_cell
                FROM placed WHERE NOT overtaken
                WINDOW before AS (PARTITION BY taxi ORDER BY trip)
            ), made AS (
                SELECT trip AS newest, 0 AS kind, ms AS timestamp_ms, left_cell AS cell,
                       NULL AS cents, NULL AS arrives, left_trip AS leaves
                FROM last WHERE left_trip IS NOT NULL
                UNION ALL SELECT trip, 1, ms, begins, cents, NULL, NULL FROM trips
                UNION ALL SELECT trip, 2, ms, ends, NULL, trip, NULL FROM last
            )
            SELECT row_number() OVER (ORDER BY newest, kind) - 1 AS record_index, *
            FROM made
        """

    def oracle_values(self) -> dict[str, str]:
        """See `Workload`."""
        # Drop-offs that arrived and did not leave; the engine counts otherwise.
        empty = (
            "len(list_filter(coalesce(list(arrives), []), lambda trip: "
            "NOT list_contains(coalesce(list(leaves), []), trip)))"
        )
        median = f"median(cents) FILTER (timestamp_ms >= window_end_ms - {self.profit_ms})"
        return {
            "profitability": f"({median} * 2.0::DOUBLE) / nullif(200.0::DOUBLE * {empty}, 0)",
            "median_profit": f"({median} * 2.0::DOUBLE) / 200.0::DOUBLE",
            "empty_taxis": f"{empty}::BIGINT",
        }

    def oracle_order(self) -> str:
        """See `Workload`."""
        newest = "max({'ms': timestamp_ms, 'trip': newest})"
        return f"{self.oracle_values()['profitability']} DESC NULLS LAST, {newest} DESC"

    def oracle_ranked(self) -> str:
        """See `Workload`."""
        return "profitability IS NOT NULL"

    def oracle_gone(self) -> dict[str, object]:
        """See `Workload`."""
        return {"profitability": None, "median_profit": None, "empty_taxis": 0}
