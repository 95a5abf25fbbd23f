"""The second stage: partials of one shard to the runs of the windows that close.

One call per shard and batch. The state is a few Arrow blobs: `meta` (counters, watermarks, the next
window to close, the index of segments), `keys` (running totals by key id) and the segments of
pending changes. `ShardReducer` knows nothing of Spark: it works on any `Store`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from partitioners.errors import RunError
from pipelines.aggregates import Aggregates
from pipelines.blobs import Int64s, from_blob, to_blob
from pipelines.combine import ShardRow
from pipelines.key_table import KeyTable
from pipelines.panes import Windows
from pipelines.partials import decode_partials
from pipelines.pending import BUCKETS_PER_WINDOW, PendingChanges, Store
from pipelines.punctuation import NO_WATERMARK_MS
from pipelines.ring import (
    Changes,
    OtherValues,
    Runs,
    concat_changes,
    covered,
    partial_changes,
    slide,
    unchanged,
)
from pipelines.stacks import LatePartials, TwoStacks
from pipelines.top import top_of_windows
from pipelines.value_sets import ValueSet, cell_changes

# Runs in one blob; bounds the size of a row between the stages.
RUNS_PER_BLOB = 1 << 20


class ShardOutput(NamedTuple):
    """What a shard hands to the sink in one batch."""

    summary: dict[str, Any]
    blobs: list[bytes]


@dataclass
class Meta:
    """The small part of a shard's state."""

    next_window: int | None = None
    watermarks_ms: dict[int, int] = field(default_factory=dict)
    serial: int = 0
    block: int | None = None
    segments: list[tuple[int, int]] = field(default_factory=list)
    cell_segments: dict[str, list[tuple[int, int]]] = field(default_factory=dict)

    @classmethod
    def load(cls, blob: bytes | None) -> Meta:
        """Read what `dump` wrote."""
        if blob is None:
            return cls()
        values = json.loads(blob)
        values["watermarks_ms"] = {int(p): w for p, w in values["watermarks_ms"].items()}
        return cls(**values)

    def dump(self) -> bytes:
        """One JSON object."""
        return json.dumps(vars(self)).encode()


