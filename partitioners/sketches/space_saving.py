"""SpaceSaving: the heaviest keys of a stream in a fixed number of entries.

c entries hold key, count and error. A key without an entry takes over the one of least count, whose
count it keeps as its error. So for every entry: count - error <= true load <= count, the least
count is at most total / c, and a key whose load is more than total / c has an entry.

Paper: Metwally, Agrawal, El Abbadi, "Efficient Computation of Frequent and Top-k Elements in Data
Streams", ICDT 2005, section 3.1 (algorithm Space-Saving).

Entries are kept in order of falling count. An entry that grows hops over each group of equal counts
by changing places with the first of the group, which for a load of 1 is one hop found by bisection:
O(log c) per record. Which of several least entries is taken over, the paper leaves open: here the
last in that order, or with ``oldest_first`` the one that has had its count longest, as in
stream-lib's StreamSummary; for that, every entry that has the least count is looked at.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from partitioners._jit import as_int64, inlined, kernel

FREE = -1
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


class Summary(NamedTuple):
    """The arrays of one sketch of c entries, as kernels take them."""

    key_hashes: npt.NDArray[np.uint64]  # uint64[c]
    counts: npt.NDArray[np.float64]  # float64[c]
    errors: npt.NDArray[np.float64]  # float64[c]
    since: npt.NDArray[np.float64]  # float64[c]: load of all records when it came to its count
    order: npt.NDArray[np.int32]  # int32[c]: entries by falling count
    place: npt.NDArray[np.int32]  # int32[c]: where in order each entry is
    slots: npt.NDArray[np.int32]  # int32[m]: entry at each hash slot, or FREE; m >= 4 c
    num_entries: npt.NDArray[np.int64]  # int64[1]
    total: npt.NDArray[np.float64]  # float64[1]: load of all records


@dataclass
class SpaceSaving:
    """State of one sketch; see ``Summary`` for the shapes.

    Example:
        >>> sketch = new_space_saving(2)
        >>> for key in (7, 7, 8, 9):
        ...     sketch.add(key)
        >>> sketch.entries()  # 9 took over the entry of 8
        [(7, 2.0, 0.0), (9, 2.0, 1.0)]
    """

    key_hashes: npt.NDArray[np.uint64]
    counts: npt.NDArray[np.float64]
    errors: npt.NDArray[np.float64]
    since: npt.NDArray[np.float64]
    order: npt.NDArray[np.int32]
    place: npt.NDArray[np.int32]
    index: npt.NDArray[np.int32]
    num_entries: npt.NDArray[np.int64]
    total: npt.NDArray[np.float64]

    def summary(self) -> Summary:
        """Give the arrays themselves, for kernels."""
        return Summary(
            self.key_hashes,
            self.counts,
            self.errors,
            self.since,
            self.order,
            self.place,
            self.index,
            self.num_entries,
            self.total,
        )

    def add(self, key_hash: int, weight: float = 1.0, *, oldest_first: bool = False) -> None:
        """Count one record.

        Args:
            key_hash: 0 to 2**64 - 1.
            weight: Its load, 0 or more.
            oldest_first: See ``offer``.
        """
        _add(self.summary(), np.uint64(key_hash), float(weight), oldest_first)

    def entries(self) -> list[tuple[int, float, float]]:
        """List (key hash, count, error) by falling count."""
        used = self.order[: self.num_entries[0]]
        return [
            (int(self.key_hashes[entry]), float(self.counts[entry]), float(self.errors[entry]))
            for entry in used
        ]


def new_space_saving(capacity: int) -> SpaceSaving:
    """Make an empty sketch.

    Args:
        capacity: Number of entries.

    Returns:
        The sketch: 40 bytes an entry, and 16 to 32 more for the index.
    """
    slots = 1 << (4 * capacity - 1).bit_length()
    return SpaceSaving(
        key_hashes=np.zeros(capacity, np.uint64),
        counts=np.zeros(capacity),
        errors=np.zeros(capacity),
        since=np.zeros(capacity),
        order=np.arange(capacity, dtype=np.int32),
        place=np.arange(capacity, dtype=np.int32),
        index=np.full(slots, FREE, np.int32),
        num_entries=np.zeros(1, np.int64),
        total=np.zeros(1),
    )


@inlined
def _home(key_hash: np.uint64, num_slots: int) -> int:
    return as_int64((key_hash * _GOLDEN) >> np.uint64(32)) & (num_slots - 1)


@inlined
def _slot_of(summary: Summary, key_hash: np.uint64) -> int:
    """Find the slot of a key, or the free one where it belongs."""
    index = summary.slots
    last = index.size - 1
    slot = _home(key_hash, index.size)
    while index[slot] != FREE and summary.key_hashes[index[slot]] != key_hash:
        slot = (slot + 1) & last
    return slot


@inlined
def _forget(summary: Summary, key_hash: np.uint64) -> None:
    """Take a key out of the index, and close the gap so that probing needs no tombstones."""
    index = summary.slots
    last = index.size - 1
    gap = _slot_of(summary, key_hash)
    slot = (gap + 1) & last
    while index[slot] != FREE:
        home = _home(summary.key_hashes[index[slot]], index.size)
        # Movable unless its home lies cyclically in (gap, slot].
        if ((slot - home) & last) >= ((slot - gap) & last):
            index[gap] = index[slot]
            gap = slot
        slot = (slot + 1) & last
    index[gap] = FREE


@inlined
def _rise(summary: Summary, entry: int) -> None:
    """Put an entry that grew back into order."""
    counts, order, place = summary.counts, summary.order, summary.place
    position = as_int64(place[entry])
    while position > 0 and counts[order[position - 1]] < counts[entry]:
        passed = counts[order[position - 1]]
        low, high = 0, position - 1
        while low < high:
            middle = (low + high) >> 1
            if counts[order[middle]] <= passed:
                high = middle
            else:
                low = middle + 1
        other = order[low]
        order[low], order[position] = entry, other
        place[entry], place[other] = low, position
        position = low


@inlined
def oldest_of_equals(summary: Summary, position: int, step: int) -> int:
    """Find the position of the entry that has had its count longest.

    Args:
        summary: The sketch.
        position: Where in ``order`` entries of that count begin.
        step: 1 or -1: on which side of it the others are.
    """
    count = summary.counts[summary.order[position]]
    oldest = position
    other = position + step
    while 0 <= other < summary.num_entries[0] and summary.counts[summary.order[other]] == count:
        if summary.since[summary.order[other]] < summary.since[summary.order[oldest]]:
            oldest = other
        other += step
    return oldest


@inlined
def _entry_to_take_over(summary: Summary, oldest_first: bool) -> int:
    """Choose among the entries of least count, and put the chosen one last."""
    last = summary.counts.size - 1
    if oldest_first:
        position = oldest_of_equals(summary, last, -1)
        chosen, other = summary.order[position], summary.order[last]
        summary.order[position], summary.order[last] = other, chosen
        summary.place[other], summary.place[chosen] = position, last
    return as_int64(summary.order[last])


@inlined
def offer(summary: Summary, key_hash: np.uint64, weight: float, oldest_first: bool) -> int:
    """Count one record.

    Args:
        summary: The sketch.
        key_hash: The record's key hash.
        weight: Its load.
        oldest_first: Of several entries with the least count take over the oldest, not the last.

    Returns:
        The key's entry e; ~e where the entry is the key's only since now.
    """
    summary.total[0] += weight
    slot = _slot_of(summary, key_hash)
    entry = as_int64(summary.slots[slot])
    if entry != FREE:
        summary.counts[entry] += weight
        summary.since[entry] = summary.total[0]
        _rise(summary, entry)
        return entry
    if summary.num_entries[0] < summary.counts.size:
        entry = summary.num_entries[0]
        summary.num_entries[0] += 1
        summary.counts[entry] = weight
        summary.errors[entry] = 0.0
        summary.order[entry] = entry
        summary.place[entry] = entry
    else:
        entry = _entry_to_take_over(summary, oldest_first)
        _forget(summary, summary.key_hashes[entry])
        slot = _slot_of(summary, key_hash)
        summary.errors[entry] = summary.counts[entry]
        summary.counts[entry] += weight
    summary.key_hashes[entry] = key_hash
    summary.since[entry] = summary.total[0]
    summary.slots[slot] = entry
    _rise(summary, entry)
    return ~entry


@inlined
def clear(summary: Summary) -> None:
    """Forget everything."""
    summary.slots[:] = FREE
    summary.num_entries[0] = 0
    summary.total[0] = 0.0


@kernel
def _add(summary: Summary, key_hash: np.uint64, weight: float, oldest_first: bool) -> None:
    offer(summary, key_hash, weight, oldest_first)
