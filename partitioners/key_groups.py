"""Key groups: keys hashed into groups, whole groups moved from crowded to idle partitions.

The group of a key never changes; which partition takes a group does. The load of every group is
measured, and where event time enters a new pane, groups move: the partition with the most load
gives to the one with the least, the second to the second least, and so on (Flux). The move is
*instant*: no state travels. What the old partition has combined of the pane before, and what the
new one combines from now on, meet in the reducer, so results do not change.

Papers: Madsen, Zhou, Su, "Enorm: Efficient Window-Based Computation in Large-Scale Distributed
Stream Processing Systems", DEBS 2016, section 3.2 (Flux, restated), 4.4.2 (key groups) and 4.5
(instant migration); Shah, Hellerstein, Chandrasekaran, Franklin, "Flux: An Adaptive Partitioning
Operator for Continuous Query Systems", ICDE 2003.

============= =======================================================================
paper         here
============= =======================================================================
key group     ``num_groups`` of them, default 16 to a partition
node          partition
workload      ``group_loads``, what *this* source sent to each group in the pane of now
suitable      lighter than the gap between the two partitions: variance decreases
============= =======================================================================

Cost per record O(1), one table read and one addition; per pane O(rounds x (groups + n log n)).
Memory 12 bytes per group and as much again to work in, whatever the number of keys.

Splitting: within a pane a key is on one partition and in order, provided records come in order of
time. When its group moves, its records before and after the boundary of the pane lie on two
partitions: a consumer that lags on the old one may read the later record first, a compacted topic
keeps a last record on each, and a window over both panes has two partial results to merge. Several
sources measure and move for themselves, so a key may be on as many partitions as there are sources.

Not for you where one key is hotter than a partition's share: a group cannot be lighter than its
hottest key, and a partition not lighter than its hottest group. ``balance_limit`` says how far
whole groups can balance what was measured; ``pkg`` and ``d_choices`` split such a key.

Departures: Flux moves one group per pair and period; we pair anew until no pair is further apart
than ``tolerance_fraction`` of the mean load, at most ``max_rounds`` times (1: as Flux), so that one
pane's measure suffices. Flux takes the biggest suitable group (``suitable="biggest"``); the default
takes the one that leaves the pair closest to equal. A partition with no suitable group, such as
one with a single hot group, is passed over, for else it would keep the least loaded from the rest.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import gcd
from typing import Literal

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
from partitioners.errors import InputError
from partitioners.hashing import candidate_word, seed_word, upper_range

GROUPS_PER_PARTITION = 16
MAX_GROUPS = 1 << 24
NEXT_PANE_MS = 0  # in ``clock``: the timestamp at which the next pane begins
NUM_MIGRATIONS = 1  # in ``clock``: groups moved so far
_FIRST_MS = np.iinfo(np.int64).min
_LAST_MS = np.iinfo(np.int64).max


@dataclass(frozen=True, kw_only=True)
class KeyGroupsConfig(Config):
    """Options of ``key_groups``.

    Attributes:
        num_groups: Groups of keys, at least one per partition; None: 16 per partition.
        window_ms: Window of the query; groups move at the multiples of its panes, in event time.
        slide_ms: Slide of the query; a pane is the greatest common divisor of window and slide.
            None: the window, which then is the pane.
        tolerance_fraction: Two partitions this far apart, as a share of the mean load, are equal.
        max_rounds: Pairings at each boundary; 1 is Flux, 0 never moves a group.
        suitable: Which group moves: the "best" halves the gap, the "biggest" still narrows it.
        seed: Places keys in groups; any 64-bit integer.
    """

    num_groups: int | None = None
    window_ms: int = 60_000
    slide_ms: int | None = None
    tolerance_fraction: float = 0.05
    max_rounds: int = 64
    suitable: Literal["best", "biggest"] = "best"
    seed: int = 0

    def __post_init__(self) -> None:
        if self.num_groups is not None:
            self.require_range("num_groups", 1, MAX_GROUPS)
        self.require_range("window_ms", 1, 1 << 53)
        if self.slide_ms is not None:
            self.require_range("slide_ms", 1, 1 << 53)
        self.require_range("tolerance_fraction", 0.0, 10.0)
        self.require_range("max_rounds", 0, 1 << 20)
        self.require_one_of("suitable", ("best", "biggest"))
        self.require_range("seed", -(1 << 63), (1 << 64) - 1)

    @property
    def pane_ms(self) -> int:
        """Event time between two moves of groups."""
        return gcd(self.window_ms, self.window_ms if self.slide_ms is None else self.slide_ms)


@dataclass
class GroupState:
    """Where groups are, and what they weigh in the pane of now."""

    owners: npt.NDArray[np.int32]  # int32[num_groups]: partition of each group
    group_loads: npt.NDArray[np.float64]  # float64[num_groups]
    clock: npt.NDArray[np.int64]  # int64[2]: NEXT_PANE_MS, NUM_MIGRATIONS


@inlined
def _suitable_group(
    first: int,
    next_group: npt.NDArray[np.int64],
    group_loads: npt.NDArray[np.float64],
    gap: float,
    biggest: bool,
) -> int:
    """Choose the group to move across a gap; -1 where each would widen it or change nothing."""
    chosen = -1
    least_off = gap
    group = first
    while group >= 0:
        load = group_loads[group]
        if 0.0 < load < gap:
            off = gap - load if biggest else abs(gap - 2.0 * load)
            if off < least_off or (off == least_off and group < chosen):
                chosen, least_off = group, off
        group = next_group[group]
    return chosen


@inlined
def _relink(
    group: int,
    most: int,
    least: int,
    first: npt.NDArray[np.int64],
    next_group: npt.NDArray[np.int64],
) -> None:
    """Take a group from the list of one partition and put it first in that of another."""
    if first[most] == group:
        first[most] = next_group[group]
    else:
        before = first[most]
        while next_group[before] != group:
            before = next_group[before]
        next_group[before] = next_group[group]
    next_group[group] = first[least]
    first[least] = group


@inlined
def _pair_once(
    group_loads: npt.NDArray[np.float64],
    partition_loads: npt.NDArray[np.float64],
    least_gap: float,
    biggest: bool,
    first: npt.NDArray[np.int64],
    next_group: npt.NDArray[np.int64],
    owners: npt.NDArray[np.int32],
) -> int:
    """Pair the most loaded with the least loaded, once round; returns how many groups moved."""
    by_load = np.argsort(-partition_loads, kind="mergesort")
    moved = 0
    giver, taker = 0, by_load.size - 1
    while giver < taker:
        most, least = by_load[giver], by_load[taker]
        gap = partition_loads[most] - partition_loads[least]
        if gap <= least_gap:
            break
        group = _suitable_group(first[most], next_group, group_loads, gap, biggest)
        giver += 1
        if group >= 0:
            _relink(group, most, least, first, next_group)
            owners[group] = least
            partition_loads[most] -= group_loads[group]
            partition_loads[least] += group_loads[group]
            taker -= 1
            moved += 1
    return moved


@kernel
def _migrate(
    num_partitions: int,
    max_rounds: int,
    tolerance: float,
    biggest: bool,
    group_loads: npt.NDArray[np.float64],
    owners: npt.NDArray[np.int32],
) -> int:
    """Move groups until partitions are as equal as the pane's loads allow."""
    # The groups of each partition as a list, for building it anew each round was half the cost.
    first = np.full(num_partitions, -1, np.int64)
    next_group = np.empty(owners.size, np.int64)
    partition_loads = np.zeros(num_partitions, np.float64)
    for group in range(owners.size):
        owner = owners[group]
        partition_loads[owner] += group_loads[group]
        next_group[group] = first[owner]
        first[owner] = group
    least_gap = tolerance * partition_loads.sum() / num_partitions
    migrations = 0
    for _ in range(max_rounds):
        moved = _pair_once(
            group_loads, partition_loads, least_gap, biggest, first, next_group, owners
        )
        migrations += moved
        if moved == 0:
            break
    return migrations


