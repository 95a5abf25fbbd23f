"""What ``d_choices`` and ``w_choices`` share: a head table, and more choices for its keys.

Every record is counted in a SpaceSaving sketch. A key whose share of the stream is at least theta
belongs to the head and may use d partitions, the tail two. The algorithms differ in d.

``rules="published"`` decides as the authors' simulator does. Where it differs from the paper:

- a key is of the head when (count + error) / total > theta, strictly, in 32-bit floats; the paper
  (and we) have count / total >= theta;
- 100 entries, and of several with the least count the one that has had it longest is taken over;
- d begins at p1 n, rounded, and may so be 1; it is found anew at every record of the head, which is
  why this is slow;
- of the constraints only those of the first prefix and of the whole head are checked, always with
  b_h of candidates that may coincide.

Choices that coincide are kept, as in the paper. The simulator fails where d is 0, beyond 2,000
partitions; there we take one choice.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

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
    ChoicePartitioner,
    KeyHashes,
    Loads,
    Partitions,
    TimestampsMs,
    Traits,
)
from partitioners.config import ChoiceConfig, Config
from partitioners.hashing import fill_candidates, seed_word
from partitioners.loads import (
    NO_WINDOW,
    LoadState,
    LoadWindowConfig,
    enter_window,
    least_loaded,
    least_of_all,
    new_load_state,
)
from partitioners.sketches.space_saving import (
    SpaceSaving,
    Summary,
    clear,
    new_space_saving,
    offer,
    oldest_of_equals,
)

Rules: TypeAlias = Literal["paper", "published"]

PUBLISHED_CAPACITY = 100
TAIL_CHOICES = 2
CACHED_CHOICES = 64
NO_CHOICES = np.empty((0, 1), np.int32)
"""What kernels get where a key's own candidates are wanted."""


@dataclass(frozen=True, kw_only=True)
class HeadConfig(LoadWindowConfig, ChoiceConfig):
    """Options of algorithms with a head table.

    Attributes:
        theta: Share of the stream from which on a key belongs to the head; None: 1 / (5 n), the
            paper's choice.
        capacity: Entries of the head table; None: 100 or 1.25 / theta, whichever is more. With
            fewer than 1 / theta every key that enters the table looks like a head key.
        rules: ``paper``, or ``published`` for the authors' simulator; see
            ``partitioners.head_choices``.
    """

    theta: float | None = None
    capacity: int | None = None
    rules: Rules = "paper"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.theta is not None:
            self.require_range("theta", 1e-6, 1.0)
        if self.capacity is not None:
            self.require_range("capacity", 1, 10_000_000)
        self.require_one_of("rules", ("paper", "published"))


@dataclass
class HeadState:
    """Loads, the head table, and the d in force."""

    load: LoadState
    sketch: SpaceSaving
    head_choices: npt.NDArray[np.int64]  # int64[1]: d; n means all partitions
    refresh_at: npt.NDArray[np.float64]  # float64[1]: total load from which d is computed anew


@inlined
def expected_partitions(num_keys: int, d: int, n: int, distinct: bool) -> float:
    """Say how many partitions the candidates of some keys cover, on average."""
    if distinct:
        return float(n - n * (1.0 - d / n) ** float(num_keys))
    return float(n - n * ((n - 1.0) / n) ** float(num_keys * d))


@inlined
def _holds(
    summary: Summary, num_head: int, head: float, d: int, n: int, epsilon: float, distinct: bool
) -> bool:
    """Check the constraint of every prefix of the head for one d."""
    prefix = 0.0
    for h in range(1, num_head + 1):
        prefix += summary.counts[summary.order[h - 1]] / summary.total[0]
        covered = expected_partitions(h, d, n, distinct)
        share = covered / n
        expected = prefix + share ** float(d) * (head - prefix) + share**2.0 * (1.0 - head)
        if expected > covered * (1.0 / n + epsilon):
            return False
    return True


@inlined
def find_head_choices(
    summary: Summary, theta: float, epsilon: float, n: int, distinct: bool
) -> int:
    """Find the least d that meets every constraint; n (all partitions) if none below does."""
    total = summary.total[0]
    head, num_head = 0.0, 0
    while num_head < summary.num_entries[0]:
        count = summary.counts[summary.order[num_head]]
        if count < theta * total:
            break
        head += count / total
        num_head += 1
    d = TAIL_CHOICES
    if num_head > 0:
        d = max(d, as_int64(math.ceil(summary.counts[summary.order[0]] / total * n)))
    while d < n and not _holds(summary, num_head, head, d, n, epsilon, distinct):
        d += 1
    return min(d, n)


