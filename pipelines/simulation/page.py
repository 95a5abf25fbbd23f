"""Cells as one HTML page with plots; it opens without a network, in light and dark."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from html import escape
from importlib.metadata import version
from pathlib import Path

from partitioners.simulation import Figures
from pipelines.simulation.charts import bar_chart, legend, line_chart
from pipelines.simulation.tables import COLUMNS, LEGEND, cell_row

# Okabe and Ito's colours first, which colour-blind readers tell apart.
_COLOURS = (
    "#0072b2 #e69f00 #009e73 #cc79a7 #d55e00 #56b4e9 "
    "#8c6bb1 #a6761d #66a61e #e7298a #7f7f7f #b3a100"
)

STYLE = (
    """
:root { color-scheme: light dark; --back: #ffffff; --text: #1d1f23; --faint: #6b7078;
  --line: #dfe2e7; --panel: #f6f7f9; }
@media (prefers-color-scheme: dark) { :root { --back: #15171b; --text: #e7e9ec;
  --faint: #9aa1ab; --line: #343941; --panel: #1e2126; } }
body { background: var(--back); color: var(--text); font: 15px/1.5 system-ui, sans-serif;
  margin: 0 auto; max-width: 1240px; padding: 24px; }
h1 { font-size: 1.6em; margin: 0 0 4px; } h2 { margin: 36px 0 8px; font-size: 1.2em; }
p { max-width: 80ch; } .faint { color: var(--faint); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: 13px; font-variant-numeric: tabular-nums; }
th, td { padding: 4px 9px; text-align: right; border-bottom: 1px solid var(--line);
  white-space: nowrap; } th { position: sticky; top: 0; background: var(--panel); }
.left { text-align: left; }
.charts { display: grid; gap: 16px; grid-template-columns: repeat(auto-fit, minmax(430px, 1fr)); }
@media (max-width: 520px) { .charts { grid-template-columns: 1fr; } }
figure { background: var(--panel); border-radius: 8px; margin: 0; padding: 12px; }
figcaption { font-weight: 600; margin-bottom: 4px; } figure svg { width: 100%; height: auto; }
.grid { stroke: var(--line); } .axis { stroke: var(--faint); }
.tick, .label, .name { fill: var(--faint); font-size: 11px; } .name { fill: var(--text); }
.line { fill: none; stroke-width: 2; } .legend { display: flex; flex-wrap: wrap; gap: 4px 18px;
  list-style: none; padding: 0; } .legend li { display: flex; gap: 6px; align-items: center; }
"""
    + "\n".join(
        f".line.c{number} {{ stroke: {colour}; }} .dot.c{number}, .bar.c{number} "
        f"{{ fill: {colour}; }}"
        for number, colour in enumerate(_COLOURS.split())
    )
    + "\n"
)


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
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>keyspread simulate</title><style>{STYLE}</style></head><body>"
        f"<h1>keyspread simulate</h1>{_subtitle(cells)}{''.join(sections)}"
        f'<script type="application/json" id="cells">{raw}</script></body></html>\n'
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
