"""Between an agent's arrays and the messages: what to send, and how a global table is taken in."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from partitioners._borrow import borrowing
from partitioners._jit import kernel
from partitioners.dalton.frequency import IN_SKETCH, find_entry, load_so_far
from partitioners.dalton.qtable import (
    NO_ROW,
    activate,
    deactivate,
    find_row,
    leaf_of,
    mark_pair,
    play_all,
    take_row,
)
from partitioners.dalton.state import (
    ENTRY_FIELDS,
    ENTRY_KEY,
    ENTRY_LOAD,
    ENTRY_ROW,
    LEAVES,
    NUM_KEYS,
    NUM_PARTITIONS,
    ROW_ACTIVE,
    ROW_EXPIRY_MS,
    ROW_FIELDS,
    ROW_HOME,
    ROW_KEY,
    SEED_WORD,
    THRESHOLD,
    DaltonState,
    Tables,
    open_tables,
)
from partitioners.dalton.step import home_of


def counted_keys(
    state: DaltonState,
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.float64]]:
    """List the keys of the count table with their loads in this interval."""
    slots = state.entry_order[: int(state.words[NUM_KEYS])]
    entries = state.entries.reshape(-1, ENTRY_FIELDS)[slots]
    return entries[:, ENTRY_KEY].copy().view(np.uint64), entries[:, ENTRY_LOAD]


def heaviest(
    keys: npt.NDArray[np.uint64], loads: npt.NDArray[np.float64], count: int
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.float64]]:
    """Pick the keys of most load; of equals the smaller key, so that the pick repeats."""
    if len(loads) > count:
        least = np.partition(loads, len(loads) - count)[len(loads) - count]
        keys, loads = keys[loads >= least], loads[loads >= least]
    order = np.lexsort((keys, -loads))[:count]
    return keys[order], loads[order]


def table_rows(
    state: DaltonState, num_partitions: int
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.float64]]:
    """List the keys of the Q-table, and their values: ``uint64[r]``, ``float64[r * n]``."""
    rows = state.rows.reshape(-1, ROW_FIELDS)
    active = np.flatnonzero(rows[:, ROW_ACTIVE])
    homes = rows[active, ROW_HOME]
    leaves = state.values.size // (2 * len(rows))
    by_leaf = state.values.reshape(len(rows), 2 * leaves)[active, leaves : leaves + num_partitions]
    # Leaf 0 is home, the others follow in order: see ``qtable``.
    partitions = np.arange(num_partitions)
    leaf = np.where(partitions < homes[:, None], partitions + 1, partitions)
    leaf[partitions == homes[:, None]] = 0
    values = np.take_along_axis(by_leaf, leaf, axis=1)
    return rows[active, ROW_KEY].view(np.uint64), values.reshape(-1)


@kernel
def interval_loads(
    keys: npt.NDArray[np.uint64], packed: npt.NDArray[np.int64], out: npt.NDArray[np.float64]
) -> None:
    """Look up the load of keys in this interval."""
    tables = open_tables(packed)
    for index in range(keys.size):
        entry, found = find_entry(tables, keys[index])
        out[index] = load_so_far(tables, entry, found, keys[index])


def forget_kept(state: DaltonState) -> None:
    """Keep rewards anew: those of before are in the message that goes out."""
    state.kept_share[:] = 1.0
    state.kept_gain[:] = 0.0


@borrowing
def _take_in_key(
    tables: Tables, key_hash: np.uint64, values: npt.NDArray[np.float64], expiry_ms: int
) -> bool:
    num_partitions = tables.options[NUM_PARTITIONS]
    leaves = tables.options[LEAVES]
    row = find_row(tables, key_hash)
    entry, found = find_entry(tables, key_hash)
    if row == NO_ROW:
        home = home_of(key_hash, np.uint64(tables.options[SEED_WORD]), num_partitions)
        row = take_row(tables, key_hash, home)
        if row == NO_ROW:
            return False
        if found:
            mark_pair(tables, row, home)
    if found and entry != IN_SKETCH:
        tables.entry_words[entry + ENTRY_ROW] = row
    if not tables.rows[row * ROW_FIELDS + ROW_ACTIVE]:
        activate(tables, row)
    tables.rows[row * ROW_FIELDS + ROW_EXPIRY_MS] = expiry_ms
    home = int(tables.rows[row * ROW_FIELDS + ROW_HOME])
    for partition in range(num_partitions):
        kept = row * leaves + partition
        leaf = row * 2 * leaves + leaves + leaf_of(partition, home)
        tables.values[leaf] = values[partition] * tables.kept_share[kept] + tables.kept_gain[kept]
    play_all(tables, row)
    return True


@borrowing
def _drop_others(tables: Tables, sorted_keys: npt.NDArray[np.uint64]) -> None:
    """Take out of the Q-table what is hot neither for all agents nor here by the new load."""
    for row in range(tables.rows.size // ROW_FIELDS):
        if not tables.rows[row * ROW_FIELDS + ROW_ACTIVE]:
            continue
        key_hash = np.uint64(tables.rows[row * ROW_FIELDS + ROW_KEY])
        place = np.searchsorted(sorted_keys, key_hash)
        if place < sorted_keys.size and sorted_keys[place] == key_hash:
            continue
        entry, found = find_entry(tables, key_hash)
        if load_so_far(tables, entry, found, key_hash) < tables.amounts[THRESHOLD]:
            deactivate(tables, row)
            tables.rows[row * ROW_FIELDS + ROW_EXPIRY_MS] = 0


@borrowing
def _take_in(
    tables: Tables,
    sorted_keys: npt.NDArray[np.uint64],
    values: npt.NDArray[np.float64],
    expiry_ms: int,
) -> bool:
    num_partitions = tables.options[NUM_PARTITIONS]
    _drop_others(tables, sorted_keys)
    for index in range(sorted_keys.size):
        row_values = values[index * num_partitions : (index + 1) * num_partitions]
        if not _take_in_key(tables, sorted_keys[index], row_values, expiry_ms):
            return False
    return True


@kernel
def take_in(
    sorted_keys: npt.NDArray[np.uint64],
    values: npt.NDArray[np.float64],
    expiry_ms: int,
    packed: npt.NDArray[np.int64],
) -> bool:
    """Make a global table one's own, with the rewards kept since the last SYNC on top.

    Args:
        sorted_keys: ``uint64[k]``, keys of the table in order.
        values: ``float64[k * n]``.
        expiry_ms: When its rows expire unless renewed.
        packed: ``state.pack``.

    Returns:
        False: there was no room for all rows; make more and call again.
    """
    return _take_in(open_tables(packed), sorted_keys, values, expiry_ms)
