"""One kind of windows in one shard: what of its state is its own, from partials to runs.

The reducer gives every kind the same partials, in panes as its step of the plan has them. A kind
has its next window to close, its rows of the key table's totals, and its pending changes; the key
table itself is common to all, for it is the same keys that live.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from pipelines.aggregates import Aggregates
from pipelines.blobs import Int64s, from_blob, to_blob
from pipelines.key_table import KeyTable
from pipelines.lists import Lists
from pipelines.panes import Panes, Windows
from pipelines.partials import Partials
from pipelines.pending import BUCKETS_PER_WINDOW, PendingChanges, Store
from pipelines.ring import (
    Bools,
    Changes,
    OtherValues,
    Runs,
    concat_changes,
    partial_changes,
    slide,
    unchanged,
)
from pipelines.stacks import LatePartials, TwoStacks
from pipelines.value_sets import ValueSet, cell_changes


@dataclass
class LaneMeta:
    """The small part of the state of one kind of windows.

    Attributes:
        next_window: The next one to close; None: none has a record yet.
        block: The block of the two stacks that was turned last.
        segments: Index of pending changes.
        cell_segments: The same for the cells of each column.
        emitted: With an allowed lateness, the first window that was not emitted yet.
        revised: Whether the store has numbers of rows that came again.
    """

    next_window: int | None = None
    block: int | None = None
    segments: list[tuple[int, int]] = field(default_factory=list)
    cell_segments: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    emitted: int | None = None
    revised: bool = False


def stacked_rows(aggregates: Aggregates) -> list[int]:
    """The state columns that slide by two stacks."""
    return [row for _, rows in aggregates.stacked for row in range(rows.start, rows.stop)]


def neutral_totals(aggregates: Aggregates) -> Int64s:
    """The totals of a key without records: state columns, then suffixes and prefixes of stacks."""
    neutral = aggregates.neutral()
    stacked = neutral[stacked_rows(aggregates)]
    return np.concatenate([neutral, stacked, stacked])


def late_for(
    windows: Windows, start_ms: Int64s, met_ms: Int64s, next_window: int | None
) -> tuple[Int64s, Bools]:
    """The first window that partials still count in, and which of them have missed one.

    Args:
        windows: The windows.
        start_ms: int64[n], when the panes of the partials begin.
        met_ms: int64[n], the watermarks that the partials met.
        next_window: The first window that is not closed.
    """
    first = windows.first_window(start_ms)
    enter = np.maximum(first, windows.first_window(met_ms))
    if next_window is not None:
        enter = np.maximum(enter, next_window)
    return enter, enter > first


class Lane:
    """One kind of windows, for one batch.

    Args:
        number: Of the windows in the plan.
        windows: The windows.
        panes: Of the partials that it takes.
        aggregates: What to compute.
        meta: Its small state, which `close` and `save` keep up to date.
        store: The shard's state.
        table: The shard's keys.
        lists: The shard's, of this batch.
    """

    def __init__(
        self,
        number: int,
        windows: Windows,
        panes: Panes,
        aggregates: Aggregates,
        meta: LaneMeta,
        store: Store,
        table: KeyTable,
        lists: Lists,
    ) -> None:
        self.number = number
        self.windows = windows
        self._panes = panes
        self._aggregates = aggregates
        self._meta = meta
        self._store = store
        self._table = table
        self._prefix = f"{number}/"
        per_bucket = max(1, windows.windows_per_record // BUCKETS_PER_WINDOW)
        self._pending = PendingChanges(
            store,
            aggregates.names[: aggregates.num_travelling],
            per_bucket,
            meta.segments,
            prefix=f"{self._prefix}segment",
            with_peers=bool(aggregates.stacked),
        )
        self._value_sets = {
            column: ValueSet(
                store,
                column,
                aggregates,
                per_bucket,
                meta.cell_segments.get(column, []),
                prefix=self._prefix,
                lists=lists,
            )
            for column in aggregates.value_columns
        }
        self._known_late = self._load_late()
        self._late_parts = [self._known_late]
        self._changes: list[Changes] = []

    def take(
        self,
        partials: Partials,
        ids: Int64s,
        met_ms: Int64s,
        cells_met_ms: Mapping[str, Int64s],
    ) -> None:
        """Note what partials change.

        Args:
            partials: In the panes of this lane.
            ids: The id of each of their keys.
            met_ms: int64[n], the watermark that each row met.
            cells_met_ms: The same for the cells of each column.
        """
        aggregates = self._aggregates
        next_window = self._meta.next_window
        states = partials.states
        start_ms = self._panes.start_ms(partials.pane)
        enter, late = late_for(self.windows, start_ms, met_ms, next_window)
        exit_ = self.windows.exit_window(start_ms)
        early = []
        for column, cells in partials.cells.items():
            start_ms = self._panes.start_ms(cells.pane)
            cell_enter, _ = late_for(self.windows, start_ms, cells_met_ms[column], next_window)
            cell_exit = self.windows.exit_window(start_ms)
            _, last_ms = aggregates.value_rules(column)
            if last_ms is not None and last_ms < self.windows.size_ms:
                cell_exit = self.windows.exit_window(start_ms - (self.windows.size_ms - last_ms))
                # A window that is closed, or was when the record came, is changed no more.
                leaves = cell_exit >= cell_enter
                early.append((cell_exit[leaves], ids[cells.key][leaves]))
            self._value_sets[column].changes.append(
                cell_changes(cell_enter, cell_exit, ids[cells.key], cells)
            )
        key = ids[partials.key]
        counted = enter < exit_
        if not counted.all():
            enter, exit_, key, late = enter[counted], exit_[counted], key[counted], late[counted]
            states = states[:, counted]
        if aggregates.stacked and late.any():
            stacked = states[stacked_rows(aggregates)]
            self._late_parts.append(LatePartials(enter, exit_, key, stacked).where(late))
        self._changes.append(partial_changes(enter, exit_, key, states, aggregates, late))
        # Values that leave before their records change a window all the same.
        self._changes += [unchanged(window, key, aggregates) for window, key in early]

    def keys_changed(self, end: int) -> Int64s:
        """The keys that the partials taken change in windows before `end`."""
        parts = [each.key[each.window < end] for each in self._changes]
        parts += [
            each.key[each.window < end]
            for value_set in self._value_sets.values()
            for each in value_set.changes
        ]
        return np.unique(np.concatenate(parts)) if parts else np.empty(0, dtype=np.int64)

    def close(self, end: int, next_serial: Callable[[], int]) -> Runs:
        """Close the windows before `end`; keep what belongs to later ones.

        Args:
            end: The first window that stays open, or an earlier one.
            next_serial: Gives numbers that no earlier call gave.
        """
        meta, table, aggregates = self._meta, self._table, self._aggregates
        if meta.next_window is not None:
            end = max(end, meta.next_window)
        num_columns, num_rows = aggregates.num_travelling, len(aggregates.names)
        changes = concat_changes(self._changes, num_columns)
        due = self._pending.take_due(end, next_serial())
        table.release(due)
        now = changes.window < end
        later = changes.where(~now)
        due = concat_changes([due, changes.where(now)], num_columns)
        first = meta.next_window
        if first is None:
            first = int(due.window.min()) if len(due.window) else end
        height = len(table.totals) // table.num_lanes
        totals = table.totals[self.number * height : (self.number + 1) * height]
        late = LatePartials.concat(self._late_parts)
        stacks = None
        if aggregates.stacked and first < end:
            if meta.block is None:
                meta.block = first // self.windows.windows_per_record - 1
            if (end - 1) // self.windows.windows_per_record > meta.block:
                known = self._pending.take_all()
                table.release(known)
                later = concat_changes([known, later], num_columns)
            width = len(stacked_rows(aggregates))
            stacks = TwoStacks(
                aggregates,
                self.windows.windows_per_record,
                block=meta.block,
                front=totals[num_rows : num_rows + width],
                back=totals[num_rows + width :],
                due=due,
                waiting=later,
                late=late,
                end=end,
            )
        if len(later.window):
            # Two segments of one bucket need different numbers.
            self._pending.add(later, next_serial())
            table.hold(later)
        for value_set in self._value_sets.values():
            value_set.close(end, next_serial(), next_serial())
        others: list[OtherValues] = [*self._value_sets.values()]
        if stacks is not None:
            others.append(stacks)
        runs = slide(totals[:num_rows], due, first, end, aggregates, others)
        if stacks is not None:
            stacks.finish()
            meta.block = stacks.last_block
        if meta.next_window is not None or len(due.window):
            meta.next_window = end
        self._save_late(late)
        return runs

    def save(self) -> None:
        """Write what is its own."""
        self._meta.segments = self._pending.index
        for column, value_set in self._value_sets.items():
            value_set.save()
            self._meta.cell_segments[column] = value_set.pending.index

    @property
    def num_segments(self) -> int:
        """Segments of pending changes there are."""
        return len(self._pending.index)

    def _load_late(self) -> LatePartials:
        """Late partials of aggregates that slide by two stacks; the store has them if any live."""
        aggregates = self._aggregates
        blob = self._store.get(f"{self._prefix}late") if aggregates.stacked else None
        if blob is None:
            return LatePartials.none(len(stacked_rows(aggregates)))
        return LatePartials.from_batch(from_blob(blob))

    def _save_late(self, late: LatePartials) -> None:
        """Keep the late partials that belong to open windows."""
        if self._meta.next_window is not None:
            late = late.where(late.exit > self._meta.next_window)
        if len(late.key):
            self._store.put(f"{self._prefix}late", to_blob(late.to_batch()))
        elif len(self._known_late.key):
            self._store.remove(f"{self._prefix}late")
