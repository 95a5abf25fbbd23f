"""How often each key came in this interval: exact for the first keys, a sketch for the rest.

An entry of the table is 32 bytes and carries the number of the interval, so beginning an interval
empties the table without touching it. It also carries the key's row in the Q-table, so a record
costs one look-up, hot or not. When ``exact_keys`` keys are in, the table takes no more of them and
later keys are counted by count-min; a key heavy enough to be hot is nearly always among the first.
"""

from __future__ import annotations

import numpy as np

from partitioners._borrow import borrowing_step
from partitioners.dalton.state import (
    ENTRY_FIELDS,
    ENTRY_GENERATION,
    ENTRY_KEY,
    ENTRY_LOAD,
    ENTRY_ROW,
    EXACT_KEYS,
    GENERATION,
    NUM_KEYS,
    SKETCH_DEPTH,
    SKETCH_USED,
    Tables,
)
from partitioners.sketches import count_min

# 2**64 / golden ratio: even consecutive key hashes land far apart (Fibonacci hashing).
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FOLD = np.uint64(32)
IN_SKETCH = -1


@borrowing_step
def slot_of(key_hash: np.uint64, num_slots: int) -> int:
    """Give the slot at which the search for a key begins; ``num_slots`` is a power of two."""
    mixed = np.uint64(key_hash) * _GOLDEN
    return int(np.int64((mixed ^ (mixed >> _FOLD)) & np.uint64(num_slots - 1)))


@borrowing_step
def find_entry(tables: Tables, key_hash: np.uint64) -> tuple[int, bool]:
    """Find a key's entry.

    Returns:
        Where the entry is, or is to be, and whether the key is there; ``IN_SKETCH`` when the table
        takes no more keys.
    """
    words = tables.entry_words
    generation = tables.words[GENERATION]
    num_slots = words.size // ENTRY_FIELDS
    slot = slot_of(key_hash, num_slots)
    while True:
        entry = slot * ENTRY_FIELDS
        if words[entry + ENTRY_GENERATION] != generation:
            full = tables.words[NUM_KEYS] >= tables.options[EXACT_KEYS]
            return (IN_SKETCH if full else entry), False
        if words[entry + ENTRY_KEY] == np.int64(key_hash):
            return entry, True
        slot = (slot + 1) & (num_slots - 1)


@borrowing_step
def load_so_far(tables: Tables, entry: int, found: bool, key_hash: np.uint64) -> float:
    """Give the load of a key in this interval, before the record at hand."""
    if entry == IN_SKETCH:
        return count_min.estimate(tables.sketch, SKETCH_DEPTH, key_hash)
    return tables.entries[entry + ENTRY_LOAD] if found else 0.0


@borrowing_step
def write_entry(
    tables: Tables, entry: int, found: bool, key_hash: np.uint64, row: int, load: float
) -> None:
    """Keep the new load of a key, and its row (-1: none)."""
    if entry == IN_SKETCH:
        tables.words[SKETCH_USED] = 1
        count_min.raise_to(tables.sketch, SKETCH_DEPTH, key_hash, load)
        return
    tables.entries[entry + ENTRY_LOAD] = load
    tables.entry_words[entry + ENTRY_ROW] = row
    if not found:
        tables.entry_words[entry + ENTRY_KEY] = np.int64(key_hash)
        tables.entry_words[entry + ENTRY_GENERATION] = tables.words[GENERATION]
        tables.entry_order[tables.words[NUM_KEYS]] = entry // ENTRY_FIELDS
        tables.words[NUM_KEYS] += 1


@borrowing_step
def forget_counts(tables: Tables) -> None:
    """Begin to count anew."""
    tables.words[GENERATION] += 1
    tables.words[NUM_KEYS] = 0
    if tables.words[SKETCH_USED]:
        tables.sketch[:] = 0.0
        tables.words[SKETCH_USED] = 0
