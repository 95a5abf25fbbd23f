"""Trips of Query 1 of DEBS 2015 as events: what the engine carries of each, and their columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipelines.aggregates import Int64s
from pipelines.per_event import EachEvent

if TYPE_CHECKING:
    from pipelines.workloads.debs_q1_events import FrequentRoutes

K = 10
NONE = -1
"""No route, and no pick-up time."""
LINE_BITS = 28
_DURATION_BITS = 63 - LINE_BITS
_HALF = 1 << (_DURATION_BITS - 1)

EVENT_FIELDS = (
    pa.field("line", pa.int64()),
    pa.field("pickup", pa.timestamp("ms", tz="UTC")),
    pa.field("dropoff", pa.timestamp("ms", tz="UTC")),
    *(pa.field(f"route_{place}", pa.string()) for place in range(1, K + 1)),
)


def pack_trips(lines: Int64s, pickups_ms: Int64s, dropoffs_ms: Int64s) -> Int64s:
    """Line and pick-up of trips in one number each, in the order of lines.

    A pick-up further than 544 years from its drop-off is none.

    Args:
        lines: int64[n], from 0 to 2 ** LINE_BITS - 1.
        pickups_ms: int64[n], `NONE` where it does not read.
        dropoffs_ms: int64[n]

    Example:
        >>> packed = pack_trips(np.array([7, 8]), np.array([60_000, NONE]), np.array([90_000, 0]))
        >>> [column.tolist() for column in unpack_trips(packed, np.array([90_000, 0]))]
        [[7, 8], [60000, -1]]
    """
    seconds = (dropoffs_ms - pickups_ms) // 1_000
    there = (pickups_ms != NONE) & (np.abs(seconds) < _HALF)
    return (lines << _DURATION_BITS) | np.where(there, seconds + _HALF, 0)


def unpack_trips(packed: Int64s, dropoffs_ms: Int64s) -> tuple[Int64s, Int64s]:
    """Lines and pick-ups, `NONE` where there is none."""
    rest = packed & ((1 << _DURATION_BITS) - 1)
    pickups = np.where(rest == 0, NONE, dropoffs_ms - (rest - _HALF) * 1_000)
    return packed >> _DURATION_BITS, pickups


@dataclass(frozen=True)
class Trips(EachEvent):
    """Every trip by itself; its states are those of `debs_q1_events.FrequentRoutes`."""

    columns: ClassVar[tuple[str, ...]] = (
        "line",
        "pickup",
        "dropoff",
        *(f"route{place}" for place in range(1, K + 1)),
    )
    neutral: ClassVar[tuple[int, ...]] = (NONE,) * (3 + K)

    def places(self, packed: Int64s) -> Int64s:
        """See `EachEvent`: the lines of the trips."""
        return unpack_trips(packed, np.zeros(len(packed), np.int64))[0]

    def follow(self, window_ms: int) -> FrequentRoutes:
        """See `EachEvent`."""
        # Compiled code is loaded only where it is used.
        from pipelines.workloads.debs_q1_events import FrequentRoutes

        return FrequentRoutes(window_ms)


def event_columns(states: npt.NDArray[np.int64]) -> list[pa.Array]:
    """The columns `EVENT_FIELDS` of states, int64[1 + 3 + K, n]."""
    from pipelines.workloads.debs_q1_events import route_column

    _, lines, pickups, dropoffs, *tops = states
    time = pa.timestamp("ms", tz="UTC")
    return [
        pa.array(lines),
        pa.array(pickups, mask=pickups == NONE).view(time),
        pa.array(dropoffs).view(time),
        *map(route_column, tops),
    ]
