"""Sliding by panes: window values from changes at window numbers, in plain numpy.

A partial that counts in windows [enter, exit) is two changes of its key's running total: combined
at `enter`, deducted at `exit`. The value of a key is constant between changes, so a window's
values are *runs*: (key, first window, end window, measures). The cost follows the number of
partials, not how many windows overlap; hours without data cost nothing::

    partial of 3 records, windows [2, 5)        2: +3      5: -3
    partial of 1 record,  windows [4, 7)        4: +1      7: -1
    runs                                        [2, 4) = 3   [4, 5) = 4   [5, 7) = 1   [7, ..) gone
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pipelines.aggregates import Aggregate
from pipelines.blobs import Int64s

Bools = npt.NDArray[np.bool_]


class Changes(NamedTuple):
    """Changes of running totals.

    Attributes:
        window: int64[n], the first window with the change.
        key: int64[n], key ids.
        delta: int64[num_measures, n]; neutral where a measure is not deducted.
    """

    window: Int64s
    key: Int64s
    delta: Int64s

    def where(self, chosen: Bools | Int64s) -> Changes:
        """The chosen rows."""
        return Changes(self.window[chosen], self.key[chosen], self.delta[:, chosen])


class Runs(NamedTuple):
    """Values of keys over stretches of windows, ordered by key and window.

    Attributes:
        start: int64[n], first window.
        end: int64[n], first window after.
        key: int64[n], key ids.
        value: int64[num_measures, n]; a count of 0 says that the key left the window at `start`.
        changed: bool[n], whether the value differs from that of the window before `start`.
    """

    start: Int64s
    end: Int64s
    key: Int64s
    value: Int64s
    changed: Bools

    def where(self, chosen: Bools | Int64s) -> Runs:
        """The chosen rows."""
        return Runs(
            self.start[chosen],
            self.end[chosen],
            self.key[chosen],
            self.value[:, chosen],
            self.changed[chosen],
        )

    def live(self) -> Runs:
        """Without the rows that only say that a key has left."""
        return self.where(self.value[0] > 0)


def concat_changes(parts: list[Changes], num_measures: int) -> Changes:
    """Put changes together."""
    if not parts:
        empty = np.empty(0, dtype=np.int64)
        return Changes(empty, empty, np.empty((num_measures, 0), dtype=np.int64))
    return Changes(
        np.concatenate([p.window for p in parts]),
        np.concatenate([p.key for p in parts]),
        np.concatenate([p.delta for p in parts], axis=1),
    )


def partial_changes(
    enter: Int64s, exit_: Int64s, key: Int64s, measures: Int64s, aggregate: Aggregate
) -> Changes:
    """The two changes of each partial: combined at `enter`, deducted at `exit_`."""
    deducted = np.stack(
        [
            -row if measure.deducts else np.full_like(row, measure.neutral)
            for measure, row in zip(aggregate.measures, measures, strict=True)
        ]
    )
    return Changes(
        np.concatenate([enter, exit_]),
        np.concatenate([key, key]),
        np.concatenate([measures, deducted], axis=1),
    )


def slide(
    totals: Int64s, changes: Changes, first: int | None, end: int, aggregate: Aggregate
) -> Runs:
    """Slide running totals over the windows [first, end).

    Args:
        totals: int64[num_measures, num_keys], the value of every key in window `first` - 1; set to
            that in window `end` - 1.
        changes: All changes at windows before `end`; none before `first`.
        first: The first window not yet closed; None before the first change of all.
        end: The first window that stays open.
        aggregate: The measures.

    Returns:
        The runs of every key that lives or changes in these windows.
    """
    if first is None:
        first = int(changes.window.min()) if len(changes.window) else end
    live = np.flatnonzero(totals[0] > 0)
    touched = np.zeros(totals.shape[1], dtype=bool)
    touched[live] = True
    touched[changes.key] = True
    keys = np.flatnonzero(touched)
    # The total so far is one more change, in the window before the first.
    window = np.concatenate([np.full(len(keys), first - 1, dtype=np.int64), changes.window])
    key = np.concatenate([keys, changes.key])
    delta = np.concatenate([totals[:, keys], changes.delta], axis=1)
    window, key, delta = _net(window, key, delta, aggregate)
    begins = _differs(key)
    value = _accumulate(delta, begins, aggregate)
    changed = np.zeros(len(key), dtype=bool)
    if len(key):
        changed[1:] = (value[:, 1:] != value[:, :-1]).any(axis=0)
    changed &= ~begins
    last = np.append(begins[1:], True)[: len(key)]
    totals[:, key[last]] = value[:, last]
    kept = begins | changed
    window, key, value, changed = window[kept], key[kept], value[:, kept], changed[kept]
    ends = np.append(window[1:], end)[: len(key)]
    ends[np.append(_differs(key)[1:], True)[: len(key)]] = end
    runs = Runs(np.maximum(window, first), ends, key, value, changed)
    return runs.where((runs.start < runs.end) & (changed | (value[0] > 0)))


def _net(
    window: Int64s, key: Int64s, delta: Int64s, aggregate: Aggregate
) -> tuple[Int64s, Int64s, Int64s]:
    """One change per key and window, ordered by key and window."""
    if not len(window):
        return window, key, delta
    low, high = int(window.min()), int(window.max())
    span = high - low + 1
    if (int(key.max()) + 1) * span < 2**62:
        both = key * span + (window - low)
        order = np.argsort(both)
        fresh = _differs(both[order])
    else:
        order = np.lexsort((window, key))
        fresh = _differs(window[order]) | _differs(key[order])
    at = np.flatnonzero(fresh)
    net = np.stack(
        [
            measure.combine.reduceat(row[order], at)
            for measure, row in zip(aggregate.measures, delta, strict=True)
        ]
    )
    chosen = order[at]
    return window[chosen], key[chosen], net


def _differs(values: Int64s) -> Bools:
    """Where a value differs from the one before; the first does."""
    fresh = np.ones(len(values), dtype=bool)
    np.not_equal(values[1:], values[:-1], out=fresh[1:])
    return fresh


def _accumulate(delta: Int64s, begins: Bools, aggregate: Aggregate) -> Int64s:
    """Running totals of each key; the neutral value where the count is 0."""
    out = np.empty_like(delta)
    segment = np.cumsum(begins) - 1
    for row, measure in enumerate(aggregate.measures):
        if measure.combine is np.add:
            total = np.cumsum(delta[row])
            offset = (total - delta[row])[begins]
            out[row] = total - offset[segment]
        else:
            out[row] = _running_maximum(delta[row], segment, measure.neutral)
    gone = out[0] == 0
    for row, measure in enumerate(aggregate.measures):
        out[row, gone] = measure.neutral
    return out


def _running_maximum(values: Int64s, segment: Int64s, neutral: int) -> Int64s:
    """The largest value so far within each segment."""
    real = values != neutral
    if not real.any():
        return values.copy()
    # Ranks, so that segment and value fit one integer whatever the values are.
    distinct, rank = np.unique(values, return_inverse=True)
    lifted = segment * len(distinct) + rank
    return np.asarray(distinct[np.maximum.accumulate(lifted) - segment * len(distinct)])


def covered(runs: Runs) -> list[tuple[int, int]]:
    """Stretches of windows in which at least one key lives, as [start, end) pairs."""
    live = runs.value[0] > 0
    start, end = runs.start[live], runs.end[live]
    if not len(start):
        return []
    order = np.argsort(start)
    start, reach = start[order], np.maximum.accumulate(end[order])
    gaps = np.flatnonzero(start[1:] > reach[:-1]) + 1
    begins = start[np.concatenate([np.array([0]), gaps])]
    ends = reach[np.concatenate([gaps - 1, np.array([len(start) - 1])])]
    return list(zip(begins.tolist(), ends.tolist(), strict=True))