@kernel
def _enter_pane(
    timestamp_ms: int,
    options: npt.NDArray[np.int64],
    tolerance: float,
    owners: npt.NDArray[np.int32],
    group_loads: npt.NDArray[np.float64],
    clock: npt.NDArray[np.int64],
) -> None:
    """Move groups by the loads of the pane that ended, then measure anew."""
    pane_ms = options[1]
    clock[NUM_MIGRATIONS] += _migrate(
        options[2], options[3], tolerance, options[4] != 0, group_loads, owners
    )
    group_loads[:] = 0.0
    to_next_ms = pane_ms - timestamp_ms % pane_ms
    if timestamp_ms > _LAST_MS - to_next_ms:
        clock[NEXT_PANE_MS] = _LAST_MS
    else:
        clock[NEXT_PANE_MS] = timestamp_ms + to_next_ms


@kernel
def _route(
    key_hashes: KeyHashes,
    timestamps_ms: TimestampsMs,
    weights: Loads,
    options: npt.NDArray[np.int64],
    tolerance: float,
    owners: npt.NDArray[np.int32],
    group_loads: npt.NDArray[np.float64],
    clock: npt.NDArray[np.int64],
    out: Partitions,
) -> None:
    seed = np.uint64(options[0])
    weighted = weights.size > 0
    next_pane_ms = clock[NEXT_PANE_MS]
    for row in range(key_hashes.size):
        if timestamps_ms[row] >= next_pane_ms:
            _enter_pane(timestamps_ms[row], options, tolerance, owners, group_loads, clock)
            next_pane_ms = clock[NEXT_PANE_MS]
        group = upper_range(candidate_word(key_hashes[row], seed, 0), owners.size)
        group_loads[group] += weights[row] if weighted else 1.0
        out[row] = owners[group]


