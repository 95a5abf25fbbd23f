"""What one agent keeps: numbers, the count table, the loads of the window, the rows of hot keys.

Everything is a flat array, so that a kernel takes one array of handles to all of them (see
``partitioners._jit``) and opens it as ``Tables``. The places in the arrays have their names here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from partitioners._jit import float64_at, handles, inlined, int32_at, int64_at
from partitioners.dalton.config import DaltonConfig
from partitioners.dalton.draws import first_word
from partitioners.hashing import seed_word
from partitioners.panes import new_clock
from partitioners.sketches.count_min import new_counters

# options: int64, fixed
NUM_PARTITIONS = 0
LEAVES = 1  # the least power of two that holds the partitions: leaves of a row's winner tree
PUBLISHED = 2  # 1: rules of the authors' code
STOPS = 3  # 1: the kernel hands back at the end of an interval (several producers)
SEED_WORD = 4
EXACT_KEYS = 5
MAX_SPLIT = 6
NUM_OPTIONS = 7

# rates: float64, fixed
GREEDY = 0  # share of draws that are greedy
BALANCE_WEIGHT = 1
NUM_RATES = 2

# words: int64, change
DRAWS = 0  # state of the random generator
GENERATION = 1  # number of the interval: entries of the count table with another one are empty
NUM_KEYS = 2  # keys in the count table
SKETCH_USED = 3
NUM_HOT = 4  # keys that turned hot in this interval
NUM_ACTIVE = 5  # rows that are in the Q-table
NUM_FULL = 6  # of these, rows on as many partitions as the limit allows
SPLIT_LIMIT = 7
INTERVAL_MS = 8
INTERVAL_END_MS = 9
NOW_MS = 10
STOPPED = 11  # why the kernel came back
NUM_USED = 12  # rows in use, in the Q-table or dormant
NUM_WORDS = 13

# amounts: float64, change
THRESHOLD = 0  # load from which a key is hot
INTERVAL_LOAD = 1
WINDOW_LOAD = 2
STEP_SIZE = 3  # fixed for one producer
NUM_AMOUNTS = 4

# an entry of the count table: float64[4], the first three read as int64
ENTRY_KEY = 0
ENTRY_GENERATION = 1
ENTRY_ROW = 2
ENTRY_LOAD = 3
ENTRY_FIELDS = 4

# fields of a row: int64
ROW_KEY = 0
ROW_HOME = 1
ROW_EXPIRY_MS = 2  # in the Q-table before this time
ROW_SPLIT = 3  # partitions that hold the key in the window
ROW_OLDEST = 4  # no pair of the row was last seen before this pane
ROW_USED = 5
ROW_ACTIVE = 6  # in the Q-table; else only its fragmentation is still of use
ROW_FULL = 7
ROW_FIELDS = 8

# why a kernel came back
DONE = 0
NO_ROOM = 1  # the next record needs a row, and all are in use
INTERVAL_OVER = 2  # the next record begins an interval

FIRST_ROWS = 16
SKETCH_DEPTH = 4
SKETCH_COUNTERS_PER_PARTITION = 32
MIN_SKETCH_WIDTH = 4096
NO_TIME_YET = np.iinfo(np.int64).min
LOWEST_Q = -2.0
"""Value of an action never tried, below any reward (paper, section 3.2, "Initial values")."""


@dataclass
class DaltonState:
    """State of one agent; n partitions, r rows, t leaves of a row's tree."""

    words: npt.NDArray[np.int64]  # int64[NUM_WORDS]
    amounts: npt.NDArray[np.float64]  # float64[NUM_AMOUNTS]
    clock: npt.NDArray[np.int64]  # int64[CLOCK_FIELDS], see partitioners.panes
    entries: npt.NDArray[np.float64]  # float64[slots * ENTRY_FIELDS], loads of keys, this interval
    entry_order: npt.NDArray[np.int32]  # int32[exact_keys]: slots of the entries, as they came
    sketch: npt.NDArray[np.float64]  # float64[depth * width], of keys past exact_keys
    ring: npt.NDArray[np.float64]  # float64[panes * n], load of each partition by pane
    loads: npt.NDArray[np.float64]  # float64[n], in the window
    row_index: npt.NDArray[np.int64]  # int64[4 * r * 2], open addressing: key hash, row + 1
    rows: npt.NDArray[np.int64]  # int64[r * ROW_FIELDS]
    values: npt.NDArray[np.float64]  # float64[r * 2 t]: a rival's, then maxima, then Q-values
    winners: npt.NDArray[np.int32]  # int32[r * 2 t]: leaf whose value a node shows
    last_pane: npt.NDArray[np.int64]  # int64[r * n]: pane a pair was last seen in
    holders: npt.NDArray[np.int32]  # int32[r * n]: the pairs in the window, in order
    # Empty for one producer; of several: what the rewards since the last SYNC left and added.
    kept_share: npt.NDArray[np.float64]  # float64[r * t]
    kept_gain: npt.NDArray[np.float64]  # float64[r * t]


