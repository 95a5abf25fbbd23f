"""Which reducer a key belongs to, and labels that fall one to a Spark state partition.

The hash is seeded apart from every partitioner's, so that the keys of one topic partition do not
meet in one shard.
"""

from __future__ import annotations

import struct
from functools import cache

import mmh3
import numpy as np
import numpy.typing as npt
import pyarrow as pa

# Partitioners are seeded with small integers.
SHARD_SEED = 0x5A4D1E57
_SPARK_SEED = 42


def shard_of_keys(keys: pa.Array, num_shards: int) -> npt.NDArray[np.int64]:
    """Return the shard of each key.

    Args:
        keys: Binary array; the null key belongs to shard 0.
        num_shards: How many shards there are.

    Returns:
        int64[len(keys)] in [0, num_shards).
    """
    if num_shards == 1:
        return np.zeros(len(keys), dtype=np.int64)
    # A loop over the distinct keys of a batch, some thousands: 0.2 us each, where a compiled kernel
    # would cost every Python worker of Spark a second to load.
    return np.array(
        [
            0 if key is None else mmh3.hash(key, SHARD_SEED, signed=False) % num_shards
            for key in keys.to_pylist()
        ],
        dtype=np.int64,
    )


def spark_partition(label: int, num_partitions: int) -> int:
    """The partition Spark gives an int column's value: murmur3 of its four bytes, seed 42."""
    return mmh3.hash(struct.pack("<i", label), _SPARK_SEED, signed=True) % num_partitions


@cache
def shard_labels(num_shards: int) -> tuple[int, ...]:
    """Labels for the shards such that Spark puts exactly one into each state partition.

    Example:
        >>> sorted(spark_partition(label, 5) for label in shard_labels(5))
        [0, 1, 2, 3, 4]
    """
    labels: dict[int, int] = {}
    label = 0
    while len(labels) < num_shards:
        labels.setdefault(spark_partition(label, num_shards), label)
        label += 1
    return tuple(labels[partition] for partition in range(num_shards))
