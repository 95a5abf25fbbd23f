"""What a run asks about its topic: is it there, how many partitions, where do they end."""

from __future__ import annotations

import functools
import socket
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from partitioners.errors import InputError, RunError
from partitioners.kafka.refusals import raise_if_refused
from partitioners.kafka.settings import admin_settings, check_login
from partitioners.kafka.topics import ensure_topic
from pipelines.broker import broker_status

ANSWER_SECONDS = 10.0
FIRST_ANSWER_SECONDS = 3.0
CONNECT_SECONDS = 2.0
# End offsets are taken as final when they stayed the same this long after their producer died.
STABLE_SECONDS = 1.0
POLL_SECONDS = 0.1
# A broker hears of a topic that was just made, or of all when it starts, a moment after others.
PROPAGATION_SECONDS = 2.0
PATIENCE_SECONDS = 60.0
# What a broker says of a partition whose leader it does not know yet, or is not yet itself.
_WITHOUT_LEADER = (
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.REPLICA_NOT_AVAILABLE,
)
# What a command may say where it starts a broker when no servers are named.
OWN_BROKER = "leave it out to have one started"


def client_settings(bootstrap: str, kafka: Mapping[str, Any]) -> dict[str, Any]:
    """Put the servers and the user's librdkafka settings together.

    Args:
        bootstrap: The servers.
        kafka: The settings.

    Raises:
        InputError: They are not names with values, or a login would not be used.
    """
    if not isinstance(kafka, Mapping):
        raise InputError(
            f"the Kafka settings are {kafka!r}: give names with their values, as in "
            '{"security.protocol": "SASL_SSL"}'
        )
    check_login(kafka)
    # librdkafka would write its own lines to stderr; what matters comes back as an error.
    return {"log_level": 0, **kafka, "bootstrap.servers": bootstrap}


def find_servers(bootstrap: str | None) -> str:
    """Give the servers named, else those of the broker that `keyspread broker start` started.

    Args:
        bootstrap: What the user named.

    Raises:
        InputError: Nothing was named, and no such broker runs.
    """
    if bootstrap is not None:
        return bootstrap
    status = broker_status()
    if not status.running or status.bootstrap is None:
        raise InputError("no broker: name one with --bootstrap, or `keyspread broker start` one")
    return status.bootstrap


def require_answer(settings: Mapping[str, Any], otherwise: str = "") -> None:
    """See that a broker answers.

    Args:
        settings: From `client_settings`.
        otherwise: What the user may do instead of naming servers, for the message.

    Raises:
        InputError: None does, or the settings are wrong.
    """
    servers = settings["bootstrap.servers"]
    mend = f"check --bootstrap and that a broker runs there{otherwise and f', or {otherwise}'}"
    try:
        client = AdminClient(admin_settings(settings))
        if _refuse_connections(servers):
            raise InputError(f"nobody listens at the Kafka servers {servers}: {mend}")
        try:
            client.list_topics(timeout=min(FIRST_ANSWER_SECONDS, ANSWER_SECONDS))
        except KafkaException:
            # A refusal would be tried again until the time is up; a slow start is worth waiting.
            raise_if_refused(settings)
            # Below 0 would be for ever.
            client.list_topics(timeout=max(0.1, ANSWER_SECONDS - FIRST_ANSWER_SECONDS))
    except InputError:
        raise
    except (KafkaException, ValueError, TypeError) as error:
        reason = error.args[0] if error.args else error
        if isinstance(reason, KafkaError) and reason.code() != KafkaError._INVALID_ARG:
            raise InputError(
                f"no answer from the Kafka servers {servers} within {ANSWER_SECONDS:g} s "
                f"({reason.str()}): {mend}"
            ) from None
        raise InputError(
            f"Kafka settings: {_text(error)}; mend --bootstrap, --kafka or the --kafka-config file"
        ) from None


def _refuse_connections(servers: str) -> bool:
    """Whether every server refuses at once: librdkafka would go on trying until its time is up."""
    for server in servers.split(","):
        host, _, port = server.strip().rpartition("://")[2].rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), CONNECT_SECONDS).close()
        except ConnectionRefusedError:
            continue
        except (OSError, ValueError):  # librdkafka has the better words for these
            return False
        return False
    return True


