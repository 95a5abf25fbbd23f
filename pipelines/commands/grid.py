"""`keyspread grid`: a benchmark of many runs, step by step as a scheduler calls it, or at once."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipelines.commands.configure import make_config, pace_of
from pipelines.commands.errors import EXIT_FAILED, explains_errors
from pipelines.commands.options import (
    DEFAULT_MASTER,
    DEFAULT_METRICS_HOST,
    DEFAULT_RUNS_DIR,
    AsJson,
    Bootstrap,
    KafkaFile,
    KafkaSettings,
    Master,
    MetricsHost,
    MetricsPort,
    RunsDir,
    kafka_settings,
    without_dots,
)
from pipelines.commands.serve import open_metrics

if TYPE_CHECKING:
    from pipelines.benchmark.grid.cells import Place
    from pipelines.benchmark.grid.folder import GridFolder

grid = typer.Typer(
    help="Run a workload with several partitioners, partitions, sources and windows.",
    no_args_is_help=True,
)

GridId = Annotated[str, typer.Argument(metavar="GRID", help="Its id or folder.")]
OtherMaster = Annotated[
    str | None,
    typer.Option("--master", envvar="KEYSPREAD_MASTER", help="Spark master, else as planned."),
]


@grid.command("plan", help="Lay out the cells, check every one, write grid.json.")
@grid.command("run", help="Plan, run all cells one after the other, check, report, clean.")
@explains_errors
def plan_or_run(
    context: typer.Context,
    workload: Annotated[str | None, typer.Argument(help="Its name, such as debs-q1.")] = None,
    partitioner: Annotated[
        list[str] | None,
        typer.Option(help="Names, by commas or again, with options: key_hash,pkg:d=3."),
    ] = None,
    partitions: Annotated[
        list[str] | None, typer.Option(help="Of the topic; several by commas or again.")
    ] = None,
    sources: Annotated[
        list[str] | None, typer.Option(help="Producers; several by commas or again.")
    ] = None,
    windows: Annotated[
        list[str] | None,
        typer.Option(
            help='SIZE/SLIDE: "30 min/1 min,5 min"; by commas or again; none: the workload\'s.'
        ),
    ] = None,
    repetitions: Annotated[int, typer.Option(help="How often each is run.")] = 1,
    inputs: Annotated[
        list[Path] | None,
        typer.Option("--input", help="As of run; none: what ships.", callback=without_dots),
    ] = None,
    speedup: Annotated[float | None, typer.Option(help="Replay event time so much faster.")] = None,
    rate: Annotated[float | None, typer.Option(help="Replay so many records per second.")] = None,
    shards: Annotated[int, typer.Option(help="Reducers.")] = 2,
    lateness_ms: Annotated[int, typer.Option(help="How late a record may come.")] = 0,
    emit: Annotated[
        str | None, typer.Option(help="all, changed or top; left out: the workload's.")
    ] = None,
    top: Annotated[int | None, typer.Option(help="Size of a window's top.")] = None,
    encoding: Annotated[str, typer.Option(help="auto: UTF-8, else cp1252, line by line.")] = "auto",
    workload_option: Annotated[
        list[str] | None, typer.Option(help="An option of the workload, name=value.")
    ] = None,
    batch_records: Annotated[int, typer.Option(help="Records in a Spark batch.")] = 1_000_000,
    bootstrap: Bootstrap = None,
    master: Master = DEFAULT_MASTER,
    kafka: KafkaSettings = None,
    kafka_config: KafkaFile = None,
    grid_id: Annotated[
        str | None, typer.Option("--id", help="Its id; left out: a new one.")
    ] = None,
    resume: Annotated[
        str | None, typer.Option(help="run: go on with this grid, with the cells that are open.")
    ] = None,
    metrics_port: MetricsPort = None,
    metrics_host: MetricsHost = DEFAULT_METRICS_HOST,
    runs_dir: RunsDir = DEFAULT_RUNS_DIR,
    as_json: AsJson = False,
) -> None:
    """Plan a grid, or run one."""
    from partitioners.errors import InputError
    from partitioners.option_values import list_of, numbers_of
    from partitioners.stream_names import parse_named
    from pipelines.benchmark.grid.folder import find_grid, make_grid_folder
    from pipelines.benchmark.grid.plan import Axes, make_plan
    from pipelines.benchmark.prepare import new_run_id
    from pipelines.panes import Windows

    runs = context.info_name == "run"
    settings = kafka_settings(kafka_config, kafka)
    place = _place(bootstrap, settings, None, quiet=as_json)
    if runs:
        place = replace(place, metrics=open_metrics(context, metrics_port, metrics_host))
    if resume is not None:
        if not runs or workload is not None:
            raise InputError("--resume goes on with a grid: `keyspread grid run --resume GRID`")
        _run(find_grid(runs_dir, resume), place, as_json)
        return
    if workload is None:
        raise InputError(f"name a workload, such as `keyspread grid {context.info_name} debs-q1`")
    base = make_config(
        workload,
        run_id="grid",
        inputs=inputs,
        encoding=encoding,
        workload_option=workload_option,
        window_ms=None,
        slide_ms=None,
        pace=pace_of(speedup, rate),
        emit=emit,
        top=top,
        partitioner="key_hash",
        partitions=8,
        shards=shards,
        lateness_ms=lateness_ms,
        batch_records=batch_records,
        bootstrap=bootstrap,
        kafka=settings,
        master=master,
    )
    axes = Axes(
        partitioners=[parse_named(name) for name in list_of(partitioner or ())],
        partitions=numbers_of(partitions, "--partitions") if partitions else (),
        sources=numbers_of(sources, "--sources") if sources else (),
        windows=[Windows.parse(text) for text in list_of(windows or ())],
        repetitions=repetitions,
    )
    folder = make_grid_folder(runs_dir, make_plan(grid_id or new_run_id(), base, axes))
    if runs:
        _run(folder, place, as_json)
    else:
        _tell_plan(folder, as_json)


@grid.command()
@explains_errors
def topics(
    grid: GridId,
    bootstrap: Bootstrap = None,
    kafka: KafkaSettings = None,
    kafka_config: KafkaFile = None,
    runs_dir: RunsDir = DEFAULT_RUNS_DIR,
    as_json: AsJson = False,
) -> None:
    """See that the broker would make every cell's topic; remove left-over ones."""
    from pipelines.benchmark.grid.folder import find_grid
    from pipelines.benchmark.grid.steps import prepare_topics

    place = _place(bootstrap, kafka_settings(kafka_config, kafka), None, quiet=as_json)
    names = prepare_topics(find_grid(runs_dir, grid), place)
    _tell({"grid": grid, "topics": names}, f"{len(names)} topics can be made", as_json)


