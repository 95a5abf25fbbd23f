"""Hot fill: small keys stay at home, hot keys fill the room that is left, the hottest last.

Every key has a home, its first candidate. The keys heavy enough to matter are known from a table of
fixed size, and every few records a plan is made: how loaded is each partition by its tail, which
hot keys fit at home on top of it, lightest first, and where is room for those that do not fit. The
hottest keys come last and have to be split anyway, so they level what all the others left uneven;
each of their records takes the least loaded of the key's homes. So imbalance stays within a chosen
``tolerance`` while hardly a key is split that need not be. Where tail keys alone overload a
partition, a *valve* sends a part of them, always the same ones, to their second candidate. (What a
window deviates by chance only ``overflow_sigmas`` levels where no key is hot, at a price.) A
chi-square test on the loads by first candidate, those since the last plan and a fading sum of those
of the last few, notices drift, and so does a run of records whose keys have no plan; the past is
then forgotten.

Papers: none; it is our own, of 2026, and docs/decisions/0003-hot-fill.md has measurements and the
ways that lost. Its parts are known: keys that matter one by one, of Nasir et al., ICDE 2016,
section III; balance and fragmentation as one aim, of Zapridou et al., "Dalton", VLDB 2022, section
2; the table of heavy keys, of Metwally et al., ICDT 2005, section 3.1.

=============== ==================================================================================
term            here
=============== ==================================================================================
home            a partition that a key may use; the first is column 0 of ``hashing.candidates``
room            ``limit``, (1 + ``tolerance``) x mean load at most, less what is planned already
memory          loads and counts, fading with event time over ``memory_windows`` windows
=============== ==================================================================================

Cost per record O(1), O(homes) for a split key; a plan after every 16 records per partition, O(1)
per record of it. Memory about 1 kB and 8 ``window_ms / slide_ms`` bytes per partition, whatever the
number of keys.

Several sources need not talk: homes follow from key, seed and shares, and each source sees about
the same shares. With 16 sources fragmentation grows by a few thousandths where keys are skewed, and
by a few hundredths where hot keys change.

Not for you where a key's records must stay in order or on one partition (``key_hash``,
``key_groups``); where no key is hot: hashing is almost as good then, the valve pays a few per cent
of balance with 1 % of fragmentation (``valve=False``), and one source with room for a table of all
keys balances better and keeps them whole (``cam``); where each source sees fewer than about 50
records per partition and window, for shares are noise then (``pkg``, ``w_choices``).

Departures: W-Choices spreads each hot key over all partitions and gives every other key two;
Dalton learns by trial which partitions a key should have, here they are computed from shares.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

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
from partitioners.hashing import seed_word
from partitioners.hot_plan import plan_if_due
from partitioners.hot_state import (
    CHECK_AT,
    FRESH,
    FRESH_SQUARES,
    LEVEL_KEEP,
    LOOK_AT,
    MISSES,
    NUM_DRIFTS,
    PANE_BEGAN,
    PERIOD,
    TOTAL,
    WIDTH,
    HotState,
    View,
    candidates_of,
    new_hot_state,
    slot_of,
)
from partitioners.panes import NEXT_PANE_MS, NOW_ROW, advance_clock, num_panes, open_panes

TOLERANCE_PER_ROOT = 0.0075
# A partition with too much in the window takes less. One with too little takes more only where it
# has too little in the last third too: filled at once, it would have too much in the next windows.
LEVELS_PER_WINDOW = 3.0


@dataclass(frozen=True, kw_only=True)
class HotFillConfig(Config):
    """Options of ``hot_fill``.

    Attributes:
        window_ms: Window over which loads are levelled; give that of the query.
        slide_ms: Its slide, which divides it; None: a tenth of the window or, where that does not
            divide it, the whole.
        tolerance: How far a partition may be above the mean load. Planned is less, by half a
            standard error of a load as the source knows it, but 0.02 or the tolerance at least: so
            errors of many sources that add up stay within it. Less: better balance, more
            fragmentation. None: 0.0075 (sqrt(n) - 1), at most 0.1, for with more partitions each
            load is less certain (0.0225 at 16 partitions, 0.0525 at 64).
        hot_fraction: Keys from this part of a partition's mean load on are planned one by one.
        memory_windows: Shares are remembered over so many windows; longer is steadier, for sources
            that see few records.
        drift_sigmas: How surprising loads, or records of keys without a plan, must be to forget the
            past; 0: never.
        valve: Whether tail keys may go to a second candidate where they alone overload a partition.
        overflow_sigmas: Records of tail keys go to the second candidate while the first has more
            than the mean, and than the second, by so many standard errors of its load; 0: never.
            1 to 2 is better balance where no key is hot, for more split keys.
        seed: Places the homes of each key; any 64-bit integer.
    """

    window_ms: int = 60_000
    slide_ms: int | None = None
    tolerance: float | None = None
    hot_fraction: float = 0.1
    memory_windows: float = 2.0
    drift_sigmas: float = 12.0
    valve: bool = True
    overflow_sigmas: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        self.require_range("window_ms", 1, 1 << 53)
        if self.slide_ms is not None:
            self.require_range("slide_ms", 1, 1 << 53)
        num_panes(self.window_ms, self.pane_ms)
        if self.tolerance is not None:
            self.require_range("tolerance", 0.0, 1.0)
        self.require_range("hot_fraction", 0.01, 1.0)
        self.require_range("memory_windows", 0.1, 1000.0)
        self.require_range("drift_sigmas", 0.0, 1e6)
        self.require_bool("valve")
        self.require_range("overflow_sigmas", 0.0, 1e6)
        self.require_range("seed", -(1 << 63), (1 << 64) - 1)

    @property
    def pane_ms(self) -> int:
        """Slide in force."""
        if self.slide_ms is not None:
            return self.slide_ms
        return self.window_ms // 10 if self.window_ms % 10 == 0 else self.window_ms


@borrowing_step
def _least_loaded_home(state: View, slot: int) -> int:
    first = state.first_home[slot]
    best = as_int64(state.homes[first])
    lowest = state.loads[best]
    for index in range(first + 1, first + state.num_homes[slot]):
        home = as_int64(state.homes[index])
        load = state.loads[home]
        best = home if load < lowest else best
        lowest = load if load < lowest else lowest
    return best


@borrowing_step
def _stays(key_hash: np.uint64, valve: float) -> bool:
    """Say whether a tail key stays with its first candidate; each key has a place of its own."""
    place = float((key_hash * np.uint64(0xD6E8FEB86659FD93)) >> np.uint64(40))
    return place * 2.0**-24 >= valve


@borrowing_step
def _overflows(state: View, home: int, second: int) -> bool:
    width = state.numbers[WIDTH]
    load = state.loads[home]
    mean = (state.numbers[FRESH] - state.numbers[PANE_BEGAN]) / state.loads.size
    return bool(load > mean + width and load > state.loads[second] + width)


@borrowing_step
def _place_of_tail(state: View, key_hash: np.uint64, first: int, second: int, weight: float) -> int:
    if state.valves[first] == 0.0 or _stays(key_hash, state.valves[first]):
        return second if _overflows(state, first, second) else first
    state.guest_loads[second] += weight
    return second


@borrowing
def _open_pane(state: View, timestamp_ms: int) -> None:
    """Take up the pane that ends, and say how far each partition is above the mean."""
    n = state.loads.size
    row = state.clock[NOW_ROW] * n
    for partition in range(n):
        load = state.load_ring[row + partition]
        state.window_loads[partition] += load
        state.recent_loads[partition] += load
    state.numbers[PANE_BEGAN] = state.numbers[FRESH]
    opened = advance_clock(state.clock, timestamp_ms)
    open_panes(state.clock, opened, state.load_ring, state.window_loads)
    keep, window, recent = 1.0, 0.0, 0.0
    for _ in range(opened):
        keep *= state.settings[LEVEL_KEEP]
    for partition in range(n):
        state.recent_loads[partition] *= keep
        window += state.window_loads[partition]
        recent += state.recent_loads[partition]
    for partition in range(n):
        state.loads[partition] = max(
            state.window_loads[partition] - window / n, state.recent_loads[partition] - recent / n
        )


@borrowing_step
def _step(state: View, key_hash: np.uint64, timestamp_ms: int, weight: float) -> int:
    if timestamp_ms >= state.clock[NEXT_PANE_MS]:
        _open_pane(state, timestamp_ms)
    first, second = candidates_of(state, key_hash)
    slot = slot_of(state, key_hash)
    if state.num_homes[slot] > 0:
        best = _least_loaded_home(state, slot)
    elif state.valves[first] == 0.0 or _stays(key_hash, state.valves[first]):
        best = first
        if _overflows(state, first, second):
            best = second
    else:
        best = second
        state.guest_loads[second] += weight
    state.counts[slot] += weight
    state.fresh_loads[first] += weight
    state.numbers[FRESH] += weight
    state.numbers[FRESH_SQUARES] += weight * weight
    state.loads[best] += weight
    state.load_ring[state.clock[NOW_ROW] * state.loads.size + best] += weight
    state.moments[PERIOD] += 1
    state.moments[MISSES] += as_int64(state.num_homes[slot] == 0)
    if (
        state.moments[PERIOD] >= state.moments[CHECK_AT]
        or state.moments[MISSES] >= state.moments[LOOK_AT]
    ):
        plan_if_due(state)
    return best


@inlined
def _open_view(packed: npt.NDArray[np.int64]) -> View:
    """Open the handles that ``HotFill._bind`` made."""
    return View(
        int64_at(packed, 0),
        float64_at(packed, 1),
        float64_at(packed, 2),
        float64_at(packed, 3),
        float64_at(packed, 4),
        uint64_at(packed, 5),
        float64_at(packed, 6),
        float64_at(packed, 7),
        float64_at(packed, 8),
        int32_at(packed, 9),
        int32_at(packed, 10),
        int32_at(packed, 11),
        float64_at(packed, 12),
        float64_at(packed, 13),
        float64_at(packed, 14),
        float64_at(packed, 15),
        float64_at(packed, 16),
        float64_at(packed, 17),
        int64_at(packed, 18),
        int64_at(packed, 19),
        float64_at(packed, 20),
        float64_at(packed, 21),
        int32_at(packed, 22),
        int32_at(packed, 23),
        int32_at(packed, 24),
        int32_at(packed, 25),
        int32_at(packed, 26),
    )


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


class HotFill(Partitioner):
    """Hot keys fill the room that the others leave; see the module's docstring.

    Example:
        >>> from partitioners import create
        >>> hot_fill = create("hot_fill", 4, window_ms=1000)
        >>> keys = ["hot", "warm", "hot", "a", "hot", "b", "hot", "c"] * 500
        >>> partitions = hot_fill.partition_batch(keys, range(4000))[2000:]
        >>> [len(set(partitions[rows].tolist())) for rows in (np.s_[::2], np.s_[1::8], np.s_[3::8])]
        [3, 1, 1]
    """

    name = "hot_fill"
    config_type = HotFillConfig
    traits = Traits(splits_keys=True, uses_time=True)
    scalar_kernel = _route_one
    config: HotFillConfig
    _state: HotState

    @property
    def tolerance(self) -> float:
        """Tolerance in force."""
        if self.config.tolerance is not None:
            return float(self.config.tolerance)
        return min(0.1, TOLERANCE_PER_ROOT * (math.sqrt(self.num_partitions) - 1.0))

    @property
    def num_drifts(self) -> int:
        """How often the past was forgotten."""
        return int(self._state.moments[NUM_DRIFTS])

    def hot_keys(self) -> list[tuple[int, float, list[int]]]:
        """List (key hash, share of the stream, homes) of the keys planned now, heaviest first."""
        state = self._state
        slots = np.flatnonzero(state.num_homes)
        slots = slots[np.argsort(-state.counts[slots], kind="stable")]
        total = state.numbers[TOTAL] + state.numbers[FRESH]
        return [
            (
                int(state.key_hashes[slot]),
                float(state.counts[slot] / total),
                state.homes[
                    state.first_home[slot] : state.first_home[slot] + state.num_homes[slot]
                ].tolist(),
            )
            for slot in slots
        ]

    def _new_state(self) -> HotState:
        return new_hot_state(self.num_partitions, self.config.window_ms, self.config.pane_ms)

    def _bind(self) -> None:
        config, state = self.config, self._state
        n, slots = self.num_partitions, state.counts.size
        self._options = np.array([seed_word(config.seed).astype(np.int64)], np.int64)
        self._settings = np.array(
            [
                self.tolerance,
                config.hot_fraction,
                config.memory_windows * config.window_ms,
                config.drift_sigmas,
                config.valve,
                math.exp(-LEVELS_PER_WINDOW * config.pane_ms / config.window_ms),
                config.overflow_sigmas or math.inf,
            ],
            np.float64,
        )
        self._levels = np.zeros(n)
        self._held = np.zeros(n, np.int32)
        self._order = np.zeros(slots, np.int32)
        self._old_homes = np.zeros(slots + n, np.int32)
        self._identity = np.arange(n, dtype=np.int32)
        self._ranked = np.zeros(n, np.int32)
        self._handles = handles(
            *(getattr(state, field.name) for field in fields(state)),
            self._options,
            self._settings,
            self._levels,
            self._held,
            self._order,
            self._old_homes,
            self._identity,
            self._ranked,
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
