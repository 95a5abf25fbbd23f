"""The partitioner `dalton` for one producer."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from partitioners import hashing
from partitioners.base import (
    NO_WEIGHTS,
    Config,
    KeyHashes,
    Loads,
    Partitioner,
    Partitions,
    TimestampsMs,
    Traits,
)
from partitioners.dalton.config import DaltonConfig
from partitioners.dalton.queries import key_split
from partitioners.dalton.state import (
    NO_ROOM,
    STOPPED,
    DaltonState,
    double_rows,
    new_options,
    new_state,
    pack,
)
from partitioners.dalton.step import STOP, rebuild_index, route_all, route_one

_NO_HOMES = np.empty(0, np.int32)


class Dalton(Partitioner):
    """Learned partitioning by one agent; see ``partitioners.dalton``.

    Example:
        >>> dalton = Dalton(4, DaltonConfig(slide_ms=100))
        >>> times = np.arange(1000)
        >>> whole = dalton.partition_batch([f"key {i}" for i in range(1000)], times)
        >>> hot = dalton.partition_batch(["hot"] * 1000, 1000 + times)
        >>> len(set(hot.tolist()))
        4
    """

    name = "dalton"
    config_type = DaltonConfig
    traits = Traits(splits_keys=True, uses_time=True, stochastic=True)
    config: DaltonConfig
    _state: DaltonState
    _cooperates = False

    def __init__(self, num_partitions: int, config: Config | None = None) -> None:
        super().__init__(num_partitions, config)

    def _new_state(self) -> DaltonState:
        return new_state(self.num_partitions, self.config, keeps_rewards=self._cooperates)

    def _bind(self) -> None:
        self._options, self._rates = new_options(
            self.num_partitions, self.config, stops=self._cooperates
        )
        self._packed = pack(self._options, self._rates, self._state)

    def candidates(self, key_hashes: KeyHashes) -> npt.NDArray[np.int32]:
        """Say where each key goes while it is not hot.

        Args:
            key_hashes: ``uint64[n]``.

        Returns:
            ``int32[n, 1]``, homes: the first candidates of ``hashing.candidates``.
        """
        return hashing.candidates(key_hashes, 1, self.num_partitions, self.config.seed)

    def route(
        self,
        key_hashes: KeyHashes,
        timestamps_ms: TimestampsMs,
        out: Partitions,
        weights: Loads | None = None,
    ) -> None:
        """Choose partitions; see ``Partitioner.route``."""
        self._route(key_hashes, timestamps_ms, _NO_HOMES, weights, out)

    def select(
        self,
        choices: npt.NDArray[np.int32],
        key_hashes: KeyHashes,
        timestamps_ms: TimestampsMs,
        out: Partitions,
        weights: Loads | None = None,
    ) -> None:
        """Choose partitions, with homes given from outside.

        Args:
            choices: ``int32[n, 1]``, home of each record's key; one key has one home.
            key_hashes: ``uint64[n]``.
            timestamps_ms: ``int64[n]``, event time.
            out: ``int32[n]`` to fill.
            weights: ``float64[n]``, load of each record; None: 1 each.
        """
        homes = np.ascontiguousarray(choices[:, 0], np.int32)
        self._route(key_hashes, timestamps_ms, homes, weights, out)

    def is_whole(self, key_hash: int) -> bool:
        """Say whether all records of a key in the live window went to its home.

        Args:
            key_hash: The key's hash, unsigned or signed.

        Returns:
            True: as far as this producer goes, its partial result needs no merging.
        """
        word = np.array([key_hash & 0xFFFFFFFFFFFFFFFF], np.uint64).view(np.int64)
        return key_split(word.item(), self._packed) == 0

    def _route(
        self,
        key_hashes: KeyHashes,
        timestamps_ms: TimestampsMs,
        homes: Partitions,
        weights: Loads | None,
        out: Partitions,
    ) -> None:
        loads = NO_WEIGHTS if weights is None else weights
        start = 0
        while True:
            start += route_all(
                key_hashes[start:],
                timestamps_ms[start:],
                homes[start:],
                loads[start:],
                self._packed,
                out[start:],
            )
            if start == len(key_hashes):
                return
            self._resume()

    def _route_one(self, key_hash: int, timestamp_ms: int) -> int:
        while True:
            partition = route_one(key_hash, timestamp_ms, self._packed)
            if partition != STOP:
                return partition
            self._resume()

    def _resume(self) -> None:
        """Do what a kernel cannot, so that it can go on with the next record."""
        assert self._state.words[STOPPED] == NO_ROOM
        self._make_room()

    def _make_room(self) -> None:
        double_rows(self._state)
        self._packed = pack(self._options, self._rates, self._state)
        rebuild_index(self._packed)
