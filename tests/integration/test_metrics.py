"""Metrics of a real producer and a real query: the figures are right, and are those shown."""

from __future__ import annotations

import json
import re
import urllib.request
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample
from pyspark.sql import SparkSession

import pipelines
from partitioners.kafka import PartitionedProducer, ProducerCollector
from pipelines.metrics import MetricsServer
from tests.conftest import TopicFactory
from tests.dashboards import BOARDS

pytestmark = [pytest.mark.broker, pytest.mark.spark]

INFRA = Path(__file__).parents[2] / "infra"
NUM_RECORDS = 20_000


def samples(text: str) -> dict[str, list[Sample]]:
    found: dict[str, list[Sample]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, []).append(sample)
    return found


def by_label(found: list[Sample], label: str) -> dict[str, float]:
    return {sample.labels[label]: sample.value for sample in found}


def read(port: int) -> dict[str, list[Sample]]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        return samples(answer.read().decode())


def test_producer_and_query_show_what_they_did(
    spark: SparkSession,
    bootstrap: str,
    client_config: dict[str, Any],
    make_topic: TopicFactory,
    tmp_path: Path,
) -> None:
    topic = make_topic(3)
    settings = {**client_config, "statistics.interval.ms": 100}
    producer = PartitionedProducer(settings, {topic: "pkg"})
    registry = CollectorRegistry()
    registry.register(ProducerCollector(producer, labels={"app": "shop"}, show_keys=True))
    sent: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    keys = ["hot" if i % 2 else f"key-{i % 500}" for i in range(NUM_RECORDS)]
    values = [json.dumps({"ts": i * 10, "user": key}) for i, key in enumerate(keys)]
    half = NUM_RECORDS // 2
    for key, value in zip(keys[:half], values[:half], strict=True):
        producer.produce(topic, value, key)
    partitions = producer.produce_batch(topic, keys[half:], values[half:])
    assert len(partitions) == half
    assert producer.flush(60) == 0
    for partition, count in enumerate(producer.counts(topic).produced.tolist()):
        sent[str(partition)] = count
    # librdkafka tells what it sent at its next interval.
    shown: dict[str, list[Sample]] = {}
    for _ in range(600):
        producer.poll(0.1)
        shown = samples(generate_latest(registry).decode())
        sizes = Counter(by_label(shown.get("keyspread_producer_sent_bytes_total", []), "partition"))
        if sum(sizes.values()) >= sum(map(len, values)) + sum(map(len, keys)):
            break
    assert sum(sizes.values()) == sum(map(len, values)) + sum(map(len, keys))
    assert by_label(shown["keyspread_producer_records_total"], "partition") == sent
    assert {s.labels["app"] for s in shown["keyspread_producer_records_total"]} == {"shop"}
    assert set(
        by_label(shown["keyspread_producer_failed_records_total"], "partition").values()
    ) == {0.0}
    assert by_label(shown["keyspread_producer_partitions"], "partitioner") == {"pkg": 3.0}
    hot = shown["keyspread_producer_hot_key_ratio"][0]
    assert (hot.labels["rank"], hot.labels["key"]) == ("1", "hot")
    assert 0.25 < hot.value < 0.75  # some 80 samples of a half
    assert shown["keyspread_producer_queue_records"][0].value == 0
    uneven = max(sent.values()) / (NUM_RECORDS / 3) - 1
    assert shown["keyspread_producer_imbalance"][0].value == pytest.approx(uneven)
    producer.close()

    with MetricsServer(0) as taken:
        port = taken.port
    query = pipelines.run(
        pipelines.Topic(name=topic, bootstrap=bootstrap, time="ts"),
        key="user",
        windows=pipelines.Windows(5_000, 5_000),
        sink=tmp_path / "results",
        spark=spark,
        metrics_port=port,
    )
    try:
        query.process_available()
        queried = read(port)
        for _ in range(600):  # Spark tells of a batch after its end
            if "keyspread_lag_records" in queried:
                break
            query.await_end(0.1)
            queried = read(port)
        summary = query.summary()
    finally:
        query.stop()
    with pytest.raises(OSError, match="refused"):  # the server ends with its query
        read(port)
    assert by_label(queried["keyspread_records_total"], "partition") == sent
    assert queried["keyspread_on_time_records_total"][0].value == summary.on_time
    assert queried["keyspread_late_records_total"][0].value == NUM_RECORDS - summary.on_time
    assert set(by_label(queried["keyspread_lag_records"], "partition")) == {"0", "1", "2"}
    combined = by_label(queried["keyspread_combine_seconds_total"], "partition")
    assert set(combined) == {"0", "1", "2"}
    assert min(combined.values()) > 0
    assert set(by_label(queried["keyspread_reduce_seconds_total"], "shard")) == {"0", "1"}
    assert queried["keyspread_query_active"][0].value == 1
    assert queried["keyspread_batch_seconds_count"][0].value == len(summary.batch_seconds) > 0
    buckets = by_label(queried["keyspread_window_latency_seconds_bucket"], "le")
    # The event times are of 1970, so no window was out within ten minutes of its end.
    assert buckets["600.0"] == 0
    assert buckets["+Inf"] == summary.windows > 0
    assert {s.labels["topic"] for s in queried["keyspread_state_bytes"]} == {topic}

    # What dashboards and alerts ask for is there, under these names.
    there = set(shown) | set(queried)
    brokers = {
        "keyspread_producer_request_errors_total",
        "keyspread_producer_request_retries_total",
    }
    assert brokers <= there
    rules = [INFRA / "prometheus" / name for name in ("alerts.yml", "opentelemetry.yml")]
    files = [*BOARDS, *rules]
    assert len(files) == 4
    for file in files:
        asked = set(re.findall(r"(?<!:)\bkeyspread_\w+", file.read_text(encoding="utf-8")))
        assert asked - there == set(), file.name
