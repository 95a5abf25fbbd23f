"""Session windows: stretches of a key's records without a pause.

A session is [first record, last record + gap) and holds all records of a key of which each comes
less than `gap` after another one. Combiners group records by key and pane, with the first and the
last time in it; a pane is shorter than the gap, so its records are of one session, whatever came in
between. The reducer puts neighbouring ones together::

    gap 10, panes of 2      records  1  3     9              22  23
    partials (first, last)          [1][3]   [9]            [22,23]
    sessions                        [1, .......... 19)      [22, ..... 33)

A record is late if its pane lies before that of the watermark it met; it is counted and left out.
A session is written once the watermarks' panes have passed its end: no record can come that would
make it longer. So results depend neither on batches nor on partitions.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from partitioners.errors import InputError
from pipelines.aggregates import TIMESTAMP, Aggregates, Max, Min
from pipelines.blobs import Int64s, from_blob, numbers, to_blob
from pipelines.combine import ShardRow
from pipelines.lists import Lists
from pipelines.lookup import differs
from pipelines.panes import Panes, Windows, parse_duration_ms
from pipelines.partials import ON_TIME, combine_groups, decode_partials
from pipelines.pending import Store
from pipelines.punctuation import NO_WATERMARK_MS
from pipelines.query import Query
from pipelines.reduce import (
    RUNS_PER_BLOB,
    ShardOutput,
    check_partitions,
    encode_runs,
    raise_watermarks,
)
from pipelines.ring import Bools, Runs, running_maximum
from pipelines.value_sets import Cells, ValueSet, cell_changes, count_cells

PANES_PER_GAP = 8
FIRST, LAST = "\0first", "\0last"
# In place of the number of windows of a plan.
SESSIONS = -1


@dataclass(frozen=True)
class Sessions:
    """Session windows, in place of `Windows`.

    Args:
        gap_ms: A pause of a key at least so long ends its session.

    Example:
        >>> Sessions.of("30 min")
        Sessions(gap_ms=1800000)
    """

    gap_ms: int

    def __post_init__(self) -> None:
        if self.gap_ms < 1:
            raise InputError(f"the gap of sessions must be at least 1 ms, not {self.gap_ms} ms")

    @classmethod
    def of(cls, gap: str) -> Sessions:
        """Sessions by their gap in words, such as "30 min"."""
        return cls(parse_duration_ms(gap))

    @cached_property
    def panes(self) -> Panes:
        """The stretches by which records are combined, and by which watermarks count."""
        pane_ms = max(1, self.gap_ms // PANES_PER_GAP)
        return Panes([Windows(pane_ms, pane_ms)])

    @property
    def windows(self) -> tuple[Windows, ...]:
        """None: sessions are of no fixed size."""
        return ()

    def late(self, time_ms: Int64s, watermark_ms: Int64s) -> Bools:
        """Which records are late, each having met a watermark."""
        return self.panes.of(time_ms) < self.panes.of(watermark_ms)


def with_times(query: Query) -> Query:
    """The query with the times of a session's first and last record beside its aggregates."""
    aggregates = query.aggregates
    for column in aggregates.value_columns:
        if aggregates.value_rules(column)[1] is not None:
            raise InputError("a session has no last part of fixed length: leave last_ms out")
    timed = copy(query)
    vars(timed)["aggregates"] = Aggregates(
        *aggregates.others,
        Min(FIRST, TIMESTAMP),
        Max(LAST, TIMESTAMP),
        order_by=aggregates.order_by,
    )
    return timed


@dataclass
class _Stretches:
    """Parts of sessions: of each the key, the states, and the values that are needed one by one.

    Attributes:
        keys: Binary array.
        states: int64[num state columns, n].
        cells: Of each column, with the number of the part in place of the key.
    """

    keys: pa.Array
    states: Int64s
    cells: dict[str, Cells]


