"""Takes a sample from a live topic: read only, outside of every consumer group."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition
from confluent_kafka.admin import AdminClient

from partitioners.errors import InputError, RunError, nearest
from partitioners.kafka.settings import admin_settings
from partitioners.kafka.topics import is_compacted
from pipelines import topics
from pipelines.advise.replay_order import replay_order
from pipelines.advise.sample import Limits, Sample, stream_of
from pipelines.punctuation import MAGIC

Int64s = npt.NDArray[np.int64]

# Times up to here are tried, some in the future: clocks of producers are not ours.
_FAR_MS = 1 << 43
_MESSAGES_PER_CALL = 5_000


def sample_topic(settings: Mapping[str, Any], topic: str, limits: Limits, near_ms: int) -> Sample:
    """Read the newest records of every partition.

    Partitions are assigned, not subscribed to, and no offset is committed: no group is joined, none
    is rebalanced. What is read is the newest stretch of *time* in all partitions that holds as many
    records as asked for, so that a partition with more load has more of the sample, whatever the
    topic keeps. The records stand in the order of `replay_order`.

    Args:
        settings: From `topics.client_settings`.
        topic: Its name.
        limits: Records and seconds at most.
        near_ms: See `replay_order.resolution_ms`.

    Raises:
        InputError: There is no such topic or no record in it, or the broker does not answer.
    """
    topics.require_answer(settings)
    num_partitions = _count_partitions(settings, topic)
    own = {
        "group.id": f"keyspread-advise-{secrets.token_hex(8)}",  # asked for, and never joined
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "enable.partition.eof": True,
    }
    consumer = Consumer({**admin_settings(settings), **own})
    deadline = time.monotonic() + limits.seconds
    notes: list[str] = []
    try:
        low, high = _bounds(consumer, topic, num_partitions)
        if not (high - low).sum():
            raise InputError(
                f"topic {topic} holds no records: let its producers write some, or give keys "
                "with --keys"
            )
        start, note = _newest(consumer, topic, low, high, limits.records, near_ms)
        notes += note
        messages, complete = _read(consumer, topic, start, high, limits.records, deadline)
    except KafkaException as error:
        reason = error.args[0]
        raise InputError(
            f"cannot read topic {topic} ({reason.str()}): check the broker and your permission"
        ) from error
    finally:
        consumer.close()
    messages = [each for each in messages if not _is_watermark(each)]
    if not messages:
        raise InputError(
            f"no record of topic {topic} came within {limits.seconds:g} s: give more --seconds, "
            "or keys with --keys"
        )
    if not complete:
        notes.append(
            f"only {len(messages):,} of {int((high - start).sum()):,} records came within "
            f"{limits.seconds:g} s, so shares lean to partitions that were read first: give more "
            "--seconds or fewer --records"
        )
    times = np.array([each.timestamp()[1] for each in messages], np.int64)
    partitions = np.array([each.partition() for each in messages], np.int32)
    has_times = bool((times > 0).all())
    if not has_times:
        times = np.zeros_like(times)
    order = replay_order(times, partitions, near_ms)
    keys = [messages[i].key() for i in order.tolist()]
    stream, num_null = stream_of(keys, times[order] if has_times else None)
    return Sample(
        source=f"topic {topic} at {settings['bootstrap.servers']}",
        stream=stream,
        num_null=num_null,
        has_times=has_times,
        partitions=partitions[order][[key is not None for key in keys]],
        # Of what did not come in time the ends tell; of the rest, what are records of the stream.
        records_per_partition=np.bincount(partitions, minlength=num_partitions)
        if complete
        else high - start,
        topic=topic,
        compacted=is_compacted(settings, topic),
        notes=notes,
    )


def _count_partitions(settings: Mapping[str, Any], topic: str) -> int:
    """Count a topic's partitions; all topics are asked for, so that a wrong name has a nearest."""
    listed = AdminClient(admin_settings(settings)).list_topics(timeout=topics.ANSWER_SECONDS)
    found = listed.topics.get(topic)
    if found is None or not found.partitions:
        names = [name for name in listed.topics if not name.startswith("__")]
        hint = nearest(topic, names, most=5) if names else "it has none yet"
        raise InputError(f'there is no topic "{topic}" at {settings["bootstrap.servers"]}: {hint}')
    return len(found.partitions)


