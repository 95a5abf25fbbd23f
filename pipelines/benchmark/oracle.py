"""The workload's oracle, in plain SQL in DuckDB over the input, and where results differ from it.

The oracle knows nothing of panes, partitions or shards. It takes the lines of the input, makes
records of them by the workload's own SQL, lists each record under every window that holds it, and
groups. Late records are left out of the windows they missed: those that ended at or before the
last watermark record that was sent ahead of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from pipelines.benchmark.prepare import RunConfig
from pipelines.key_names import readable
from pipelines.punctuation import NO_WATERMARK_MS
from pipelines.text_input import InputLines
from pipelines.workloads.base import Workload

# Rows of records listed under windows at a time; each takes about 100 bytes.
ROWS_PER_STEP = 20_000_000
SHOWN_DIFFERENCES = 5


class Oracle:
    """The tables of one comparison.

    Args:
        connection: An empty DuckDB database.
        config: The run.
        workload: Its SQL.
    """

    def __init__(
        self, connection: duckdb.DuckDBPyConnection, config: RunConfig, workload: Workload
    ) -> None:
        self.connection = connection
        self.config = config
        self.workload = workload
        self.keys = [field.name for field in workload.key_fields]
        self.values = list(workload.oracle_values())
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute(
            "CREATE MACRO floor_div(a, b) AS (a // b - CASE WHEN a % b < 0 THEN 1 ELSE 0 END)"
        )

    def read_input(self, marks: Sequence[tuple[int, int]]) -> None:
        """Make the tables `lines`, `marks` and `records`.

        Args:
            marks: Of each watermark record, how many records went before, and its watermark.
        """
        run = self.connection.execute
        run("CREATE TABLE lines (line_number BIGINT, line VARCHAR)")
        inputs = InputLines(self.config.inputs, self.config.encoding, lambda _line: None)
        for chunk in inputs:
            numbers = range(chunk.first_line_number, chunk.first_line_number + len(chunk.lines))
            table = pa.table({"line_number": pa.array(numbers), "line": pa.array(chunk.lines)})
            self.connection.register("chunk", table)
            run("INSERT INTO lines SELECT line_number, line FROM chunk")
            self.connection.unregister("chunk")
        places = [0, *(place for place, _ in marks)]
        watermarks = [NO_WATERMARK_MS, *(watermark for _, watermark in marks)]
        self.connection.register("sent", pa.table({"place": places, "met_ms": watermarks}))
        run("CREATE TABLE marks AS SELECT place, max(met_ms) AS met_ms FROM sent GROUP BY place")
        self.connection.unregister("sent")
        records = self.workload.oracle_records(self.connection, "lines")
        window_ms, slide_ms = self.config.window_ms, self.config.slide_ms
        run(
            f"""
            CREATE TABLE records AS
            SELECT r.*, greatest(
                       floor_div(timestamp_ms - {window_ms}, {slide_ms}) + 1,
                       floor_div(met_ms - {window_ms}, {slide_ms}) + 1
                   ) AS first_window,
                   floor_div(timestamp_ms, {slide_ms}) AS last_window
            FROM ({records}) r ASOF JOIN marks ON record_index >= place
            """
        )
        run("DROP TABLE lines")

    def num_records(self) -> int:
        """Count the records the oracle made."""
        return self._number("SELECT count(*) FROM records")

    def fill_expected(self) -> None:
        """Make the table `expected`: each window and key with its values and its order."""
        if self.workload.oracle_expected(self.connection, self.config.window_ms):
            return
        group = ", ".join(["window_index", *map(_quoted, self.keys)])
        value_list = ", ".join(
            f"{sql} AS {_quoted(name)}" for name, sql in self.workload.oracle_values().items()
        )
        rank = (
            ", row_number() OVER (PARTITION BY window_index ORDER BY "
            + ", ".join(
                [
                    self.workload.oracle_order(),
                    *(f"{_quoted(name)} NULLS FIRST" for name in self.keys),
                ]
            )
            + ") AS rank"
        )

        window_end = f"window_index * {self.config.slide_ms} + {self.config.window_ms}"

        def grouped(low: int, high: int) -> str:
            return f"""
                SELECT {group}, {value_list}{rank}
                FROM (
                    SELECT *, {window_end} AS window_end_ms
                    FROM (
                        SELECT *, unnest(range(
                            greatest(first_window, {low}), least(last_window + 1, {high})
                        )) AS window_index
                        FROM records WHERE first_window < {high} AND last_window >= {low}
                    )
                )
                GROUP BY {group}
            """

        run = self.connection.execute
        run(f"CREATE TABLE expected AS {grouped(0, 0)}")
        for low, high in self._steps():
            run(f"INSERT INTO expected {grouped(low, high)}")

    def _steps(self) -> list[tuple[int, int]]:
        """Cut the windows into ranges that do not list too many rows at once."""
        bounds = self.connection.execute(
            "SELECT min(first_window), max(last_window), sum(last_window - first_window + 1) "
            "FROM records WHERE first_window <= last_window"
        ).fetchone()
        if bounds is None or bounds[0] is None:
            return []
        first, last, rows = int(bounds[0]), int(bounds[1]), int(bounds[2])
        num_steps = -(-rows // ROWS_PER_STEP)
        width = max(1, -(-(last - first + 1) // num_steps))
        return [(low, low + width) for low in range(first, last + 1, width)]

    def read_results(self, results_dir: Path, other_sizes_ms: Sequence[int] = ()) -> None:
        """Make the table `results` of the Parquet files, with windows numbered.

        Args:
            results_dir: The files.
            other_sizes_ms: Sizes of other windows, whose rows stand among those of these.
        """
        sizes = ", ".join(map(str, (self.config.window_ms, *other_sizes_ms)))
        columns = ", ".join(_quoted(name) for name in [*self.keys, *self.values])
        rank = "rank" if self.config.emit == "top" else "0 AS rank"
        slide_ms, window_ms = self.config.slide_ms, self.config.window_ms
        if not any(results_dir.glob("*.parquet")):
            self.connection.execute(
                "CREATE OR REPLACE TABLE results AS SELECT * FROM expected WHERE false"
            )
            return
        path = str(results_dir / "*.parquet").replace("'", "''")
        self.connection.execute(
            f"""
            CREATE OR REPLACE TABLE results AS
            SELECT floor_div(epoch_ms(window_start), {slide_ms}) AS window_index, {columns}, {rank}
            FROM read_parquet('{path}')
            WHERE epoch_ms(window_end) - epoch_ms(window_start) = {window_ms}
            """
        )
        wrong = self._number(
            f"""
            SELECT count(*) FROM read_parquet('{path}')
            WHERE epoch_ms(window_end) - epoch_ms(window_start) NOT IN ({sizes})
               OR epoch_ms(window_end) - epoch_ms(window_start) = {window_ms}
              AND epoch_ms(window_start) % {slide_ms} <> 0
            """
        )
        if wrong:
            self.connection.execute("DELETE FROM results")

    def num_windows(self) -> int:
        """Count the windows that were compared."""
        return self._number(
            "SELECT count(DISTINCT window_index) FROM "
            "(SELECT window_index FROM expected UNION SELECT window_index FROM results)"
        )

    def last_top(self) -> tuple[int, list[dict[str, Any]]] | None:
        """Give the results of the first window that ends after all records, best first.

        Later windows hold the last records too, but only run out.

        Returns:
            Its start in milliseconds and its rows; None without results.
        """
        last = self._number("SELECT coalesce(max(last_window), 0) FROM records")
        window_ms, slide_ms = self.config.window_ms, self.config.slide_ms
        window = last + 1 - window_ms // slide_ms
        columns = ", ".join(f"r.{_quoted(name)}" for name in [*self.keys, *self.values])
        same = self._same_key("e", "r")
        found = self.connection.execute(
            f"""
            SELECT {columns} FROM results r JOIN expected e
            ON r.window_index = e.window_index AND {same}
            WHERE r.window_index = {window} AND e.rank <= {self.config.top} ORDER BY e.rank
            """
        ).fetchall()
        names = [*self.keys, *self.values]
        rows = [dict(zip(names, row, strict=True)) for row in found]
        return (window * slide_ms, rows) if rows else None

    def differences(self) -> list[str]:
        """Name rows that are missing, and rows that should not be there."""
        columns = ", ".join(_quoted(name) for name in [*self.keys, *self.values])
        if self.config.emit == "changed":
            return self._changed_differences(columns)
        where = ""
        if self.config.emit == "top":
            columns += ", rank"
            where = f"WHERE rank <= {self.config.top} AND {self.workload.oracle_ranked()}"
        wanted = f"SELECT window_index, {columns} FROM expected {where}"
        found = f"SELECT window_index, {columns} FROM results"
        return [
            *self._some(f"({wanted}) EXCEPT ALL ({found})", "missing"),
            *self._some(f"({found}) EXCEPT ALL ({wanted})", "not in the oracle"),
        ]

    def _changed_differences(self, columns: str) -> list[str]:
        """Compare rows of keys whose values differ from the window before.

        A key that left comes once more with the values of none. A row more than needed, with the
        values its window has, is no difference.
        """
        gone = self.workload.oracle_gone()
        leaving = ", ".join(f"{_sql(gone[name])} AS {_quoted(name)}" for name in self.values)
        keys = "".join(f"e.{_quoted(name)}, " for name in self.keys)
        same = self._same_key("e", "o")
        equal = " AND ".join(
            f"e.{_quoted(name)} IS NOT DISTINCT FROM o.{_quoted(name)}" for name in self.values
        )
        left = f"""
            SELECT e.window_index + 1 AS window_index, {keys}{leaving} FROM expected e
            WHERE NOT EXISTS (
                SELECT 1 FROM expected o WHERE o.window_index = e.window_index + 1 AND {same}
            )
        """
        changed = f"""
            SELECT window_index, {columns} FROM expected e WHERE NOT EXISTS (
                SELECT 1 FROM expected o
                WHERE o.window_index = e.window_index - 1 AND {same} AND {equal}
            )
        """
        found = f"SELECT window_index, {columns} FROM results"
        true = f"SELECT window_index, {columns} FROM expected UNION ALL ({left})"
        return [
            *self._some(f"(({changed}) UNION ALL ({left})) EXCEPT ALL ({found})", "missing"),
            *self._some(f"({found}) EXCEPT ALL ({true})", "not in the oracle"),
        ]

    def _same_key(self, one: str, other: str) -> str:
        keys = [_quoted(name) for name in self.keys]
        same = [f"{one}.{key} IS NOT DISTINCT FROM {other}.{key}" for key in keys]
        return " AND ".join(same) or "true"

    def _some(self, query: str, what: str) -> list[str]:
        total = self._number(f"SELECT count(*) FROM ({query})")
        if not total:
            return []
        rows = self.connection.execute(
            f"SELECT * FROM ({query}) ORDER BY ALL LIMIT {SHOWN_DIFFERENCES}"
        ).fetchall()
        slide_ms = self.config.slide_ms
        shown = [
            f"window from {row[0] * slide_ms} ms: {tuple(map(readable, row[1:]))}" for row in rows
        ]
        return [f"{total:,} rows {what}, the first: {shown[0]}", *shown[1:]]

    def _number(self, query: str) -> int:
        row = self.connection.execute(query).fetchone()
        return int(row[0]) if row else 0


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _sql(value: object) -> str:
    if value is None:
        return "NULL"
    return (
        str(value) if isinstance(value, int | float) else "'" + str(value).replace("'", "''") + "'"
    )
