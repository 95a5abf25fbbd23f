"""Hears from Spark when batches are committed."""

from __future__ import annotations

import json
import threading
from typing import NamedTuple

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

# Events come within milliseconds; where Spark itself is being stopped, none may come any more.
LAST_EVENT_SECONDS = 5.0


class BatchProgress(NamedTuple):
    """How far a query is, after a batch's results were written."""

    batch_id: int
    records: int
    windows: int


class ProgressListener(StreamingQueryListener):
    """Keeps what Spark tells of a session's one query.

    Spark commits no offsets, so tools that read a consumer group's lag see none: it is here.

    Attributes:
        committed: Number of the last committed batch; -1: none yet.
        state_bytes: Memory of the state stores, last batch with records.
        batch_seconds: Duration of each batch with records.
        lag: Of each topic partition, records that were there and in no batch, as of the last batch.
        largest_lag: The largest of these so far.
        ended: Run ids of queries that have ended; nothing comes of these any more.
    """

    def __init__(self, session: SparkSession) -> None:
        self._session = session
        self._heard = threading.Event()
        self._all_heard = threading.Condition()
        self.ended: set[str] = set()
        self._attached = False
        self.committed = -1
        self.state_bytes = 0
        self.batch_seconds: list[float] = []
        self.lag: dict[int, int] = {}
        self.largest_lag: dict[int, int] = {}

    def attach(self) -> None:
        """Listen; a session's listeners hear of its own queries only."""
        self._session.streams.addListener(self)
        self._attached = True

    def detach(self, run_id: str) -> None:
        """Listen no longer, after the last event of a query that has ended.

        A script may end here, and Spark would print a trace for an event that nobody takes.

        Args:
            run_id: That of the query.
        """
        if self._attached:
            self._attached = False
            with self._all_heard:
                self._all_heard.wait_for(lambda: run_id in self.ended, LAST_EVENT_SECONDS)
            self._session.streams.removeListener(self)

    def wait(self, seconds: float) -> None:
        """Wait for news, but not longer than that."""
        self._heard.wait(seconds)
        self._heard.clear()

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's name
        """Nothing to keep."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802 - Spark's name
        """A batch is committed."""
        progress = event.progress
        if progress.numInputRows:
            self.batch_seconds.append(progress.batchDuration / 1000)
            self.state_bytes = sum(int(op.memoryUsedBytes) for op in progress.stateOperators)
        for source in progress.sources:
            self._note_lag(source.endOffset, source.latestOffset)
        self.committed = progress.batchId
        self._heard.set()

    def _note_lag(self, end: str, latest: str) -> None:
        """Take the offsets of the topic, as `source` has them in JSON."""
        read, there = _offsets(end), _offsets(latest)
        lag = {partition: max(there[partition] - read.get(partition, 0), 0) for partition in there}
        for partition, records in lag.items():
            self.largest_lag[partition] = max(self.largest_lag.get(partition, 0), records)
        self.lag = lag

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802 - Spark's name
        """Nothing to keep."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802 - Spark's name
        """Wake whoever waits."""
        with self._all_heard:
            self.ended.add(str(event.runId))
            self._all_heard.notify_all()
        self._heard.set()


def _offsets(text: str) -> dict[int, int]:
    """Read offsets of the one topic; none where Spark has none to tell.

    Example:
        >>> _offsets('{"clicks": {"0": 5, "10": 7}, "planned at, ms": 1}')
        {0: 5, 10: 7}
        >>> _offsets("null"), _offsets("not known")
        ({}, {})
    """
    try:
        topics = json.loads(text or "null") or {}
    except ValueError:
        # A batch that is done again after a restart: Spark did not ask for the latest offsets.
        return {}
    # Beside the offsets, which come first, stands what else the batch has to know.
    by: dict[str, int] = next(iter(topics.values()), {})
    return {int(partition): int(offset) for partition, offset in by.items()}
