"""`keyspread produce`: a file or standard input into a topic, through a partitioner."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from pipelines.commands.errors import explains_errors
from pipelines.commands.options import (
    AsJson,
    KafkaFile,
    KafkaSettings,
    OnePartitioner,
    PartitionerOptions,
    kafka_settings,
    one_partitioner,
    without_dots,
)


@explains_errors
def produce(
    topic: Annotated[str, typer.Option(help="Where to.")],
    inputs: Annotated[
        list[str] | None,
        typer.Option("--input", help="Text or .gz; again for more; - or left out: stdin."),
    ] = None,
    bootstrap: Annotated[
        str | None,
        typer.Option(help="Kafka servers; left out: the broker of `keyspread broker start`."),
    ] = None,
    partitioner: OnePartitioner = "key_hash",
    partitions: Annotated[
        int | None, typer.Option(help="Make the topic with so many, or see that it has them.")
    ] = None,
    delimiter: Annotated[str, typer.Option(help="Between columns; \\t is a tab.")] = "\\t",
    key_column: Annotated[
        int | None,
        typer.Option(help="The key is this column, from 1, and the value the whole line."),
    ] = None,
    time_column: Annotated[
        int | None, typer.Option(help="Event time (ms) for partitioners with windows.")
    ] = None,
    encoding: Annotated[str, typer.Option(help="auto: UTF-8, else cp1252, line by line.")] = "auto",
    option: PartitionerOptions = None,
    dead_letters: Annotated[
        Path,
        typer.Option(help="The lines that do not parse are added to it.", callback=without_dots),
    ] = Path("dead-letters.jsonl"),
    allow_compacted: Annotated[bool, typer.Option("--allow-compacted")] = False,
    kafka: KafkaSettings = None,
    kafka_config: KafkaFile = None,
    as_json: AsJson = False,
) -> None:
    r"""Send lines `key TAB value` (or columns) to a topic, and see that all arrive."""
    from pipelines.consoles import stderr_console
    from pipelines.interrupt import raise_on_stop_signals
    from pipelines.line_producer import LineSource, produce_lines

    raise_on_stop_signals()
    result = produce_lines(
        topic,
        LineSource(
            inputs=tuple(inputs or ["-"]),
            encoding=encoding,
            delimiter=delimiter.replace("\\t", "\t"),
            key_column=key_column,
            time_column=time_column,
        ),
        bootstrap=bootstrap,
        kafka=kafka_settings(kafka_config, kafka),
        partitioner=one_partitioner(partitioner, option, "a topic is filled by one: name that"),
        partitions=partitions,
        dead_letters=dead_letters,
        allow_compacted=allow_compacted,
        console=stderr_console(quiet=as_json),
    )
    if as_json:
        typer.echo(json.dumps(result))
        return
    typer.echo(
        f"{result['produced']:,} produced, {result['delivered']:,} delivered to {topic} in "
        f"{result['seconds']:.1f} s ({result['delivered_per_s']:,.0f} records/s), "
        f"imbalance {result['imbalance']:.3f}"
    )
    if result["dead"]:
        typer.echo(f"{result['dead']:,} bad lines added to {dead_letters}")
