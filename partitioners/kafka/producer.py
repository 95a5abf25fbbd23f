"""A Kafka producer that asks a partitioner where each record goes, over confluent-kafka."""

from __future__ import annotations

import functools
import logging
import threading
from collections.abc import Iterable, Mapping, Sequence
from random import random
from time import monotonic
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from partitioners.errors import InputError, RunError, nearest
from partitioners.kafka import open_producers
from partitioners.kafka.columns import Column, as_column, grouped_blocks
from partitioners.kafka.key_sample import KeySample
from partitioners.kafka.queueing import (
    DeliveryCallback,
    Headers,
    queue_group,
    queue_one,
    queue_rows,
)
from partitioners.kafka.route_table import RouteTable
from partitioners.kafka.routes import (
    ON_PARTITION_CHANGE,
    Batches,
    OnPartitionChange,
    PartitionerSpec,
    Route,
    TopicCounts,
    check_specs,
)
from partitioners.kafka.settings import producer_settings
from partitioners.kafka.topics import METADATA_TIMEOUT_S
from partitioners.kafka.waiting import NO_PARTITION, WaitingRecord, event_time

log = logging.getLogger(__name__)

METADATA_REFRESH_S = 60.0
MICRO_BATCH_RECORDS = 100_000
MICRO_BATCH_MS = 1_000
_DEFAULT_QUEUE_RECORDS = 100_000
_POLL_EVERY = 256
# How often librdkafka writes its statistics for a producer that is observed.
STATISTICS_MS = 5_000
_DEFAULT_MAX_RECORD_BYTES = 1_000_000


