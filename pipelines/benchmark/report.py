"""Shows cells to people: one run as text, several as a table."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from partitioners.errors import InputError
from pipelines.benchmark.cell import Cell
from pipelines.benchmark.hot_keys import cannot_be_hashed
from pipelines.consoles import justify
from pipelines.key_names import percent
from pipelines.workloads import create_workload

BAR_WIDTH = 40
_EIGHTHS = " ▏▎▍▌▋▊▉█"


def bar(value: float, largest: float, width: int = BAR_WIDTH) -> str:
    """Draw a value as a bar, precise to an eighth of a character.

    Args:
        value: From 0 to `largest`.
        largest: The value of a full bar.
        width: Characters of a full bar.

    Example:
        >>> bar(5, 8, width=4)
        '██▌'
    """
    eighths = round(8 * width * value / largest) if largest > 0 else 0
    return "█" * (eighths // 8) + (_EIGHTHS[eighths % 8] if eighths % 8 else "")


def run_summary(cell: Cell) -> RenderableType:
    """Lay out one run for reading.

    Args:
        cell: Its figures.
    """
    head = Text(
        f"{cell.workload} · {cell.partitioner} · {cell.partitions} partitions · "
        f"{cell.sources} source{'s' if cell.sources > 1 else ''} · run {cell.run_id}",
        style="bold",
    )
    parts: list[RenderableType] = [head, partition_bars(cell.records_per_partition), _figures(cell)]
    if (sentence := _hot_key_sentence(cell)) is not None:
        parts.append(Text(f" {sentence}"))
    if cell.last_window.get("rows"):
        parts.append(_last_window(cell))
    verdict = Text("exact: yes" if cell.exact else "exact: NO", "green" if cell.exact else "red")
    verdict.append(f"  (all {cell.windows_compared:,} windows compared with DuckDB)", style="dim")
    parts.append(verdict)
    parts += [Text(f"  {difference}", style="red") for difference in cell.differences]
    parts.append(Text())
    return Group(*parts)


def partition_bars(records_per_partition: Sequence[int]) -> Table:
    """Draw the load of each partition.

    Args:
        records_per_partition: Its records.
    """
    table = Table(box=None, show_header=False, padding=(0, 1))
    table.add_column(justify="right")
    table.add_column(justify="left", width=BAR_WIDTH)
    table.add_column(justify="right")
    largest = max(records_per_partition, default=0)
    for partition, count in enumerate(records_per_partition):
        table.add_row(f"partition {partition}", bar(count, largest), f"{count:,}")
    return table


def _figures(cell: Cell) -> Table:
    table = Table(box=None, show_header=False, padding=(0, 1))
    quantiles = "  ".join(f"{name} {_ms(value)}" for name, value in cell.latency_ms.items())
    counts = f"{cell.produced:,} produced = {cell.on_time:,} on time + {cell.late:,} late"
    if cell.ignored:
        counts += f"; {cell.ignored:,} ignored"
    if cell.dead:
        counts += f"; {cell.dead:,} bad lines in dead-letters.jsonl"
    for name, value in (
        ("records", counts),
        ("imbalance", f"{cell.imbalance:.3f}  (largest partition over the average, minus 1)"),
        ("replication factor", f"{cell.replication_factor:.3f}  (partitions a key is on)"),
        ("fragmentation", f"{cell.fragmentation:.3f}  (the same, within a window)"),
        ("delivered", f"{cell.delivered:,} records, {cell.delivered_per_s:,.0f} records/s"),
        ("latency of windows", quantiles),
        ("hot keys", _hot_keys(cell)),
    ):
        table.add_row(name, value)
    return table


def _hot_keys(cell: Cell) -> Text:
    """The hottest few by name, with their share and the partitions they are on."""
    text = Text()
    for number, hot in enumerate(cell.hot_keys):
        spread = f" on {hot['num_partitions']} partitions" if hot["num_partitions"] > 1 else ""
        text.append(", " if number else "")
        text.append(f"{hot['key']} {percent(hot['share'])}{spread}")
    return text


def _hot_key_sentence(cell: Cell) -> str | None:
    sentence = cannot_be_hashed(cell.hot_keys, cell.partitions)
    if sentence is None:
        return None
    on = cell.hot_keys[0]["num_partitions"]
    if on == 1:
        return f"{sentence}; only splitting it can (hot_fill does)"
    return f"{sentence}; {cell.partitioner} puts it on {on} of them"


def _last_window(cell: Cell) -> RenderableType:
    rows = cell.last_window["rows"]
    columns = list(rows[0])
    table = Table(box=None, padding=(0, 1), header_style="dim")
    table.add_column("#", justify="right")
    for column in columns:
        table.add_column(column, justify=justify(row[column] for row in rows))
    for rank, row in enumerate(rows, 1):
        table.add_row(str(rank), *(Text(_value(row[column])) for column in columns))
    start, end = cell.last_window["window_start"], cell.last_window["window_end"]
    # Sliding windows that end later have less and less in them, and would show little.
    slides = cell.config.get("slide_ms") != cell.config.get("window_ms")
    which = "last full window" if slides else "last window"
    return Group(Text(f"{which} [{start}, {end}), top {len(rows)}"), table)


def _value(value: object) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return str(value)


def _ms(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f} ms"


def cells_table(cells: Sequence[Cell]) -> Table:
    """Lay out several runs as one table, a row each.

    Args:
        cells: Their figures.
    """
    table = Table(box=None, header_style="bold", padding=(0, 1, 0, 0))
    table.add_column("workload", no_wrap=True)
    table.add_column("partitioner", no_wrap=True)
    for name in ("records/s", "imbalance", "replicas", "partials", "late", "p50", "p99"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("exact")
    for cell in cells:
        table.add_row(
            cell.workload,
            cell.partitioner,
            f"{cell.delivered_per_s:,.0f}",
            f"{cell.imbalance:.3f}",
            f"{cell.replication_factor:.3f}",
            f"{cell.partial_rows:,}",
            f"{cell.late:,}",
            _ms(cell.latency_ms.get("p50")),
            _ms(cell.latency_ms.get("p99")),
            "yes" if cell.exact else "NO",
        )
    return table


def redacted(cell: Cell) -> Cell:
    """Give a cell with hashes in place of keys, whichever workload it is of."""
    workload = create_workload(cell.workload, **cell.config["workload_options"])
    return cell.redacted({field.name for field in workload.key_fields})


def read_cells(folder: Path) -> list[Cell]:
    """Read the cells of a run.

    Args:
        folder: The run's folder.

    Raises:
        InputError: It has none, or one cannot be read.
    """
    paths = sorted((folder / "cells").glob("*.json"))
    if not paths:
        raise InputError(
            f"run {folder.name} has no results yet: finish it with "
            f"`keyspread run --resume {folder.name}`"
        )
    cells = []
    for path in paths:
        try:
            cells.append(Cell.from_json(path.read_text(encoding="utf-8")))
        except (json.JSONDecodeError, TypeError) as error:
            raise InputError(f"{path} is not a cell of this version: {error}") from error
    return cells
