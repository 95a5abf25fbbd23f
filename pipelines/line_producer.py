"""Lines of text as keyed records into a topic, through a partitioner."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka.admin import AdminClient
from rich.console import Console
from rich.progress import Progress, TextColumn

from partitioners.errors import InputError
from partitioners.kafka import PartitionedProducer
from partitioners.kafka.settings import admin_settings
from partitioners.kafka.topics import count_partitions
from partitioners.metrics import imbalance
from partitioners.registry import create
from pipelines.dead_letters import DeadLetters
from pipelines.input_files import STDIN
from pipelines.text_input import LineChunk, Reject, RejectedLine, check_input, read_chunks
from pipelines.topics import (
    ANSWER_SECONDS,
    client_settings,
    find_servers,
    make_topic,
    require_answer,
)

_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")  # what the workloads take, and fits 64 bits


class KeyedRows(NamedTuple):
    """Records out of a chunk of lines."""

    keys: list[str]
    values: list[str]
    timestamps_ms: list[int] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LineSource:
    """What is read, and where in a line the key stands.

    Attributes:
        inputs: Paths; `-` is standard input.
        encoding: As in `text_input`.
        delimiter: Between columns.
        key_column: Counted from 1: the key, with the whole line as value. None: a line is key,
            delimiter, value.
        time_column: Event time in milliseconds, or None.
    """

    inputs: tuple[str, ...]
    encoding: str
    delimiter: str
    key_column: int | None
    time_column: int | None

    def check(self) -> None:
        """Refuse what can be seen to be wrong before anything is sent.

        Raises:
            InputError: An option is out of range, or a file is no good.
        """
        if not self.delimiter:
            raise InputError('--delimiter is empty: give one, such as "," or "\\t"')
        for name, column in (("key", self.key_column), ("time", self.time_column)):
            if column is not None and column < 1:
                raise InputError(f"--{name}-column must be 1 or more, not {column}")
        for path in self.inputs:
            if path != STDIN:
                check_input(path, self.encoding)

    def rows(self, reject: Reject) -> Iterator[KeyedRows]:
        """Yield the records.

        Args:
            reject: Called with every line that is none.
        """
        for path in self.inputs:
            for chunk in read_chunks(path, reject, encoding=self.encoding):
                yield self._split(chunk, reject)

    def _split(self, chunk: LineChunk, reject: Reject) -> KeyedRows:
        keys: list[str] = []
        values: list[str] = []
        times: list[int] = []
        for number, line in enumerate(chunk.lines, chunk.first_line_number):
            columns = line.split(self.delimiter)
            try:
                if self.key_column is None:
                    key, _, value = line.partition(self.delimiter)
                    if len(columns) < 2:
                        raise ValueError("no delimiter between key and value")
                else:
                    key, value = _column(columns, self.key_column), line
                if self.time_column is not None:
                    times.append(_milliseconds(_column(columns, self.time_column)))
            except ValueError as error:
                reject(RejectedLine(chunk.path, number, str(error), line))
                continue
            keys.append(key)
            values.append(value)
        return KeyedRows(keys, values, times if self.time_column is not None else None)


def _column(columns: list[str], number: int) -> str:
    if number > len(columns):
        raise ValueError(f"{len(columns)} columns, so there is no column {number}")
    return columns[number - 1]


def _milliseconds(text: str) -> int:
    if not _INTEGER.fullmatch(text):
        raise ValueError("event time is no integer of at most 18 digits")
    return int(text)


def produce_lines(
    topic: str,
    source: LineSource,
    *,
    bootstrap: str | None,
    kafka: Mapping[str, Any],
    partitioner: tuple[str, Mapping[str, Any]],
    partitions: int | None,
    dead_letters: Path,
    allow_compacted: bool,
    console: Console,
) -> dict[str, Any]:
    """Send all lines, and see that they arrive.

    Args:
        topic: Where to.
        source: What.
        bootstrap: Servers; None: the broker that `keyspread broker start` started.
        kafka: librdkafka settings.
        partitioner: Name and options.
        partitions: What the topic must have, or is made with; None: what it has.
        dead_letters: Takes the lines that are no records.
        allow_compacted: Split keys on a compacted topic all the same.
        console: Where progress goes.

    Returns:
        Counts and rates.

    Raises:
        InputError: Something asked for is no good.
        RunError: Not everything was delivered.
    """
    source.check()
    for path in source.inputs:
        if path != STDIN and dead_letters.exists() and dead_letters.samefile(path):
            raise InputError(f"--dead-letters {dead_letters} is the input: name another file")
    create(partitioner[0], partitions or 1, **partitioner[1])
    settings = client_settings(find_servers(bootstrap), kafka)
    require_answer(settings)
    if partitions is not None:
        make_topic(settings, topic, partitions)
    elif count_partitions(AdminClient(admin_settings(settings)), topic, ANSWER_SECONDS) is None:
        raise InputError(
            f'there is no topic "{topic}": create it, or say --partitions 8 to have it made with 8'
        )
    started = time.monotonic()
    counter = TextColumn("{task.completed:,} records sent to " + topic)
    with (
        DeadLetters(dead_letters, keep=True) as dead,
        Progress(counter, console=console, disable=not console.is_terminal) as bar,
    ):
        task = bar.add_task("", total=None)
        with PartitionedProducer(
            settings, {topic: partitioner}, allow_compacted=allow_compacted
        ) as producer:
            for rows in source.rows(dead.add):
                producer.produce_batch(topic, rows.keys, rows.values, rows.timestamps_ms)
                bar.advance(task, len(rows.keys))
            if not producer.produced:
                raise InputError(
                    f"no record in the input: {dead.count:,} bad lines are in {dead_letters}; "
                    "check --delimiter and --key-column"
                )
    seconds = time.monotonic() - started
    counts = producer.counts(topic).produced
    return {
        "topic": topic,
        "partitioner": partitioner[0],
        "partitions": len(counts),
        "produced": producer.produced,
        "delivered": producer.delivered,
        "dead": dead.count,
        "records_per_partition": counts.tolist(),
        "imbalance": round(float(imbalance(counts)), 6),
        "seconds": round(seconds, 3),
        "delivered_per_s": round(producer.delivered / seconds, 1),
    }
