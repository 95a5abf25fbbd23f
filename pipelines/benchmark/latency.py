"""End-to-end latency of windows, measured from the schedule and not from the sends.

A window's result cannot be there before the last record that belongs to it was due. Latency is the
wall time the result was in the sink minus the time that record was *scheduled* to be sent. A
replay that falls behind its schedule therefore shows its stall, instead of hiding it by sending
(and starting the clock) late.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]
Float64s = npt.NDArray[np.float64]

QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "max": 1.0}
# Denser where the tail is.
CURVE = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.975, 0.99, 0.995, 0.999, 1.0)


class WindowSchedule:
    """For each window, the scheduled send time of the last record that belongs to it.

    Kept per slide-wide pane, since a record's windows are the same for the whole pane; only late
    records, which miss some of their windows, are kept per window.

    Args:
        window_ms: Size of a window.
        slide_ms: Distance of two window starts; divides the size.

    Example:
        >>> schedule = WindowSchedule(window_ms=20, slide_ms=10)
        >>> nothing_yet = np.full(3, -1)
        >>> schedule.add(np.array([3, 12, 14]), nothing_yet, np.array([100.0, 200.0, 300.0]))
        >>> schedule.due_ms(np.array([10, 20, 30, 40]))
        array([100., 300., 300., -inf])
    """

    def __init__(self, window_ms: int, slide_ms: int) -> None:
        self.window_ms = window_ms
        self.slide_ms = slide_ms
        self._due_by_pane: dict[int, float] = {}
        self._due_by_end: dict[int, float] = {}

    def add(self, timestamps_ms: Int64s, watermarks_ms: Int64s, due_ms: Float64s) -> None:
        """Note records in the order they are sent.

        Args:
            timestamps_ms: Event times.
            watermarks_ms: For each record the watermark its partition holds before it.
            due_ms: Scheduled wall times, never falling.
        """
        panes = timestamps_ms // self.slide_ms
        late = (panes + 1) * self.slide_ms <= watermarks_ms
        on_time = panes[~late]
        # The first in reverse order is the last that was sent.
        last_panes, index = np.unique(on_time[::-1], return_index=True)
        times = due_ms[~late][::-1][index]
        self._due_by_pane.update(zip(last_panes.tolist(), times.tolist(), strict=True))
        for at in np.flatnonzero(late):
            self._add_late(int(panes[at]), int(watermarks_ms[at]), float(due_ms[at]))

    def _add_late(self, pane: int, watermark_ms: int, due_ms: float) -> None:
        first_end = (watermark_ms // self.slide_ms + 1) * self.slide_ms
        last_end = pane * self.slide_ms + self.window_ms
        for end in range(first_end, last_end + 1, self.slide_ms):
            self._due_by_end[end] = due_ms

    def due_ms(self, window_ends_ms: Int64s) -> Float64s:
        """Give the scheduled send time of the last record of each window.

        Args:
            window_ends_ms: Ends of windows.

        Returns:
            One time for each window; minus infinity for a window without records.
        """
        panes = np.array(sorted(self._due_by_pane), dtype=np.int64)
        times = np.array([self._due_by_pane[pane] for pane in panes.tolist()] + [-np.inf])
        low = np.searchsorted(panes, (window_ends_ms - self.window_ms) // self.slide_ms)
        high = np.searchsorted(panes, window_ends_ms // self.slide_ms)
        due = np.full(len(window_ends_ms), -np.inf)
        filled = low < high
        if filled.any():
            bounds = np.stack([low[filled], high[filled]], axis=1).ravel()
            due[filled] = np.maximum.reduceat(times, bounds)[::2]
        for at, end in enumerate(window_ends_ms.tolist() if self._due_by_end else []):
            due[at] = max(due[at], self._due_by_end.get(end, -np.inf))
        return due


def window_latencies_ms(schedule: WindowSchedule, in_sink_ms: Mapping[int, float]) -> Float64s:
    """Give the latency of each window, in rising order.

    Args:
        schedule: When the last record of each window was due.
        in_sink_ms: Wall time each window's result was in the sink, by window end.

    Returns:
        Milliseconds; none for a window that got no record in this attempt.
    """
    ends = np.array(sorted(in_sink_ms), dtype=np.int64)
    written = np.array([in_sink_ms[end] for end in ends.tolist()], dtype=np.float64)
    due = schedule.due_ms(ends)
    return np.sort((written - due)[np.isfinite(due)])


def latency_quantiles_ms(latencies_ms: Float64s) -> dict[str, float | None]:
    """Give the latency quantiles over windows.

    Args:
        latencies_ms: Of each window.

    Returns:
        `p50`, `p95`, `p99` and `max` in milliseconds (nearest rank); None for each when there are
        no windows.
    """
    if not len(latencies_ms):
        return dict.fromkeys(QUANTILES)
    return {name: _quantile(latencies_ms, share) for name, share in QUANTILES.items()}


def latency_curve_ms(latencies_ms: Float64s) -> list[list[float]]:
    """Give the latency at more shares of the windows, for a plot.

    Args:
        latencies_ms: Of each window.

    Returns:
        Pairs of share and milliseconds, in rising order; none where there are no windows.

    Example:
        >>> latency_curve_ms(np.array([5.0, 7.0]))[:3]
        [[0.0, 5.0], [0.1, 5.0], [0.2, 5.0]]
    """
    if not len(latencies_ms):
        return []
    return [[share, _quantile(latencies_ms, share)] for share in CURVE]


def _quantile(values: Float64s, share: float) -> float:
    return round(float(np.quantile(values, share, method="inverted_cdf")), 1)
