"""Records that are produced and counted by a query for as long as a test disturbs the brokers."""

from __future__ import annotations

import json
import threading
from collections import Counter, defaultdict
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pyspark.sql import SparkSession
from streams import read_results

import pipelines
from partitioners.kafka import PartitionedProducer, ensure_topic
from tests.containers.waiting import wait_until
from tests.integration.reading import read_topic

NUM_PARTITIONS = 6
WINDOW_MS = 2_000
_RECORD_MS, _HOUR_MS = 10, 3_600_000


class Traffic:
    """A producer in a thread and a query, as a context manager whose end is that of the records.

    Args:
        bootstrap: The servers.
        topic: Its name; it is made.
        spark: Where the query runs.
        folder: For its results and its checkpoint.
    """

    def __init__(self, bootstrap: str, topic: str, spark: SparkSession, folder: Path) -> None:
        self.topic = topic
        self._settings: dict[str, Any] = {"bootstrap.servers": bootstrap, "log_level": 0}
        self._results = folder / "results"
        self._sent: Counter[tuple[int, str]] = Counter()
        self._sums: defaultdict[tuple[int, str], int] = defaultdict(int)
        self._over = threading.Event()
        self._failures: list[BaseException] = []
        ensure_topic(self._settings, topic, NUM_PARTITIONS)
        self.query = pipelines.run(
            pipelines.Topic(name=topic, bootstrap=bootstrap, time="ts"),
            key="user",
            aggregates=[pipelines.Sum("total", "n")],
            windows=pipelines.Windows(WINDOW_MS, WINDOW_MS),
            sink=self._results,
            lateness_ms=_HOUR_MS,
            max_future_ms=None,
            spark=spark,
        )
        self._sender = threading.Thread(target=self._produce)

    def __enter__(self) -> Self:
        self._sender.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()
        self._sender.join(300)
        if error is not None:
            self.query.stop()

    @property
    def read(self) -> int:
        """How many records are in the results."""
        return self.query.progress.on_time + self.query.progress.late

    def is_well(self) -> bool:
        """Whether both go on."""
        return self.query.active and not self._failures

    def wait_for_more(self) -> None:
        """Wait until records of from now on are produced and read."""
        sent = sum(self._sent.values())
        wait_until(lambda: not self.is_well() or self.read > sent, "read")
        assert self.is_well(), self._failures

    def check(self) -> None:
        """See that everything was delivered, read and counted exactly once, and end the query."""
        assert not self._failures
        total = sum(self._sent.values()) + NUM_PARTITIONS
        try:
            wait_until(lambda: self.read >= total, "all read")
            self.query.process_available()
            assert (self.query.progress.on_time, self.query.progress.late) == (total, 0)
        finally:
            self.query.stop()
        assert len(read_topic(self._settings, self.topic)) == total
        found = {
            (milliseconds(row["window_start"]), row["user"]): (row["count"], row["total"])
            for row in read_results(self._results)
            if row["user"] != "end"
        }
        assert found == {place: (self._sent[place], self._sums[place]) for place in self._sent}

    def _produce(self) -> None:
        """Until it is over; then an hour later, which closes all windows."""
        number = 0
        try:
            with PartitionedProducer(self._settings, {self.topic: "pkg"}) as producer:
                while not self._over.is_set():
                    user = f"user {number % 7 if number % 2 else 0}"
                    ts = number * _RECORD_MS
                    producer.produce(
                        self.topic, json.dumps({"ts": ts, "user": user, "n": number}), user
                    )
                    window = ts // WINDOW_MS * WINDOW_MS
                    self._sent[window, user] += 1
                    self._sums[window, user] += number
                    number += 1
                    producer.poll(0)
                    self._over.wait(0.001)
                producer.flush(240)
                last = number * _RECORD_MS + _HOUR_MS + WINDOW_MS
                for partition in range(NUM_PARTITIONS):
                    end = {"ts": last, "user": "end", "n": 0}
                    producer.produce(self.topic, json.dumps(end), partition=partition)
        except BaseException as error:
            self._failures.append(error)


def milliseconds(instant: Any) -> int:
    """Give an instant in Unix milliseconds."""
    return round(instant.timestamp() * 1000)
