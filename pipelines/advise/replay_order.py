"""In which order the records of a topic's partitions are replayed."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

MOST_MS = 5_000
_OF_A_WINDOW = 10


def resolution_ms(window_ms: int) -> int:
    """How near in time records of two partitions may be before their times tell no order.

    Clocks differ, a producer that sends by batches fills one partition after the other, and a
    broker that stamps records itself stamps a batch at once. So not finer than 5 s, or a tenth of a
    window that is shorter than 50 s.

    Args:
        window_ms: Over which keys are aggregated.

    Example:
        >>> resolution_ms(60_000), resolution_ms(1_000)
        (5000, 100)
    """
    return max(min(MOST_MS, window_ms // _OF_A_WINDOW), 1)


def replay_order(
    times_ms: npt.NDArray[np.int64], partitions: npt.NDArray[np.int32], near_ms: int
) -> npt.NDArray[np.int64]:
    """Put the records of several partitions in one order.

    Offsets tell the order within a partition, and times that between partitions, as far as they
    can: within `near_ms` every partition gives in proportion to what it has there. Were they taken
    one partition after the other, a stream that is even would look as if its hot keys drifted.

    Args:
        times_ms: `int64[n]`.
        partitions: `int32[n]`; the records of each stand in the order of their offsets.
        near_ms: See `resolution_ms`.

    Returns:
        `int64[n]`, numbers of the records.

    Example:
        Four records of partition 0, then two of partition 1, within 6 ms; then one, much later:

        >>> times_ms = np.array([0, 1, 2, 3, 4, 5, 9_000])
        >>> replay_order(times_ms, np.array([0, 0, 0, 0, 1, 1, 0], np.int32), 5_000).tolist()
        [0, 4, 1, 2, 5, 3, 6]
    """
    if not len(times_ms):
        return np.empty(0, np.int64)
    # From the first record on, so that what lies within one stretch is never cut in two.
    stretch = (times_ms - times_ms.min()) // near_ms
    group = stretch * (int(partitions.max()) + 1) + partitions
    by_group = np.argsort(group, kind="stable")
    _, begins, sizes = np.unique(group[by_group], return_index=True, return_counts=True)
    within = np.arange(len(group)) - np.repeat(begins, sizes)
    place = np.empty(len(group))
    # The middle of each record's part of the stretch.
    place[by_group] = (within + 0.5) / np.repeat(sizes, sizes)
    return np.lexsort((partitions, place, stretch))
