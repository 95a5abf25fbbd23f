"""Cells for a terminal, and as Markdown with a column per partitioner."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from partitioners.simulation import Figures

COLUMNS = (
    ("stream", "left"),
    ("partitioner", "left"),
    ("n", "right"),
    ("sources", "right"),
    ("imbalance", "right"),
    ("windows", "right"),
    ("worst", "right"),
    ("replicas", "right"),
    ("frag.", "right"),
    ("partials", "right"),
    ("combine", "right"),
    ("reduce", "right"),
    ("M rec/s", "right"),
    ("effic.", "right"),
    ("slowest", "left"),
    ("state", "right"),
)

LEGEND = (
    "imbalance: (max - mean) / mean of the whole stream; windows, worst: the same of its windows, "
    "mean and largest. replicas: partitions of a key; frag.: the same within a window. partials: "
    "rows per window. combine, reduce: work of the slowest worker over that of the mean. M rec/s: "
    "what the slowest worker lets pass at the prices given; effic.: over that of perfect balance "
    "without partials. state: of all sources."
)


def cell_row(cell: Figures) -> tuple[str, ...]:
    """Give one cell as the texts of ``COLUMNS``.

    Args:
        cell: Its figures.
    """
    return (
        cell.stream,
        cell.partitioner,
        str(cell.num_partitions),
        str(cell.num_sources),
        f"{cell.imbalance:.3f}",
        f"{cell.imbalance_windows:.3f}",
        f"{cell.imbalance_worst:.3f}",
        f"{cell.replication_factor:.3f}",
        f"{cell.fragmentation:.3f}",
        f"{cell.partials_per_window:,.0f}",
        ratio(cell.combine_us),
        ratio(cell.reduce_us),
        f"{cell.throughput / 1e6:.3g}",
        f"{cell.efficiency:.2f}",
        cell.bottleneck,
        bytes_text(cell.state_bytes),
    )


def cells_table(cells: Sequence[Figures]) -> Table:
    """Lay cells out as a table.

    Args:
        cells: Their figures.
    """
    table = Table(box=None, header_style="bold", padding=(0, 1, 0, 0), caption=LEGEND)
    table.caption_justify = "left"
    for name, justify in COLUMNS:
        table.add_column(name, justify="right" if justify == "right" else "left")
    for cell in cells:
        table.add_row(*cell_row(cell))
    return table


def balance_markdown(cells: Sequence[Figures]) -> str:
    """Lay out balance and splitting: a table per number of partitions and sources.

    Args:
        cells: Their figures.

    Returns:
        Markdown: a row per stream, a column per partitioner.
    """
    lines = [
        "Cells: imbalance of the whole stream / mean of its windows / mean fragmentation of its "
        "windows.",
    ]
    for partitions, sources in dict.fromkeys((c.num_partitions, c.num_sources) for c in cells):
        part = {
            (cell.stream, cell.partitioner): cell
            for cell in cells
            if (cell.num_partitions, cell.num_sources) == (partitions, sources)
        }
        streams = dict.fromkeys(stream for stream, _ in part)
        names = dict.fromkeys(name for _, name in part)
        lines += [
            "",
            f"n = {partitions}, sources: {sources}",
            "",
            f"| stream | {' | '.join(names)} |",
            "|---|" + "---|" * len(names),
        ]
        for stream in streams:
            found = (part[stream, name] for name in names)
            texts = (
                f"{c.imbalance:.3f} / {c.imbalance_windows:.3f} / {c.fragmentation:.3f}"
                for c in found
            )
            lines.append(f"| {stream} | {' | '.join(texts)} |")
    return "\n".join(lines) + "\n"


def ratio(work_us: tuple[float, float]) -> str:
    """Give the slowest over the mean; a dash where there is no work."""
    mean, slowest = work_us
    return f"{slowest / mean:.2f}" if mean > 0 else "-"


def bytes_text(count: int) -> str:
    """Give a size with a unit.

    Example:
        >>> bytes_text(900), bytes_text(123_456), bytes_text(2_500_000)
        ('900 B', '123 kB', '2.5 MB')
    """
    if count < 1_000:
        return f"{count} B"
    return f"{count / 1e3:,.0f} kB" if count < 1_000_000 else f"{count / 1e6:,.1f} MB"
