"""Sliding by panes: window values from changes at window numbers, in plain numpy.

A partial that counts in windows [enter, exit) is two changes of its key's running total: combined
at `enter`, deducted at `exit`. The value of a key is constant between changes, so a window's
values are *runs*: (key, first window, end window, states). The cost follows the number of
partials, not how many windows overlap; hours without data cost nothing::

    partial of 3 records, windows [2, 5)        2: +3      5: -3
    partial of 1 record,  windows [4, 7)        4: +1      7: -1
    runs                                        [2, 4) = 3   [4, 5) = 4   [5, 7) = 1   [7, ..) gone
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from pipelines.aggregates import Aggregates
from pipelines.blobs import Int64s
from pipelines.lookup import differs, order_of, running_sums
from pipelines.scan import fold, scan

Bools = npt.NDArray[np.bool_]

NO_PEER = -(2**63)
"""Marks a change that the two stacks do not see."""


class Changes(NamedTuple):
    """Changes of running totals.

    Attributes:
        window: int64[n], the first window with the change.
        key: int64[n], key ids.
        delta: int64[num travelling, n], of the state columns that partials carry; neutral where a
            newest pane leaves; of columns that slide by two stacks, the partial's state, or, once
            stacked, what is left without it.
        peer: int64[n], of a partial's two changes the window of the other one; `NO_PEER` where the
            partial is late: it entered later than its pane.
    """

    window: Int64s
    key: Int64s
    delta: Int64s
    peer: Int64s

    def where(self, chosen: Bools | Int64s | slice) -> Changes:
        """The chosen rows."""
        return Changes(
            self.window[chosen], self.key[chosen], self.delta[:, chosen], self.peer[chosen]
        )


class OtherValues(Protocol):
    """Gives the states that do not follow from sums of changes."""

    rows: list[int]
    remembered: list[int]
    """Those of them whose values in the window before the first are the totals."""

    def values(self, key: Int64s, window: Int64s) -> Int64s:
        """The states of keys in windows, int64[len(rows), n]; ordered by key and window."""


class Runs(NamedTuple):
    """Values of keys over stretches of windows, ordered by key and window.

    Attributes:
        start: int64[n], first window.
        end: int64[n], first window after.
        key: int64[n], key ids.
        value: int64[num state columns, n]; a count of 0 says that the key left at `start`.
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


def concat_changes(parts: list[Changes], num_columns: int) -> Changes:
    """Put changes together."""
    if not parts:
        empty = np.empty(0, dtype=np.int64)
        return Changes(empty, empty, np.empty((num_columns, 0), dtype=np.int64), empty)
    return Changes(
        np.concatenate([p.window for p in parts]),
        np.concatenate([p.key for p in parts]),
        np.concatenate([p.delta for p in parts], axis=1),
        np.concatenate([p.peer for p in parts]),
    )


def partial_changes(
    enter: Int64s,
    exit_: Int64s,
    key: Int64s,
    states: Int64s,
    aggregates: Aggregates,
    late: Bools | None = None,
) -> Changes:
    """The two changes of each partial: combined at `enter`, deducted at `exit_`."""
    states = states[: aggregates.num_travelling]
    left = np.zeros_like(states)
    for each, rows in aggregates.blocks:
        if each.slides == "adds":
            left[rows] = -states[rows]
        elif each.slides == "newest":
            left[rows] = np.array(each.neutral)[:, None]
        elif each.slides == "stacks":
            left[rows] = states[rows]
        elif each.slides == "deducts":
            none = np.repeat(np.array(each.neutral)[:, None], states.shape[1], axis=1)
            left[rows] = each.deduct(none, states[rows])
    enter_peer, exit_peer = exit_, enter
    if late is not None and late.any():
        enter_peer = np.where(late, NO_PEER, exit_)
        exit_peer = np.where(late, NO_PEER, enter)
    return Changes(
        np.concatenate([enter, exit_]),
        np.concatenate([key, key]),
        np.concatenate([states, left], axis=1),
        np.concatenate([enter_peer, exit_peer]),
    )


def unchanged(window: Int64s, key: Int64s, aggregates: Aggregates) -> Changes:
    """Changes that leave the totals alone: windows in which other states of a key change."""
    order = order_of(key, window)
    order = order[differs(key[order], window[order])]
    delta = np.zeros((aggregates.num_travelling, len(order)), dtype=np.int64)
    for each, rows in aggregates.blocks:
        if each.slides in ("newest", "deducts"):
            delta[rows] = np.array(each.neutral)[:, None]
    return Changes(window[order], key[order], delta, np.full(len(order), NO_PEER))


