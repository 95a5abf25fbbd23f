"""Three brokers: one killed while a run produces and consumes; all restarted in turn."""

from __future__ import annotations

import json
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession
from streams import read_results

import pipelines
from partitioners.kafka import PartitionedProducer, ensure_topic
from tests.containers.kafka_cluster import KafkaCluster
from tests.containers.waiting import wait_until
from tests.integration.programs import Program, keyed_lines
from tests.integration.reading import read_topic

pytestmark = [pytest.mark.containers, pytest.mark.spark]

NUM_RECORDS = 60_000
SIZE_MS, SLIDE_MS = 10_000, 2_000


@pytest.fixture(scope="module")
def cluster() -> Iterator[KafkaCluster]:
    with KafkaCluster(3) as running:
        yield running


def test_a_broker_is_killed_while_a_run_produces_and_consumes(
    cluster: KafkaCluster, tmp_path: Path
) -> None:
    runs = tmp_path / "runs"
    lines = keyed_lines(tmp_path / "in.csv", NUM_RECORDS)
    args = ["run", "keyed-sum", "--input", lines, "--partitioner", "hot_fill", "--partitions", 6]
    args += ["--window-ms", SIZE_MS, "--slide-ms", SLIDE_MS, "--rate", 1_500]
    args += ["--bootstrap", cluster.bootstrap, "--runs-dir", runs, "--json"]
    program = Program(*args)

    def committed() -> int:
        return sum(path.name.isdigit() for path in runs.glob("*/checkpoint/commits/*"))

    program.wait_until(lambda: committed() >= 1, "a first batch")
    (topic,) = (name for name in cluster.topics() if name.startswith("keyed-sum-"))
    victim = cluster.leader(topic, 0)
    cluster.kill(victim)
    before = committed()
    program.wait_until(lambda: committed() >= before + 2, "two batches with two brokers")
    assert cluster.leader(topic, 0) != victim
    cluster.start(victim)
    code, out, err = program.finish()
    assert code == 0, err
    cell = json.loads(out)
    assert cell["exact"], cell["differences"]
    assert cell["produced"] == cell["delivered"] == NUM_RECORDS
    assert cell["on_time"] + cell["late"] == NUM_RECORDS
    cluster.wait_until_whole()


def test_all_brokers_are_restarted_in_turn(
    cluster: KafkaCluster, spark: SparkSession, tmp_path: Path
) -> None:
    topic = "rolling"
    settings = {"bootstrap.servers": cluster.bootstrap, "log_level": 0}
    ensure_topic(settings, topic, 6)
    described = AdminClient(settings).list_topics(topic).topics[topic].partitions
    assert {len(partition.replicas) for partition in described.values()} == {3}
    sent: Counter[tuple[int, str]] = Counter()
    sums: defaultdict[tuple[int, str], int] = defaultdict(int)
    rolled = threading.Event()
    failures: list[BaseException] = []

    def produce() -> None:
        """Until the roll is over; then an hour later, which closes all windows."""
        number = 0
        try:
            with PartitionedProducer(settings, {topic: "pkg"}) as producer:
                while not rolled.is_set():
                    user = f"user {number % 7 if number % 2 else 0}"
                    record = {"ts": number * 10, "user": user, "n": number}
                    producer.produce(topic, json.dumps(record), user)
                    window = number * 10 // SLIDE_MS * SLIDE_MS
                    sent[window, user] += 1
                    sums[window, user] += number
                    number += 1
                    producer.poll(0)
                    rolled.wait(0.001)
                producer.flush(60)
                for partition in range(6):
                    end = {"ts": number * 10 + 3_600_000 + SIZE_MS, "user": "end", "n": 0}
                    producer.produce(topic, json.dumps(end), partition=partition)
        except BaseException as error:
            failures.append(error)

    query = pipelines.run(
        pipelines.Topic(name=topic, bootstrap=cluster.bootstrap, time="ts"),
        key="user",
        aggregates=[pipelines.Sum("total", "n")],
        windows=pipelines.Windows(SLIDE_MS, SLIDE_MS),
        sink=tmp_path / "results",
        lateness_ms=3_600_000,
        max_future_ms=None,
        spark=spark,
    )
    sender = threading.Thread(target=produce)
    sender.start()
    try:
        for _node in cluster.each_in_turn():
            assert query.active
            assert not failures
    finally:
        rolled.set()
        sender.join(120)
    assert not failures
    total = sum(sent.values()) + 6
    try:
        wait_until(lambda: query.progress.on_time + query.progress.late >= total, "all read")
        query.process_available()
        assert (query.progress.on_time, query.progress.late) == (total, 0)
    finally:
        query.stop()
    assert len(read_topic(settings, topic)) == total
    found = {
        (round(row["window_start"].timestamp() * 1000), row["user"]): (row["count"], row["total"])
        for row in read_results(tmp_path / "results")
        if row["user"] != "end"
    }
    assert found == {place: (sent[place], sums[place]) for place in sent}
