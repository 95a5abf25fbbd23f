"""The Q-table: one row per hot key, with its best partition always at hand.

The Q-values of a row are the leaves of a winner tree, a tournament in which every node shows the
better of its two children; the root is the greedy choice. A new value replays one path, log2(n)
comparisons, where a scan would compare n. While the best leaf stays above the best rival it met
when its path was last replayed, there is nothing to replay: so it is for two of three greedy
choices at n = 16, for seven of eight at n = 128, and the nodes above it are written when another
leaf needs them. Ties go to the left child, and leaves are ordered home
first, then by partition, which is the order of the paper's argmax as its authors coded it:

    home 2 of 4 partitions      leaf       0 1 2 3
                                partition  2 0 1 3

Beside the values a row keeps, per partition, the pane in which the key was last sent there: the
pair counts as split while that pane is in the window. A row whose key is hot no more is dormant
until its last pair has left the window, so fragmentation is right when the key turns hot again.
"""

from __future__ import annotations

import numpy as np

from partitioners._borrow import borrowing, borrowing_step
from partitioners.dalton.frequency import slot_of
from partitioners.dalton.state import (
    LEAVES,
    LOWEST_Q,
    NOW_MS,
    NUM_ACTIVE,
    NUM_FULL,
    NUM_PARTITIONS,
    NUM_USED,
    PUBLISHED,
    ROW_ACTIVE,
    ROW_EXPIRY_MS,
    ROW_FIELDS,
    ROW_FULL,
    ROW_HOME,
    ROW_KEY,
    ROW_OLDEST,
    ROW_SPLIT,
    ROW_USED,
    SPLIT_LIMIT,
    STEP_SIZE,
    Tables,
)
from partitioners.panes import NOW_PANE, OLDEST_PANE

NO_ROW = -1
RIVAL = 0  # a place in a row's values where its tree has no node: no other leaf is above this


@borrowing_step
def leaf_of(partition: int, home: int) -> int:
    """Give the leaf of a partition."""
    if partition == home:
        return 0
    return partition + 1 if partition < home else partition


@borrowing_step
def partition_of(leaf: int, home: int) -> int:
    """Give the partition of a leaf."""
    if leaf == 0:
        return home
    return leaf - 1 if leaf <= home else leaf


@borrowing_step
def find_row(tables: Tables, key_hash: np.uint64) -> int:
    """Find the row of a key, or ``NO_ROW``."""
    index = tables.row_index
    num_slots = index.size // 2
    slot = slot_of(key_hash, num_slots)
    while index[2 * slot + 1] != 0:
        if index[2 * slot] == np.int64(key_hash):
            return int(index[2 * slot + 1]) - 1
        slot = (slot + 1) & (num_slots - 1)
    return NO_ROW


@borrowing_step
def _index_row(tables: Tables, row: int) -> None:
    index = tables.row_index
    num_slots = index.size // 2
    slot = slot_of(np.uint64(tables.rows[row * ROW_FIELDS + ROW_KEY]), num_slots)
    while index[2 * slot + 1] != 0:
        slot = (slot + 1) & (num_slots - 1)
    index[2 * slot] = tables.rows[row * ROW_FIELDS + ROW_KEY]
    index[2 * slot + 1] = row + 1


