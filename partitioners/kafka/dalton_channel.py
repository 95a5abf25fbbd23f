"""The channel of dalton's agents and their reducer over two Kafka topics.

`<group>.dalton-sync` carries what agents send, for an hour. `<group>.dalton-table` carries the
global tables; it is compacted by group and number of partitions, so the last table stays and a
late agent starts warm. Both have one partition. Whoever comes first makes them.

Nothing here blocks or stops routing: an agent hands messages to librdkafka's queue, and a thread of
its own waits for tables. What is not ours (another version, group or number of partitions, damage)
is left alone, and said once per reason in the log.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections import deque
from collections.abc import Mapping
from typing import Any

from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka import Message as KafkaMessage

from partitioners.dalton.messages import (
    GlobalTable,
    LeaveMessage,
    Message,
    NotOursError,
    SyncMessage,
    decode,
    encode,
)
from partitioners.errors import KeyspreadError
from partitioners.kafka.topics import ensure_topic

log = logging.getLogger(__name__)

_POLL_S = 0.1
_RETRY_S = 2.0
_CHECK_S = 5.0  # librdkafka says nothing of a deleted topic for half a minute, so we look
_CLOSE_S = 5.0
_SYNC_TOPIC_CONFIG = {"retention.ms": "3600000"}
_TABLE_TOPIC_CONFIG = {"cleanup.policy": "compact", "segment.ms": "600000"}
# A message that waited ten seconds is out of date; a thousand of them are enough.
_PRODUCER_SETTINGS = {
    "linger.ms": 0,
    "message.timeout.ms": 10_000,
    "queue.buffering.max.messages": 1_000,
    "topic.metadata.refresh.interval.ms": 5_000,
}
_NO_TOPIC = (
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError._UNKNOWN_PARTITION,
)


def sync_topic(group: str) -> str:
    """Name the topic that carries what agents send."""
    return f"{group}.dalton-sync"


def table_topic(group: str) -> str:
    """Name the topic that carries global tables."""
    return f"{group}.dalton-table"


class _Wire:
    """What both ends share: topics, a producer, reading one topic, and each warning once."""

    def __init__(self, config: Mapping[str, Any], group: str, num_partitions: int) -> None:
        self.config = dict(config)
        self.group = group
        self.num_partitions = num_partitions
        self._said: set[str] = set()
        self._next_check = time.monotonic() + _CHECK_S
        self._producer = Producer(self.config | _PRODUCER_SETTINGS)

    def warn(self, reason: str) -> None:
        if reason not in self._said:
            self._said.add(reason)
            log.warning('dalton group "%s": %s', self.group, reason)

    def ensure_topics(self) -> None:
        ensure_topic(self.config, sync_topic(self.group), 1, topic_config=_SYNC_TOPIC_CONFIG)
        ensure_topic(self.config, table_topic(self.group), 1, topic_config=_TABLE_TOPIC_CONFIG)

    def consumer(self, topic: str, offset: int) -> Consumer:
        settings = {
            "group.id": f"{self.group}.dalton.{uuid.uuid4().hex}",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "allow.auto.create.topics": False,
            "topic.metadata.refresh.interval.ms": 5_000,
        }
        consumer = Consumer(self.config | settings)
        consumer.assign([TopicPartition(topic, 0, offset)])
        return consumer

    def require_topics(self, consumer: Consumer) -> None:
        """Look, now and then, whether the topics are still there.

        Raises:
            KafkaException: One is gone, or no broker answers.
        """
        if time.monotonic() < self._next_check:
            return
        self._next_check = time.monotonic() + _CHECK_S
        for topic in (sync_topic(self.group), table_topic(self.group)):
            error = consumer.list_topics(topic, timeout=_CLOSE_S).topics[topic].error
            if error is not None and error.code() in _NO_TOPIC:
                raise KafkaException(error)

    def send(self, topic: str, message: Message) -> None:
        raw = encode(message, self.group, self.num_partitions)
        key = f"{self.group}/{self.num_partitions}".encode()
        try:
            self._producer.produce(topic, value=raw, key=key, on_delivery=self._delivered)
            self._producer.poll(0)
        except (BufferError, KafkaException) as error:
            self.warn(f"messages are lost ({error}); routing goes on without them")

    def serve(self) -> None:
        self._producer.poll(0)

    def flush(self) -> None:
        self._producer.flush(_CLOSE_S)

    def read(self, raw: KafkaMessage) -> Message | None:
        """Decode a message; what is not ours becomes None, with a warning."""
        try:
            return decode(raw.value() or b"", self.group, self.num_partitions)
        except NotOursError as reason:
            self.warn(f"a message on {raw.topic()} is left alone: {reason}")
            return None

    def _delivered(self, error: KafkaError | None, _: KafkaMessage) -> None:
        if error is not None:
            self.warn(f"messages are lost ({error.str()}); routing goes on without them")


class KafkaAgentChannel:
    """An agent's end over Kafka; see ``partitioners.dalton.AgentChannel``.

    Args:
        config: Settings of a confluent-kafka client.
        group: Producers that learn together; one word that may stand in a topic's name.
        num_partitions: Partitions of the topic they write to.
    """

    def __init__(self, config: Mapping[str, Any], group: str, num_partitions: int) -> None:
        self._wire = _Wire(config, group, num_partitions)
        self._tables: deque[GlobalTable] = deque(maxlen=2)
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._listen, name=f"dalton {group}", daemon=True)
        self._thread.start()

    def send(self, message: SyncMessage | LeaveMessage) -> None:
        """Hand a message over; see ``AgentChannel``."""
        self._wire.send(sync_topic(self._wire.group), message)

    def receive(self) -> list[GlobalTable]:
        """Take the tables that came; see ``AgentChannel``."""
        tables = []
        while self._tables:
            tables.append(self._tables.popleft())
        return tables

    def close(self) -> None:
        """Send what is under way, and end the thread."""
        self._closed.set()
        self._thread.join()
        self._wire.flush()

    def _listen(self) -> None:
        while not self._closed.is_set():
            try:
                self._wire.ensure_topics()
                self._listen_to_topic()
            except (KeyspreadError, KafkaException) as error:
                self._wire.warn(f"no tables come ({error}); routing goes on without them")
                self._closed.wait(_RETRY_S)

    def _listen_to_topic(self) -> None:
        """Take in tables until closed, or until the topic is gone."""
        consumer = self._wire.consumer(table_topic(self._wire.group), OFFSET_BEGINNING)
        try:
            while not self._closed.is_set():
                self._wire.serve()
                self._wire.require_topics(consumer)
                raw = consumer.poll(_POLL_S)
                if raw is None:
                    continue
                error = raw.error()
                if error is not None:
                    if error.code() in _NO_TOPIC:
                        raise KafkaException(error)
                    self._wire.warn(f"no tables come ({error.str()}); waiting for the broker")
                    continue
                message = self._wire.read(raw)
                if isinstance(message, GlobalTable):
                    self._tables.append(message)
        finally:
            consumer.close()


class KafkaReducerChannel:
    """The reducer's end over Kafka; see ``partitioners.dalton.ReducerChannel``.

    Args:
        config: Settings of a confluent-kafka client.
        group: Producers that learn together.
        num_partitions: Partitions of the topic they write to.

    Raises:
        RunError: No broker answered.
    """

    def __init__(self, config: Mapping[str, Any], group: str, num_partitions: int) -> None:
        self._wire = _Wire(config, group, num_partitions)
        self._wire.ensure_topics()
        # What was sent before is out of date: agents send again at every interval.
        self._consumer = self._wire.consumer(sync_topic(group), OFFSET_END)

    def last_table(self) -> GlobalTable | None:
        """Read the table topic to its end; see ``ReducerChannel``."""
        topic = table_topic(self._wire.group)
        consumer = self._wire.consumer(topic, OFFSET_BEGINNING)
        last = None
        try:
            _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=_CLOSE_S)
            deadline = time.monotonic() + _CLOSE_S
            while end > 0 and time.monotonic() < deadline:
                raw = consumer.poll(_POLL_S)
                if raw is None or raw.error() is not None:
                    continue
                message = self._wire.read(raw)
                last = message if isinstance(message, GlobalTable) else last
                if (raw.offset() or 0) + 1 >= end:
                    break
        except KafkaException as error:
            self._wire.warn(f"the last table cannot be read ({error}); learning begins anew")
        finally:
            consumer.close()
        return last

    def receive(self, timeout_s: float) -> list[SyncMessage | LeaveMessage]:
        """Wait for messages; see ``ReducerChannel``."""
        self._wire.serve()
        try:
            self._wire.require_topics(self._consumer)
            return self._poll(timeout_s)
        except KafkaException as error:
            self._wire.warn(f"no messages come ({error}); trying again")
            self._recover(error.args[0])
            return []

    def _poll(self, timeout_s: float) -> list[SyncMessage | LeaveMessage]:
        messages: list[SyncMessage | LeaveMessage] = []
        while (raw := self._consumer.poll(0.0 if messages else timeout_s)) is not None:
            error = raw.error()
            if error is not None:
                raise KafkaException(error)
            message = self._wire.read(raw)
            if isinstance(message, SyncMessage | LeaveMessage):
                messages.append(message)
        return messages

    def broadcast(self, table: GlobalTable) -> None:
        """Send a table to all; see ``ReducerChannel``."""
        self._wire.send(table_topic(self._wire.group), table)

    def close(self) -> None:
        """Send what is under way."""
        self._wire.flush()
        self._consumer.close()

    def _recover(self, error: KafkaError) -> None:
        """Make the topics again if they are gone."""
        if error.code() not in _NO_TOPIC:
            return
        try:
            self._wire.ensure_topics()
        except KeyspreadError as reason:
            self._wire.warn(f"the topics cannot be made ({reason}); trying again")
            return
        self._consumer.close()
        self._consumer = self._wire.consumer(sync_topic(self._wire.group), OFFSET_BEGINNING)
