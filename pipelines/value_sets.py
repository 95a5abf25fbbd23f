"""Sliding multisets of values, for aggregates that need every value: quantiles, distinct counts.

A *cell* is a key and one of its values; it has a count, which slides by addition and deduction as
any count. So a window costs what its changes cost, whatever is asked of the values; and a partial
is a row of pane, key, value and count.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from pipelines.aggregates import (
    Aggregates,
    Distinct,
    OfValues,
    OfWindow,
    Quantile,
    SlidingCells,
)
from pipelines.blobs import Int64s, from_blob, numbers, to_blob
from pipelines.lists import Collect, Lists
from pipelines.lookup import count_at_or_before, differs, order_of, running_sums
from pipelines.pending import PendingChanges, Store
from pipelines.ring import NO_PEER, Changes, concat_changes

CELL_COLUMNS = ("value", "count")


class Cells(NamedTuple):
    """Counts of values by pane, watermark met, and key.

    Attributes:
        pane: int64[n]
        met: int64[n], as in `Partials`.
        key: int64[n], as in `Partials`.
        value: int64[n]
        records: int64[n], how often the value is there.
    """

    pane: Int64s
    met: Int64s
    key: Int64s
    value: Int64s
    records: Int64s

    def where(self, rows: Int64s | npt.NDArray[np.bool_]) -> Cells:
        """The chosen rows."""
        return Cells(*(column[rows] for column in self))


def count_cells(parts: list[Cells]) -> Cells:
    """Add up the counts of equal cells."""
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
    *named, records = columns
    # As in `partials`, one integer groups twice as fast as several, where it holds them all.
    lows = [int(column.min()) if len(column) else 0 for column in named]
    spans = [
        int(column.max()) - low + 1 if len(column) else 1
        for column, low in zip(named, lows, strict=True)
    ]
    if math.prod(spans) < 2**62:
        group = np.zeros(len(records), dtype=np.int64)
        for column, low, span in zip(named, lows, spans, strict=True):
            if span > 1:
                group = group * span + (column - low)
        grouped = pl.DataFrame({"group": group, "records": records}).group_by("group").sum()
        rest = grouped["group"].to_numpy()
        found = [grouped["records"].to_numpy()]
        for low, span in zip(reversed(lows), reversed(spans), strict=True):
            found.append(rest % span + low)
            rest = rest // span
        return Cells(*reversed(found))
    frame = pl.DataFrame(dict(zip(Cells._fields, columns, strict=True)))
    grouped = frame.group_by(Cells._fields[:4]).agg(pl.col("records").sum())
    return Cells(*(grouped[name].to_numpy() for name in Cells._fields))


def encode_cells(cells: Cells) -> bytes:
    """Write cells as an Arrow blob."""
    columns = {name: pa.array(column) for name, column in cells._asdict().items()}
    return to_blob(pa.RecordBatch.from_pydict(columns))


def decode_cells(blob: bytes | memoryview) -> Cells:
    """Read what `encode_cells` wrote."""
    batch = from_blob(blob)
    return Cells(*(numbers(batch.column(name)) for name in Cells._fields))


def cell_changes(enter: Int64s, exit_: Int64s, key: Int64s, cells: Cells) -> Changes:
    """The two changes of each cell of a partial."""
    counted = enter < exit_
    key, value, count = key[counted], cells.value[counted], cells.records[counted]
    delta = np.stack([np.concatenate([value, value]), np.concatenate([count, -count])])
    window = np.concatenate([enter[counted], exit_[counted]])
    return Changes(window, np.concatenate([key, key]), delta, np.full(len(window), NO_PEER))


class ValueSet:
    """The values of one column, by key, in one shard and batch.

    Args:
        store: The shard's state.
        column: Which cells, by name.
        aggregates: Those of these cells are answered.
        windows_per_bucket: Of pending changes.
        index: Segments of pending changes there are.
        prefix: Of its names in the store.
        lists: Those of the shard and batch, where an aggregate gives lists.
    """

    def __init__(
        self,
        store: Store,
        column: str,
        aggregates: Aggregates,
        windows_per_bucket: int,
        index: list[tuple[int, int]],
        *,
        prefix: str = "",
        lists: Lists | None = None,
    ) -> None:
        self._store = store
        self._lists = lists
        self._name = f"{prefix}cells/{column}"
        self.pending = PendingChanges(
            store, CELL_COLUMNS, windows_per_bucket, index, prefix=self._name
        )
        self.changes: list[Changes] = []
        self._blocks = [
            (each, rows)
            for each, rows in aggregates.blocks
            if isinstance(each, OfValues) and each.cells == column
        ]
        self.rows = [row for _, rows in self._blocks for row in range(rows.start, rows.stop)]
        self.remembered = [row for row in self.rows if row not in aggregates.collected]
        blob = store.get(self._name)
        self._is_stored = blob is not None
        empty = np.empty(0, dtype=np.int64)
        self._key, self._value, self._count = empty, empty, empty
        if blob is not None:
            batch = from_blob(blob)
            self._key, self._value, self._count = (
                numbers(batch.column(i)).copy() for i in range(3)
            )

    def close(self, end: int, serial: int, next_serial: int) -> None:
        """Take the changes at windows before `end`; keep the others for later.

        Args:
            end: The first window that stays open.
            serial: A number for what was pending and stays so.
            next_serial: Another, for what comes to it.
        """
        changes = concat_changes([self.pending.take_due(end, serial), *self.changes], 2)
        now = changes.window < end
        later = changes.where(~now)
        if len(later.window):
            self.pending.add(later, next_serial)
        due = changes.where(now)
        due = due.where(order_of(due.key, due.window))
        # Cells that are there, and cells that come: ordered by key and value.
        key = np.concatenate([self._key, due.key])
        value = np.concatenate([self._value, due.delta[0]])
        by_cell = order_of(key, value)
        fresh = differs(key[by_cell], value[by_cell])
        cell_of = np.empty(len(by_cell), dtype=np.int64)
        cell_of[by_cell] = np.cumsum(fresh) - 1
        there = len(self._key)
        count = np.zeros(int(fresh.sum()), dtype=np.int64)
        count[cell_of[:there]] = self._count
        chosen = by_cell[fresh]
        self._key, self._value, self._count = key[chosen], value[chosen], count
        self._cell, self._window, self._delta = cell_of[there:], due.window, due.delta[1]

    def values(self, key: Int64s, window: Int64s) -> Int64s:
        """The states of keys in windows; see `ring.OtherValues`. Call once, after `close`."""
        out = np.zeros((len(self.rows), len(key)), dtype=np.int64)
        at = {row: i for i, row in enumerate(self.rows)}
        distinct = [rows for each, rows in self._blocks if isinstance(each, Distinct)]
        for each, rows in self._blocks:
            if isinstance(each, SlidingCells):
                cells = (self._key, self._value, self._count.copy())
                events = (self._cell, self._window, self._delta)
                first = at[rows.start]
                out[first : first + rows.stop - rows.start] = each.slide_cells(
                    (*cells, *events), key, window
                )
            if isinstance(each, Collect):
                assert self._lists is not None
                cells = (self._key, self._value, self._count)
                events = (self._cell, self._window, self._delta)
                out[at[rows.start]] = self._lists.collect((*cells, *events), key, window)
            if isinstance(each, OfWindow):
                first = at[rows.start]
                self._compute(each, key, window, out[first : first + rows.stop - rows.start])
        quantiles = [(each, rows) for each, rows in self._blocks if isinstance(each, Quantile)]
        if distinct:
            counts = self._distinct(key, window)
            for rows in distinct:
                out[at[rows.start]] = counts
        if not quantiles:
            np.add.at(self._count, self._cell, self._delta)
            return out
        # Compiled code is loaded only where it is used.
        from pipelines.order_statistics import quantile_bounds

        bounds = np.zeros((2 * len(quantiles), len(key)), dtype=np.int64)
        quantile_bounds(
            self._key,
            self._value,
            self._count,
            self._cell,
            self._window,
            self._delta,
            key,
            window,
            np.array([each.quantile for each, _ in quantiles], dtype=np.float64),
            bounds,
        )
        for i, (_, rows) in enumerate(quantiles):
            out[at[rows.start]], out[at[rows.start] + 1] = bounds[2 * i], bounds[2 * i + 1]
        return out

    def _distinct(self, key: Int64s, window: Int64s) -> Int64s:
        """How many values each key has in each window: cells whose count is not 0."""
        num = len(self._key)
        # Each cell as it was, then its changes by window.
        cell = np.concatenate([np.arange(num), self._cell])
        low = int(self._window.min(initial=0)) - 1
        time = np.concatenate([np.full(num, low), self._window])
        delta = np.concatenate([self._count, self._delta])
        order = order_of(cell, time)
        cell, time, delta = cell[order], time[order], delta[order]
        count = running_sums(delta, differs(cell))
        # Of several changes in a window the last one counts.
        last = np.append(differs(cell, time)[1:], True)[: len(cell)]
        cell, time, alive = cell[last], time[last], (count[last] > 0).astype(np.int64)
        step = alive.copy()
        step[1:] -= np.where(cell[1:] == cell[:-1], alive[:-1], 0)
        # Cells' steps, summed by key and window, are the steps of the key's number of values.
        owner = self._key[cell]
        order = order_of(owner, time)
        owner, time, total = owner[order], time[order], np.cumsum(step[order])
        place = count_at_or_before(owner, time, key, window)
        start = np.searchsorted(owner, key)
        before = np.concatenate([np.zeros(1, dtype=np.int64), total])
        return np.asarray(before[place] - before[start])

    def _compute(self, each: OfWindow, key: Int64s, window: Int64s, out: Int64s) -> None:
        """Compute a state from all values, for each key and window with changes."""
        owner = self._key[self._cell]
        begins = np.flatnonzero(differs(key))
        ends = np.append(begins[1:], len(key))[: len(begins)]
        for low, high in zip(begins, ends, strict=True):
            cells = slice(*np.searchsorted(self._key, [key[low], key[low] + 1]))
            event, last = np.searchsorted(owner, [key[low], key[low] + 1])
            count = self._count[cells].copy()
            for row in range(low, high):
                done = event + np.searchsorted(self._window[event:last], window[row], side="right")
                np.add.at(count, self._cell[event:done] - cells.start, self._delta[event:done])
                # A key's first row is what it brings along, which is known from there.
                if done == event and row != low + 1:
                    out[:, row] = out[:, row - 1] if row > low else 0
                elif count.any():
                    out[:, row] = each.compute(np.repeat(self._value[cells], count))
                event = done

    def save(self) -> None:
        """Write the cells that are left."""
        left = self._count > 0
        if not left.any():
            if self._is_stored:
                self._store.remove(self._name)
            return
        arrays: list[Any] = [
            pa.array(column[left]) for column in (self._key, self._value, self._count)
        ]
        names = ["key", "value", "count"]
        self._store.put(self._name, to_blob(pa.RecordBatch.from_arrays(arrays, names=names)))