@ScalarKernel
def _route_one(key_hash: int, timestamp_ms: int | None, address: int) -> int:
    packed, time_ms = handles_at(address), given_or_now(timestamp_ms)
    options, owners = int64_at(packed, 0), int32_at(packed, 1)
    group_loads, clock = float64_at(packed, 2), int64_at(packed, 3)
    if time_ms >= clock[NEXT_PANE_MS]:
        tolerance = float64_at(packed, 4)[0]
        _enter_pane(time_ms, options, tolerance, owners, group_loads, clock)
    word = candidate_word(np.uint64(key_hash), np.uint64(options[0]), 0)
    group = upper_range(word, owners.size)
    group_loads[group] += 1.0
    return as_int64(owners[group])


@kernel
def _groups(key_hashes: KeyHashes, seed: np.uint64, num_groups: int, out: Partitions) -> None:
    for row in range(key_hashes.size):
        out[row] = upper_range(candidate_word(key_hashes[row], seed, 0), num_groups)


class KeyGroups(Partitioner):
    """Groups of keys on movable places; see the module's docstring.

    Raises:
        InputError: Fewer groups than partitions.

    Example:
        >>> import numpy as np
        >>> groups = KeyGroups(2, KeyGroupsConfig(num_groups=64, window_ms=1_000))
        >>> keys = [f"{number % 50}" for number in range(3_000)]
        >>> routed = groups.partition_batch(keys, np.arange(3_000))
        >>> np.bincount(routed[2_000:]).tolist()  # the last pane, balanced by those before
        [500, 500]
    """

    name = "key_groups"
    config_type = KeyGroupsConfig
    traits = Traits(splits_keys=True, uses_time=True)
    scalar_kernel = _route_one
    config: KeyGroupsConfig
    _state: GroupState

    def __init__(self, num_partitions: int, config: Config | None = None) -> None:
        super().__init__(num_partitions, config)
        moves = self.config.max_rounds > 0
        self.traits = replace(self.traits, splits_keys=moves, uses_time=moves)

    @property
    def num_groups(self) -> int:
        """Number of groups."""
        return self._state.owners.size

    @property
    def owners(self) -> Partitions:
        """Partition of each group now: a copy, ``int32[num_groups]``."""
        return self._state.owners.copy()

    @property
    def num_migrations(self) -> int:
        """Groups moved so far."""
        return int(self._state.clock[NUM_MIGRATIONS])

    @property
    def balance_limit(self) -> float:
        """Least imbalance, (max - mean) / mean, that whole groups allow in the pane of now."""
        total = float(self._state.group_loads.sum())
        if total == 0.0:
            return 0.0
        hottest = float(self._state.group_loads.max())
        return max(0.0, hottest * self.num_partitions / total - 1.0)

    def groups(self, key_hashes: KeyHashes) -> Partitions:
        """Say which group each key is in; it follows from key and seed alone.

        Args:
            key_hashes: ``uint64[n]``.

        Returns:
            ``int32[n]``.
        """
        out = np.empty(len(key_hashes), np.int32)
        _groups(key_hashes, seed_word(self.config.seed), self.num_groups, out)
        return out

    def _new_state(self) -> GroupState:
        num_groups = self.config.num_groups
        if num_groups is None:
            num_groups = min(GROUPS_PER_PARTITION * self.num_partitions, MAX_GROUPS)
        if num_groups < self.num_partitions:
            raise InputError(
                f"num_groups is {num_groups} but there are {self.num_partitions} partitions; "
                "give at least one group to a partition"
            )
        return GroupState(
            owners=(np.arange(num_groups) % self.num_partitions).astype(np.int32),
            group_loads=np.zeros(num_groups),
            clock=np.array([_FIRST_MS, 0], np.int64),
        )

    def _bind(self) -> None:
        config, state = self.config, self._state
        self._options = np.array(
            [
                seed_word(config.seed).astype(np.int64),
                config.pane_ms,
                self.num_partitions,
                config.max_rounds,
                config.suitable == "biggest",
            ],
            np.int64,
        )
        self._tolerance = np.array([config.tolerance_fraction], np.float64)
        self._handles = handles(
            self._options, state.owners, state.group_loads, state.clock, self._tolerance
        )

    def route(
        self,
        key_hashes: KeyHashes,
        timestamps_ms: TimestampsMs,
        out: Partitions,
        weights: Loads | None = None,
    ) -> None:
        """Choose partitions; see ``Partitioner.route``."""
        state = self._state
        _route(
            key_hashes,
            timestamps_ms,
            NO_WEIGHTS if weights is None else weights,
            self._options,
            float(self.config.tolerance_fraction),
            state.owners,
            state.group_loads,
            state.clock,
            out,
        )
