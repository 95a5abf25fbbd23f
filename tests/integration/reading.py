"""Reads whole topics back, as any consumer would."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition


class Record(NamedTuple):
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    headers: list[tuple[str, bytes | None]] | None


def read_topic(config: Mapping[str, Any], topic: str, timeout_s: float = 60) -> list[Record]:
    """Read every record there is now; those of a partition come in their order."""
    consumer = Consumer(
        {
            **config,
            "group.id": "reading",
            "enable.auto.commit": False,
            "fetch.message.max.bytes": 16_000_000,
        }
    )
    try:
        partitions = consumer.list_topics(topic, timeout=timeout_s).topics[topic].partitions
        bounds = {
            p: consumer.get_watermark_offsets(TopicPartition(topic, p), timeout=timeout_s)
            for p in partitions
        }
        consumer.assign([TopicPartition(topic, p, OFFSET_BEGINNING) for p in bounds])
        num_records = sum(end - begin for begin, end in bounds.values())
        records: list[Record] = []
        while len(records) < num_records:
            # It waits until it has all it is asked for: ask for no more than there is.
            batch = consumer.consume(min(10_000, num_records - len(records)), timeout=timeout_s)
            assert batch, f"{len(records)} of {num_records} records came"
            for message in batch:
                assert message.error() is None, message.error()
                records.append(
                    Record(
                        message.partition(),
                        message.offset(),
                        message.key(),
                        message.value(),
                        message.timestamp()[1],
                        message.headers(),
                    )
                )
        return records
    finally:
        consumer.close()


def partition_of_each(records: Iterable[Record]) -> dict[bytes | None, int]:
    """Map each value to the partition it was read from; values must be distinct."""
    places: dict[bytes | None, int] = {}
    for record in records:
        assert record.value not in places, f"{record.value!r} came twice"
        places[record.value] = record.partition
    return places
