"""Topics of runs: made, checked, measured and deleted."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from partitioners.errors import InputError, RunError

ANSWER_SECONDS = 10.0
# End offsets are taken as final when they stayed the same this long after their producer died.
STABLE_SECONDS = 1.0
_WAIT_SECONDS = 60.0


class Topics:
    """What a run does with topics, on one set of servers.

    Args:
        bootstrap: The servers.
        kafka: Further librdkafka settings (TLS, SASL and so on).
    """

    def __init__(self, bootstrap: str, kafka: Mapping[str, str] | None = None) -> None:
        self.bootstrap = bootstrap
        self._settings = {**(kafka or {}), "bootstrap.servers": bootstrap, "log_level": 0}
        try:
            self._admin = AdminClient(dict(self._settings))
        except KafkaException as error:
            raise InputError(f"Kafka settings: {_text(error)}; mend --kafka or the file") from None

    def num_partitions(self, topic: str) -> int | None:
        """Ask how many partitions a topic has; None if there is no such topic.

        Raises:
            InputError: The servers do not answer.
        """
        try:
            found = self._admin.list_topics(topic, timeout=ANSWER_SECONDS).topics[topic]
        except KafkaException as error:
            raise InputError(
                f"no answer from the Kafka servers {self.bootstrap} within {ANSWER_SECONDS:g} s "
                f"({_text(error)}): check --bootstrap and that a broker runs there, or leave it "
                "out to have one started"
            ) from None
        if found.error is not None and found.error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            return None
        if found.error is not None:
            raise InputError(f"topic {topic} on {self.bootstrap}: {found.error.str()}")
        return len(found.partitions) or None

    def require(self, topic: str, num_partitions: int, *, make: bool) -> None:
        """See that a topic has the partitions asked for, and make it if it is missing.

        Args:
            topic: Its name.
            num_partitions: What it has to have.
            make: Whether a missing topic is made.

        Raises:
            InputError: It has another number, or is missing and not to be made.
        """
        have = self.num_partitions(topic)
        if have is None and not make:
            raise InputError(
                f"topic {topic} is gone from {self.bootstrap}, so the run cannot be resumed: "
                "start it anew"
            )
        if have is None:
            self._make(topic, num_partitions)
        elif have != num_partitions:
            raise InputError(
                f"topic {topic} has {have} partitions, not {num_partitions}: say --partitions "
                f"{have}, or name another topic"
            )

    def _make(self, topic: str, num_partitions: int) -> None:
        made = self._admin.create_topics([NewTopic(topic, num_partitions=num_partitions)])
        try:
            made[topic].result(timeout=60)
        except KafkaException as error:
            raise InputError(
                f"cannot make topic {topic} on {self.bootstrap}: {_text(error)}"
            ) from None
        deadline = time.monotonic() + _WAIT_SECONDS
        # The broker that answers may hear of the topic a moment later.
        while self.num_partitions(topic) != num_partitions:
            if time.monotonic() > deadline:
                raise RunError(f"topic {topic} was made but does not show up: look at the broker")

    def delete(self, topic: str) -> None:
        """Delete a topic, if it is there."""
        with contextlib.suppress(KafkaException):
            self._admin.delete_topics([topic])[topic].result(timeout=60)

    def end_offsets(self, topic: str, num_partitions: int) -> list[int]:
        """Ask where each partition ends.

        Raises:
            InputError: The servers do not answer.
        """
        settings = {**self._settings, "group.id": "keyspread-offsets", "enable.auto.commit": False}
        consumer = Consumer(settings)
        try:
            return [
                consumer.get_watermark_offsets(
                    TopicPartition(topic, partition), timeout=ANSWER_SECONDS, cached=False
                )[1]
                for partition in range(num_partitions)
            ]
        except KafkaException as error:
            raise InputError(
                f"no answer from the Kafka servers {self.bootstrap} about topic {topic}: "
                f"{_text(error)}; check that the broker runs, then resume"
            ) from None
        finally:
            consumer.close()

    def stable_end_offsets(self, topic: str, num_partitions: int) -> list[int]:
        """Ask where each partition ends, until the answers stay the same.

        What a killed producer had under way may still be written for a moment.

        Raises:
            RunError: Somebody else keeps writing to the topic.
        """
        offsets = self.end_offsets(topic, num_partitions)
        unchanged_since = started = time.monotonic()
        while time.monotonic() - unchanged_since < STABLE_SECONDS:
            if time.monotonic() - started > _WAIT_SECONDS:
                raise RunError(f"topic {topic} is still being written to: stop its other producer")
            again = self.end_offsets(topic, num_partitions)
            if again != offsets:
                offsets, unchanged_since = again, time.monotonic()
            time.sleep(STABLE_SECONDS / 10)
        return offsets


def _text(error: KafkaException) -> str:
    inner = error.args[0] if error.args else error
    return str(inner.str()) if isinstance(inner, KafkaError) else str(inner)
