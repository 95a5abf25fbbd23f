"""Metrics of a command, served while it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from pipelines.metrics import MetricsServer


def open_metrics(context: typer.Context, port: int | None, host: str) -> MetricsServer | None:
    """Serve metrics until the command ends, if a port was given.

    Args:
        context: Of the command.
        port: Where; 0: any free one; None: nowhere.
        host: Address to listen at.

    Raises:
        InputError: The port cannot be used.
    """
    from pipelines.metrics import serve_metrics

    server = context.with_resource(serve_metrics(port, host))
    if server is not None:
        typer.echo(f"metrics: http://{host}:{server.port}/metrics", err=True)
    return server
