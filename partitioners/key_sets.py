"""A set of (key, partition) pairs seen in the live window, as one open-addressing table.

Where the textbook keeps one set of keys per partition, we keep one table for all of them. An entry
is two words, so a look-up touches one cache line:

    table[2 * slot]      key hash
    table[2 * slot + 1]  pane the pair was last seen in << 24 | partition

An entry is *live* while its pane is; it is *empty* when its pane lies before `FIRST_PANE`, so a
reset of the whole window costs nothing; between the two it has *expired*: a probe walks over it
and an insertion may take its place. Every entry expires pane by pane without being visited.

Cost: expected O(1) per look-up, at most half of the slots are in use. Memory: 16 bytes per slot,
2 to 8 slots per live pair after a resize; `capacity_for` says how many, `resized` moves the live
entries over. The loops call for it (`must_resize`) and never allocate themselves.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from partitioners._borrow import borrowing, borrowing_step
from partitioners.panes import FIRST_PANE, OLDEST_PANE

MAX_PARTITIONS = 1 << 24
MIN_CAPACITY = 1024

_PANE_SHIFT = np.uint64(24)
_PARTITION_MASK = np.uint64(MAX_PARTITIONS - 1)
# 2**64 / golden ratio: consecutive and low-entropy hashes land far apart (Fibonacci hashing).
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_PAIR_MIX = np.uint64(0xD6E8FEB86659FD93)
_FOLD = np.uint64(32)


def new_table(capacity: int = MIN_CAPACITY) -> npt.NDArray[np.uint64]:
    """Return an empty table with `capacity` slots, a power of two: uint64[2 * capacity]."""
    return np.zeros(2 * capacity, np.uint64)


def capacity_for(num_entries: int) -> int:
    """Return the slots to give to so many live entries: at most a quarter full.

    Example:
        >>> capacity_for(0), capacity_for(10_000)
        (1024, 65536)
    """
    return max(MIN_CAPACITY, 1 << max(0, 4 * num_entries - 1).bit_length())


@borrowing_step
def find_slot(
    table: npt.NDArray[np.uint64],
    clock: npt.NDArray[np.int64],
    key_hash: np.uint64,
    partition: int,
    any_partition: bool,
) -> int:
    """Return the slot of a pair, or the one where it is to be put.

    Args:
        table: The entries.
        clock: The clock of the panes.
        key_hash: The key's hash.
        partition: The partition of the pair; where keys are whole pass 0.
        any_partition: True when a key has one entry, on whatever partition.
    """
    mask = np.uint64(table.size // 2 - 1)
    mixed = (key_hash + np.uint64(partition) * _PAIR_MIX) * _GOLDEN
    slot = (mixed ^ (mixed >> _FOLD)) & mask
    expired = -1
    while True:
        entry = table[2 * slot + 1]
        pane = np.int64(entry >> _PANE_SHIFT)
        if pane < clock[FIRST_PANE]:
            return int(np.int64(slot)) if expired < 0 else expired
        if table[2 * slot] == key_hash and (
            any_partition or entry & _PARTITION_MASK == np.uint64(partition)
        ):
            return int(np.int64(slot))
        if expired < 0 and pane < clock[OLDEST_PANE]:
            expired = int(np.int64(slot))
        slot = (slot + np.uint64(1)) & mask


@borrowing_step
def pane_at(table: npt.NDArray[np.uint64], slot: int) -> int:
    """Return the pane in which the entry in a slot was last seen."""
    return int(np.int64(table[2 * slot + 1] >> _PANE_SHIFT))


@borrowing_step
def partition_at(table: npt.NDArray[np.uint64], slot: int) -> int:
    """Return the partition of the entry in a slot."""
    return int(np.int64(table[2 * slot + 1] & _PARTITION_MASK))


@borrowing_step
def put(
    table: npt.NDArray[np.uint64], slot: int, key_hash: np.uint64, partition: int, pane: int
) -> None:
    """Write a pair, seen in `pane`, into the slot that `find_slot` gave."""
    table[2 * slot] = key_hash
    table[2 * slot + 1] = (np.uint64(pane) << _PANE_SHIFT) | np.uint64(partition)


@borrowing
def _move(
    old: npt.NDArray[np.uint64],
    new: npt.NDArray[np.uint64],
    clock: npt.NDArray[np.int64],
    any_partition: bool,
) -> int:
    moved = 0
    for slot in range(old.size // 2):
        pane = pane_at(old, slot)
        if pane >= clock[OLDEST_PANE]:
            key_hash = old[2 * slot]
            partition = partition_at(old, slot)
            # Keys with one entry are placed by the key alone.
            home = 0 if any_partition else partition
            put(
                new, find_slot(new, clock, key_hash, home, any_partition), key_hash, partition, pane
            )
            moved += 1
    return moved


def resized(
    table: npt.NDArray[np.uint64],
    clock: npt.NDArray[np.int64],
    num_entries: int,
    any_partition: bool,
) -> tuple[npt.NDArray[np.uint64], int]:
    """Return a table for `num_entries` that holds the live entries, and how many these are."""
    new = new_table(capacity_for(num_entries))
    return new, int(_move(table, new, clock, any_partition))
