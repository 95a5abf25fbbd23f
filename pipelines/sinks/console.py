"""Results on the terminal: the last windows of each batch."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.key_names import show_key
from pipelines.sinks.base import Part, Shape, Sink, plain

if TYPE_CHECKING:
    from rich.console import Console


class ConsoleSink(Sink):
    """A table of the last windows after each batch.

    It is to be looked at: at least once, for a batch that is done again is shown again; and only
    the first rows of the last windows of a batch.

    Args:
        num_windows: How many windows are shown.
        num_rows: How many rows of each.
        console: Where; None: stdout.
    """

    guarantee: ClassVar[str] = "at least once, the first rows of the last windows of a batch"
    on_driver: ClassVar[bool] = True
    keeps: ClassVar[bool] = False

    def __init__(
        self, num_windows: int = 2, num_rows: int = 10, console: Console | None = None
    ) -> None:
        self._num_windows, self._num_rows = num_windows, num_rows
        self._console = console
        self._tables: list[pa.Table] = []

    def write(self, tables: Iterable[pa.Table], shape: Shape, part: Part) -> int:  # noqa: ARG002
        """See `Sink`."""
        rows = 0
        for table in tables:
            rows += table.num_rows
            self._tables.append(self._last(plain(table, shape.schema)))
        return rows

    def _last(self, table: pa.Table) -> pa.Table:
        """The rows of the last windows."""
        ends = np.unique(table["window_end"].cast(pa.int64()).to_numpy())[-self._num_windows :]
        if not len(ends):
            return table
        return table.filter(pc.greater_equal(table["window_end"].cast(pa.int64()), int(ends[0])))

    def commit(self, batch_id: int) -> None:
        """See `Sink`."""
        from rich.table import Table

        from pipelines.consoles import stdout_console

        tables, self._tables = self._tables, []
        if not tables:
            return
        rows = self._last(pa.concat_tables(tables))
        shown = Table(title=f"batch {batch_id}")
        for field in rows.schema:
            number = pa.types.is_integer(field.type) or pa.types.is_floating(field.type)
            right = number or pa.types.is_decimal(field.type)
            shown.add_column(field.name, justify="right" if right else "left")
        by_window: dict[Any, int] = {}
        order = ["window_end", *(["rank"] if "rank" in rows.column_names else [])]
        rows = rows.sort_by([(name, "ascending") for name in order])
        for row in rows.to_pylist():
            place = by_window[row["window_end"]] = by_window.get(row["window_end"], 0) + 1
            if place <= self._num_rows:
                shown.add_row(*map(_text, row.values()))
        for end, number in by_window.items():
            if number > self._num_rows:
                more = f"{number - self._num_rows:,} more rows"
                shown.caption = f"{shown.caption or ''} window to {_text(end)}: {more}".strip()
        (self._console or stdout_console()).print(shown)


def _text(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bytes):
        return show_key(value)
    if hasattr(value, "isoformat"):
        return str(value.isoformat(sep=" ", timespec="milliseconds")).removesuffix("+00:00")
    return f"{value:,.6g}" if isinstance(value, float) else str(value)