@dataclass(frozen=True)
class ShardReducer:
    """Reduces the partials of a shard.

    Args:
        aggregates: What to compute.
        windows: The windows.
        num_partitions: Topic partitions that hold windows back until their watermark passes; None:
            only partitions with rows in the batch do.
        emit: `all`, `changed` or `top`.
        k: Size of a window's top.
    """

    aggregates: Aggregates
    windows: Windows
    num_partitions: int | None
    emit: str
    k: int

    def process(self, store: Store, rows: Iterable[ShardRow]) -> ShardOutput:
        """Take the rows of one batch, close the windows that are due, and write the state.

        Args:
            store: The shard's state.
            rows: One row per topic partition that had records; in any order.
        """
        started = time.perf_counter()
        meta = Meta.load(store.get("meta"))
        table = self._load_table(store)
        pending = PendingChanges(
            store,
            self.aggregates.names,
            self._windows_per_bucket,
            meta.segments,
            rows=self.aggregates.travelling,
            with_peers=bool(self.aggregates.stacked),
        )
        value_sets = {
            column: ValueSet(
                store,
                column,
                self.aggregates,
                self._windows_per_bucket,
                meta.cell_segments.get(column, []),
            )
            for column in self.aggregates.value_columns
        }
        meta.serial += 1
        rows = sorted(rows, key=lambda row: row.partition)
        self._check_partitions(rows)
        progress = [json.loads(row.progress) for row in rows]
        counts = {"on_time": 0, "late": 0, "partial_rows": 0}
        known_late = self._load_late(store)
        late_parts = [known_late]
        changes = concat_changes(
            [
                self._take(row, meta, table, counts, late_parts, value_sets)
                for row in rows
                if row.partials
            ],
            len(self.aggregates.names),
        )
        late = LatePartials.concat(late_parts)
        for each in progress:
            before = meta.watermarks_ms.get(each["partition"], NO_WATERMARK_MS)
            meta.watermarks_ms[each["partition"]] = max(before, each["watermark_ms"])
        end = self.windows.first_window(self._frontier_ms(meta, progress))
        runs = self._close(meta, table, pending, changes, late, value_sets, end)
        self._save_late(store, late, meta, is_stored=len(known_late.key) > 0)
        blobs, last = self._emit(runs, table)
        table.free_unused()
        meta.segments = pending.index
        for column, value_set in value_sets.items():
            value_set.save()
            meta.cell_segments[column] = value_set.pending.index
        store.put("keys", to_blob(table.to_batch(self._table_names)))
        store.put("meta", meta.dump())
        summary = {
            **counts,
            "partitions": progress,
            "windows": covered(runs),
            "top": last,
            "live_keys": table.live,
            "segments": len(pending.index),
            "seconds": time.perf_counter() - started,
        }
        return ShardOutput(summary, blobs)

    def _check_partitions(self, rows: list[ShardRow]) -> None:
        highest = max((row.partition for row in rows), default=0)
        if self.num_partitions is not None and highest >= self.num_partitions:
            raise RunError(
                f"the topic has a partition {highest}, yet the query was started for "
                f"{self.num_partitions} partitions: start it with the topic's number of partitions"
            )

    @property
    def _windows_per_bucket(self) -> int:
        return max(1, self.windows.windows_per_record // BUCKETS_PER_WINDOW)

    def _load_table(self, store: Store) -> KeyTable:
        blob = store.get("keys")
        neutral = self.aggregates.neutral()
        stacked = neutral[self._stacked_rows]
        neutral = np.concatenate([neutral, stacked, stacked])
        if blob is None:
            return KeyTable.empty(neutral)
        return KeyTable.from_batch(from_blob(blob), self._table_names, neutral)

    @property
    def _stacked_rows(self) -> list[int]:
        return [row for _, rows in self.aggregates.stacked for row in range(rows.start, rows.stop)]

    @property
    def _table_names(self) -> tuple[str, ...]:
        """The totals of a key: state columns, then suffixes and prefixes of the two stacks."""
        names = self.aggregates.names
        stacked = [names[row] for row in self._stacked_rows]
        return (
            *names,
            *(f"front.{name}" for name in stacked),
            *(f"back.{name}" for name in stacked),
        )

    def _load_late(self, store: Store) -> LatePartials:
        """Late partials of aggregates that slide by two stacks; the store has them if any live."""
        blob = store.get("late") if self.aggregates.stacked else None
        if blob is None:
            return LatePartials.none(len(self._stacked_rows))
        return LatePartials.from_batch(from_blob(blob))

    def _save_late(self, store: Store, late: LatePartials, meta: Meta, *, is_stored: bool) -> None:
        """Keep the late partials that belong to open windows."""
        if meta.next_window is not None:
            late = late.where(late.exit > meta.next_window)
        if len(late.key):
            store.put("late", to_blob(late.to_batch()))
        elif is_stored:
            store.remove("late")

    def _frontier_ms(self, meta: Meta, progress: list[dict[str, Any]]) -> int:
        """The time all partitions that hold windows back have passed."""
        if self.num_partitions is None:
            holding = [each["partition"] for each in progress]
        else:
            holding = list(range(self.num_partitions))
        return min(
            (meta.watermarks_ms.get(p, NO_WATERMARK_MS) for p in holding), default=NO_WATERMARK_MS
        )

    def _take(
        self,
        row: ShardRow,
        meta: Meta,
        table: KeyTable,
        counts: dict[str, int],
        late_parts: list[LatePartials],
        value_sets: dict[str, ValueSet],
    ) -> Changes:
        """The changes of one task's partials, late records told apart by the watermark they met."""
        partials = decode_partials(row.partials, self.aggregates)
        states = partials.states
        first, exit_ = self._windows_of(partials.pane)
        met = meta.watermarks_ms.get(row.partition, NO_WATERMARK_MS)
        open_window = self.windows.first_window(met)
        if meta.next_window is not None:
            open_window = max(open_window, meta.next_window)
        enter = np.maximum(np.maximum(partials.enter, first), open_window)
        late = enter > first
        num_late = int(states[0][late].sum())
        counts["late"] += num_late
        counts["on_time"] += int(states[0].sum()) - num_late
        counts["partial_rows"] += len(first)
        ids = table.ids(partials.keys)
        early = []
        for column, cells in partials.cells.items():
            cell_first, cell_exit = self._windows_of(cells.pane)
            _, last_ms = self.aggregates.value_rules(column)
            if last_ms is not None and last_ms < self.windows.size_ms:
                start = cells.pane * self.windows.pane_ms
                cell_exit = self.windows.exit_window(start - (self.windows.size_ms - last_ms))
                early.append((cell_exit, ids[cells.key]))
            cell_enter = np.maximum(np.maximum(cells.enter, cell_first), open_window)
            value_sets[column].changes.append(
                cell_changes(cell_enter, cell_exit, ids[cells.key], cells)
            )
        key = ids[partials.key]
        counted = enter < exit_
        if not counted.all():
            enter, exit_, key, late = enter[counted], exit_[counted], key[counted], late[counted]
            states = states[:, counted]
        if self.aggregates.stacked and late.any():
            stacked = states[self._stacked_rows]
            late_parts.append(LatePartials(enter, exit_, key, stacked).where(late))
        changes = partial_changes(enter, exit_, key, states, self.aggregates, late)
        if not early:
            return changes
        # Values that leave before their records change a window all the same.
        noted = [
            unchanged(window[window >= open_window], key[window >= open_window], self.aggregates)
            for window, key in early
        ]
        return concat_changes([changes, *noted], len(states))

    def _windows_of(self, pane: Int64s) -> tuple[Int64s, Int64s]:
        """The first window of each pane, and the first window after it."""
        start = pane * self.windows.pane_ms
        return self.windows.first_window(start), self.windows.exit_window(start)

    def _close(
        self,
        meta: Meta,
        table: KeyTable,
        pending: PendingChanges,
        changes: Changes,
        late: LatePartials,
        value_sets: dict[str, ValueSet],
        end: int,
    ) -> Runs:
        """Close the windows before `end`; keep what belongs to later ones."""
        if meta.next_window is not None:
            end = max(end, meta.next_window)
        num_columns = len(self.aggregates.names)
        due = pending.take_due(end, meta.serial)
        table.release(due)
        now = changes.window < end
        later = changes.where(~now)
        due = concat_changes([due, changes.where(now)], num_columns)
        first = meta.next_window
        if first is None:
            first = int(due.window.min()) if len(due.window) else end
        stacks = None
        if self.aggregates.stacked and first < end:
            if meta.block is None:
                meta.block = first // self.windows.windows_per_record - 1
            if (end - 1) // self.windows.windows_per_record > meta.block:
                known = pending.take_all()
                table.release(known)
                later = concat_changes([known, later], num_columns)
            width = len(self._stacked_rows)
            stacks = TwoStacks(
                self.aggregates,
                self.windows.windows_per_record,
                block=meta.block,
                front=table.totals[num_columns : num_columns + width],
                back=table.totals[num_columns + width :],
                due=due,
                waiting=later,
                late=late,
                end=end,
            )
        if len(later.window):
            # Two segments of one bucket need different numbers.
            meta.serial += 1
            pending.add(later, meta.serial)
            table.hold(later)
        totals = table.totals[:num_columns]
        for value_set in value_sets.values():
            meta.serial += 1
            value_set.close(end, meta.serial)
            meta.serial += 1
        others: list[OtherValues] = [*value_sets.values()]
        if stacks is not None:
            others.append(stacks)
        runs = slide(totals, due, first, end, self.aggregates, others)
        if stacks is not None:
            stacks.finish()
            meta.block = stacks.last_block
        if meta.next_window is not None or len(due.window):
            meta.next_window = end
        return runs

    def _emit(self, runs: Runs, table: KeyTable) -> tuple[list[bytes], list[Any]]:
        """The blobs for the sink, and the top of the last window that has any key."""
        keys = table.keys()
        last = self._last_top(runs, keys)
        if self.emit == "top":
            runs = top_of_windows(runs, keys, self.aggregates, self.k)
        elif self.emit == "changed":
            runs = runs.where(runs.changed)
        else:
            runs = runs.live()
        blobs = [
            encode_runs(
                runs.where(np.arange(at, min(at + RUNS_PER_BLOB, len(runs.key)))),
                keys,
                self.aggregates,
            )
            for at in range(0, len(runs.key), RUNS_PER_BLOB)
        ]
        return blobs, last

    def _last_top(self, runs: Runs, keys: pa.Array) -> list[Any]:
        stretches = covered(runs)
        if not stretches:
            return []
        window = stretches[-1][1] - 1
        alive = (runs.start <= window) & (runs.end > window)
        there = runs.where(alive)
        there = there._replace(
            start=np.full(len(there.key), window), end=np.full(len(there.key), window + 1)
        )
        top = top_of_windows(there, keys, self.aggregates, self.k)
        names = keys.take(pa.array(top.key)).to_pylist()
        return [
            [window, None if name is None else name.hex(), *values]
            for name, values in zip(names, top.value.T.tolist(), strict=True)
        ]


def encode_runs(runs: Runs, keys: pa.Array, aggregates: Aggregates) -> bytes:
    """Write runs as an Arrow blob, with the keys they use as a dictionary."""
    used = np.zeros(len(keys), dtype=bool)
    used[runs.key] = True
    code = np.cumsum(used) - 1
    columns: dict[str, Any] = {
        "start": pa.array(runs.start),
        "end": pa.array(runs.end),
        "key": pa.DictionaryArray.from_arrays(
            pa.array(code[runs.key].astype(np.int32)), keys.filter(pa.array(used))
        ),
    }
    for name, row in zip(aggregates.names, runs.value, strict=True):
        columns[name] = pa.array(row)
    return to_blob(pa.RecordBatch.from_pydict(columns))
