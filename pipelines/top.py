"""The largest keys of every window, found from runs."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.aggregates import SMALLEST, Aggregates
from pipelines.blobs import Int64s
from pipelines.ring import Runs, covered

# Windows looked at in one go. More means more runs that might be in some window's top.
_WINDOWS_PER_STEP = 128


def key_ranks(keys: pa.Array) -> Int64s:
    """The place of each key in the order of bytes; null comes first."""
    order = pc.array_sort_indices(keys, null_placement="at_start").to_numpy()
    ranks = np.empty(len(keys), dtype=np.int64)
    ranks[order] = np.arange(len(keys))
    return ranks


def top_of_windows(runs: Runs, keys: pa.Array, aggregates: Aggregates, k: int) -> Runs:
    """The k largest keys of each window.

    Args:
        runs: Runs of keys.
        keys: Binary array; `runs.key` are indices into it.
        aggregates: Says the order.
        k: How many.

    Returns:
        Runs of one window each, ordered by window and place. A key whose first number to rank by
        is `SMALLEST` has no place.
    """
    runs = runs.live()
    runs = runs.where(runs.value[aggregates.order_rows[0]] != SMALLEST)
    parts = []
    for start, end in _steps(covered(runs)):
        inside = np.flatnonzero((runs.start < end) & (runs.end > start))
        step = runs.where(inside)
        step = step._replace(start=np.maximum(step.start, start), end=np.minimum(step.end, end))
        step = step.where(_may_be_top(step, end - start, aggregates, k))
        parts.append(_ranked(_single_windows(step), keys, aggregates, k))
    if not parts:
        return runs.where(np.zeros(len(runs.start), dtype=bool))
    return concat_runs(parts)


def concat_runs(parts: list[Runs]) -> Runs:
    """Put runs together."""
    return Runs(
        np.concatenate([p.start for p in parts]),
        np.concatenate([p.end for p in parts]),
        np.concatenate([p.key for p in parts]),
        np.concatenate([p.value for p in parts], axis=1),
        np.concatenate([p.changed for p in parts]),
    )


def _steps(stretches: Iterable[tuple[int, int]]) -> Iterable[tuple[int, int]]:
    for start, end in stretches:
        for low in range(start, end, _WINDOWS_PER_STEP):
            yield low, min(low + _WINDOWS_PER_STEP, end)


def _may_be_top(runs: Runs, num_windows: int, aggregates: Aggregates, k: int) -> Int64s:
    """Leave out keys that cannot be in the top of any of these windows.

    A key whose largest value is below the smallest values of k other keys never is: with 10,000
    keys of Zipf(1.4) this leaves some tens.
    """
    # The first row that tells keys apart: the high limbs of a sum are mostly alike.
    row = (
        next(
            (i for i in aggregates.order_rows if runs.value[i].min() != runs.value[i].max()),
            aggregates.order_rows[0],
        )
        if len(runs.key)
        else aggregates.order_rows[0]
    )
    keys, place = np.unique(runs.key, return_inverse=True)
    smallest = np.full(len(keys), np.iinfo(np.int64).max)
    largest = np.full(len(keys), np.iinfo(np.int64).min)
    np.minimum.at(smallest, place, runs.value[row])
    np.maximum.at(largest, place, runs.value[row])
    windows = np.bincount(place, weights=runs.end - runs.start, minlength=len(keys))
    always = smallest[windows == num_windows]
    if len(always) < k:
        return np.arange(len(runs.key))
    bar = np.partition(always, len(always) - k)[len(always) - k]
    return np.flatnonzero((largest >= bar)[place])


def _single_windows(runs: Runs) -> Runs:
    lengths = runs.end - runs.start
    which = np.repeat(np.arange(len(lengths)), lengths)
    before = np.cumsum(lengths) - lengths
    start = runs.start[which] + np.arange(len(which)) - before[which]
    return runs.where(which)._replace(start=start, end=start + 1)


def _near_top(runs: Runs, row: int, k: int) -> npt.NDArray[np.bool_]:
    """Leave out what is below the k-th largest of its window in the first number to rank by.

    One sort of single integers in place of sorting all rows by several columns: of windows of
    1,500 keys each it takes a sixth of the time.
    """
    low, lowest = int(runs.start.min()), int(runs.value[row].min())
    window, value = runs.start - low, runs.value[row]
    spans = int(window.max()) + 1, int(value.max()) - lowest + 1
    # Where both do not fit one integer, the last bits of the numbers are left out of the bar.
    shift = max(0, (spans[0] * spans[1]).bit_length() - 62)
    span = (spans[1] >> shift) + 1
    above = (int(value.max()) >> shift) - (value >> shift)
    place = window * span + above
    ordered = np.sort(place)
    begins = np.searchsorted(ordered, np.arange(spans[0] + 1) * span)
    last = np.minimum(begins[:-1] + k, begins[1:]) - 1
    return np.asarray(place <= ordered[last][window])


def _ranked(runs: Runs, keys: pa.Array, aggregates: Aggregates, k: int) -> Runs:
    if len(runs.key):
        runs = runs.where(_near_top(runs, aggregates.order_rows[0], k))
    present, place = np.unique(runs.key, return_inverse=True)
    tie = key_ranks(keys.take(pa.array(present)))[place]
    columns = [~runs.value[row] for row in reversed(aggregates.order_rows)]
    order = np.lexsort((tie, *columns, runs.start))
    window = runs.start[order]
    begins = np.flatnonzero(np.concatenate([np.ones(1, dtype=bool), window[1:] != window[:-1]]))
    lengths = np.diff(np.append(begins, len(window)))
    rank = np.arange(len(window)) - np.repeat(begins, lengths)
    return runs.where(order[rank < k])
