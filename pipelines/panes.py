"""Window arithmetic on integers: which windows an event time belongs to.

Window k is [k * slide, k * slide + size). A pane is the longest stretch of time whose records
belong to the same windows; every window is a whole number of panes::

    size 30, slide 10, pane 10          windows that hold t = 25
    |.........|.........|....x....|
    0         10        20   t    30    k = 0 [0, 30)   k = 1 [10, 40)   k = 2 [20, 50)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import overload

import numpy as np
import numpy.typing as npt

from partitioners.errors import InputError

Int64s = npt.NDArray[np.int64]


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