class PartitionedProducer:
    """Produces to topics whose partitions a partitioner chooses.

    One producer is one source: its partitioners know the load that it sent, no other's. The
    client is made at the first record, and made anew in a child process after a fork. Threads
    may share a producer.

    Args:
        config: Settings of librdkafka; all pass through. `enable.idempotence` is on and
            `compression.type` is `lz4` unless set.
        partitioners: For each topic a partitioner's name, `(name, options)`, or a partitioner.
            Given by name it is made for the partition count that the broker tells.
        create_topics_with: Make a missing topic with so many partitions; None: refuse it.
        allow_compacted: Let a partitioner that splits keys produce to a compacted topic, where
            Kafka then keeps a last record of a key in *each* of its partitions.
        on_partition_change: What to do when a topic's partition count changes: `follow` makes
            the partitioner anew for the new count (with a warning), `keep` goes on with the
            partitions there were, `fail` raises.
        metadata_refresh_s: How often the partition count is asked for.
        metadata_timeout_s: How long the first answer of the broker may take.
        micro_batch_records: Where a partitioner plans whole batches, `produce` keeps records until
            there are so many. `produce_batch` is always one batch.
        micro_batch_ms: Or until the first has waited so long; looked at by `produce` and `poll`.

    Raises:
        InputError: A setting or a partitioner is not possible.

    Example:
        ```python
        with PartitionedProducer({"bootstrap.servers": "b:9092"}, {"clicks": "cam"}) as producer:
            producer.produce("clicks", key=b"user-7", value=b"...")
        ```
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        partitioners: Mapping[str, PartitionerSpec],
        *,
        create_topics_with: int | None = None,
        allow_compacted: bool = False,
        on_partition_change: OnPartitionChange = "follow",
        metadata_refresh_s: float = METADATA_REFRESH_S,
        metadata_timeout_s: float = METADATA_TIMEOUT_S,
        micro_batch_records: int = MICRO_BATCH_RECORDS,
        micro_batch_ms: int = MICRO_BATCH_MS,
    ) -> None:
        for option, number in (
            ("micro_batch_records", micro_batch_records),
            ("micro_batch_ms", micro_batch_ms),
        ):
            if isinstance(number, bool) or not isinstance(number, int) or number < 1:
                raise InputError(f"{option} must be a whole number of at least 1, not {number!r}")
        if on_partition_change not in ON_PARTITION_CHANGE:
            raise InputError(
                f'on_partition_change = "{on_partition_change}" is not known; '
                + nearest(on_partition_change, ON_PARTITION_CHANGE)
            )
        self._settings = producer_settings(config)
        self._queue_records = int(
            self._settings.get("queue.buffering.max.messages", _DEFAULT_QUEUE_RECORDS)
            or _DEFAULT_QUEUE_RECORDS
        )
        self._table = RouteTable(
            settings=self._settings,
            specs=check_specs(partitioners),
            create_topics_with=create_topics_with,
            allow_compacted=allow_compacted,
            on_partition_change=on_partition_change,
            metadata_refresh_s=metadata_refresh_s,
            metadata_timeout_s=metadata_timeout_s,
            batches=Batches(
                max_records=micro_batch_records,
                max_ms=micro_batch_ms,
                max_record_bytes=int(
                    self._settings.get("message.max.bytes", _DEFAULT_MAX_RECORD_BYTES)
                ),
            ),
        )
        self._user_report: DeliveryCallback | None = self._settings.pop("on_delivery", None)
        asked = self._settings.pop("delivery.report.only.error", None)
        # A Python call per delivered record costs as much as sending it, so only failures are
        # reported until somebody asks for the others.
        self._errors_only_asked = asked is not None and str(asked).lower() == "true"
        self._errors_only = self._errors_only_asked or (asked is None and self._user_report is None)
        self._closed = False
        self._is_observed = False
        self._begin()

    def _begin(self) -> None:
        """Set everything that a forked child must have of its own."""
        self._client: Producer | None = None
        self._routes: dict[str, Route] = {}
        self._first_failure: str | None = None
        self._since_poll = 0
        self._samples: dict[str, KeySample] = {}
        self._statistics: str | None = None
        # Reentrant: a delivery callback, called while we poll, may produce.
        self._lock = threading.RLock()

    # Producing ------------------------------------------------------------------------------------

    def produce(
        self,
        topic: str,
        value: bytes | str | None = None,
        key: bytes | str | None = None,
        partition: int = NO_PARTITION,
        on_delivery: DeliveryCallback | None = None,
        timestamp: int = 0,
        headers: Headers = None,
        *,
        callback: DeliveryCallback | None = None,
        event_time_ms: int | None = None,
    ) -> None:
        """Queue one record; the signature is that of confluent-kafka.

        A full queue is waited for, not raised. Where the partitioner plans whole batches
        (`prompt`), or waits for its first (`off_greedy`), the record waits with others until they
        are a micro-batch; see `micro_batch_records`.

        Args:
            topic: One of the topics given at the start.
            value: The value; None is a tombstone.
            key: The key; None spreads evenly.
            partition: A partition to send to past the partitioner.
            on_delivery: Called with `(error, message)` once it has arrived or failed.
            timestamp: Kafka timestamp in ms; 0 takes now.
            headers: Kafka headers.
            callback: The other name of `on_delivery`.
            event_time_ms: Event time for partitioners with windows; None takes `timestamp`, or
                the wall clock without one.

        Raises:
            InputError: The topic is missing, has no partitioner here or must not be split, or
                the record is refused (say, for its size).
            RunError: No broker answered, or the producer is closed.
        """
        with self._lock:  # what follows is written out: a call per step doubled the cost
            route = self._routes.get(topic)
            client = self._client
            if route is None or client is None or monotonic() >= route.next_check_s:
                route = self._route(topic)
                client = self._ready_client()
            report = on_delivery or callback
            if report is not None:
                report = self._report(report)
                client = self._ready_client()
            if route.waiting or (partition == NO_PARTITION and route.plans_batches):
                time_ms = event_time(event_time_ms, timestamp)
                route.waiting.add(
                    topic,
                    WaitingRecord(value, key, partition, report, timestamp, headers, time_ms),
                )
                if route.waiting.is_due:
                    self._send_waiting(route)
                return
            if partition == NO_PARTITION:
                if event_time_ms is None and timestamp:
                    event_time_ms = timestamp
                partition = route.partitioner.partition(key, event_time_ms)
            try:
                if report is None and headers is None and not timestamp:
                    client.produce(topic, value, key, partition)
                else:
                    client.produce(topic, value, key, partition, report, report, timestamp, headers)
            except (BufferError, KafkaException) as error:
                queue_one(client, topic, value, key, partition, report, timestamp, headers, error)
            try:
                route.produced[partition] += 1
            except IndexError:  # a partition of the user's own choice that we had not seen
                self._table.refresh(route, self._ready_client())
                route.produced[partition] += 1
            self._since_poll += 1
            if self._since_poll >= _POLL_EVERY:
                if self._is_observed:
                    # The next sampled record is 256 away in the mean, at random.
                    self._since_poll = int(random() * _POLL_EVERY) - _POLL_EVERY // 2
                    self._sample(topic).add(key, partition)
                else:
                    self._since_poll = 0
                client.poll(0)

    def produce_batch(
        self,
        topic: str,
        keys: Column,
        values: Column,
        timestamps_ms: npt.ArrayLike | None = None,
        on_delivery: DeliveryCallback | None = None,
        headers: Sequence[Headers] | None = None,
        timestamps: Iterable[int] | None = None,
    ) -> npt.NDArray[np.int32]:
        """Queue many records: routed in their order, grouped, one client call per partition.

        The order within each partition is that of the rows, also when the queue is full on the
        way. With `headers` or `timestamps`, which confluent-kafka's batch call loses or refuses,
        the rows go one by one.

        Args:
            topic: One of the topics given at the start.
            keys: Sequence of bytes, str and None, or Arrow strings or binaries.
            values: As many values, likewise.
            timestamps_ms: Event time of each row, for partitioners with windows.
            on_delivery: Called with `(error, message)` for each record.
            headers: Kafka headers of each row.
            timestamps: Kafka timestamp of each row, ms.

        Returns:
            The partition of each row, `int32[n]`.

        Raises:
            InputError: As `produce`; or the columns are not equally long.
            RunError: As `produce`.
        """
        keys, values = as_column(keys, "keys"), as_column(values, "values")
        num_records = len(keys)
        if len(values) != num_records:
            raise InputError(
                f"there are {num_records} keys and {len(values)} values: give one value per key"
            )
        with self._lock:
            route = self._route(topic)
            report = self._report(on_delivery)
            client = self._ready_client()
            self._send_waiting(route)  # they were here before
            route.fit(keys)
            partitions = route.partitioner.partition_micro_batch(keys, timestamps_ms)
            if self._is_observed:
                self._sample(topic).add_rows(keys, partitions)
            if headers is not None or timestamps is not None:
                queue_rows(client, route, keys, values, partitions, report, headers, timestamps)
                return partitions
            groups = grouped_blocks(keys, values, partitions, route.num_partitions)
            for partition, group_keys, group_values in groups:
                messages = [
                    {"key": key, "value": value}
                    for key, value in zip(group_keys, group_values, strict=True)
                ]
                queue_group(client, route, partition, messages, report, self._queue_records)
                client.poll(0)
        return partitions

    def _send_waiting(self, route: Route, deadline_s: float | None = None) -> None:
        """Route the records that wait as one micro-batch, and queue them in their order.

        Args:
            route: Their topic.
            deadline_s: What finds no room until then goes on waiting, routed; None: wait for it.
        """
        waiting = route.waiting
        if not waiting or waiting.is_draining:  # a delivery callback may produce meanwhile
            return
        client = self._ready_client()
        waiting.is_draining = True
        try:
            route.fit([each.key for each in waiting.records if each.partition == NO_PARTITION])
            waiting.route(route.partitioner)
            if self._is_observed:
                sample = self._sample(route.topic)
                for place in sample.rows(len(waiting.records)).tolist():
                    sample.add(waiting.records[place].key, waiting.records[place].partition)
            for _ in range(len(waiting)):
                record = waiting.records[0]
                if not queue_one(
                    client,
                    route.topic,
                    record.value,
                    record.key,
                    record.partition,
                    record.report,
                    record.timestamp,
                    record.headers,
                    deadline_s=deadline_s,
                ):
                    break
                waiting.records.popleft()
                route.note_produced(record.partition)
            client.poll(0)
        finally:
            waiting.is_draining = False

    def _send_all_waiting(self, *, only_due: bool, deadline_s: float | None = None) -> None:
        for route in self._routes.values():
            if not only_due or route.waiting.is_due:
                self._send_waiting(route, deadline_s)

    # Topics ---------------------------------------------------------------------------------------

    def _route(self, topic: str) -> Route:
        route = self._routes.get(topic)
        if route is None:
            route = self._table.open(topic, self._ready_client())
            self._routes[topic] = route
        elif monotonic() >= route.next_check_s:
            self._table.refresh(route, self._ready_client())
        return route

    def refresh(self) -> None:
        """Ask for the partition counts of all topics in use now, without waiting for the time.

        Raises:
            InputError: One changed, and `on_partition_change` does not allow it.
        """
        with self._lock:
            for route in self._routes.values():
                self._table.refresh(route, self._ready_client())

    # Client and delivery reports ------------------------------------------------------------------

    @property
    def client(self) -> Producer:
        """The confluent-kafka producer beneath, for what is not covered here.

        Raises:
            RunError: The producer is closed.
        """
        with self._lock:
            return self._ready_client()

    def _ready_client(self) -> Producer:
        if self._client is not None:
            return self._client
        if self._closed:
            raise RunError("the producer is closed: make a new one")
        settings = self._settings | {
            "on_delivery": self._on_report,
            "delivery.report.only.error": self._errors_only,
        }
        if self._is_observed:
            settings["stats_cb"] = self._on_statistics
        try:
            self._client = Producer(settings)
        except KafkaException as error:
            raise InputError(
                f"librdkafka refuses the settings ({error.args[0].str()}): correct them"
            ) from error
        open_producers.add(self)
        return self._client

    def _report(self, on_delivery: DeliveryCallback | None) -> DeliveryCallback | None:
        """Give the callback of a record: None for the default one, which counts failures."""
        if on_delivery is None:
            return None
        if self._errors_only and not self._errors_only_asked:
            # The client decides this once for all records, so it takes a client of the other kind.
            if self._client is not None:
                self._client.flush()
                self._client = None
            self._errors_only = False
        return functools.partial(self._on_report_for, on_delivery)

    def _on_report(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._count_failure(error, message)
        if self._user_report is not None:
            self._user_report(error, message)

    def _on_report_for(
        self, on_delivery: DeliveryCallback, error: KafkaError | None, message: Message
    ) -> None:
        if error is not None:
            self._count_failure(error, message)
        on_delivery(error, message)

    def _on_statistics(self, text: str) -> None:
        self._statistics = text
        user = self._settings.get("stats_cb")
        if user is not None:
            user(text)

    # What metrics read --------------------------------------------------------------------------

    def observe(self) -> None:
        """Sample keys from now on, and keep librdkafka's statistics if no client is made yet."""
        with self._lock:
            self._is_observed = True
            if self._client is None:
                self._settings.setdefault("statistics.interval.ms", STATISTICS_MS)

    def observed_counts(self) -> list[tuple[str, str, TopicCounts]]:
        """Give name, partitioner and counters of each topic; from any thread."""
        return [
            (topic, route.partitioner.name, route.counts())
            for topic, route in list(self._routes.items())
        ]

    @property
    def samples(self) -> dict[str, KeySample]:
        """The sample of the keys of each topic, where `observe` was called."""
        return dict(self._samples)

    @property
    def statistics(self) -> str | None:
        """The last statistics of librdkafka (JSON), where `observe` was called in time."""
        return self._statistics

    @property
    def queue_records(self) -> int:
        """Room in the client's queue."""
        return self._queue_records

    def _sample(self, topic: str) -> KeySample:
        sample = self._samples.get(topic)
        if sample is None:
            sample = self._samples[topic] = KeySample()
        return sample

    def _count_failure(self, error: KafkaError, message: Message) -> None:
        topic, partition = message.topic(), message.partition()
        if self._first_failure is None:
            self._first_failure = f"{error.str()}, topic {topic}, partition {partition}"
            log.error("records are not delivered; the first: %s", self._first_failure)
        route = self._routes.get(topic or "")
        if route is not None and partition is not None and 0 <= partition < len(route.failed):
            route.failed[partition] += 1

    def poll(self, timeout: float = 0.0) -> int:
        """Serve delivery reports, and send micro-batches that are due.

        Args:
            timeout: How long to wait for one, s.

        Returns:
            How many were served.
        """
        with self._lock:
            self._send_all_waiting(only_due=True, deadline_s=monotonic())
        return 0 if self._client is None else int(self._client.poll(timeout))

    def __len__(self) -> int:
        """Records that wait, are queued or on their way."""
        return self._num_waiting + (0 if self._client is None else len(self._client))

    @property
    def _num_waiting(self) -> int:
        return sum(len(route.waiting) for route in self._routes.values())

    @property
    def produced(self) -> int:
        """Records taken so far."""
        queued = sum(sum(route.produced) for route in self._routes.values())
        return queued + self._num_waiting

    @property
    def failed(self) -> int:
        """Records that will not arrive."""
        return sum(sum(route.failed) for route in self._routes.values())

    @property
    def delivered(self) -> int:
        """Records that the broker has acknowledged; exact after `flush` returned 0."""
        return self.produced - self.failed - len(self)

    def counts(self, topic: str) -> TopicCounts:
        """Give the counters of a topic, per partition.

        Args:
            topic: A topic that has been produced to.

        Raises:
            InputError: It has not.
        """
        if topic not in self._routes:
            raise InputError(f'nothing was produced to "{topic}"; {nearest(topic, self._routes)}')
        return self._routes[topic].counts()

    def flush(self, timeout: float = -1) -> int:
        """Wait until all that was queued has arrived or failed.

        Args:
            timeout: How long, s; -1: until then. A record fails by itself after
                `message.timeout.ms` (5 minutes).

        Returns:
            Records that are still on their way.
        """
        deadline_s = monotonic() + timeout if timeout >= 0 else None
        with self._lock:
            self._send_all_waiting(only_due=False, deadline_s=deadline_s)
        remaining = 0 if self._client is None else int(self._client.flush(timeout))
        return remaining + self._num_waiting

    def close(self, timeout: float = -1) -> None:
        """Flush, let the client go, and fail unless all that was produced was delivered.

        Args:
            timeout: How long to wait, s; -1: until each record has arrived or failed.

        Raises:
            RunError: Records were not delivered.
        """
        with self._lock:
            if self._closed:
                return
            remaining = self.flush(timeout)
            self._closed = True
            open_producers.discard(self)
            produced, failed = self.produced, self.failed
            if remaining and self._client is not None:
                self._client.purge()  # else the client's end would wait for them
            self._client = None
        if remaining or failed:
            reason = self._first_failure or f"no answer within {timeout:g} s"
            raise RunError(
                f"{failed + remaining} of {produced} records were not delivered (the first: "
                f"{reason}): look at the broker, then produce them again"
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            self.close()
            return
        try:  # what is queued still goes out, but the error at hand is the one to see
            self.close(timeout=10)
        except RunError as shortfall:
            log.error("%s", shortfall)
