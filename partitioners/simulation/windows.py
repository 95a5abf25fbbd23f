"""Counts what every worker holds in every sliding window of a routed stream, exactly.

One pass, whatever the number of windows: records enter with their pane and leave with it, as in
``pipelines``. Worker i is the combiner of partition i; a *partial* is one row (key, partition) that
a combiner hands to the reducer of the key. A key is *split* in a window where it has two or more.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from partitioners._jit import kernel
from partitioners.errors import InputError
from partitioners.hashing import candidates

Counts = npt.NDArray[np.int64]

MAX_SLIDES = 1_000_000
REDUCER_SEED = 77
"""Reducers own keys by a hash that is independent of the partitioners', whose seed is 0."""


@dataclass(frozen=True)
class WindowSeries:
    """What workers and reducers hold, window by window; w windows, n workers, r reducers.

    Attributes:
        ends_ms: ``int64[w]``: end of each window, which is the end of its last pane.
        num_keys: ``int64[w]``: distinct keys.
        loads: ``int64[w, n]``: records in the window.
        cardinalities: ``int64[w, n]``: distinct keys in the window, which are its partials.
        pane_loads: ``int64[w, n]``: records in the last pane.
        pane_cardinalities: ``int64[w, n]``: distinct keys in the last pane.
        partials: ``int64[w, r]``: partials of the window that each reducer gets.
        split_partials: ``int64[w, r]``: those of split keys alone.
        pane_partials: ``int64[w, r]``: partials of the last pane.
        panes_per_window: Slides in a window.
    """

    ends_ms: Counts
    num_keys: Counts
    loads: Counts
    cardinalities: Counts
    pane_loads: Counts
    pane_cardinalities: Counts
    partials: Counts
    split_partials: Counts
    pane_partials: Counts
    panes_per_window: int

    @property
    def imbalances(self) -> npt.NDArray[np.float64]:
        """(max - mean) / mean of the loads of each window, ``float64[w]``."""
        means = self.loads.mean(axis=1)
        return np.asarray((self.loads.max(axis=1) - means) / np.maximum(means, 1e-300))

    @property
    def fragmentations(self) -> npt.NDArray[np.float64]:
        """Partials per key of each window, ``float64[w]``."""
        return np.asarray(self.cardinalities.sum(axis=1) / np.maximum(self.num_keys, 1))


def measure_windows(
    ids: Counts,
    partitions: npt.NDArray[np.int32],
    timestamps_ms: Counts,
    num_partitions: int,
    *,
    window_ms: int,
    slide_ms: int | None = None,
    num_reducers: int = 1,
) -> WindowSeries:
    """Count all whole windows of a routed stream.

    A window is whole if it begins at the first record's slide or later, and ends with the last
    record's at the latest. Where no window is whole, the one that ends the stream counts.

    Args:
        ids: ``int64[n]``, 0 or more: which records have the same key.
        partitions: ``int32[n]``.
        timestamps_ms: ``int64[n]``, in any order.
        num_partitions: Workers there are.
        window_ms: Size of the windows; they end at multiples of ``slide_ms``.
        slide_ms: Divides the size; None: the size, which makes them tumble.
        num_reducers: Reducers there are.

    Returns:
        The series; of no records, one without windows.

    Raises:
        InputError: The slide does not divide the window, or the stream is too long for it.

    Example:
        >>> series = measure_windows(np.array([7, 7, 8, 7]), np.array([0, 1, 0, 1], np.int32),
        ...     np.array([0, 1, 2, 3]), 2, window_ms=2, slide_ms=1)
        >>> series.ends_ms.tolist(), series.loads.tolist()
        ([2, 3, 4], [[1, 1], [1, 1], [1, 1]])
        >>> series.fragmentations.tolist()
        [2.0, 1.0, 1.0]
    """
    slide = window_ms if slide_ms is None else slide_ms
    if window_ms < 1 or slide < 1 or window_ms % slide:
        raise InputError(
            f"the slide must divide the window, not {slide} ms the {window_ms} ms: "
            "choose a slide such as a tenth of the window"
        )
    panes = timestamps_ms // slide
    first, last = (int(panes.min()), int(panes.max())) if len(panes) else (0, -1)
    num_panes = last - first + 1
    if num_panes > MAX_SLIDES:
        raise InputError(
            f"the stream spans {num_panes:,} slides of {slide} ms: choose a longer slide, so that "
            f"there are {MAX_SLIDES:,} at most"
        )
    order = np.argsort(panes, kind="stable")
    bounds = np.searchsorted(panes[order], np.arange(first, last + 2))
    keys, numbers = np.unique(ids, return_inverse=True)
    pairs, pair_numbers = np.unique(
        numbers * np.int64(num_partitions) + partitions, return_inverse=True
    )
    panes_per_window = window_ms // slide
    first_row = panes_per_window - 1  # the pane that ends the first whole window
    end_ms = int(timestamps_ms.max()) + 1 if len(panes) else 0
    last_row = end_ms // slide - 1 - first  # a pane that the stream ends within is not whole
    if last_row < first_row:
        first_row = last_row = num_panes - 1
    num_rows = last_row - first_row + 1 if len(panes) else 0
    per_worker = (num_rows, num_partitions)
    per_reducer = (num_rows, num_reducers)
    series = WindowSeries(
        ends_ms=(first + first_row + 1 + np.arange(num_rows, dtype=np.int64)) * slide,
        num_keys=np.zeros(num_rows, np.int64),
        loads=np.zeros(per_worker, np.int64),
        cardinalities=np.zeros(per_worker, np.int64),
        pane_loads=np.zeros(per_worker, np.int64),
        pane_cardinalities=np.zeros(per_worker, np.int64),
        partials=np.zeros(per_reducer, np.int64),
        split_partials=np.zeros(per_reducer, np.int64),
        pane_partials=np.zeros(per_reducer, np.int64),
        panes_per_window=panes_per_window,
    )
    if num_rows:
        _slide_over(
            pair_numbers[order],
            bounds,
            pairs // num_partitions,
            pairs % num_partitions,
            candidates(keys.astype(np.uint64), 1, num_reducers, REDUCER_SEED)[:, 0],
            panes_per_window,
            first_row,
            series.num_keys,
            series.loads,
            series.cardinalities,
            series.pane_loads,
            series.pane_cardinalities,
            series.partials,
            series.split_partials,
            series.pane_partials,
        )
    return series


