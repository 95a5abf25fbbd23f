"""DAGreedy: a frequent key stays where it is until that costs more balance than it is worth.

Every record of a frequent key goes to the partition of highest score: being there already counts
for a partition, load above the average against it. All other keys go home. It reacts within one
record, and splits a key only as the load of its partitions grows.

Papers: Pacaci, Özsu, "Distribution-Aware Stream Partitioning for Distributed Stream Processing
Systems", BeyondMR 2018; restated and measured in Zapridou et al., "Dalton: Learned Partitioning for
Distributed Data Streams", VLDB 2022, section 5, whose authors' code our rules follow.

==================== =============================================================================
symbol               here
==================== =============================================================================
score of partition i (1 - p) [key has records on i] - p (L_i - avg) / avg; the first of equal ones
L_i, avg             ``loads``, in the live window, and their average
p                    ``balance_weight``, 0.5
hot                  load in this interval > ``hot_fraction`` / n of all load of the interval before
==================== =============================================================================

No partition need be scored for a record. Of the partitions a key is on, the least loaded (h) scores
best; of all others none beats the least loaded of all (g). So the score says: stay on h while
p n (L_h - L_g) < (1 - p) sum L, else take g. Within a pane loads only grow, so g remains the least
until it takes a record itself, and is looked for only then: once in n records where loads are even.

Cost per record O(1), O(partitions of the key) for a hot one, and now and then O(n). Memory 12 n
bytes for each of the 128 n hot keys there may be at a time, and 28 bytes for each of the 256 n keys
counted in an interval; whatever the number of keys.

Not for you where loads must be even: a partition may exceed the least loaded by a whole average
before a key moves (``hot_fill``). Each of several sources decides by its own loads, so the hot keys
of many sources are on more partitions than one source's.

Departures: the authors compare with total // (100 n) in whole records, so intervals of fewer than
100 n records make every key hot; here it is a fraction, and the first 256 n keys of an interval are
counted (a heavy key is early), while theirs uses a map or count-min sketch. What a hot key holds is
remembered from when it became hot, with its home as the first. Theirs hashes key ids modulo n.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from partitioners._borrow import borrowing, borrowing_step
from partitioners._jit import (
    ScalarKernel,
    as_int64,
    float64_at,
    given_or_now,
    handles,
    handles_at,
    inlined,
    int32_at,
    int64_at,
    kernel,
    uint64_at,
)
from partitioners.base import (
    NO_WEIGHTS,
    KeyHashes,
    Loads,
    Partitioner,
    Partitions,
    TimestampsMs,
    Traits,
)
from partitioners.config import Config
from partitioners.hashing import candidate_word, seed_word, upper_range
from partitioners.panes import (
    NEXT_PANE_MS,
    NOW_PANE,
    NOW_ROW,
    OLDEST_PANE,
    advance_clock,
    new_clock,
    num_panes,
    open_panes,
)

WAYS = 8
COUNTED_KEYS_PER_PARTITION = 256
HOT_KEYS_PER_PARTITION = 128
NO_ROW = -1
UNKNOWN = -1

# Fields of ``words``.
INTERVAL = 0  # number of the interval of now
INTERVAL_END_MS = 1
LEAST = 2  # the least loaded partition, or UNKNOWN
NUM_FREE = 3  # rows in free_rows
SWEPT = 4  # interval in which expired rows were last looked for
WORD_FIELDS = 5
NO_TIME_YET = np.iinfo(np.int64).min
_LAST_MS = np.iinfo(np.int64).max

# Fields of ``amounts``.
THRESHOLD = 0
INTERVAL_LOAD = 1
WINDOW_LOAD = 2
AMOUNT_FIELDS = 3

# Fields of ``options``.
SEED = 0
INTERVAL_MS = 1
# Fields of ``rates``.
HOT_FRACTION = 0
BALANCE_WEIGHT = 1

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, kw_only=True)
class DAGreedyConfig(Config):
    """Options of ``dagreedy``.

    Attributes:
        window_ms: Window that loads and partitions of keys are taken over.
        slide_ms: Its slide, which divides it.
        interval_ms: Keys are counted over intervals of this length; None: one slide.
        hot_fraction: A key is hot from this part of a partition's average load on.
        balance_weight: Weight p of balance in the score; the key's partitions have 1 - p.
        seed: Places the home of each key; any 64-bit integer.
    """

    window_ms: int = 60_000
    slide_ms: int = 1_000
    interval_ms: int | None = None
    hot_fraction: float = 0.01
    balance_weight: float = 0.5
    seed: int = 0

    def __post_init__(self) -> None:
        self.require_range("window_ms", 1, 1 << 53)
        self.require_range("slide_ms", 1, 1 << 53)
        num_panes(self.window_ms, self.slide_ms)
        if self.interval_ms is not None:
            self.require_range("interval_ms", 1, 1 << 53)
        self.require_range("hot_fraction", 0.0, 1e6)
        self.require_range("balance_weight", 0.0, 1.0)
        self.require_range("seed", -(1 << 63), (1 << 64) - 1)


@dataclass
class DAGreedyState:
    """State of one partitioner: n partitions, m panes, c slots, r rows of hot keys."""

    clock: npt.NDArray[np.int64]  # int64[CLOCK_FIELDS], see panes.py
    words: npt.NDArray[np.int64]  # int64[WORD_FIELDS]
    amounts: npt.NDArray[np.float64]  # float64[AMOUNT_FIELDS]
    loads: npt.NDArray[np.float64]  # float64[n]: load of the live window
    load_ring: npt.NDArray[np.float64]  # float64[m * n]
    key_hashes: npt.NDArray[np.uint64]  # uint64[c]
    counted_in: npt.NDArray[np.int64]  # int64[c]: interval of the count
    counts: npt.NDArray[np.float64]  # float64[c]: load in that interval
    row_of: npt.NDArray[np.int32]  # int32[c]: row of a hot key, or NO_ROW
    hot_until: npt.NDArray[np.int64]  # int64[r]: last interval in which the key is hot
    slot_of: npt.NDArray[np.int32]  # int32[r]: the key's slot
    num_held: npt.NDArray[np.int32]  # int32[r]: partitions the key was on
    held: npt.NDArray[np.int32]  # int32[r * n]: which, in the order they came
    held_panes: npt.NDArray[np.int64]  # int64[r * n]: pane of the last record on each
    free_rows: npt.NDArray[np.int32]  # int32[r]


class View(NamedTuple):
    """State and options as kernels see them."""

    clock: npt.NDArray[np.int64]
    words: npt.NDArray[np.int64]
    amounts: npt.NDArray[np.float64]
    loads: npt.NDArray[np.float64]
    load_ring: npt.NDArray[np.float64]
    key_hashes: npt.NDArray[np.uint64]
    counted_in: npt.NDArray[np.int64]
    counts: npt.NDArray[np.float64]
    row_of: npt.NDArray[np.int32]
    hot_until: npt.NDArray[np.int64]
    slot_of: npt.NDArray[np.int32]
    num_held: npt.NDArray[np.int32]
    held: npt.NDArray[np.int32]
    held_panes: npt.NDArray[np.int64]
    free_rows: npt.NDArray[np.int32]
    options: npt.NDArray[np.int64]
    rates: npt.NDArray[np.float64]


@inlined
def _open_view(packed: npt.NDArray[np.int64]) -> View:
    return View(
        int64_at(packed, 0),
        int64_at(packed, 1),
        float64_at(packed, 2),
        float64_at(packed, 3),
        float64_at(packed, 4),
        uint64_at(packed, 5),
        int64_at(packed, 6),
        float64_at(packed, 7),
        int32_at(packed, 8),
        int64_at(packed, 9),
        int32_at(packed, 10),
        int32_at(packed, 11),
        int32_at(packed, 12),
        int64_at(packed, 13),
        int32_at(packed, 14),
        int64_at(packed, 15),
        float64_at(packed, 16),
    )


@borrowing
def _begin_interval(state: View, timestamp_ms: int) -> None:
    """Turn the load of the interval that ends into the threshold of the next."""
    words, amounts = state.words, state.amounts
    interval_ms = state.options[INTERVAL_MS]
    words[INTERVAL] = timestamp_ms // interval_ms
    to_end_ms = interval_ms - timestamp_ms % interval_ms
    late = timestamp_ms > _LAST_MS - to_end_ms
    words[INTERVAL_END_MS] = _LAST_MS if late else timestamp_ms + to_end_ms
    if amounts[INTERVAL_LOAD] > 0.0:
        amounts[THRESHOLD] = amounts[INTERVAL_LOAD] * state.rates[HOT_FRACTION] / state.loads.size
    amounts[INTERVAL_LOAD] = 0.0


@borrowing
def _open_pane(state: View, timestamp_ms: int) -> None:
    open_panes(state.clock, advance_clock(state.clock, timestamp_ms), state.load_ring, state.loads)
    total = 0.0
    for partition in range(state.loads.size):
        total += state.loads[partition]
    state.amounts[WINDOW_LOAD] = total
    state.words[LEAST] = UNKNOWN


@borrowing_step
def _free_row(state: View, slot: int) -> None:
    """Take a key's row from it."""
    state.free_rows[state.words[NUM_FREE]] = state.row_of[slot]
    state.words[NUM_FREE] += 1
    state.row_of[slot] = NO_ROW


