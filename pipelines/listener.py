"""Hears from Spark when batches are committed."""

from __future__ import annotations

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


class BatchProgress(NamedTuple):
    """How far a query is, after a batch's results were written."""

    batch_id: int
    records: int
    windows: int


class ProgressListener(StreamingQueryListener):
    """Keeps the last committed batch, batch durations and state size of a session's one query."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session
        self._heard = threading.Event()
        self._attached = False
        self.committed = -1
        self.state_bytes = 0
        self.batch_seconds: list[float] = []

    def attach(self) -> None:
        """Listen; a session's listeners hear of its own queries only."""
        self._session.streams.addListener(self)
        self._attached = True

    def detach(self) -> None:
        """Listen no longer."""
        if self._attached:
            self._attached = False
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
        self.committed = progress.batchId
        self._heard.set()

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802 - Spark's name
        """Nothing to keep."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: ARG002, N802
        """Wake whoever waits."""
        self._heard.set()
