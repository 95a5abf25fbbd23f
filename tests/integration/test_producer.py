"""The producer against a real broker: nothing lost, doubled, reordered or sent elsewhere."""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient, NewPartitions

from partitioners import PARTITIONERS, create
from partitioners.errors import InputError, RunError
from partitioners.kafka import PartitionedProducer, ensure_topic
from pipelines.broker import EmbeddedBroker
from tests.conftest import TopicFactory
from tests.integration.reading import Record, partition_of_each, read_topic

pytestmark = pytest.mark.broker

ODD_KEYS: list[bytes | None] = [
    b"k",
    b"x" * 100_000,
    b"",
    None,
    b"\xff\xfe\x80",
    b"nul\x00inside",
    "café ☕".encode(),
]


def numbered(num_records: int) -> list[bytes]:
    return [b"%d" % i for i in range(num_records)]


def skewed_keys(num_records: int, seed: int = 7) -> list[bytes]:
    ranks = np.random.default_rng(seed).zipf(1.4, num_records) % 1000
    return [b"key-%d" % rank for rank in ranks]


def assert_in_order(records: list[Record]) -> None:
    """Within each partition the numbers that the values carry rise."""
    last: dict[int, int] = defaultdict(lambda: -1)
    for record in records:
        number = int(record.value or b"-1")
        assert number > last[record.partition], f"{number} after {last[record.partition]}"
        last[record.partition] = number


