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
from pipelines.aggregates import Aggregate
from pipelines.blobs import Int64s, from_blob, numbers, to_blob
from pipelines.combine import ShardRow
from pipelines.key_table import KeyTable
from pipelines.panes import Windows
from pipelines.pending import BUCKETS_PER_WINDOW, PendingChanges, Store
from pipelines.punctuation import NO_WATERMARK_MS
from pipelines.ring import Changes, Runs, concat_changes, covered, partial_changes, slide
from pipelines.top import top_of_windows

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
    segments: list[tuple[int, int]] = field(default_factory=list)

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
        aggregate: The measures.
        windows: The windows.
        num_partitions: Topic partitions that hold windows back until their watermark passes; None:
            only partitions with rows in the batch do.
        emit: `all`, `changed` or `top`.
        k: Size of a window's top.
    """

    aggregate: Aggregate
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
        pending = PendingChanges(store, self.aggregate, self._windows_per_bucket, meta.segments)
        meta.serial += 1
        rows = sorted(rows, key=lambda row: row.partition)
        self._check_partitions(rows)
        progress = [json.loads(row.progress) for row in rows]
        counts = {"on_time": 0, "late": 0, "partial_rows": 0}
        changes = concat_changes(
            [self._take(row, meta, table, counts) for row in rows if row.partials],
            len(self.aggregate.measures),
        )
        for each in progress:
            before = meta.watermarks_ms.get(each["partition"], NO_WATERMARK_MS)
            meta.watermarks_ms[each["partition"]] = max(before, each["watermark_ms"])
        end = self.windows.first_window(self._frontier_ms(meta, progress))
        runs = self._close(meta, table, pending, changes, end)
        blobs, last = self._emit(runs, table)
        table.free_unused()
        meta.segments = pending.index
        store.put("keys", to_blob(table.to_batch(self.aggregate.names)))
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
        neutral = self.aggregate.neutral()
        if blob is None:
            return KeyTable.empty(neutral)
        return KeyTable.from_batch(from_blob(blob), self.aggregate.names, neutral)

    def _frontier_ms(self, meta: Meta, progress: list[dict[str, Any]]) -> int:
        """The time all partitions that hold windows back have passed."""
        if self.num_partitions is None:
            holding = [each["partition"] for each in progress]
        else:
            holding = list(range(self.num_partitions))
        return min(
            (meta.watermarks_ms.get(p, NO_WATERMARK_MS) for p in holding), default=NO_WATERMARK_MS
        )

    def _take(self, row: ShardRow, meta: Meta, table: KeyTable, counts: dict[str, int]) -> Changes:
        """The changes of one task's partials, late records told apart by the watermark they met."""
        batch = from_blob(row.partials)
        coded = batch.column("key")
        measures: Int64s = np.stack([numbers(batch.column(n)) for n in self.aggregate.names])
        pane_start = numbers(batch.column("pane")) * self.windows.pane_ms
        first = self.windows.first_window(pane_start)
        exit_ = self.windows.exit_window(pane_start)
        met = meta.watermarks_ms.get(row.partition, NO_WATERMARK_MS)
        open_window = self.windows.first_window(met)
        if meta.next_window is not None:
            open_window = max(open_window, meta.next_window)
        enter = np.maximum(np.maximum(numbers(batch.column("enter")), first), open_window)
        late = int(measures[0][enter > first].sum())
        counts["late"] += late
        counts["on_time"] += int(measures[0].sum()) - late
        counts["partial_rows"] += len(first)
        key = table.ids(coded.dictionary)[coded.indices.to_numpy()]
        counted = enter < exit_
        if not counted.all():
            enter, exit_, key = enter[counted], exit_[counted], key[counted]
            measures = measures[:, counted]
        return partial_changes(enter, exit_, key, measures, self.aggregate)

    def _close(
        self, meta: Meta, table: KeyTable, pending: PendingChanges, changes: Changes, end: int
    ) -> Runs:
        """Close the windows before `end`; keep what belongs to later ones."""
        if meta.next_window is not None:
            end = max(end, meta.next_window)
        due = pending.take_due(end, meta.serial)
        table.release(due)
        now = changes.window < end
        later = changes.where(~now)
        if len(later.window):
            # Two segments of one bucket need different numbers.
            meta.serial += 1
            pending.add(later, meta.serial)
            table.hold(later)
        due = concat_changes([due, changes.where(now)], len(self.aggregate.measures))
        runs = slide(table.totals, due, meta.next_window, end, self.aggregate)
        if meta.next_window is not None or len(due.window):
            meta.next_window = end
        return runs

    def _emit(self, runs: Runs, table: KeyTable) -> tuple[list[bytes], list[Any]]:
        """The blobs for the sink, and the top of the last window that has any key."""
        keys = table.keys()
        last = self._last_top(runs, keys)
        if self.emit == "top":
            runs = top_of_windows(runs, keys, self.aggregate, self.k)
        elif self.emit == "changed":
            runs = runs.where(runs.changed)
        else:
            runs = runs.live()
        blobs = [
            encode_runs(
                runs.where(np.arange(at, min(at + RUNS_PER_BLOB, len(runs.key)))),
                keys,
                self.aggregate,
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
        top = top_of_windows(there, keys, self.aggregate, self.k)
        names = keys.take(pa.array(top.key)).to_pylist()
        return [
            [window, None if name is None else name.hex(), *values]
            for name, values in zip(names, top.value.T.tolist(), strict=True)
        ]


def encode_runs(runs: Runs, keys: pa.Array, aggregate: Aggregate) -> bytes:
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
    for name, row in zip(aggregate.names, runs.value, strict=True):
        columns[name] = pa.array(row)
    return to_blob(pa.RecordBatch.from_pydict(columns))
