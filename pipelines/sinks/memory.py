"""Results in this process: for a notebook, or a test."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import ClassVar, cast

import polars as pl
import pyarrow as pa

from partitioners.errors import RunError
from pipelines.sinks.base import Part, Shape, Sink, plain


class MemorySink(Sink):
    """The rows in this process, as an Arrow table (`table`) or from `query.results()`.

    Every result is there exactly once for as long as the process lives, and gone with it. So no
    checkpoint goes with it: each start reads the topic from its beginning.

    Args:
        max_rows: More end the query.
    """

    guarantee: ClassVar[str] = "exactly once while the process lives; each start begins anew"
    on_driver: ClassVar[bool] = True
    keeps: ClassVar[bool] = False

    def __init__(self, max_rows: int = 10_000_000) -> None:
        self._max_rows = max_rows
        self._parts: dict[Part, pa.Table] = {}
        self._lock = threading.Lock()
        self._schema: pa.Schema = pa.schema([])

    def open(self, shape: Shape) -> None:
        """See `Sink`."""
        self._schema = shape.schema

    def write(self, tables: Iterable[pa.Table], shape: Shape, part: Part) -> int:
        """See `Sink`."""
        kept = [plain(table, shape.schema) for table in tables]
        table = pa.concat_tables(kept) if kept else shape.schema.empty_table()
        with self._lock:
            self._parts[part] = table
            rows = sum(each.num_rows for each in self._parts.values())
        if rows > self._max_rows:
            raise RunError(
                f"more than {self._max_rows:,} rows of results: give MemorySink a larger max_rows, "
                'take emit="changed" or "top", or write to a folder'
            )
        return int(table.num_rows)

    @property
    def table(self) -> pa.Table:
        """The rows written so far, in the order of the batches."""
        with self._lock:
            parts = sorted(self._parts.items(), key=lambda item: (item[0].batch_id, item[0].name))
        return pa.concat_tables([self._schema.empty_table(), *(table for _, table in parts)])

    def read(self) -> pl.DataFrame:
        """See `Sink`."""
        return cast(pl.DataFrame, pl.from_arrow(self.table))
