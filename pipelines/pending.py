"""Changes that wait for their window to close, kept in a state store a segment at a time.

A segment holds the changes of a stretch of windows that came in one batch: of a bucket, about a
64th of the window size, or of several that follow each other, until there are rows enough to be
worth a call. A batch therefore writes as many segments as its rows ask for, 65 at most, and reads
those that begin in the buckets it closes, whatever the number of keys; what of these stays open is
put back together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa

from pipelines.blobs import from_blob, numbers, to_blob
from pipelines.ring import Changes, concat_changes

BUCKETS_PER_WINDOW = 64
# A call of Spark's state store takes a millisecond or two, in which so many rows are rewritten.
ROWS_PER_SEGMENT = 8_192


class Store(Protocol):
    """A small key-value store; each call is a round trip to the JVM."""

    def get(self, name: str) -> bytes | None:
        """The value, or None."""

    def put(self, name: str, value: bytes) -> None:
        """Set a value."""

    def remove(self, name: str) -> None:
        """Drop a value."""


class PendingChanges:
    """The index of the segments, and the segments in the store.

    Args:
        store: Where the segments are.
        names: Of the rows of the changes' `delta`.
        windows_per_bucket: Windows in a bucket.
        index: Pairs (first bucket, serial number) of the segments there are.
        prefix: Of the segments' names in the store.
        with_peers: Whether `peer` is of use to whoever takes the changes.
    """

    def __init__(
        self,
        store: Store,
        names: Sequence[str],
        windows_per_bucket: int,
        index: list[tuple[int, int]],
        *,
        prefix: str = "segment",
        with_peers: bool = False,
    ) -> None:
        self._store = store
        self._names = names
        self._windows_per_bucket = windows_per_bucket
        self._prefix = prefix
        self._with_peers = with_peers
        self.index = [(int(bucket), int(serial)) for bucket, serial in index]

    def add(self, changes: Changes, serial: int) -> None:
        """Write changes, in segments of whole buckets.

        Args:
            changes: What to keep.
            serial: A number no earlier call for these buckets had.
        """
        buckets = changes.window // self._windows_per_bucket
        order = np.argsort(buckets, kind="stable")
        present, at = np.unique(buckets[order], return_index=True)
        # Ordered once, a bucket is a stretch of rows, which is not copied again.
        ordered = changes.where(order)
        ends = [*at[1:].tolist(), len(order)]
        low = 0
        first: int | None = None
        for bucket, high in zip(present.tolist(), ends, strict=True):
            first = int(bucket) if first is None else first
            if high - low >= ROWS_PER_SEGMENT or high == len(order):
                self._write(first, serial, ordered.where(slice(low, high)))
                low, first = high, None

    def take_due(self, end: int, serial: int) -> Changes:
        """Take out the changes at windows before `end`."""
        due: list[Changes] = []
        rest: list[Changes] = []
        last_bucket = (end - 1) // self._windows_per_bucket
        for bucket, number in [entry for entry in self.index if entry[0] <= last_bucket]:
            changes = self._read(bucket, number)
            self._store.remove(self._name(bucket, number))
            self.index.remove((bucket, number))
            before = changes.window < end
            due.append(changes.where(before))
            rest.append(changes.where(~before))
        left = concat_changes(rest, len(self._names))
        if len(left.window):
            self.add(left, serial)
        return concat_changes(due, len(self._names))

    def take_all(self) -> Changes:
        """Take out all changes there are."""
        taken = [self._read(*entry) for entry in self.index]
        for entry in self.index:
            self._store.remove(self._name(*entry))
        self.index.clear()
        return concat_changes(taken, len(self._names))

    def _write(self, bucket: int, serial: int, changes: Changes) -> None:
        columns = {
            "window": pa.array(changes.window),
            "key": pa.array(changes.key.astype(np.int32)),
        }
        if self._with_peers:
            columns["peer"] = pa.array(changes.peer)
        for name, row in zip(self._names, changes.delta, strict=True):
            columns[f"delta.{name}"] = pa.array(row)
        self._store.put(self._name(bucket, serial), to_blob(pa.RecordBatch.from_pydict(columns)))
        self.index.append((bucket, serial))

    def _read(self, bucket: int, serial: int) -> Changes:
        blob = self._store.get(self._name(bucket, serial))
        if blob is None:
            raise KeyError(f"segment {bucket}/{serial} is in the index and not in the state store")
        batch = from_blob(blob)
        window = numbers(batch.column("window"))
        delta = np.empty((len(self._names), len(window)), dtype=np.int64)
        for row, name in enumerate(self._names):
            delta[row] = numbers(batch.column(f"delta.{name}"))
        return Changes(
            window,
            numbers(batch.column("key")).astype(np.int64),
            delta,
            numbers(batch.column("peer")) if self._with_peers else np.zeros_like(window),
        )

    def _name(self, bucket: int, serial: int) -> str:
        return f"{self._prefix}/{bucket}/{serial}"