@borrowing_step
def _is_hot(state: View, slot: int) -> bool:
    row = state.row_of[slot]
    return bool(row != NO_ROW and state.hot_until[row] >= state.words[INTERVAL])


@borrowing_step
def _find_slot(state: View, key_hash: np.uint64) -> int:
    """Find a key's slot, or the first that may be taken from another; UNKNOWN: there is none."""
    buckets = state.counts.size // WAYS
    base = (as_int64((key_hash * _GOLDEN) >> np.uint64(32)) & (buckets - 1)) * WAYS
    for slot in range(base, base + WAYS):
        if state.key_hashes[slot] == key_hash and state.counted_in[slot] != NO_TIME_YET:
            return slot
    interval = state.words[INTERVAL]
    for slot in range(base, base + WAYS):
        if state.counted_in[slot] < interval and not _is_hot(state, slot):
            if state.row_of[slot] != NO_ROW:
                _free_row(state, slot)
            state.key_hashes[slot] = key_hash
            state.counts[slot] = 0.0
            state.counted_in[slot] = interval
            return slot
    return UNKNOWN


@borrowing
def _sweep(state: View) -> None:
    """Free the rows of all keys that are hot no more; at most once per interval."""
    if state.words[SWEPT] == state.words[INTERVAL]:
        return
    state.words[SWEPT] = state.words[INTERVAL]
    for row in range(state.hot_until.size):
        slot = state.slot_of[row]
        if state.row_of[slot] == row and state.hot_until[row] < state.words[INTERVAL]:
            _free_row(state, slot)


