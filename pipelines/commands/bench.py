"""`keyspread bench`: the benchmarks of single parts."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Annotated, Any

import typer

from pipelines.commands.errors import explains_errors
from pipelines.commands.options import DEFAULT_MASTER, AsJson, Master

bench = typer.Typer(help="Measure single parts.", no_args_is_help=True)

Names = Annotated[
    list[str] | None, typer.Argument(help="Which, by blanks or commas; left out: all.")
]
Records = Annotated[int, typer.Option(help="Records of the stream.", min=1)]
TopicPartitions = Annotated[
    int, typer.Option("--partitions", help="Partitions of the topic.", min=1, max=10_000)
]
Servers = Annotated[
    str | None, typer.Option("--bootstrap", help="Kafka servers; left out: an own broker.")
]


@bench.command()
@explains_errors
def partitioners(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            help="Which, by blanks or commas, with options: pkg,dalton:slide_ms=10000. "
            "Left out: all."
        ),
    ] = None,
    stream: Annotated[
        list[str] | None, typer.Option(help="As of simulate; several by commas or again.")
    ] = None,
    inputs: Annotated[
        Path | None, typer.Option("--input", help="A file with one key per line, instead.")
    ] = None,
    encoding: Annotated[str, typer.Option(help="auto: UTF-8, else cp1252, line by line.")] = "auto",
    partitions: Annotated[int, typer.Option(help="Partitions to spread over.")] = 16,
    records: Records = 1_000_000,
    window_ms: Annotated[int, typer.Option(help="Window of the fragmentation.")] = 60_000,
    repetitions: Annotated[int, typer.Option(help="Runs of each; the best counts.")] = 5,
    as_json: AsJson = False,
) -> None:
    """Rates, imbalance and splitting of all partitioners on given or generated streams."""
    from rich.progress import Progress

    from partitioners import PARTITIONERS
    from partitioners.option_values import list_of
    from pipelines.benchmark.partitioners import (
        EXCLUDED,
        partitioner_table,
        run_partitioner_bench,
    )
    from pipelines.consoles import stderr_console, stdout_console
    from pipelines.simulation.inputs import sources_of

    streams = sources_of(stream or [], inputs, encoding, num_records=records, seed=1)
    chosen = list_of(names or [name for name in PARTITIONERS if name not in EXCLUDED])
    console = stderr_console(quiet=as_json)
    with Progress(console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task("measuring", total=len(chosen) * len(streams))
        rows = run_partitioner_bench(
            chosen,
            streams,
            num_partitions=partitions,
            window_ms=window_ms,
            repetitions=repetitions,
            on_row=lambda _row: bar.advance(task),
        )
    if as_json:
        typer.echo(json.dumps({"rows": [row.as_json() for row in rows]}))
    else:
        stdout_console().print(partitioner_table(rows))


@bench.command()
@explains_errors
def memory(
    names: Names = None,
    keys: Annotated[int, typer.Option(help="Distinct keys.", min=1)] = 10_000_000,
    partitions: Annotated[int, typer.Option(help="Partitions to spread over.")] = 16,
    as_json: AsJson = False,
) -> None:
    """State of each partitioner after so many distinct keys."""
    from dataclasses import asdict

    from rich.progress import Progress

    from partitioners import PARTITIONERS
    from partitioners.option_values import list_of
    from pipelines.benchmark.memory import measure_state, memory_table
    from pipelines.consoles import stderr_console, stdout_console

    chosen = list_of(names or PARTITIONERS)
    console = stderr_console(quiet=as_json)
    with Progress(console=console, disable=not console.is_terminal) as bar:
        rows = [
            measure_state(name, num_keys=keys, num_partitions=partitions)
            for name in bar.track(chosen, description="measuring")
        ]
    if as_json:
        typer.echo(json.dumps({"rows": [asdict(row) for row in rows]}))
    else:
        stdout_console().print(memory_table(rows))


@bench.command()
@explains_errors
def producer(
    records: Records = 1_000_000,
    partitions: TopicPartitions = 8,
    partitioner: Annotated[str, typer.Option(help="Ours.")] = "pkg",
    rounds: Annotated[int, typer.Option(help="How often; one more warms up.", min=1)] = 3,
    bootstrap: Servers = None,
    as_json: AsJson = False,
) -> None:
    """Our producer's rate beside the bare client's."""
    from partitioners import create
    from pipelines.benchmark import producer as benchmark
    from pipelines.consoles import stdout_console
    from pipelines.interrupt import stoppable

    say = _say(as_json)
    create(partitioner, partitions)  # refused before a broker is started
    with stoppable(), contextlib.ExitStack() as stack:
        servers = bootstrap or _own_broker(stack, say)
        say(f"producing {records:,} records in each way")
        rates = benchmark.run_producer_bench(
            servers,
            num_records=records,
            num_partitions=partitions,
            partitioner=partitioner,
            rounds=rounds,
        )
    if as_json:
        typer.echo(json.dumps({"rates": benchmark.as_json(rates)}))
    else:
        benchmark.print_producer_bench(rates, stdout_console())


@bench.command()
@explains_errors
def metrics(
    records: Records = 1_000_000,
    partitions: TopicPartitions = 8,
    partitioner: Annotated[str, typer.Option(help="Which.")] = "hot_fill",
    rounds: Annotated[int, typer.Option(help="How often; one more warms up.", min=2)] = 5,
    bootstrap: Servers = None,
    as_json: AsJson = False,
) -> None:
    """What metrics cost a producer: with them read every second, beside without."""
    from rich.progress import Progress

    from partitioners import create
    from pipelines.benchmark import metrics_cost as benchmark
    from pipelines.consoles import stderr_console, stdout_console
    from pipelines.interrupt import stoppable

    say = _say(as_json)
    create(partitioner, partitions)  # refused before a broker is started
    console = stderr_console(quiet=as_json)
    with stoppable(), contextlib.ExitStack() as stack:
        servers = bootstrap or _own_broker(stack, say)
        say(f"producing {records:,} records with and without metrics, in turns")
        bar = stack.enter_context(Progress(console=console, disable=not console.is_terminal))
        task = bar.add_task("measuring", total=rounds + 1)
        costs = benchmark.run_metrics_bench(
            servers,
            num_records=records,
            num_partitions=partitions,
            partitioner=partitioner,
            rounds=rounds,
            on_round=lambda: bar.advance(task),
        )
    if as_json:
        typer.echo(json.dumps({"costs": benchmark.as_json(costs)}))
    else:
        benchmark.print_metrics_bench(costs, stdout_console())


@bench.command()
@explains_errors
def windows(
    records: Records = 4_000_000,
    partitions: TopicPartitions = 8,
    shards: Annotated[int, typer.Option(help="Reducers.", min=1, max=1_000)] = 2,
    master: Master = DEFAULT_MASTER,
    bootstrap: Servers = None,
    as_json: AsJson = False,
) -> None:
    """Our sliding windows beside Spark's own, on one topic."""
    from pipelines.benchmark.windows import run_windows_bench
    from pipelines.interrupt import stoppable

    with stoppable():
        figures = run_windows_bench(
            num_records=records,
            num_partitions=partitions,
            num_shards=shards,
            master=master,
            bootstrap=bootstrap,
            say=_say(as_json),
        )
    _show(figures, as_json)


