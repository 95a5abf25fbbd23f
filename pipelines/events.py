"""A row for every event that changes the answer, in place of windows: order first, then look.

A partitioner has split the stream, so the reducer, one for all, puts it in order again: an event
waits until the watermarks of all partitions have passed its time. It is late if it comes after its
partition's watermark; it is counted and left out. So results depend neither on batches nor on
partitions. The state is the events of the last window and those that wait: what follows from a
window's events is made anew from them with every batch.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from partitioners.errors import InputError
from pipelines.aggregates import Aggregates
from pipelines.blobs import Int64s, from_blob, numbers, to_blob
from pipelines.combine import ShardRow
from pipelines.lists import Lists
from pipelines.panes import Panes, Windows
from pipelines.partials import ON_TIME, decode_partials
from pipelines.pending import Store
from pipelines.per_event import RESOLUTION_MS, EachEvent
from pipelines.punctuation import NO_WATERMARK_MS
from pipelines.reduce import (
    RUNS_PER_BLOB,
    ShardOutput,
    check_partitions,
    encode_runs,
    raise_watermarks,
)
from pipelines.ring import Bools, Runs
from pipelines.sessions import SESSIONS


@dataclass(frozen=True)
class PerEvent:
    """The window (event - `window_ms`, event] after every event, in place of `Windows`.

    Args:
        window_ms: Its size.
    """

    window_ms: int

    def __post_init__(self) -> None:
        if self.window_ms < RESOLUTION_MS:
            raise InputError(
                f"the window per event must be at least {RESOLUTION_MS} ms, not {self.window_ms} ms"
            )

    @cached_property
    def panes(self) -> Panes:
        """Events of one time come in one pane."""
        return Panes([Windows(RESOLUTION_MS, RESOLUTION_MS)])

    @property
    def windows(self) -> tuple[Windows, ...]:
        """None: they follow the events."""
        return ()

    def late(self, time_ms: Int64s, watermark_ms: Int64s) -> Bools:
        """Which events are late, each having met a watermark."""
        return self.panes.of(time_ms) < self.panes.of(watermark_ms)


class _Events(NamedTuple):
    """Events: their times, what else their records say (packed), and their keys."""

    time: Int64s
    packed: Int64s
    keys: pa.Array

    def where(self, rows: Int64s) -> _Events:
        return _Events(self.time[rows], self.packed[rows], self.keys.take(pa.array(rows)))


@dataclass(frozen=True)
class EventReducer:
    """Reduces the events of a stream, all in one shard; see `reduce.ShardReducer`.

    Args:
        aggregates: Of the query; one of them is an `EachEvent`.
        plan: The window.
        num_partitions: Topic partitions that hold events back.
    """

    aggregates: Aggregates
    plan: PerEvent
    num_partitions: int

    def process(self, store: Store, rows: Iterable[ShardRow]) -> ShardOutput:
        """Take the rows of one batch, look after every event that no earlier one can precede."""
        (aggregate,) = (each for each in self.aggregates.all if isinstance(each, EachEvent))
        started = time.perf_counter()
        blob = store.get("meta")
        meta: dict[str, Any] = {"watermarks_ms": {}} if blob is None else json.loads(blob)
        watermarks = {int(p): ms for p, ms in meta["watermarks_ms"].items()}
        rows = sorted(rows, key=lambda row: row.partition)
        check_partitions(rows, self.num_partitions)
        progress = [json.loads(row.progress) for row in rows]
        counts = {"on_time": 0, "late": 0, "partial_rows": 0}
        parts = [_load(store, "waiting")]
        for row in rows:
            if row.partials:
                known = watermarks.get(row.partition, NO_WATERMARK_MS)
                parts.append(self._take(row, known, counts))
        frontier_ms = raise_watermarks(watermarks, progress, self.num_partitions)
        events = _concat(parts)
        complete = events.time < frontier_ms
        now = events.where(np.flatnonzero(complete))
        now = now.where(np.lexsort((aggregate.places(now.packed), now.time)))
        known_events = _load(store, "window")
        follower = aggregate.follow(self.plan.window_ms)
        follower.add(known_events.time, known_events.keys)
        changed, answers = follower.add(now.time, now.keys)
        states = follower.states(now.packed, now.time, changed, answers)
        blobs = self._emit(now.where(changed), states)
        window = _concat([known_events, now])
        window = window.where(np.arange(len(window.time) - follower.num_inside, len(window.time)))
        _save(store, "window", window)
        waiting = events.where(np.flatnonzero(~complete))
        _save(store, "waiting", waiting)
        store.put("meta", json.dumps({"watermarks_ms": watermarks}).encode())
        summary = {
            **counts,
            "partitions": progress,
            "windows": [],
            "top": [],
            "live_keys": len(window.keys.unique()),
            "segments": 0,
            "seconds": time.perf_counter() - started,
        }
        return ShardOutput(summary, blobs)

    def _take(self, row: ShardRow, watermark_ms: int, counts: dict[str, int]) -> _Events:
        """The events of one task that are not late."""
        partials = decode_partials(row.partials, self.aggregates)
        (cells,) = partials.cells.values()
        known = int(self.plan.panes.of(np.array([watermark_ms]))[0])
        late = cells.pane < np.maximum(known, np.where(cells.met == ON_TIME, known, cells.met))
        counts["late"] += int(late.sum())
        counts["on_time"] += int((~late).sum())
        counts["partial_rows"] += len(cells.pane)
        kept = cells.where(~late)
        keys = partials.keys.take(pa.array(kept.key))
        return _Events(self.plan.panes.start_ms(kept.pane), kept.value, keys)

    def _emit(self, events: _Events, states: Int64s) -> list[bytes]:
        """The events that changed the answer, as runs of one row each."""
        num = len(events.time)
        coded = pc.dictionary_encode(events.keys, null_encoding="encode")
        value = np.concatenate([np.ones((1, num), dtype=np.int64), states])
        runs = Runs(
            events.time - self.plan.window_ms,
            events.time,
            coded.indices.to_numpy().astype(np.int64),
            value,
            np.ones(num, dtype=bool),
        )
        return [
            encode_runs(
                runs.where(np.arange(at, min(at + RUNS_PER_BLOB, num))),
                coded.dictionary,
                self.aggregates,
                SESSIONS,
                Lists(),
            )
            for at in range(0, num, RUNS_PER_BLOB)
        ]


def _concat(parts: list[_Events]) -> _Events:
    return _Events(
        np.concatenate([part.time for part in parts]),
        np.concatenate([part.packed for part in parts]),
        pa.concat_arrays([part.keys for part in parts]),
    )


def _load(store: Store, name: str) -> _Events:
    blob = store.get(name)
    if blob is None:
        empty = np.empty(0, dtype=np.int64)
        return _Events(empty, empty, pa.array([], type=pa.binary()))
    batch = from_blob(blob)
    keys = batch.column("key")
    return _Events(numbers(batch.column("time")), numbers(batch.column("packed")), keys)


def _save(store: Store, name: str, events: _Events) -> None:
    if not len(events.time):
        if store.get(name) is not None:
            store.remove(name)
        return
    columns = {"time": pa.array(events.time), "packed": pa.array(events.packed), "key": events.keys}
    store.put(name, to_blob(pa.RecordBatch.from_pydict(columns)))
