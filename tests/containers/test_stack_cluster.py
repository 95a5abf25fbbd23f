"""The stack with three brokers: copies, one broker killed in a run, `down` and `up`."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from partitioners.kafka import PartitionedProducer, ensure_topic
from tests.containers.compose_stack import Stack
from tests.containers.waiting import wait_until
from tests.integration.programs import Program, keyed_lines
from tests.integration.reading import read_topic

pytestmark = [pytest.mark.containers, pytest.mark.spark]

# As `make up PROFILES=cluster` sets them.
CLUSTER = {"COMPOSE_PROFILES": "cluster", "KAFKA_REPLICATION": "3", "KAFKA_MIN_INSYNC": "2"}
BROKERS = ("kafka", "kafka-2", "kafka-3")


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    running = Stack(tmp_path_factory.mktemp("stack"), "keyspread-cluster-test", CLUSTER)
    try:
        running.compose("up", "-d", "--wait", "--wait-timeout", "300", *BROKERS)
        yield running
    finally:
        running.compose("down", "--volumes", "--timeout", "20", check=False)
        listed = subprocess.run(["docker", "volume", "ls", "-q"], capture_output=True, text=True)
        assert running.project not in listed.stdout


def bootstrap(stack: Stack) -> str:
    return ",".join(f"127.0.0.1:{stack.ports[name]}" for name in ("KAFKA", "KAFKA_2", "KAFKA_3"))


def in_sync(settings: dict[str, str], topic: str) -> set[int]:
    found = AdminClient(settings).list_topics(topic, timeout=30).topics[topic].partitions
    return {len(each.isrs) for each in found.values()}


def test_topics_have_three_copies_and_outlive_down_and_up(stack: Stack) -> None:
    settings = {"bootstrap.servers": bootstrap(stack)}
    ensure_topic(settings, "kept", 4)
    assert in_sync(settings, "kept") == {3}
    with PartitionedProducer(settings, {"kept": "hot_fill"}) as producer:
        producer.produce_batch("kept", [f"key-{i % 7}" for i in range(1_000)], ["x"] * 1_000)
    stack.compose("down", "--timeout", "30")
    stack.compose("up", "-d", "--wait", "--wait-timeout", "300", *BROKERS)
    assert len(read_topic(settings, "kept")) == 1_000


def test_a_broker_killed_in_a_run_costs_no_record(stack: Stack, tmp_path: Path) -> None:
    lines = keyed_lines(tmp_path / "in.csv", 60_000)
    asked = ["--bootstrap", bootstrap(stack), "--input", lines, "--runs-dir", tmp_path / "runs"]
    paced = ["--partitions", 4, "--rate", 3_000, "--json"]
    run = Program("run", "keyed-sum", *asked, *paced)
    run.wait_until(lambda: bool(list(tmp_path.glob("runs/*/checkpoint/commits/0"))), "a batch done")
    stack.compose("kill", "kafka-3")
    code, out, err = run.finish()
    assert code == 0, err
    cell = json.loads(out)
    assert cell["exact"]
    assert cell["produced"] == cell["delivered"] == 60_000
    stack.compose("start", "kafka-3")
    wait_until(lambda: "healthy" in stack.states()["kafka-3"], "kafka-3 back")