@grid.command()
@explains_errors
def cell(
    context: typer.Context,
    grid: GridId,
    number: Annotated[int, typer.Argument(help="Number of the cell.")],
    bootstrap: Bootstrap = None,
    master: OtherMaster = None,
    kafka: KafkaSettings = None,
    kafka_config: KafkaFile = None,
    metrics_port: MetricsPort = None,
    metrics_host: MetricsHost = DEFAULT_METRICS_HOST,
    runs_dir: RunsDir = DEFAULT_RUNS_DIR,
    as_json: AsJson = False,
) -> None:
    """Run one cell, on a new topic and checkpoint; again starts it anew."""
    from pipelines.benchmark.grid.cells import run_cell
    from pipelines.benchmark.grid.folder import find_grid
    from pipelines.benchmark.report import run_summary
    from pipelines.consoles import stdout_console

    # Also with --json: a scheduler keeps stderr as the log of the task.
    place = _place(bootstrap, kafka_settings(kafka_config, kafka), master, quiet=False)
    place = replace(place, metrics=open_metrics(context, metrics_port, metrics_host))
    done = run_cell(find_grid(runs_dir, grid), number, place)
    if as_json:
        typer.echo(done.to_json())
    else:
        stdout_console().print(run_summary(done))
    if not done.exact:
        raise typer.Exit(EXIT_FAILED)


@grid.command()
@explains_errors
def check(grid: GridId, runs_dir: RunsDir = DEFAULT_RUNS_DIR, as_json: AsJson = False) -> None:
    """See that every cell is there and exact; exit code 1 names those that are not."""
    from pipelines.benchmark.grid.folder import find_grid

    if not _check(find_grid(runs_dir, grid), as_json):
        raise typer.Exit(EXIT_FAILED)


