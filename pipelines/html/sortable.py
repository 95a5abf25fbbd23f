"""A table whose columns sort by buttons in their heads: by mouse, keyboard and screen reader."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

# A missing figure is last in either order; equal rows keep their order.
SCRIPT = """
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells], body = table.tBodies[0];
  const said = table.parentElement.querySelector("[role=status]");
  heads.forEach((head, column) => head.querySelector("button").addEventListener("click", () => {
    const down = head.getAttribute("aria-sort") === "ascending";
    const numeric = head.dataset.kind === "number";
    const value = row => row.cells[column].dataset.v ?? row.cells[column].textContent;
    const rows = [...body.rows].map(row => [value(row), row]);
    rows.sort(([a], [b]) => {
      if (a === "" || b === "") return (a === "") - (b === "");
      const order = numeric ? a - b : a.localeCompare(b, "en", {numeric: true});
      return down ? -order : order;
    });
    heads.forEach(each => each.setAttribute("aria-sort", "none"));
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    body.append(...rows.map(([, row]) => row));
    said.textContent = `sorted by ${head.textContent}, ${down ? "descending" : "ascending"}`;
  }));
}
"""


@dataclass(frozen=True)
class Entry:
    """What stands in a place of a table.

    Attributes:
        text: What is read; escaped where it is written.
        value: What it sorts by; None where the figure is missing.
        style: A class of the page's style, such as "bad".
        link: Where the text leads.
    """

    text: str
    value: float | str | None
    style: str = ""
    link: str = ""


def words(text: str, *, style: str = "", link: str = "") -> Entry:
    """Make an entry that sorts by its text."""
    return Entry(text, text, style, link)


def figure(value: float | None, text: str = "{:,.0f}") -> Entry:
    """Make an entry of a figure; a dash where there is none.

    Args:
        value: The figure.
        text: How it is written.

    Example:
        >>> figure(1234.5).text, figure(None).text
        ('1,234', '-')
    """
    if value is None or value != value:
        return Entry("-", None)
    return Entry(text.format(value), value)


def table(
    caption: str, columns: Sequence[str], rows: Sequence[Sequence[Entry]], *, sorts: bool = True
) -> str:
    """Lay rows out; the first entry of each is its head.

    Args:
        caption: What the table shows.
        columns: Names of the columns.
        rows: Their entries.
        sorts: Whether columns get buttons to sort by; `SCRIPT` has to be in the page.

    Returns:
        HTML.
    """
    numeric = [
        all(not isinstance(row[column].value, str) for row in rows)
        for column in range(len(columns))
    ]
    heads = "".join(
        f'<th scope="col"{"" if is_number else _LEFT}'
        + (
            f' aria-sort="none" data-kind="{"number" if is_number else "text"}">'
            f'<button type="button">{escape(name)}</button></th>'
            if sorts
            else f">{escape(name)}</th>"
        )
        for name, is_number in zip(columns, numeric, strict=True)
    )
    body = "".join(
        "<tr>"
        + "".join(
            _entry(entry, is_head=not column, is_number=numeric[column], sorts=sorts)
            for column, entry in enumerate(row)
        )
        + "</tr>"
        for row in rows
    )
    status = '<p class="hidden" role="status"></p>' if sorts else ""
    return (
        f'<div class="scroll" role="region" aria-label="{escape(caption)}" tabindex="0">'
        f"<table{' class=' + chr(34) + 'sortable' + chr(34) if sorts else ''}>"
        f"<caption><span>{escape(caption)}</span></caption><thead><tr>{heads}</tr></thead>"
        f"<tbody>{body}</tbody></table>{status}</div>"
    )


_LEFT = ' class="left"'


def _entry(entry: Entry, *, is_head: bool, is_number: bool, sorts: bool) -> str:
    classes = " ".join(filter(None, ("" if is_number else "left", entry.style)))
    attributes = f' class="{classes}"' if classes else ""
    if sorts and (is_number or entry.value is None):
        attributes += f' data-v="{"" if entry.value is None else escape(str(entry.value))}"'
    text = escape(entry.text)
    if entry.link:
        text = f'<a href="{escape(entry.link)}">{text}</a>'
    return f'<th scope="row"{attributes}>{text}</th>' if is_head else f"<td{attributes}>{text}</td>"
