"""Query 1 of DEBS 2015 per event: the ten most frequent routes after every trip, as published.

The window is (now - 30 min, now], now being the drop-off of the trip that came last. A line is
written where the ten change. What a partitioner split is put in order again first: each record has
its drop-off and its line, and a partition's watermark says up to when it is complete.

The ten are kept, not sorted anew: they are the first of up to 64 leaders in order, and no other
route is above a bound. A trip that comes lifts its route, a trip that goes lowers one, each past
few leaders. A leader that falls to the bound is one no longer, and a route that rises above it
becomes one; all live routes are looked at only when fewer than ten leaders are left.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

import numba
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.punctuation import NO_WATERMARK_MS, find_watermarks
from pipelines.workloads.fields import read_int64s

Int64s = npt.NDArray[np.int64]

WINDOW_MS = 1_800_000
K = 10
NONE = -1
"""No route, and no pick-up time."""


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
        while times[left] <= times[i] - WINDOW_MS:
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

    Example:
        >>> routes = FrequentRoutes()
        >>> names = pa.array([b"1.1-2.2", b"1.1-2.2", b"3.3-4.4"])
        >>> when, tops = routes.add(np.array([0, 60_000, 1_800_000]), names)
        >>> when.tolist(), [[routes.names[i] for i in top if i >= 0] for top in tops.tolist()]
        ([0, 2], [[b'1.1-2.2'], [b'3.3-4.4', b'1.1-2.2']])
    """

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


class InOrder:
    """Puts the records of a topic's partitions in the order of their drop-offs and lines.

    Args:
        num_partitions: Of the topic; a partition holds all back until its watermark has passed.
    """

    def __init__(self, num_partitions: int) -> None:
        self._watermarks = [NO_WATERMARK_MS] * num_partitions
        self._waiting: deque[pa.Table] = deque()

    def take(self, parts: Sequence[tuple[pa.Array, pa.Array]]) -> tuple[list[Int64s], pa.Array]:
        """Take new rows of each partition: binary keys and values, as a replay sends them.

        Returns:
            Drop-off, line and pick-up of the trips that are complete, and their routes.
        """
        for partition, (keys, values) in enumerate(parts):
            marks = find_watermarks(keys, values)
            if len(marks.positions):
                mark = int(marks.values_ms.max())
                self._watermarks[partition] = max(mark, self._watermarks[partition])
            kept = np.delete(np.arange(len(keys)), marks.positions)
            columns, _ = read_int64s(values.take(pa.array(kept)), 3)
            names = ("time", "line", "pickup")
            table = dict(zip(names, map(pa.array, columns), strict=True))
            self._waiting.append(pa.table({**table, "route": keys.take(pa.array(kept))}))
        rows = pa.concat_tables(self._waiting)
        complete = pc.less(rows["time"], min(self._watermarks))
        self._waiting = deque([rows.filter(pc.invert(complete))])
        rows = rows.filter(complete).sort_by([("time", "ascending"), ("line", "ascending")])
        numbers = [rows[name].to_numpy() for name in ("time", "line", "pickup")]
        return numbers, rows["route"].combine_chunks()


def official_lines(
    names: Sequence[bytes], pickups: Int64s, dropoffs: Int64s, tops: Int64s
) -> Iterator[str]:
    """Lines in the official format, without the delay: two times, and the cells of ten routes.

    Args:
        names: Of routes.
        pickups: int64[m], of the trips that changed the ten, milliseconds.
        dropoffs: int64[m]
        tops: int64[m, 10]
    """
    cells = [name.decode().replace("-", ",") for name in names]
    for pickup, dropoff, top in zip(
        pickups.tolist(), dropoffs.tolist(), tops.tolist(), strict=True
    ):
        routes = [cells[route] if route != NONE else "NULL,NULL" for route in top]
        yield ",".join([_time(pickup), _time(dropoff), *routes])


def _time(milliseconds: int) -> str:
    if milliseconds == NONE:
        return "NULL"
    return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
