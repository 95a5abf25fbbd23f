"""What an agent does with one record (Algorithm 1), and the loops over records."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from partitioners._borrow import borrowing, borrowing_step
from partitioners._jit import ScalarKernel, given_or_now, handles_at, kernel
from partitioners.base import (
    KeyHashes,
    Loads,
    Partitions,
    TimestampsMs,
)
from partitioners.dalton.draws import below, uniform
from partitioners.dalton.frequency import (
    find_entry,
    forget_counts,
    load_so_far,
    write_entry,
)
from partitioners.dalton.qtable import (
    NO_ROW,
    activate,
    best_holder,
    best_partition,
    deactivate,
    expire_pairs,
    expire_rows,
    find_row,
    holds,
    index_rows,
    learn,
    mark_pair,
    nth_holder,
    set_full,
    take_row,
)
from partitioners.dalton.state import (
    BALANCE_WEIGHT,
    DONE,
    DRAWS,
    ENTRY_ROW,
    GREEDY,
    INTERVAL_END_MS,
    INTERVAL_LOAD,
    INTERVAL_MS,
    INTERVAL_OVER,
    LEAVES,
    MAX_SPLIT,
    NO_ROOM,
    NO_TIME_YET,
    NOW_MS,
    NUM_ACTIVE,
    NUM_FULL,
    NUM_HOT,
    NUM_PARTITIONS,
    PUBLISHED,
    ROW_ACTIVE,
    ROW_EXPIRY_MS,
    ROW_FIELDS,
    ROW_FULL,
    ROW_KEY,
    ROW_SPLIT,
    SEED_WORD,
    SPLIT_LIMIT,
    STEP_SIZE,
    STOPPED,
    STOPS,
    THRESHOLD,
    WINDOW_LOAD,
    Tables,
    open_tables,
)
from partitioners.hashing import candidate_word, upper_range
from partitioners.panes import NEXT_PANE_MS, NOW_ROW, advance_clock, open_panes

_LAST_MS = np.iinfo(np.int64).max
LEAST_HOT_LOAD = 2.0  # a key seen once cannot be split
_FULL_SHARE = 0.7  # of the hot keys at the split limit, from which the limit rises
STOP = -1


@borrowing_step
def home_of(key_hash: np.uint64, seed: np.uint64, num_partitions: int) -> int:
    """Give the partition a key goes to while it is not hot."""
    return upper_range(candidate_word(np.uint64(key_hash), seed, 0), num_partitions)


@borrowing_step
def _later(time_ms: int, span_ms: int) -> int:
    return _LAST_MS if time_ms > _LAST_MS - span_ms else time_ms + span_ms


@borrowing
def begin_interval(tables: Tables) -> None:
    """Turn the load of the interval that ends into the threshold of the next; count anew."""
    words = tables.words
    load = tables.amounts[INTERVAL_LOAD]
    num_partitions = tables.options[NUM_PARTITIONS]
    if tables.options[PUBLISHED]:
        # "count > total div n", in whole records.
        tables.amounts[THRESHOLD] = np.floor(load / num_partitions) + 1.0
        if words[INTERVAL_END_MS] == NO_TIME_YET:
            tables.amounts[THRESHOLD] = np.inf
    elif load > 0.0:
        tables.amounts[THRESHOLD] = max(load / num_partitions, LEAST_HOT_LOAD)
    tables.amounts[INTERVAL_LOAD] = 0.0
    words[NUM_HOT] = 0
    interval_ms = words[INTERVAL_MS]
    words[INTERVAL_END_MS] = _later(words[NOW_MS], interval_ms - words[NOW_MS] % interval_ms)
    forget_counts(tables)
    if not tables.options[PUBLISHED]:
        expire_rows(tables)


@borrowing
def _enter_pane(tables: Tables) -> None:
    clock = tables.clock
    num_partitions = tables.options[NUM_PARTITIONS]
    opened = advance_clock(clock, tables.words[NOW_MS])
    open_panes(clock, opened, tables.ring, tables.loads)
    total = 0.0
    for partition in range(num_partitions):
        total += tables.loads[partition]
    tables.amounts[WINDOW_LOAD] = total
    if not tables.options[PUBLISHED]:
        expire_pairs(tables)


@borrowing_step
def _reward(tables: Tables, row: int, partition: int) -> float:
    """Reward a choice (equations 3 and 4), after load and fragmentation took it in."""
    num_partitions = tables.options[NUM_PARTITIONS]
    load = tables.loads[partition]
    average = tables.amounts[WINDOW_LOAD] / num_partitions
    highest = max(load, average)
    # Records of no load at all leave every partition at 0.
    imbalance = (load - average) / highest if highest > 0.0 else 0.0
    split = tables.rows[row * ROW_FIELDS + ROW_SPLIT] / num_partitions
    weight = tables.rates[BALANCE_WEIGHT]
    return float(-(weight * imbalance + (1.0 - weight) * split))


@borrowing_step
def _raise_limit(tables: Tables, row: int) -> None:
    """Let hot keys spread further once most of them have spread as far as they may."""
    words = tables.words
    place = row * ROW_FIELDS
    if tables.rows[place + ROW_SPLIT] >= words[SPLIT_LIMIT]:
        set_full(tables, row, 1)
    if words[SPLIT_LIMIT] >= tables.options[MAX_SPLIT]:
        return
    if words[NUM_FULL] >= _FULL_SHARE * words[NUM_ACTIVE]:
        words[SPLIT_LIMIT] += 1
        for other in range(tables.rows.size // ROW_FIELDS):
            tables.rows[other * ROW_FIELDS + ROW_FULL] = 0
        words[NUM_FULL] = 0


@borrowing_step
def _choose(tables: Tables, row: int) -> int:
    words = tables.words
    split = tables.rows[row * ROW_FIELDS + ROW_SPLIT]
    # Neither what was learned of a partition the key has left since, nor a key that was cold
    # meanwhile and is not known to be full, leads beyond ``max_split``.
    at_most = split >= tables.options[MAX_SPLIT] and not tables.options[PUBLISHED]
    if uniform(words, DRAWS) < tables.rates[GREEDY]:
        best = best_partition(tables, row)
        if at_most and not holds(tables, row, best):
            return best_holder(tables, row)
        return best
    if (at_most or tables.rows[row * ROW_FIELDS + ROW_FULL]) and split > 0:
        return nth_holder(tables, row, below(words, DRAWS, split))
    return below(words, DRAWS, tables.options[NUM_PARTITIONS])


@borrowing_step
def _keep_reward(tables: Tables, row: int, partition: int, reward: float) -> None:
    """Keep a reward until a global Q-table is here that does not know it yet.

    Equation 5 applied to rewards R1 .. Rm one after the other is Q * share + gain, whatever Q is;
    so the buffer of Algorithm 2, line 10, is two numbers per action, however long the wait.
    """
    step = tables.amounts[STEP_SIZE]
    place = row * tables.options[LEAVES] + partition
    tables.kept_share[place] *= 1.0 - step
    tables.kept_gain[place] = tables.kept_gain[place] * (1.0 - step) + step * reward


@borrowing_step
def _row_if_hot(tables: Tables, key_hash: np.uint64, home: int, row: int, load: float) -> int:
    """Say which row decides for a record: ``NO_ROW`` sends it home, ``STOP - 1`` finds no room."""
    words = tables.words
    published = tables.options[PUBLISHED] != 0
    if load >= tables.amounts[THRESHOLD]:
        # To the end of the next interval (section 3.3); the authors' code, and one tick more.
        expiry_ms = _later(words[INTERVAL_END_MS], words[INTERVAL_MS])
        if published:
            expiry_ms = _later(expiry_ms, 1)
        if row != NO_ROW and tables.rows[row * ROW_FIELDS + ROW_EXPIRY_MS] >= expiry_ms:
            return row
        # More than n keys cannot be heavy (Theorem 3.4): then the load of before was too low a
        # guess, as when a stream awakes, and each further key stays home.
        if published or words[NUM_HOT] < tables.options[NUM_PARTITIONS]:
            if row == NO_ROW:
                row = take_row(tables, key_hash, home)
                if row == NO_ROW:
                    return STOP - 1
                mark_pair(tables, row, home)
            if not tables.rows[row * ROW_FIELDS + ROW_ACTIVE]:
                activate(tables, row)
            tables.rows[row * ROW_FIELDS + ROW_EXPIRY_MS] = expiry_ms
            words[NUM_HOT] += 1
            return row
    if row == NO_ROW:
        return NO_ROW
    if words[NOW_MS] < tables.rows[row * ROW_FIELDS + ROW_EXPIRY_MS]:
        return row
    deactivate(tables, row)
    return NO_ROW


@borrowing_step
def _step(tables: Tables, key_hash: np.uint64, timestamp_ms: int, home: int, weight: float) -> int:
    words = tables.words
    amounts = tables.amounts
    if timestamp_ms > words[NOW_MS]:
        words[NOW_MS] = timestamp_ms
    if words[NOW_MS] >= words[INTERVAL_END_MS]:
        if tables.options[STOPS]:
            words[STOPPED] = INTERVAL_OVER
            return STOP
        begin_interval(tables)
    if words[NOW_MS] >= tables.clock[NEXT_PANE_MS]:
        _enter_pane(tables)

    entry, found = find_entry(tables, key_hash)
    load = load_so_far(tables, entry, found, key_hash) + weight
    known = NO_ROW
    if found:
        known = int(tables.entry_words[entry + ENTRY_ROW])
        if known != NO_ROW and tables.rows[known * ROW_FIELDS + ROW_KEY] != np.int64(key_hash):
            known = NO_ROW  # freed since, and taken by another key
    else:
        known = find_row(tables, key_hash)
    row = NO_ROW
    if known != NO_ROW or load >= amounts[THRESHOLD]:
        row = _row_if_hot(tables, key_hash, home, known, load)
        if row < NO_ROW:
            words[STOPPED] = NO_ROOM
            return STOP
    write_entry(tables, entry, found, key_hash, max(row, known), load)
    amounts[INTERVAL_LOAD] += weight

    partition = home if row == NO_ROW else _choose(tables, row)
    tables.loads[partition] += weight
    tables.ring[tables.clock[NOW_ROW] * tables.options[NUM_PARTITIONS] + partition] += weight
    amounts[WINDOW_LOAD] += weight
    if row != NO_ROW:
        mark_pair(tables, row, partition)
        reward = _reward(tables, row, partition)
        _raise_limit(tables, row)
        learn(tables, row, partition, reward)
        if tables.kept_share.size:
            _keep_reward(tables, row, partition, reward)
    elif known != NO_ROW:
        mark_pair(tables, known, home)
    return partition


@borrowing
def _route_rows(
    key_hashes: KeyHashes,
    timestamps_ms: TimestampsMs,
    homes: Partitions,
    weights: Loads,
    tables: Tables,
    out: Partitions,
) -> int:
    seed = np.uint64(tables.options[SEED_WORD])
    num_partitions = tables.options[NUM_PARTITIONS]
    tables.words[STOPPED] = DONE
    for index in range(key_hashes.size):
        key_hash = key_hashes[index]
        home = int(homes[index]) if homes.size else home_of(key_hash, seed, num_partitions)
        weight = weights[index] if weights.size else 1.0
        partition = _step(tables, key_hash, timestamps_ms[index], home, weight)
        if partition == STOP:
            return index
        out[index] = partition
    return key_hashes.size


@borrowing
def _route_row(key_hash: np.uint64, timestamp_ms: int, tables: Tables) -> int:
    seed = np.uint64(tables.options[SEED_WORD])
    home = home_of(key_hash, seed, tables.options[NUM_PARTITIONS])
    return _step(tables, key_hash, timestamp_ms, home, 1.0)


@kernel
def route_all(
    key_hashes: KeyHashes,
    timestamps_ms: TimestampsMs,
    homes: Partitions,
    weights: Loads,
    packed: npt.NDArray[np.int64],
    out: Partitions,
) -> int:
    """Route records in their order.

    Args:
        key_hashes: Key hashes.
        timestamps_ms: Event times.
        homes: Home of each record's key; empty: follow from key and seed.
        weights: Loads; empty: 1 each.
        packed: ``state.pack``.
        out: Partitions, to fill.

    Returns:
        How many were routed; fewer than there are, where ``words[STOPPED]`` says why.
    """
    return _route_rows(key_hashes, timestamps_ms, homes, weights, open_tables(packed), out)


@ScalarKernel
def route_one(key_hash: int, timestamp_ms: int | None, address: int) -> int:
    """Route one record of load 1; ``STOP``: not routed, see ``words[STOPPED]``."""
    tables = open_tables(handles_at(address))
    return _route_row(np.uint64(key_hash), given_or_now(timestamp_ms), tables)


@kernel
def end_interval(packed: npt.NDArray[np.int64]) -> None:
    """Do ``begin_interval`` from outside a kernel."""
    begin_interval(open_tables(packed))


@kernel
def rebuild_index(packed: npt.NDArray[np.int64]) -> None:
    """Fill the index of rows after there is room for more."""
    index_rows(open_tables(packed))