class Tables(NamedTuple):
    """The arrays of an agent as a kernel sees them."""

    options: npt.NDArray[np.int64]
    rates: npt.NDArray[np.float64]
    words: npt.NDArray[np.int64]
    amounts: npt.NDArray[np.float64]
    clock: npt.NDArray[np.int64]
    entry_words: npt.NDArray[np.int64]
    entries: npt.NDArray[np.float64]
    sketch: npt.NDArray[np.float64]
    ring: npt.NDArray[np.float64]
    loads: npt.NDArray[np.float64]
    row_index: npt.NDArray[np.int64]
    rows: npt.NDArray[np.int64]
    values: npt.NDArray[np.float64]
    winners: npt.NDArray[np.int32]
    last_pane: npt.NDArray[np.int64]
    holders: npt.NDArray[np.int32]
    kept_share: npt.NDArray[np.float64]
    kept_gain: npt.NDArray[np.float64]
    entry_order: npt.NDArray[np.int32]


@inlined
def open_tables(packed: npt.NDArray[np.int64]) -> Tables:
    """Open the handles that ``pack`` made."""
    return Tables(
        int64_at(packed, 0),
        float64_at(packed, 1),
        int64_at(packed, 2),
        float64_at(packed, 3),
        int64_at(packed, 4),
        int64_at(packed, 5),
        float64_at(packed, 5),
        float64_at(packed, 6),
        float64_at(packed, 7),
        float64_at(packed, 8),
        int64_at(packed, 9),
        int64_at(packed, 10),
        float64_at(packed, 11),
        int32_at(packed, 12),
        int64_at(packed, 13),
        int32_at(packed, 14),
        float64_at(packed, 15),
        float64_at(packed, 16),
        int32_at(packed, 17),
    )


def pack(
    options: npt.NDArray[np.int64], rates: npt.NDArray[np.float64], state: DaltonState
) -> npt.NDArray[np.int64]:
    """Make the handles of an agent's arrays."""
    return handles(
        options,
        rates,
        state.words,
        state.amounts,
        state.clock,
        state.entries,
        state.sketch,
        state.ring,
        state.loads,
        state.row_index,
        state.rows,
        state.values,
        state.winners,
        state.last_pane,
        state.holders,
        state.kept_share,
        state.kept_gain,
        state.entry_order,
    )


def power_of_two(number: int) -> int:
    """Give the least power of two that is not below a number."""
    return 1 << max(0, number - 1).bit_length()


