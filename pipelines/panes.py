"""Window arithmetic on integers: which windows an event time belongs to.

Window k is [k * slide, k * slide + size). A pane is the longest stretch of time whose records
belong to the same windows; every window is a whole number of panes, and several kinds of windows
have common panes, cut at the edges of them all::

    size 30, slide 10, pane 10          windows that hold t = 25
    |.........|.........|....x....|
    0         10        20   t    30    k = 0 [0, 30)   k = 1 [10, 40)   k = 2 [20, 50)
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import overload

import numpy as np
import numpy.typing as npt

from partitioners.errors import InputError

Int64s = npt.NDArray[np.int64]


_UNITS_MS = {"ms": 1, "s": 1_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


def parse_duration_ms(text: str) -> int:
    """Read a duration such as "30 min".

    Example:
        >>> parse_duration_ms("1.5 h")
        5400000
    """
    found = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([a-z]+)\s*", text)
    unit = _UNITS_MS.get(found[2]) if found else None
    milliseconds = Fraction(found[1]) * unit if found and unit else None
    if milliseconds is None or milliseconds.denominator != 1:
        raise InputError(
            f'"{text}" is no duration: write a number and one of {", ".join(_UNITS_MS)}, '
            'such as "30 min"'
        )
    return int(milliseconds)


def duration(milliseconds: int) -> str:
    """Write a duration in the largest unit that divides it.

    Example:
        >>> duration(5_400_000), duration(86_400_000)
        ('90 min', '1 d')
    """
    unit = max(
        (name for name, size in _UNITS_MS.items() if milliseconds % size == 0),
        key=_UNITS_MS.__getitem__,
    )
    return f"{milliseconds // _UNITS_MS[unit]:,} {unit}"


@dataclass(frozen=True)
class Windows:
    """Sliding windows of `size_ms` that begin every `slide_ms`, both from the epoch on.

    Example:
        >>> windows = Windows(size_ms=30, slide_ms=10)
        >>> windows.first_window(25), windows.exit_window(25)
        (0, 3)
        >>> windows.first_window(-1), windows.exit_window(-1)
        (-3, 0)
    """

    size_ms: int
    slide_ms: int

    def __post_init__(self) -> None:
        if self.size_ms < 1 or self.slide_ms < 1:
            raise InputError(
                f"window and slide must be at least 1 ms, not {self.size_ms} and {self.slide_ms} ms"
            )
        if self.slide_ms > self.size_ms:
            raise InputError(
                f"the slide ({self.slide_ms} ms) is larger than the window ({self.size_ms} ms), so "
                f"records between windows would be lost: use a slide of at most {self.size_ms} ms"
            )

    @classmethod
    def of(cls, size: str, slide: str | None = None) -> Windows:
        """Windows by their durations in words; tumbling without a slide.

        Args:
            size: Such as "30 min" or "1.5 h"; units are ms, s, min, h and d.
            slide: The same.

        Example:
            >>> Windows.of("30 min", "1 min")
            Windows(size_ms=1800000, slide_ms=60000)
        """
        return cls(parse_duration_ms(size), parse_duration_ms(slide or size))

    @classmethod
    def parse(cls, text: str) -> Windows:
        """Read `SIZE/SLIDE`, or a size alone for windows that tumble.

        Example:
            >>> Windows.parse("30 min/1 min"), Windows.parse("10s").slide_ms
            (Windows(size_ms=1800000, slide_ms=60000), 10000)
        """
        size, slash, slide = text.partition("/")
        return cls(parse_duration_ms(size), parse_duration_ms(slide if slash else size))

    @property
    def pane_ms(self) -> int:
        """Length of a pane: the greatest common divisor of size and slide."""
        return math.gcd(self.size_ms, self.slide_ms)

    @property
    def windows_per_record(self) -> int:
        """The largest number of windows one record belongs to."""
        return -(-self.size_ms // self.slide_ms)

    @overload
    def first_window(self, time_ms: int) -> int: ...
    @overload
    def first_window(self, time_ms: Int64s) -> Int64s: ...
    def first_window(self, time_ms: int | Int64s) -> int | Int64s:
        """The first window that ends after a time.

        For an event time it is the first window the record belongs to, for a watermark the first
        that is still open.
        """
        return (time_ms - self.size_ms) // self.slide_ms + 1

    @overload
    def exit_window(self, time_ms: int) -> int: ...
    @overload
    def exit_window(self, time_ms: Int64s) -> Int64s: ...
    def exit_window(self, time_ms: int | Int64s) -> int | Int64s:
        """The first window that begins after a time: a record then belongs to it no longer."""
        return time_ms // self.slide_ms + 1

    def start_ms(self, window: int) -> int:
        """When a window begins."""
        return window * self.slide_ms

    def end_ms(self, window: int) -> int:
        """When a window ends; the end does not belong to it."""
        return window * self.slide_ms + self.size_ms


# Edges in a period at most; more say that the windows have no pattern to share.
MAX_EDGES = 1 << 20


class Panes:
    """Numbered panes of one kind of windows, or the common panes of several kinds.

    An edge is a time at which a window begins or ends; the panes lie between neighbouring edges, so
    every window of every kind is a whole number of them, and no coarser cut has that property.
    Edges repeat with the least common multiple of the slides. Pane 0 begins at the epoch.

    Args:
        windows: The kinds of windows.
        last_ms: Of each window also the last so many milliseconds are a whole number of panes.

    Raises:
        InputError: The slides have no common multiple within reason.

    Example:
        >>> Panes([Windows(30, 10)]).of(np.array([-1, 0, 25])).tolist()
        [-1, 0, 2]
        >>> uneven = Panes([Windows(45, 40)])  # edges at 0, 5, 40, 45, ..
        >>> uneven.of(np.array([4, 5, 39, 40])).tolist(), uneven.start_ms(np.array([1, 2])).tolist()
        ([0, 1, 1, 2], [5, 40])
    """

    def __init__(self, windows: Sequence[Windows], last_ms: Sequence[int] = ()) -> None:
        self.period_ms = math.lcm(*(each.slide_ms for each in windows))
        per_window = 2 + len(last_ms)
        if sum(self.period_ms // each.slide_ms for each in windows) * per_window > MAX_EDGES:
            slides = ", ".join(f"{each.slide_ms:,}" for each in windows)
            raise InputError(
                f"windows that slide by {slides} ms repeat after {self.period_ms:,} ms only, with "
                f"more than {MAX_EDGES:,} panes in between: choose slides that are multiples of "
                "one another"
            )
        edges: set[int] = set()
        for each in windows:
            cuts = {0, each.size_ms, *(each.size_ms - last for last in last_ms)}
            for start in range(0, self.period_ms, each.slide_ms):
                edges |= {(start + cut) % self.period_ms for cut in cuts if cut >= 0}
        self.edges = np.array(sorted(edges), dtype=np.int64)
        self._even_ms = self._gap_if_even()

    def _gap_if_even(self) -> int | None:
        gaps = np.diff(np.append(self.edges, self.period_ms))
        return int(gaps[0]) if (gaps == gaps[0]).all() else None

    @property
    def num_in_period(self) -> int:
        """How many panes there are in a period."""
        return len(self.edges)

    def of(self, time_ms: Int64s) -> Int64s:
        """The pane of each event time."""
        if self._even_ms is not None:
            return np.asarray(time_ms // self._even_ms)
        period, rest = np.divmod(time_ms, self.period_ms)
        place = np.searchsorted(self.edges, rest, side="right") - 1
        return np.asarray(period * len(self.edges) + place)

    def start_ms(self, pane: Int64s) -> Int64s:
        """When each pane begins."""
        if self._even_ms is not None:
            return np.asarray(pane * self._even_ms)
        period, place = np.divmod(pane, len(self.edges))
        return np.asarray(period * self.period_ms + self.edges[place])

    def same_as(self, other: Panes) -> bool:
        """Whether both cut time at the same edges."""
        if self._even_ms is not None or other._even_ms is not None:
            return self._even_ms == other._even_ms
        period = math.lcm(self.period_ms, other.period_ms)
        if max(period // self.period_ms * len(self.edges), len(other.edges)) > MAX_EDGES:
            return False
        return np.array_equal(self.edges_until(period), other.edges_until(period))

    def edges_until(self, end_ms: int) -> Int64s:
        """All edges from the epoch to a multiple of the period."""
        return self.start_ms(np.arange(end_ms // self.period_ms * len(self.edges)))
