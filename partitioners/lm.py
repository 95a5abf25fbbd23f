"""Hybrid imbalance minimisation: each record goes to the candidate with few records *and* few keys.

Loads and cardinalities of the window are each scaled to 0 .. 1 by their least and largest value
over all partitions, and added up, the loads ``weight`` times, the cardinalities the rest. For
operations whose cost goes with both. ``weight=1`` is partial key grouping over a window, 0 is
``cm``. A key may be on all of its d candidates.

Paper: Katsipoulakis, Labrinidis, Chrysanthis: "A Holistic View of Stream Partitioning Costs",
PVLDB 10(11), 2017, section 4.3, Algorithm 5 (LM); equations 7 to 9.

============= ==============================================================================
symbol        here
============= ==============================================================================
V             ``num_partitions``
M, w          ``d``, ``window_ms``
p             ``weight``
L[i], C[i]    ``loads[i]``, ``cardinalities[i]`` with the table of pairs or the sketch
min, max      ``ranges``, kept up to date record by record
H             the score in ``_score``
============= ==============================================================================

Cost per record O(d), and O(V) when the least value rises (once in V records or so; the authors scan
all partitions for every record). Memory as ``cm``. Not for you where merging partial results costs
(``cam``), or where records alone cost (``pkg``).

Departures: any d, sliding windows, weights of records. Equations 7 and 8 divide by max - min, which
is 0 when a window begins; the authors' code divides by max - min + 1. ``range_offset`` is what is
added, 1 by default; with 0, the paper's, a range of 0 scales to 0. Draws go to c1, in the authors'
code to c2, where candidates may coincide too: ``tie="last"``, ``distinct=False``.
"""

from __future__ import annotations

from dataclasses import dataclass

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
    CardinalityConfig,
    CardinalityPartitioner,
    Handles,
    Ranges,
    View,
    add_load,
    choose_candidates,
    count_key,
    enter_pane,
    load_of,
    open_view,
)

# Fields of `ranges`: from LOADS those of the loads, from KEYS those of the cardinalities.
LOADS = 0
KEYS = 3
LEAST = 0
LARGEST = 1
NUM_LEAST = 2


@dataclass(frozen=True, kw_only=True)
class LmConfig(CardinalityConfig):
    """Options of `lm`.

    Attributes:
        weight: Share of the loads in the score, 0 to 1; the rest is the cardinalities'.
        range_offset: Added to max - min before dividing: 1 as the authors' code, 0 as the paper.
    """

    weight: float = 0.5
    range_offset: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require_range("weight", 0.0, 1.0)
        self.require_range("range_offset", 0.0, 1e9)


@borrowing_step
def _scan(ranges: Ranges, which: int, values: Loads) -> None:
    """Find least, largest, and how many are least, over all partitions."""
    least = largest = values[0]
    num_least = 0
    for value in values:
        if value < least:
            least, num_least = value, 0
        num_least += value == least
        largest = max(largest, value)
    ranges[which + LEAST] = least
    ranges[which + LARGEST] = largest
    ranges[which + NUM_LEAST] = num_least


@borrowing_step
def _changed(ranges: Ranges, which: int, values: Loads, before: float, after: float) -> None:
    """Keep the range right after one value changed."""
    if after == before:
        return
    was_least = before == ranges[which + LEAST]
    if was_least:
        ranges[which + NUM_LEAST] -= 1.0
    if after < before or (was_least and ranges[which + NUM_LEAST] < 1.0):
        _scan(ranges, which, values)
    elif after > ranges[which + LARGEST]:
        ranges[which + LARGEST] = after


@borrowing_step
def _enter_pane(state: View, timestamp_ms: int) -> None:
    if enter_pane(state, timestamp_ms):
        _scan(state.ranges, LOADS, state.loads)
        _scan(state.ranges, KEYS, state.cardinalities)


@borrowing_step
def _scaled(value: float, ranges: Ranges, which: int, offset: float) -> float:
    width = ranges[which + LARGEST] - ranges[which + LEAST] + offset
    # A range of 0 has one value in it: the distance is 0, whatever it is divided by.
    return float((value - ranges[which + LEAST]) / (width if width > 0.0 else 1.0))


@borrowing_step
def _score(state: View, partition: int) -> float:
    """Return H of a partition, from equations 7 to 9."""
    ranges = state.ranges
    share, offset = state.settings[0], state.settings[1]
    load = _scaled(state.loads[partition], ranges, LOADS, offset)
    keys = _scaled(state.cardinalities[partition], ranges, KEYS, offset)
    return float(share * load + (1.0 - share) * keys)


@borrowing_step
def _step(state: View, choices: Partitions, key_hash: np.uint64, weight: float) -> int:
    tie_last = state.options[TIE_LAST] != 0
    best = 0
    least_score = _score(state, choices[0])
    for position in range(1, choices.size):
        score = _score(state, choices[position])
        # No branch: which of two comes out cannot be predicted.
        better = (score < least_score) | (tie_last & (score == least_score))
        best = best + (position - best) * int(better)
        least_score = min(score, least_score)
    partition = int(choices[best])
    load, keys = state.loads[partition], state.cardinalities[partition]
    count_key(state, key_hash, partition, state.options[EXACT] != 0)
    add_load(state, partition, weight)
    _changed(state.ranges, LOADS, state.loads, load, state.loads[partition])
    _changed(state.ranges, KEYS, state.cardinalities, keys, state.cardinalities[partition])
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
        _enter_pane(state, timestamps_ms[row])
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
    _enter_pane(state, timestamp_ms)
    choose_candidates(state, key_hash)
    partition = _step(state, state.chosen, key_hash, 1.0)
    return ~partition if state.usage[RESIZE_WANTED] else partition


@ScalarKernel
def _route_one(key_hash: int, timestamp_ms: int | None, address: int) -> int:
    return _one(open_view(handles_at(address)), np.uint64(key_hash), given_or_now(timestamp_ms))


class LM(CardinalityPartitioner):
    """Hybrid imbalance minimisation; see the module's docstring.

    Example:
        >>> from partitioners import create
        >>> lm = create("lm", 4, weight=0.5)
        >>> routed = lm.partition_batch(["hot"] * 900 + [f"k{i}" for i in range(100)], [0] * 1000)
        >>> int(lm.loads.sum()), int(lm.cardinalities.sum()) >= 101
        (1000, True)
    """

    name = "lm"
    config_type = LmConfig
    config: LmConfig
    traits = Traits(splits_keys=True, uses_time=True)
    keys_whole = False
    select_kernel = _select
    scalar_kernel = _route_one

    def _settings(self) -> list[float]:
        return [self.config.weight, self.config.range_offset]