class TestRouting:
    @pytest.mark.parametrize("name", sorted(PARTITIONERS))
    def test_records_lie_where_the_partitioner_said(
        self, name: str, client_config: dict[str, Any], make_topic: TopicFactory
    ) -> None:
        topic, keys, values = make_topic(5), skewed_keys(3000), numbered(3000)
        with PartitionedProducer(client_config, {topic: name}) as producer:
            partitions = producer.produce_batch(topic, keys, values, np.arange(3000) * 10)
        records = read_topic(client_config, topic)
        assert partition_of_each(records) == dict(zip(values, partitions.tolist(), strict=True))
        assert producer.produced == producer.delivered == len(records) == 3000
        assert_in_order(records)

    def test_one_by_one_is_the_same_as_a_batch(
        self, client_config: dict[str, Any], make_topic: TopicFactory
    ) -> None:
        topic, keys, values = make_topic(8), skewed_keys(2000), numbered(2000)
        expected = create("pkg", 8).partition_batch(keys)
        with PartitionedProducer(client_config, {topic: "pkg"}) as producer:
            for key, value in zip(keys, values, strict=True):
                producer.produce(topic, key=key, value=value)
        places = partition_of_each(read_topic(client_config, topic))
        assert [places[value] for value in values] == expected.tolist()

    @pytest.mark.parametrize(
        "how", ["produce", "list", "arrow", "dictionary", "chunked", "headers"]
    )
    def test_odd_keys_arrive_as_they_are(
        self, how: str, client_config: dict[str, Any], make_topic: TopicFactory
    ) -> None:
        topic, values = make_topic(3), numbered(len(ODD_KEYS))
        column = pa.array(ODD_KEYS, pa.binary())
        columns = {
            "list": ODD_KEYS,
            "headers": ODD_KEYS,
            "arrow": column,
            "dictionary": column.dictionary_encode(),
            "chunked": pa.chunked_array([column.slice(0, 2), column.slice(2)]),
        }
        with PartitionedProducer(client_config, {topic: "key_hash"}) as producer:
            if how == "produce":
                for key, value in zip(ODD_KEYS, values, strict=True):
                    producer.produce(topic, value, key)
            else:
                headers = [[("h", b"1")]] * len(values) if how == "headers" else None
                producer.produce_batch(topic, columns[how], values, headers=headers)
        records = read_topic(client_config, topic)
        assert {record.value: record.key for record in records} == dict(
            zip(values, ODD_KEYS, strict=True)
        )
        expected = create("key_hash", 3).partition_batch(ODD_KEYS).tolist()
        places = partition_of_each(records)
        assert [places[value] for value in values] == expected

    def test_text_is_sent_as_utf8(
        self, client_config: dict[str, Any], make_topic: TopicFactory
    ) -> None:
        topic = make_topic(3)
        with PartitionedProducer(client_config, {topic: "key_hash"}) as producer:
            producer.produce(topic, "größe", "schlüssel")
            producer.produce_batch(topic, ["schlüssel"], ["größe"])
            producer.produce_batch(topic, pa.array(["schlüssel"]), pa.array(["größe"]))
        records = read_topic(client_config, topic)
        assert {(r.key, r.value) for r in records} == {("schlüssel".encode(), "größe".encode())}
        assert len(records) == 3
        assert len({r.partition for r in records}) == 1

    def test_null_values_are_tombstones_and_large_values_pass(
        self, client_config: dict[str, Any], make_topic: TopicFactory
    ) -> None:
        topic = make_topic(2)
        config = {**client_config, "message.max.bytes": 8_000_000}
        with PartitionedProducer(config, {topic: "pkg"}) as producer:
            producer.produce_batch(topic, [b"a", b"b"], [None, b"v" * 5_000_000])
        values = [record.value for record in read_topic(client_config, topic)]
        assert sorted(len(value or b"") for value in values) == [0, 5_000_000]
        assert None in values

    def test_headers_and_timestamps_are_kept(
        self, client_config: dict[str, Any], make_topic: TopicFactory
    ) -> None:
        topic, values = make_topic(3), numbered(500)
        times = [1_420_070_400_000 + i for i in range(500)]
        headers: list[Any] = [[("row", b"%d" % i)] for i in range(500)]
        with PartitionedProducer(client_config, {topic: "pkg"}) as producer:
            producer.produce_batch(
                topic, skewed_keys(500), values, headers=headers, timestamps=times
            )
        records = read_topic(client_config, topic)
        assert len(records) == 500
        for record in records:
            assert record.headers == [("row", record.value)]
            assert record.timestamp_ms == times[int(record.value or b"-1")]
        assert_in_order(records)

    def test_a_topic_given_a_partitioner_by_hand(
        self, client_config: dict[str, Any], make_topic: TopicFactory
    ) -> None:
        topic = make_topic(6)
        partitioners = {topic: ("pkg", {"d": 3})}
        with PartitionedProducer(client_config, partitioners) as producer:
            producer.produce_batch(topic, [b"hot"] * 999, numbered(999))
            producer.produce(topic, key=b"own", value=b"1000", partition=5)
        per_partition = producer.counts(topic).produced
        assert per_partition.sum() == 1000
        assert np.count_nonzero(per_partition) in (3, 4)

    def test_many_sources_together_stay_balanced(
        self, client_config: dict[str, Any], make_topic: TopicFactory
    ) -> None:
        topic, keys, values = make_topic(4), skewed_keys(8000), numbered(8000)
        totals = np.zeros(4, np.int64)
        for source in range(4):
            with PartitionedProducer(client_config, {topic: "pkg"}) as producer:
                producer.produce_batch(topic, keys[source::4], values[source::4])
            totals += producer.counts(topic).produced
        on_one = np.bincount(create("pkg", 4).partition_batch(keys), minlength=4)
        assert totals.sum() == 8000
        # Local estimates suffice: four sources are no worse than one, but for rounding.
        assert totals.max() <= on_one.max() * 1.05


