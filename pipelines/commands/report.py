"""`keyspread report`: what a run or a grid measured, or what changed between two."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from pipelines.commands.errors import EXIT_FAILED, explains_errors
from pipelines.commands.options import DEFAULT_RUNS_DIR, AsJson, Redact, RunsDir


@explains_errors
def report(
    runs: Annotated[
        list[str],
        typer.Argument(metavar="RUN", help="Id or folder of a run or a grid; two with --compare."),
    ],
    compare: Annotated[
        bool, typer.Option("--compare", help="Show what changed from the first to the second.")
    ] = False,
    html: Annotated[
        bool, typer.Option("--html", help="Also write a page into the folder of the (last) run.")
    ] = False,
    fail_on_regression: Annotated[
        bool,
        typer.Option(
            "--fail-on-regression",
            help="With --compare: exit 1 if exactness was lost or a speed fell beyond noise.",
        ),
    ] = False,
    tolerance: Annotated[
        float, typer.Option(help="With --compare: how much slower is no regression yet.")
    ] = 0.05,
    runs_dir: RunsDir = DEFAULT_RUNS_DIR,
    redact: Redact = False,
    as_json: AsJson = False,
) -> None:
    """Show what a run or a grid measured, or what changed between two."""
    from partitioners.errors import InputError
    from pipelines.benchmark.report_folder import find_report_folder

    if len(runs) != 1 + compare:
        raise InputError(
            f"--compare needs two runs, not {len(runs)}: name the one before and the one after"
            if compare
            else f"one run is shown at a time, not {len(runs)}: name one, or say --compare"
        )
    if fail_on_regression and not compare:
        raise InputError("--fail-on-regression goes with --compare RUN RUN: say that too")
    folders = [find_report_folder(runs_dir, run) for run in runs]
    if compare:
        regression = _compare(folders, tolerance, html=html, redact=redact, as_json=as_json)
        if regression and fail_on_regression:
            raise typer.Exit(EXIT_FAILED)
        return
    _show(runs[0], folders[0], html=html, redact=redact, as_json=as_json)


def _show(run: str, folder: Path, *, html: bool, redact: bool, as_json: bool) -> None:
    from pipelines.benchmark.html_report import write_report
    from pipelines.benchmark.report import cells_table, run_summary
    from pipelines.benchmark.report_folder import read_report_folder
    from pipelines.benchmark.verdict import verdict
    from pipelines.consoles import stdout_console

    content = read_report_folder(folder)
    if redact:
        content = content.redacted()
    cells = content.cells
    page = write_report(folder, redact=redact) if html else None
    if as_json:
        failures = [asdict(failure) for failure in content.failures]
        shown = {"run": run, "verdict": verdict(content), "cells": [asdict(each) for each in cells]}
        shown |= {"failures": failures, "missing": content.missing}
        if page is not None:
            shown["report"] = str(page)
        typer.echo(json.dumps(shown, default=str))
        return
    console = stdout_console()
    for cell in cells:
        console.print(run_summary(cell))
    if len(cells) > 1:
        console.print(cells_table(cells))
    for failure in content.failures:
        console.print(f"failed: {failure.label}: {failure.reason}", style="red", markup=False)
    for label in content.missing:
        console.print(f"not run: {label}", markup=False)
    if len(cells) != 1 or content.failures:
        console.print(verdict(content), markup=False)
    if page is not None:
        typer.echo(f"report: {page}")


def _compare(
    folders: list[Path], tolerance: float, *, html: bool, redact: bool, as_json: bool
) -> bool:
    """Compare two runs, show it, and tell whether there is a regression."""
    from pipelines.benchmark.compare import compare
    from pipelines.benchmark.report_folder import read_report_folder
    from pipelines.benchmark.show_compare import comparison_page, comparison_text
    from pipelines.consoles import stdout_console

    contents = [read_report_folder(folder) for folder in folders]
    if redact:
        contents = [content.redacted() for content in contents]
    comparison = compare(contents[0], contents[1], tolerance=tolerance)
    page = None
    if html:
        page = folders[1] / f"compared-with-{comparison.before}.html"
        page.write_text(comparison_page(comparison), encoding="utf-8")
    if as_json:
        shown = comparison.as_json()
        if page is not None:
            shown["report"] = str(page)
        typer.echo(json.dumps(shown))
    else:
        stdout_console().print(comparison_text(comparison))
        if page is not None:
            typer.echo(f"report: {page}")
    return comparison.has_regression
