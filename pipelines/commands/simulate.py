"""`keyspread simulate`: partitioners on streams, with many workers and sources, in a model."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipelines.commands.errors import explains_errors

if TYPE_CHECKING:
    from partitioners.simulation import Figures

Repeated = list[str] | None


@explains_errors
def simulate(
    partitioners: Annotated[
        Repeated,
        typer.Option(help="Names, by commas, with options: pkg,pkg:d=5. Left out: all."),
    ] = None,
    stream: Annotated[
        Repeated,
        typer.Option(
            help="Generated, with options (zipf:exponent=1.0, uniform, one_hot, top_share, "
            "lognormal, drift, alternating, varying, mixed), or shipped (words, routes, taxis); "
            "several by commas or again."
        ),
    ] = None,
    inputs: Annotated[
        Path | None, typer.Option("--input", help="A file with one key per line, instead.")
    ] = None,
    encoding: Annotated[str, typer.Option(help="auto: UTF-8, else cp1252, line by line.")] = "auto",
    partitions: Annotated[Repeated, typer.Option(help="Workers; several by commas.")] = None,
    sources: Annotated[Repeated, typer.Option(help="Producers; several by commas.")] = None,
    window_ms: Annotated[int, typer.Option(help="Size of the windows.")] = 60_000,
    slide_ms: Annotated[
        int | None, typer.Option(help="Their slide; left out: they tumble.")
    ] = None,
    records: Annotated[int, typer.Option(help="Length of a stream, at most.", min=1)] = 1_000_000,
    seed: Annotated[int, typer.Option(help="Of generated streams.", min=0)] = 1,
    record_us: Annotated[float, typer.Option(help="A combiner's price of a record.")] = 1.0,
    partial_us: Annotated[float, typer.Option(help="A combiner's price of a partial.")] = 0.0,
    merge_us: Annotated[float, typer.Option(help="A reducer's price of a partial.")] = 1.0,
    reducers: Annotated[
        int | None, typer.Option(help="Left out: one to 8 partitions.", min=1, max=10_000)
    ] = None,
    share_panes: Annotated[
        bool,
        typer.Option(help="Partials once per pane; or those of the whole window at each slide."),
    ] = True,
    forward: Annotated[
        bool, typer.Option(help="Partials of whole keys skip the reducers (key forwarding).")
    ] = False,
    jobs: Annotated[int | None, typer.Option(help="Processes; left out: one a core.")] = None,
    as_json: Annotated[
        str | None, typer.Option("--json", help="Write all figures to a file; - is stdout.")
    ] = None,
    html: Annotated[
        Path | None, typer.Option(help="Write a page with plots, readable without a network.")
    ] = None,
    paper: Annotated[
        Repeated,
        typer.Option(help="Run a paper's experiments: pkg, holistic, dalton, prompt, enorm, all."),
    ] = None,
    scale: Annotated[
        float, typer.Option(help="With --paper: share of the records of its experiments.")
    ] = 1.0,
    markdown: Annotated[
        Path | None,
        typer.Option(
            help="Write balance and splitting as tables; with --paper: published beside ours."
        ),
    ] = None,
) -> None:
    """Balance, splitting, aggregation cost and throughput by the papers' models."""
    from partitioners import PARTITIONERS
    from partitioners.errors import InputError
    from partitioners.option_values import list_of, numbers_of
    from partitioners.simulation import CostModel
    from partitioners.simulation import simulate as run_cell
    from pipelines.consoles import stdout_console
    from pipelines.simulation.inputs import settings_of, sources_of
    from pipelines.simulation.tables import balance_markdown, cells_table

    if paper:
        if partitioners or stream or inputs or html:
            raise InputError(
                "--paper runs what the paper ran: leave out --partitioners, --stream, --input and "
                "--html"
            )
        _run_papers(list_of(paper), scale, jobs, as_json, markdown)
        return
    if scale != 1.0:
        raise InputError("--scale goes with --paper: name one, such as --paper pkg")
    given = sources_of(stream or [], inputs, encoding, num_records=records, seed=seed)
    settings = settings_of(
        list_of(partitioners or list(PARTITIONERS)),
        given,
        numbers_of(partitions or ["16"], "--partitions"),
        numbers_of(sources or ["1"], "--sources"),
        window_ms=window_ms,
        slide_ms=slide_ms,
        prices=CostModel(
            record_us=record_us,
            partial_us=partial_us,
            merge_us=merge_us,
            shares_panes=share_panes,
            forwards_whole=forward,
        ),
        num_reducers=reducers,
    )
    cells = _sweep_with_bar(run_cell, settings, jobs, quiet=as_json == "-")
    if html is not None:
        from pipelines.simulation.page import write_page

        write_page(html, cells)
    if markdown is not None:
        markdown.write_text(balance_markdown(cells), encoding="utf-8")
    _leave_json({"cells": [cell.as_json() for cell in cells]}, as_json)
    if as_json != "-":
        stdout_console().print(cells_table(cells))
        for written in filter(None, (as_json, html, markdown)):
            typer.echo(f"written: {written}", err=True)


def _run_papers(
    names: list[str], scale: float, jobs: int | None, as_json: str | None, markdown: Path | None
) -> None:
    from rich.progress import Progress

    from partitioners.errors import InputError
    from pipelines.consoles import stderr_console, stdout_console
    from pipelines.interrupt import stoppable
    from pipelines.simulation import reproduction
    from pipelines.simulation.papers import papers_of

    if not 0.0 < scale <= 1.0:
        raise InputError(f"--scale must be above 0 and 1 at most, not {scale:g}")
    papers = papers_of(names)
    console = stderr_console()
    with (
        stoppable(),
        Progress(console=console, disable=as_json == "-" or not console.is_terminal) as bar,
    ):
        task = bar.add_task("", total=None)
        results = reproduction.reproduce(
            papers,
            jobs=jobs if jobs is not None else os.cpu_count() or 1,
            scale=scale,
            on_step=lambda what, done, total: bar.update(
                task, description=what, completed=done, total=total
            ),
        )
    if markdown is not None:
        text = reproduction.markdown(results, scale=scale)
        markdown.write_text(text, encoding="utf-8")
    _leave_json(reproduction.as_json(results), as_json)
    if as_json != "-":
        shown = stdout_console()
        for result in results:
            for table in reproduction.tables(result):
                shown.print(table)
        for written in filter(None, (as_json, markdown)):
            typer.echo(f"written: {written}", err=True)


def _sweep_with_bar(run: Any, tasks: Any, jobs: int | None, *, quiet: bool) -> list[Figures]:
    from rich.progress import Progress

    from partitioners.simulation import sweep
    from pipelines.consoles import stderr_console
    from pipelines.interrupt import stoppable

    console = stderr_console()
    with (
        stoppable(),
        Progress(console=console, disable=quiet or not console.is_terminal) as bar,
    ):
        task = bar.add_task("simulating", total=len(tasks))
        return sweep(
            run,
            tasks,
            jobs=jobs if jobs is not None else os.cpu_count() or 1,
            on_done=lambda _result: bar.advance(task),
        )


def _leave_json(values: dict[str, Any], target: str | None) -> None:
    if target is None:
        return
    text = json.dumps(values)
    if target == "-":
        typer.echo(text)
    else:
        Path(target).write_text(text + "\n", encoding="utf-8")
