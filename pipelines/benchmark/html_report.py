"""`report.html` of a run or a grid: what came out, in one file that needs no network."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from pipelines.benchmark.cell import Cell
from pipelines.benchmark.figures import FIGURES, by_place, partitioner_of, place_names
from pipelines.benchmark.html_plots import colours_of, place_plots
from pipelines.benchmark.noise import LEVEL
from pipelines.benchmark.report_folder import ReportFolder, Written, read_report_folder
from pipelines.benchmark.verdict import Contest, contests, verdict
from pipelines.html.charts import legend
from pipelines.html.frame import document
from pipelines.html.sortable import SCRIPT, Entry, figure, table, words
from pipelines.key_names import percent

NAME = "report.html"

METHOD = (
    f"± and [ ]: {LEVEL:.0%} t intervals over the repetitions of a run (changes: Welch's, on "
    "logarithms); they know nothing of a machine that was busier than at another time. Latency "
    "counts from when the last record of a window was due to when its result was in the sink. "
    "Imbalance: the largest partition over the mean, minus 1. Replication factor: partitions a key "
    "is on; fragmentation: the same within a window. Combine and reduce: busy seconds."
)


def write_report(folder: Path, *, redact: bool = False) -> Path:
    """Write the report of a run or a grid into its folder.

    Args:
        folder: With `cells/`, and `failures/` and `grid.json` where there are such.
        redact: Show keys as hashes.

    Returns:
        The path of `report.html`.

    Raises:
        InputError: Nothing has been run there, or a file is damaged.
    """
    content = read_report_folder(folder)
    scratch = folder / f".{NAME}.tmp"
    scratch.write_text(report_page(content.redacted() if redact else content), encoding="utf-8")
    return scratch.replace(folder / NAME)


def report_page(folder: ReportFolder) -> str:
    """Lay a run or a grid out as a page.

    Args:
        folder: What was run.

    Returns:
        HTML.
    """
    cells = folder.cells
    parts = [
        f"<h1>{escape(folder.name)}</h1>",
        f'<p class="faint">keyspread · {_count(len(cells), "cell")}</p>',
        f'<p class="verdict">{escape(verdict(folder))}</p>',
        _failures(folder),
    ]
    if cells:
        parts += [
            "<h2>Cells</h2>",
            _cells(folder.written),
            _hashing(contests(cells)),
            _places(cells),
            _machines(cells),
            f'<h2>How to read it</h2><p class="faint">{escape(METHOD)}</p>',
        ]
    return document(f"keyspread {folder.name}", "".join(parts), SCRIPT)


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _failures(folder: ReportFolder) -> str:
    not_exact = [each for each in folder.written if not each.cell.exact]
    items = [
        f"<li><strong>{escape(failure.label)}</strong>: {escape(failure.reason)} "
        f'(<a href="{escape(failure.path)}">JSON</a>)</li>'
        for failure in folder.failures
    ]
    items += [
        f'<li><strong class="bad">not exact: {escape(_label(each.cell))}</strong> '
        f'(<a href="{escape(each.path)}">JSON</a>): '
        + "; ".join(escape(text) for text in each.cell.differences)
        + "</li>"
        for each in not_exact
    ]
    items += [f"<li>not run: {escape(label)}</li>" for label in folder.missing]
    if not items:
        return ""
    return f'<h2 class="bad">Failed, wrong or missing</h2><ul>{"".join(items)}</ul>'


def _label(cell: Cell) -> str:
    return (
        f"{cell.workload} {partitioner_of(cell)}, {_count(cell.partitions, 'partition')}, "
        f"{_count(cell.sources, 'source')}, repetition {cell.repetition}"
    )


_COLUMNS = (
    "workload",
    "partitioner",
    "partitions",
    "sources",
    "window / slide, s",
    "repetition",
    "exact",
    "records/s",
    "p50, ms",
    "p99, ms",
    "imbalance",
    "replication",
    "partial rows",
    "combine, s",
    "slowest",
    "reduce, s",
    "slowest ",
    "late",
    "figures",
)


def _cells(written: Sequence[Written]) -> str:
    return table(
        "All cells; the buttons in the head sort. Combine and reduce: over all partitions and "
        "shards, and of the slowest one.",
        _COLUMNS,
        [_row(each) for each in written],
    )


def _row(written: Written) -> list[Entry]:
    cell = written.cell
    combine, reduce = cell.combine_seconds_per_partition, cell.reduce_seconds_per_shard
    return [
        words(cell.workload),
        words(partitioner_of(cell)),
        figure(cell.partitions),
        figure(cell.sources),
        _windows(cell.config),
        figure(cell.repetition),
        words("yes", style="good") if cell.exact else words("NO", style="bad"),
        figure(cell.delivered_per_s),
        figure(cell.latency_ms.get("p50")),
        figure(cell.latency_ms.get("p99")),
        figure(cell.imbalance, "{:.3f}"),
        figure(cell.replication_factor, "{:.3f}"),
        figure(cell.partial_rows),
        figure(sum(combine) if combine else None, "{:.3f}"),
        figure(max(combine, default=None), "{:.3f}"),
        figure(sum(reduce) if reduce else None, "{:.3f}"),
        figure(max(reduce, default=None), "{:.3f}"),
        figure(cell.late),
        Entry("JSON", written.path, link=written.path),
    ]


def _windows(config: Mapping[str, Any]) -> Entry:
    window_ms, slide_ms = config.get("window_ms"), config.get("slide_ms")
    if window_ms is None or slide_ms is None:
        return Entry("-", None)
    return Entry(f"{window_ms / 1000:,g} / {slide_ms / 1000:,g}", float(window_ms))


def _hashing(found: Sequence[Contest]) -> str:
    if not found:
        return ""
    rows = [
        [
            words(each.place),
            words(each.figure.name),
            figure(each.hashing, each.figure.text),
            words(each.other),
            figure(each.best, each.figure.text),
            Entry(
                each.figure.write_change(each.change),
                None if each.change is None else each.change.estimate,
            ),
            words(each.winner),
        ]
        for each in found
    ]
    return "<h2>Where plain hashing wins</h2>" + table(
        "key_hash and the best of the other partitioners, figure by figure. The bounds allow for "
        "the best having been chosen among several.",
        ("setting", "figure", "key_hash", "best other", "its figure", "change", "winner"),
        rows,
    )


def _places(cells: Sequence[Cell]) -> str:
    places = by_place(cells)
    names = place_names(places)
    colours = colours_of(cells)
    parts = []
    for place, partitioners in places.items():
        some = {name: colours[name] for name in partitioners}
        parts.append(
            f"<section><h2>{escape(names[place])}</h2>{legend(some)}"
            f"{_means(names[place], partitioners)}{place_plots(partitioners, colours)}"
            f"{_hot_keys(partitioners)}</section>"
        )
    return "".join(parts)


def _means(place: str, partitioners: Mapping[str, Sequence[Cell]]) -> str:
    rows = [
        [
            words(name),
            figure(len(cells)),
            *(Entry(each.write_mean(cells, LEVEL), each.mean(cells)) for each in FIGURES),
        ]
        for name, cells in partitioners.items()
    ]
    columns = ("partitioner", "repetitions", *(each.name for each in FIGURES))
    return table(f"Means over repetitions: {place}", columns, rows)


def _hot_keys(partitioners: Mapping[str, Sequence[Cell]]) -> str:
    rows = []
    first = {name: cells[0] for name, cells in partitioners.items() if cells[0].hot_keys}
    if not first:
        return ""
    for hot in next(iter(first.values())).hot_keys:
        row = [words(str(hot["key"])), Entry(percent(hot["share"]), hot["share"])]
        for cell in first.values():
            same = [each for each in cell.hot_keys if each["key"] == hot["key"]]
            row.append(figure(same[0]["num_partitions"] if same else None))
        rows.append(row)
    return "<h3>Hot keys</h3>" + table(
        "The hottest keys, their share of all records, and the partitions each is on",
        ("key", "share", *first),
        rows,
        sorts=False,
    )


def _machines(cells: Sequence[Cell]) -> str:
    kinds: dict[str, Cell] = {}
    for cell in cells:
        kinds.setdefault(json.dumps([cell.machine, cell.versions], sort_keys=True), cell)
    parts = ["<h2>Machine and versions</h2>"]
    if len(kinds) > 1:
        parts.append(
            f'<p class="bad">The cells come from {len(kinds)} different machines or sets of '
            "versions: their speeds do not compare.</p>"
        )
    for cell in kinds.values():
        shown = {**cell.machine, **cell.versions}
        if isinstance(memory := shown.pop("memory_bytes", None), int):
            shown["memory"] = f"{memory / 2**30:.1f} GiB"
        items = "".join(
            f"<dt>{escape(str(name))}</dt><dd>{escape(str(value))}</dd>"
            for name, value in shown.items()
        )
        parts.append(f"<dl>{items}</dl>")
    return "".join(parts)
