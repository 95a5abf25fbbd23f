"""Query 1 of DEBS 2015 per event: the ten most frequent routes after every trip, as published.

The window is (now - 30 min, now], now being the drop-off of the trip that came last. A row is
written where the ten change. What a partitioner split is put in order again first, by drop-off and
line (`pipelines.events`).

The ten are kept, not sorted anew: they are the first of up to 64 leaders in order, and no other
route is above a bound. A trip that comes lifts its route, a trip that goes lowers one, each past
few leaders. A leader that falls to the bound is one no longer, and a route that rises above it
becomes one; all live routes are looked at only when fewer than ten leaders are left.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from heapq import nlargest

import numba
import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.workloads.debs_q1_trips import NONE, K, unpack_trips

Int64s = npt.NDArray[np.int64]

# A route's rank is its trips in the window, then how new its newest is: one integer.
_ONE_TRIP = 1 << 40
_NUM_LEADERS = 64


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _rise(leaders: Int64s, at: int, rank: Int64s) -> None:
    """Move a leader up to where its rank belongs."""
    route = leaders[at]
    while at > 0 and rank[leaders[at - 1]] < rank[route]:
        leaders[at] = leaders[at - 1]
        at -= 1
    leaders[at] = route


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _enter(
    leaders: Int64s, scalars: Int64s, route: int, leads: npt.NDArray[np.bool_], rank: Int64s
) -> None:
    """Make a route a leader, if it is above the others' bound."""
    if rank[route] <= scalars[3]:
        return
    if scalars[1] == _NUM_LEADERS:
        last = leaders[_NUM_LEADERS - 1]
        scalars[3] = max(scalars[3], min(rank[last], rank[route]))
        if rank[route] < rank[last]:
            return
        leads[last] = False
        scalars[1] -= 1
    leaders[scalars[1]] = route
    leads[route] = True
    _rise(leaders, scalars[1], rank)
    scalars[1] += 1


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _fall(
    leaders: Int64s, scalars: Int64s, route: int, leads: npt.NDArray[np.bool_], rank: Int64s
) -> None:
    """Move a leader down to where its rank belongs, or out, at or below the others' bound."""
    at = 0
    while leaders[at] != route:
        at += 1
    while at + 1 < scalars[1] and rank[leaders[at + 1]] > rank[route]:
        leaders[at] = leaders[at + 1]
        at += 1
    leaders[at] = route
    # Whoever is below the bound is last.
    if rank[route] <= scalars[3]:
        leads[route] = False
        leaders[at] = NONE
        scalars[1] -= 1


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def slide_events(
    times: Int64s,
    routes: Int64s,
    first: int,
    oldest: int,
    window_ms: int,
    state: tuple[Int64s, ...],
    leads: npt.NDArray[np.bool_],
    scalars: Int64s,
    changed: Int64s,
    tops: Int64s,
) -> int:
    """Take trips one by one.

    Args:
        times: int64[n], drop-offs in order: first those still in the window, then new ones.
        routes: int64[n], ids of their routes.
        first: The first new trip.
        oldest: Sequence number of trip 0, from the beginning of the stream.
        window_ms: Trips that came so long before are no longer in the window.
        state: int64[num routes] each: ranks, live routes, and the place of each among them; then
            int64[_NUM_LEADERS], the leaders, best first.
        leads: bool[num routes], whether a route is one of them.
        scalars: Number of live routes, number of leaders, trips that have left, and the rank that
            no other route is above; set.
        changed: int64[n - first], set to the trips after which the ten changed.
        tops: int64[n - first, K], set to the ten of these.

    Returns:
        How many trips changed the ten.
    """
    rank, live, place, leaders = state
    num_live, left, out = scalars[0], 0, 0
    before = np.empty(K, np.int64)
    for i in range(first, times.size):
        before[:] = leaders[:K]
        while times[left] <= times[i] - window_ms:
            route = routes[left]
            rank[route] -= _ONE_TRIP
            if leads[route]:
                _fall(leaders, scalars, route, leads, rank)
            if rank[route] < _ONE_TRIP:
                num_live -= 1
                last = live[num_live]
                live[place[route]] = last
                place[last] = place[route]
            left += 1
        route = routes[i]
        if rank[route] < _ONE_TRIP:
            live[num_live] = route
            place[route] = num_live
            num_live += 1
        rank[route] = (rank[route] // _ONE_TRIP + 1) * _ONE_TRIP + oldest + i
        if not leads[route]:
            _enter(leaders, scalars, route, leads, rank)
        else:
            at = 0
            while leaders[at] != route:
                at += 1
            _rise(leaders, at, rank)
        if scalars[1] < K and num_live > scalars[1]:
            # Others may be among the ten now: find new leaders.
            for j in range(scalars[1]):
                leads[leaders[j]] = False
            leaders[:] = NONE
            scalars[1] = 0
            scalars[3] = _ONE_TRIP - 1
            for j in range(num_live):
                _enter(leaders, scalars, live[j], leads, rank)
        if (before != leaders[:K]).any():
            changed[out] = i
            tops[out] = leaders[:K]
            out += 1
    scalars[0], scalars[2] = num_live, left
    return out


@dataclass
class FrequentRoutes:
    """The ten most frequent routes, trip by trip.

    Attributes:
        window_ms: Size of the window.
        names: Of routes, by their ids.

    Example:
        >>> routes = FrequentRoutes(1_800_000)
        >>> names = pa.array([b"1.1-2.2", b"1.1-2.2", b"3.3-4.4"])
        >>> when, tops = routes.add(np.array([0, 60_000, 1_800_000]), names)
        >>> when.tolist(), [[routes.names[i] for i in top if i >= 0] for top in tops.tolist()]
        ([0, 2], [[b'1.1-2.2'], [b'3.3-4.4', b'1.1-2.2']])
    """

    window_ms: int
    names: list[bytes] = field(default_factory=list)
    _ids: dict[bytes, int] = field(default_factory=dict)
    _times: Int64s = field(default_factory=lambda: np.empty(0, np.int64))
    _routes: Int64s = field(default_factory=lambda: np.empty(0, np.int64))
    _state: tuple[Int64s, ...] = field(
        default_factory=lambda: (
            *(np.zeros(0, np.int64) for _ in range(3)),
            np.full(_NUM_LEADERS, NONE),
        )
    )
    _leads: npt.NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, np.bool_))
    _scalars: Int64s = field(default_factory=lambda: np.array([0, 0, 0, _ONE_TRIP - 1]))
    _oldest: int = 0

    def add(self, times: Int64s, routes: pa.Array) -> tuple[Int64s, Int64s]:
        """Take trips in order of their drop-offs.

        Args:
            times: int64[n], milliseconds.
            routes: n names of routes, binary.

        Returns:
            The trips after which the ten changed, int64[m], and the ten, int64[m, 10]: indices into
            `names`, `NONE` where there are fewer.
        """
        known = len(self._times)
        all_times = np.concatenate([self._times, times])
        all_routes = np.concatenate([self._routes, self._number(routes)])
        changed = np.empty(len(times), np.int64)
        tops = np.empty((len(times), K), np.int64)
        num = slide_events(
            all_times,
            all_routes,
            known,
            self._oldest,
            self.window_ms,
            self._state,
            self._leads,
            self._scalars,
            changed,
            tops,
        )
        left = int(self._scalars[2])
        self._times, self._routes = all_times[left:], all_routes[left:]
        self._oldest += left
        return changed[:num] - known, tops[:num]

    @property
    def num_inside(self) -> int:
        """Trips in the window of the last one."""
        return len(self._times)

    def states(self, packed: Int64s, times: Int64s, changed: Int64s, answers: Int64s) -> Int64s:
        """See `Follower`.

        Returns:
            int64[3 + K, m]: line, pick-up, drop-off, and the cells of ten routes as a number each.
        """
        times = times[changed]
        lines, pickups = unpack_trips(packed[changed], times)
        # The last one stands for no route.
        cells = np.array([*map(cells_number, self.names), NONE], dtype=np.int64)
        return np.concatenate([np.stack([lines, pickups, times]), cells[answers].T])

    def _number(self, routes: pa.Array) -> Int64s:
        coded = pc.dictionary_encode(routes)
        ids = np.empty(len(coded.dictionary), np.int64)
        for i, name in enumerate(coded.dictionary.to_pylist()):
            ids[i] = self._ids.setdefault(name, len(self.names))
            if ids[i] == len(self.names):
                self.names.append(name)
        if len(self.names) > len(self._leads):
            size = max(2 * len(self._leads), len(self.names), 1024)
            grown = [np.zeros(size, np.int64) for _ in range(3)]
            for old, new in zip(self._state[:3], grown, strict=True):
                new[: len(old)] = old
            self._state = (*grown, self._state[3])
            leads = np.zeros(size, np.bool_)
            leads[: len(self._leads)] = self._leads
            self._leads = leads
        return np.asarray(ids[coded.indices.to_numpy()])