@dataclass(frozen=True)
class SessionReducer:
    """Reduces the partials of a shard to sessions; see `reduce.ShardReducer`.

    Args:
        aggregates: What to compute, of a query `with_times`.
        sessions: The sessions.
        num_partitions: Topic partitions that hold sessions back; None: those with rows in a batch.
    """

    aggregates: Aggregates
    sessions: Sessions
    num_partitions: int | None

    def process(self, store: Store, rows: Iterable[ShardRow]) -> ShardOutput:
        """Take the rows of one batch, write out the sessions that have ended, keep the others."""
        started = time.perf_counter()
        blob = store.get("meta")
        meta: dict[str, Any] = {"watermarks_ms": {}, "ended_ms": NO_WATERMARK_MS}
        if blob is not None:
            meta = json.loads(blob)
        watermarks = {int(p): ms for p, ms in meta["watermarks_ms"].items()}
        rows = sorted(rows, key=lambda row: row.partition)
        check_partitions(rows, self.num_partitions)
        progress = [json.loads(row.progress) for row in rows]
        counts = {"on_time": 0, "late": 0, "partial_rows": 0}
        parts = [self._load(store)]
        for row in rows:
            if row.partials:
                known = watermarks.get(row.partition, NO_WATERMARK_MS)
                parts.append(self._take(row, max(known, meta["ended_ms"]), counts))
        frontier_ms = raise_watermarks(watermarks, progress, self.num_partitions)
        meta["ended_ms"] = max(meta["ended_ms"], frontier_ms)
        merged = self._merge(parts)
        passed = int(
            self.sessions.panes.start_ms(self.sessions.panes.of(np.array([meta["ended_ms"]])))[0]
        )
        over = self._row(merged, LAST) + self.sessions.gap_ms <= passed
        blobs = self._emit(_where(merged, over))
        left = _where(merged, ~over)
        self._save(store, left)
        store.put("meta", json.dumps({**meta, "watermarks_ms": watermarks}).encode())
        summary = {
            **counts,
            "partitions": progress,
            "windows": [],
            "top": [],
            "live_keys": len(left.keys.unique()),
            "segments": 0,
            "seconds": time.perf_counter() - started,
        }
        return ShardOutput(summary, blobs)

    def _row(self, parts: _Stretches, name: str) -> Int64s:
        return np.asarray(parts.states[self.aggregates.names.index(name)])

    def _take(self, row: ShardRow, watermark_ms: int, counts: dict[str, int]) -> _Stretches:
        """The partials of one task that are not late."""
        partials = decode_partials(row.partials, self.aggregates)
        known = int(self.sessions.panes.of(np.array([watermark_ms]))[0])

        def late(pane: Int64s, met: Int64s) -> Bools:
            return np.asarray(pane < np.maximum(known, np.where(met == ON_TIME, known, met)))

        records, is_late = partials.states[0], late(partials.pane, partials.met)
        counts["late"] += int(records[is_late].sum())
        counts["on_time"] += int(records[~is_late].sum())
        counts["partial_rows"] += len(records)
        rows = np.flatnonzero(~is_late)
        cells = {}
        for name, each in partials.cells.items():
            kept = each.where(~late(each.pane, each.met))
            cells[name] = kept._replace(key=_place_of(kept, partials, rows))
        keys = partials.keys.take(pa.array(partials.key[rows]))
        return _Stretches(keys, partials.states[:, rows], cells)

    def _merge(self, parts: list[_Stretches]) -> _Stretches:
        """Put parts together that no pause lies between."""
        every = pa.concat_arrays([part.keys for part in parts])
        coded = pc.dictionary_encode(every, null_encoding="encode")
        key = coded.indices.to_numpy().astype(np.int64)
        states = np.concatenate([part.states for part in parts], axis=1)
        whole = _Stretches(every, states, {})
        first, last = self._row(whole, FIRST), self._row(whole, LAST)
        order = np.lexsort((first, key))
        begins = differs(key[order])
        reach = running_maximum(last[order], begins, -(2**63))
        begins[1:] |= first[order][1:] - reach[:-1] >= self.sessions.gap_ms
        number = np.empty(len(order), dtype=np.int64)
        number[order] = np.cumsum(begins) - 1
        groups, combined = combine_groups({"session": number}, list(states), self.aggregates)
        combined = combined[:, np.argsort(groups["session"])]
        for each, rows in self.aggregates.blocks:
            each.carry(combined[rows])
        before = np.cumsum([0, *(len(part.keys) for part in parts)]).tolist()
        cells = {
            name: count_cells(
                [
                    part.cells[name]._replace(key=number[part.cells[name].key + shift])
                    for part, shift in zip(parts, before[:-1], strict=True)
                ]
            )
            for name in self.aggregates.value_columns
        }
        return _Stretches(every.take(pa.array(order[begins])), combined, cells)

    def _emit(self, ended: _Stretches) -> list[bytes]:
        """Sessions as blobs of runs: the bounds of each in milliseconds."""
        num = len(ended.keys)
        if not num:
            return []
        value = ended.states.copy()
        lists = Lists()
        for name, cells in ended.cells.items():
            rows, found = self._of_values(name, cells, num, lists)
            value[rows] = found
        self.aggregates.derive(value)
        end = self._row(ended, LAST) + self.sessions.gap_ms
        key = np.arange(num)
        runs = Runs(self._row(ended, FIRST), end, key, value, np.ones(num, dtype=bool))
        return [
            encode_runs(
                runs.where(key[at : at + RUNS_PER_BLOB]),
                ended.keys,
                self.aggregates,
                SESSIONS,
                lists,
            )
            for at in range(0, num, RUNS_PER_BLOB)
        ]

    def _of_values(
        self, name: str, cells: Cells, num: int, lists: Lists
    ) -> tuple[list[int], Int64s]:
        """The states that need every value: each session is a key with one window, number 0."""
        value_set = ValueSet(_Scratch(), name, self.aggregates, 1, [], lists=lists)
        zero = np.zeros(len(cells.key), dtype=np.int64)
        value_set.changes.append(cell_changes(zero, zero + 1, cells.key, cells))
        value_set.close(1, 1, 2)
        # The window before the first is there, as in `ring.slide`.
        key, window = np.repeat(np.arange(num), 2), np.tile(np.array([-1, 0]), num)
        return value_set.rows, value_set.values(key, window)[:, 1::2]

    def _load(self, store: Store) -> _Stretches:
        blob = store.get("sessions")
        num_states = len(self.aggregates.names)
        keys = pa.array([], type=pa.binary())
        states = np.empty((num_states, 0), dtype=np.int64)
        cells = {}
        if blob is not None:
            batch = from_blob(blob)
            keys = batch.column("key")
            states = np.stack([numbers(batch.column(f"{i}")) for i in range(num_states)])
        for name in self.aggregates.value_columns:
            stored = store.get(f"cells/{name}") if blob is not None else None
            empty = np.empty(0, dtype=np.int64)
            columns = [empty, empty, empty]
            if stored is not None:
                columns = [numbers(column) for column in from_blob(stored).columns]
            number, value, records = columns
            zero = np.zeros(len(number), dtype=np.int64)
            cells[name] = Cells(zero, zero, number, value, records)
        return _Stretches(keys, states, cells)

    def _save(self, store: Store, left: _Stretches) -> None:
        if not len(left.keys):
            for name in ("sessions", *(f"cells/{name}" for name in left.cells)):
                if store.get(name) is not None:
                    store.remove(name)
            return
        columns: dict[str, Any] = {"key": left.keys}
        columns |= {f"{i}": pa.array(row) for i, row in enumerate(left.states)}
        store.put("sessions", to_blob(pa.RecordBatch.from_pydict(columns)))
        for name, cells in left.cells.items():
            arrays = [pa.array(column) for column in (cells.key, cells.value, cells.records)]
            batch = pa.RecordBatch.from_arrays(arrays, names=["session", "value", "records"])
            store.put(f"cells/{name}", to_blob(batch))