@kernel
def _slide_over(
    pair_numbers: Counts,
    bounds: Counts,
    pair_keys: Counts,
    pair_workers: Counts,
    key_reducers: npt.NDArray[np.int32],
    panes_per_window: int,
    first_row: int,
    num_keys: Counts,
    loads: Counts,
    cardinalities: Counts,
    pane_loads: Counts,
    pane_cardinalities: Counts,
    partials: Counts,
    split_partials: Counts,
    pane_partials: Counts,
) -> None:
    num_rows, num_workers = loads.shape
    records_of = np.zeros(len(pair_keys), np.int64)
    last_pane_of = np.full(len(pair_keys), -1, np.int64)
    pairs_of = np.zeros(len(key_reducers), np.int64)
    load = np.zeros(num_workers, np.int64)
    cardinality = np.zeros(num_workers, np.int64)
    partial = np.zeros(partials.shape[1], np.int64)
    split = np.zeros(partials.shape[1], np.int64)
    keys = 0
    for pane in range(first_row + num_rows):
        row = pane - first_row
        gone = pane - panes_per_window
        if gone >= 0:
            for record in range(bounds[gone], bounds[gone + 1]):
                pair = pair_numbers[record]
                worker = pair_workers[pair]
                load[worker] -= 1
                records_of[pair] -= 1
                if records_of[pair] == 0:
                    key = pair_keys[pair]
                    reducer = key_reducers[key]
                    cardinality[worker] -= 1
                    partial[reducer] -= 1
                    pairs_of[key] -= 1
                    if pairs_of[key] == 0:
                        keys -= 1
                    else:  # with one pair left the key is whole again: both leave the split ones
                        split[reducer] -= 2 if pairs_of[key] == 1 else 1
        for record in range(bounds[pane], bounds[pane + 1]):
            pair = pair_numbers[record]
            worker = pair_workers[pair]
            key = pair_keys[pair]
            reducer = key_reducers[key]
            load[worker] += 1
            if row >= 0:
                pane_loads[row, worker] += 1
                if last_pane_of[pair] != pane:
                    last_pane_of[pair] = pane
                    pane_cardinalities[row, worker] += 1
                    pane_partials[row, reducer] += 1
            records_of[pair] += 1
            if records_of[pair] == 1:
                cardinality[worker] += 1
                partial[reducer] += 1
                pairs_of[key] += 1
                if pairs_of[key] == 1:
                    keys += 1
                else:
                    split[reducer] += 2 if pairs_of[key] == 2 else 1
        if row >= 0:
            num_keys[row] = keys
            loads[row] = load
            cardinalities[row] = cardinality
            partials[row] = partial
            split_partials[row] = split


def cumulative_imbalances(
    partitions: npt.NDArray[np.int32], num_partitions: int, num_points: int = 1_000
) -> npt.NDArray[np.float64]:
    """Follow I(t), the records of the fullest worker less the mean, as a stream goes by.

    Nasir et al., ICDE 2015, section II: I(t) = max_i L_i(t) - avg_i L_i(t), with all records up to
    t. Their "average imbalance" is the mean of this.

    Args:
        partitions: ``int32[n]``.
        num_partitions: Workers there are.
        num_points: Points in time, equally many records apart; the last is the end.

    Returns:
        ``float64[p]`` in records, p = min(num_points, n).

    Example:
        >>> cumulative_imbalances(np.array([0, 0, 1, 1], np.int32), 2, 4).tolist()
        [0.5, 1.0, 0.5, 0.0]
    """
    points = min(num_points, len(partitions))
    ends = (np.arange(1, points + 1) * len(partitions)) // max(points, 1)
    loads = np.zeros(num_partitions, np.int64)
    out = np.zeros(points)
    start = 0
    for point, end in enumerate(ends.tolist()):
        loads += np.bincount(partitions[start:end], minlength=num_partitions)
        out[point] = loads.max() - loads.mean()
        start = end
    return out
