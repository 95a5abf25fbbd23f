"""What a producer has to know about a topic: its partitions, and whether Kafka compacts it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer, TopicCollection
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclOperation,
    AdminClient,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from partitioners.errors import InputError, RunError
from partitioners.kafka.settings import admin_settings

METADATA_TIMEOUT_S = 30.0
_MISSING = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC)
_DENIED = (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED)
_WRITING = {AclOperation.ALL, AclOperation.WRITE}


def count_partitions(
    client: Producer | AdminClient, topic: str, timeout_s: float = METADATA_TIMEOUT_S
) -> int | None:
    """Ask the broker how many partitions a topic has.

    Args:
        client: Any confluent-kafka client that lists topics.
        topic: Its name.
        timeout_s: How long to wait for an answer.

    Returns:
        The number, or None if there is no such topic.

    Raises:
        InputError: It is no name for a topic.
        RunError: No broker answered, or it refused.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            found = client.list_topics(topic, timeout=max(0.1, deadline - time.monotonic()))
        except KafkaException as error:
            reason = error.args[0]
            raise RunError(
                f"no broker answered within {timeout_s:g} s ({reason.str()}): check that it runs "
                'and that "bootstrap.servers" names it'
            ) from error
        metadata = found.topics[topic]
        if metadata.error is None:
            return len(metadata.partitions)
        if metadata.error.code() in _MISSING:
            return None
        if metadata.error.code() == KafkaError.TOPIC_EXCEPTION:
            raise InputError(
                f'"{topic}" is no name for a topic: give 1 to 249 letters, digits, ".", "_" or "-"'
            )
        # A topic just made has no leader for a moment.
        if not metadata.error.retriable() or time.monotonic() > deadline:
            raise RunError(
                f'the broker refuses to describe topic "{topic}" ({metadata.error.str()}): check '
                "its name and your permission"
            )


def ensure_topic(
    config: Mapping[str, Any],
    topic: str,
    num_partitions: int,
    *,
    replication_factor: int = -1,
    topic_config: Mapping[str, str] | None = None,
    timeout_s: float = METADATA_TIMEOUT_S,
) -> bool:
    """Create a topic unless it is there with that number of partitions.

    Args:
        config: Settings of a client of that cluster.
        topic: Its name.
        num_partitions: How many partitions it must have.
        replication_factor: Copies of each; -1 takes the broker's default.
        topic_config: Settings of the topic, if it is made.
        timeout_s: How long to wait for the broker.

    Returns:
        Whether it was made.

    Raises:
        InputError: It is there with another number, or the broker refuses the name or number.
        RunError: No broker answered.
    """
    admin = AdminClient(admin_settings(config))
    there = count_partitions(admin, topic, timeout_s)
    if there is None:
        wanted = NewTopic(
            topic, num_partitions, replication_factor, config=dict(topic_config or {})
        )
        try:
            admin.create_topics([wanted], operation_timeout=timeout_s)[topic].result(timeout_s)
        except KafkaException as error:
            reason = error.args[0]
            if reason.code() != KafkaError.TOPIC_ALREADY_EXISTS:
                mend = "choose another name or number"
                if reason.code() in _DENIED:
                    mend = "allow your user to Create it, or have it made"
                raise InputError(
                    f'cannot create topic "{topic}" with {num_partitions} partitions '
                    f"({reason.str()}): {mend}"
                ) from error
        deadline = time.monotonic() + timeout_s
        while (count := count_partitions(admin, topic, timeout_s)) is None:
            if time.monotonic() > deadline:
                raise RunError(
                    f'topic "{topic}" was created but does not appear: look at the broker\'s log'
                )
        if count == num_partitions:
            return True
        there = count
    if there != num_partitions:
        raise InputError(
            f'topic "{topic}" has {there} partitions, not {num_partitions}: ask for {there}, or '
            "name another topic"
        )
    return False


def require_may_write(config: Mapping[str, Any], topic: str, timeout_s: float = 10.0) -> None:
    """See that a client may write to a topic, before the first record says that it may not.

    Args:
        config: Settings of a client of that cluster.
        topic: Its name; one that is there.
        timeout_s: How long to wait for the broker.

    Raises:
        InputError: It may not. (Where the broker does not say, the first record will.)
    """
    admin = AdminClient(admin_settings(config))
    try:
        described = admin.describe_topics(
            TopicCollection([topic]), include_authorized_operations=True, request_timeout=timeout_s
        )
        allowed = described[topic].result(timeout_s + 5).authorized_operations
    except (KafkaException, TimeoutError):
        return
    if allowed and _WRITING.isdisjoint(allowed):
        raise InputError(
            f'the broker does not let you write to topic "{topic}": allow your user to Write it, '
            "or name another topic"
        )


def is_compacted(config: Mapping[str, Any], topic: str, timeout_s: float = 10.0) -> bool | None:
    """Ask whether Kafka keeps only the last record of each key of a topic.

    Args:
        config: Settings of a client of that cluster.
        topic: Its name.
        timeout_s: How long to wait for the broker.

    Returns:
        Whether it does; None if the broker does not say (some forbid the question).
    """
    resource = ConfigResource(ResourceType.TOPIC, topic)
    admin = AdminClient(admin_settings(config))
    try:
        described = admin.describe_configs([resource], request_timeout=timeout_s)
        entries = described[resource].result(timeout_s + 5)
    except (KafkaException, TimeoutError):
        return None
    policy = entries.get("cleanup.policy")
    return None if policy is None else "compact" in str(policy.value)
