"""Three brokers: one killed while records are produced and consumed; all restarted in turn."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from partitioners.kafka import PartitionedProducer, ensure_topic
from pipelines.source.offsets import TopicOffsets
from tests.containers.kafka_cluster import KafkaCluster
from tests.containers.traffic import Traffic
from tests.containers.waiting import wait_until

pytestmark = [pytest.mark.containers, pytest.mark.spark]


@pytest.fixture(scope="module")
def cluster() -> Iterator[KafkaCluster]:
    with KafkaCluster(3) as running:
        yield running


def test_a_broker_is_killed(cluster: KafkaCluster, spark: SparkSession, tmp_path: Path) -> None:
    with Traffic(cluster.bootstrap, "killed", spark, tmp_path) as traffic:
        metadata = AdminClient(cluster.admin_settings).list_topics("killed", timeout=30)
        partitions = metadata.topics["killed"].partitions.values()
        assert {len(partition.replicas) for partition in partitions} == {3}
        traffic.wait_for_more()
        victim = cluster.leader("killed", 0)
        cluster.kill(victim)
        wait_until(lambda: cluster.leader("killed", 0) not in (victim, -1), "another leader")
        traffic.wait_for_more()
        cluster.start(victim)
        cluster.wait_until_whole()
        traffic.wait_for_more()
    traffic.check()


def test_offsets_are_told_while_a_broker_goes(cluster: KafkaCluster) -> None:
    settings = {"bootstrap.servers": cluster.bootstrap}
    ensure_topic(settings, "told", 6)
    with PartitionedProducer(settings, {"told": "shuffle"}) as producer:
        producer.produce_batch("told", ["key"] * 600, ["x"] * 600)
    offsets = TopicOffsets(settings, "told")
    ends = offsets.last({})
    assert sum(ends.values()) == 600
    victim = cluster.leader("told", 0)
    cluster.kill(victim)
    gone_s = time.monotonic()
    while cluster.leader("told", 0) in (victim, -1) or time.monotonic() - gone_s < 5:
        assert offsets.last(ends) == ends
        assert offsets.first() == dict.fromkeys(range(6), 0)
    cluster.start(victim)
    cluster.wait_until_whole()


def test_all_brokers_are_restarted_in_turn(
    cluster: KafkaCluster, spark: SparkSession, tmp_path: Path
) -> None:
    with Traffic(cluster.bootstrap, "rolling", spark, tmp_path) as traffic:
        for _node in cluster.each_in_turn():
            assert traffic.is_well()
        traffic.wait_for_more()
    traffic.check()
