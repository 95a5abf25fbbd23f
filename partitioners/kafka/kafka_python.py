"""A partitioner as the class that kafka-python 3 takes; unlike older clients it tells the topic."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafka.partitioner import Partitioner as ClientPartitioner

from partitioners import Partitioner
from partitioners.errors import InputError, nearest
from partitioners.kafka.callable import PartitionCallable


class KafkaPythonPartitioner(ClientPartitioner):  # type: ignore[misc]
    """Routes each topic with a partitioner of its own.

    Args:
        partitioners: For each topic a partitioner's name, `(name, options)` or a partitioner.

    Raises:
        InputError: A name or an option is unknown.

    Example:
        ```python
        producer = KafkaProducer(partitioner=KafkaPythonPartitioner({"clicks": "cam"}))
        ```
    """

    def __init__(
        self, partitioners: Mapping[str, str | Partitioner | tuple[str, Mapping[str, Any]]]
    ) -> None:
        self._by_topic: dict[str, PartitionCallable] = {}
        for topic, spec in partitioners.items():
            choice, options = spec if isinstance(spec, tuple) else (spec, None)
            self._by_topic[topic] = PartitionCallable(choice, options)

    def partition(
        self,
        topic: str,
        key: Any,  # noqa: ARG002 - part of the client's signature
        serialized_key: bytes | None,
        value: Any,  # noqa: ARG002
        serialized_value: bytes | None,  # noqa: ARG002
        cluster: Any,
    ) -> int:
        """Choose a partition; called by the client.

        Args:
            topic: The record's topic.
            key: Its key as given to the client.
            serialized_key: Its key as sent.
            value: Its value as given to the client.
            serialized_value: Its value as sent.
            cluster: The client's metadata.

        Returns:
            The partition's number.

        Raises:
            InputError: No partitioner was given for the topic.
        """
        choose = self._by_topic.get(topic)
        if choose is None:
            raise InputError(
                f'no partitioner was given for topic "{topic}"; {nearest(topic, self._by_topic)}'
            )
        partitions = cluster.partitions_for_topic(topic)
        return choose(serialized_key, partitions, partitions)


def kafka_python_partitioner(
    **partitioners: str | Partitioner | tuple[str, Mapping[str, Any]],
) -> KafkaPythonPartitioner:
    """Give what `KafkaProducer(partitioner=...)` of kafka-python 3 takes, topics as keywords.

    Args:
        partitioners: For each topic a partitioner's name, `(name, options)` or a partitioner.
    """
    return KafkaPythonPartitioner(partitioners)