def cells_number(route: bytes) -> int:
    """A route as a number.

    Example:
        >>> cells_number(b"157.159-3.4")
        157159003004
    """
    number = 0
    for cell in route.replace(b"-", b".").split(b"."):
        number = number * 1_000 + int(cell)
    return number


def route_column(cells: Int64s) -> pa.Array:
    """Numbers of routes as a column of text; null where there is none."""
    column = pl.DataFrame({"cells": cells}).select(
        pl.when(pl.col("cells") != NONE).then(
            pl.format(
                "{}.{}-{}.{}",
                *(pl.col("cells") // 1_000**i % 1_000 for i in (3, 2, 1, 0)),
            )
        )
    )
    return column.to_series().to_arrow().cast(pa.string())


def naive_rows(
    trips: Sequence[tuple[int, str]], window_ms: int
) -> Iterator[tuple[int, list[str | None]]]:
    """The trips that change the ten, and the ten: with dicts, for the oracle.

    Args:
        trips: Drop-off and route of each, in order.
        window_ms: Size of the window.

    Yields:
        The number of a trip, and ten routes, None where there are fewer.
    """
    inside: deque[tuple[int, str]] = deque()
    newest: dict[str, int] = {}
    counts: dict[str, int] = {}
    with_count: dict[int, set[str]] = {}
    before: list[str] = []

    def recount(route: str, change: int) -> None:
        count = counts.pop(route, 0)
        with_count.get(count, set()).discard(route)
        if count + change:
            counts[route] = count + change
            with_count.setdefault(count + change, set()).add(route)

    for i, (now, route) in enumerate(trips):
        while inside and inside[0][0] <= now - window_ms:
            recount(inside.popleft()[1], -1)
        inside.append((now, route))
        newest[route] = i
        recount(route, 1)
        top: list[str] = []
        for count in sorted(filter(with_count.__getitem__, with_count), reverse=True):
            top += nlargest(K - len(top), with_count[count], key=newest.__getitem__)
            if len(top) == K:
                break
        if top != before:
            yield i, [*top, *([None] * (K - len(top)))]
        before = top


def official_lines(frame: pl.DataFrame) -> Iterator[str]:
    """Rows of results in the official format, without the delay: two times, cells of ten routes."""
    cells = [
        pl.col(f"route_{place}").str.replace("-", ",").fill_null("NULL,NULL")
        for place in range(1, K + 1)
    ]
    times = [
        pl.col(name).dt.strftime("%Y-%m-%d %H:%M:%S").fill_null("NULL")
        for name in ("pickup", "dropoff")
    ]
    text = frame.sort("dropoff", "line").select(pl.concat_str(*times, *cells, separator=","))
    yield from text.to_series()