@borrowing_step
def _count(state: View, key_hash: np.uint64, home: int, weight: float) -> int:
    """Count a record; return the row of its key if that is hot, else NO_ROW."""
    words = state.words
    state.amounts[INTERVAL_LOAD] += weight
    slot = _find_slot(state, key_hash)
    if slot == UNKNOWN:
        return NO_ROW
    if state.counted_in[slot] != words[INTERVAL]:
        state.counted_in[slot] = words[INTERVAL]
        state.counts[slot] = 0.0
    state.counts[slot] += weight
    hot = _is_hot(state, slot)
    if state.counts[slot] > state.amounts[THRESHOLD]:
        if not hot:
            if state.row_of[slot] == NO_ROW:
                if words[NUM_FREE] == 0:
                    _sweep(state)
                if words[NUM_FREE] == 0:
                    return NO_ROW
                words[NUM_FREE] -= 1
                state.row_of[slot] = state.free_rows[words[NUM_FREE]]
            row = state.row_of[slot]
            state.slot_of[row] = slot
            state.num_held[row] = 1
            state.held[row * state.loads.size] = home
            state.held_panes[row * state.loads.size] = state.clock[NOW_PANE]
            hot = True
        state.hot_until[state.row_of[slot]] = words[INTERVAL] + 1
    return as_int64(state.row_of[slot]) if hot else NO_ROW


@borrowing_step
def _least_loaded(state: View) -> int:
    """Give the least loaded partition, the first of equal ones."""
    if state.words[LEAST] == UNKNOWN:
        least = 0
        for partition in range(1, state.loads.size):
            least += (partition - least) * as_int64(state.loads[partition] < state.loads[least])
        state.words[LEAST] = least
    return int(state.words[LEAST])


@borrowing_step
def _comes_before(loads: npt.NDArray[np.float64], one: int, other: int) -> bool:
    """Say whether the load of one partition is less, or equal and its number less."""
    if loads[one] == loads[other]:
        return one < other
    return bool(loads[one] < loads[other])


@borrowing_step
def _choose(state: View, row: int) -> int:
    """Choose the partition of highest score for a hot key, and keep that the key is on it."""
    loads, n = state.loads, state.loads.size
    first = row * n
    best = UNKNOWN
    index = first
    end = first + state.num_held[row]
    while index < end:
        if state.held_panes[index] < state.clock[OLDEST_PANE]:
            end -= 1
            state.held[index] = state.held[end]
            state.held_panes[index] = state.held_panes[end]
            continue
        partition = as_int64(state.held[index])
        if best == UNKNOWN or _comes_before(loads, partition, best):
            best = partition
        index += 1
    least = _least_loaded(state)
    if best == UNKNOWN:
        best = least
    else:
        weight = state.rates[BALANCE_WEIGHT]
        total = state.amounts[WINDOW_LOAD]
        loss = weight * (n * (loads[best] - loads[least]))
        gain = (1.0 - weight) * (total if total > 0.0 else 1.0)
        if loss > gain or (loss == gain and least < best):
            best = least
    index = first
    while index < end and state.held[index] != best:
        index += 1
    if index == end:
        state.held[end] = best
        end += 1
    state.held_panes[index] = state.clock[NOW_PANE]
    state.num_held[row] = end - first
    return best


