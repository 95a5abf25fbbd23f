"""The same partitioner under each client, and in Spark: the real ones, against a real broker."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from partitioners import create
from partitioners.errors import InputError
from partitioners.kafka import (
    KafkaPythonPartitioner,
    PartitionedProducer,
    kafka_python_partitioner,
    partition_callable,
)
from pipelines.jars import add_connector
from tests.conftest import TopicFactory
from tests.integration.reading import partition_of_each, read_topic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.broker

ROOT = Path(__file__).parents[2]
KAFKA_PYTHON_2 = ROOT / ".venv-kafka-python-2"
NUM_PARTITIONS = 5
KEYS = [b"key-%d" % (i * i % 23) for i in range(300)] + [b"", b"\xff\x00", b"x" * 100_000]
VALUES = [b"%d" % i for i in range(len(KEYS))]

# One that splits keys and learns, one that is a pure function of the key.
NAMES = ("pkg", "key_hash")


def expected(name: str) -> dict[bytes | None, int]:
    partitions = create(name, NUM_PARTITIONS).partition_batch(KEYS).tolist()
    return dict(zip(VALUES, partitions, strict=True))


@pytest.mark.parametrize("name", NAMES)
def test_kafka_python_3(
    name: str, client_config: dict[str, Any], bootstrap: str, make_topic: TopicFactory
) -> None:
    from kafka import KafkaProducer

    topic = make_topic(NUM_PARTITIONS)
    producer = KafkaProducer(
        bootstrap_servers=bootstrap, partitioner=KafkaPythonPartitioner({topic: name})
    )
    for key, value in zip(KEYS, VALUES, strict=True):
        producer.send(topic, value, key)
    producer.flush()
    producer.close()
    assert partition_of_each(read_topic(client_config, topic)) == expected(name)


@pytest.mark.parametrize("name", NAMES)
def test_aiokafka(
    name: str, client_config: dict[str, Any], bootstrap: str, make_topic: TopicFactory
) -> None:
    from aiokafka import AIOKafkaProducer

    topic = make_topic(NUM_PARTITIONS)

    async def send() -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=bootstrap, partitioner=partition_callable(name)
        )
        async with producer:
            sent = [
                await producer.send(topic, value, key)
                for key, value in zip(KEYS, VALUES, strict=True)
            ]
            await asyncio.gather(*sent)

    asyncio.run(send())
    assert partition_of_each(read_topic(client_config, topic)) == expected(name)


@pytest.mark.parametrize("name", NAMES)
def test_kafka_python_2(
    name: str, client_config: dict[str, Any], bootstrap: str, make_topic: TopicFactory
) -> None:
    # Both versions are called `kafka`, so this one lives in a folder and a process of its own.
    assert KAFKA_PYTHON_2.is_dir(), f"{KAFKA_PYTHON_2} is missing: run `make setup`"
    topic = make_topic(NUM_PARTITIONS)
    program = (
        "import json, sys\n"
        "import kafka\n"
        "from partitioners.kafka import partition_callable\n"
        "bootstrap, topic, name = sys.argv[1:]\n"
        "producer = kafka.KafkaProducer(bootstrap_servers=bootstrap,"
        " partitioner=partition_callable(name))\n"
        "for number, key in enumerate(json.load(sys.stdin)):\n"
        "    producer.send(topic, b'%d' % number, key.encode('latin-1'))\n"
        "producer.flush()\nproducer.close()\n"
        "print(kafka.__version__)\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program, bootstrap, topic, name],
        input=json.dumps([key.decode("latin-1") for key in KEYS]),
        env={**os.environ, "PYTHONPATH": f"{KAFKA_PYTHON_2}{os.pathsep}{ROOT}"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith("2.")
    assert partition_of_each(read_topic(client_config, topic)) == expected(name)


class TestCallable:
    def test_the_order_of_the_lists_does_not_matter(self) -> None:
        for seed in range(5):
            mixed = np.random.default_rng(seed).permutation(12).tolist()
            assert partition_callable("key_hash")(b"100:48069", mixed, mixed[:3]) == 9

    def test_a_growing_topic_is_followed_by_name_and_refused_otherwise(self) -> None:
        by_name = partition_callable("key_hash")
        by_name(b"k", [0, 1], [0, 1])
        assert by_name(b"100:48069", range(12), []) == 9
        given = partition_callable(create("pkg", 2))
        with pytest.raises(InputError, match="the topic has 3 partitions and its partitioner 2"):
            given(b"k", [0, 1, 2], [])

    def test_wrong_choices_are_told_at_once(self) -> None:
        with pytest.raises(InputError, match='did you mean "pkg"'):
            partition_callable("pgk")
        with pytest.raises(InputError, match="off_greedy decides on whole batches"):
            partition_callable("off_greedy")
        with pytest.raises(InputError, match="options go with a partitioner's name"):
            partition_callable(create("pkg", 2), d=3)

    def test_kafka_python_3_knows_topics(self) -> None:
        with pytest.raises(InputError, match='topic "click"; did you mean "clicks"'):
            kafka_python_partitioner(clicks="pkg").partition("click", b"", b"", b"", b"", None)


@pytest.mark.parametrize(
    ("name", "clients"),
    [
        ("partition_callable", ()),
        ("kafka_python_partitioner", ("kafka",)),
        ("PartitionedProducer", ("confluent_kafka",)),
        ("with_partition", ()),
    ],
)
def test_an_adapter_imports_no_other_client(name: str, clients: tuple[str, ...]) -> None:
    program = (
        "import sys, partitioners.kafka\n"
        f"partitioners.kafka.{name}\n"
        "print(*[m for m in ('kafka', 'confluent_kafka', 'aiokafka', 'pyspark') "
        "if m in sys.modules])\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert tuple(ran.stdout.split()) == clients


@pytest.mark.spark
class TestSparkColumn:
    def rows(self, spark: SparkSession, num_tasks: int) -> Any:
        pairs = [(bytearray(k), bytearray(v)) for k, v in zip(KEYS, VALUES, strict=True)]
        return spark.createDataFrame(pairs, "key binary, value binary").repartition(num_tasks)

    def test_the_sink_sends_rows_where_the_column_says(
        self,
        spark: SparkSession,
        client_config: dict[str, Any],
        bootstrap: str,
        make_topic: TopicFactory,
    ) -> None:
        from partitioners.kafka import with_partition

        add_connector(spark)
        topic = make_topic(NUM_PARTITIONS)
        sink = with_partition(self.rows(spark, 3), "key_hash", NUM_PARTITIONS).write
        options = {"kafka.bootstrap.servers": bootstrap, "topic": topic}
        sink.format("kafka").options(**options).save()
        assert partition_of_each(read_topic(client_config, topic)) == expected("key_hash")

    def test_each_task_is_a_source_that_agrees_on_candidates(self, spark: SparkSession) -> None:
        from partitioners.kafka import with_partition

        chosen = with_partition(self.rows(spark, 3), "pkg", NUM_PARTITIONS, options={"seed": 4})
        places: dict[bytes, set[int]] = {}
        for row in chosen.collect():
            places.setdefault(bytes(row.key), set()).add(row.partition)
        assert max(len(partitions) for partitions in places.values()) == 2

    def test_event_time_reaches_the_partitioner(self, spark: SparkSession) -> None:
        from partitioners.kafka import with_partition

        rows = spark.sql(
            "SELECT CAST(id % 7 AS STRING) AS user, timestamp_millis(id * 1000) AS at "
            "FROM range(0, 600, 1, 1)"
        )
        options = {"window_ms": 60_000, "slide_ms": 60_000}
        chosen = with_partition(rows, "cam", 4, "user", options, timestamp_column="at").collect()
        direct = create("cam", 4, **options).partition_batch(
            [str(i % 7) for i in range(600)], np.arange(600) * 1000
        )
        assert [row.partition for row in chosen] == direct.tolist()

    def test_wrong_columns_and_options(self, spark: SparkSession) -> None:
        from partitioners.kafka import with_partition

        rows = self.rows(spark, 1)
        with pytest.raises(InputError, match='no column "kye"; did you mean "key"'):
            with_partition(rows, "pkg", 4, "kye")
        with pytest.raises(InputError, match='did you mean "pkg"'):
            with_partition(rows, "pgk", 4)
        with pytest.raises(InputError, match='have a column "partition" already'):
            with_partition(with_partition(rows, "pkg", 4), "pkg", 4)


def test_the_same_object_serves_confluent_and_a_callable(
    client_config: dict[str, Any], make_topic: TopicFactory
) -> None:
    topic = make_topic(NUM_PARTITIONS)
    with PartitionedProducer(client_config, {topic: create("pkg", NUM_PARTITIONS)}) as producer:
        producer.produce_batch(topic, KEYS, VALUES)
    choose = partition_callable(create("pkg", NUM_PARTITIONS))
    lists = list(range(NUM_PARTITIONS))
    by_callable = {v: choose(k, lists, lists) for k, v in zip(KEYS, VALUES, strict=True)}
    assert partition_of_each(read_topic(client_config, topic)) == by_callable == expected("pkg")
