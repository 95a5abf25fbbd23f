"""Sinks by name, as the command line and `pipelines.run` take them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from partitioners.errors import InputError
from pipelines.sinks.base import Sink
from pipelines.sinks.console import ConsoleSink
from pipelines.sinks.kafka import KafkaSink
from pipelines.sinks.memory import MemorySink
from pipelines.sinks.parquet import ParquetSink
from pipelines.sinks.postgres import PostgresSink


def named_sink(
    name: str, *, query: str, bootstrap: str, kafka: Mapping[str, Any] | None = None
) -> Sink:
    """A sink by its name.

    Args:
        name: "console", "memory", "kafka:TOPIC", "postgresql://...#TABLE", or a folder.
        query: Names the table where none is said.
        bootstrap: Servers of a topic.
        kafka: Settings of the client of a topic.

    Raises:
        InputError: It is none of these.

    Example:
        >>> named_sink("postgresql://me@db/sales#hourly", query="q", bootstrap="").table
        'hourly'
    """
    if name == "console":
        return ConsoleSink()
    if name == "memory":
        return MemorySink()
    scheme, colon, rest = name.partition(":")
    if scheme == "kafka" and colon:
        if not rest:
            raise InputError('a Kafka sink needs a topic: say "kafka:TOPIC"')
        return KafkaSink(rest, bootstrap, dict(kafka or {}))
    if scheme in ("postgresql", "postgres"):
        conninfo, _, table = name.partition("#")
        return PostgresSink(conninfo, table or re.sub(r"\W", "_", query))
    if "://" in name:
        raise InputError(
            f'"{name}" is no sink: say console, memory, kafka:TOPIC, postgresql://HOST/DB#TABLE, '
            "or a folder"
        )
    return ParquetSink(name)


def check_run_sink(name: str) -> None:
    """Refuse a sink that a run cannot have beside its folder of results.

    Raises:
        InputError: It is in memory or a folder, or has a password, which would be written down.
    """
    sink = named_sink(name, query="query", bootstrap="")
    if isinstance(sink, MemorySink | ParquetSink):
        raise InputError(
            f'--sink "{name}" is none for a run: say console, kafka:TOPIC or '
            "postgresql://HOST/DB#TABLE; the folder is --results"
        )
    if "://" in name and (urlsplit(name).password or "password=" in name):
        raise InputError(
            "a password in --sink would be kept in the run's folder: leave it out and give it in "
            "PGPASSWORD or ~/.pgpass"
        )
