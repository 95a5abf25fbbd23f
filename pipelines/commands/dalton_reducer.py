"""`keyspread dalton-reducer`: the service that lets several `dalton` producers learn together."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from pipelines.commands.errors import explains_errors
from pipelines.commands.options import KafkaFile, KafkaSettings, kafka_settings

if TYPE_CHECKING:
    from pipelines.dalton_service import RoundStatus


@explains_errors
def dalton_reducer(
    topic: Annotated[
        str | None, typer.Option(help="The topic the producers write to: says its partitions.")
    ] = None,
    group: Annotated[
        str | None, typer.Option(help="Producers that learn together; left out: the topic's name.")
    ] = None,
    partitions: Annotated[int | None, typer.Option(help="Partitions, without --topic.")] = None,
    bootstrap: Annotated[
        str | None,
        typer.Option(help="Kafka servers; left out: the broker of `keyspread broker start`."),
    ] = None,
    interval_ms: Annotated[int, typer.Option(help="Event time between two meetings.")] = 1_000,
    max_interval_ms: Annotated[int, typer.Option(help="It grows no further.")] = 600_000,
    lease_ms: Annotated[
        int, typer.Option(help="A producer belongs to the group so long after its last message.")
    ] = 30_000,
    wait_ms: Annotated[
        int, typer.Option(help="A round waits so long for the others after its first message.")
    ] = 1_000,
    kafka: KafkaSettings = None,
    kafka_config: KafkaFile = None,
    as_json: Annotated[bool, typer.Option("--json", help="A JSON object per line.")] = False,
) -> None:
    """Average what a group of producers learned, round by round, until Ctrl-C."""
    from partitioners.dalton import ReducerConfig
    from partitioners.errors import InputError
    from pipelines.dalton_service import serve_group
    from pipelines.interrupt import raise_on_stop_signals

    name = group or topic
    if name is None:
        raise InputError("give --topic, or --group and --partitions")
    config = ReducerConfig(
        interval_ms=interval_ms, max_interval_ms=max_interval_ms, lease_ms=lease_ms, wait_ms=wait_ms
    )
    raise_on_stop_signals()
    rounds = serve_group(
        name,
        topic=topic,
        num_partitions=partitions,
        bootstrap=bootstrap,
        kafka=kafka_settings(kafka_config, kafka),
        config=config,
        on_ready=lambda count: typer.echo(
            f'serving group "{name}", {count} partitions; Ctrl-C ends it', err=True
        ),
        on_round=_print_json if as_json else _print_line,
        on_warning=lambda text: typer.echo(f"warning: {text}", err=True),
    )
    typer.echo(f"{rounds:,} rounds; the producers go on alone until it is started again", err=True)


def _print_json(status: RoundStatus) -> None:
    typer.echo(json.dumps(asdict(status)))


def _print_line(status: RoundStatus) -> None:
    typer.echo(
        f"round {status.round:,}: {status.agents} producers, {status.load:,.0f} records, "
        f"{status.hot_keys} hot keys, interval {status.interval_ms:,} ms"
    )
