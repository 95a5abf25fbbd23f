"""Records that are produced and counted by a query for as long as a test disturbs the brokers."""

from __future__ import annotations

import json
import threading
from collections import Counter, defaultdict
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from confluent_kafka.admin import AdminClient, NewPartitions
from pyspark.sql import SparkSession
from streams import read_results

import pipelines
from partitioners.kafka import PartitionedProducer, ensure_topic
from partitioners.kafka.producer import METADATA_REFRESH_S
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
        num_partitions: Of the topic at first.
        lateness_ms: How long windows wait for records; an hour is until the end.
        metadata_refresh_s: How often the producer asks for the number of partitions.
    """

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        spark: SparkSession,
        folder: Path,
        *,
        num_partitions: int = NUM_PARTITIONS,
        lateness_ms: int = _HOUR_MS,
        metadata_refresh_s: float = METADATA_REFRESH_S,
    ) -> None:
        self.topic = topic
        self._num_partitions = num_partitions
        self._refresh_s = metadata_refresh_s
        self._settings: dict[str, Any] = {"bootstrap.servers": bootstrap, "log_level": 0}
        self._results = folder / "results"
        self._sent: Counter[tuple[int, str]] = Counter()
        self._sums: defaultdict[tuple[int, str], int] = defaultdict(int)
        self._over = threading.Event()
        self._failures: list[BaseException] = []
        ensure_topic(self._settings, topic, num_partitions)
        self.query = pipelines.run(
            pipelines.Topic(name=topic, bootstrap=bootstrap, time="ts"),
            key="user",
            aggregates=[pipelines.Sum("total", "n")],
            windows=pipelines.Windows(WINDOW_MS, WINDOW_MS),
            sink=self._results,
            lateness_ms=lateness_ms,
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

    def wait_for_windows(self) -> None:
        """Wait until a window is written that is not yet."""
        written = self.query.progress.windows
        wait_until(
            lambda: not self.is_well() or self.query.progress.windows > written, "a window written"
        )
        assert self.is_well(), self._failures

    def grow(self, num_partitions: int) -> None:
        """Add partitions, and wait until the last one has records of the producer in the query."""
        admin = AdminClient(self._settings)
        wanted = NewPartitions(self.topic, num_partitions)
        admin.create_partitions([wanted])[self.topic].result(30)
        self._num_partitions = num_partitions

        def is_read() -> bool:
            read = self.query.progress.records_per_partition
            return not self.is_well() or all(read.get(each) for each in range(num_partitions))

        wait_until(is_read, "the new partitions read")
        assert self.is_well(), self._failures

    def check(self) -> None:
        """See that everything was delivered, read and counted exactly once, and end the query."""
        assert not self._failures
        total = sum(self._sent.values()) + self._num_partitions
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
            with PartitionedProducer(
                self._settings, {self.topic: "pkg"}, metadata_refresh_s=self._refresh_s
            ) as producer:
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
                for partition in range(self._num_partitions):
                    end = {"ts": last, "user": "end", "n": 0}
                    producer.produce(self.topic, json.dumps(end), partition=partition)
        except BaseException as error:
            self._failures.append(error)


def milliseconds(instant: Any) -> int:
    """Give an instant in Unix milliseconds."""
    return round(instant.timestamp() * 1000)
