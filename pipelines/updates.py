"""Windows that late records still change: emitted again, with a revision number.

A window is emitted when the watermarks pass its end, as ever. With an allowed lateness it stays
open for so long after that, and its rows that a late record changes come again; the newest revision
of a row holds. What a window is emitted with is found by closing a copy of the state; the state
itself closes windows only when nothing can change them any more::

    windows of 10 ms          [0, 10)    [10, 20)    [20, 30)        allowed lateness 15
    watermark 20              emitted    emitted     open
    record of time 5          revision 1                             (9: the watermark is below 25)
    watermark 25              closed
    record of time 6          late

So all aggregates can do it, whatever way they slide. A batch costs about twice, and three times
where a window that was emitted has changed.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from pipelines.blobs import Int64s, from_blob, numbers, to_blob
from pipelines.key_table import KeyTable
from pipelines.lane import Lane, LaneMeta
from pipelines.lookup import order_of
from pipelines.pending import Store
from pipelines.ring import Runs
from pipelines.top import concat_runs

NOT_EMITTED = -(2**63)


class Overlay:
    """A store whose writes are kept apart from the store below, and can be written there.

    Args:
        below: What is read where nothing was written here.
    """

    def __init__(self, below: Store) -> None:
        self._below = below
        self._written: dict[str, bytes | None] = {}

    def get(self, name: str) -> bytes | None:
        """See `Store`."""
        return self._written[name] if name in self._written else self._below.get(name)

    def put(self, name: str, value: bytes) -> None:
        """See `Store`."""
        self._written[name] = value

    def remove(self, name: str) -> None:
        """See `Store`."""
        self._written[name] = None

    def flush(self) -> None:
        """Write all to the store below."""
        for name, value in self._written.items():
            if value is not None:
                self._below.put(name, value)
            elif self._below.get(name) is not None:
                self._below.remove(name)
        self._written.clear()


class Revised(NamedTuple):
    """Runs of one window each that are emitted again, and their numbers: the first is 0."""

    runs: Runs
    revision: Int64s


class Updates:
    """Closes one kind of windows in a batch and says which rows come, or come again.

    Args:
        lane: The windows, with the partials of the batch taken.
        meta: Of the lane.
        store: The lane's, an overlay of `before`.
        before: The store as it was before the batch.
        table: The shard's keys.
        lane_on: Makes a lane of other meta, on another store and key table.
    """

    def __init__(
        self,
        lane: Lane,
        meta: LaneMeta,
        store: Store,
        before: Store,
        table: KeyTable,
        lane_on: Callable[[LaneMeta, Store, KeyTable], Lane],
    ) -> None:
        self._lane = lane
        self._meta = meta
        self._store = store
        self._before = before
        self._table = table
        self._lane_on = lane_on

    def close(
        self, frontier_ms: int, update_ms: int, next_serial: Callable[[], int]
    ) -> tuple[Runs, Revised]:
        """Close windows.

        Args:
            frontier_ms: Windows that end at or before it are emitted.
            update_ms: Windows that ended so long before it change no more.
            next_serial: See `Lane.close`.

        Returns:
            The runs of windows emitted for the first time, and the rows that come again.
        """
        meta, windows = self._meta, self._lane.windows
        end = windows.first_window(frontier_ms)
        emitted = meta.emitted
        end = end if emitted is None else max(end, emitted)
        keys = self._lane.keys_changed(NOT_EMITTED if emitted is None else emitted)
        old = None
        if len(keys):
            known = self._table.copy()
            old = self._lane_on(deepcopy(meta), Overlay(self._before), known)
        closed = self._lane.close(windows.first_window(frontier_ms - update_ms), next_serial)
        self._lane.save()
        ahead = self._lane_on(deepcopy(meta), Overlay(self._store), self._table.copy())
        runs = concat_runs([closed, ahead.close(end, next_serial)])
        low = NOT_EMITTED if emitted is None else emitted
        fresh = runs.where(runs.end > low)
        fresh = fresh._replace(start=np.maximum(fresh.start, low))
        if emitted is not None or len(fresh.key):
            meta.emitted = end
        rows = before = runs.where(np.zeros(len(runs.key), dtype=bool))
        if old is not None and emitted is not None:
            rows = _rows(runs, keys, emitted)
            before = _rows(old.close(emitted, next_serial), keys, emitted)
        return fresh, self._number(rows, before)

    def _number(self, rows: Runs, before: Runs) -> Revised:
        """Of the rows that were emitted, those that are others now, or are new."""
        place = _find(before, rows.key, rows.start)
        there = place >= 0
        differs = ~there
        differs[there] = (rows.value[:, there] != before.value[:, place[there]]).any(axis=0)
        rows, there = rows.where(differs), there[differs]
        known = self._load_numbers()
        place = _find(known, rows.key, rows.start)
        revision = there.astype(np.int64)
        revision[place >= 0] += known.value[0, place[place >= 0]]
        self._save_numbers(known, rows, revision)
        return Revised(rows, revision)

    def _load_numbers(self) -> Runs:
        """The numbers so far of rows that came again, as runs of one window each."""
        blob = self._store.get(self._name) if self._meta.revised else None
        empty = np.empty(0, dtype=np.int64)
        columns = [empty, empty, np.zeros(0, dtype=np.int64)]
        if blob is not None:
            columns = [numbers(column) for column in from_blob(blob).columns]
        window, key, number = columns
        return Runs(window, window + 1, key, number[None, :], np.ones(len(key), dtype=bool))

    def _save_numbers(self, known: Runs, rows: Runs, revision: Int64s) -> None:
        """Keep the numbers of windows that may still change."""
        again = revision > 0
        window = np.concatenate([rows.start[again], known.start])
        key = np.concatenate([rows.key[again], known.key])
        number = np.concatenate([revision[again], known.value[0]])
        # Of two numbers the new one, which stands first.
        _, first = np.unique(np.stack([key, window]), axis=1, return_index=True)
        chosen = first[window[first] >= (self._meta.next_window or NOT_EMITTED)]
        was_there, self._meta.revised = self._meta.revised, len(chosen) > 0
        if len(chosen):
            arrays = [pa.array(column[chosen]) for column in (window, key, number)]
            batch = pa.RecordBatch.from_arrays(arrays, names=["window", "key", "number"])
            self._store.put(self._name, to_blob(batch))
        elif was_there:
            self._store.remove(self._name)

    @property
    def _name(self) -> str:
        return f"{self._lane.number}/revisions"


def _rows(runs: Runs, keys: Int64s, end: int) -> Runs:
    """The live rows of some keys in windows before `end`, ordered by key and window."""
    chosen = np.isin(runs.key, keys) & (runs.start < end) & (runs.value[0] > 0)
    runs = runs.where(chosen)
    lengths = np.minimum(runs.end, end) - runs.start
    which = np.repeat(np.arange(len(lengths)), lengths)
    start = np.arange(len(which)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    start += runs.start[which]
    rows = runs.where(which)._replace(start=start, end=start + 1)
    return rows.where(order_of(rows.key, rows.start))


def _find(rows: Runs, key: Int64s, window: Int64s) -> Int64s:
    """The place of keys and windows among rows, -1 where they are not there."""
    if not len(rows.key) or not len(key):
        return np.full(len(key), -1, dtype=np.int64)
    low = int(min(rows.start.min(), window.min()))
    span = int(max(rows.start.max(), window.max())) - low + 1
    have, wanted = rows.key * span + (rows.start - low), key * span + (window - low)
    order = np.argsort(have)
    place = np.minimum(np.searchsorted(have[order], wanted), len(have) - 1)
    return np.where(have[order[place]] == wanted, order[place], -1)
