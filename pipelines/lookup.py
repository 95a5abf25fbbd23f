"""Rows ordered by key and time: ordering them, where keys change, sums within keys, searches."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pipelines.blobs import Int64s

Bools = npt.NDArray[np.bool_]


def order_of(key: Int64s, time: Int64s) -> Int64s:
    """The order by key and time.

    One integer sorts twice as fast as two, and three times faster still with its place in its last
    bits: numbers are sorted then, not places (1.6 M rows: 66 ms where argsort takes 194).
    """
    if not len(key):
        return np.empty(0, dtype=np.int64)
    low = int(time.min())
    span = int(time.max()) - low + 1
    place_bits = len(key).bit_length()
    num_values = (int(key.max()) + 1) * span
    if num_values << place_bits < 2**63:
        packed = key * span + (time - low)
        packed <<= place_bits
        packed |= np.arange(len(key))
        packed.sort()
        packed &= (1 << place_bits) - 1
        return packed
    if num_values < 2**62:
        return np.argsort(key * span + (time - low))
    return np.lexsort((time, key))


def differs(*columns: Int64s) -> Bools:
    """Where a row differs in any column from the one before; the first does.

    Example:
        >>> differs(np.array([1, 1, 1, 2]), np.array([5, 5, 6, 6])).tolist()
        [True, False, True, True]
    """
    fresh = np.ones(len(columns[0]), dtype=bool)
    fresh[1:] = False
    for column in columns:
        fresh[1:] |= column[1:] != column[:-1]
    return fresh


def running_sums(values: Int64s, begins: Bools) -> Int64s:
    """Sums so far within segments; `begins` says where one begins, the first row does.

    Where the sum over all segments overflows, the difference of two sums is right all the same.

    Example:
        >>> running_sums(np.array([1, 2, 3]), np.array([True, False, True])).tolist()
        [1, 3, 3]
    """
    total = np.cumsum(values)
    before = (total - values)[begins]
    return np.asarray(total - before[np.cumsum(begins) - 1])


def count_at_or_before(keys: Int64s, times: Int64s, key: Int64s, time: Int64s) -> Int64s:
    """For each (key, time), how many rows of sorted (keys, times) come at or before it."""
    if not len(keys):
        return np.zeros(len(key), dtype=np.int64)
    low = int(min(times.min(), time.min(initial=times.min())))
    high = int(max(times.max(), time.max(initial=times.max())))
    span = high - low + 1
    if (int(max(keys.max(), key.max(initial=0))) + 1) * span < 2**62:
        rows, wanted = keys * span + (times - low), key * span + (time - low)
    else:
        # Ranks of times fit where times do not.
        ranks = np.unique(np.concatenate([times, time]), return_inverse=True)[1]
        span = int(ranks.max()) + 1
        rows, wanted = keys * span + ranks[: len(times)], key * span + ranks[len(times) :]
    return np.searchsorted(rows, wanted, side="right")


def last_at_or_before(keys: Int64s, times: Int64s, key: Int64s, time: Int64s) -> Int64s:
    """For each (key, time), the last row of the same key at or before the time; -1: none."""
    place = count_at_or_before(keys, times, key, time) - 1
    if len(keys):
        place[(place >= 0) & (keys[np.maximum(place, 0)] != key)] = -1
    return place
