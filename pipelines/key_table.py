"""Small integer ids for the keys of a shard, used again when a key has left."""

from __future__ import annotations

from copy import copy

import numpy as np
import pyarrow as pa

from pipelines.blobs import Int64s, numbers
from pipelines.ring import Changes


class KeyTable:
    """Ids, running totals and pending changes per key.

    An id is held for as long as a pending change refers to it: a key that lives in a window has its
    deduction pending, so an id without one has no total either and is free.

    Args:
        neutral: int64[num_rows, 1], the totals of no records.
        num_lanes: Kinds of windows, each with as many rows.
        keys: Binary array; the key of each id.
        totals: int64[num_rows, len(keys)]: of each kind of windows, state columns and what the two
            stacks keep of a key.
        pending: int64[len(keys)], pending changes of each id; 0: the id is free.
    """

    def __init__(
        self, neutral: Int64s, num_lanes: int, keys: pa.Array, totals: Int64s, pending: Int64s
    ) -> None:
        self._neutral = neutral
        self.num_lanes = num_lanes
        self._keys: list[bytes | None] = keys.to_pylist()
        self.totals = totals.copy()
        self._pending = pending.copy()
        used = np.flatnonzero(pending).tolist()
        self._ids = {self._keys[i]: i for i in used}
        self._free = np.flatnonzero(pending == 0)[::-1].tolist()

    @classmethod
    def empty(cls, neutral: Int64s, num_lanes: int = 1) -> KeyTable:
        """A table without keys."""
        none = np.empty((len(neutral), 0), dtype=np.int64)
        return cls(
            neutral, num_lanes, pa.array([], type=pa.binary()), none, np.empty(0, dtype=np.int64)
        )

    def copy(self) -> KeyTable:
        """A table with the same ids whose totals are its own."""
        other = copy(self)
        other.totals = self.totals.copy()
        other._pending = self._pending.copy()
        return other

    def __len__(self) -> int:
        return len(self._keys)

    @property
    def live(self) -> int:
        """How many ids are in use."""
        return len(self._ids)

    def ids(self, keys: pa.Array) -> Int64s:
        """The ids of keys, new ones where a key has none."""
        values = keys.to_pylist()
        for key in values:
            if key not in self._ids:
                self._ids[key] = self._free.pop() if self._free else len(self._keys)
                if self._ids[key] == len(self._keys):
                    self._keys.append(key)
                else:
                    self._keys[self._ids[key]] = key
        grown = len(self._keys) - self.totals.shape[1]
        if grown:
            self.totals = np.concatenate(
                [self.totals, np.repeat(self._neutral, grown, axis=1)], axis=1
            )
            self._pending = np.concatenate([self._pending, np.zeros(grown, dtype=np.int64)])
        return np.array([self._ids[key] for key in values], dtype=np.int64)

    def hold(self, changes: Changes) -> None:
        """Count changes that wait."""
        self._pending += np.bincount(changes.key, minlength=len(self._keys))

    def release(self, changes: Changes) -> None:
        """Count changes that wait no longer."""
        self._pending -= np.bincount(changes.key, minlength=len(self._keys))

    def free_unused(self) -> None:
        """Give up ids no pending change refers to; what was read of them must be used by then."""
        for i in np.flatnonzero(self._pending == 0).tolist():
            key = self._keys[i]
            if self._ids.get(key, -1) == i:
                del self._ids[key]
                self._free.append(i)
                self._keys[i] = b""
        self._free.sort(reverse=True)
        self.totals[:, self._pending == 0] = self._neutral

    def keys(self) -> pa.Array:
        """The key of each id."""
        return pa.array(self._keys, type=pa.binary())

    def to_batch(self) -> pa.RecordBatch:
        """The table as Arrow columns: key, pending, and the totals by row."""
        columns = {"key": self.keys(), "pending": pa.array(self._pending)}
        columns |= {f"total{i}": pa.array(row) for i, row in enumerate(self.totals)}
        return pa.RecordBatch.from_pydict(columns)

    @classmethod
    def from_batch(cls, batch: pa.RecordBatch, neutral: Int64s, num_lanes: int) -> KeyTable:
        """The reverse of `to_batch`."""
        totals = np.stack([numbers(batch.column(f"total{i}")) for i in range(len(neutral))])
        return cls(
            neutral, num_lanes, batch.column("key"), totals, numbers(batch.column("pending"))
        )
