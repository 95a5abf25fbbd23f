"""Finding places in rows ordered by key and time, for many (key, time) at once."""

from __future__ import annotations

import numpy as np

from pipelines.blobs import Int64s


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