@dataclass(frozen=True, slots=True)
class DescribedTopic:
    """What a broker tells of a topic.

    Attributes:
        num_partitions: How many partitions it has.
        topic_id: Kafka's own name of it: that of a topic made anew is another one.
    """

    num_partitions: int
    topic_id: str


def described_topic(
    admin: AdminClient, topic: str, timeout_s: float = ANSWER_SECONDS
) -> DescribedTopic | None:
    """Describe a topic, in a question that never makes one.

    Args:
        admin: Asks.
        topic: Its name.
        timeout_s: How long to wait for an answer.

    Returns:
        What it is, or None if there is no such topic.

    Raises:
        RunError: No broker answered, or it refused.
    """
    known_by = time.monotonic() + PROPAGATION_SECONDS
    while True:
        try:
            asked = admin.describe_topics(TopicCollection([topic]), request_timeout=timeout_s)
            told = asked[topic].result()
            return DescribedTopic(len(told.partitions), str(told.topic_id))
        except KafkaException as error:
            reason = error.args[0]
        if reason.code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
            raise RunError(
                f'the broker refuses to describe topic "{topic}" ({reason.str()}): check that it '
                "runs, the topic's name and your permission"
            )
        if time.monotonic() > known_by:
            return None
        time.sleep(POLL_SECONDS)


def check_topic(settings: Mapping[str, Any], topic: str, num_partitions: int) -> None:
    """See that a topic is there with the partitions a query is started for.

    Args:
        settings: From `client_settings`.
        topic: Its name.
        num_partitions: What it has to have.

    Raises:
        InputError: There is no such topic, it has another number, or no server answers.
        RunError: The broker does not describe it.
    """
    require_answer(settings)
    described = described_topic(AdminClient(admin_settings(settings)), topic)
    if described is None:
        raise InputError(f"there is no topic {topic}: make it, or name another")
    if (have := described.num_partitions) != num_partitions:
        raise InputError(
            f"topic {topic} has {have} partitions, not {num_partitions}: say {have}, or name "
            "another topic"
        )


def make_topic(settings: Mapping[str, Any], topic: str, num_partitions: int) -> None:
    """Make a topic, or see that it has the partitions asked for.

    Args:
        settings: From `client_settings`.
        topic: Its name.
        num_partitions: What it has to have.

    Raises:
        InputError: It has another number, or the broker refuses.
    """
    require_answer(settings)
    ensure_topic(settings, topic, num_partitions)


def remove_topics(
    settings: Mapping[str, Any], topics: Iterable[str], timeout_s: float = PATIENCE_SECONDS
) -> list[str]:
    """Remove topics, and wait until they are gone.

    Args:
        settings: From `client_settings`.
        topics: Their names; those that are not there are left out.
        timeout_s: How long to wait for the broker.

    Returns:
        The names of those that were there.

    Raises:
        InputError: The broker does not answer, or refuses.
        RunError: They are still there when the time is up.
    """
    admin = AdminClient(admin_settings(settings))
    deadline = time.monotonic() + timeout_s
    names = set(topics)
    removed = sorted(names & _all_topics(admin, settings, deadline))
    if not removed:
        return []
    for topic, deleted in admin.delete_topics(removed, operation_timeout=timeout_s).items():
        try:
            deleted.result(timeout_s)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise InputError(
                    f"topic {topic} cannot be removed ({_text(error)}): allow it, or remove it by "
                    "other means"
                ) from error
    while names & _all_topics(admin, settings, deadline):
        if time.monotonic() > deadline:
            raise RunError(
                f"topics such as {removed[0]} are still there {timeout_s:g} s after they were "
                "removed: look at the broker's log"
            )
        time.sleep(POLL_SECONDS)
    return removed


def _all_topics(admin: AdminClient, settings: Mapping[str, Any], deadline: float) -> set[str]:
    """All names: to ask for a topic by its name may make it."""
    try:
        return set(admin.list_topics(timeout=max(1.0, deadline - time.monotonic())).topics)
    except KafkaException as error:
        raise InputError(
            f"no answer from the Kafka servers {settings['bootstrap.servers']} ({_text(error)}): "
            "check --bootstrap and that a broker runs there"
        ) from error


