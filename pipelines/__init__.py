"""The Spark side: from a split Kafka topic to exact sliding windows.

=================== ==========================================================================
stage or part       modules
=================== ==========================================================================
your own topic      topic_run (`pipelines.run`), json_records, aggregates, laws, sinks
the engine          engine, stages: combine -> exchange by shard -> reduce -> sinks
window arithmetic   panes, ring, pending, top, aggregates: no Spark in them
what is computed    workloads: data, parse, query, oracle, a file each
parts it runs on    broker (embedded Kafka), session (Spark), java, jars
runs                benchmark: prepare, replay, collect, verify, report
the command line    cli, commands
=================== ==========================================================================
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pipelines.aggregates import (
        Aggregate,
        Count,
        Distinct,
        First,
        Last,
        Max,
        Mean,
        Median,
        Min,
        Quantile,
        Sum,
        Variance,
    )
    from pipelines.approximate import ApproxDistinct, ApproxQuantile, TopK
    from pipelines.explain import explain
    from pipelines.laws import check_laws
    from pipelines.lists import Collect
    from pipelines.panes import Windows
    from pipelines.sessions import Sessions
    from pipelines.sinks import ConsoleSink, KafkaSink, MemorySink, ParquetSink, PostgresSink
    from pipelines.topic_run import Topic, run

# Where a name is, if it is no aggregate.
_HOMES = {
    "ApproxDistinct": "approximate",
    "ApproxQuantile": "approximate",
    "Collect": "lists",
    "ConsoleSink": "sinks",
    "KafkaSink": "sinks",
    "MemorySink": "sinks",
    "ParquetSink": "sinks",
    "PostgresSink": "sinks",
    "Sessions": "sessions",
    "TopK": "approximate",
    "Topic": "topic_run",
    "Windows": "panes",
    "check_laws": "laws",
    "explain": "explain",
    "run": "topic_run",
}

__all__ = [
    "Aggregate",
    "ApproxDistinct",
    "ApproxQuantile",
    "Collect",
    "ConsoleSink",
    "Count",
    "Distinct",
    "First",
    "KafkaSink",
    "Last",
    "Max",
    "Mean",
    "Median",
    "MemorySink",
    "Min",
    "ParquetSink",
    "PostgresSink",
    "Quantile",
    "Sessions",
    "Sum",
    "TopK",
    "Topic",
    "Variance",
    "Windows",
    "check_laws",
    "explain",
    "run",
]


def __getattr__(name: str) -> Any:
    """Import a part at its first use: Spark's workers need few of them."""
    if name in __all__:
        return getattr(import_module(f"pipelines.{_HOMES.get(name, 'aggregates')}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
