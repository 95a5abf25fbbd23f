"""The producer and the adapters: the only place that imports a Kafka client.

Each name is imported when it is first used, so an adapter needs only its own client:
`PartitionedProducer` and `ensure_topic` need confluent-kafka, `ProducerCollector` also
prometheus-client, `kafka_python_partitioner` needs kafka-python 3, `partition_callable`
(kafka-python 2, aiokafka) needs none, `with_partition` needs PySpark.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from partitioners.kafka.callable import PartitionCallable, partition_callable
    from partitioners.kafka.kafka_python import KafkaPythonPartitioner, kafka_python_partitioner
    from partitioners.kafka.metrics import ProducerCollector
    from partitioners.kafka.producer import PartitionedProducer
    from partitioners.kafka.spark_column import with_partition
    from partitioners.kafka.topics import ensure_topic

__all__ = [
    "KafkaPythonPartitioner",
    "PartitionCallable",
    "PartitionedProducer",
    "ProducerCollector",
    "ensure_topic",
    "kafka_python_partitioner",
    "partition_callable",
    "with_partition",
]

_HOME = {
    "KafkaPythonPartitioner": "kafka_python",
    "PartitionCallable": "callable",
    "PartitionedProducer": "producer",
    "ProducerCollector": "metrics",
    "ensure_topic": "topics",
    "kafka_python_partitioner": "kafka_python",
    "partition_callable": "callable",
    "with_partition": "spark_column",
}
_INSTALL = {
    "confluent_kafka": "keyspread[kafka]",
    "kafka": "kafka-python>=3",
    "prometheus_client": "prometheus-client",
    "pyspark": "keyspread[spark]",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in _INSTALL:
            raise
        raise ImportError(f"{name} needs {missing}: pip install '{_INSTALL[missing]}'") from error
