"""Load per partition, as one source sees it, and the steps of every algorithm that compares loads.

Loads are float64: exact for counts up to 2**53, and open to weights (bytes, cost). With
``window_ms`` they are forgotten at every multiple of the window; time is the largest event time
seen, so a late record counts in the window of now.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from partitioners._jit import as_int64, inlined
from partitioners.base import TimestampsMs
from partitioners.config import Config

NO_WINDOW = 0
NO_TIME_YET = np.iinfo(np.int64).min


@dataclass(frozen=True, kw_only=True)
class LoadWindowConfig(Config):
    """The option of algorithms whose state may restart with each window.

    Attributes:
        window_ms: State restarts at multiples of this event time; None: never.
    """

    window_ms: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.window_ms is not None:
            self.require_range("window_ms", 1, 1 << 53)


@dataclass
class LoadState:
    """Load sent so far, and the window it belongs to."""

    loads: npt.NDArray[np.float64]  # float64[n]
    window: npt.NDArray[np.int64]  # int64[1]: number of the window of now


def new_load_state(num_partitions: int) -> LoadState:
    """Make the loads of a source that has sent nothing."""
    return LoadState(loads=np.zeros(num_partitions), window=np.full(1, NO_TIME_YET, np.int64))


@inlined
def less_loaded(loads: npt.NDArray[np.float64], first: int, second: int) -> int:
    """Pick the less loaded of two, the first at a draw; no branch, for nothing predicts it."""
    return first + (second - first) * as_int64(loads[second] < loads[first])


@inlined
def least_loaded(
    loads: npt.NDArray[np.float64], choices: npt.NDArray[np.int32], tie_last: bool
) -> int:
    """Pick the least loaded of some partitions."""
    best = as_int64(choices[0])
    for index in range(1, choices.size):
        other = as_int64(choices[index])
        best = less_loaded(loads, other, best) if tie_last else less_loaded(loads, best, other)
    return best


@inlined
def window_end(
    timestamps_ms: TimestampsMs, start: int, window: npt.NDArray[np.int64], window_ms: int
) -> int:
    """Find the first row from ``start`` on that begins a later window, or the end of the rows.

    A late record belongs to the window of now.
    """
    if window_ms == NO_WINDOW:
        return timestamps_ms.size
    later = (window[0] + 1) * window_ms
    row = start
    while row < timestamps_ms.size and timestamps_ms[row] < later:
        row += 1
    return row


@inlined
def enter_window(
    loads: npt.NDArray[np.float64],
    window: npt.NDArray[np.int64],
    timestamp_ms: int,
    window_ms: int,
) -> bool:
    """Forget the loads if this record begins a later window; say whether it does."""
    if window_ms == NO_WINDOW:
        return False
    number = timestamp_ms // window_ms
    if number <= window[0]:
        return False
    window[0] = number
    loads[:] = 0.0
    return True


@inlined
def least_of_all(loads: npt.NDArray[np.float64], tie_last: bool) -> int:
    """Pick the least loaded partition of all; at a draw the lowest, or the highest, number."""
    best = 0
    for partition in range(1, loads.size):
        if tie_last:
            best = less_loaded(loads, partition, best)
        else:
            best = less_loaded(loads, best, partition)
    return best
