"""Partitioners that spread records with hot keys over partitions. No Spark, no Airflow, no broker.

    from partitioners import create
    partitioner = create("pkg", 8)
    partitions = partitioner.partition_batch(keys)  # bytes, text or Arrow, one int32 per key

Map: ``base`` the protocol; ``registry`` the names; ``hashing`` the only place that hashes; one file
per algorithm; ``sketches`` and ``panes`` shared state; ``metrics`` what a routing cost; ``streams``
seeded streams for benchmarks and tests, ``stream_names`` the same by name; ``simulation`` many
sources and workers by the papers' cost models; ``kafka`` the producer and the adapters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from partitioners.base import ChoicePartitioner, Partitioner, Traits
    from partitioners.registry import PARTITIONERS, create

__all__ = ["PARTITIONERS", "ChoicePartitioner", "Partitioner", "Traits", "create"]


def __getattr__(name: str) -> Any:
    """Import the compiled part at its first use: it takes 2 s that Spark's workers need not pay."""
    if name in ("ChoicePartitioner", "Partitioner", "Traits"):
        from partitioners import base

        return getattr(base, name)
    if name in ("PARTITIONERS", "create"):
        from partitioners import registry

        return getattr(registry, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
