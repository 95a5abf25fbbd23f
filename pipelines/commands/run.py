"""`keyspread run`: one workload through one partitioner, start to verdict."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

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
    OnePartitioner,
    PartitionerOptions,
    Redact,
    RunsDir,
    kafka_settings,
    one_partitioner,
    without_dots,
)
from pipelines.commands.serve import open_metrics

if TYPE_CHECKING:
    from pipelines.benchmark.prepare import RunConfig
    from pipelines.metrics import MetricsServer

# What may be said anew when a run is resumed; the rest is as the run was started.
_RESUME_MAY_SAY = {
    "workload",
    "resume",
    "as_json",
    "runs_dir",
    "kafka",
    "kafka_config",
    "bootstrap",
    "redact",
    "metrics_port",
    "metrics_host",
}


@explains_errors
def run(
    context: typer.Context,
    workload: Annotated[str | None, typer.Argument(help="Its name, such as wordcount.")] = None,
    inputs: Annotated[
        list[Path] | None,
        typer.Option(
            "--input",
            help="Text, .gz, a folder of `data`; again for more; none: what ships.",
            callback=without_dots,
        ),
    ] = None,
    partitioner: OnePartitioner = "key_hash",
    partitions: Annotated[int, typer.Option(help="Partitions of the topic.")] = 8,
    sources: Annotated[int, typer.Option(help="Producers with load estimates of their own.")] = 1,
    shards: Annotated[
        int | None, typer.Option(help="Reducers; left out: 2, or 1 where order needs it.")
    ] = None,
    window_ms: Annotated[int | None, typer.Option(help="Window; left out: the workload's.")] = None,
    slide_ms: Annotated[int | None, typer.Option(help="Slide; left out: the workload's.")] = None,
    window: Annotated[
        list[str] | None,
        typer.Option(help='In place of both: "15 min/1 min"; more kinds by commas or again.'),
    ] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Print how the windows are computed; start nothing.")
    ] = False,
    lateness_ms: Annotated[int, typer.Option(help="How late a record may come.")] = 0,
    speedup: Annotated[float | None, typer.Option(help="Replay event time so much faster.")] = None,
    rate: Annotated[float | None, typer.Option(help="Replay so many records per second.")] = None,
    as_fast: Annotated[bool, typer.Option("--max", help="As fast as it goes (default).")] = False,
    bootstrap: Bootstrap = None,
    master: Master = DEFAULT_MASTER,
    results: Annotated[
        Path | None,
        typer.Option(help="New folder for results (Parquet).", callback=without_dots),
    ] = None,
    sink: Annotated[
        list[str] | None,
        typer.Option(help="Beside: console, kafka:TOPIC, postgresql://HOST/DB#TABLE; again."),
    ] = None,
    emit: Annotated[
        str | None, typer.Option(help="all, changed or top; left out: the workload's.")
    ] = None,
    top: Annotated[int | None, typer.Option(help="Size of a window's top.")] = None,
    encoding: Annotated[str, typer.Option(help="auto: UTF-8, else cp1252, line by line.")] = "auto",
    option: PartitionerOptions = None,
    workload_option: Annotated[
        list[str] | None, typer.Option(help="An option of the workload, name=value.")
    ] = None,
    batch_records: Annotated[int, typer.Option(help="Records in a Spark batch.")] = 1_000_000,
    punctuation_records: Annotated[
        int, typer.Option(help="Least records between two watermark records.")
    ] = 1_000,
    kafka: KafkaSettings = None,
    kafka_config: KafkaFile = None,
    resume: Annotated[str | None, typer.Option(help="Go on with this run.")] = None,
    metrics_port: MetricsPort = None,
    metrics_host: MetricsHost = DEFAULT_METRICS_HOST,
    runs_dir: RunsDir = DEFAULT_RUNS_DIR,
    redact: Redact = False,
    as_json: AsJson = False,
) -> None:
    """Replay an input through a partitioner, Kafka and Spark to exact windows."""
    from partitioners.errors import InputError
    from pipelines.benchmark.ending import ending_in_order
    from pipelines.benchmark.prepare import RunConfig, find_run, new_run_id

    settings = kafka_settings(kafka_config, kafka)
    if resume is not None:
        _refuse_changes(context)
        folder = find_run(runs_dir, resume)
        config = RunConfig.read(folder)
        if workload not in (None, config.workload):
            raise InputError(
                f"run {config.run_id} is a {config.workload}, not a {workload}: leave that out"
            )
        config = replace(config, kafka={**config.kafka, **settings})
        # What the environment says is a default only: the topic is where the run began.
        if bootstrap is not None and (config.bootstrap is None or _said(context, "bootstrap")):
            config = replace(config, bootstrap=bootstrap)
        metrics = open_metrics(context, metrics_port, metrics_host)
        with ending_in_order(folder, resumed=True):
            _carry_out(config, folder, metrics, as_json=as_json, redact=redact, resumed=True)
        return
    if workload is None:
        raise InputError("name a workload, such as `keyspread run wordcount`, or say --resume RUN")
    several = f"`keyspread grid run {workload} --partitioner {partitioner}` runs each"
    name, options = one_partitioner(partitioner, option, several)
    config = make_config(
        workload,
        run_id=new_run_id(),
        inputs=inputs,
        encoding=encoding,
        workload_option=workload_option,
        window_ms=window_ms,
        slide_ms=slide_ms,
        window=window,
        pace=pace_of(speedup, rate, as_fast),
        emit=emit,
        top=top,
        is_run=not explain,
        partitioner=name,
        options=options,
        partitions=partitions,
        sources=sources,
        shards=shards,
        lateness_ms=lateness_ms,
        bootstrap=bootstrap,
        kafka=settings,
        master=master,
        results_dir=str(results.absolute()) if results else None,
        batch_records=batch_records,
        punctuation_records=punctuation_records,
        sinks=tuple(sink or ()),
    )
    if explain:
        _explain(config, as_json=as_json)
        return
    metrics = open_metrics(context, metrics_port, metrics_host)
    _start(config, runs_dir, metrics, as_json=as_json, redact=redact)


def _explain(config: RunConfig, *, as_json: bool) -> None:
    import json

    from pipelines.benchmark.parts import check_options, make_windows, make_workload
    from pipelines.explain import in_words, plan_figures
    from pipelines.plan import WindowPlan

    check_options(config)
    windows = make_windows(config)
    if not isinstance(windows, list):
        figures = {"per_event": True, "window_ms": windows.window_ms}
        words = f"after every event, the window of the last {windows.window_ms:,} ms: no panes"
        typer.echo(json.dumps(figures) if as_json else words)
        return
    plan = WindowPlan.of(windows, make_workload(config).aggregates)
    typer.echo(json.dumps(plan_figures(plan)) if as_json else in_words(plan))


def _start(
    config: RunConfig,
    runs_dir: Path,
    metrics: MetricsServer | None,
    *,
    as_json: bool,
    redact: bool,
) -> None:
    from pipelines.benchmark.ending import ending_in_order
    from pipelines.benchmark.parts import check_inputs, check_options
    from pipelines.benchmark.prepare import make_run_folder, results_folder
    from pipelines.benchmark.site import require_master
    from pipelines.topics import OWN_BROKER, client_settings, require_answer

    # The input last: to see that it is whole takes as long as to read it.
    check_options(config)
    require_master(config.master)
    if config.bootstrap is not None:
        require_answer(client_settings(config.bootstrap, config.kafka), OWN_BROKER)
    results: AbstractContextManager[None] = nullcontext()
    if config.results_dir is not None:
        results = results_folder(Path(config.results_dir))
    with results:
        check_inputs(config)
        with ending_in_order(runs_dir / config.run_id, resumed=False):
            folder = make_run_folder(runs_dir, config)
            _carry_out(config, folder, metrics, as_json=as_json, redact=redact, resumed=False)


def _carry_out(
    config: RunConfig,
    folder: Path,
    metrics: MetricsServer | None,
    *,
    as_json: bool,
    redact: bool,
    resumed: bool,
) -> None:
    from pipelines.benchmark.html_report import write_report
    from pipelines.benchmark.report import redacted, run_summary
    from pipelines.benchmark.run import carry_out
    from pipelines.consoles import stderr_console, stdout_console

    console = stderr_console()
    cell = carry_out(
        config, folder, resumed=resumed, console=console, quiet=as_json, metrics=metrics
    )
    shown = redacted(cell) if redact else cell
    if as_json:
        typer.echo(shown.to_json())
    else:
        stdout_console().print(run_summary(shown))
    if not as_json:
        typer.echo(f"run folder: {folder}")
    try:
        page = write_report(folder, redact=redact)
    except OSError as error:  # the figures are there, and are what was asked for
        again = f"`keyspread report {folder.name} --html` writes it again"
        typer.echo(f"no report was written ({error.strerror}): {again}", err=True)
    else:
        if not as_json:
            typer.echo(f"report: {page}")
    if not cell.exact:
        raise typer.Exit(EXIT_FAILED)


def _said(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _refuse_changes(context: typer.Context) -> None:
    from partitioners.errors import InputError

    said = [
        parameter.opts[0]
        for parameter in context.command.params
        if (name := parameter.name) is not None
        and name not in _RESUME_MAY_SAY
        and _said(context, name)
    ]
    if said:
        options = ", ".join(said)
        raise InputError(f"a resumed run goes on as it was started: leave out {options}")