@borrowing_step
def index_rows(tables: Tables) -> None:
    """Fill the index of the rows anew: after rows were freed or moved."""
    tables.row_index[:] = 0
    for row in range(tables.rows.size // ROW_FIELDS):
        if tables.rows[row * ROW_FIELDS + ROW_USED]:
            _index_row(tables, row)


@borrowing
def play_all(tables: Tables, row: int) -> None:
    """Fill the nodes of a row's tree from its leaves."""
    leaves = tables.options[LEAVES]
    base = row * 2 * leaves
    for leaf in range(leaves):
        tables.winners[base + leaves + leaf] = leaf
        if leaf >= tables.options[NUM_PARTITIONS]:
            tables.values[base + leaves + leaf] = -np.inf
    for node in range(leaves - 1, 0, -1):
        better = 2 * node
        if tables.values[base + better + 1] > tables.values[base + better]:
            better += 1
        tables.values[base + node] = tables.values[base + better]
        tables.winners[base + node] = tables.winners[base + better]
    tables.values[base + RIVAL] = np.inf


@borrowing
def fill_row(tables: Tables, row: int) -> None:
    """Set every Q-value of a row to that of an action never tried."""
    leaves = tables.options[LEAVES]
    base = row * 2 * leaves
    tables.values[base + leaves : base + 2 * leaves] = LOWEST_Q
    play_all(tables, row)
    if tables.kept_share.size:
        tables.kept_share[row * leaves : (row + 1) * leaves] = 1.0
        tables.kept_gain[row * leaves : (row + 1) * leaves] = 0.0


@borrowing
def take_row(tables: Tables, key_hash: np.uint64, home: int) -> int:
    """Take a free row for a key, in no table yet and on no partition; ``NO_ROW``: none is free."""
    for row in range(tables.rows.size // ROW_FIELDS):
        place = row * ROW_FIELDS
        if not tables.rows[place + ROW_USED]:
            tables.rows[place : place + ROW_FIELDS] = 0
            tables.rows[place + ROW_KEY] = np.int64(key_hash)
            tables.rows[place + ROW_HOME] = home
            tables.rows[place + ROW_USED] = 1
            tables.words[NUM_USED] += 1
            num_partitions = tables.options[NUM_PARTITIONS]
            tables.last_pane[row * num_partitions : (row + 1) * num_partitions] = 0
            _index_row(tables, row)
            return row
    return NO_ROW


@borrowing_step
def activate(tables: Tables, row: int) -> None:
    """Put a row into the Q-table, with nothing learned yet."""
    fill_row(tables, row)
    tables.rows[row * ROW_FIELDS + ROW_ACTIVE] = 1
    tables.words[NUM_ACTIVE] += 1


@borrowing_step
def set_full(tables: Tables, row: int, full: int) -> None:
    """Note whether a row is on as many partitions as the limit allows."""
    place = row * ROW_FIELDS + ROW_FULL
    tables.words[NUM_FULL] += full - tables.rows[place]
    tables.rows[place] = full


@borrowing_step
def deactivate(tables: Tables, row: int) -> None:
    """Take a row out of the Q-table; its fragmentation stays."""
    if tables.rows[row * ROW_FIELDS + ROW_ACTIVE]:
        tables.rows[row * ROW_FIELDS + ROW_ACTIVE] = 0
        tables.words[NUM_ACTIVE] -= 1
        if not tables.options[PUBLISHED]:
            set_full(tables, row, 0)


@borrowing_step
def oldest_pane(tables: Tables) -> int:
    """Give the pane from which a pair counts; in the authors' code no pair ever leaves."""
    return 1 if tables.options[PUBLISHED] else tables.clock[OLDEST_PANE]


@borrowing_step
def mark_pair(tables: Tables, row: int, partition: int) -> None:
    """Note that the key of a row went to a partition now."""
    pair = row * tables.options[NUM_PARTITIONS] + partition
    if tables.last_pane[pair] < oldest_pane(tables):
        _add_holder(tables, row, partition)
    tables.last_pane[pair] = tables.clock[NOW_PANE]


@borrowing
def _add_holder(tables: Tables, row: int, partition: int) -> None:
    """Put a partition among those that hold the row's key, kept in order."""
    place = row * ROW_FIELDS
    base = row * tables.options[NUM_PARTITIONS]
    split = tables.rows[place + ROW_SPLIT]
    if split == 0:
        tables.rows[place + ROW_OLDEST] = tables.clock[NOW_PANE]
    position = base + split
    while position > base and tables.holders[position - 1] > partition:
        tables.holders[position] = tables.holders[position - 1]
        position -= 1
    tables.holders[position] = partition
    tables.rows[place + ROW_SPLIT] = split + 1


@borrowing_step
def nth_holder(tables: Tables, row: int, number: int) -> int:
    """Give the partition that is ``number``-th, from 0, of those that hold the row's key."""
    return int(tables.holders[row * tables.options[NUM_PARTITIONS] + number])


@borrowing_step
def holds(tables: Tables, row: int, partition: int) -> bool:
    """Say whether a partition holds the row's key in the window."""
    pair = row * tables.options[NUM_PARTITIONS] + partition
    return bool(tables.last_pane[pair] >= oldest_pane(tables))


@borrowing
def best_holder(tables: Tables, row: int) -> int:
    """Give the best of the partitions that hold the row's key, of which there is one at least."""
    home = tables.rows[row * ROW_FIELDS + ROW_HOME]
    first_leaf = row * 2 * tables.options[LEAVES] + tables.options[LEAVES]
    best = -1
    highest = -np.inf
    for number in range(tables.rows[row * ROW_FIELDS + ROW_SPLIT]):
        partition = nth_holder(tables, row, number)
        value = tables.values[first_leaf + leaf_of(partition, home)]
        if value > highest or (value == highest and partition == home):
            best = partition
            highest = value
    return best


@borrowing_step
def best_partition(tables: Tables, row: int) -> int:
    """Give the partition of highest Q-value; home, then the lowest, where several are."""
    winner = int(tables.winners[row * 2 * tables.options[LEAVES] + 1])
    return partition_of(winner, int(tables.rows[row * ROW_FIELDS + ROW_HOME]))


@borrowing_step
def learn(tables: Tables, row: int, partition: int, reward: float) -> float:
    """Move a Q-value towards a reward (equation 5), and replay its path in the tree if need be.

    Returns:
        The new Q-value.
    """
    leaves = tables.options[LEAVES]
    base = row * 2 * leaves
    leaf = leaf_of(partition, tables.rows[row * ROW_FIELDS + ROW_HOME])
    step = tables.amounts[STEP_SIZE]
    value = tables.values[base + leaves + leaf] * (1.0 - step) + step * reward
    tables.values[base + leaves + leaf] = value
    best = int(tables.winners[base + 1])
    if leaf != best:
        _show_best(tables, base, best)
        _replay(tables, base, leaf)
        if int(tables.winners[base + 1]) == best:
            tables.values[base + RIVAL] = max(tables.values[base + RIVAL], value)
    elif value <= tables.values[base + RIVAL]:
        _replay(tables, base, leaf)
    return float(value)


@borrowing_step
def _show_best(tables: Tables, base: int, best: int) -> None:
    """Make the nodes above the best leaf show its value of now."""
    node = tables.options[LEAVES] + best
    value = tables.values[base + node]
    while node > 1:
        node >>= 1
        tables.values[base + node] = value


@borrowing_step
def _replay(tables: Tables, base: int, leaf: int) -> None:
    """Carry a leaf's value up its path, and note the best it met, or that this is not known."""
    node = tables.options[LEAVES] + leaf
    best = tables.values[base + node]
    winner = leaf
    highest_rival = -np.inf
    while node > 1:
        other = node ^ 1
        rival = tables.values[base + other]
        # No branch: who wins cannot be predicted, and a wrong guess costs more than the step.
        loses = (rival > best) | ((rival == best) & (other < node))
        best = max(best, rival)
        highest_rival = max(highest_rival, rival)
        winner += (int(tables.winners[base + other]) - winner) * int(loses)
        node >>= 1
        tables.values[base + node] = best
        tables.winners[base + node] = winner
    tables.values[base + RIVAL] = highest_rival if winner == leaf else np.inf


@borrowing
def expire_pairs(tables: Tables) -> None:
    """After panes were opened: let pairs leave the window, and free rows that hold nothing."""
    oldest = tables.clock[OLDEST_PANE]
    num_partitions = tables.options[NUM_PARTITIONS]
    freed = False
    for row in range(tables.rows.size // ROW_FIELDS):
        place = row * ROW_FIELDS
        if not tables.rows[place + ROW_USED]:
            continue
        if tables.rows[place + ROW_SPLIT] and tables.rows[place + ROW_OLDEST] < oldest:
            split = 0
            first = tables.clock[NOW_PANE]
            base = row * num_partitions
            for number in range(tables.rows[place + ROW_SPLIT]):
                partition = tables.holders[base + number]
                pane = tables.last_pane[base + partition]
                if pane >= oldest:
                    tables.holders[base + split] = partition
                    split += 1
                    first = min(first, pane)
            tables.rows[place + ROW_SPLIT] = split
            tables.rows[place + ROW_OLDEST] = first
            if split < tables.words[SPLIT_LIMIT]:
                set_full(tables, row, 0)
        expired = tables.words[NOW_MS] >= tables.rows[place + ROW_EXPIRY_MS]
        if expired and tables.rows[place + ROW_SPLIT] == 0:
            deactivate(tables, row)
            tables.rows[place + ROW_USED] = 0
            tables.words[NUM_USED] -= 1
            freed = True
    if freed:
        index_rows(tables)


@borrowing
def expire_rows(tables: Tables) -> None:
    """At the end of an interval: take out of the Q-table whose time is over."""
    for row in range(tables.rows.size // ROW_FIELDS):
        place = row * ROW_FIELDS
        if tables.rows[place + ROW_USED] and (
            tables.words[NOW_MS] >= tables.rows[place + ROW_EXPIRY_MS]
        ):
            deactivate(tables, row)
