"""Order statistics of many sliding multisets: one compiled pass over events and questions.

A multiset is a Fenwick tree of counts over the ranks of its distinct values, so an event or a
question costs the logarithm of their number.
"""

from __future__ import annotations

import numba
import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]
Float64s = npt.NDArray[np.float64]


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _kth(tree: Int64s, size: int, k: int) -> int:
    """The rank (from 0) of the k-th smallest, k from 1."""
    at = 0
    step = 1
    while step * 2 <= size:
        step *= 2
    while step > 0:
        if at + step <= size and tree[at + step] < k:
            at += step
            k -= tree[at]
        step //= 2
    return at


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def quantile_bounds(
    cell_key: Int64s,
    cell_value: Int64s,
    cell_count: Int64s,
    event_cell: Int64s,
    event_window: Int64s,
    event_delta: Int64s,
    row_key: Int64s,
    row_window: Int64s,
    quantiles: Float64s,
    out: Int64s,
) -> None:
    """Find the two values each quantile lies between, for multisets by key as they change.

    Args:
        cell_key: int64[m], keys of (key, value) pairs, ordered by key and value.
        cell_value: int64[m]
        cell_count: int64[m], how often the value is there before the first event; set to how often
            after the last.
        event_cell: int64[e], index of the pair an event changes; ordered by key, then window.
        event_window: int64[e]
        event_delta: int64[e]
        row_key: int64[r], keys asked for, ordered by key, then window.
        row_window: int64[r], the answer holds all events up to this window.
        quantiles: float64[q], in [0, 1].
        out: int64[2 q, r], values at floor and ceil of quantile * (n - 1); left alone where n is 0.
    """
    num_cells, num_events, num_rows = cell_key.size, event_cell.size, row_key.size
    cell, event, row = 0, 0, 0
    tree = np.zeros(1, np.int64)
    while cell < num_cells:
        key, first = cell_key[cell], cell
        while cell < num_cells and cell_key[cell] == key:
            cell += 1
        size = cell - first
        while row < num_rows and row_key[row] < key:
            row += 1
        asked = row < num_rows and row_key[row] == key
        if asked:
            if tree.size < size + 1:
                tree = np.zeros(2 * size + 1, np.int64)
            tree[: size + 1] = 0
            for i in range(size):
                tree[i + 1] += cell_count[first + i]
                parent = i + 1 + ((i + 1) & -(i + 1))
                if parent <= size:
                    tree[parent] += tree[i + 1]
        n = 0
        for i in range(first, cell):
            n += cell_count[i]
        while True:
            more = event < num_events and event_cell[event] < cell
            here = row < num_rows and row_key[row] == key
            if more and (not here or event_window[event] <= row_window[row]):
                delta = event_delta[event]
                cell_count[event_cell[event]] += delta
                n += delta
                if asked:
                    i = event_cell[event] - first + 1
                    while i <= size:
                        tree[i] += delta
                        i += i & -i
                event += 1
            elif here:
                if n > 0:
                    for q in range(quantiles.size):
                        place = quantiles[q] * (n - 1)
                        low, high = int(np.floor(place)), int(np.ceil(place))
                        out[2 * q, row] = cell_value[first + _kth(tree, size, low + 1)]
                        out[2 * q + 1, row] = cell_value[first + _kth(tree, size, high + 1)]
                row += 1
            else:
                break
