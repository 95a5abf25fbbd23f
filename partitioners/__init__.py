"""Partitioners that spread records with hot keys over partitions. No Spark, no Airflow, no broker.

    from partitioners import create
    partitioner = create("pkg", 8)
    partitions = partitioner.partition_batch(keys)  # bytes, text or Arrow, one int32 per key

Map: ``base`` the protocol; ``registry`` the names; ``hashing`` the only place that hashes; one file
per algorithm; ``sketches`` and ``panes`` shared state; ``metrics`` what a routing cost; ``streams``
seeded streams for benchmarks and tests; ``kafka`` the producer and the adapters.
"""

from partitioners.base import ChoicePartitioner, Partitioner, Traits
from partitioners.registry import PARTITIONERS, create

__all__ = ["PARTITIONERS", "ChoicePartitioner", "Partitioner", "Traits", "create"]