@inlined
def _published_share(summary: Summary, entry: int) -> np.float32:
    """Give a key's share as the authors' simulator has it."""
    seen = np.float32(summary.counts[entry]) + np.float32(summary.errors[entry])
    return np.float32(seen / np.float32(summary.total[0]))


@inlined
def _find_published_choices(summary: Summary, theta: np.float32, epsilon: float, n: int) -> int:
    """Find d as the authors' simulator does."""
    head, num_head = 0.0, 0
    for entry in range(summary.num_entries[0]):
        share = _published_share(summary, entry)
        if share > theta:
            head += float(share)
            num_head += 1
    hottest = summary.order[oldest_of_equals(summary, 0, 1)]
    first = float(_published_share(summary, hottest))
    tail = 1.0 - head
    missed = (n - 1.0) / n
    d = as_int64(math.floor(first * n + 0.5))
    while d <= n:
        by_all = 1.0 - missed ** float(num_head * d)
        by_one = 1.0 - missed ** float(d)
        load_of_all = head + tail * by_all**2.0
        load_of_one = first + (head - first) * by_one ** float(d) + tail * by_one**2.0
        if load_of_all <= by_all + epsilon and load_of_one <= by_one + epsilon:
            break
        d += 1
    return max(1, min(d, n))


@inlined
def _step(
    packed: npt.NDArray[np.int64],
    choices: npt.NDArray[np.int32],
    row: int,
    key_hash: np.uint64,
    timestamp_ms: int,
    weight: float,
) -> int:
    options, loads = int64_at(packed, 0), float64_at(packed, 1)
    parameters = float64_at(packed, 3)
    head_choices, refresh_at = int64_at(packed, 4), float64_at(packed, 5)
    identity, cached, cached_width = int32_at(packed, 6), int32_at(packed, 7), int64_at(packed, 8)
    scratch = int32_at(packed, 18)
    summary = Summary(
        uint64_at(packed, 9),
        float64_at(packed, 10),
        float64_at(packed, 11),
        float64_at(packed, 12),
        int32_at(packed, 13),
        int32_at(packed, 14),
        int32_at(packed, 15),
        int64_at(packed, 16),
        float64_at(packed, 17),
    )
    distinct, tie_last, adaptive = options[0] != 0, options[1] != 0, options[4] != 0
    published = options[5] != 0
    n = loads.size
    if enter_window(loads, int64_at(packed, 2), timestamp_ms, options[2]):
        clear(summary)
        refresh_at[0] = 0.0
    entry = offer(summary, key_hash, weight, published)
    if entry < 0:
        entry = ~entry
        cached_width[entry] = 0
    count = summary.counts[entry]
    is_head = count > 0.0 and count >= parameters[0] * summary.total[0]
    if published:
        theta = np.float32(parameters[0])
        is_head = count > 0.0 and _published_share(summary, entry) > theta
        if is_head and adaptive:
            head_choices[0] = _find_published_choices(summary, theta, parameters[1], n)
    elif is_head and adaptive and summary.total[0] >= refresh_at[0]:
        head_choices[0] = find_head_choices(summary, parameters[0], parameters[1], n, distinct)
        refresh_at[0] = summary.total[0] * (1.0 + parameters[2])
    d = head_choices[0] if is_head else min(TAIL_CHOICES, n)
    if is_head and d >= n:
        best = least_of_all(loads, tie_last)
    elif choices.shape[0] > 0:
        best = least_loaded(loads, choices[row, : min(d, choices.shape[1])], tie_last)
    else:
        # A key's candidates are computed once per entry and d, not once per record, unless d is
        # too large to keep them.
        width = cached.size // cached_width.size
        own = cached[entry * width : entry * width + d] if d <= width else scratch[:d]
        if d > width:
            fill_candidates(key_hash, np.uint64(options[3]), distinct, identity, own)
        elif cached_width[entry] < d:
            fill_candidates(key_hash, np.uint64(options[3]), distinct, identity, own)
            cached_width[entry] = d
        best = least_loaded(loads, own, tie_last)
    loads[best] += weight
    return best


