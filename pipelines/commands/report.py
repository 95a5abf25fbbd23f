"""`keyspread report`: the cells of a run as a table."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer

from pipelines.commands.errors import explains_errors
from pipelines.commands.options import DEFAULT_RUNS_DIR, AsJson, Redact, RunsDir


@explains_errors
def report(
    run: Annotated[str, typer.Argument(help="Id or folder of a run.")],
    runs_dir: RunsDir = DEFAULT_RUNS_DIR,
    redact: Redact = False,
    as_json: AsJson = False,
) -> None:
    """Show what a run measured."""
    from pipelines.benchmark.prepare import find_run
    from pipelines.benchmark.report import (
        cells_table,
        read_cells,
        redacted,
        run_summary,
        stdout_console,
    )

    cells = read_cells(find_run(runs_dir, run))
    if redact:
        cells = [redacted(cell) for cell in cells]
    if as_json:
        typer.echo(json.dumps({"run": run, "cells": [asdict(cell) for cell in cells]}))
        return
    console = stdout_console()
    for cell in cells:
        console.print(run_summary(cell))
    if len(cells) > 1:
        console.print(cells_table(cells))
