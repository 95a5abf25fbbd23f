"""`keyspread verify`: every workload with every partitioner, compared with the oracle."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from pipelines.commands.errors import EXIT_FAILED, explains_errors
from pipelines.commands.options import DEFAULT_MASTER, AsJson, Master

if TYPE_CHECKING:
    from rich.table import Table

    from pipelines.verification import Verdict

_ACROSS = 6  # partitioners beside each other in one table


@explains_errors
def verify(
    workloads: Annotated[
        list[str] | None,
        typer.Option(help="Names, by commas or again; left out: all that ship data."),
    ] = None,
    partitioners: Annotated[
        list[str] | None, typer.Option(help="Names, by commas or again; left out: all.")
    ] = None,
    master: Master = DEFAULT_MASTER,
    as_json: AsJson = False,
) -> None:
    """Run every workload on shipped data with every partitioner, and see that all are exact."""
    from partitioners.option_values import list_of
    from pipelines.consoles import stderr_console, stdout_console
    from pipelines.verification import run_verification

    verdicts = run_verification(
        list_of(workloads or ()),
        list_of(partitioners or ()),
        master,
        console=stderr_console(),
        quiet=as_json,
    )
    wrong = [verdict for verdict in verdicts if not verdict.exact]
    if as_json:
        typer.echo(json.dumps({"cells": [verdict.as_dict() for verdict in verdicts]}))
    else:
        for table in _tables(verdicts):
            stdout_console().print(table)
        for verdict in wrong:
            typer.echo(f"{verdict.row}, {verdict.partitioner}: {verdict.verdict}")
        typer.echo(f"{len(verdicts) - len(wrong)} of {len(verdicts)} runs are exact")
    if wrong:
        raise typer.Exit(EXIT_FAILED)


def _tables(verdicts: Sequence[Verdict]) -> list[Table]:
    from rich.table import Table

    rows = list(dict.fromkeys(verdict.row for verdict in verdicts))
    columns = list(dict.fromkeys(verdict.partitioner for verdict in verdicts))
    found = {(verdict.row, verdict.partitioner): verdict for verdict in verdicts}
    tables = []
    for low in range(0, len(columns), _ACROSS):
        part = columns[low : low + _ACROSS]
        table = Table(box=None, header_style="bold", padding=(0, 1, 0, 0))
        table.add_column("workload", no_wrap=True)
        for name in part:
            table.add_column(name, no_wrap=True)
        for row in rows:
            cells = (found[row, name] for name in part)
            table.add_row(row, *("exact" if cell.exact else "WRONG" for cell in cells))
        tables.append(table)
    return tables
