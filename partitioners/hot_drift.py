"""Whether the stream of ``hot_fill`` drifted: two tests, and what is forgotten.

*Loads* by first candidate against what is remembered, a chi-square test every few records: it needs
no key to be known, and finds one key that turned hot as well as many. *Misses*, records of keys
that have no plan: where all hot keys go at once their share jumps, say from a fifth to nearly all,
and a dozen records in a row say so for certain. That is Page's cumulative sum (Biometrika 41, 1954)
of the logarithm of how much likelier each record is with the hot keys gone:

    a miss adds       log(q / p)              p: share of misses in the last full period
    a hit takes off   log((1 - p) / (1 - q))  q: nine tenths of the way from p to 1
    never below 0; drift at 1.25 x ``drift_sigmas``, 15

A stream that goes on as it was comes to 15 once in exp(15), 3 million, records or less often, and p
is taken for three standard errors more than was counted. When the keys of Zipf(1.4) all changed at
n = 64, a source saw it in 10 records, in 99 by its loads; of 16 sources, each of which sees one
record in 16, the hottest key then sent 150 records home before all knew, instead of 690.
"""

from __future__ import annotations

import math

from partitioners._borrow import borrowing, borrowing_step
from partitioners.hot_state import (
    AGE,
    CHECK_AT,
    DRIFT_SIGMAS,
    DUE_AT,
    FRESH,
    FRESH_SQUARES,
    HIT_LOSS,
    LOOK_AT,
    LOOKED_AT,
    MISS_GAIN,
    MISSES,
    NUM_DRIFTS,
    PANE_BEGAN,
    PERIOD,
    PERIOD_RECORDS,
    PLANNED_MS,
    SURPRISE,
    TOTAL,
    TRAIL,
    TRAIL_SQUARES,
    UNSEEN,
    View,
)
from partitioners.panes import NEXT_PANE_MS

MISSES_SIGMAS = 3.0  # a share of misses is taken for so much more than was counted, for chance
GONE = 0.9  # part of the way from the share of misses to 1 that it goes when the hot keys go
MOST_MISSES = 0.8  # with a larger share of misses their jump would say too little
SURPRISE_PER_SIGMA = 1.25
# After a drift, plans begin with so many records of a partition's share: the hot keys are there for
# certain, and each of their records that goes home fills a full partition.
FIRST_PLAN_RECORDS = 0.25


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
def hot_keys_are_gone(state: View) -> bool:
    """Say whether too many of the last records had no plan; call at ``moments[LOOK_AT]`` misses."""
    hits = state.moments[PERIOD] - state.moments[LOOKED_AT] - 1
    state.moments[LOOKED_AT] = state.moments[PERIOD]
    state.moments[LOOK_AT] += 1
    surprise = max(state.numbers[SURPRISE] - hits * state.numbers[HIT_LOSS], 0.0)
    surprise += state.numbers[MISS_GAIN]
    state.numbers[SURPRISE] = surprise
    return bool(surprise > SURPRISE_PER_SIGMA * state.settings[DRIFT_SIGMAS])


@borrowing
def learn_misses(state: View, drifted: bool) -> None:
    """Set what hits and misses say, at a plan: by the share of misses under the last one."""
    period, misses = state.moments[PERIOD], state.moments[MISSES]
    most = misses + 1.0 + MISSES_SIGMAS * math.sqrt(misses + 1.0)
    share = min(most / (period + 2.0), 1.0)
    full = period >= PERIOD_RECORDS * state.loads.size
    if drifted or (full and share > MOST_MISSES) or state.settings[DRIFT_SIGMAS] == 0.0:
        state.numbers[MISS_GAIN] = state.numbers[SURPRISE] = 0.0
    elif full:
        gone = share + GONE * (1.0 - share)
        state.numbers[MISS_GAIN] = math.log(gone / share)
        state.numbers[HIT_LOSS] = math.log((1.0 - share) / (1.0 - gone))
    state.moments[MISSES] = state.moments[LOOKED_AT] = 0
    state.moments[LOOK_AT] = 1 if state.numbers[MISS_GAIN] > 0.0 else UNSEEN


@borrowing
def forget(state: View) -> None:
    """Forget every key and share; what the live window holds stays known, for it is levelled."""
    n = state.loads.size
    for slot in range(state.counts.size):
        state.counts[slot] = 0.0
        state.errors[slot] = 0.0
        state.planned_counts[slot] = 0.0
        state.num_homes[slot] = 0
    for partition in range(n):
        state.first_loads[partition] = 0.0
        state.fresh_loads[partition] = 0.0
        state.guest_loads[partition] = 0.0
        state.valves[partition] = 0.0
        state.trail_loads[partition] = 0.0
    state.numbers[PANE_BEGAN] -= state.numbers[FRESH]
    state.numbers[TOTAL] = state.numbers[FRESH] = state.numbers[FRESH_SQUARES] = 0.0
    state.numbers[TRAIL] = state.numbers[TRAIL_SQUARES] = 0.0
    learn_misses(state, True)
    state.moments[NUM_DRIFTS] += 1
    state.moments[AGE] = state.moments[PERIOD] = 0
    state.moments[PLANNED_MS] = state.clock[NEXT_PANE_MS]
    state.moments[DUE_AT] = state.moments[CHECK_AT] = first_plan_at(state)


@borrowing_step
def first_plan_at(state: View) -> int:
    """Say after how many records the first plan is made, at the start or after a drift."""
    n = state.loads.size
    if state.moments[NUM_DRIFTS] > 0:
        return max(int(FIRST_PLAN_RECORDS * n), 1)
    return n
