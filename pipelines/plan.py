"""The plan of a query's windows: one set of panes for all, larger panes from smaller ones.

Each record is aggregated once, into its pane of the common panes (`panes.Panes`). Windows of
another kind, with fewer edges, want fewer and larger panes: theirs are built from panes that are
there, of whatever kinds, with the fewest combines::

    tumbling windows of 5, 10, 15 and 20 min, one hour of panes
     5   |--|--|--|--|--|--|--|--|--|--|--|--|   the common panes
    10   |-----|-----|-----|-----|-----|-----|   2 each:           12 combines
    15   |--------|--------|--------|--------|   a 10 and a 5:      8
    20   |-----------|-----------|-----------|   2 of 10:           6

That is `compute` and `consolidate` of Enorm (2016, section 6.1 and figures 7 and 8), which counts
86 combines where common panes of one minute are kept, against 240 from these alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from partitioners.errors import InputError
from pipelines.aggregates import Aggregates
from pipelines.blobs import Int64s
from pipelines.panes import Panes, Windows
from pipelines.ring import Bools

# Panes in a common period at most for which covers are sought; beyond, the common panes serve.
MAX_COVERED = 100_000


@dataclass(frozen=True)
class Source:
    """Which panes of a level go into larger ones.

    Attributes:
        level: Whose panes: -1 for the common ones, else the number of the windows.
        chosen: bool[panes of that level in a common period].
    """

    level: int
    chosen: Bools

    def takes(self, pane: Int64s) -> Bools:
        """Which panes are taken."""
        return np.asarray(self.chosen[pane % len(self.chosen)])


@dataclass(frozen=True)
class Step:
    """How the panes of one kind of windows come about.

    Attributes:
        number: Of the windows.
        panes: Their panes.
        sources: What they are built from; none: they are those of `level`, as they are.
        level: See `Source`.
        num_combined: Panes that are combined into theirs, in `period_ms`.
        period_ms: A common period of all that is involved.
    """

    number: int
    panes: Panes
    sources: tuple[Source, ...]
    level: int
    num_combined: int
    period_ms: int


@dataclass(frozen=True)
class WindowPlan:
    """How the windows of a query are computed.

    Args:
        windows: One or several kinds, of different sizes.
        last_ms: Parts at the end of each window that aggregates look at.

    Attributes:
        panes: The common panes.
        steps: See `_steps`.

    Raises:
        InputError: Two are of one size, so their rows could not be told apart; or see `Panes`.
    """

    windows: tuple[Windows, ...]
    last_ms: tuple[int, ...] = ()
    # Made where the query is started, and shipped: not anew for every batch.
    panes: Panes = field(init=False, compare=False, repr=False)
    steps: tuple[Step, ...] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        if not self.windows:
            raise InputError("a query needs windows: name at least one size")
        sizes = [each.size_ms for each in self.windows]
        for size in sizes:
            if sizes.count(size) > 1:
                raise InputError(
                    f"two of the windows are of {size:,} ms, so their rows could not be told "
                    "apart: name each size once"
                )
        object.__setattr__(self, "panes", Panes(self.windows, self.last_ms))
        object.__setattr__(self, "steps", self._steps())

    @classmethod
    def of(cls, windows: Windows | Sequence[Windows], aggregates: Aggregates) -> WindowPlan:
        """The plan for what a user gave."""
        several = (windows,) if isinstance(windows, Windows) else tuple(windows)
        rules = [aggregates.value_rules(column)[1] for column in aggregates.value_columns]
        return cls(several, tuple(sorted({last for last in rules if last is not None})))

    def _steps(self) -> tuple[Step, ...]:
        """How to get at the panes of each kind of windows, in an order in which it can be done."""
        own = [Panes([each], self.last_ms) for each in self.windows]
        density = [each.num_in_period / each.period_ms for each in own]
        levels: dict[int, Panes] = {-1: self.panes}
        steps = []
        for number in sorted(range(len(own)), key=lambda i: -density[i]):
            step = _step(number, own[number], levels)
            if step.sources:
                levels[number] = step.panes
            steps.append(step)
        return tuple(steps)

    def panes_of(self, level: int) -> Panes:
        """The panes of a level, see `Source`."""
        if level < 0:
            return self.panes
        return next(step.panes for step in self.steps if step.number == level)

    def late(self, time_ms: Int64s, watermark_ms: Int64s) -> Bools:
        """Which records miss a window, each having met a watermark."""
        late = np.zeros(len(time_ms), dtype=bool)
        for each in self.windows:
            late |= each.first_window(watermark_ms) > each.first_window(time_ms)
        return late


def _step(number: int, own: Panes, levels: dict[int, Panes]) -> Step:
    for level, panes in levels.items():
        if panes.same_as(own):
            return Step(number, panes, (), level, 0, own.period_ms)
    period = math.lcm(own.period_ms, *(each.period_ms for each in levels.values()))
    common = levels[-1]
    if period // common.period_ms * common.num_in_period > MAX_COVERED:
        everything = np.ones(common.num_in_period, dtype=bool)
        combined = own.period_ms * common.num_in_period // common.period_ms
        return Step(number, own, (Source(-1, everything),), -1, combined, own.period_ms)
    sources = _covers(own, levels, period)
    combined = sum(int(each.chosen.sum()) for each in sources)
    if combined < 2 * len(own.edges_until(period)):
        # Two changes for each pane are no more than one for each of two, and two for their sum.
        return Step(number, common, (), -1, 0, period)
    return Step(number, own, sources, -1, combined, period)


def _covers(own: Panes, levels: dict[int, Panes], period_ms: int) -> tuple[Source, ...]:
    """The fewest panes of the levels that make up each pane of a period: shortest paths.

    A pane lies between two edges of the common panes, and may pass the end of the period.
    """
    starts = own.edges_until(period_ms)
    common = levels[-1]
    edges = common.edges_until(period_ms)
    # From each edge, the panes that begin there: (edge where it ends, level, pane).
    arcs: list[list[tuple[int, int, int]]] = [[] for _ in edges]
    for level, panes in levels.items():
        begins = panes.edges_until(period_ms)
        until = np.append(begins[1:], begins[0] + period_ms)
        place = np.searchsorted(edges, begins)
        end = np.searchsorted(edges, until - 1, side="right")
        for pane, (low, high) in enumerate(zip(place.tolist(), end.tolist(), strict=True)):
            arcs[low].append((high, level, pane))
    chosen = {
        level: np.zeros(len(panes.edges_until(period_ms)), dtype=bool)
        for level, panes in levels.items()
    }
    first = np.searchsorted(edges, starts).tolist()
    for low, high in zip(first, [*first[1:], first[0] + len(edges)], strict=True):
        # Fewest panes from each edge to the end, from behind.
        best: dict[int, tuple[int, tuple[int, int, int] | None]] = {high: (0, None)}
        for at in range(high - 1, low - 1, -1):
            shift = at // len(edges) * len(edges)
            options = [
                (best[end + shift][0] + 1, (end + shift, level, pane))
                for end, level, pane in arcs[at % len(edges)]
                if end + shift in best
            ]
            if options:
                best[at] = min(options, key=lambda option: option[0])
        at = low
        while (arc := best[at][1]) is not None:
            at, level, pane = arc
            chosen[level][pane] = True
    return tuple(Source(level, flags) for level, flags in chosen.items() if flags.any())