def try_topics(settings: Mapping[str, Any], topics: Mapping[str, int]) -> None:
    """See that topics could be made, without making them.

    Args:
        settings: From `client_settings`.
        topics: The partitions of each, by name.

    Raises:
        InputError: The broker does not answer, or would refuse one.
    """
    require_answer(settings)
    admin = AdminClient(admin_settings(settings))
    wanted = [NewTopic(topic, partitions, -1) for topic, partitions in topics.items()]
    try:
        answers = admin.create_topics(wanted, validate_only=True, request_timeout=PATIENCE_SECONDS)
    except ValueError as error:
        # What librdkafka itself finds wrong; it names the topic.
        most = max(topics, key=topics.__getitem__)
        raise InputError(
            f'cannot create topic "{most}" with {topics[most]} partitions ({error}): choose '
            "another number"
        ) from error
    for topic, answer in answers.items():
        try:
            answer.result(PATIENCE_SECONDS)
        except KafkaException as error:
            raise InputError(
                f'cannot create topic "{topic}" with {topics[topic]} partitions ({_text(error)}): '
                "choose another number, or mend the permission"
            ) from error


def require_topic(settings: Mapping[str, Any], topic: str, num_partitions: int) -> None:
    """See that the topic of an earlier attempt is still there.

    Args:
        settings: From `client_settings`.
        topic: Its name.
        num_partitions: What it has to have.

    Raises:
        InputError: It is gone or has another number of partitions.
    """
    require_answer(settings)
    described = described_topic(AdminClient(admin_settings(settings)), topic)
    if described is None:
        raise InputError(
            f"topic {topic} is gone from {settings['bootstrap.servers']}, so the run cannot be "
            "resumed: start it anew"
        )
    if (have := described.num_partitions) != num_partitions:
        raise InputError(
            f"topic {topic} has {have} partitions and the run has {num_partitions}: somebody "
            "changed the topic, so start the run anew"
        )


def end_offsets(settings: Mapping[str, Any], topic: str, num_partitions: int) -> list[int]:
    """Ask where each partition of a topic ends.

    Args:
        settings: From `client_settings`.
        topic: Its name.
        num_partitions: How many it has.

    Raises:
        InputError: The broker does not answer.
    """
    own = {"group.id": "keyspread-offsets", "enable.auto.commit": False}
    consumer = Consumer({**admin_settings(settings), **own})
    try:

        def end_of(partition: int) -> int:
            place = TopicPartition(topic, partition)
            return int(
                consumer.get_watermark_offsets(place, timeout=ANSWER_SECONDS, cached=False)[1]
            )

        return [
            once_led(functools.partial(end_of, partition)) for partition in range(num_partitions)
        ]
    except KafkaException as error:
        raise InputError(
            f"no answer about topic {topic} from {settings['bootstrap.servers']} "
            f"({_text(error)}): check that the broker runs, then resume"
        ) from None
    finally:
        consumer.close()


def once_led(ask: Callable[[], int], patience_seconds: float = PATIENCE_SECONDS) -> int:
    """Ask again while a partition has no leader: a broker that has just started answers before.

    Args:
        ask: The question.
        patience_seconds: How long to ask again.

    Raises:
        KafkaException: Another answer than that, or still that one.
    """
    deadline = time.monotonic() + patience_seconds
    while True:
        try:
            return ask()
        except KafkaException as error:
            if error.args[0].code() not in _WITHOUT_LEADER or time.monotonic() >= deadline:
                raise
        time.sleep(POLL_SECONDS)


def stable_end_offsets(settings: Mapping[str, Any], topic: str, num_partitions: int) -> list[int]:
    """Ask where each partition ends, until the answers stay the same.

    What a killed producer had under way may still be written for a moment.

    Args:
        settings: From `client_settings`.
        topic: Its name.
        num_partitions: How many it has.

    Raises:
        RunError: Somebody keeps writing to the topic.
    """
    offsets = end_offsets(settings, topic, num_partitions)
    unchanged_since = started = time.monotonic()
    while time.monotonic() - unchanged_since < STABLE_SECONDS:
        if time.monotonic() - started > PATIENCE_SECONDS:
            raise RunError(f"topic {topic} is still being written to: stop its other producer")
        time.sleep(POLL_SECONDS)
        again = end_offsets(settings, topic, num_partitions)
        if again != offsets:
            offsets, unchanged_since = again, time.monotonic()
    return offsets


def _text(error: Exception) -> str:
    reason = error.args[0] if error.args else error
    return str(reason.str()) if isinstance(reason, KafkaError) else str(reason)
