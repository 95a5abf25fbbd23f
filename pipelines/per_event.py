"""What a query gives whose rows are per event: the order of events, and who follows them."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from pipelines.aggregates import Int64s, OfValues

RESOLUTION_MS = 1_000
"""Times of events are whole seconds."""


class Follower(Protocol):
    """Looks after every event, in order, whether the answer has changed."""

    @property
    def num_inside(self) -> int:
        """Events in the window of the last one."""

    def add(self, times: Int64s, keys: pa.Array) -> tuple[Int64s, Int64s]:
        """Take events.

        Args:
            times: int64[n], milliseconds, in order.
            keys: n keys, binary.

        Returns:
            The events after which the answer changed, int64[m], and the answers, int64[m, k].
        """

    def states(self, packed: Int64s, times: Int64s, changed: Int64s, answers: Int64s) -> Int64s:
        """The aggregate's state columns for the events that changed the answer.

        Args:
            packed: int64[n], what else the records of all events say.
            times: int64[n]
            changed: int64[m], which of them changed it.
            answers: int64[m, k], from `add`.

        Returns:
            int64[columns, m]
        """


@dataclass(frozen=True)
class EachEvent(OfValues):
    """Every event by itself, with one integer of its record; the one aggregate of such a query."""

    @abstractmethod
    def places(self, packed: Int64s) -> Int64s:
        """Which of the events of one time comes first: the one with the smaller number."""

    @abstractmethod
    def follow(self, window_ms: int) -> Follower:
        """Begin before the first event.

        Args:
            window_ms: Size of the window.
        """