def _place_of(cells: Cells, partials: Any, rows: Int64s) -> Int64s:
    """Of each cell, the place of its partial among `rows`."""
    have = np.stack([partials.pane[rows], partials.met[rows], partials.key[rows]])
    wanted = np.stack([cells.pane, cells.met, cells.key])
    _, number = np.unique(np.concatenate([have, wanted], axis=1), axis=1, return_inverse=True)
    place = np.empty(number.max(initial=-1) + 1, dtype=np.int64)
    place[number[: len(rows)]] = np.arange(len(rows))
    return np.asarray(place[number[len(rows) :]])


def _where(parts: _Stretches, chosen: Bools) -> _Stretches:
    """The chosen parts, with their cells."""
    number = np.cumsum(chosen) - 1
    cells = {}
    for name, each in parts.cells.items():
        kept = each.where(chosen[each.key])
        cells[name] = kept._replace(key=number[kept.key])
    return _Stretches(parts.keys.filter(pa.array(chosen)), parts.states[:, chosen], cells)


class _Scratch:
    """A store that nobody reads again."""

    def get(self, name: str) -> bytes | None:  # noqa: ARG002 - it is empty
        """See `Store`."""
        return None

    def put(self, name: str, value: bytes) -> None:
        """See `Store`."""

    def remove(self, name: str) -> None:
        """See `Store`."""