@bench.command()
@explains_errors
def workloads(
    names: Names = None,
    records: Annotated[
        int | None, typer.Option(help="Records of each topic; left out: the workload's.", min=1)
    ] = None,
    limit_s: Annotated[float, typer.Option(help="When Spark's own query is stopped.", min=1)] = 120,
    partitions: TopicPartitions = 8,
    shards: Annotated[int, typer.Option(help="Reducers.", min=1, max=1_000)] = 2,
    master: Master = DEFAULT_MASTER,
    bootstrap: Servers = None,
    as_json: AsJson = False,
) -> None:
    """Workloads beside Spark's own form of the same query, on one topic each."""
    from partitioners.option_values import list_of
    from pipelines.benchmark.workloads import run_workloads_bench, workloads_table
    from pipelines.consoles import stdout_console
    from pipelines.interrupt import stoppable

    with stoppable():
        figures = run_workloads_bench(
            list_of(names or ()),
            num_records=records,
            limit_seconds=limit_s,
            num_partitions=partitions,
            num_shards=shards,
            master=master,
            bootstrap=bootstrap,
            say=_say(as_json),
        )
    if as_json:
        typer.echo(json.dumps(figures))
    else:
        stdout_console().print(workloads_table(figures["rows"]))


@bench.command()
@explains_errors
def aggregates(
    names: Names = None,
    records: Records = 1_000_000,
    repetitions: Annotated[int, typer.Option(help="Runs of each; the best counts.", min=1)] = 3,
    as_json: AsJson = False,
) -> None:
    """Rates of aggregates through combiner and reducer, in process, beside that of `sum`."""
    from dataclasses import asdict

    from rich.progress import Progress

    from partitioners.option_values import list_of
    from pipelines.benchmark.aggregates import CASES, aggregates_table, run_aggregates_bench
    from pipelines.consoles import stderr_console, stdout_console

    chosen = list_of(names or ())
    console = stderr_console(quiet=as_json)
    with Progress(console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task("measuring", total=len(chosen or CASES))
        rows = run_aggregates_bench(
            chosen,
            num_records=records,
            repetitions=repetitions,
            on_row=lambda _name: bar.advance(task),
        )
    if as_json:
        typer.echo(json.dumps({"records": records, "rows": [asdict(row) for row in rows]}))
    else:
        stdout_console().print(aggregates_table(rows))


@bench.command()
@explains_errors
def split(
    records: Records = 24_000,
    hot_fraction: Annotated[float, typer.Option(help="Share of the hot key.", min=0, max=1)] = 0.6,
    iterations: Annotated[int, typer.Option(help="PBKDF2 iterations per record.", min=1)] = 1_000,
    master: Master = DEFAULT_MASTER,
    bootstrap: Servers = None,
    as_json: AsJson = False,
) -> None:
    """What splitting a hot key buys where the combiner's work per record is real."""
    from pipelines.benchmark.split import run_split_bench
    from pipelines.interrupt import stoppable

    with stoppable():
        figures = run_split_bench(
            num_records=records,
            hot_fraction=hot_fraction,
            iterations=iterations,
            master=master,
            bootstrap=bootstrap,
            say=_say(as_json),
        )
    _show(figures, as_json)


def _own_broker(stack: contextlib.ExitStack, say: Any) -> str:
    """Start a broker that ends with the stack; gives its address."""
    import tempfile

    from pipelines.broker import EmbeddedBroker

    say("starting a Kafka broker")
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="keyspread-bench-"))
    return stack.enter_context(EmbeddedBroker(folder)).bootstrap


def _say(as_json: bool) -> Any:
    """Progress goes to stderr, and nowhere with `--json`."""
    return (lambda _text: None) if as_json else (lambda text: typer.echo(f"{text} ...", err=True))


def _show(figures: dict[str, Any], as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(figures, default=str))
        return
    for line in _lines(figures, ""):
        typer.echo(line)


def _lines(figures: dict[str, Any], indent: str) -> list[str]:
    lines = []
    width = max((len(name) for name in figures), default=0)
    for name, value in figures.items():
        if isinstance(value, dict):
            lines += [f"{indent}{name}", *_lines(value, indent + "  ")]
        else:
            lines.append(f"{indent}{name:<{width}}  {_figure(value)}")
    return lines


def _figure(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.3f}" if abs(value) < 1_000 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
