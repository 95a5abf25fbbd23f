"""Routing where a key sticks to its first partition: what ``potc`` and the greedy ones share.

A key met for the first time takes the least loaded of some partitions, its candidates or all there
are, and keeps it. The algorithms differ in which partitions these are.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from partitioners._jit import (
    ScalarKernel,
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
    KeyHashes,
    Loads,
    Partitioner,
    Partitions,
    TimestampsMs,
)
from partitioners.config import Config
from partitioners.hashing import fill_candidates
from partitioners.key_table import (
    FREE,
    KeyTable,
    enlarge,
    find_slot,
    has_spare_room,
    is_full,
    is_sparse,
    new_key_table,
    reduce,
)
from partitioners.loads import (
    NO_WINDOW,
    LoadState,
    LoadWindowConfig,
    enter_window,
    least_loaded,
    least_of_all,
    new_load_state,
)

NO_CHOICES = np.empty((0, 1), np.int32)
"""What kernels get where a key's own candidates are wanted."""


@dataclass
class StickyState:
    """Loads, and the partition each key has stuck to."""

    load: LoadState
    table: KeyTable


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
    table_hashes, table_partitions = uint64_at(packed, 3), int32_at(packed, 4)
    num_keys, identity, chosen = int64_at(packed, 5), int32_at(packed, 6), int32_at(packed, 7)
    tie_last = options[1] != 0
    if enter_window(loads, int64_at(packed, 2), timestamp_ms, options[2]):
        table_partitions[:] = FREE
        num_keys[0] = 0
    slot = find_slot(table_hashes, table_partitions, key_hash)
    if table_partitions[slot] == FREE:
        if choices.shape[0] > 0:
            best = least_loaded(loads, choices[row], tie_last)
        elif chosen.size == 0:
            best = least_of_all(loads, tie_last)
        else:
            fill_candidates(key_hash, np.uint64(options[3]), options[0] != 0, identity, chosen)
            best = least_loaded(loads, chosen, tie_last)
        table_hashes[slot] = key_hash
        table_partitions[slot] = best
        num_keys[0] += 1
    else:
        best = table_partitions[slot]
    loads[best] += weight
    return best


@kernel
def _route(
    choices: npt.NDArray[np.int32],
    key_hashes: KeyHashes,
    timestamps_ms: TimestampsMs,
    weights: Loads,
    packed: npt.NDArray[np.int64],
    start: int,
    out: Partitions,
) -> int:
    """Route from row ``start`` until the end or a full table; return the row reached."""
    num_keys, partitions = int64_at(packed, 5), int32_at(packed, 4)
    for row in range(start, key_hashes.size):
        weight = weights[row] if weights.size > 0 else 1.0
        out[row] = _step(packed, choices, row, key_hashes[row], timestamps_ms[row], weight)
        if is_full(num_keys, partitions):
            return row + 1
    return key_hashes.size


@ScalarKernel
def _route_one(key_hash: int, timestamp_ms: int | None, address: int) -> int:
    packed, time_ms = handles_at(address), given_or_now(timestamp_ms)
    window, num_keys, partitions = int64_at(packed, 2), int64_at(packed, 5), int32_at(packed, 4)
    window_before, keys_before = window[0], num_keys[0]
    best = _step(packed, NO_CHOICES, 0, np.uint64(key_hash), time_ms, 1.0)
    if is_full(num_keys, partitions):
        return ~best
    # The table is empty again: a moment to give room back that the last window did not need.
    if window[0] != window_before and is_sparse(keys_before, partitions.size):
        return ~best
    return best


class StickyPartitioner(Partitioner):
    """Base of partitioners that keep a key where its first record went."""

    scalar_kernel = _route_one
    _state: StickyState

    def __init__(self, num_partitions: int, config: Config | None = None) -> None:
        super().__init__(num_partitions, config)
        self.traits = replace(self.traits, uses_time=self._window_ms() != NO_WINDOW)

    @abstractmethod
    def _first_choice(self) -> tuple[int, bool, bool, np.uint64]:
        """Say d (0: all partitions), whether candidates differ, whether the last wins, the seed."""

    def _window_ms(self) -> int:
        assert isinstance(self.config, LoadWindowConfig)
        return self.config.window_ms or NO_WINDOW

    def _new_state(self) -> StickyState:
        return StickyState(load=new_load_state(self.num_partitions), table=new_key_table())

    def _bind(self) -> None:
        num_choices, distinct, tie_last, seed = self._first_choice()
        self._options = np.array(
            [distinct, tie_last, self._window_ms(), seed.astype(np.int64)], np.int64
        )
        self._identity = np.arange(self.num_partitions, dtype=np.int32)
        self._chosen = np.empty(num_choices, np.int32)
        load, table = self._state.load, self._state.table
        self._handles = handles(
            self._options,
            load.loads,
            load.window,
            table.key_hashes,
            table.partitions,
            table.num_keys,
            self._identity,
            self._chosen,
        )

    def _make_room(self) -> None:
        """Enlarge a full table; a kernel that asks with another has met one with room to spare."""
        table = self._state.table
        if is_full(table.num_keys, table.partitions):
            enlarge(table)
        else:
            reduce(table)
        self._bind()

    def route(
        self,
        key_hashes: KeyHashes,
        timestamps_ms: TimestampsMs,
        out: Partitions,
        weights: Loads | None = None,
    ) -> None:
        """Choose partitions; see ``Partitioner.route``."""
        self._route_among(NO_CHOICES, key_hashes, timestamps_ms, out, weights)

    def _route_among(
        self,
        choices: npt.NDArray[np.int32],
        key_hashes: KeyHashes,
        timestamps_ms: TimestampsMs,
        out: Partitions,
        weights: Loads | None,
    ) -> None:
        if has_spare_room(self._state.table):
            reduce(self._state.table)
            self._bind()
        loads = NO_WEIGHTS if weights is None else weights
        row = 0
        while row < len(key_hashes):
            row = _route(choices, key_hashes, timestamps_ms, loads, self._handles, row, out)
            if is_full(self._state.table.num_keys, self._state.table.partitions):
                self._make_room()
