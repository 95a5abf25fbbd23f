"""Count-min: how often a key came, in fixed memory, never too low.

Each of ``depth`` rows has ``width`` counters; a key owns one counter per row, chosen by its hash,
and its estimate is the least of them. Keys that share a counter can only add to it, so the estimate
is never below the truth, and above it by more than e / width of all load with probability at most
exp(-depth).

Paper: Cormode, Muthukrishnan, "An improved data stream summary: the count-min sketch and its
applications", J. Algorithms 2005, section 3. Departure: a counter is raised only as far as the new
estimate needs ("conservative update", Estan, Varghese, SIGCOMM 2002), which only lowers the error
and forbids subtraction. The counters of a key follow from two halves of one hash (double hashing),
so a key costs one mixing, not ``depth``.

| symbol | here |
|---|---|
| w, d | ``width`` (a power of two), ``depth`` |
| count[j, h_j(i)] | ``counters[j * width + place]`` |

Cost: O(depth) per key. Memory: 8 bytes * width * depth, whatever the number of keys.
Not for: few keys (an exact table is faster and right), or listing the keys (it keeps none).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from partitioners._borrow import borrowing, borrowing_step
from partitioners.errors import InputError
from partitioners.hashing import mix64

_SALT = np.uint64(0xA0761D6478BD642F)
_HALF = np.uint64(32)
_ODD = np.uint64(1)


def new_counters(width: int, depth: int) -> npt.NDArray[np.float64]:
    """Make an empty sketch.

    Args:
        width: Counters of a row, a power of two.
        depth: Rows.

    Returns:
        ``float64[depth * width]``.

    Raises:
        InputError: ``width`` is no power of two, or either is below 1.

    Example:
        >>> counters = new_counters(width=64, depth=4)
        >>> add(counters, 4, np.uint64(7), 2.0), add(counters, 4, np.uint64(7), 1.0)
        (2.0, 3.0)
    """
    if width < 1 or width & (width - 1) or depth < 1:
        raise InputError(
            f"width must be a power of two and depth at least 1, not {width} and {depth}"
        )
    return np.zeros(width * depth)


@borrowing_step
def _place(word: np.uint64, row: int, width: int) -> int:
    # The step is odd, so the rows of a key differ even where width is small.
    step = (word >> _HALF) | _ODD
    within = (word + np.uint64(row) * step) & np.uint64(width - 1)
    return int(row * width + np.int64(within))


@borrowing_step
def estimate(counters: npt.NDArray[np.float64], depth: int, key_hash: np.uint64) -> float:
    """Estimate the load of a key so far; never below the truth.

    Args:
        counters: The sketch.
        depth: Its rows.
        key_hash: The key's hash.
    """
    width = counters.size // depth
    word = mix64(np.uint64(key_hash) ^ _SALT)
    least = counters[_place(word, 0, width)]
    for row in range(1, depth):
        least = min(least, counters[_place(word, row, width)])
    return float(least)


@borrowing_step
def raise_to(
    counters: npt.NDArray[np.float64], depth: int, key_hash: np.uint64, count: float
) -> None:
    """Raise the counters of a key to its new estimate, as far as they lie below.

    Args:
        counters: The sketch.
        depth: Its rows.
        key_hash: The key's hash.
        count: ``estimate`` of before plus the load that came.
    """
    width = counters.size // depth
    word = mix64(np.uint64(key_hash) ^ _SALT)
    for row in range(depth):
        place = _place(word, row, width)
        counters[place] = max(counters[place], count)


@borrowing
def add(counters: npt.NDArray[np.float64], depth: int, key_hash: np.uint64, load: float) -> float:
    """Count load of a key.

    Args:
        counters: The sketch.
        depth: Its rows.
        key_hash: The key's hash.
        load: What came, 0 or more.

    Returns:
        The new estimate.
    """
    count = estimate(counters, depth, key_hash) + load
    raise_to(counters, depth, key_hash, count)
    return count
