"""The last stage: rows of results to where they are wanted. Each sink says what it promises.

============= ============================================================================
base          `Sink`, `Shape`, `Part`: what a sink is
writer        `ResultWriter`: runs to rows, a row group at a time
parquet       `ParquetSink`: a folder of files; exactly once
kafka         `KafkaSink`: one message per window and key; exact by key
postgres      `PostgresSink`: upsert by window and key; exact
console       `ConsoleSink`: the last windows, to look at
memory        `MemorySink`: in this process, for a notebook
named         `named_sink`: a sink from its name on the command line
============= ============================================================================
"""

from pipelines.sinks.base import Part, Shape, Sink
from pipelines.sinks.console import ConsoleSink
from pipelines.sinks.kafka import KafkaSink
from pipelines.sinks.memory import MemorySink
from pipelines.sinks.named import named_sink
from pipelines.sinks.parquet import ParquetSink
from pipelines.sinks.postgres import PostgresSink
from pipelines.sinks.writer import ResultWriter

__all__ = [
    "ConsoleSink",
    "KafkaSink",
    "MemorySink",
    "ParquetSink",
    "Part",
    "PostgresSink",
    "ResultWriter",
    "Shape",
    "Sink",
    "named_sink",
]
