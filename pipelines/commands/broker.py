"""`keyspread broker`: a Kafka broker that stays between commands."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pipelines.commands.errors import EXIT_FAILED, explains_errors
from pipelines.commands.options import AsJson, without_dots

if TYPE_CHECKING:
    from pipelines.broker import BrokerStatus

broker = typer.Typer(help="Start, stop or look at a one-node Kafka broker.", no_args_is_help=True)

Data = Annotated[
    Path | None,
    typer.Option("--data", help="Its folder; left out: in the cache.", callback=without_dots),
]


@broker.command()
@explains_errors
def start(
    port: Annotated[int, typer.Option(help="Port on 127.0.0.1; 0: a free one.")] = 9092,
    data: Data = None,
    heap_mb: Annotated[int, typer.Option(help="Java heap.")] = 768,
    as_json: AsJson = False,
) -> None:
    """Start it; it runs until `keyspread broker stop`."""
    from pipelines.broker import start_detached
    from pipelines.interrupt import Interrupted, raise_on_stop_signals

    raise_on_stop_signals()
    try:
        status = start_detached(data, port, heap_mb)
    except Interrupted:
        _stop_half_started(data)
        raise
    _print(status, as_json)


def _stop_half_started(data: Path | None) -> None:
    from pipelines.broker import stop_detached

    stop_detached(data)


@broker.command()
@explains_errors
def stop(data: Data = None, as_json: AsJson = False) -> None:
    """Stop it; its topics stay."""
    from pipelines.broker import stop_detached

    stopped = stop_detached(data)
    if as_json:
        typer.echo(json.dumps({"stopped": stopped}))
    else:
        typer.echo("the broker is stopped" if stopped else "no broker was running")


@broker.command()
@explains_errors
def status(data: Data = None, as_json: AsJson = False) -> None:
    """Say whether it runs; exit code 1 if not."""
    from pipelines.broker import broker_status

    found = broker_status(data)
    _print(found, as_json)
    if not found.running:
        raise typer.Exit(EXIT_FAILED)


def _print(status: BrokerStatus, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(asdict(status), default=str))
    elif status.running:
        typer.echo(
            f"a broker runs at {status.bootstrap} (process {status.pid}, data in {status.data_dir})"
        )
    else:
        typer.echo(f"no broker runs on {status.data_dir}: `keyspread broker start` starts one")
