"""Rings of panes: what a partitioner counted in the live window, expiring pane by pane.

A window of `window_ms` sliding by `slide_ms` is cut into `window_ms / slide_ms` panes that begin
at multiples of the slide. A ring holds one row of counters per live pane and one row of totals;
when time enters a new pane the oldest row is taken from the totals and used again. A tumbling
window is a ring of one pane, so it is reset at the multiples of the window:

    window 3, slide 1     pane 0 | pane 1 | pane 2             live: 0 1 2
    time enters pane 3             pane 1 | pane 2 | pane 3    live: 1 2 3

Time is the largest timestamp seen: a late record counts in the pane of now. Opening a pane costs
O(counters), however many panes there are; a gap longer than the window costs one clearing.

Panes are numbered by a clock of our own that starts at 1 and jumps over no more panes than a
window holds. A number kept beside a key ("last seen in pane 7") is live while it is not below
`clock[OLDEST_PANE]`, and everything below `clock[FIRST_PANE]` was forgotten at once.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from partitioners._borrow import borrowing
from partitioners.errors import InputError

NOW_PANE = 0  # number of the pane of now
OLDEST_PANE = 1  # number of the oldest live pane
FIRST_PANE = 2  # panes below were forgotten all at once: a reset needs no clearing of tables
NEXT_PANE_MS = 3  # timestamp at which the next pane begins
SLIDE_MS = 4
NUM_PANES = 5
NOW_ROW = 6  # row of the pane of now in every ring
CLOCK_FIELDS = 7

MAX_PANES = 65_536
_FIRST_TIMESTAMP_MS = np.iinfo(np.int64).min
_LAST_TIMESTAMP_MS = np.iinfo(np.int64).max


def num_panes(window_ms: int, slide_ms: int) -> int:
    """Return how many panes of `slide_ms` a window of `window_ms` holds.

    Args:
        window_ms: Length of the window.
        slide_ms: Distance between the starts of two windows; divides the window.

    Raises:
        InputError: A length is not positive, the slide does not divide the window, or there
            would be more than 65,536 panes.

    Example:
        >>> num_panes(window_ms=60_000, slide_ms=5_000)
        12
    """
    if window_ms < 1:
        raise InputError(f"window_ms is {window_ms}; give a whole number of at least 1.")
    if slide_ms < 1:
        raise InputError(f"slide_ms is {slide_ms}; give a whole number of at least 1.")
    if slide_ms > window_ms or window_ms % slide_ms:
        raise InputError(
            f"slide_ms is {slide_ms} and window_ms is {window_ms}; "
            "give a slide that divides the window."
        )
    panes = window_ms // slide_ms
    if panes > MAX_PANES:
        raise InputError(
            f"window_ms / slide_ms is {panes}; give a slide with at most {MAX_PANES} to a window."
        )
    return panes


def new_clock(window_ms: int, slide_ms: int) -> npt.NDArray[np.int64]:
    """Return the clock of a ring that has seen no record yet, int64[CLOCK_FIELDS]."""
    clock = np.zeros(CLOCK_FIELDS, np.int64)
    clock[NUM_PANES] = num_panes(window_ms, slide_ms)
    clock[SLIDE_MS] = slide_ms
    clock[NOW_PANE] = clock[OLDEST_PANE] = clock[FIRST_PANE] = 1
    clock[NOW_ROW] = 1 % clock[NUM_PANES]
    clock[NEXT_PANE_MS] = _FIRST_TIMESTAMP_MS
    return clock


@borrowing
def advance_clock(clock: npt.NDArray[np.int64], timestamp_ms: int) -> int:
    """Move the clock to the pane of a timestamp that is not before `clock[NEXT_PANE_MS]`.

    Returns:
        How many panes were opened; NUM_PANES means that no pane of before is live any more.
    """
    slide_ms = clock[SLIDE_MS]
    to_next_ms = slide_ms - timestamp_ms % slide_ms
    # Unsigned, because two timestamps may lie further apart than int64 holds.
    ahead = (np.uint64(timestamp_ms) - np.uint64(clock[NEXT_PANE_MS])) // np.uint64(slide_ms)
    if timestamp_ms > _LAST_TIMESTAMP_MS - to_next_ms:
        clock[NEXT_PANE_MS] = _LAST_TIMESTAMP_MS
    else:
        clock[NEXT_PANE_MS] = timestamp_ms + to_next_ms
    opened = clock[NUM_PANES]
    if ahead >= np.uint64(opened - 1):
        clock[NOW_PANE] += 1
        clock[OLDEST_PANE] = clock[FIRST_PANE] = clock[NOW_PANE]
    else:
        opened = np.int64(ahead + np.uint64(1))
        clock[NOW_PANE] += opened
        clock[OLDEST_PANE] = max(clock[FIRST_PANE], clock[NOW_PANE] - clock[NUM_PANES] + 1)
    clock[NOW_ROW] = clock[NOW_PANE] % clock[NUM_PANES]
    return int(opened)


@borrowing
def open_panes(
    clock: npt.NDArray[np.int64],
    opened: int,
    ring: npt.NDArray[np.float64],
    totals: npt.NDArray[np.float64],
) -> None:
    """Empty the rows of the panes just opened and take what they held from the totals.

    Args:
        clock: The clock, already advanced.
        opened: What `advance_clock` returned.
        ring: float64[num_panes * counters]; the row of a pane is its number modulo num_panes.
        totals: float64[counters], sums of the live rows.
    """
    panes = clock[NUM_PANES]
    if opened == panes:
        ring[:] = 0.0
        totals[:] = 0.0
        return
    for pane in range(clock[NOW_PANE] - opened + 1, clock[NOW_PANE] + 1):
        row = pane % panes
        for counter in range(totals.size):
            totals[counter] -= ring[row * totals.size + counter]
            ring[row * totals.size + counter] = 0.0
        if row == 0:
            # Fractional loads leave rounding errors behind; once a turn we sum afresh.
            for counter in range(totals.size):
                total = 0.0
                for live in range(panes):
                    total += ring[live * totals.size + counter]
                totals[counter] = total
