"""Query 1 of the ACM DEBS 2015 Grand Challenge: the ten most frequent taxi routes.

A trip counts at its drop-off, for the route from the 500 m cell of its pick-up to that of its
drop-off. Cells are integer arithmetic on micro-degrees read from the text: in floating point some
trips land one cell away. Trips with an end outside the 300 x 300 grid are ignored. Routes of equal
count are ordered by their latest trip, newest first: later drop-off, or further down in the input.

With the option `per_event` it is the query as published: the ten after every trip that changes
them, of the window (drop-off - 30 min, drop-off] (`debs_q1_events`).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import polars as pl
import pyarrow as pa

from partitioners.errors import InputError
from pipelines.aggregates import SMALLEST, Aggregates, Latest
from pipelines.per_event import RESOLUTION_MS
from pipelines.text_input import LineChunk, RejectedLine
from pipelines.workloads.base import (
    DATA,
    RECORDS,
    Decoded,
    Int64s,
    Parsed,
    Parser,
    Workload,
    sql_utc_time,
)
from pipelines.workloads.debs_q1_trips import (
    EVENT_FIELDS,
    LINE_BITS,
    Trips,
    event_columns,
    pack_trips,
)
from pipelines.workloads.fields import read_int64s, write_int64s

if TYPE_CHECKING:
    import duckdb

NUM_COLUMNS = 17
GRID_CELLS = 300
# Below the event time in milliseconds, the line number makes trips of one second differ.
FRESHNESS_BITS = 20

_TIME = r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d$"
_COORDINATE = r"^[+-]?\d{1,3}(?:\.\d{1,6})?$"
_ENDS = ("pickup_longitude", "pickup_latitude", "dropoff_longitude", "dropoff_latitude")


def _milliseconds(text: pl.Expr) -> pl.Expr:
    """Read a UTC time; Polars alone would take seconds of one digit."""
    time = text.str.to_datetime("%Y-%m-%d %H:%M:%S", strict=False, time_unit="ms")
    return pl.when(text.str.contains(_TIME)).then(time.cast(pl.Int64))


def _micro_degrees(text: pl.Expr) -> pl.Expr:
    """Read a decimal such as -73.9565 as the integer -73956500."""
    sign = pl.when(text.str.starts_with("-")).then(-1).otherwise(1)
    parts = text.str.strip_chars_start("+-").str.split_exact(".", 1)
    whole = parts.struct.field("field_0").cast(pl.Int64, strict=False)
    fraction = parts.struct.field("field_1").fill_null("").str.pad_end(6, "0")
    value = sign * (whole * 1_000_000 + fraction.cast(pl.Int64, strict=False))
    return pl.when(text.str.contains(_COORDINATE)).then(value)


def _cell(longitude: pl.Expr, latitude: pl.Expr) -> tuple[pl.Expr, pl.Expr]:
    """The cell of a point in micro-degrees; 1.1 is the north-western corner."""
    x = (longitude + 74_913_585 + 2_993) // 5_986 + 1
    y = (1_000 * (41_474_937 - latitude) + 2_245_778) // 4_491_556 + 1
    return x, y


class TripParser(Parser):
    """Reads the official CSV lines.

    Args:
        with_pickup: Values hold the pick-up time too, -1 where it does not read.
    """

    def __init__(self, *, with_pickup: bool = False) -> None:
        self._with_pickup = with_pickup

    def parse(self, chunk: LineChunk) -> Parsed:
        """See `Parser`."""
        fields = pl.col("line").str.split(",")
        frame = (
            pl.DataFrame({"line": pl.Series(chunk.lines, dtype=pl.String)})
            .select(
                fields.list.len().alias("num_columns"),
                _milliseconds(fields.list.get(3, null_on_oob=True)).alias("timestamp_ms"),
                _milliseconds(fields.list.get(2, null_on_oob=True)).alias("pickup_ms"),
                *(
                    _micro_degrees(fields.list.get(6 + i, null_on_oob=True)).alias(name)
                    for i, name in enumerate(_ENDS)
                ),
            )
            .with_row_index("row")
        )
        from_x, from_y = _cell(pl.col(_ENDS[0]), pl.col(_ENDS[1]))
        to_x, to_y = _cell(pl.col(_ENDS[2]), pl.col(_ENDS[3]))
        cells = {"from_x": from_x, "from_y": from_y, "to_x": to_x, "to_y": to_y}
        frame = frame.with_columns(**cells)
        rejected = self._rejected(frame, chunk)
        numbers = {line.line_number - chunk.first_line_number for line in rejected}
        inside = pl.all_horizontal(pl.col(name).is_between(1, GRID_CELLS) for name in cells)
        well_formed = frame.filter(~pl.col("row").is_in(sorted(numbers))) if numbers else frame
        trips = well_formed.filter(inside).with_columns(
            route=pl.format("{}.{}-{}.{}", *(pl.col(name) for name in cells))
        )
        if self._with_pickup and chunk.first_line_number + len(chunk.lines) > 1 << LINE_BITS:
            raise InputError(
                f"per event an input may have {1 << LINE_BITS:,} lines: name fewer files with "
                "--input"
            )
        timestamps = trips["timestamp_ms"].to_numpy()
        lines = trips["row"].cast(pl.Int64).to_numpy() + chunk.first_line_number
        values = [timestamps, lines]
        if self._with_pickup:
            values.append(trips["pickup_ms"].fill_null(-1).to_numpy())
        columns = [
            pa.array(timestamps),
            trips["route"].to_arrow().cast(pa.binary()),
            write_int64s(*values),
        ]
        table = pa.table(columns, schema=RECORDS)
        return Parsed(table, rejected, ignored=len(well_formed) - len(trips))

    @staticmethod
    def _rejected(frame: pl.DataFrame, chunk: LineChunk) -> list[RejectedLine]:
        reason = (
            pl.when(pl.col("num_columns") != NUM_COLUMNS)
            .then(pl.format(f"{{}} columns instead of {NUM_COLUMNS}", pl.col("num_columns")))
            .when(pl.col("timestamp_ms").is_null())
            .then(pl.lit("drop-off time is not YYYY-MM-DD HH:MM:SS"))
            .when(pl.any_horizontal(pl.col(name).is_null() for name in _ENDS))
            .then(pl.lit("a coordinate is no decimal number of at most six places"))
        )
        bad = frame.select("row", reason=reason).drop_nulls("reason")
        return [
            RejectedLine(chunk.path, chunk.first_line_number + row, text, chunk.lines[row])
            for row, text in bad.iter_rows()
        ]


class DebsQ1(Workload):
    """Ten most frequent routes of the last 30 minutes.

    Args:
        per_event: After every trip that changes them, not window by window.
    """

    def __init__(self, per_event: bool = False) -> None:
        if not isinstance(per_event, bool):
            raise InputError(f"per_event must be true or false, not {per_event}")
        self.per_event = per_event
        if per_event:
            self.default_slide_ms = RESOLUTION_MS
            vars(self)["value_fields"] = EVENT_FIELDS
            self.identity_fields = ("line",)
            self.aggregates = Aggregates(Trips("trips", "trip"))

    # data
    name: ClassVar[str] = "debs-q1"
    default_input: ClassVar[Path | None] = DATA / "debs2015_first_hour.csv.gz"
    default_window_ms = 1_800_000
    default_slide_ms = 60_000

    # parse
    def parser(self) -> TripParser:
        """See `Workload`."""
        return TripParser(with_pickup=self.per_event)

    def decode(self, keys: pa.Array, values: pa.Array) -> Decoded:  # noqa: ARG002
        """See `Workload`."""
        if self.per_event:
            (timestamps, lines, pickups), good = read_int64s(values, 3)
            return Decoded(timestamps, {"trip": pack_trips(lines, pickups, timestamps)}, good)
        (timestamps, lines), good = read_int64s(values, 2)
        freshness = (timestamps << FRESHNESS_BITS) | (lines & ((1 << FRESHNESS_BITS) - 1))
        return Decoded(timestamps, {"freshness": freshness}, good)

    # query
    key_fields: ClassVar[tuple[pa.Field, ...]] = (pa.field("route", pa.string()),)
    value_fields: ClassVar[tuple[pa.Field, ...]] = (
        pa.field("count", pa.int64()),
        pa.field("last_dropoff", pa.timestamp("ms", tz="UTC")),
    )
    aggregates: Aggregates = Aggregates(
        Latest("freshness", "freshness"), order_by=("count", "freshness")
    )

    def finish_values(self, states: Int64s) -> list[pa.Array]:
        """See `Workload`."""
        if self.per_event:
            return event_columns(states)
        count, freshness = states
        return [
            pa.array(count),
            pa.array(freshness >> FRESHNESS_BITS, mask=freshness == SMALLEST).view(
                pa.timestamp("ms", tz="UTC")
            ),
        ]

    # oracle
    def oracle_records(
        self,
        connection: duckdb.DuckDBPyConnection,  # noqa: ARG002 - plain SQL needs no functions
        lines: str,
    ) -> str:
        """See `Workload`."""

        def micro(column: int) -> str:
            return f"(column_text[{column}]::DECIMAL(18, 6) * 1000000)::BIGINT"

        def x(column: int) -> str:
            return f"floor_div({micro(column)} + 74913585 + 2993, 5986) + 1"

        def y(column: int) -> str:
            return f"floor_div(1000 * (41474937 - {micro(column)}) + 2245778, 4491556) + 1"

        coordinates = " AND ".join(
            f"regexp_full_match(column_text[{i}], '[+-]?[0-9]{{1,3}}([.][0-9]{{1,6}})?')"
            for i in range(7, 11)
        )
        inside = " AND ".join(
            f"{name} BETWEEN 1 AND {GRID_CELLS}" for name in ("from_x", "from_y", "to_x", "to_y")
        )
        return f"""
            WITH split AS (
                SELECT line_number, string_split(line, ',') AS column_text FROM {lines}
            ), valid AS (
                SELECT *, {sql_utc_time("column_text[4]")} AS dropoff
                FROM split WHERE len(column_text) = {NUM_COLUMNS} AND {coordinates}
            ), cells AS (
                SELECT line_number, epoch_ms(dropoff) AS timestamp_ms, CASE
                           WHEN length(column_text[3]) = 19
                           THEN {sql_utc_time("column_text[3]")}
                       END AS pickup,
                       {x(7)} AS from_x, {y(8)} AS from_y, {x(9)} AS to_x, {y(10)} AS to_y
                FROM valid
                WHERE dropoff IS NOT NULL AND length(column_text[4]) = 19
            )
            SELECT row_number() OVER (ORDER BY line_number) - 1 AS record_index, timestamp_ms,
                   format('{{}}.{{}}-{{}}.{{}}', from_x, from_y, to_x, to_y) AS route,
                   make_timestamptz(timestamp_ms * 1000) AS dropoff, line_number,
                   CASE WHEN abs(epoch(pickup) - timestamp_ms // 1000) < {1 << 34}
                        THEN make_timestamptz(epoch_us(pickup)) END AS pickup
            FROM cells WHERE {inside}
        """

    def oracle_values(self) -> dict[str, str]:
        """See `Workload`."""
        if self.per_event:
            return {field.name: field.name for field in EVENT_FIELDS}
        return {"count": "count(*)", "last_dropoff": "max(dropoff)"}

    def oracle_expected(self, connection: duckdb.DuckDBPyConnection, window_ms: int) -> bool:
        """See `Workload`."""
        if not self.per_event:
            return False
        from pipelines.workloads.debs_q1_events import naive_rows

        trips = connection.execute(
            "SELECT timestamp_ms, route, line_number, pickup, dropoff FROM records "
            f"WHERE first_window <= floor_div(timestamp_ms - {window_ms}, {RESOLUTION_MS}) + 1 "
            "ORDER BY timestamp_ms, line_number"
        ).fetchall()
        rows = list(naive_rows([(time, route) for time, route, *_ in trips], window_ms))
        changed = [trips[i] for i, _ in rows]
        columns: dict[str, Any] = {
            "window_index": [(row[0] - window_ms) // RESOLUTION_MS for row in changed],
            "route": [row[1] for row in changed],
            **{
                field.name: pa.array([row[2 + i] for row in changed], field.type)
                for i, field in enumerate(EVENT_FIELDS[:3])
            },
            **{
                field.name: pa.array([top[place] for _, top in rows], field.type)
                for place, field in enumerate(EVENT_FIELDS[3:])
            },
            "rank": [1] * len(rows),
        }
        connection.register("changes", pa.table(columns))
        connection.execute("CREATE TABLE expected AS SELECT * FROM changes")
        connection.unregister("changes")
        return True

    def publish(self, results_dir: Path, folder: Path) -> None:
        """See `Workload`: per event `debs-q1.csv`, in the official format without the delay."""
        if self.per_event and any(results_dir.glob("*.parquet")):
            from pipelines.workloads.debs_q1_events import official_lines

            with (folder / "debs-q1.csv").open("w", encoding="ascii") as file:
                file.writelines(
                    f"{line}\n"
                    for line in official_lines(pl.read_parquet(results_dir / "*.parquet"))
                )

    def check_windows(self, window_ms: int, slide_ms: int) -> None:
        """See `Workload`."""
        if self.per_event and (slide_ms != RESOLUTION_MS or window_ms % RESOLUTION_MS):
            raise InputError(
                f"per event windows are of whole seconds and have no slide, but {window_ms} ms by "
                f"{slide_ms} ms was asked for: leave --slide-ms out"
            )

    def oracle_order(self) -> str:
        """See `Workload`."""
        newest = "max({'dropoff': dropoff, 'line': line_number})"
        return f"count(*) DESC, {newest} DESC"

    def oracle_gone(self) -> dict[str, object]:
        """See `Workload`."""
        return {"count": 0, "last_dropoff": None}
