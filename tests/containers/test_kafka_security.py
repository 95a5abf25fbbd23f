"""A broker that wants TLS, a login (SCRAM) and permission: everything of ours gets through it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from confluent_kafka.admin import AclOperation
from pyspark.sql import SparkSession

import pipelines
from partitioners.errors import InputError, RunError
from partitioners.kafka import PartitionedProducer, ensure_topic
from tests.containers.certificates import (
    Certificates,
    broker_environment,
    client_settings,
    let_in,
    make_certificates,
)
from tests.containers.kafka_cluster import KafkaCluster, settings_file
from tests.integration.programs import Program, keyed_lines, run_json
from tests.integration.reading import read_topic
from tests.integration.test_dalton_kafka import joined, reducing, route_until
from tests.integration.test_standalone_cluster import master

pytestmark = [pytest.mark.containers, pytest.mark.spark]

FORBIDDEN, READ_ONLY, NOT_MADE = "forbidden", "read-only", "not-made"
DENIED = {
    FORBIDDEN: AclOperation.ALL,
    READ_ONLY: AclOperation.WRITE,
    NOT_MADE: AclOperation.CREATE,
}
NUM_RECORDS = 2_000
SIZE_MS, SLIDE_MS = 4_000, 1_000

Settings = dict[str, Any]
# A master and a worker on this machine: their fixture.
spark_master = master


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def cluster(certificates: Certificates) -> Iterator[KafkaCluster]:
    with KafkaCluster(
        1, protocol="SASL_SSL", environment=broker_environment(), secrets=certificates.folder
    ) as running:
        for topic in (FORBIDDEN, READ_ONLY):
            ensure_topic(running.admin_settings, topic, 2)
        let_in(running.admin_settings, DENIED)
        yield running


@pytest.fixture
def settings(cluster: KafkaCluster, certificates: Certificates) -> Settings:
    """Of a client that may do what it does."""
    return client_settings(cluster.bootstrap, certificates.authority)


def without_servers(settings: Settings) -> Settings:
    return {name: value for name, value in settings.items() if name != "bootstrap.servers"}


def test_a_run_with_a_settings_file(
    cluster: KafkaCluster, settings: Settings, tmp_path: Path
) -> None:
    lines = keyed_lines(tmp_path / "in.csv", 5_000)
    file = settings_file(tmp_path / "kafka.properties", settings)
    args = ["run", "keyed-sum", "--input", lines, "--partitioner", "pkg", "--partitions", 3]
    args += ["--window-ms", SIZE_MS, "--slide-ms", SLIDE_MS, "--bootstrap", cluster.bootstrap]
    runs = tmp_path / "runs"
    cell = run_json(*args, "--kafka-config", file, "--runs-dir", runs)
    assert cell["exact"], cell["differences"]
    assert cell["produced"] == cell["delivered"] == 5_000
    written = "".join(path.read_text() for path in runs.rglob("*.json"))
    assert settings["sasl.password"] not in written.replace("\\\\", "\\").replace('\\"', '"')


def test_a_run_on_executors_of_a_cluster(
    cluster: KafkaCluster, settings: Settings, spark_master: str, tmp_path: Path
) -> None:
    lines = keyed_lines(tmp_path / "in.csv", 5_000)
    file = settings_file(tmp_path / "kafka.properties", settings)
    args = ["run", "keyed-sum", "--input", lines, "--partitioner", "hot_fill", "--partitions", 4]
    args += ["--shards", 2, "--bootstrap", cluster.bootstrap, "--kafka-config", file]
    cell = run_json(*args, "--master", spark_master, "--runs-dir", tmp_path / "runs")
    assert cell["exact"], cell["differences"]
    assert cell["produced"] == cell["delivered"] == 5_000
    # The worker had executors of it, and these were told no password in words.
    logs = [path.read_text() for path in tmp_path.glob("work/app-*/*/std*")]
    assert logs
    assert settings["sasl.password"] not in "".join(logs)


def test_producer_to_spark_to_kafka_sink(
    cluster: KafkaCluster, settings: Settings, spark: SparkSession, tmp_path: Path
) -> None:
    topic = "clicks"
    ensure_topic(settings, topic, 3)
    sent: Counter[tuple[int, str]] = Counter()
    with PartitionedProducer(settings, {topic: "cam"}) as producer:
        for number in range(NUM_RECORDS):
            user = f"user {number % 5}"
            producer.produce(topic, json.dumps({"ts": number * 10, "user": user}), user)
            sent[number * 10 // SLIDE_MS * SLIDE_MS, user] += 1
        producer.flush()
        for partition in range(3):
            end = {"ts": NUM_RECORDS * 10 + SIZE_MS, "user": "end"}
            producer.produce(topic, json.dumps(end), partition=partition)
    kafka = {name: str(value) for name, value in without_servers(settings).items()}
    query = pipelines.run(
        pipelines.Topic(name=topic, bootstrap=cluster.bootstrap, time="ts", kafka=kafka),
        key="user",
        windows=pipelines.Windows(SLIDE_MS, SLIDE_MS),
        sink=f"kafka:{topic}-results",
        checkpoint=tmp_path / "checkpoint",
        spark=spark,
    )
    try:
        query.process_available()
        assert query.progress.on_time == NUM_RECORDS + 3
    finally:
        query.stop()
    found = {}
    for record in read_topic(settings, f"{topic}-results"):
        row = json.loads(record.value or b"")
        found[row["window_start"], row["user"]] = row["count"]
    assert found == sent


def test_agents_of_dalton_meet(settings: Settings) -> None:
    with (
        joined(settings, "secured", "a") as (one, route_one),
        joined(settings, "secured", "b") as (other, route_other),
        reducing(settings, "secured") as reducer,
    ):
        route_until(
            lambda: not one.is_alone and not other.is_alone and reducer.members == ["a", "b"],
            route_one,
            route_other,
        )


WITHOUT_LOGIN = dict.fromkeys(("sasl.mechanisms", "sasl.username", "sasl.password"))
WRONG = {
    "a wrong password": (
        {"sasl.password": "wrong"},
        r"refuse the login \(.*[Aa]uthentication failed.*\): check .*sasl\.password",
    ),
    "a user that is not there": ({"sasl.username": "nobody"}, "refuse the login"),
    "a plain client": (
        {"security.protocol": "PLAINTEXT", **WITHOUT_LOGIN},
        r"hang up: set security\.protocol",
    ),
    "no login": (
        {"security.protocol": "SSL", **WITHOUT_LOGIN},
        r"hang up: set security\.protocol",
    ),
    "an unknown authority": (
        {"ssl.ca.location": None},
        r"no TLS connection .*certificate verify failed.*ssl\.ca\.location",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_said(name: str, settings: Settings, certificates: Certificates) -> None:
    change, message = WRONG[name]
    wrong = settings | change
    if wrong["ssl.ca.location"] is None:
        wrong["ssl.ca.location"] = str(certificates.other_authority)
    wrong = {setting: value for setting, value in wrong.items() if value is not None}
    producer = PartitionedProducer(wrong, {"clicks": "pkg"}, metadata_timeout_s=3)
    with pytest.raises(InputError, match=message):
        producer.produce("clicks", b"x", b"key")
    with pytest.raises(InputError, match=message):
        pipelines.run(
            pipelines.Topic(
                name="clicks",
                bootstrap=wrong["bootstrap.servers"],
                time="ts",
                kafka=without_servers(wrong),
            ),
            windows=pipelines.Windows(SIZE_MS, SLIDE_MS),
            sink="memory",
        )


def test_the_command_says_it_in_one_sentence(
    cluster: KafkaCluster, settings: Settings, tmp_path: Path
) -> None:
    file = settings_file(tmp_path / "kafka.properties", settings | {"sasl.password": "wrong"})
    program = Program(
        "run",
        "wordcount",
        "--bootstrap",
        cluster.bootstrap,
        "--kafka-config",
        file,
        "--runs-dir",
        tmp_path / "runs",
    )
    code, out, err = program.finish()
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert "refuse the login" in err
    assert not (tmp_path / "runs").exists()


def test_a_topic_that_is_denied(cluster: KafkaCluster, settings: Settings) -> None:
    producer = PartitionedProducer(settings, {FORBIDDEN: "pkg"})
    with pytest.raises(RunError, match=r'describe topic "forbidden" .*uthorization.*permission'):
        producer.produce(FORBIDDEN, b"x", b"key")
    with pytest.raises(RunError, match=r'describe topic "forbidden" .*uthorization.*permission'):
        pipelines.run(
            pipelines.Topic(
                name=FORBIDDEN,
                bootstrap=cluster.bootstrap,
                time="ts",
                kafka=without_servers(settings),
            ),
            windows=pipelines.Windows(SIZE_MS, SLIDE_MS),
            sink="memory",
        )
    # The neighbours are none the worse.
    keys = [f"{key}" for key in np.arange(100) % 7]
    ensure_topic(settings, "allowed", 2)
    with PartitionedProducer(settings, {"allowed": "pkg"}) as allowed:
        allowed.produce_batch("allowed", keys, keys)
    assert len(read_topic(settings, "allowed")) == 100


DENIED_SINKS = {
    FORBIDDEN: r'sink\'s Kafka: .*describe topic "forbidden" .*uthorization.*permission',
    READ_ONLY: r'not let you write to topic "read-only": allow your user to Write it',
    NOT_MADE: r'create topic "not-made" .*uthorization.*: allow your user to Create it',
}


@pytest.mark.parametrize("denied", DENIED_SINKS)
def test_a_sink_whose_topic_is_denied(
    denied: str, cluster: KafkaCluster, settings: Settings, spark: SparkSession, tmp_path: Path
) -> None:
    """It is said before anything of the query is started."""
    ensure_topic(settings, "source", 1)
    with pytest.raises((InputError, RunError), match=DENIED_SINKS[denied]):
        pipelines.run(
            pipelines.Topic(
                name="source",
                bootstrap=cluster.bootstrap,
                time="ts",
                kafka=without_servers(settings),
            ),
            windows=pipelines.Windows(SIZE_MS, SLIDE_MS),
            sink=f"kafka:{denied}",
            checkpoint=tmp_path / "checkpoint",
            spark=spark,
        )
    assert not spark.streams.active
    assert not (tmp_path / "checkpoint").exists()
    # A result that comes all the same (the rule was made later) is refused in the same words.
    if denied == READ_ONLY:
        producer = PartitionedProducer(settings, {denied: "key_hash"})
        producer.produce(denied, b"x", b"key")
        with pytest.raises(RunError, match=r"uthorization failed"):
            producer.close()
    held = read_topic(cluster.admin_settings, denied) if denied != NOT_MADE else []
    assert held == []
