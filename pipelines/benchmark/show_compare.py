"""Shows a comparison to people: as text, and as a page."""

from __future__ import annotations

from html import escape

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from pipelines.benchmark.compare import Comparison, Difference
from pipelines.html.frame import document
from pipelines.html.sortable import SCRIPT, Entry, figure, table, words

_STYLES = {"SLOWER": "bad", "worse": "", "better": "good"}


def comparison_text(comparison: Comparison) -> RenderableType:
    """Lay a comparison out for a terminal.

    Args:
        comparison: What changed.
    """
    parts: list[RenderableType] = [
        Text(f"{comparison.before} → {comparison.after}", style="bold"),
    ]
    for setting, (before, after) in comparison.repetitions.items():
        rows = Table(
            box=None,
            header_style="dim",
            padding=(0, 2, 0, 0),
            title=Text(f"\n{setting} · repetitions: {before}, {after}"),
            title_justify="left",
            title_style="bold",
        )
        rows.add_column("figure", no_wrap=True)
        for name in ("before", "after", "change"):
            rows.add_column(name, justify="right", no_wrap=True)
        rows.add_column("")
        for each in comparison.differences:
            if each.setting == setting:
                rows.add_row(*map(Text, _texts(each)), style="red" if each.is_slowdown else None)
        parts.append(rows)
    parts += [Text(f"only in {comparison.before}: {name}") for name in comparison.only_before]
    parts += [Text(f"only in {comparison.after}: {name}") for name in comparison.only_after]
    style = "red" if comparison.has_regression else "green"
    parts += [Text(), Text(comparison.sentence, style=style), Text(comparison.method, style="dim")]
    return Group(*parts)


def comparison_page(comparison: Comparison) -> str:
    """Lay a comparison out as a page.

    Args:
        comparison: What changed.

    Returns:
        HTML.
    """
    title = f"{comparison.before} → {comparison.after}"
    rows = [
        [
            words(each.setting),
            words(each.figure.name),
            figure(each.before, each.figure.text),
            figure(each.after, each.figure.text),
            Entry(
                each.figure.write_change(each.change),
                None if each.change is None else each.change.estimate,
            ),
            words(each.verdict, style=_STYLES.get(each.verdict, "")),
            words(" and ".join(map(str, comparison.repetitions[each.setting]))),
        ]
        for each in comparison.differences
    ]
    alone = [
        f"<li>only in {escape(run)}: {escape(name)}</li>"
        for run, names in (
            (comparison.before, comparison.only_before),
            (comparison.after, comparison.only_after),
        )
        for name in names
    ]
    verdict = "bad" if comparison.has_regression else "good"
    return document(
        f"keyspread {title}",
        f"<h1>{escape(title)}</h1>"
        f'<p class="verdict {verdict}">{escape(comparison.sentence)}</p>'
        + (f"<ul>{''.join(alone)}</ul>" if alone else "")
        + "<h2>Differences</h2>"
        + table(
            "Each figure of each setting: means over repetitions, and the change with its bounds",
            ("setting", "figure", "before", "after", "change", "verdict", "repetitions"),
            rows,
        )
        + f'<h2>How to read it</h2><p class="faint">{escape(comparison.method)}</p>',
        SCRIPT,
    )


def _texts(difference: Difference) -> tuple[str, ...]:
    figure = difference.figure
    return (
        figure.name,
        figure.write(difference.before),
        figure.write(difference.after),
        figure.write_change(difference.change),
        difference.verdict,
    )
