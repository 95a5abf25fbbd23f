"""When a replay sends watermark records: a function of the records alone, not of wall time."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pipelines.punctuation import NO_WATERMARK_MS

Int64s = npt.NDArray[np.int64]


class Watermarks(NamedTuple):
    """The watermark records that belong into one chunk of records."""

    positions: Int64s  # each goes out right after the record at this place in the chunk
    values_ms: Int64s
    met_ms: Int64s  # for each record of the chunk, the watermark sent last before it


class WatermarkClock:
    """Turns event times into watermarks.

    A watermark is the largest event time so far minus the lateness, rounded down to a slide. It
    goes out when it has risen and at least `every_records` records went out since the last one.
    How the stream is cut into chunks makes no difference.

    Args:
        slide_ms: Watermarks are multiples of this.
        lateness_ms: How much later than a newer record a record may come.
        every_records: Least number of records between two watermarks.

    Example:
        >>> clock = WatermarkClock(slide_ms=10, lateness_ms=0, every_records=2)
        >>> marks = clock.advance(np.array([1, 11, 12, 25, 31]))
        >>> marks.positions, marks.values_ms
        (array([1, 3]), array([10, 20]))
        >>> clock.advance(np.array([32])).values_ms
        array([30])
    """

    def __init__(self, *, slide_ms: int, lateness_ms: int, every_records: int) -> None:
        self.slide_ms = slide_ms
        self.lateness_ms = lateness_ms
        self.every_records = every_records
        self._largest_ms = NO_WATERMARK_MS
        self._sent_ms = NO_WATERMARK_MS
        self._since_sent = 0

    def advance(self, timestamps_ms: Int64s) -> Watermarks:
        """Take the next records.

        Args:
            timestamps_ms: Their event times, in stream order.

        Returns:
            The watermarks to send among them.
        """
        size = len(timestamps_ms)
        before_ms = self._sent_ms
        largest = np.maximum(np.maximum.accumulate(timestamps_ms), self._largest_ms)
        watermarks = (largest - self.lateness_ms) // self.slide_ms * self.slide_ms
        positions: list[int] = []
        values: list[int] = []
        allowed = max(self.every_records - self._since_sent - 1, 0)
        while allowed < size:
            risen = int(np.searchsorted(watermarks, self._sent_ms, side="right"))
            at = max(allowed, risen)
            if at >= size:
                break
            self._sent_ms = int(watermarks[at])
            positions.append(at)
            values.append(self._sent_ms)
            allowed = at + self.every_records
        self._since_sent = size - 1 - positions[-1] if positions else self._since_sent + size
        if size:
            self._largest_ms = int(largest[-1])
        where = np.array(positions, dtype=np.int64)
        value = np.array(values, dtype=np.int64)
        steps = np.searchsorted(where, np.arange(size))
        met = np.concatenate([np.array([before_ms], dtype=np.int64), value])[steps]
        return Watermarks(where, value, met)
