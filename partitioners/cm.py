"""Cardinality imbalance minimisation: each record goes to the candidate with the fewest keys.

The load of a partition is not its records but the distinct keys it has seen in the window, for an
operation whose cost goes with its groups. A key may be on all of its d candidates: a hot key goes
back and forth between them whenever one gains a new key. When the window ends all is forgotten.

Paper: Katsipoulakis, Labrinidis, Chrysanthis: "A Holistic View of Stream Partitioning Costs",
PVLDB 10(11), 2017, section 4.1, Algorithm 2 (CM).

============= ==============================================================================
symbol        here
============= ==============================================================================
V             ``num_partitions``
M, w          ``d``, ``window_ms``
C[i]          ``cardinalities[i]`` with the table of pairs, or the sketch of partition i
c1, c2        columns of ``candidates``
============= ==============================================================================

Cost per record O(d). Memory, exact: 33 to 130 bytes for each live (key, partition) pair, up to d
pairs a key, and 16 bytes per partition and pane; ``hll``: 4 kB per partition if tumbling, else
545 kB. ``state_bytes`` says it. Not for you where records cost, not groups (``pkg``), or where
merging partial results costs (``cam``): it looks at neither.

Departures: any d; sliding windows, whose state expires pane by pane; ``hll`` uses HyperLogLog's own
estimator and empties it with the window. The paper's draws go to c1; its authors' code gives them
to c2, and lets candidates coincide: ``tie="last"``, ``distinct=False``. Weights change nothing
here, as no record counts.
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
    EXACT,
    RESIZE_WANTED,
    TIE_LAST,
    CardinalityPartitioner,
    Handles,
    View,
    add_load,
    choose_candidates,
    count_key,
    enter_pane,
    least,
    load_of,
    open_view,
)


@borrowing_step
def _step(state: View, choices: Partitions, key_hash: np.uint64, weight: float) -> int:
    partition = int(choices[least(state.cardinalities, choices, state.options[TIE_LAST] != 0)])
    count_key(state, key_hash, partition, state.options[EXACT] != 0)
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


class CM(CardinalityPartitioner):
    """Cardinality imbalance minimisation; see the module's docstring.

    Example:
        >>> from partitioners import create
        >>> cm = create("cm", 4)
        >>> routed = cm.partition_batch([f"key-{i % 100}" for i in range(1000)], [0] * 1000)
        >>> bool(cm.cardinalities.sum() >= 100)
        True
    """

    name = "cm"
    traits = Traits(splits_keys=True, uses_time=True)
    keys_whole = False
    select_kernel = _select
    scalar_kernel = _route_one
