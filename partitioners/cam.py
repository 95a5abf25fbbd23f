"""Group affinity: keys stay whole, and new ones go where the fewest records are.

A key seen in the window goes where it went before; a new key goes to the candidate with
the fewest records in the window. So a key's records stay together and no
partial results need merging, as under hashing, but the keys spread by load, not by chance. When
the window ends (or, sliding, when no live pane holds a record of the key) a key may move.

Paper: Katsipoulakis, Labrinidis, Chrysanthis: "A Holistic View of Stream Partitioning Costs",
PVLDB 10(11), 2017, section 4.2, Algorithm 4 (cAM).

============= ==============================================================================
symbol        here
============= ==============================================================================
V             ``num_partitions``
M, w          ``d``, ``window_ms``
C[i]          the table of keys; ``cardinalities[i]``
L[i]          ``loads[i]``
c1, c2        columns of ``candidates``
============= ==============================================================================

Cost per record O(d). Memory, exact: 33 to 130 bytes for each live key, and 16 bytes per partition
and pane; ``hll``: 512 kB.
``state_bytes`` says it. Not for you where one key is more than a fair share of the load: it stays
on one partition (``pkg``, ``d_choices`` split it).

Departures: any d. A key is whole in every window of a slide too: between two records of a key in
one window there is always a live pane that holds the first. (A late record counts as of now, so it
does not bring back a place already forgotten.) With ``hll`` the paper asks the sketch whether it
holds the key, which splits keys; we keep a choice per slot of a fixed table instead, see
``partitioners.cardinality``; the sketches themselves are not needed here, as only records are
compared. The paper's draws go to c1; its authors' code gives them to c2, and lets candidates
coincide: ``tie="last"``, ``distinct=False``. Choices given to ``select`` must be the same for every
record of a key, or the key moves.
"""

from __future__ import annotations

import numpy as np

from partitioners._borrow import borrowing, borrowing_step
from partitioners._jit import ScalarKernel, kernel
from partitioners.base import KeyHashes, Loads, Partitions, TimestampsMs, Traits
from partitioners.cardinality import (
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
        position = least(state.loads, choices, state.options[TIE_LAST] != 0)
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
def _route_one(key_hash: int, timestamp_ms: int, packed: Handles) -> int:
    return _one(open_view(packed), np.uint64(key_hash), timestamp_ms)


class CAM(CardinalityPartitioner):
    """Group affinity; see the module's docstring.

    Example:
        >>> from partitioners import create
        >>> cam = create("cam", 4)
        >>> len({cam.partition("hot", timestamp_ms=t) for t in range(0, 60_000, 1000)})
        1
    """

    name = "cam"
    traits = Traits(splits_keys=False, uses_time=True)
    keys_whole = True
    counts_keys = False
    select_kernel = _select
    scalar_kernel = _route_one
