"""What `am` and `cam` share: a key stays where it is, a new one goes where there is least.

Least of what, keys or records, is the one thing in which they differ (Katsipoulakis et al., section
4.2, Algorithms 3 and 4): `counts_keys` says it.
"""

from __future__ import annotations

import numpy as np

from partitioners._borrow import borrowing, borrowing_step
from partitioners._jit import ScalarKernel, given_or_now, handles_at, kernel
from partitioners.base import (
    KeyHashes,
    Loads,
    Partitions,
    TimestampsMs,
    Traits,
)
from partitioners.cardinality import (
    COUNTS_KEYS,
    EXACT,
    NOWHERE,
    RESIZE_WANTED,
    TIE_LAST,
    CardinalityPartitioner,
    Handles,
    View,
    add_load,
    choose_candidates,
    enter_pane,
    find_key,
    least,
    load_of,
    open_view,
    settle,
    settled,
)


@borrowing_step
def _step(state: View, choices: Partitions, key_hash: np.uint64, weight: float) -> int:
    exact = state.options[EXACT] != 0
    slot = find_key(state, key_hash, exact)
    position = settled(state, slot, choices, exact)
    if position == NOWHERE:
        fullness = state.cardinalities if state.options[COUNTS_KEYS] else state.loads
        position = least(fullness, choices, state.options[TIE_LAST] != 0)
    partition = int(choices[position])
    settle(state, slot, key_hash, position, partition, exact)
    add_load(state, partition, weight)
    return partition


@borrowing
def _loop(
    state: View,
    choices: Partitions,
    key_hashes: KeyHashes,
    timestamps_ms: TimestampsMs,
    weights: Loads,
    start: int,
    out: Partitions,
) -> int:
    for row in range(start, key_hashes.size):
        enter_pane(state, timestamps_ms[row])
        key_hash = key_hashes[row]
        weight = load_of(weights, row)
        if choices.shape[0] > 0:
            out[row] = _step(state, choices[row], key_hash, weight)
        else:
            choose_candidates(state, key_hash)
            out[row] = _step(state, state.chosen, key_hash, weight)
        if state.usage[RESIZE_WANTED]:
            return row + 1
    return key_hashes.size


@kernel
def _select(
    packed: Handles,
    choices: Partitions,
    key_hashes: KeyHashes,
    timestamps_ms: TimestampsMs,
    weights: Loads,
    start: int,
    out: Partitions,
) -> int:
    return _loop(open_view(packed), choices, key_hashes, timestamps_ms, weights, start, out)


@borrowing
def _one(state: View, key_hash: np.uint64, timestamp_ms: int) -> int:
    enter_pane(state, timestamp_ms)
    choose_candidates(state, key_hash)
    partition = _step(state, state.chosen, key_hash, 1.0)
    return ~partition if state.usage[RESIZE_WANTED] else partition


@ScalarKernel
def _route_one(key_hash: int, timestamp_ms: int | None, address: int) -> int:
    return _one(open_view(handles_at(address)), np.uint64(key_hash), given_or_now(timestamp_ms))


class AffinityPartitioner(CardinalityPartitioner):
    """Base of `am` and `cam`."""

    traits = Traits(splits_keys=False, uses_time=True)
    keys_whole = True
    select_kernel = _select
    scalar_kernel = _route_one
