"""Reads one partition of a topic between two offsets, as Arrow batches."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from confluent_kafka import KafkaError

from partitioners.errors import InputError, RunError
from pipelines.source.files import Shipped
from pipelines.source.librdkafka import AUTHENTICATION, Client, error_text
from pipelines.source.messages import AT_LOG_END, ERROR, LAST, PAST_END, Rows
from pipelines.source.offsets import LOST

# Records given out at once: a batch costs milliseconds to combine, and in memory a few times its
# size.
ROWS_AT_ONCE = 200_000
BYTES_AT_ONCE = 64 << 20
MESSAGES_AT_ONCE = 20_000
WAIT_MS = 100
# As long as Spark waits for its own sources, so that a broker may be started anew meanwhile.
PATIENCE_SECONDS = 120.0
# A log that ends before what was planned to be read has lost records, or its new leader knows in a
# moment what the old one had.
SHORT_LOG_SECONDS = 30.0
# How often a log is looked at that gives nothing.
ASK_SECONDS = 1.0

# For a reader that is to be fast; a user's own settings win.
TUNING: Mapping[str, Any] = {
    # What is fetched beyond the end of a range is for nothing: half a megabyte at most, and nothing
    # more while so many messages wait.
    "fetch.message.max.bytes": 512 << 10,
    "queued.min.messages": 20_000,
    # A record may be larger than what is asked for at once.
    "receive.message.max.bytes": 1_000_000_000,
    "fetch.queue.backoff.ms": 5,
    # A partition is asked for when the answer about the one before it has come.
    "fetch.wait.max.ms": 10,
}
# Not for the user to set: a reader commits nothing, ends by itself and reads what was planned.
FIXED: Mapping[str, Any] = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    "auto.offset.reset": "error",
}
_GONE = (
    KafkaError._AUTO_OFFSET_RESET,
    KafkaError.OFFSET_OUT_OF_RANGE,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError._UNKNOWN_PARTITION,
)
_FROM_THE_BEGINNING = ("earliest", "smallest", "beginning", "error")
_clients: dict[tuple[tuple[str, str], ...], Client] = {}


def reader_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """A reader's settings of librdkafka, given a client's.

    Example:
        >>> reader_settings({"bootstrap.servers": "b:9092"})["isolation.level"]
        'read_uncommitted'
    """
    return {"isolation.level": "read_uncommitted", **TUNING, **settings, **FIXED}


def check_settings(settings: Mapping[str, Any]) -> None:
    """See that readers can use a client's settings, before a task finds that they cannot.

    Raises:
        InputError: They cannot, or a setting asks for what no reader does.
    """
    begin = settings.get("auto.offset.reset")
    if begin is not None and str(begin) not in _FROM_THE_BEGINNING:
        raise InputError(
            f"auto.offset.reset = {begin} would not be used: a query reads its topic from the "
            "beginning, then from its checkpoint; leave it out"
        )
    Client(reader_settings(Shipped.of(settings).settings())).close()


def read_partition(
    settings: Shipped,
    topic: str,
    partition: int,
    start: int,
    end: int,
    *,
    max_rows: int = ROWS_AT_ONCE,
    max_bytes: int = BYTES_AT_ONCE,
    patience_seconds: float = PATIENCE_SECONDS,
) -> Iterator[pa.RecordBatch]:
    """Read the records of a partition with offsets from `start` up to and without `end`.

    Offsets without a record (compaction, marks of transactions) are passed over.

    Args:
        settings: A client's.
        topic: The topic.
        partition: Its partition.
        start: First offset.
        end: Offset behind the last.
        max_rows: A batch that is given out ends with the records that reach so many rows,
        max_bytes: or so many bytes.
        patience_seconds: How long to wait for more.

    Yields:
        Batches of key, value (binary), partition (int32) and offset (int64); none is empty.

    Raises:
        RunError: The records are no longer there, or no broker gives them.
    """
    client = _client(settings.settings())
    messages = np.empty(MESSAGES_AT_ONCE, np.int64)
    wait = _Wait(client, topic, partition, end, patience_seconds)
    client.start(topic, partition, start)
    try:
        # What is taken at once may go beyond.
        rows = Rows(partition, min(max_rows + MESSAGES_AT_ONCE, end - start))
        done = start >= end
        while not done:
            taken = client.take(topic, partition, messages, WAIT_MS)
            found = rows.add(messages[:taken], end)
            if found[ERROR]:
                raise RunError(_why(int(found[ERROR]), topic, partition))
            done = found[PAST_END] or found[LAST] == end - 1 or found[AT_LOG_END] >= end
            wait.heard(taken, int(found[AT_LOG_END]))
            if rows.rows and (done or rows.rows >= max_rows or rows.num_bytes >= max_bytes):
                yield rows.batch()
                rows = rows.next()
    finally:
        client.stop(topic, partition)


def _client(settings: Mapping[str, Any]) -> Client:
    """This process's client of a cluster."""
    key = tuple(sorted((name, str(value)) for name, value in settings.items()))
    if key not in _clients:
        _clients[key] = Client(reader_settings(settings))
    return _clients[key]


def _why(code: int, topic: str, partition: int) -> str:
    if code in _GONE:
        return LOST
    return f"Kafka does not give partition {partition} of topic {topic} ({error_text(code)})"


class _Wait:
    """Gives up when nothing has come for too long."""

    def __init__(
        self, client: Client, topic: str, partition: int, end: int, patience_seconds: float
    ) -> None:
        self._client = client
        self._topic = topic
        self._partition = partition
        self._end = end
        self._patience_seconds = patience_seconds
        self._since = time.monotonic()
        self._asked = self._since
        self._complaint = ""

    def heard(self, taken: int, log_end: int) -> None:
        """Note what came.

        Args:
            taken: Messages, those that tell of the end of the log among them.
            log_end: The end of the log, if it was told; else -1.
        """
        now = time.monotonic()
        if taken and log_end < 0:
            self._since = self._asked = now
            return
        if now - self._asked > ASK_SECONDS:
            self._asked = now
            self._look_at_the_log(now - self._since)
        if complaint := self._client.complaint():
            code, self._complaint = complaint
            if code == AUTHENTICATION:
                self._give_up(0)
        if now - self._since > self._patience_seconds:
            self._give_up(self._patience_seconds)

    def _look_at_the_log(self, waited_seconds: float) -> None:
        """See whether what is waited for can still come."""
        end, code = self._client.end(self._topic, self._partition, WAIT_MS * 10)
        lost = code in _GONE or 0 <= end < self._end
        if lost and waited_seconds > SHORT_LOG_SECONDS:
            raise RunError(LOST)

    def _give_up(self, seconds: float) -> None:
        waited = f" within {seconds:g} s" if seconds else ""
        why = f" ({self._complaint})" if self._complaint else ""
        raise RunError(
            f"Kafka gives nothing of partition {self._partition} of topic {self._topic}{waited}"
            f"{why}: check that its brokers run, and start again on the same checkpoint to go on"
        )
