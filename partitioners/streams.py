"""Seeded streams of keys, for benchmarks and tests.

``zipf`` is the stream of every figure in this project: 1,000,000 records, Zipf(1.4) over 10,000
keys, ids permuted so that a small id is not a hot one; the top key has 32.9 % of the records.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from partitioners.hashing import hash_keys


@dataclass(frozen=True)
class Stream:
    """A stream of n records over k keys; event time is the record's number, in ms."""

    ids: npt.NDArray[np.int64]  # int64[n]: number of each record's key, 0 .. k - 1
    keys: pa.StringArray  # n strings, as a producer has them
    key_hashes: npt.NDArray[np.uint64]  # uint64[n]
    timestamps_ms: npt.NDArray[np.int64]  # int64[n], not falling


def zipf(
    num_records: int = 1_000_000,
    num_keys: int = 10_000,
    exponent: float = 1.4,
    seed: int = 1,
) -> Stream:
    """Draw keys by Zipf's law: the r-th most frequent of k keys has a share of r**-exponent / c.

    Args:
        num_records: n.
        num_keys: k.
        exponent: 0 is uniform; 1.4 gives the hottest of 10,000 keys a third of the records.
        seed: Of the draw and of which key is hot.

    Returns:
        The stream.

    Example:
        >>> stream = zipf(100_000)
        >>> round(float(np.bincount(stream.ids).max()) / len(stream.ids), 2)
        0.33
    """
    random = np.random.default_rng(seed)
    shares = np.arange(1, num_keys + 1, dtype=np.float64) ** -exponent
    cumulative = np.cumsum(shares / shares.sum())
    cumulative[-1] = 1.0
    ranks = np.searchsorted(cumulative, random.random(num_records), side="right")
    return of_ids(random.permutation(num_keys)[ranks])


def uniform(num_records: int = 1_000_000, num_keys: int = 10_000, seed: int = 1) -> Stream:
    """Draw every key with the same probability; see ``zipf``."""
    return zipf(num_records, num_keys, 0.0, seed)


def one_hot(
    num_records: int = 1_000_000, num_keys: int = 10_000, fraction: float = 0.6, seed: int = 1
) -> Stream:
    """Give one key a share of the records, the others the rest evenly.

    Args:
        num_records: n.
        num_keys: k, the hot one included.
        fraction: Share of the hot key, number 0.
        seed: Of the draw.

    Returns:
        The stream.
    """
    random = np.random.default_rng(seed)
    ids = random.integers(1, max(num_keys, 2), num_records)
    ids[random.random(num_records) < fraction] = 0
    return of_ids(ids)


def of_ids(ids: npt.NDArray[np.int64]) -> Stream:
    """Name keys by number: key i is ``key-i``.

    Args:
        ids: ``int64[n]``, 0 or more.

    Returns:
        The stream, one record per ms.
    """
    numbers = np.arange(int(ids.max()) + 1 if len(ids) else 0)
    dictionary = pa.array([f"key-{number}" for number in numbers.tolist()], pa.string())
    keys = dictionary.take(pa.array(ids))
    return Stream(
        ids=ids,
        keys=keys,
        key_hashes=hash_keys(dictionary)[ids] if len(ids) else np.empty(0, np.uint64),
        timestamps_ms=np.arange(len(ids), dtype=np.int64),
    )


def of_keys(keys: object, timestamps_ms: npt.NDArray[np.int64] | None = None) -> Stream:
    """Make a stream of given keys; nulls are left out, for no algorithm groups them.

    Args:
        keys: See ``hashing.hash_keys``.
        timestamps_ms: ``int64[n]``; None: one record per ms.

    Returns:
        The stream.
    """
    column = pa.chunked_array([pa.array(keys, pa.string())]).combine_chunks()
    is_valid = column.is_valid().to_numpy(zero_copy_only=False)
    times = np.arange(len(column), dtype=np.int64) if timestamps_ms is None else timestamps_ms
    kept = column.drop_null()
    return Stream(
        ids=kept.dictionary_encode().indices.to_numpy().astype(np.int64),
        keys=kept,
        key_hashes=hash_keys(kept),
        timestamps_ms=times[is_valid],
    )
