"""What a run shows to Prometheus: its producer and its query, under the run's own labels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client.registry import Collector

from partitioners.kafka import PartitionedProducer, ProducerCollector
from partitioners.stream_names import Named
from pipelines.benchmark.latency import WindowSchedule
from pipelines.benchmark.prepare import RunConfig
from pipelines.metrics import QueryCollector

if TYPE_CHECKING:
    from pipelines.engine import RunningQuery


def run_collectors(
    config: RunConfig,
    producer: PartitionedProducer,
    query: RunningQuery,
    schedule: WindowSchedule,
) -> list[Collector]:
    """Give what shows a run.

    Args:
        config: The run; its id, workload and partitioner become labels.
        producer: Sends its records; `observe` should have been called before the first.
        query: Computes its results.
        schedule: When the last record of each window was due.
    """
    labels = {
        "run": config.run_id,
        "workload": config.workload,
        "partitioner": str(Named(config.partitioner, tuple(config.options.items()))),
    }
    return [
        ProducerCollector(producer, labels=labels),
        QueryCollector(
            query,
            labels={**labels, "topic": config.topic},
            window_ms=config.window_ms,
            due_ms=schedule.due_ms,
        ),
    ]
