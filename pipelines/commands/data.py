"""`keyspread data`: input for the workloads, generated or prepared from official files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pipelines.commands.errors import explains_errors
from pipelines.commands.options import AsJson, without_dots

if TYPE_CHECKING:
    from rich.progress import Progress

    from pipelines.datasets.folder import DataFolder

data = typer.Typer(help="Make or prepare input data.", no_args_is_help=True)
prepare = typer.Typer(help="Data of the papers' workloads.", no_args_is_help=True)
data.add_typer(prepare, name="prepare")

Out = Annotated[
    Path,
    typer.Option(
        help="The folder; one that was not finished is gone on with.", callback=without_dots
    ),
]
From = Annotated[
    Path,
    typer.Option(
        "--from", help="The official file, or the folder of files.", callback=without_dots
    ),
]


@prepare.command()
@explains_errors
def tpch(
    scale: Annotated[float, typer.Option(help="Scale factor; 1 has six million lines.")],
    out: Out,
    as_json: AsJson = False,
) -> None:
    """Generate TPC-H's lineitem by ship date, orders and customer (needs tpchgen-cli)."""
    from pipelines.datasets.tpch import ROWS, prepare_tpch

    with _bars(as_json) as bars:
        tasks = {
            table: bars.add_task(table, total=max(int(rows * scale), 1), unit="lines, about")
            for table, rows in ROWS.items()
        }
        folder = prepare_tpch(scale, out, lambda table, lines: bars.advance(tasks[table], lines))
    _tell(folder, as_json, "keyspread run tpch-q1 --input")


@prepare.command()
@explains_errors
def debs(source: From, out: Out, as_json: AsJson = False) -> None:
    """Check and pack `sorted_data.csv` of the DEBS 2015 Grand Challenge."""
    _prepare_official("debs", source, out, as_json)


@prepare.command()
@explains_errors
def gcm(source: From, out: Out, as_json: AsJson = False) -> None:
    """Check and pack `task_events/part-*.csv.gz` of Google's trace of 2011."""
    _prepare_official("gcm", source, out, as_json)


def _prepare_official(kind: str, source: Path, out: Path, as_json: bool) -> None:
    from pipelines.benchmark.progress import input_bytes
    from pipelines.datasets.official import find_files, prepare_official
    from pipelines.text_input import check_input

    paths = find_files(kind, source)
    for path in paths:
        check_input(path)
    with _bars(as_json) as bars:
        task = bars.add_task(kind, total=input_bytes([str(path) for path in paths]), unit="bytes")
        folder = prepare_official(
            kind, source, out, lambda num_bytes: bars.update(task, completed=num_bytes)
        )
    _tell(folder, as_json, f"keyspread run {'debs-fare' if kind == 'debs' else 'gcm-q1'} --input")


@data.command()
@explains_errors
def synthetic(
    out: Out,
    records: Annotated[int, typer.Option(help="Lines.")] = 1_000_000,
    keys: Annotated[int | None, typer.Option(help="Different keys.")] = None,
    zipf: Annotated[float | None, typer.Option(help="Exponent of Zipf's law; 0: uniform.")] = None,
    drift: Annotated[
        int | None, typer.Option(help="Phases of the stream, each with other hot keys.")
    ] = None,
    stream: Annotated[
        str | None,
        typer.Option(
            help="Any stream of `keyspread simulate` instead, such as alternating:num_phases=4 "
            "(Zipf and uniform in turn) or top_share:num_keys=100000:fraction=0.3845 (post codes)."
        ),
    ] = None,
    lines: Annotated[
        str,
        typer.Option(
            help="keyed: ts,key,x for keyed-sum; people: ts,post_code and four codes for "
            "clustering, by default over 100,000 post codes with 38 % in one."
        ),
    ] = "keyed",
    rate: Annotated[int, typer.Option(help="Records per second of event time.")] = 1_000,
    seed: Annotated[int, typer.Option(help="The same seed gives the same files.")] = 1,
    as_json: AsJson = False,
) -> None:
    """Write a skewed stream for the workload keyed-sum, or people of post codes for clustering."""
    from partitioners.errors import InputError
    from pipelines.datasets.synthetic import PEOPLE_STREAM, prepare_synthetic

    if stream is not None and (keys, zipf, drift) != (None, None, None):
        raise InputError("--stream says it all: leave out --keys, --zipf and --drift, or --stream")
    options = {"num_keys": keys, "exponent": zipf, "num_phases": drift}
    given = "".join(f":{name}={value}" for name, value in options.items() if value is not None)
    if lines == "people" and not given:
        stream = stream or PEOPLE_STREAM
    name = stream or ("zipf" if drift is None else "drift") + given
    with _bars(as_json) as bars:
        task = bars.add_task("synthetic", total=records, unit="lines")
        folder = prepare_synthetic(
            name,
            records,
            out,
            rate=rate,
            seed=seed,
            lines=lines,
            on_lines=lambda lines: bars.advance(task, lines),
        )
    workload = "clustering" if lines == "people" else "keyed-sum"
    _tell(folder, as_json, f"keyspread run {workload} --input")


@contextmanager
def _bars(as_json: bool) -> Iterator[Progress]:
    from pipelines.benchmark.progress import progress_bars
    from pipelines.consoles import stderr_console

    with progress_bars(stderr_console(), shown=not as_json) as bars:
        yield bars


def _tell(folder: DataFolder, as_json: bool, command: str) -> None:
    if as_json:
        typer.echo(json.dumps({"folder": str(folder.path), "files": folder.files}))
        return
    for name, about in folder.files.items():
        details = [f"{about['lines']:,} lines", f"{about['bytes']:,} bytes"]
        if "records" in about:
            details.append(f"{about['records']:,} records, {about['bad']:,} bad lines")
            details.append(f"{about['keys']:,} keys, the hottest {about['top_share']:.1%}")
            if about["largest_step_back_ms"]:
                details.append(f"times go back by up to {about['largest_step_back_ms']:,} ms")
        typer.echo(f"{name}: {'; '.join(details)}; sha256 {about['sha256'][:12]}")
    typer.echo(f"{command} {folder.path}")
