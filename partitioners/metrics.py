"""What a routing costs: balance of the partitions, and how far keys are split.

The words are those of the papers and of ``keyspread run``: *imbalance* is (max - avg) / avg of the
loads; *replication factor* is distinct (key, partition) pairs / distinct keys, 1 where keys stay
whole; *fragmentation* is the replication factor within a window, mean over tumbling windows, which
is what the reducers of windowed results have to merge.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from partitioners.errors import InputError


class HotKey(NamedTuple):
    """A key that no hashing can place well."""

    key_hash: int
    share: float  # of all records
    num_partitions: int  # partitions it was sent to


def partition_counts(
    partitions: npt.NDArray[np.int32],
    num_partitions: int,
    weights: npt.NDArray[np.float64] | None = None,
) -> npt.NDArray[np.float64]:
    """Sum the load of each partition.

    Args:
        partitions: ``int32[n]``, of each record.
        num_partitions: Partitions there are, those without records included.
        weights: ``float64[n]``, load of each record; None: 1 each.

    Returns:
        ``float64[num_partitions]``.
    """
    return np.bincount(partitions, weights, minlength=num_partitions).astype(np.float64)


def imbalance(counts: npt.ArrayLike) -> float:
    """Say by how much the fullest partition exceeds the average: (max - avg) / avg.

    Args:
        counts: Load of every partition, idle ones included.

    Returns:
        0 for perfect balance, n - 1 where one of n has all; 0 where there is no load.

    Example:
        >>> imbalance([30, 10, 20])
        0.5
    """
    loads = np.asarray(counts, np.float64)
    if loads.size == 0:
        raise InputError("imbalance needs the load of at least one partition")
    average = loads.mean()
    return float((loads.max() - average) / average) if average > 0 else 0.0


def replication_factor(
    key_hashes: npt.NDArray[np.uint64], partitions: npt.NDArray[np.int32]
) -> float:
    """Count partitions per key: distinct (key, partition) pairs / distinct keys.

    Args:
        key_hashes: ``uint64[n]``, or anything that tells keys apart.
        partitions: ``int32[n]``.

    Returns:
        1 where every key is whole; 1 for no records.

    Example:
        >>> replication_factor(np.array([7, 7, 8], np.uint64), np.array([0, 1, 0], np.int32))
        1.5
    """
    return _pairs_per_key(_numbered(key_hashes), partitions)


def fragmentation(
    key_hashes: npt.NDArray[np.uint64],
    partitions: npt.NDArray[np.int32],
    timestamps_ms: npt.NDArray[np.int64],
    window_ms: int,
) -> float:
    """Take the replication factor of each tumbling window, and of these the mean.

    Args:
        key_hashes: ``uint64[n]``.
        partitions: ``int32[n]``.
        timestamps_ms: ``int64[n]``, in any order.
        window_ms: Size of the windows, which begin at multiples of it.

    Returns:
        1 where every key is whole in every window; windows without records do not count.

    Raises:
        InputError: ``window_ms`` is not positive.
    """
    if window_ms <= 0:
        raise InputError(f"window_ms must be 1 or more, not {window_ms}")
    if len(key_hashes) == 0:
        return 1.0
    keys = _numbered(key_hashes)
    windows = timestamps_ms // window_ms
    order = np.argsort(windows, kind="stable")
    bounds = np.flatnonzero(np.diff(windows[order])) + 1
    parts = np.split(order, bounds)
    return float(np.mean([_pairs_per_key(keys[rows], partitions[rows]) for rows in parts]))


def hot_keys(
    key_hashes: npt.NDArray[np.uint64],
    partitions: npt.NDArray[np.int32],
    num_partitions: int,
) -> list[HotKey]:
    """Name the keys with more records than an even share of one partition, hottest first.

    As long as such a key is whole, its partition is over the average whatever the hash function.

    Args:
        key_hashes: ``uint64[n]``.
        partitions: ``int32[n]``.
        num_partitions: Partitions there are.

    Returns:
        The hot keys.
    """
    keys, inverse, counts = np.unique(key_hashes, return_inverse=True, return_counts=True)
    hot = np.flatnonzero(counts * num_partitions > len(key_hashes))
    return [
        HotKey(
            int(keys[key]),
            float(counts[key] / len(key_hashes)),
            len(np.unique(partitions[inverse == key])),
        )
        for key in hot[np.argsort(-counts[hot], kind="stable")]
    ]


def _numbered(key_hashes: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
    return np.unique(key_hashes, return_inverse=True)[1].astype(np.int64)


def _pairs_per_key(keys: npt.NDArray[np.int64], partitions: npt.NDArray[np.int32]) -> float:
    if len(keys) == 0:
        return 1.0
    size = int(partitions.max()) + 1
    pairs = np.unique(keys * size + partitions)
    return len(pairs) / len(np.unique(pairs // size))