@grid.command()
@explains_errors
def report(grid: GridId, runs_dir: RunsDir = DEFAULT_RUNS_DIR, as_json: AsJson = False) -> None:
    """Write report.html."""
    from pipelines.benchmark.grid.folder import find_grid

    path = _report(find_grid(runs_dir, grid))
    _tell({"grid": grid, "report": str(path)}, f"report: {path}", as_json)


@grid.command()
@explains_errors
def previous(grid: GridId, runs_dir: RunsDir = DEFAULT_RUNS_DIR, as_json: AsJson = False) -> None:
    """Name the newest earlier grid with the same cells, for `keyspread report --compare`."""
    from pipelines.benchmark.grid.folder import find_grid
    from pipelines.benchmark.grid.steps import previous_grid

    found = previous_grid(runs_dir, find_grid(runs_dir, grid))
    name = None if found is None else found.plan.grid_id
    _tell({"grid": grid, "previous": name}, name or f"{grid} is the first of its kind", as_json)


@grid.command()
@explains_errors
def clean(
    grid: GridId,
    bootstrap: Bootstrap = None,
    kafka: KafkaSettings = None,
    kafka_config: KafkaFile = None,
    runs_dir: RunsDir = DEFAULT_RUNS_DIR,
    as_json: AsJson = False,
) -> None:
    """Remove its topics, checkpoints and scratch; plan, figures and report stay."""
    from pipelines.benchmark.grid import steps
    from pipelines.benchmark.grid.folder import find_grid

    place = _place(bootstrap, kafka_settings(kafka_config, kafka), None, quiet=as_json)
    removed = steps.clean(find_grid(runs_dir, grid), place)
    _tell({"grid": grid, "topics": removed}, f"{len(removed)} topics removed", as_json)


def _place(
    bootstrap: str | None, kafka: dict[str, str], master: str | None, *, quiet: bool
) -> Place:
    from pipelines.benchmark.grid.cells import Place
    from pipelines.consoles import stderr_console

    console = stderr_console()
    return Place(bootstrap=bootstrap, kafka=kafka, master=master, console=console, quiet=quiet)


def _run(folder: GridFolder, place: Place, as_json: bool) -> None:
    from pipelines.benchmark.grid.cells import run_cells
    from pipelines.benchmark.grid.steps import clean, done_cells, open_numbers, problems
    from pipelines.benchmark.report import cells_table, run_summary
    from pipelines.consoles import stdout_console

    results = stdout_console()
    run_cells(
        folder,
        open_numbers(folder),
        place,
        on_cell=lambda cell: None if as_json else results.print(run_summary(cell)),
    )
    cells = done_cells(folder)
    path = _report(folder)
    clean(folder, place)
    if as_json:
        found = {
            "grid": folder.plan.grid_id,
            "cells": [asdict(cell) for cell in cells],
            "problems": [problem.as_dict() for problem in problems(folder)],
            "report": str(path),
        }
        typer.echo(json.dumps(found, default=str))
        good = not found["problems"]
    else:
        results.print(cells_table(cells))
        good = _check(folder, as_json)
        typer.echo(f"report: {path}")
    if not good:
        raise typer.Exit(EXIT_FAILED)


def _check(folder: GridFolder, as_json: bool) -> bool:
    from pipelines.benchmark.grid.steps import problems

    found = problems(folder)
    count = len(folder.plan.cells)
    if as_json:
        shown = [problem.as_dict() for problem in found]
        typer.echo(json.dumps({"grid": folder.plan.grid_id, "cells": count, "problems": shown}))
    else:
        for problem in found:
            typer.echo(f"cell {problem.number} ({problem.label}) {problem.reason}")
        typer.echo(f"{count - len(found)} of {count} cells are exact")
    return not found


def _report(folder: GridFolder) -> Path:
    from pipelines.benchmark.html_report import write_report

    return write_report(folder.path)


def _tell_plan(folder: GridFolder, as_json: bool) -> None:
    plan = folder.plan
    lines = [f"grid {plan.grid_id}: {len(plan.cells)} cells, in {folder.path}"]
    lines += [f"{cell.number:5}  {cell.label}" for cell in plan.cells]
    cells = [{"number": cell.number, "label": cell.label} for cell in plan.cells]
    found = {"grid": plan.grid_id, "folder": str(folder.path), "cells": cells}
    _tell(found, "\n".join(lines), as_json)


def _tell(found: dict[str, Any], text: str, as_json: bool) -> None:
    typer.echo(json.dumps(found) if as_json else text)
