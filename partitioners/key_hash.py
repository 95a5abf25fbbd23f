"""Key grouping: the partition is a function of the key alone, as every Kafka client has it.

No key is split, so order per key and compaction hold; the hottest key bounds the balance.

Paper: Nasir et al., "The Power of Both Choices", ICDE 2015, section II.A ("Key Grouping").
Which function decides who else sends a key to the same partition:

============= ======================================= ============================================
hash_function partition                               agrees with
============= ======================================= ============================================
murmur2       ``(murmur2(key) & 0x7fffffff) % n``     Java client's default; librdkafka's
                                                      ``murmur2`` and ``murmur2_random``;
                                                      kafka-python, aiokafka
crc32         ``crc32(key) % n``, unsigned            librdkafka's ``consistent`` and
                                                      ``consistent_random`` (its default)
murmur3       first candidate of ``pkg``, same seed   ``pkg`` with d = 1; nobody else
============= ======================================= ============================================

Cost per record O(1); no memory. Not for you where one key's load is more than a partition bears.

Departures: an empty key is a key like any other under all three (librdkafka's
``consistent_random`` sends it anywhere); a null key goes round robin (Java's sticks to a partition
for a batch). ``route`` takes key hashes of the function asked for: 32-bit values for murmur2 and
crc32, of which higher bits are not read.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from partitioners import hashing
from partitioners._jit import ScalarKernel, handles, handles_at, int64_at, kernel
from partitioners.base import (
    KeyHashes,
    Loads,
    Partitioner,
    Partitions,
    TimestampsMs,
    Traits,
)
from partitioners.config import Config
from partitioners.hashing import HASH_FUNCTIONS, HashFunction, candidate_word, upper_range

_BITS = {"murmur2": 0x7FFFFFFF, "crc32": 0xFFFFFFFF}


@dataclass(frozen=True, kw_only=True)
class KeyHashConfig(Config):
    """Options of ``key_hash``.

    Attributes:
        hash_function: ``murmur2`` (Java), ``crc32`` (librdkafka) or ``murmur3``.
        seed: Any 64-bit integer; murmur3 only.
    """

    hash_function: HashFunction = "murmur2"
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require_one_of("hash_function", HASH_FUNCTIONS)
        self.require_range("seed", -(1 << 63), (1 << 64) - 1)


@kernel
def _route_modulo(
    key_hashes: KeyHashes, bits: np.uint64, num_partitions: np.uint64, out: Partitions
) -> None:
    for row in range(key_hashes.size):
        out[row] = (key_hashes[row] & bits) % num_partitions


@kernel
def _route_mixed(
    key_hashes: KeyHashes, seed: np.uint64, num_partitions: int, out: npt.NDArray[np.int32]
) -> None:
    for row in range(key_hashes.size):
        out[row] = upper_range(candidate_word(key_hashes[row], seed, 0), num_partitions)


@ScalarKernel
def _route_one_mixed(key_hash: int, timestamp_ms: int | None, address: int) -> int:  # noqa: ARG001
    options = int64_at(handles_at(address), 0)
    return upper_range(candidate_word(np.uint64(key_hash), np.uint64(options[0]), 0), options[1])


class KeyHash(Partitioner):
    """Hashing; see the module's docstring.

    Example:
        >>> from partitioners import create
        >>> create("key_hash", 12, hash_function="crc32").partition("100:48069")
        6
    """

    name = "key_hash"
    config_type = KeyHashConfig
    traits = Traits(splits_keys=False)
    config: KeyHashConfig

    def _bind(self) -> None:
        self.hash_function = self.config.hash_function
        if self.hash_function != "murmur3":
            self._hash_one = hashing.scalar_hash(self.hash_function)
        self._seed = hashing.seed_word(self.config.seed)
        self._bits = _BITS.get(self.hash_function, 0)
        self._options = np.array([self._seed.astype(np.int64), self.num_partitions], np.int64)
        self._handles = handles(self._options)
        self.scalar_kernel = None if self._bits else _route_one_mixed

    def route(
        self,
        key_hashes: KeyHashes,
        timestamps_ms: TimestampsMs,  # noqa: ARG002 - the key alone decides
        out: Partitions,
        weights: Loads | None = None,  # noqa: ARG002
    ) -> None:
        """Choose partitions; see ``Partitioner.route``, and the docstring for the key hashes."""
        if self._bits:
            _route_modulo(key_hashes, np.uint64(self._bits), np.uint64(self.num_partitions), out)
        else:
            _route_mixed(key_hashes, self._seed, self.num_partitions, out)

    def _entry(self, key_hash: int, timestamp_ms: int | None, address: int) -> int:
        if self._bits:  # two operations, for which compiled code is too far away
            return (key_hash & self._bits) % self._num_partitions
        return super()._entry(key_hash, timestamp_ms, address)
