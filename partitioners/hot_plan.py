"""Which partitions a hot key of ``hot_fill`` may use: what is remembered, and the plan from it.

What is remembered is a table of the heaviest keys, 8 slots to a bucket, each bucket a SpaceSaving
of its own, and the load of every partition *as if each key went to its first candidate*. Both fade
with event time. From these, ``make_plan`` says how much room each partition has left and fills it:

    loads of tail keys   keys of rising load: home if there is room, else what is left elsewhere
    p0 ######            ##........|           one bar per partition, | is the mean + tolerance
    p1 ##########        #XXXXXXXXX|           ## tail, . a hot key that fits, X the hottest, last
    p2 ###               XXXXXXXXXX|

Small keys choose first and so stay whole; the hottest, which must be split anyway, levels what all
others left uneven. Every share that a key gets ends either the key or the room of a partition, so
all plans together hold at most one home per hot key and one more per partition.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from partitioners._borrow import borrowing, borrowing_step
from partitioners._jit import as_int64
from partitioners.hashing import fill_candidates, two_candidates
from partitioners.panes import NEXT_PANE_MS, new_clock

WAYS = 8
SLOTS_PER_PARTITION = 16
PERIOD_RECORDS = 16  # records per partition from one plan to the next
CHECK_RECORDS = 1  # records per partition from one test for drift to the next
FIRST_CHECK_RECORDS = 2  # to the first one after a plan: of fewer, chance would show drifts
TRAIL_KEEP = 0.75  # of the trail of past periods, per plan: it reaches back about four
YOUNG_PARTS = 4  # while little is known: a plan whenever what is known grew by a fourth

# While less than a period is known, shares come from a handful of records. A limit with room for
# their error, in standard errors, gives fewer homes, and hardly one that is given up again.
YOUNG_NOISE = 2.0

SURE_RECORDS = 8.0  # a key is hot only if this many records of it are certain
COOL_FRACTION = 0.5  # a hot key stays hot down to this part of the limit
HELD_FRACTION = 0.5  # a home that is held needs only this part of the room a new one needs
# Rooms are sought of at least this part of the mean load, then of half of it, and so on. Large
# rooms first means few homes; but sources that know loads badly would not agree on the largest.
LARGEST_ROOM = 0.8
LARGEST_ROOM_COARSE = 0.32
FINE_RECORDS = 500.0  # records remembered per partition, from which on loads are known well
SMALLEST_ROOM = 0.02
VALVE_STEP = 0.1  # part of the way a valve goes to where it should be, per plan
VALVE_NOISE = 2.0  # standard errors a partition must be over the level for its valve to open
VALVE_ROOM = 0.25  # standard errors of the level above the mean: less is chance
SHUT = 0.002

# Fields of ``numbers``.
TOTAL = 0  # all that is remembered
FRESH = 1  # load since the last plan
FRESH_SQUARES = 2  # sum of squares of these records' loads
TRAIL = 3  # sum of the trail
TRAIL_SQUARES = 4  # sum of the same loads, weakened twice: what its variance goes by
PANE_BEGAN = 5  # what FRESH was when the pane began, less what plans have taken from it since
WIDTH = 6  # how far above the mean a home must be, that its tail keys go to their second candidate
NUMBER_FIELDS = 7

# Fields of ``moments``.
PERIOD = 0  # records since the last plan
AGE = 1  # records remembered, of about the present stream
PLANNED_MS = 2  # end of the pane in which the last plan was made
NUM_PLANS = 3
NUM_DRIFTS = 4
DUE_AT = 5  # records since the last plan at which the next is made
CHECK_AT = 6  # and at which to look whether it is, or drift is
MOMENT_FIELDS = 7
NEVER = np.iinfo(np.int64).min

# Fields of ``options``.
SEED = 0
# Fields of ``settings``.
TOLERANCE = 0
HOT_FRACTION = 1
MEMORY_MS = 2
DRIFT_SIGMAS = 3
VALVE = 4  # 1: valves may open
LEVEL_KEEP = 5  # of the loads that are levelled, per pane
OVERFLOW_SIGMAS = 6  # inf: never

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


@dataclass
class HotState:
    """State of one partitioner: n partitions, m panes, c slots."""

    clock: npt.NDArray[np.int64]  # int64[CLOCK_FIELDS], see panes.py
    loads: npt.NDArray[np.float64]  # float64[n]: load above the mean, what is levelled
    load_ring: npt.NDArray[np.float64]  # float64[m * n]
    window_loads: npt.NDArray[np.float64]  # float64[n]: of the live window before this pane
    recent_loads: npt.NDArray[np.float64]  # float64[n]: before this pane, fading
    key_hashes: npt.NDArray[np.uint64]  # uint64[c]
    counts: npt.NDArray[np.float64]  # float64[c]: remembered load, an upper bound; 0: free
    errors: npt.NDArray[np.float64]  # float64[c]: how much of it may be of other keys
    planned_counts: npt.NDArray[np.float64]  # float64[c]: counts at the last plan
    num_homes: npt.NDArray[np.int32]  # int32[c]; 0: not hot
    first_home: npt.NDArray[np.int32]  # int32[c]: where in homes this key's begin
    homes: npt.NDArray[np.int32]  # int32[c + n]
    first_loads: npt.NDArray[np.float64]  # float64[n]: remembered, by first candidate
    fresh_loads: npt.NDArray[np.float64]  # float64[n]: of these, since the last plan
    guest_loads: npt.NDArray[np.float64]  # float64[n]: tail load by a second candidate
    valves: npt.NDArray[np.float64]  # float64[n]: part of the tail sent to its second candidate
    trail_loads: npt.NDArray[np.float64]  # float64[n]: fresh loads of past periods, weakened
    numbers: npt.NDArray[np.float64]  # float64[NUMBER_FIELDS]
    moments: npt.NDArray[np.int64]  # int64[MOMENT_FIELDS]


class View(NamedTuple):
    """State, options and room to work in, as kernels see them."""

    clock: npt.NDArray[np.int64]
    loads: npt.NDArray[np.float64]
    load_ring: npt.NDArray[np.float64]
    window_loads: npt.NDArray[np.float64]
    recent_loads: npt.NDArray[np.float64]
    key_hashes: npt.NDArray[np.uint64]
    counts: npt.NDArray[np.float64]
    errors: npt.NDArray[np.float64]
    planned_counts: npt.NDArray[np.float64]
    num_homes: npt.NDArray[np.int32]
    first_home: npt.NDArray[np.int32]
    homes: npt.NDArray[np.int32]
    first_loads: npt.NDArray[np.float64]
    fresh_loads: npt.NDArray[np.float64]
    guest_loads: npt.NDArray[np.float64]
    valves: npt.NDArray[np.float64]
    trail_loads: npt.NDArray[np.float64]
    numbers: npt.NDArray[np.float64]
    moments: npt.NDArray[np.int64]
    options: npt.NDArray[np.int64]
    settings: npt.NDArray[np.float64]
    levels: npt.NDArray[np.float64]  # [n]: load planned so far
    held: npt.NDArray[np.int32]  # [n]: 1 where the key in hand has a home
    order: npt.NDArray[np.int32]  # [c]: slots of hot keys
    old_homes: npt.NDArray[np.int32]  # [c + n]
    identity: npt.NDArray[np.int32]  # [n], see hashing.fill_candidates
    ranked: npt.NDArray[np.int32]  # [n]: candidates of the key in hand


def num_slots(num_partitions: int) -> int:
    """Return the slots of the table: a power of two, at least 16 per partition."""
    return 1 << (SLOTS_PER_PARTITION * num_partitions - 1).bit_length()


@borrowing_step
def candidates_of(state: View, key_hash: np.uint64) -> tuple[int, int]:
    """Give the first two candidates of a key."""
    if state.loads.size == 1:
        return 0, 0
    return two_candidates(key_hash, np.uint64(state.options[SEED]), state.loads.size, True)


@borrowing_step
def slot_of(state: View, key_hash: np.uint64) -> int:
    """Find the slot of a key; a new one takes over the lightest of its bucket, and its count."""
    buckets = state.counts.size // WAYS
    bucket = as_int64((key_hash * _GOLDEN) >> np.uint64(32)) & (buckets - 1)
    base = bucket * WAYS
    for slot in range(base, base + WAYS):
        if state.key_hashes[slot] == key_hash and state.counts[slot] > 0.0:
            return slot
    lightest = base
    for slot in range(base + 1, base + WAYS):
        if state.counts[slot] < state.counts[lightest]:
            lightest = slot
    state.key_hashes[lightest] = key_hash
    state.errors[lightest] = state.counts[lightest]
    state.planned_counts[lightest] = state.counts[lightest]
    state.num_homes[lightest] = 0
    return lightest


@borrowing
def has_drifted(state: View, unit: float) -> bool:
    """Test whether the records since the last plan come from another distribution than before.

    A chi-square test over partitions, each key counted at its first candidate: no key need be
    known for it, and it costs O(n).

    Args:
        state: The state.
        unit: Load of a typical record, so that loads become numbers of records.
    """
    n = state.loads.size
    total, fresh = state.numbers[TOTAL], state.numbers[FRESH]
    if state.settings[DRIFT_SIGMAS] == 0.0 or n == 1 or total <= fresh:
        return False
    # A drift of mild keys shows only over some periods, that of hot ones within one.
    trail = state.numbers[TRAIL] + fresh
    squares = state.numbers[TRAIL_SQUARES] + fresh
    smooth = total + n * unit
    per_load = 1.0 / smooth
    now, before, rare = 0.0, 0.0, 0.0
    for partition in range(n):
        expected = state.first_loads[partition] + unit
        share, by_share = expected * per_load, smooth / expected
        off = state.fresh_loads[partition] - fresh * share
        now += off * off * by_share
        off = state.trail_loads[partition] + state.fresh_loads[partition] - trail * share
        before += off * off * by_share
        rare += by_share
    now /= fresh * (1.0 + fresh / total) * unit
    before /= squares * (1.0 + squares / total) * unit
    # Of counts, chi-square varies by 2 n and by one over what is expected of each.
    sigmas, rare = state.settings[DRIFT_SIGMAS], rare * unit
    return bool(
        now > n + sigmas * math.sqrt(2.0 * n + rare / fresh)
        or (before > n + sigmas * math.sqrt(2.0 * n + rare / squares) and trail < total)
    )


@borrowing
def _fade(state: View, drifted: bool) -> float:
    """Add what is fresh to what is remembered, weaken the latter; return the mean load."""
    n = state.loads.size
    fresh = state.numbers[FRESH]
    # After a drift the past weighs no more than the records that showed it.
    keep = fresh / state.numbers[TOTAL] if drifted else 1.0
    elapsed_ms = 0.0
    if state.moments[PLANNED_MS] != NEVER:
        elapsed_ms = float(state.clock[NEXT_PANE_MS]) - float(state.moments[PLANNED_MS])
    fading = 1.0 / (1.0 + elapsed_ms / state.settings[MEMORY_MS])
    total = 0.0
    weaken = 0.0 if drifted else TRAIL_KEEP
    state.numbers[TRAIL] = weaken * (state.numbers[TRAIL] + fresh)
    state.numbers[TRAIL_SQUARES] = weaken * weaken * (state.numbers[TRAIL_SQUARES] + fresh)
    for partition in range(n):
        trail = state.trail_loads[partition] + state.fresh_loads[partition]
        state.trail_loads[partition] = weaken * trail
        load = (state.first_loads[partition] * keep + state.fresh_loads[partition]) * fading
        state.first_loads[partition] = load
        state.fresh_loads[partition] = 0.0
        state.guest_loads[partition] *= keep * fading
        total += load
    for slot in range(state.counts.size):
        old = state.planned_counts[slot]
        state.counts[slot] = (old * keep + (state.counts[slot] - old)) * fading
        state.errors[slot] *= keep * fading
        state.planned_counts[slot] = state.counts[slot]
    state.numbers[TOTAL] = total
    state.numbers[FRESH] = 0.0
    state.numbers[PANE_BEGAN] -= fresh
    state.numbers[FRESH_SQUARES] = 0.0
    if drifted:
        state.moments[AGE] = state.moments[PERIOD]
        state.moments[NUM_DRIFTS] += 1
    state.moments[AGE] += state.moments[PERIOD]
    state.moments[PERIOD] = 0
    state.moments[PLANNED_MS] = state.clock[NEXT_PANE_MS]
    state.moments[NUM_PLANS] += 1
    young = max(n, state.moments[AGE] // YOUNG_PARTS)
    state.moments[DUE_AT] = min(PERIOD_RECORDS * n, young)
    state.moments[CHECK_AT] = min(state.moments[DUE_AT], FIRST_CHECK_RECORDS * n)
    return total / n


@borrowing
def _find_hot(state: View, mean: float, unit: float) -> int:
    """List the slots of hot keys in ``order``, lightest first; return how many there are."""
    num_hot = 0
    for slot in range(state.counts.size):
        limit = state.settings[HOT_FRACTION] * mean
        if state.num_homes[slot] > 0:
            limit *= COOL_FRACTION
        sure = state.counts[slot] - state.errors[slot]
        if sure > 0.0 and sure >= limit and sure >= SURE_RECORDS * unit:
            state.order[num_hot] = slot
            num_hot += 1
        else:
            state.num_homes[slot] = 0
    gap = 1
    while gap < num_hot:
        gap = 3 * gap + 1
    while gap > 1:  # Shell's sort: in place, and no worse than the loop over records around it
        gap //= 3
        for position in range(gap, num_hot):
            slot = state.order[position]
            before = position - gap
            while before >= 0 and _heavier(state, state.order[before], slot):
                state.order[before + gap] = state.order[before]
                before -= gap
            state.order[before + gap] = slot
    return num_hot


@borrowing_step
def _heavier(state: View, slot: int, other: int) -> bool:
    if state.counts[slot] == state.counts[other]:
        return slot > other
    return bool(state.counts[slot] > state.counts[other])


@borrowing
def _set_valves(state: View, level: float, noise: float) -> None:
    """Open the valve of each partition that its tail keys alone overload, as far as it takes."""
    for partition in range(state.loads.size):
        own = max(state.levels[partition], 0.0)
        guests = state.guest_loads[partition]
        valve = state.valves[partition]
        wanted = 0.0
        if (
            state.settings[VALVE] == 1.0
            and own > 0.0
            and own + guests > level + (VALVE_NOISE * noise if valve == 0.0 else 0.0)
        ):
            wanted = min(1.0, max(0.0, 1.0 - (level - guests) / own))
        valve += VALVE_STEP * (wanted - valve)
        if valve < SHUT:
            valve = 0.0
        state.valves[partition] = valve
        state.levels[partition] = own * (1.0 - valve) + guests


@borrowing
def _spread(
    state: View, slot: int, mean: float, limit: float, largest_room: float, used: int
) -> int:
    """Give a key that does not fit at home the rooms it needs, in the order of its candidates.

    Large rooms first, for fewer homes; at equal size in an order that follows from the key, so that
    sources which never talk choose the same. Returns how many homes it got.
    """
    n = state.loads.size
    fill_candidates(
        state.key_hashes[slot], np.uint64(state.options[SEED]), True, state.identity, state.ranked
    )
    first = state.first_home[slot]
    for index in range(first, first + state.num_homes[slot]):
        state.held[state.old_homes[index]] = 1
    rest = state.counts[slot]
    num_homes = 0
    room_fraction = largest_room
    while rest > 0.0 and room_fraction >= SMALLEST_ROOM:
        for rank in range(n):
            partition = state.ranked[rank]
            room = limit - state.levels[partition]
            least = room_fraction * mean
            if state.held[partition] == 1:
                least *= HELD_FRACTION
            if room > 0.0 and room >= min(rest, least):
                share = min(room, rest)
                # Exactly full, so that no rounding error leaves a room.
                state.levels[partition] = (
                    limit if share == room else (state.levels[partition] + share)
                )
                rest -= share
                state.homes[used + num_homes] = partition
                num_homes += 1
                if rest <= 0.0:
                    break
        room_fraction *= 0.5
    for index in range(first, first + state.num_homes[slot]):
        state.held[state.old_homes[index]] = 0
    if num_homes == 0:
        state.homes[used] = state.ranked[0]
        num_homes = 1
    for index in range(used, used + num_homes):
        if rest > 0.0:
            state.levels[state.homes[index]] += rest / num_homes
    return num_homes


@borrowing
def make_plan(state: View, drifted: bool) -> None:
    """Give every hot key its homes, and every valve its place, from what is remembered."""
    n = state.loads.size
    unit = state.numbers[FRESH_SQUARES] / state.numbers[FRESH]
    mean = _fade(state, drifted)
    noise = math.sqrt(mean * unit)  # the standard error of a load that is only counted
    level = mean
    if state.moments[AGE] < PERIOD_RECORDS * n:
        level += YOUNG_NOISE * noise
    limit = level + state.settings[TOLERANCE] * mean
    state.numbers[WIDTH] = state.settings[OVERFLOW_SIGMAS] * noise
    largest_room = LARGEST_ROOM if mean >= FINE_RECORDS * unit else LARGEST_ROOM_COARSE
    num_hot = _find_hot(state, mean, unit)
    for partition in range(n):
        state.levels[partition] = state.first_loads[partition]
    for index in range(num_hot):
        slot = state.order[index]
        first, _ = candidates_of(state, state.key_hashes[slot])
        state.levels[first] -= state.counts[slot]
    room = min(state.settings[TOLERANCE] * mean, VALVE_ROOM * noise)
    _set_valves(state, level + room, noise)
    for index in range(state.homes.size):
        state.old_homes[index] = state.homes[index]
    used = 0
    for index in range(num_hot):
        slot = state.order[index]
        first, _ = candidates_of(state, state.key_hashes[slot])
        if state.levels[first] + state.counts[slot] <= limit + noise:
            state.levels[first] += state.counts[slot]
            state.homes[used] = first
            num_homes = 1
        else:
            num_homes = _spread(state, slot, mean, limit, largest_room, used)
        state.first_home[slot] = used
        state.num_homes[slot] = num_homes
        used += num_homes


@borrowing
def plan_if_due(state: View) -> None:
    """Make a plan if it is time or the stream drifted; call at ``moments[CHECK_AT]`` records."""
    due = state.moments[PERIOD] >= state.moments[DUE_AT]
    fresh = state.numbers[FRESH]
    if fresh > 0.0:
        drifted = has_drifted(state, state.numbers[FRESH_SQUARES] / fresh)
        if due or drifted:
            make_plan(state, drifted)
            return
    check_at = state.moments[PERIOD] + CHECK_RECORDS * state.loads.size
    if not due:
        check_at = min(check_at, state.moments[DUE_AT])
    state.moments[CHECK_AT] = check_at


def new_hot_state(num_partitions: int, window_ms: int, slide_ms: int) -> HotState:
    """Make the state of a source that has sent nothing.

    Args:
        num_partitions: Number of partitions.
        window_ms: Window over which loads are levelled.
        slide_ms: Its slide.

    Returns:
        The state: about 800 bytes per partition, and 8 more per pane of a window.
    """
    n, slots = num_partitions, num_slots(num_partitions)
    numbers = np.zeros(NUMBER_FIELDS)
    numbers[WIDTH] = math.inf
    moments = np.zeros(MOMENT_FIELDS, np.int64)
    moments[PLANNED_MS] = NEVER
    moments[DUE_AT] = moments[CHECK_AT] = n
    return HotState(
        clock=new_clock(window_ms, slide_ms),
        loads=np.zeros(n),
        load_ring=np.zeros(window_ms // slide_ms * n),
        window_loads=np.zeros(n),
        recent_loads=np.zeros(n),
        key_hashes=np.zeros(slots, np.uint64),
        counts=np.zeros(slots),
        errors=np.zeros(slots),
        planned_counts=np.zeros(slots),
        num_homes=np.zeros(slots, np.int32),
        first_home=np.zeros(slots, np.int32),
        homes=np.zeros(slots + n, np.int32),
        first_loads=np.zeros(n),
        fresh_loads=np.zeros(n),
        guest_loads=np.zeros(n),
        valves=np.zeros(n),
        trail_loads=np.zeros(n),
        numbers=numbers,
        moments=moments,
    )
