"""Window arithmetic on integers: which windows an event time belongs to.

Window k is [k * slide, k * slide + size). A pane is the longest stretch of time whose records
belong to the same windows; every window is a whole number of panes::

    size 30, slide 10, pane 10          windows that hold t = 25
    |.........|.........|....x....|
    0         10        20   t    30    k = 0 [0, 30)   k = 1 [10, 40)   k = 2 [20, 50)
"""

from __future__ import annotations

import math
import re
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