@borrowing_step
def _step(state: View, key_hash: np.uint64, timestamp_ms: int, weight: float) -> int:
    if timestamp_ms >= state.clock[NEXT_PANE_MS]:
        _open_pane(state, timestamp_ms)
    if timestamp_ms >= state.words[INTERVAL_END_MS]:
        _begin_interval(state, timestamp_ms)
    word = candidate_word(key_hash, np.uint64(state.options[SEED]), 0)
    home = upper_range(word, state.loads.size)
    row = _count(state, key_hash, home, weight)
    best = home if row == NO_ROW else _choose(state, row)
    state.loads[best] += weight
    state.load_ring[state.clock[NOW_ROW] * state.loads.size + best] += weight
    state.amounts[WINDOW_LOAD] += weight
    if best == state.words[LEAST]:
        state.words[LEAST] = UNKNOWN
    return best


@borrowing
def _route_rows(
    state: View,
    key_hashes: KeyHashes,
    timestamps_ms: TimestampsMs,
    weights: Loads,
    out: Partitions,
) -> None:
    weighted = weights.size > 0
    for row in range(key_hashes.size):
        weight = weights[row] if weighted else 1.0
        out[row] = _step(state, key_hashes[row], timestamps_ms[row], weight)


@kernel
def _route(
    key_hashes: KeyHashes,
    timestamps_ms: TimestampsMs,
    weights: Loads,
    packed: npt.NDArray[np.int64],
    out: Partitions,
) -> None:
    _route_rows(_open_view(packed), key_hashes, timestamps_ms, weights, out)


@ScalarKernel
def _route_one(key_hash: int, timestamp_ms: int | None, address: int) -> int:
    state = _open_view(handles_at(address))
    return _step(state, np.uint64(key_hash), given_or_now(timestamp_ms), 1.0)


class DAGreedy(Partitioner):
    """Greedy by distribution-aware score; see the module's docstring.

    Example:
        >>> from partitioners import create
        >>> dagreedy = create("dagreedy", 4, window_ms=1000, slide_ms=100)
        >>> partitions = dagreedy.partition_batch(["hot", "a", "hot", "b"] * 500, range(2000))
        >>> len(set(partitions[1000::2].tolist())), len(set(partitions[1::4].tolist()))
        (2, 1)
    """

    name = "dagreedy"
    config_type = DAGreedyConfig
    traits = Traits(splits_keys=True, uses_time=True)
    scalar_kernel = _route_one
    config: DAGreedyConfig
    _state: DAGreedyState

    def _new_state(self) -> DAGreedyState:
        n = self.num_partitions
        slots = 1 << (COUNTED_KEYS_PER_PARTITION * n - 1).bit_length()
        rows = HOT_KEYS_PER_PARTITION * n
        clock = new_clock(self.config.window_ms, self.config.slide_ms)
        words = np.zeros(WORD_FIELDS, np.int64)
        words[INTERVAL] = words[INTERVAL_END_MS] = words[SWEPT] = NO_TIME_YET
        words[LEAST] = UNKNOWN
        words[NUM_FREE] = rows
        amounts = np.zeros(AMOUNT_FIELDS)
        amounts[THRESHOLD] = np.inf
        return DAGreedyState(
            clock=clock,
            words=words,
            amounts=amounts,
            loads=np.zeros(n),
            load_ring=np.zeros(self.config.window_ms // self.config.slide_ms * n),
            key_hashes=np.zeros(slots, np.uint64),
            counted_in=np.full(slots, NO_TIME_YET, np.int64),
            counts=np.zeros(slots),
            row_of=np.full(slots, NO_ROW, np.int32),
            hot_until=np.full(rows, NO_TIME_YET, np.int64),
            slot_of=np.zeros(rows, np.int32),
            num_held=np.zeros(rows, np.int32),
            held=np.zeros(rows * n, np.int32),
            held_panes=np.zeros(rows * n, np.int64),
            free_rows=np.arange(rows - 1, -1, -1, dtype=np.int32),
        )

    def _bind(self) -> None:
        config, state = self.config, self._state
        interval_ms = config.interval_ms or config.slide_ms
        self._options = np.array([seed_word(config.seed).astype(np.int64), interval_ms], np.int64)
        self._rates = np.array([config.hot_fraction, config.balance_weight], np.float64)
        self._handles = handles(
            *(getattr(state, field.name) for field in fields(state)), self._options, self._rates
        )

    def route(
        self,
        key_hashes: KeyHashes,
        timestamps_ms: TimestampsMs,
        out: Partitions,
        weights: Loads | None = None,
    ) -> None:
        """Choose partitions; see ``Partitioner.route``."""
        loads = NO_WEIGHTS if weights is None else weights
        _route(key_hashes, timestamps_ms, loads, self._handles, out)
