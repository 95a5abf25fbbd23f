"""`keyspread demo`: the main job on the data that ships, with and without splitting keys."""

from __future__ import annotations

import json

import typer

from pipelines.commands.errors import EXIT_FAILED, explains_errors
from pipelines.commands.options import DEFAULT_MASTER, DEFAULT_RUNS_DIR, AsJson, Master, RunsDir


@explains_errors
def demo(
    runs_dir: RunsDir = DEFAULT_RUNS_DIR,
    master: Master = DEFAULT_MASTER,
    as_json: AsJson = False,
) -> None:
    """Run taxi routes and word counts, each hashed and split, and compare."""
    from pipelines.consoles import stderr_console
    from pipelines.demo import run_demo

    cells = run_demo(runs_dir, master, console=stderr_console(), quiet=as_json)
    if as_json:
        typer.echo(json.dumps({"cells": [json.loads(cell.to_json()) for cell in cells]}))
    if not all(cell.exact for cell in cells):
        raise typer.Exit(EXIT_FAILED)
