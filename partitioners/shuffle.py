"""Shuffle grouping: records go round robin, whatever their keys.

The loads of any two partitions never differ by more than one record, and every key lies on every
partition: the bound the others are measured against, at both ends.

Paper: Nasir et al., "The Power of Both Choices", ICDE 2015, section II.A ("Shuffle Grouping").

Cost per record O(1); memory 8 bytes. Not for you where results per key must be merged downstream:
each of K keys costs n partial results.

Departures: ``start`` says where the first record goes, so that several sources need not begin on
the same partition. Weights are not looked at: round robin counts records.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from partitioners._jit import ScalarKernel, handles, handles_at, int64_at
from partitioners.base import (
    MAX_PARTITIONS,
    KeyHashes,
    Loads,
    Partitioner,
    Partitions,
    TimestampsMs,
    Traits,
)
from partitioners.config import Config


@dataclass(frozen=True, kw_only=True)
class ShuffleConfig(Config):
    """Options of ``shuffle``.

    Attributes:
        start: Partition of the first record, modulo the number of partitions.
    """

    start: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require_range("start", 0, MAX_PARTITIONS)


@dataclass
class ShuffleState:
    """Where the next record goes."""

    cursor: npt.NDArray[np.int64]  # int64[1]


@ScalarKernel
def _route_one(key_hash: int, timestamp_ms: int | None, address: int) -> int:  # noqa: ARG001
    packed = handles_at(address)
    cursor, num_partitions = int64_at(packed, 0), int64_at(packed, 1)[0]
    partition = cursor[0]
    cursor[0] = partition + 1 if partition + 1 < num_partitions else 0
    return int(partition)


class Shuffle(Partitioner):
    """Round robin; see the module's docstring.

    Example:
        >>> from partitioners import create
        >>> create("shuffle", 3, start=1).partition_batch(["a", "a", "a", "a"]).tolist()
        [1, 2, 0, 1]
    """

    name = "shuffle"
    config_type = ShuffleConfig
    traits = Traits(splits_keys=True)
    scalar_kernel = _route_one
    config: ShuffleConfig
    _state: ShuffleState

    def _new_state(self) -> ShuffleState:
        return ShuffleState(cursor=np.full(1, self.config.start % self.num_partitions, np.int64))

    def _bind(self) -> None:
        self._size = np.full(1, self.num_partitions, np.int64)
        self._handles = handles(self._state.cursor, self._size)

    def route(
        self,
        key_hashes: KeyHashes,  # noqa: ARG002 - no key counts here
        timestamps_ms: TimestampsMs,  # noqa: ARG002
        out: Partitions,
        weights: Loads | None = None,  # noqa: ARG002
    ) -> None:
        """Choose partitions; see ``Partitioner.route``."""
        cursor = self._state.cursor
        round_robin = np.arange(self.num_partitions, dtype=np.int32)
        out[:] = np.resize(np.roll(round_robin, -int(cursor[0])), len(out))
        cursor[0] = (cursor[0] + len(out)) % self.num_partitions