def _bounds(consumer: Consumer, topic: str, num_partitions: int) -> tuple[Int64s, Int64s]:
    """First offset kept, and the end, of each partition."""
    bounds = [
        consumer.get_watermark_offsets(
            TopicPartition(topic, partition), timeout=topics.ANSWER_SECONDS, cached=False
        )
        for partition in range(num_partitions)
    ]
    low, high = np.array(bounds, np.int64).T
    return low, high


def _newest(
    consumer: Consumer, topic: str, low: Int64s, high: Int64s, num_records: int, near_ms: int
) -> tuple[Int64s, list[str]]:
    """Find where the newest so many records begin in each partition, by their times.

    Returns:
        `int64[P]` offsets; and what to know about them: times may not tell.
    """
    if int((high - low).sum()) <= num_records:
        return low, []

    def offsets_from(time_ms: int) -> Int64s:
        asked = [TopicPartition(topic, p, time_ms) for p in range(len(low))]
        answered = consumer.offsets_for_times(asked, timeout=topics.ANSWER_SECONDS)
        found = {each.partition: each.offset for each in answered}
        # None that late: the end.
        at = [found[p] if found[p] >= 0 else high[p] for p in range(len(low))]
        return np.clip(np.array(at, np.int64), low, high)

    def earliest_with(most: int) -> int:
        """The earliest time since which there are no more records."""
        too_early, late_enough = 0, _FAR_MS
        while late_enough - too_early > 1:
            middle = (too_early + late_enough) // 2
            if int((high - offsets_from(middle)).sum()) > most:
                too_early = middle
            else:
                late_enough = middle
        return late_enough

    begin_ms = earliest_with(num_records)
    near_end_ms = earliest_with(0) - near_ms
    if begin_ms > near_end_ms:
        # Which of them came last is not told by times so near: each partition gives its part.
        recent = offsets_from(max(near_end_ms, 0))
        if int((high - recent).sum()) > num_records:
            note = (
                f"the newest records lie within {near_ms / 1000:g} s, where times do not tell "
                "their order: the sample has of each partition in proportion to its records there"
            )
            return _proportional(recent, high, num_records), [note]
    start = offsets_from(begin_ms)
    if int((high - start).sum()) * 2 > num_records:
        return start, []
    # Times are out of order, or there are none.
    note = (
        "the records' times do not tell which are newest, so what each partition keeps stands for "
        "its load"
    )
    return _proportional(low, high, num_records), [note]


def _proportional(low: Int64s, high: Int64s, num_records: int) -> Int64s:
    """Give each partition a part of the sample that goes with what it has."""
    there = high - low
    parts = np.ceil(there * (num_records / there.sum())).astype(np.int64)
    return np.asarray(np.maximum(high - parts, low), np.int64)


def _read(
    consumer: Consumer,
    topic: str,
    start: Int64s,
    end: Int64s,
    num_records: int,
    deadline: float,
) -> tuple[list[Message], bool]:
    """Read every partition from its start to its end, as far as time and number allow.

    Returns:
        The records, and whether these are all.
    """
    waiting = set(np.flatnonzero(start < end).tolist())
    consumer.assign([TopicPartition(topic, p, int(start[p])) for p in sorted(waiting)])
    messages: list[Message] = []
    # A little more than asked for: rounding, one record a partition.
    most = num_records + len(start)
    while waiting and len(messages) < most and (left := deadline - time.monotonic()) > 0:
        for message in consumer.consume(_MESSAGES_PER_CALL, timeout=min(left, 0.2)):
            partition = message.partition()
            if (error := message.error()) is not None:
                if error.code() != KafkaError._PARTITION_EOF:
                    raise RunError(f"topic {topic} cannot be read ({error.str()}): try again")
                waiting.discard(partition)
                continue
            offset = message.offset() or 0
            if partition is not None and offset < end[partition]:
                messages.append(message)
            if partition is not None and offset + 1 >= end[partition]:
                waiting.discard(partition)
    return messages, not waiting


def _is_watermark(message: Message) -> bool:
    """Whether it is no record of the stream, but of one of our runs."""
    value = message.value()
    return message.key() is None and value is not None and value.startswith(MAGIC)
