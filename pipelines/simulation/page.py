"""Cells as one HTML page with plots; it opens without a network, in light and dark."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from html import escape
from importlib.metadata import version
from pathlib import Path

from partitioners.simulation import Figures
from pipelines.html.charts import bar_chart, legend, line_chart
from pipelines.html.frame import document
from pipelines.simulation.tables import COLUMNS, LEGEND, cell_row


def write_page(path: Path, cells: Sequence[Figures]) -> None:
    """Write cells as a page.

    Args:
        path: The file.
        cells: Their figures.
    """
    path.write_text(page(cells), encoding="utf-8")


def page(cells: Sequence[Figures]) -> str:
    """Lay cells out as a page: the table, then plots per stream, then the raw figures.

    Args:
        cells: Their figures.

    Returns:
        HTML.
    """
    colours = {name: index for index, name in enumerate(_names(cells))}
    sections = [_table(cells)]
    if cells:
        sections.append(f"<h2>Plots</h2>{legend(colours)}")
    sections += [
        _stream(stream, [cell for cell in cells if cell.stream == stream], colours)
        for stream in dict.fromkeys(cell.stream for cell in cells)
    ]
    raw = json.dumps([cell.as_json() for cell in cells]).replace("</", "<\\/")
    return document(
        "keyspread simulate",
        f"<h1>keyspread simulate</h1>{_subtitle(cells)}{''.join(sections)}"
        f'<script type="application/json" id="cells">{raw}</script>',
    )


def _subtitle(cells: Sequence[Figures]) -> str:
    if not cells:
        return '<p class="faint">No cells.</p>'
    first = cells[0]
    return (
        f'<p class="faint">{len(cells)} cells · windows of {first.window_ms:,} ms sliding by '
        f"{first.slide_ms:,} ms · keyspread {version('keyspread')}. Times are of the cost model "
        "in the command's options, not of a clock.</p>"
    )


def _table(cells: Sequence[Figures]) -> str:
    heads = "".join(
        f'<th class="{side}">{escape(name)}</th>' if side == "left" else f"<th>{escape(name)}</th>"
        for name, side in COLUMNS
    )
    rows = "".join(
        "<tr>"
        + "".join(
            f'<td class="left">{escape(text)}</td>' if side == "left" else f"<td>{text}</td>"
            for text, (_, side) in zip(cell_row(cell), COLUMNS, strict=True)
        )
        + "</tr>"
        for cell in cells
    )
    return (
        f'<div class="scroll"><table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody>'
        f'</table></div><p class="faint">{escape(LEGEND)}</p>'
    )


def _stream(name: str, cells: Sequence[Figures], colours: Mapping[str, int]) -> str:
    first = cells[0]
    head = (
        f"<h2>{escape(name)}</h2><p>{first.num_records:,} records, {first.num_keys:,} keys, the "
        f"hottest with {first.top_fraction:.2%}.</p>"
    )
    charts = []
    if len({cell.num_partitions for cell in cells}) > 1:
        charts += _against(cells, colours, "num_partitions", "partitions")
    if len({cell.num_sources for cell in cells}) > 1:
        charts += _against(cells, colours, "num_sources", "sources")
    for partitions, sources in dict.fromkeys((c.num_partitions, c.num_sources) for c in cells):
        same = [c for c in cells if (c.num_partitions, c.num_sources) == (partitions, sources)]
        charts += _one_size(same, colours, f"{partitions} partitions, {_sources(sources)}")
    return f'{head}<div class="charts">{"".join(charts)}</div>'


def _against(
    cells: Sequence[Figures], colours: Mapping[str, int], field: str, label: str
) -> list[str]:
    other = "num_sources" if field == "num_partitions" else "num_partitions"
    fixed = getattr(cells[0], other)
    same = [cell for cell in cells if getattr(cell, other) == fixed]
    place = _sources(fixed) if other == "num_sources" else f"{fixed} partitions"
    return [
        line_chart(
            f"{title} over {label} ({place})",
            {
                name: [
                    (getattr(cell, field), getattr(cell, value))
                    for cell in same
                    if cell.partitioner == name
                ]
                for name in _names(same)
            },
            x_label=label,
            y_label=title,
            colours=colours,
            log_y=log_y,
            from_y=from_y,
        )
        for title, value, log_y, from_y in (
            ("imbalance of windows", "imbalance_windows", True, 0.0),
            ("fragmentation", "fragmentation", False, 1.0),
            ("efficiency", "efficiency", False, 0.0),
        )
    ]


def _one_size(cells: Sequence[Figures], colours: Mapping[str, int], place: str) -> list[str]:
    throughput = [(cell.partitioner, cell.throughput / 1e6) for cell in cells]
    return [
        line_chart(
            f"imbalance of windows over time: {place}",
            _over_time(cells, "imbalance"),
            x_label="end of the window, s",
            y_label="imbalance",
            colours=colours,
            log_y=True,
        ),
        line_chart(
            f"fragmentation over time: {place}",
            _over_time(cells, "fragmentation"),
            x_label="end of the window, s",
            y_label="partitions per key",
            colours=colours,
            from_y=1.0,
        ),
        bar_chart(
            f"throughput by the model: {place}",
            throughput,
            x_label="million records per second",
            colours=colours,
        ),
    ]


def _over_time(cells: Sequence[Figures], name: str) -> dict[str, list[tuple[float, float]]]:
    return {
        cell.partitioner: [
            (end_ms / 1_000, value)
            for end_ms, value in zip(cell.over_time["end_ms"], cell.over_time[name], strict=True)
        ]
        for cell in cells
    }


def _sources(count: int) -> str:
    return f"{count} source" if count == 1 else f"{count} sources"


def _names(cells: Sequence[Figures]) -> list[str]:
    return list(dict.fromkeys(cell.partitioner for cell in cells))
