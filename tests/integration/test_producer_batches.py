"""The producer with partitioners that plan whole batches: records wait, none is lost or doubled."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from partitioners import create
from partitioners.errors import InputError
from partitioners.kafka import PartitionedProducer
from partitioners.prompt import Prompt
from tests.conftest import TopicFactory
from tests.integration.reading import partition_of_each, read_topic
from tests.integration.test_producer import assert_in_order, numbered, skewed_keys

pytestmark = pytest.mark.broker

AN_HOUR_MS = 3_600_000


def planned(keys: list[bytes], cuts: list[int], num_partitions: int) -> list[int]:
    """Cut keys into micro-batches and give each its plan."""
    prompt = create("prompt", num_partitions)
    assert isinstance(prompt, Prompt)
    parts = np.split(np.arange(len(keys)), cuts)
    return [
        partition
        for part in parts
        for partition in prompt.partition_micro_batch([keys[row] for row in part]).tolist()
    ]


def test_single_records_are_planned_as_micro_batches(
    client_config: dict[str, Any], make_topic: TopicFactory
) -> None:
    topic, keys, values = make_topic(4), skewed_keys(2500), numbered(2500)
    producer = PartitionedProducer(
        client_config, {topic: "prompt"}, micro_batch_records=1000, micro_batch_ms=AN_HOUR_MS
    )
    for row in range(2500):
        producer.produce(topic, values[row], keys[row])
        if row == 1499:
            assert producer.flush() == 0  # ends a batch of 500
            assert producer.delivered == producer.produced == 1500
    assert producer.produced == 2500
    producer.close()
    assert producer.delivered == 2500
    records = read_topic(client_config, topic)
    assert len(records) == 2500
    places = partition_of_each(records)
    assert [places[value] for value in values] == planned(keys, [1000, 1500], 4)
    assert_in_order(records)


def test_each_batch_is_one_micro_batch_and_what_waited_goes_first(
    client_config: dict[str, Any], make_topic: TopicFactory
) -> None:
    topic, keys, values = make_topic(3), skewed_keys(900), numbered(900)
    with PartitionedProducer(client_config, {topic: "prompt"}) as producer:
        for row in range(100):
            producer.produce(topic, values[row], keys[row])
        producer.produce_batch(topic, keys[100:500], values[100:500])
        producer.produce_batch(topic, keys[500:], values[500:])
    records = read_topic(client_config, topic)
    places = partition_of_each(records)
    assert [places[value] for value in values] == planned(keys, [100, 500], 3)
    assert_in_order(records)


def test_a_batch_goes_out_when_its_time_has_come(
    client_config: dict[str, Any], make_topic: TopicFactory
) -> None:
    topic = make_topic(2)
    with PartitionedProducer(client_config, {topic: "prompt"}, micro_batch_ms=1) as producer:
        producer.produce(topic, b"0", b"k")
        while sum(producer.counts(topic).produced) == 0:
            producer.poll(0.01)
        assert len(read_topic(client_config, topic)) <= 1
    assert [record.value for record in read_topic(client_config, topic)] == [b"0"]


def test_callbacks_headers_times_and_chosen_partitions_wait_along(
    client_config: dict[str, Any], make_topic: TopicFactory
) -> None:
    topic = make_topic(3)
    arrived: list[bytes | None] = []
    with PartitionedProducer(client_config, {topic: "prompt"}) as producer:
        producer.produce(
            topic,
            b"0",
            b"k",
            on_delivery=lambda _error, message: arrived.append(message.value()),
            timestamp=1_700_000_000_000,
            headers={"h": b"1"},
        )
        producer.produce(topic, b"1", b"k", partition=2)
        producer.produce(topic, b"2", None)
    assert arrived == [b"0"]
    records = {record.value: record for record in read_topic(client_config, topic)}
    assert len(records) == 3
    assert records[b"1"].partition == 2
    assert records[b"2"].key is None


def test_a_record_is_refused_when_it_is_given(
    client_config: dict[str, Any], make_topic: TopicFactory
) -> None:
    topic = make_topic(2)
    with PartitionedProducer(client_config, {topic: "prompt"}) as producer:
        producer.produce(topic, b"0", b"k")
        with pytest.raises(InputError, match=r'set "message\.max\.bytes"'):
            producer.produce(topic, b"v" * 2_000_000, b"k")
        with pytest.raises(InputError, match="a key is bytes, str or None, not int"):
            producer.produce(topic, b"v", 5)  # type: ignore[arg-type]
        producer.produce(topic, b"1", b"k")
    assert producer.delivered == 2
    values = {record.value for record in read_topic(client_config, topic)}
    assert values == {b"0", b"1"}


def test_a_small_queue_is_waited_for(
    client_config: dict[str, Any], make_topic: TopicFactory
) -> None:
    topic, keys, values = make_topic(4), skewed_keys(5000), numbered(5000)
    settings = client_config | {"queue.buffering.max.messages": 50}
    with PartitionedProducer(settings, {topic: "prompt"}, micro_batch_records=2000) as producer:
        for key, value in zip(keys, values, strict=True):
            producer.produce(topic, value, key)
    records = read_topic(client_config, topic)
    assert len(records) == producer.delivered == 5000
    assert_in_order(records)


@pytest.mark.parametrize("option", ["micro_batch_records", "micro_batch_ms"])
@pytest.mark.parametrize("value", [0, -1, 1.5, True, "x"])
def test_options_out_of_range(client_config: dict[str, Any], option: str, value: Any) -> None:
    with pytest.raises(InputError, match=f"{option} must be a whole number"):
        PartitionedProducer(client_config, {"t": "prompt"}, **{option: value})
