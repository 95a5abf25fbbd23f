"""A table from key hash to partition, for algorithms where a key sticks to its first partition.

Open addressing with linear probing over two arrays, at most half full; a kernel that fills it past
that says so, and ``enlarge`` doubles it between two records; ``reduce`` gives back what keys of the
window before needed. 12 bytes a slot, so 24 to 48 bytes a key.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from partitioners._jit import as_int64, inlined, kernel

FREE = -1
FIRST_CAPACITY = 1024
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


@dataclass
class KeyTable:
    """Partition of each key seen; c slots, a power of two."""

    key_hashes: npt.NDArray[np.uint64]  # uint64[c]
    partitions: npt.NDArray[np.int32]  # int32[c]: FREE or a partition
    num_keys: npt.NDArray[np.int64]  # int64[1]


def new_key_table(capacity: int = FIRST_CAPACITY) -> KeyTable:
    """Make an empty table.

    Args:
        capacity: Slots, a power of two.

    Returns:
        The table.
    """
    return KeyTable(
        key_hashes=np.zeros(capacity, np.uint64),
        partitions=np.full(capacity, FREE, np.int32),
        num_keys=np.zeros(1, np.int64),
    )


@inlined
def find_slot(
    key_hashes: npt.NDArray[np.uint64], partitions: npt.NDArray[np.int32], key_hash: np.uint64
) -> int:
    """Find the slot of a key, or the free one where it belongs."""
    last = key_hashes.size - 1
    # The upper half of a product, for a caller's key hashes may be small numbers in a row.
    slot = as_int64((key_hash * _GOLDEN) >> np.uint64(32)) & last
    while partitions[slot] != FREE and key_hashes[slot] != key_hash:
        slot = (slot + 1) & last
    return slot


@inlined
def is_full(num_keys: npt.NDArray[np.int64], partitions: npt.NDArray[np.int32]) -> bool:
    """Say whether the table must grow before the next record."""
    return bool(2 * num_keys[0] >= partitions.size)


@inlined
def is_sparse(num_keys: int, num_slots: int) -> bool:
    """Say whether so many keys are at most an eighth of the slots of a table that has grown."""
    return num_slots > FIRST_CAPACITY and 8 * num_keys <= num_slots


@kernel
def _refill(
    old_hashes: npt.NDArray[np.uint64],
    old_partitions: npt.NDArray[np.int32],
    key_hashes: npt.NDArray[np.uint64],
    partitions: npt.NDArray[np.int32],
) -> None:
    for old in range(old_hashes.size):
        if old_partitions[old] != FREE:
            slot = find_slot(key_hashes, partitions, old_hashes[old])
            key_hashes[slot] = old_hashes[old]
            partitions[slot] = old_partitions[old]


def enlarge(table: KeyTable) -> None:
    """Double the slots; the arrays are new ones afterwards.

    Args:
        table: Changed in place.
    """
    _move(table, 2 * table.partitions.size)


def has_spare_room(table: KeyTable) -> bool:
    """Say whether at most an eighth of the slots are taken; never while keys only come."""
    return is_sparse(int(table.num_keys[0]), table.partitions.size)


def reduce(table: KeyTable) -> None:
    """Give back slots, down to four per key; the arrays are new ones afterwards.

    Args:
        table: Changed in place.
    """
    needed = 1 << (4 * int(table.num_keys[0])).bit_length()
    _move(table, max(FIRST_CAPACITY, needed))


def _move(table: KeyTable, capacity: int) -> None:
    other = new_key_table(capacity)
    _refill(table.key_hashes, table.partitions, other.key_hashes, other.partitions)
    table.key_hashes, table.partitions = other.key_hashes, other.partitions
