"""What a routing costs by the papers' models: combining, aggregation, throughput, waiting.

One model with a few prices covers them. Combiners work side by side, so do reducers, and both at
the same time; the slowest worker decides how many records a second the whole can take.

======================== ==========================================================================
PKG, ICDE 2015           combiners alone: ``partial_us = merge_us = 0``; a CPU delay per record
Holistic, PVLDB 2017     window latency = slowest combiner + one aggregator that takes in
                         Gamma = sum |f(L_j)| partials (equations 1 to 4): ``window_latency_us``
Dalton, PVLDB 2022       as above with m reducers, the fullest of which counts (equation 2);
                         ``forwards_whole`` is key forwarding (section 4.2)
Prompt, SIGMOD 2020      slowest map task + slowest reduce task per batch (equation 1):
                         ``window_latency_us`` of tumbling windows
Enorm, DEBS 2016         panes are combined once and merged at every slide: ``shares_panes``
======================== ==========================================================================
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from partitioners._jit import kernel
from partitioners.errors import InputError
from partitioners.simulation.windows import WindowSeries

Microseconds = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class CostModel:
    """Prices of the work, and who does it.

    Attributes:
        record_us: A combiner's time per record.
        partial_us: A combiner's time per partial it hands on.
        merge_us: A reducer's time per partial it takes in.
        num_reducers: Reducers; each owns the keys of its share of a hash.
        shares_panes: Combiners hand on the partials of each pane once, and reducers keep them;
            False: at every slide those of the whole window, as Flink and Storm do.
        forwards_whole: Partials of keys that are whole in the window skip the reducers.
    """

    record_us: float = 1.0
    partial_us: float = 0.0
    merge_us: float = 1.0
    num_reducers: int = 1
    shares_panes: bool = True
    forwards_whole: bool = False

    def __post_init__(self) -> None:
        for name in ("record_us", "partial_us", "merge_us"):
            value = getattr(self, name)
            if not 0.0 <= value <= 1e9:
                raise InputError(f"{name} must be from 0 to 1e9 microseconds, not {value}")
        if not 1 <= self.num_reducers <= 10_000:
            raise InputError(f"num_reducers must be from 1 to 10000, not {self.num_reducers}")

    def combine_us(self, series: WindowSeries) -> Microseconds:
        """Take the work of each combiner per slide, mean over the slides of each window.

        Queues even out what lies within a window, so its mean counts, not its fullest slide.

        Args:
            series: From ``measure_windows``.

        Returns:
            ``float64[w, n]``.
        """
        records = series.loads / series.panes_per_window
        partials = (
            _trailing_means(series.pane_cardinalities, series.panes_per_window)
            if self.shares_panes
            else series.cardinalities
        )
        return np.asarray(records * self.record_us + partials * self.partial_us, np.float64)

    def reduce_us(self, series: WindowSeries) -> Microseconds:
        """Take the work of each reducer per slide, mean over the slides of each window.

        Args:
            series: From ``measure_windows``, for as many reducers.

        Returns:
            ``float64[w, r]``.
        """
        partials = np.asarray(series.partials, np.float64)
        if self.shares_panes:
            partials = _trailing_means(series.pane_partials, series.panes_per_window)
        if self.forwards_whole:
            # A pane's partial of a key that is split in the window is merged, the others are not.
            partials = partials * series.split_partials / np.maximum(series.partials, 1)
        return np.asarray(partials * self.merge_us, np.float64)

    def throughput(self, series: WindowSeries) -> float:
        """Say how many records a second the slowest worker lets pass, without a queue that grows.

        Args:
            series: From ``measure_windows``.

        Returns:
            Records per second; 0 of no windows, infinite where nothing costs.

        Example:
            >>> from partitioners.simulation import measure_windows
            >>> zeros = np.zeros(4, np.int32)
            >>> series = measure_windows(np.arange(4), zeros, np.arange(4), 2, window_ms=4)
            >>> CostModel(record_us=1.0, merge_us=0.5).throughput(series)  # one worker of two works
            1000000.0
        """
        if not len(series.ends_ms):
            return 0.0
        combine, reduce = self.combine_us(series), self.reduce_us(series)
        slowest_us = float(np.maximum(combine.max(axis=1), reduce.max(axis=1)).sum())
        num_records = series.loads.sum() / series.panes_per_window
        return float(num_records / slowest_us * 1e6) if slowest_us > 0 else float("inf")

    def bottleneck(self, series: WindowSeries) -> str:
        """Say which side decides the throughput over the whole stream: combine or reduce."""
        if not len(series.ends_ms):
            return "combine"
        combine = self.combine_us(series).max(axis=1).sum()
        return "combine" if combine >= self.reduce_us(series).max(axis=1).sum() else "reduce"

    def window_latency_us(self, series: WindowSeries) -> Microseconds:
        """Add the slowest combiner and the slowest reducer of each window, one after the other.

        Args:
            series: From ``measure_windows``.

        Returns:
            ``float64[w]``, for whole windows: what is computed once a window has ended.
        """
        combine = series.loads * self.record_us + series.cardinalities * self.partial_us
        partials = series.split_partials if self.forwards_whole else series.partials
        return np.asarray(combine.max(axis=1) + partials.max(axis=1) * self.merge_us)


def _trailing_means(values: npt.NDArray[np.int64], length: int) -> Microseconds:
    """Average each row with those before it, so many in all or as many as there are."""
    sums = np.cumsum(values, axis=0, dtype=np.float64)
    sums[length:] -= sums[:-length].copy()
    counts = np.minimum(np.arange(1, len(values) + 1), length)
    return np.asarray(sums / counts[:, None])


def queue_waits_us(
    partitions: npt.NDArray[np.int32],
    num_partitions: int,
    *,
    records_per_s: float,
    record_us: float,
) -> Microseconds:
    """Let records queue before workers that take them one by one, and say how long each stays.

    Records arrive evenly spaced, each takes a worker the same time. A worker with more than it can
    do has a queue that grows to the end of the stream.

    Args:
        partitions: ``int32[n]``.
        num_partitions: Workers there are.
        records_per_s: Arrivals, of all workers together.
        record_us: Time a worker needs for a record.

    Returns:
        ``float64[n]``: time from arrival to the end of the work, in microseconds.

    Raises:
        InputError: The rate is not positive.

    Example:
        >>> partitions = np.array([0, 0, 1], np.int32)
        >>> queue_waits_us(partitions, 2, records_per_s=1e6, record_us=3).tolist()
        [3.0, 5.0, 3.0]
    """
    if records_per_s <= 0:
        raise InputError(f"records_per_s must be above 0, not {records_per_s}")
    out = np.empty(len(partitions))
    _queue(partitions, 1e6 / records_per_s, record_us, np.zeros(num_partitions), out)
    return out


@kernel
def _queue(
    partitions: npt.NDArray[np.int32],
    gap_us: float,
    record_us: float,
    free_at_us: Microseconds,
    out: Microseconds,
) -> None:
    for record in range(len(partitions)):
        arrival_us = record * gap_us
        worker = partitions[record]
        free_at_us[worker] = max(free_at_us[worker], arrival_us) + record_us
        out[record] = free_at_us[worker] - arrival_us