class TestDelivery:
    def test_a_tiny_queue_keeps_the_order_of_each_partition(
        self, client_config: dict[str, Any], make_topic: TopicFactory
    ) -> None:
        topic, values = make_topic(3), numbered(20_000)
        config = {**client_config, "queue.buffering.max.messages": 50}
        with PartitionedProducer(config, {topic: "pkg"}) as producer:
            producer.produce_batch(topic, skewed_keys(15_000), values[:15_000])
            for key, value in zip(skewed_keys(5000), values[15_000:], strict=True):
                producer.produce(topic, value, key)
        records = read_topic(client_config, topic)
        assert len(records) == 20_000
        assert_in_order(records)

    def test_a_queue_full_by_bytes_keeps_the_order_too(
        self, client_config: dict[str, Any], make_topic: TopicFactory
    ) -> None:
        topic = make_topic(2)
        values = [b"%d" % i + b" " * 30_000 for i in range(400)]
        config = {**client_config, "queue.buffering.max.kbytes": 1024}
        with PartitionedProducer(config, {topic: "pkg"}) as producer:
            producer.produce_batch(topic, skewed_keys(400), values)
        records = read_topic(client_config, topic)
        assert len(records) == 400
        assert_in_order(records)

    @pytest.mark.parametrize("way", ["produce", "produce_batch", "config"])
    def test_delivery_callbacks_come_for_each_record(
        self, way: str, client_config: dict[str, Any], make_topic: TopicFactory
    ) -> None:
        topic = make_topic(2)
        seen: list[tuple[int | None, bytes | None]] = []

        def on_delivery(error: KafkaError | None, message: Message) -> None:
            assert error is None
            seen.append((message.partition(), message.value()))

        config = {**client_config, "on_delivery": on_delivery} if way == "config" else client_config
        with PartitionedProducer(config, {topic: "pkg"}) as producer:
            if way == "produce":
                producer.produce(topic, b"without", b"k")  # before the first callback was asked for
                for value in numbered(100):
                    producer.produce(topic, value, b"k", on_delivery=on_delivery)
            elif way == "produce_batch":
                producer.produce_batch(topic, [b"k"] * 100, numbered(100), on_delivery=on_delivery)
            else:
                producer.produce_batch(topic, [b"k"] * 100, numbered(100))
        records = [r for r in read_topic(client_config, topic) if r.value != b"without"]
        assert sorted(seen) == sorted((r.partition, r.value) for r in records)
        assert len(seen) == 100

    def test_a_callback_may_produce(
        self, client_config: dict[str, Any], make_topic: TopicFactory
    ) -> None:
        topic = make_topic(2)
        producer = PartitionedProducer(client_config, {topic: "pkg"})

        def again(error: KafkaError | None, message: Message) -> None:
            producer.produce(topic, b"again", b"k")

        producer.produce(topic, b"first", b"k", on_delivery=again)
        producer.flush()
        producer.close()
        values = [record.value for record in read_topic(client_config, topic)]
        assert sorted(values) == [b"again", b"first"]

    def test_threads_share_a_producer(
        self, client_config: dict[str, Any], make_topic: TopicFactory
    ) -> None:
        topic = make_topic(4)
        with PartitionedProducer(client_config, {topic: "pkg"}) as producer:

            def send(first: int) -> None:
                for number in range(first, 4000, 4):
                    producer.produce(topic, b"%d" % number, b"k%d" % (number % 50))

            threads = [threading.Thread(target=send, args=(first,)) for first in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        records = read_topic(client_config, topic)
        assert sorted(int(r.value or b"") for r in records) == list(range(4000))
        per_partition = np.bincount([r.partition for r in records], minlength=4)
        assert per_partition.tolist() == producer.counts(topic).produced.tolist()

    def test_close_fails_when_records_cannot_arrive(
        self, client_config: dict[str, Any], make_topic: TopicFactory
    ) -> None:
        # The topic takes less than the client: the broker refuses what the client let pass.
        topic = make_topic(2, {"max.message.bytes": "1000"})
        config = {**client_config, "compression.type": "none"}
        producer = PartitionedProducer(config, {topic: "pkg"})
        producer.produce_batch(topic, [b"a", b"b"], [b"small", b"v" * 5000])
        producer.flush()
        assert (producer.produced, producer.failed, producer.delivered) == (2, 1, 1)
        with pytest.raises(RunError, match="1 of 2 records were not delivered"):
            producer.close()
        with pytest.raises(RunError, match="closed"):
            producer.produce(topic, b"late", b"k")

    def test_an_error_in_the_body_is_not_hidden_by_the_close(
        self, client_config: dict[str, Any], make_topic: TopicFactory
    ) -> None:
        topic = make_topic(2)

        def fail_after_one() -> None:
            with PartitionedProducer(client_config, {topic: "pkg"}) as producer:
                producer.produce(topic, b"kept", b"k")
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            fail_after_one()
        assert [record.value for record in read_topic(client_config, topic)] == [b"kept"]

    def test_a_broker_that_was_away_for_ten_seconds_loses_and_doubles_nothing(
        self, tmp_path: Path
    ) -> None:
        with EmbeddedBroker(tmp_path / "broker") as broker:
            config = {"bootstrap.servers": broker.bootstrap, "log_level": 0}
            ensure_topic(config, "stream", 3)
            stop = threading.Event()
            # Small batches of linger 0: many requests are on their way when the broker goes.
            settings = {**config, "linger.ms": 0, "batch.num.messages": 50}
            producer = PartitionedProducer(settings, {"stream": "pkg"}, metadata_refresh_s=0.5)
            sent = 0

            def send() -> None:
                nonlocal sent
                while not stop.is_set():
                    block = [b"%d" % (sent + i) for i in range(200)]
                    producer.produce_batch(
                        "stream", [b"key-%d" % (i % 40) for i in range(200)], block
                    )
                    sent += 200
                    producer.poll(0.05)

            sender = threading.Thread(target=send)
            sender.start()
            while producer.delivered < 2000:
                producer.poll(0.05)
            broker.stop()
            before = sent
            stop.wait(10)
            broker.start()
            wanted = before + 2000
            while producer.delivered < wanted:
                producer.poll(0.05)
            stop.set()
            sender.join()
            producer.close()
            records = read_topic(config, "stream")
            assert producer.delivered == len(records) == sent
            assert_in_order(records)


class TestProcesses:
    def test_a_forked_child_delivers_by_itself(
        self, client_config: dict[str, Any], make_topic: TopicFactory
    ) -> None:
        topic = make_topic(2)
        with PartitionedProducer(client_config, {topic: "pkg"}) as producer:
            producer.produce(topic, b"parent", b"k")
            child = os.fork()
            if child == 0:
                code = 1
                try:
                    producer.produce(topic, b"child", b"k")
                    producer.close()
                    code = 0 if producer.delivered == 1 else 2
                finally:
                    os._exit(code)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
            producer.produce(topic, b"parent again", b"k")
        assert producer.delivered == 2
        values = sorted(r.value or b"" for r in read_topic(client_config, topic))
        assert values == [b"child", b"parent", b"parent again"]

    def test_a_forked_child_that_does_nothing_ends(
        self, client_config: dict[str, Any], make_topic: TopicFactory
    ) -> None:
        import subprocess

        program = (
            "import os, sys\n"
            "from partitioners.kafka import PartitionedProducer\n"
            "p = PartitionedProducer({'bootstrap.servers': sys.argv[1]}, {sys.argv[2]: 'pkg'})\n"
            "p.produce(sys.argv[2], b'parent', b'k')\n"
            "child = os.fork()\n"
            "if child: print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
            # Neither closes: the parent's record must still go out at its end.
        )
        topic = make_topic(2)
        ran = subprocess.run(
            [sys.executable, "-c", program, str(client_config["bootstrap.servers"]), topic],
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        assert ran.stdout.split() == ["0"]
        assert [r.value for r in read_topic(client_config, topic)] == [b"parent"]


class TestPartitionCount:
    def grow(self, config: dict[str, Any], topic: str, num_partitions: int) -> None:
        admin = AdminClient(config)
        admin.create_partitions([NewPartitions(topic, num_partitions)])[topic].result(30)
        while len(admin.list_topics(topic, timeout=10).topics[topic].partitions) < num_partitions:
            pass

    def test_new_partitions_are_followed_with_a_warning(
        self,
        client_config: dict[str, Any],
        make_topic: TopicFactory,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        topic = make_topic(2)
        with PartitionedProducer(client_config, {topic: ("pkg", {"seed": 5})}) as producer:
            producer.produce_batch(topic, skewed_keys(500), numbered(500))
            self.grow(client_config, topic, 6)
            with caplog.at_level(logging.WARNING):
                producer.refresh()
            assert f'topic "{topic}" has 6 partitions now, and had 2' in caplog.text
            partitions = producer.produce_batch(topic, skewed_keys(500), numbered(500))
        assert (
            partitions.tolist()
            == create("pkg", 6, seed=5).partition_batch(skewed_keys(500)).tolist()
        )
        assert len(read_topic(client_config, topic)) == producer.delivered == 1000
        assert np.count_nonzero(producer.counts(topic).produced) == 6

    def test_a_change_is_noticed_in_passing(
        self, client_config: dict[str, Any], make_topic: TopicFactory
    ) -> None:
        topic = make_topic(1)
        with PartitionedProducer(
            client_config, {topic: "shuffle"}, metadata_refresh_s=0
        ) as producer:
            producer.produce(topic, b"1", b"k")
            self.grow(client_config, topic, 3)
            for value in numbered(30):
                producer.produce(topic, value, b"k")
        assert np.count_nonzero(producer.counts(topic).produced) == 3

    def test_keep_and_fail(self, client_config: dict[str, Any], make_topic: TopicFactory) -> None:
        topic = make_topic(2)
        keep = PartitionedProducer(client_config, {topic: "shuffle"}, on_partition_change="keep")
        fail = PartitionedProducer(client_config, {topic: "shuffle"}, on_partition_change="fail")
        for producer in (keep, fail):
            producer.produce(topic, b"1", b"k")
        self.grow(client_config, topic, 3)
        keep.refresh()
        keep.produce_batch(topic, [b"k"] * 30, numbered(30))
        assert len(keep.counts(topic).produced) == 2
        with pytest.raises(InputError, match="has 3 partitions now, and had 2"):
            fail.refresh()
        keep.close()
        fail.close()


class TestRefusals:
    def test_a_missing_topic(self, client_config: dict[str, Any]) -> None:
        with (
            PartitionedProducer(client_config, {"nowhere": "pkg"}) as producer,
            pytest.raises(InputError, match='there is no topic "nowhere": create it'),
        ):
            producer.produce("nowhere", b"v", b"k")

    def test_a_missing_topic_is_made_when_asked(
        self, client_config: dict[str, Any], make_topic: TopicFactory
    ) -> None:
        topic = make_topic(1) + "-made"
        with PartitionedProducer(client_config, {topic: "pkg"}, create_topics_with=3) as producer:
            producer.produce(topic, b"v", b"k")
        assert len(producer.counts(topic).produced) == 3

    def test_a_topic_of_another_partition_count(
        self, client_config: dict[str, Any], make_topic: TopicFactory
    ) -> None:
        topic = make_topic(4)
        with pytest.raises(InputError, match="has 4 partitions, not 8: ask for 4"):
            ensure_topic(client_config, topic, 8)
        with (
            PartitionedProducer(client_config, {topic: create("pkg", 8)}) as producer,
            pytest.raises(InputError, match="has 4 partitions and its partitioner 8"),
        ):
            producer.produce(topic, b"v", b"k")

    def test_a_compacted_topic_and_a_partitioner_that_splits_keys(
        self, client_config: dict[str, Any], make_topic: TopicFactory
    ) -> None:
        topic = make_topic(2, {"cleanup.policy": "compact,delete"})
        with (
            PartitionedProducer(client_config, {topic: "pkg"}) as producer,
            pytest.raises(InputError, match="is compacted, and pkg splits keys"),
        ):
            producer.produce(topic, b"v", b"k")
        with PartitionedProducer(client_config, {topic: "key_hash"}) as whole:
            whole.produce(topic, b"v", b"k")
        with PartitionedProducer(client_config, {topic: "pkg"}, allow_compacted=True) as forced:
            forced.produce(topic, b"v", b"k")
        assert len(read_topic(client_config, topic)) == 2

    def test_a_topic_without_partitioner(self, client_config: dict[str, Any]) -> None:
        with (
            PartitionedProducer(client_config, {"clicks": "pkg"}) as producer,
            pytest.raises(InputError, match='topic "click"; did you mean "clicks"'),
        ):
            producer.produce("click", b"v", b"k")

    def test_a_record_too_large_for_the_client(
        self, client_config: dict[str, Any], make_topic: TopicFactory
    ) -> None:
        topic = make_topic(2)
        with PartitionedProducer(client_config, {topic: "pkg"}) as producer:
            with pytest.raises(InputError, match=r'set "message\.max\.bytes"'):
                producer.produce(topic, b"v" * 2_000_000, b"k")
            with pytest.raises(InputError, match=r'set "message\.max\.bytes"'):
                producer.produce_batch(topic, [b"k"], [b"v" * 2_000_000])
            producer.produce(topic, b"fits", b"k")
        assert [r.value for r in read_topic(client_config, topic)] == [b"fits"]

    def test_off_greedy_is_fitted_with_its_first_batch(
        self, client_config: dict[str, Any], make_topic: TopicFactory
    ) -> None:
        topic = make_topic(2)
        with PartitionedProducer(client_config, {topic: "off_greedy"}) as producer:
            keys = [b"a", b"b", b"b", b"c", b"c", b"c", None]
            partitions = producer.produce_batch(topic, keys, numbered(7))
            producer.produce(topic, b"7", b"c")
            assert sum(producer.counts(topic).produced) == 8
        assert partitions.tolist()[:6] == [1, 1, 1, 0, 0, 0]
        assert partition_of_each(read_topic(client_config, topic))[b"7"] == 0

    def test_unequal_columns(self, client_config: dict[str, Any], make_topic: TopicFactory) -> None:
        topic = make_topic(2)
        with PartitionedProducer(client_config, {topic: "pkg"}) as producer:
            with pytest.raises(InputError, match="2 keys and 1 values"):
                producer.produce_batch(topic, [b"a", b"b"], [b"v"])
            with pytest.raises(InputError, match="2 keys, 1 headers"):
                producer.produce_batch(topic, [b"a", b"b"], [b"v", b"w"], headers=[None])
            with pytest.raises(InputError, match="values must be strings or binary, not int64"):
                producer.produce_batch(topic, [b"a"], pa.array([1]))
        assert len(producer) == producer.produced == 0


class TestWithoutBroker:
    def test_no_broker_answers(self) -> None:
        config = {"bootstrap.servers": "127.0.0.1:9", "log_level": 0}
        with (
            PartitionedProducer(config, {"t": "pkg"}, metadata_timeout_s=1) as producer,
            pytest.raises(RunError, match="no broker answered within 1 s"),
        ):
            producer.produce("t", b"v", b"k")

    @pytest.mark.parametrize(
        ("config", "message"),
        [
            ({}, r'lack "bootstrap\.servers"'),
            (
                {"bootstrap.servers": "b:1", "partitioner": "murmur2"},
                "give the partitioner by topic",
            ),
            (
                {"bootstrap.servers": "b:1", "partitioner_cb": print},
                "give the partitioner by topic",
            ),
            ({"bootstrap.servers": "b:1", "no.such": 1}, "librdkafka refuses the settings"),
        ],
    )
    def test_settings_that_are_wrong(self, config: dict[str, Any], message: str) -> None:
        with pytest.raises(InputError, match=message):
            PartitionedProducer(config, {"t": "pkg"}).produce("t", b"v", b"k")

    def test_partitioners_that_are_wrong(self) -> None:
        config = {"bootstrap.servers": "b:1"}
        with pytest.raises(InputError, match='did you mean "pkg"'):
            PartitionedProducer(config, {"t": "pgk"})
        with pytest.raises(InputError, match="d"):
            PartitionedProducer(config, {"t": ("pkg", {"dd": 3})})
        shared = create("pkg", 2)
        with pytest.raises(InputError, match="share one partitioner"):
            PartitionedProducer(config, {"t": shared, "u": shared})

    def test_what_the_user_set_stays(self) -> None:
        from partitioners.kafka.settings import producer_settings

        base = {"bootstrap.servers": "b:1"}
        assert producer_settings(base)["enable.idempotence"] is True
        assert "enable.idempotence" not in producer_settings({**base, "acks": 0})
        assert "enable.idempotence" not in producer_settings({**base, "max.in.flight": 20})
        assert producer_settings({**base, "compression.type": "zstd"})["compression.type"] == "zstd"
        secure = {**base, "security.protocol": "SASL_SSL", "sasl.username": "u"}
        assert producer_settings(secure).items() >= secure.items()
        for protocol in ({}, {"security.protocol": "SSL"}):
            with pytest.raises(InputError, match=r'"sasl\.username" would not be used.*SASL_SSL'):
                producer_settings({**base, "sasl.username": "u", **protocol})

    def test_a_producer_that_was_never_used_closes(self) -> None:
        PartitionedProducer({"bootstrap.servers": "b:1"}, {"t": "pkg"}).close()


def test_the_client_beneath_is_reachable(
    client_config: dict[str, Any], make_topic: TopicFactory
) -> None:
    with PartitionedProducer(client_config, {make_topic(1): "pkg"}) as producer:
        assert isinstance(producer.client, Producer)
