"""What a source of ``hot_fill`` remembers, and how its kernels find it.

A table of the heaviest keys, 8 slots to a bucket, each bucket a SpaceSaving of its own; the load of
every partition *as if each key went to its first candidate*; and what was sent in the live window.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from partitioners._borrow import borrowing_step
from partitioners._jit import as_int64
from partitioners.hashing import two_candidates
from partitioners.panes import new_clock

WAYS = 8
SLOTS_PER_PARTITION = 16
PERIOD_RECORDS = 16  # records per partition from one plan to the next

# Fields of ``numbers``.
TOTAL = 0  # all that is remembered
FRESH = 1  # load since the last plan
FRESH_SQUARES = 2  # sum of squares of these records' loads
TRAIL = 3  # sum of the trail
TRAIL_SQUARES = 4  # sum of the same loads, weakened twice: what its variance goes by
PANE_BEGAN = 5  # what FRESH was when the pane began, less what plans have taken from it since
WIDTH = 6  # how far above the mean a home must be, that its tail keys go to their second candidate
SURPRISE = 7  # how much likelier the last records are if the hot keys are gone; a logarithm
MISS_GAIN = 8  # what a record of a key without a plan adds to it; 0: not known yet
HIT_LOSS = 9  # what a record of a planned key takes from it
NUMBER_FIELDS = 10

# Fields of ``moments``.
PERIOD = 0  # records since the last plan
AGE = 1  # records remembered, of about the present stream
PLANNED_MS = 2  # end of the pane in which the last plan was made
NUM_PLANS = 3
NUM_DRIFTS = 4
DUE_AT = 5  # records since the last plan at which the next is made
CHECK_AT = 6  # and at which to look whether it is, or drift is
MISSES = 7  # records since the last plan whose keys it does not have
LOOK_AT = 8  # and at how many to look whether they are too many; UNSEEN: at none
LOOKED_AT = 9  # what PERIOD was at the last look
MOMENT_FIELDS = 10
NEVER = np.iinfo(np.int64).min
UNSEEN = np.iinfo(np.int64).max

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
    moments[LOOK_AT] = UNSEEN
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