def slide(
    totals: Int64s,
    changes: Changes,
    first: int,
    end: int,
    aggregates: Aggregates,
    others: Sequence[OtherValues] = (),
) -> Runs:
    """Slide running totals over the windows [first, end).

    Args:
        totals: int64[num state columns, num_keys], the state of every key in window `first` - 1;
            set to that in window `end` - 1.
        changes: All changes at windows before `end`; none before `first`.
        first: The first window not yet closed.
        end: The first window that stays open.
        aggregates: What the states are of.
        others: Give the states of aggregates that slide otherwise.

    Returns:
        The runs of every key that lives or changes in these windows.
    """
    live = np.flatnonzero(totals[0] > 0)
    touched = np.zeros(totals.shape[1], dtype=bool)
    touched[live] = True
    touched[changes.key] = True
    keys = np.flatnonzero(touched)
    # The total so far is one more change, in the window before the first.
    window = np.concatenate([np.full(len(keys), first - 1, dtype=np.int64), changes.window])
    key = np.concatenate([keys, changes.key])
    summed = aggregates.num_travelling
    delta = np.concatenate([totals[:summed, keys], changes.delta], axis=1)
    window, key, delta = _net(window, key, delta, aggregates)
    begins = differs(key)
    value = np.empty((len(totals), len(key)), dtype=np.int64)
    value[:summed] = _accumulate(delta, begins, aggregates)
    carried = np.flatnonzero(begins)
    for other in others:
        value[other.rows] = other.values(key, window)
        for row in other.remembered:
            value[row, carried] = totals[row, keys]
    aggregates.derive(value)
    gone = value[0] == 0
    for each, rows in aggregates.blocks:
        value[rows, gone] = np.array(each.neutral)[:, None]
    changed = np.zeros(len(key), dtype=bool)
    if len(key):
        changed[1:] = (value[:, 1:] != value[:, :-1]).any(axis=0)
    changed &= ~begins
    last = np.append(begins[1:], True)[: len(key)]
    totals[:, key[last]] = value[:, last]
    kept = begins | changed
    window, key, value, changed = window[kept], key[kept], value[:, kept], changed[kept]
    ends = np.append(window[1:], end)[: len(key)]
    ends[np.append(differs(key)[1:], True)[: len(key)]] = end
    runs = Runs(np.maximum(window, first), ends, key, value, changed)
    return runs.where((runs.start < runs.end) & (changed | (value[0] > 0)))


def _net(
    window: Int64s, key: Int64s, delta: Int64s, aggregates: Aggregates
) -> tuple[Int64s, Int64s, Int64s]:
    """One change per key and window, ordered by key and window."""
    if not len(window):
        return window, key, delta
    order = order_of(key, window)
    fresh = differs(key[order], window[order])
    at = np.flatnonzero(fresh)
    net = np.empty((len(delta), len(at)), dtype=np.int64)
    for each, rows in aggregates.blocks:
        if each.slides in ("adds", "newest"):
            ufunc = np.add if each.slides == "adds" else np.maximum
            for row in range(rows.start, rows.stop):
                net[row] = ufunc.reduceat(delta[row][order], at)
        elif each.slides == "deducts":
            net[rows] = fold(each.combine, delta[rows][:, order], fresh)
    chosen = order[at]
    return window[chosen], key[chosen], net


def _accumulate(delta: Int64s, begins: Bools, aggregates: Aggregates) -> Int64s:
    """Running totals of each key, where sums of changes or the newest pane give them."""
    out = np.empty_like(delta)
    for each, rows in aggregates.blocks:
        if each.slides == "deducts":
            out[rows] = scan(each.combine, delta[rows], begins)
        for row in range(rows.start, rows.stop):
            if each.slides == "adds":
                out[row] = running_sums(delta[row], begins)
            elif each.slides == "newest":
                out[row] = running_maximum(delta[row], begins, each.neutral[0])
        each.carry(out[rows])
    return out


def running_maximum(values: Int64s, begins: Bools, neutral: int) -> Int64s:
    """The largest value so far within each segment."""
    real = values != neutral
    if not real.any():
        return values.copy()
    # Ranks, so that segment and value fit one integer whatever the values are.
    segment = np.cumsum(begins) - 1
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
