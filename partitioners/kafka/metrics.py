"""A producer's figures for Prometheus, read when they are asked for.

Everything comes from counters that the producer keeps anyway, from librdkafka's own statistics, and
from a sample of the keys: no record costs more for it. `keyspread bench metrics` measures that.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from partitioners.kafka.key_sample import KeySample
from partitioners.kafka.producer import PartitionedProducer
from partitioners.metrics import imbalance

NUM_HOT_KEYS = 5


class ProducerCollector(Collector):
    """Shows a producer's load and balance; register it with a registry of prometheus-client.

    Make it before the first record, so that librdkafka counts bytes from the beginning.

    Args:
        producer: The producer.
        labels: Labels with a fixed value, for all figures.
        show_keys: Name hot keys; else they are hashed, since who may read metrics may not read
            records.

    Example:
        ```python
        producer = PartitionedProducer({"bootstrap.servers": "b:9092"}, {"clicks": "hot_fill"})
        prometheus_client.REGISTRY.register(ProducerCollector(producer))
        prometheus_client.start_http_server(9100)
        ```
    """

    def __init__(
        self,
        producer: PartitionedProducer,
        *,
        labels: Mapping[str, str] | None = None,
        show_keys: bool = False,
    ) -> None:
        self._producer = producer
        self._names = tuple(labels or {})
        self._values = tuple((labels or {}).values())
        self._show_keys = show_keys
        producer.observe()

    def collect(self) -> Iterator[Metric]:
        """Give the figures of now."""
        yield from self._counts()
        yield from self._keys()
        yield from self._client()

    def _counter(self, name: str, text: str, *labels: str) -> CounterMetricFamily:
        return CounterMetricFamily(name, text, labels=(*self._names, *labels))

    def _gauge(self, name: str, text: str, *labels: str) -> GaugeMetricFamily:
        return GaugeMetricFamily(name, text, labels=(*self._names, *labels))

    def _counts(self) -> Iterator[Metric]:
        records = self._counter(
            "keyspread_producer_records", "Records the client took.", "topic", "partition"
        )
        failed = self._counter(
            "keyspread_producer_failed_records",
            "Records of these that will not arrive.",
            "topic",
            "partition",
        )
        uneven = self._gauge(
            "keyspread_producer_imbalance",
            "Records of the fullest partition over the mean, minus 1, since the start.",
            "topic",
        )
        # A run says itself which partitioner it is about.
        named = "partitioner" in self._names
        info = self._gauge(
            "keyspread_producer_partitions",
            "Partitions, by topic and partitioner.",
            *(("topic",) if named else ("topic", "partitioner")),
        )
        for topic, name, counts in self._producer.observed_counts():
            here = (*self._values, topic)
            for partition, count in enumerate(counts.produced.tolist()):
                records.add_metric((*here, str(partition)), count)
            for partition, count in enumerate(counts.failed.tolist()):
                failed.add_metric((*here, str(partition)), count)
            uneven.add_metric(here, imbalance(counts.produced.astype(np.float64)))
            info.add_metric(here if named else (*here, name), len(counts.produced))
        yield from (records, failed, uneven, info)

    def _keys(self) -> Iterator[Metric]:
        shares = self._gauge(
            "keyspread_producer_hot_key_ratio",
            "Share of the records of each of the hottest keys, by a sample of the last ones.",
            "topic",
            "rank",
            "key",
        )
        spread = self._gauge(
            "keyspread_producer_hot_key_partitions",
            "Partitions that each of the hottest keys was seen on.",
            "topic",
            "rank",
            "key",
        )
        keys = self._gauge("keyspread_producer_sampled_keys", "Keys in the sample.", "topic")
        split = self._gauge(
            "keyspread_producer_split_keys",
            "Of the sampled keys, those seen on more than one partition.",
            "topic",
        )
        for topic, sample in self._producer.samples.items():
            here = (*self._values, topic)
            for rank, hot in enumerate(sample.hottest(NUM_HOT_KEYS), 1):
                where = (*here, str(rank), self._key(hot.key))
                shares.add_metric(where, hot.share)
                spread.add_metric(where, hot.num_partitions)
            keys.add_metric(here, sample.num_keys)
            split.add_metric(here, sample.num_split)
        yield from (shares, spread, keys, split)

    def _key(self, key: bytes | str) -> str:
        content = key.encode() if isinstance(key, str) else key
        if self._show_keys:
            return content.decode("utf-8", "backslashreplace")[:64]
        return "sha256:" + hashlib.sha256(content).hexdigest()[:12]

    def _client(self) -> Iterator[Metric]:
        queue = self._gauge(
            "keyspread_producer_queue_records", "Records that wait, are queued or on their way."
        )
        queue.add_metric(self._values, len(self._producer))
        limit = self._gauge("keyspread_producer_queue_limit_records", "Room in the client's queue.")
        limit.add_metric(self._values, self._producer.queue_records)
        sent = self._counter(
            "keyspread_producer_sent_bytes",
            "Bytes of keys and values sent, as librdkafka counts them.",
            "topic",
            "partition",
        )
        retries = self._counter(
            "keyspread_producer_request_retries", "Requests to brokers sent again.", "broker"
        )
        errors = self._counter(
            "keyspread_producer_request_errors", "Requests to brokers that failed.", "broker"
        )
        text = self._producer.statistics
        statistics: dict[str, Any] = json.loads(text) if text else {}
        for topic, about in statistics.get("topics", {}).items():
            for partition, figures in about.get("partitions", {}).items():
                if int(partition) >= 0:  # -1: records that have no partition yet
                    sent.add_metric((*self._values, topic, partition), figures.get("txbytes", 0))
        for about in statistics.get("brokers", {}).values():
            if about.get("nodeid", -1) >= 0:
                here = (*self._values, str(about["nodeid"]))
                retries.add_metric(here, about.get("txretries", 0))
                errors.add_metric(here, about.get("txerrs", 0))
        yield from (queue, limit, sent, retries, errors)


__all__ = ["KeySample", "ProducerCollector"]
