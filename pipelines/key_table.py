"""Small integer ids for the keys of a shard, used again when a key has left."""

from __future__ import annotations

from copy import copy

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.blobs import Int64s, numbers
from pipelines.ring import Changes


class KeyTable:
    """Ids, running totals and pending changes per key.

    An id is held for as long as a pending change refers to it: a key that lives in a window has its
    deduction pending, so an id without one has no total either and is free. Keys stay in Arrow: a
    shard may have millions.

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
        # Where in `_known` the key of each id stands; that of a free id says nothing.
        self._known = keys
        self._place: Int64s = np.arange(len(keys))
        self.totals = totals.copy()
        self._pending = pending.copy()
        self._used: npt.NDArray[np.bool_] = pending > 0

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
        other._used = self._used.copy()
        return other

    def __len__(self) -> int:
        return len(self._place)

    @property
    def live(self) -> int:
        """How many ids are in use."""
        return int(self._used.sum())

    def ids(self, keys: pa.Array) -> Int64s:
        """The ids of keys, new ones where a key has none.

        Each call looks up all keys there are, so call it once for many.
        """
        coded = pc.dictionary_encode(keys, null_encoding="encode")
        used = np.flatnonzero(self._used)
        known = self._known.take(pa.array(self._place[used]))
        found = pc.index_in(coded.dictionary, value_set=known)
        fresh = found.is_null().to_numpy(zero_copy_only=False)
        ids = np.empty(len(fresh), dtype=np.int64)
        ids[~fresh] = used[found.drop_null().to_numpy()]
        ids[fresh] = self._add(coded.dictionary.filter(pa.array(fresh)))
        return np.asarray(ids[coded.indices.to_numpy()])

    def _add(self, keys: pa.Array) -> Int64s:
        """Give ids to keys that have none: free ones first."""
        free = np.flatnonzero(~self._used)[: len(keys)]
        grown = len(keys) - len(free)
        ids = np.concatenate([free, np.arange(grown) + len(self)])
        if grown:
            none = np.zeros(grown, dtype=np.int64)
            self.totals = np.concatenate(
                [self.totals, np.repeat(self._neutral, grown, axis=1)], axis=1
            )
            self._pending = np.concatenate([self._pending, none])
            self._place = np.concatenate([self._place, none])
            self._used = np.concatenate([self._used, none > 0])
        # A copy of the table may have the old array.
        self._place = self._place.copy()
        self._place[ids] = np.arange(len(keys)) + len(self._known)
        self._known = pa.concat_arrays([self._known, keys])
        self._used[ids] = True
        return ids

    def hold(self, changes: Changes) -> None:
        """Count changes that wait."""
        self._pending += np.bincount(changes.key, minlength=len(self))

    def release(self, changes: Changes) -> None:
        """Count changes that wait no longer."""
        self._pending -= np.bincount(changes.key, minlength=len(self))

    def free_unused(self) -> None:
        """Give up ids no pending change refers to; what was read of them must be used by then."""
        self._used = self._pending > 0
        self.totals[:, ~self._used] = self._neutral

    def keys(self) -> pa.Array:
        """The key of each id."""
        return self._known.take(pa.array(self._place))

    def to_batch(self) -> pa.RecordBatch:
        """The table as Arrow columns: key, pending, and the totals by row."""
        keys = self.keys()
        if not self._used.all():
            keys = pc.if_else(pa.array(self._used), keys, pa.scalar(b"", type=pa.binary()))
        columns = {"key": keys, "pending": pa.array(self._pending)}
        columns |= {f"total{i}": pa.array(row) for i, row in enumerate(self.totals)}
        return pa.RecordBatch.from_pydict(columns)

    @classmethod
    def from_batch(cls, batch: pa.RecordBatch, neutral: Int64s, num_lanes: int) -> KeyTable:
        """The reverse of `to_batch`."""
        totals = np.stack([numbers(batch.column(f"total{i}")) for i in range(len(neutral))])
        pending = numbers(batch.column("pending"))
        return cls(neutral, num_lanes, batch.column("key"), totals, pending)
