"""Running combinations of any associative operation, vectorised.

`scan` needs about two combines per element in calls on whole arrays, as many calls as the logarithm
of the length: neighbours are combined, the half as long array is scanned, and what lies between is
filled in.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Combine = Callable[[Int64s, Int64s], Int64s]


def scan(combine: Combine, states: Int64s, begins: Bools) -> Int64s:
    """Combine each state with all before it in its segment.

    Args:
        combine: Takes and gives states, int64[width, m]; associative.
        states: int64[width, n].
        begins: bool[n], where a segment begins; the first does, said or not.

    Returns:
        int64[width, n].

    Example:
        >>> states = np.array([[3, 1, 4, 1, 5]])
        >>> scan(np.maximum, states, np.array([True, False, False, True, False])).tolist()
        [[3, 3, 4, 1, 5]]
    """
    n = states.shape[1]
    if n < 2 or begins[1:].all():
        return states
    even = n - n % 2
    left, right = states[:, 0:even:2], states[:, 1:even:2]
    alone = begins[1:even:2]
    pairs = np.where(alone, right, combine(left, right))
    scanned = scan(combine, pairs, begins[0:even:2] | alone)
    out = np.empty_like(states)
    out[:, 0] = states[:, 0]
    out[:, 1::2] = scanned
    rest = states[:, 2::2]
    before = scanned[:, : rest.shape[1]]
    out[:, 2::2] = np.where(begins[2::2], rest, combine(before, rest))
    return out


def scan_back(combine: Combine, states: Int64s, ends: Bools) -> Int64s:
    """Combine each state with all after it in its segment; `ends` says where a segment ends."""
    return scan(lambda a, b: combine(b, a), states[:, ::-1], ends[::-1])[:, ::-1]


def fold(combine: Combine, states: Int64s, begins: Bools) -> Int64s:
    """Combine all states of each segment: int64[width, num_segments]."""
    if not states.shape[1]:
        return states
    return scan(combine, states, begins)[:, np.append(begins[1:], True)]
