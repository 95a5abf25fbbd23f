"""When records are due: at a rate, at a speed-up of event time, or at once."""

from __future__ import annotations

import time

import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]
Float64s = npt.NDArray[np.float64]

_MAX_DELAY_MS = 600_000


class Pace:
    """The schedule of a replay.

    A schedule starts with the first record that is really sent, so that a resumed run does not
    wait for what an earlier attempt has sent.

    Args:
        kind: `max`, `rate` or `speedup`.
        value: Records per second, or how many times faster than event time.
    """

    def __init__(self, kind: str, value: float) -> None:
        self.kind = kind
        self.value = value
        self._num_records = 0
        self._first_event_ms: int | None = None
        self._latest_event_ms = 0
        self._zero_s: float | None = None  # monotonic time of schedule time 0
        self._wall_minus_monotonic_s = time.time() - time.monotonic()

    @property
    def is_scheduled(self) -> bool:
        """Whether records have a time of their own; with `max` they go as fast as they can."""
        return self.kind != "max"

    def due_ms(self, timestamps_ms: Int64s) -> Float64s:
        """Give the schedule time of the next records.

        Args:
            timestamps_ms: Their event times.

        Returns:
            Milliseconds of schedule time, never falling.
        """
        size = len(timestamps_ms)
        numbers = np.arange(self._num_records, self._num_records + size)
        self._num_records += size
        if self.kind == "rate":
            return np.asarray(numbers * (1000.0 / self.value), dtype=np.float64)
        if self.kind == "max" or not size:
            return np.zeros(size)
        if self._first_event_ms is None:
            self._first_event_ms = self._latest_event_ms = int(timestamps_ms[0])
        # A record that is late in event time is due with the one before it.
        latest = np.maximum(np.maximum.accumulate(timestamps_ms), self._latest_event_ms)
        self._latest_event_ms = int(latest[-1])
        return np.asarray((latest - self._first_event_ms) / self.value, dtype=np.float64)

    def start_at(self, due_ms: float) -> None:
        """Start the clock, the first time it is called, so that `due_ms` is now."""
        if self._zero_s is None:
            self._zero_s = time.monotonic() - float(due_ms) / 1000

    def now_ms(self) -> float:
        """Schedule time now."""
        return (time.monotonic() - (self._zero_s or 0.0)) * 1000

    def seconds_until(self, due_ms: float) -> float:
        """How long to wait until a record is due; 0 or less if it is."""
        return (float(due_ms) - self.now_ms()) / 1000 if self.is_scheduled else 0.0

    def wall_ms(self, due_ms: Float64s) -> Float64s:
        """Give the wall time records were due: with `max`, that of handing them over, now."""
        if not self.is_scheduled:
            return np.full(len(due_ms), time.time() * 1000)
        return due_ms + ((self._zero_s or 0.0) + self._wall_minus_monotonic_s) * 1000


class DelayHistogram:
    """How far sends fell behind their schedule, to the millisecond and up to ten minutes."""

    def __init__(self) -> None:
        self._counts = np.zeros(_MAX_DELAY_MS + 1, np.int64)

    def add(self, delays_ms: Float64s) -> None:
        """Count delays."""
        whole = np.clip(delays_ms, 0, _MAX_DELAY_MS).astype(np.int64)
        low, high = int(whole.min()), int(whole.max())
        self._counts[low : high + 1] += np.bincount(whole - low, minlength=high - low + 1)

    def quantiles_ms(self, shares: dict[str, float]) -> dict[str, float | None]:
        """Give quantiles by name; None for each when nothing had a schedule.

        Example:
            >>> delays = DelayHistogram()
            >>> delays.add(np.array([1.0, 2.0, 9.0]))
            >>> delays.quantiles_ms({"p50": 0.5, "max": 1.0})
            {'p50': 2.0, 'max': 9.0}
        """
        totals = np.cumsum(self._counts)
        if not totals[-1]:
            return dict.fromkeys(shares)
        return {
            name: float(np.searchsorted(totals, np.ceil(share * totals[-1])))
            for name, share in shares.items()
        }