@kernel
def _route(
    choices: npt.NDArray[np.int32],
    key_hashes: KeyHashes,
    timestamps_ms: TimestampsMs,
    weights: Loads,
    packed: npt.NDArray[np.int64],
    out: Partitions,
) -> None:
    for row in range(key_hashes.size):
        weight = weights[row] if weights.size > 0 else 1.0
        out[row] = _step(packed, choices, row, key_hashes[row], timestamps_ms[row], weight)


@ScalarKernel
def _route_one(key_hash: int, timestamp_ms: int | None, address: int) -> int:
    packed, time_ms = handles_at(address), given_or_now(timestamp_ms)
    return _step(packed, NO_CHOICES, 0, np.uint64(key_hash), time_ms, 1.0)


class HeadPartitioner(ChoicePartitioner):
    """Base of partitioners that give the head of the stream more choices."""

    traits = Traits(splits_keys=True)
    scalar_kernel = _route_one
    config: HeadConfig
    _state: HeadState

    def __init__(self, num_partitions: int, config: Config | None = None) -> None:
        super().__init__(num_partitions, config)
        self.traits = replace(self.traits, uses_time=self.config.window_ms is not None)

    def _adaptive(self) -> tuple[bool, float, float]:
        """Say whether d is computed, and with which epsilon and refresh fraction."""
        return False, 0.0, 0.0

    @property
    def num_choices(self) -> int:
        """Columns of ``candidates``: what a head key may use at most."""
        return self.num_partitions

    @property
    def theta(self) -> float:
        """Share of the stream from which on a key belongs to the head."""
        theta = self.config.theta
        return 1.0 / (5 * self.num_partitions) if theta is None else float(theta)

    @property
    def head_choices(self) -> int:
        """Number of partitions a head key may use now."""
        return int(self._state.head_choices[0])

    def head(self) -> list[tuple[int, float]]:
        """List the keys of the head now, as (key hash, share of the stream), hottest first."""
        total = float(self._state.sketch.total[0])
        published = self.config.rules == "published"
        return [
            (key_hash, count / total)
            for key_hash, count, error in self._state.sketch.entries()
            if (count + error > self.theta * total if published else count >= self.theta * total)
        ]

    def _new_state(self) -> HeadState:
        capacity = self.config.capacity
        if capacity is None:
            capacity = PUBLISHED_CAPACITY
            if self.config.rules == "paper":
                capacity = max(capacity, math.ceil(1.25 / self.theta))
        return HeadState(
            load=new_load_state(self.num_partitions),
            sketch=new_space_saving(capacity),
            head_choices=np.full(1, self.num_partitions, np.int64),
            refresh_at=np.zeros(1),
        )

    def _bind(self) -> None:
        config, state = self.config, self._state
        adaptive, epsilon, refresh_fraction = self._adaptive()
        self._options = np.array(
            [
                config.distinct,
                config.tie == "last",
                config.window_ms or NO_WINDOW,
                seed_word(config.seed).astype(np.int64),
                adaptive,
                config.rules == "published",
            ],
            np.int64,
        )
        self._parameters = np.array([self.theta, epsilon, refresh_fraction])
        self._identity = np.arange(self.num_partitions, dtype=np.int32)
        capacity = state.sketch.counts.size
        width = max(TAIL_CHOICES, min(self.num_partitions, CACHED_CHOICES))
        self._cached = np.empty(capacity * width, np.int32)
        self._scratch = np.empty(self.num_partitions, np.int32)
        self._cached_width = np.zeros(capacity, np.int64)
        self._handles = handles(
            self._options,
            state.load.loads,
            state.load.window,
            self._parameters,
            state.head_choices,
            state.refresh_at,
            self._identity,
            self._cached,
            self._cached_width,
            *state.sketch.summary(),
            self._scratch,
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
        _route(NO_CHOICES, key_hashes, timestamps_ms, loads, self._handles, out)

    def select(
        self,
        choices: npt.NDArray[np.int32],
        key_hashes: KeyHashes,
        timestamps_ms: TimestampsMs,
        out: Partitions,
        weights: Loads | None = None,
    ) -> None:
        """Choose among given partitions; see ``ChoicePartitioner.select``.

        A tail key uses the first two of its row, a head key the first d, all partitions where d
        reaches their number.
        """
        loads = NO_WEIGHTS if weights is None else weights
        if len(key_hashes):
            _route(choices, key_hashes, timestamps_ms, loads, self._handles, out)
