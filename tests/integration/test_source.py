"""The reader of topics: any record, any range, gaps, what is lost; which offsets a batch has."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import psutil
import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

import pipelines.source.partition
from partitioners.errors import InputError, RunError
from pipelines.aggregates import Aggregates
from pipelines.combine import Combiner
from pipelines.panes import Windows
from pipelines.plan import WindowPlan
from pipelines.source.combined import pickled
from pipelines.source.files import Shipped
from pipelines.source.librdkafka import Client
from pipelines.source.offsets import TopicOffsets
from pipelines.source.partition import check_settings, read_partition
from pipelines.source.planned import Topic, TopicReader
from pipelines.stages import COMBINED
from pipelines.topics import described_topic
from pipelines.workloads import WordCount
from tests.containers.waiting import wait_until
from tests.integration.reading import read_topic
from tests.integration.sending import ordered_producer

Read = tuple[int, bytes | None, bytes | None]


def rows(
    config: dict[str, Any], topic: str, start: int, end: int, partition: int = 0, **options: Any
) -> list[Read]:
    """What the reader gives: offset, key, value."""
    found: list[Read] = []
    for batch in read_partition(Shipped.of(config), topic, partition, start, end, **options):
        assert batch.num_rows
        assert set(batch["partition"].to_pylist()) == {partition}
        batch.validate(full=True)
        found += zip(*(batch[name].to_pylist() for name in ("offset", "key", "value")), strict=True)
    return found


def odd_records(count: int) -> Iterator[dict[str, Any]]:
    """Records with and without key and value, empty, short and long, some with headers."""
    chance = random.Random(5)
    for number in range(count):
        key = chance.choice([None, b"", b"k", bytes([number % 256]) * chance.randrange(40)])
        long = b"x" * chance.randrange(300_000) if number % 97 == 0 else str(number).encode()
        value = chance.choice([None, b"", long, long, long])
        headers = {"headers": [("h", b"1"), ("none", None)]} if number % 5 == 0 else {}
        yield {"key": key, "value": value, **headers}


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_any_range_reads_as_any_consumer_does(codec: str, client_config, make_topic) -> None:
    topic = make_topic(1)
    producer = ordered_producer({**client_config, "compression.type": codec, "linger.ms": 20})
    count = 700
    for record in odd_records(count):
        producer.produce(topic, partition=0, **record)
    producer.flush()
    wanted = [
        (record.offset, record.key, record.value) for record in read_topic(client_config, topic)
    ]
    assert len(wanted) == count
    assert rows(client_config, topic, 0, count) == wanted
    for start, end, max_rows, max_bytes in (
        (0, 1, 9, 1 << 20),
        (count - 1, count, 9, 1 << 20),
        (333, 334, 9, 1 << 20),
        (5, 641, 1, 1 << 20),
        (5, 641, 100, 1 << 20),
        (5, 641, 10_000, 50_000),
        (7, 7, 9, 1 << 20),
    ):
        found = rows(client_config, topic, start, end, max_rows=max_rows, max_bytes=max_bytes)
        assert found == wanted[start:end]


def test_a_record_of_60_megabytes(client_config, make_topic) -> None:
    topic = make_topic(1, topic_config={"max.message.bytes": str(100 << 20)})
    config = {**client_config, "message.max.bytes": 100 << 20}
    producer = ordered_producer(config)
    line = random.Random(1).randbytes(60 << 20)
    for value in (b"before", line, b"behind"):
        producer.produce(topic, value, partition=0)
        producer.flush()
    assert [value for _, _, value in rows(client_config, topic, 0, 3)] == [
        b"before",
        line,
        b"behind",
    ]


def test_marks_of_transactions_are_passed_over(client_config, make_topic) -> None:
    topic = make_topic(1)
    producer = Producer({**client_config, "transactional.id": f"of-{topic}"})
    producer.init_transactions()
    for number, committed in enumerate([True, False, True, False]):
        producer.begin_transaction()
        for part in range(3):
            producer.produce(topic, f"{number}.{part}".encode(), partition=0)
        producer.flush()
        producer.commit_transaction() if committed else producer.abort_transaction()
    end = TopicOffsets(client_config, topic).last({})[0]
    assert end == 16  # a mark behind each three
    every = [f"{number}.{part}".encode() for number in range(4) for part in range(3)]
    assert [value for _, _, value in rows(client_config, topic, 0, end)] == every
    reading = {**client_config, "isolation.level": "read_committed"}
    assert TopicOffsets(reading, topic).last({})[0] == end
    committed_only = [value for value in every if value[:1] in b"02"]
    assert [value for _, _, value in rows(reading, topic, 0, end)] == committed_only
    # Nothing but a mark, and nothing but what was taken back.
    assert rows(client_config, topic, 3, 4) == []
    assert rows(reading, topic, 12, end) == []


def test_a_reader_goes_on_with_what_comes_while_it_waits(client_config, make_topic) -> None:
    topic = make_topic(1)
    producer = ordered_producer(client_config)
    producer.produce(topic, b"0", partition=0)
    producer.flush()
    batches = read_partition(Shipped.of(client_config), topic, 0, 0, 3, max_rows=1)
    assert next(batches)["value"].to_pylist() == [b"0"]
    for value in (b"1", b"2", b"3"):
        producer.produce(topic, value, partition=0)
    producer.flush()
    assert [value for batch in batches for value in batch["value"].to_pylist()] == [b"1", b"2"]


def test_what_is_there_is_not_waited_for(client_config, make_topic, monkeypatch) -> None:
    monkeypatch.setattr(pipelines.source.partition, "WAIT_MS", 60_000)
    topic = make_topic(1)
    producer = ordered_producer(client_config)
    for number in range(10):
        producer.produce(topic, str(number).encode(), partition=0)
    producer.flush()
    for end in (1, 9, 10):
        assert len(rows(client_config, topic, 0, end)) == end


def test_a_partition_is_read_once_at_a_time(client_config, make_topic) -> None:
    topic = make_topic(1)
    producer = ordered_producer(client_config)
    for number in range(10):
        producer.produce(topic, str(number).encode(), partition=0)
    producer.flush()
    reader = read_partition(Shipped.of(client_config), topic, 0, 0, 20, max_rows=1)
    taken = next(reader).num_rows
    with pytest.raises(RunError, match="being read in this process already"):
        rows(client_config, topic, 0, 10)
    assert 0 < taken <= 10
    reader.close()
    assert len(rows(client_config, topic, 0, 10)) == 10


def test_records_that_are_gone_are_said(client_config, make_topic, monkeypatch) -> None:
    topic = make_topic(1)
    producer = ordered_producer(client_config)
    for number in range(10):
        producer.produce(topic, str(number).encode(), partition=0)
    producer.flush()
    admin = AdminClient(client_config)
    place = TopicPartition(topic, 0, 4)
    admin.delete_records([place])[place].result()
    with pytest.raises(RunError, match="no longer holds"):
        rows(client_config, topic, 3, 10)
    assert [value for _, _, value in rows(client_config, topic, 4, 6)] == [b"4", b"5"]
    monkeypatch.setattr(pipelines.source.partition, "SHORT_LOG_SECONDS", 0.3)
    monkeypatch.setattr(pipelines.source.partition, "ASK_SECONDS", 0.1)
    with pytest.raises(RunError, match="no longer holds"):
        rows(client_config, topic, 4, 11)
    with pytest.raises(RunError, match="no longer holds"):
        TopicOffsets(client_config, topic).last({0: 11})
    with pytest.raises(RunError, match="no longer holds"):
        TopicOffsets(client_config, topic).last({0: 10, 1: 0})
    with pytest.raises(RunError, match="no longer holds"):
        rows(client_config, topic, 0, 1, partition=1)
    with pytest.raises(RunError, match="no longer holds"):
        TopicOffsets(client_config, f"{topic}-never-made").first()


def test_a_topic_that_was_made_anew_is_not_read_from_the_old_ones_offsets(
    client_config, make_topic
) -> None:
    def send(count: int) -> None:
        producer = ordered_producer(client_config)
        for number in range(count):
            producer.produce(topic, str(number).encode(), partition=0)
        producer.flush()

    def reader() -> TopicReader:
        return TopicReader(Topic(Shipped.of(client_config), topic, 4, COMBINED, b""))

    topic = make_topic(1)
    send(6)
    before = reader()
    start = before.initialOffset()
    first = before.latestOffset(start, before.getDefaultReadLimit())
    admin = AdminClient(client_config)
    admin.delete_topics([topic])[topic].result()
    wait_until(lambda: described_topic(admin, topic) is None, "gone")
    admin.create_topics([NewTopic(topic, 1)])[topic].result()
    wait_until(lambda: described_topic(admin, topic) is not None, "made anew")
    send(9)
    with pytest.raises(RunError, match="was made anew"):
        before.latestOffset(first, before.getDefaultReadLimit())
    with pytest.raises(RunError, match="was made anew"):
        reader().latestOffset(first, before.getDefaultReadLimit())
    with pytest.raises(RunError, match="was made anew"):
        reader().partitions(start, first)
    # Readers of before did not note which topic it was.
    del first["topic id"]
    assert reader().latestOffset(first, before.getDefaultReadLimit())[topic] == {"0": 8}


def test_nobody_answers(client_config, make_topic) -> None:
    nobody = {"bootstrap.servers": "127.0.0.1:9", "log_level": 0}
    with pytest.raises(RunError, match=r"nothing of partition 0 .* within 1 s .*refused"):
        rows(nobody, "gone", 0, 1, patience_seconds=1.0)


def test_settings_that_a_reader_cannot_use() -> None:
    with pytest.raises(InputError, match=r"no\.such\.setting"):
        Client({"no.such.setting": "1"})
    with pytest.raises(InputError, match="oauth_cb is a Python function"):
        Client({"oauth_cb": lambda _: ("", 0)})
    Client({"error_cb": print, "enable.auto.commit": False, "sasl.username": None})


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"auto.offset.reset": "latest"}, "from the beginning, then from its checkpoint"),
        ({"no.such.setting": "1"}, r"cannot use the Kafka settings \(.*no\.such\.setting"),
        ({"max.poll.interval.ms": 10}, r"^[^\n]*max\.poll\.interval\.ms[^\n]*: correct them$"),
        (
            {"ssl.ca.location": "/nowhere.pem"},
            r"cannot read /nowhere\.pem .*ssl\.ca\.location",
        ),
    ],
)
def test_settings_are_refused_before_a_query_starts(settings, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        check_settings({"bootstrap.servers": "127.0.0.1:9", "log_level": 0, **settings})


def test_a_check_of_settings_leaves_no_thread_behind() -> None:
    before = psutil.Process().num_threads()
    for _ in range(5):
        check_settings({"bootstrap.servers": "127.0.0.1:9", "log_level": 0})
    assert psutil.Process().num_threads() <= before


def test_open_transactions_are_waited_for_however_it_is_spelt(client_config, make_topic) -> None:
    topic = make_topic(1)
    producer = Producer({**client_config, "transactional.id": topic})
    producer.init_transactions()
    for ending in (producer.commit_transaction, None):
        producer.begin_transaction()
        producer.produce(topic, b"x", partition=0)
        producer.flush()
        if ending:
            ending()
    for spelt in ("read_committed", "READ_COMMITTED"):
        found = TopicOffsets({**client_config, "isolation.level": spelt}, topic)
        assert found.last({0: 0}) == {0: 2}
    assert TopicOffsets(client_config, topic).last({0: 0}) == {0: 3}
    producer.abort_transaction()


def test_a_partition_that_is_added_begins_where_it_was_found(client_config, make_topic) -> None:
    topic = make_topic(1)

    def send(partition: int, count: int) -> None:
        producer = ordered_producer(client_config)
        for number in range(count):
            producer.produce(topic, str(number).encode(), partition=partition)
        producer.flush()

    send(0, 5)
    plan = WindowPlan.of(Windows.of("1 s", "1 s"), Aggregates())
    combiner = Combiner(WordCount(), plan, 1)
    reader = TopicReader(Topic(Shipped.of(client_config), topic, 4, COMBINED, pickled(combiner)))
    start = reader.initialOffset()
    assert start[topic] == {"0": 0}
    first = reader.latestOffset(start, reader.getDefaultReadLimit())
    assert first[topic] == {"0": 4}
    # The first batch done again, when its first records are gone, is to be the same.
    later = {**start, topic: {"0": 3}}
    assert [part.start for part in reader.partitions(later, first)] == [0]
    admin = AdminClient(client_config)
    admin.create_partitions([NewPartitions(topic, 2)])[topic].result()
    send(1, 7)
    place = TopicPartition(topic, 1, 2)
    admin.delete_records([place])[place].result()
    other = TopicReader(reader._topic)
    second = other.latestOffset(first, reader.getDefaultReadLimit())
    assert second[topic] == {"0": 5, "1": 5}
    planned = {part.partition: (part.start, part.end) for part in other.partitions(first, second)}
    assert planned == {0: (4, 5), 1: (2, 5)}
    # Done again when more is gone, the batch is to be the same: what is lost is said.
    place = TopicPartition(topic, 1, 4)
    admin.delete_records([place])[place].result()
    again = other.partitions(first, second)
    assert {part.partition: part.start for part in again} == {0: 4, 1: 2}
    third = other.latestOffset(second, reader.getDefaultReadLimit())
    assert third[topic] == {"0": 5, "1": 7}
    assert other.latestOffset(third, reader.getDefaultReadLimit()) is third
    assert other.reportLatestOffset()[topic] == {"0": 5, "1": 7}
