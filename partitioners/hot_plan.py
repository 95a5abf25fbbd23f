"""Which partitions a hot key of ``hot_fill`` may use: the plan.

What is remembered (hot_state.py) fades with event time. From it, ``make_plan`` says how much room
each partition has left and fills it:

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

import numpy as np

from partitioners._borrow import borrowing, borrowing_step
from partitioners.hashing import fill_candidates
from partitioners.hot_drift import (
    first_plan_at,
    forget,
    has_drifted,
    hot_keys_are_gone,
    learn_misses,
)
from partitioners.hot_state import (
    AGE,
    CHECK_AT,
    DUE_AT,
    FRESH,
    FRESH_SQUARES,
    HOT_FRACTION,
    LOOK_AT,
    MEMORY_MS,
    MISSES,
    NEVER,
    NUM_DRIFTS,
    NUM_PLANS,
    OVERFLOW_SIGMAS,
    PANE_BEGAN,
    PERIOD,
    PERIOD_RECORDS,
    PLANNED_MS,
    SEED,
    TOLERANCE,
    TOTAL,
    TRAIL,
    TRAIL_SQUARES,
    VALVE,
    WIDTH,
    View,
    candidates_of,
)
from partitioners.panes import NEXT_PANE_MS

CHECK_RECORDS = 1  # records per partition from one test for drift to the next
FIRST_CHECK_RECORDS = 2  # to the first one after a plan: of fewer, chance would show drifts
TRAIL_KEEP = 0.75  # of the trail of past periods, per plan: it reaches back about four
YOUNG_PARTS = 4  # while little is known: a plan whenever what is known grew by a fourth

# What is planned above the mean is less than the tolerance by this part of a load's standard error,
# for what one source does not know adds up over sources; but no less than this part of the mean.
UNKNOWN_SIGMAS = 0.5
LEAST_TOLERANCE = 0.02
# While less than a period is known, shares come from a handful of records. A limit with room for
# their error, in standard errors, gives fewer homes, and hardly one that is given up again; and a
# tail is too much for its partition only beyond it. After a drift hot keys are there for certain,
# in partitions that the window has filled: then there is no time for that, but for the tail.
YOUNG_NOISE = 2.0

SURE_RECORDS = 8.0  # a key is hot only if this many records of it are certain
SURE_RECORDS_DRIFTED = 4.0  # the same, on a stream that has drifted
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
    learn_misses(state, drifted)
    state.moments[AGE] += state.moments[PERIOD]
    state.moments[PERIOD] = 0
    state.moments[PLANNED_MS] = state.clock[NEXT_PANE_MS]
    state.moments[NUM_PLANS] += 1
    young = max(first_plan_at(state), state.moments[AGE] // YOUNG_PARTS)
    state.moments[DUE_AT] = min(PERIOD_RECORDS * n, young)
    state.moments[CHECK_AT] = min(state.moments[DUE_AT], FIRST_CHECK_RECORDS * n)
    return total / n


@borrowing
def _find_hot(state: View, mean: float, unit: float) -> int:
    """List the slots of hot keys in ``order``, lightest first; return how many there are."""
    num_hot = 0
    drifts = state.moments[NUM_DRIFTS] > 0
    least = (SURE_RECORDS_DRIFTED if drifts else SURE_RECORDS) * unit
    for slot in range(state.counts.size):
        limit = state.settings[HOT_FRACTION] * mean
        if state.num_homes[slot] > 0:
            limit *= COOL_FRACTION
        sure = state.counts[slot] - state.errors[slot]
        if sure > 0.0 and sure >= limit and sure >= least:
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
    room = state.settings[TOLERANCE] * mean
    valve_level = mean + min(room, VALVE_ROOM * noise)
    limit = mean + max(room - UNKNOWN_SIGMAS * noise, min(room, LEAST_TOLERANCE * mean))
    if state.moments[AGE] < PERIOD_RECORDS * n:
        valve_level += YOUNG_NOISE * noise
        if state.moments[NUM_DRIFTS] == 0:
            limit += YOUNG_NOISE * noise
    state.numbers[WIDTH] = state.settings[OVERFLOW_SIGMAS] * noise
    largest_room = LARGEST_ROOM if mean >= FINE_RECORDS * unit else LARGEST_ROOM_COARSE
    num_hot = _find_hot(state, mean, unit)
    for partition in range(n):
        state.levels[partition] = state.first_loads[partition]
    for index in range(num_hot):
        slot = state.order[index]
        first, _ = candidates_of(state, state.key_hashes[slot])
        state.levels[first] -= state.counts[slot]
    _set_valves(state, valve_level, noise)
    for index in range(state.homes.size):
        state.old_homes[index] = state.homes[index]
    used = 0
    for index in range(num_hot):
        slot = state.order[index]
        first, _ = candidates_of(state, state.key_hashes[slot])
        if state.levels[first] + state.counts[slot] <= limit:
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
    """Make a plan if it is time, or forget or make one if the stream drifted.

    Call at ``moments[CHECK_AT]`` records and at ``moments[LOOK_AT]`` misses.
    """
    if state.moments[MISSES] >= state.moments[LOOK_AT] and hot_keys_are_gone(state):
        forget(state)
    if state.moments[PERIOD] < state.moments[CHECK_AT]:
        return
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
