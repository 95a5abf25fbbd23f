"""`keyspread advise`: looks at a stream and says which partitioner suits it, and why."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Annotated

import typer

from pipelines.commands.errors import explains_errors
from pipelines.commands.options import (
    AsJson,
    Bootstrap,
    KafkaFile,
    KafkaSettings,
    Redact,
    kafka_settings,
)


@explains_errors
def advise(
    topic: Annotated[str | None, typer.Option(help="A live topic; read, not joined.")] = None,
    bootstrap: Bootstrap = None,
    inputs: Annotated[
        list[str] | None,
        typer.Option("--input", help="A file with lines as `keyspread produce` takes them."),
    ] = None,
    keys: Annotated[str | None, typer.Option(help="A file with a key a line; - is stdin.")] = None,
    partitions: Annotated[
        int | None, typer.Option(help="To spread over; left out: the topic's, else 8.")
    ] = None,
    producers: Annotated[int, typer.Option(help="Producers that each know their own part.")] = 1,
    window_ms: Annotated[int, typer.Option(help="Window that keys are aggregated over.")] = 60_000,
    merge_cost: Annotated[
        float, typer.Option(help="Cost of merging a partial result, in records aggregated.")
    ] = 1.0,
    keep_order: Annotated[
        bool, typer.Option("--keep-order", help="The records of a key must stay in order.")
    ] = False,
    records: Annotated[int, typer.Option(help="Records to look at, at most.")] = 200_000,
    seconds: Annotated[float, typer.Option(help="Time to read for, at most.")] = 10.0,
    delimiter: Annotated[str, typer.Option(help="Between columns of --input.")] = "\\t",
    key_column: Annotated[
        int | None, typer.Option(help="Of --input, from 1; left out: before the delimiter.")
    ] = None,
    time_column: Annotated[int | None, typer.Option(help="Of --input: event time in ms.")] = None,
    encoding: Annotated[str, typer.Option(help="Of --input; auto: UTF-8, else cp1252.")] = "auto",
    kafka: KafkaSettings = None,
    kafka_config: KafkaFile = None,
    redact: Redact = False,
    as_json: AsJson = False,
) -> None:
    """Say which partitioner suits a stream, from a sample of it, and why."""
    from partitioners.errors import InputError
    from pipelines.advise.advise import make_advice
    from pipelines.advise.compare import Plan
    from pipelines.advise.replay_order import resolution_ms
    from pipelines.advise.sample import Limits, sample_keys, sample_lines
    from pipelines.advise.show import as_json as to_json
    from pipelines.advise.show import layout
    from pipelines.advise.topic import sample_topic
    from pipelines.consoles import stdout_console
    from pipelines.interrupt import raise_on_stop_signals
    from pipelines.line_producer import LineSource
    from pipelines.topics import client_settings, find_servers

    raise_on_stop_signals()
    if sum(each is not None and each != [] for each in (topic, inputs, keys)) != 1:
        raise InputError("give one of --topic, --input and --keys: what shall be looked at?")
    limits = Limits(records, seconds)
    plan = Plan(
        num_partitions=8 if partitions is None else partitions,
        num_producers=producers,
        window_ms=window_ms,
        merge_cost=merge_cost,
    )
    if topic is not None:
        bootstrap = find_servers(bootstrap)
        settings = client_settings(bootstrap, kafka_settings(kafka_config, kafka))
        sample = sample_topic(settings, topic, limits, resolution_ms(window_ms))
    elif keys is not None:
        sample = sample_keys(keys, limits)
    else:
        source = LineSource(
            inputs=tuple(inputs or ()),
            encoding=encoding,
            delimiter=delimiter.replace("\\t", "\t"),
            key_column=key_column,
            time_column=time_column,
        )
        sample = sample_lines(source, limits)
    if partitions is None and sample.records_per_partition is not None:
        plan = replace(plan, num_partitions=len(sample.records_per_partition))
    advice = make_advice(
        sample, plan, bootstrap=bootstrap, keeps_order=keep_order, redact=redact, quiet=as_json
    )
    if as_json:
        typer.echo(json.dumps(to_json(advice)))
    else:
        stdout_console().print(layout(advice))
