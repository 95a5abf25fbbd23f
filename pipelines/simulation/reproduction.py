"""Runs papers' experiments and writes them as one Markdown page, published beside ours."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from partitioners.simulation import Sweeper
from pipelines.consoles import justify
from pipelines.simulation.papers import ALL, PAPERS, Experiment, Lab, Paper


@dataclass(frozen=True)
class Reproduced:
    """A paper with what its experiments gave."""

    paper: Paper
    experiments: Sequence[Experiment]


def reproduce(
    papers: Sequence[Paper],
    *,
    jobs: int,
    scale: float = 1.0,
    on_step: Callable[[str, int, int], None] = lambda _what, _done, _total: None,
) -> list[Reproduced]:
    """Run papers' experiments.

    Args:
        papers: Which.
        jobs: Processes.
        scale: Share of the records of the full experiments.
        on_step: Told what is being run, how many cells of it are done, and of how many.

    Returns:
        What they gave; the same for any number of processes.
    """
    results = []
    with Sweeper(jobs) as sweeper:
        for paper in papers:
            lab = Lab(sweeper, scale=scale, on_step=on_step)
            experiments = []
            for experiment in paper.experiments:
                lab.what = f"{paper.name}: {experiment.__name__.replace('_', ' ')}"
                experiments.append(experiment(lab))
            results.append(Reproduced(paper, experiments))
    return results


def markdown(results: Sequence[Reproduced], *, scale: float = 1.0) -> str:
    """Write results as a page.

    Args:
        results: From ``reproduce``.
        scale: What they were run with.

    Returns:
        Markdown.
    """
    names = ",".join(result.paper.name for result in results)
    names = ALL if len(results) == len(PAPERS) else names
    option = "" if scale == 1.0 else f" --scale {scale:g}"
    lines = [
        "# The papers' experiments, run again",
        "",
        "<!-- Generated; the command stands below. Change it there, not here. -->",
        "",
        "Published figures beside ours, as far as data can be had. Everything is counted or "
        "modelled, nothing timed: the figures are the same on any machine. Where a data set is not "
        "public, a stream with its published key statistics stands in, and the experiment says so.",
        "",
        "```",
        f"keyspread simulate --paper {names}{option} --markdown docs/reproduction.md",
        "```",
        "",
        f"Run on {os.cpu_count()} cores, {platform.system()} {platform.machine()}, Python "
        f"{platform.python_version()}, numpy {version('numpy')}, numba {version('numba')}, "
        f"keyspread {version('keyspread')}. One paper: `keyspread simulate --paper pkg`.",
        "",
    ]
    lines += [
        f"- [{result.paper.name}](#{result.paper.name}): {result.paper.summary}"
        for result in results
    ]
    for result in results:
        lines += ["", f"## {result.paper.name}", "", f"{result.paper.citation}."]
        for experiment in result.experiments:
            lines += ["", *_experiment(experiment)]
        if result.paper.not_run:
            lines += ["", f"**Not run.** {result.paper.not_run}"]
    return "\n".join(lines) + "\n"


def _experiment(experiment: Experiment) -> list[str]:
    lines = [f"### {experiment.title}", "", experiment.data, ""]
    lines.append(f"| {' | '.join(experiment.columns)} |")
    lines.append("|" + "---|" * len(experiment.columns))
    lines += [f"| {' | '.join(row)} |" for row in experiment.rows]
    if experiment.published:
        lines += ["", f"**Published.** {experiment.published}"]
    if experiment.findings:
        lines += ["", f"**Ours.** {' '.join(experiment.findings)}"]
    return lines


def tables(result: Reproduced) -> list[RenderableType]:
    """Lay a paper's experiments out for a terminal.

    Args:
        result: One of those from ``reproduce``.

    Returns:
        For each experiment a table and what is said of it.
    """
    shown: list[RenderableType] = [Text(f"\n{result.paper.citation}", style="bold")]
    for experiment in result.experiments:
        table = Table(box=None, header_style="bold", padding=(0, 1, 0, 0))
        for number, column in enumerate(experiment.columns):
            table.add_column(column, justify=justify(row[number] for row in experiment.rows))
        for row in experiment.rows:
            table.add_row(*row)
        shown += [Text(f"\n{experiment.title}", style="bold"), Text(experiment.data), table]
        if experiment.published:
            shown.append(Text(f"Published. {experiment.published}", style="dim"))
        if experiment.findings:
            shown.append(Text(f"Ours. {' '.join(experiment.findings)}"))
    if result.paper.not_run:
        shown.append(Text(f"\nNot run. {result.paper.not_run}", style="dim"))
    return shown


def as_json(results: Sequence[Reproduced]) -> dict[str, object]:
    """Give results as plain values, tables as they are printed."""
    return {
        result.paper.name: [
            {
                "title": experiment.title,
                "data": experiment.data,
                "columns": list(experiment.columns),
                "rows": [list(row) for row in experiment.rows],
                "published": experiment.published,
                "findings": list(experiment.findings),
            }
            for experiment in result.experiments
        ]
        for result in results
    }