def new_options(
    num_partitions: int, config: DaltonConfig, *, stops: bool
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Turn a config into the fixed arrays of the kernels."""
    options = np.zeros(NUM_OPTIONS, np.int64)
    options[NUM_PARTITIONS] = num_partitions
    options[LEAVES] = power_of_two(num_partitions)
    options[PUBLISHED] = config.rules == "published"
    options[STOPS] = stops
    options[SEED_WORD] = seed_word(config.seed).astype(np.int64)
    options[EXACT_KEYS] = config.exact_keys
    options[MAX_SPLIT] = min(config.max_split or num_partitions, num_partitions)
    rates = np.zeros(NUM_RATES)
    rates[GREEDY] = 1.0 - config.exploration
    rates[BALANCE_WEIGHT] = config.balance_weight
    return options, rates


def new_state(num_partitions: int, config: DaltonConfig, *, keeps_rewards: bool) -> DaltonState:
    """Make the state of an agent that has seen no record."""
    slide_ms = config.slide_ms
    # The authors' window holds the pane of now beside a whole window of past ones.
    window_ms = config.window_ms + (slide_ms if config.rules == "published" else 0)
    words = np.zeros(NUM_WORDS, np.int64)
    words[DRAWS] = first_word(config.seed)
    words[GENERATION] = 1
    highest = min(config.max_split or num_partitions, num_partitions)
    words[SPLIT_LIMIT] = min(config.first_split or highest, highest)
    words[INTERVAL_MS] = config.interval_ms or slide_ms
    words[INTERVAL_END_MS] = words[NOW_MS] = NO_TIME_YET
    amounts = np.zeros(NUM_AMOUNTS)
    amounts[THRESHOLD] = np.inf
    amounts[STEP_SIZE] = config.step_size
    clock = new_clock(window_ms, slide_ms)
    width = max(MIN_SKETCH_WIDTH, power_of_two(SKETCH_COUNTERS_PER_PARTITION * num_partitions))
    leaves = power_of_two(num_partitions)
    kept = FIRST_ROWS * leaves if keeps_rewards else 0
    return DaltonState(
        words=words,
        amounts=amounts,
        clock=clock,
        entries=np.zeros(power_of_two(2 * config.exact_keys) * ENTRY_FIELDS),
        entry_order=np.zeros(config.exact_keys, np.int32),
        sketch=new_counters(width, SKETCH_DEPTH),
        ring=np.zeros(window_ms // slide_ms * num_partitions),
        loads=np.zeros(num_partitions),
        row_index=np.zeros(8 * FIRST_ROWS, np.int64),
        rows=np.zeros(FIRST_ROWS * ROW_FIELDS, np.int64),
        values=np.zeros(FIRST_ROWS * 2 * leaves),
        winners=np.zeros(FIRST_ROWS * 2 * leaves, np.int32),
        last_pane=np.zeros(FIRST_ROWS * num_partitions, np.int64),
        holders=np.zeros(FIRST_ROWS * num_partitions, np.int32),
        kept_share=np.zeros(kept),
        kept_gain=np.zeros(kept),
    )


def num_rows(state: DaltonState) -> int:
    """Count the rows there is room for."""
    return state.rows.size // ROW_FIELDS


def double_rows(state: DaltonState) -> None:
    """Make room for twice the rows; ``row_index`` comes back empty, to be filled anew."""
    _move_rows(state, np.arange(num_rows(state)), 2 * num_rows(state))


def halve_rows(state: DaltonState) -> None:
    """Give back half of the rows, or more, of which few are in use; as ``double_rows``."""
    used = np.flatnonzero(state.rows.reshape(-1, ROW_FIELDS)[:, ROW_USED])
    moved_to = np.full(num_rows(state) + 1, -1)  # the last one for entries without a row
    moved_to[used] = np.arange(len(used))
    entry_rows = state.entries.reshape(-1, ENTRY_FIELDS).view(np.int64)[:, ENTRY_ROW]
    entry_rows[:] = moved_to[entry_rows]
    _move_rows(state, used, max(FIRST_ROWS, power_of_two(2 * len(used))))


def has_spare_rows(state: DaltonState) -> bool:
    """Say whether at most an eighth of the rows are in use."""
    rows = num_rows(state)
    return rows > FIRST_ROWS and 8 * int(state.words[NUM_USED]) <= rows


def _move_rows(state: DaltonState, kept: npt.NDArray[np.int64], capacity: int) -> None:
    rows = num_rows(state)
    for name in ("rows", "values", "winners", "last_pane", "holders", "kept_share", "kept_gain"):
        old = getattr(state, name).reshape(rows, -1)
        new = np.zeros((capacity, old.shape[1]), old.dtype)
        new[: len(kept)] = old[kept]
        setattr(state, name, new.reshape(-1))
    state.row_index = np.zeros(8 * capacity, np.int64)
