"""The report in a real browser: sorting by its buttons, in light, dark and on a phone."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Sequence
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from pipelines.benchmark.cell import Cell
from pipelines.benchmark.html_report import report_page
from pipelines.benchmark.report_folder import ReportFolder, Written
from tests.cells import make_cell

pytestmark = pytest.mark.browser

# Rates of the cells in their order; None: the figure is missing.
P99 = [300.0, None, 20.0, 1_000.0, 20.0]
PROBE = """
<script>
addEventListener("load", () => {
  const out = {};
  const table = document.querySelector("table.sortable");
  const heads = [...table.tHead.rows[0].cells];
  const find = name => heads.findIndex(head => head.textContent === name);
  const column = name => [...table.tBodies[0].rows].map(row => row.cells[find(name)].textContent);
  const sorts = () => heads.map(head => head.getAttribute("aria-sort"));
  const press = name => { const button = heads[find(name)].querySelector("button");
    button.focus(); out.focused = document.activeElement === button; button.click(); };
  const status = table.parentElement.querySelector("[role=status]");
  press("p99, ms");
  out.up = column("p99, ms"); out.up_repetitions = column("repetition");
  out.said_up = status.textContent;
  press("p99, ms");
  out.down = column("p99, ms"); out.down_repetitions = column("repetition");
  out.said_down = status.textContent;
  out.sorted = sorts().filter(each => each !== "none");
  press("partitioner");
  out.words = column("partitioner"); out.sorted_after = sorts().filter(each => each !== "none");
  const style = getComputedStyle(document.body);
  out.back = style.backgroundColor;
  out.wider_than_the_window = document.documentElement.scrollWidth > innerWidth;
  const pre = document.createElement("pre");
  pre.id = "out"; pre.textContent = JSON.stringify(out);
  document.body.append(pre);
});
</script>
"""


def browse(folder: Path, page: Path, *options: str) -> str:
    """Open a page without a window; gives what the browser printed."""
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    assert browser, "no Chromium: install it, as in `apt-get install chromium`"
    done = subprocess.run(
        [
            browser,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            f"--user-data-dir={folder / 'profile'}",
            *options,
            page.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return done.stdout


def report_of(folder: Path, cells: Sequence[Cell]) -> str:
    """The page of a grid of these cells."""
    written = tuple(Written(cell, f"cells/{n}.json") for n, cell in enumerate(cells, 1))
    return report_page(ReportFolder(folder, written, (), ()))


def opened(folder: Path, *options: str) -> dict[str, Any]:
    """What the probe found in the page."""
    names = ("pkg", "key_hash", "cam", "am", "lm")
    cells = [
        make_cell(partitioner=name, repetition=number, latency_ms={"p50": 1.0, "p99": p99})
        for number, (name, p99) in enumerate(zip(names, P99, strict=True), 1)
    ]
    page = folder / "probe.html"
    text = report_of(folder, cells).replace("</body>", f"{PROBE}</body>")
    page.write_text(text, encoding="utf-8")
    out = browse(folder, page, *options, "--dump-dom")
    found = re.search(r'<pre id="out">(.*?)</pre>', out, re.DOTALL)
    assert found, out
    values: dict[str, Any] = json.loads(unescape(found.group(1)))
    return values


def test_buttons_sort_and_say_so(tmp_path: Path) -> None:
    found = opened(tmp_path)
    assert found["focused"]
    # Missing figures are last in either order, and equal ones keep theirs.
    assert found["up"] == ["20", "20", "300", "1,000", "-"]
    assert found["up_repetitions"] == ["3", "5", "1", "4", "2"]
    assert found["down"] == ["1,000", "300", "20", "20", "-"]
    assert found["down_repetitions"] == ["4", "1", "3", "5", "2"]
    assert found["said_up"] == "sorted by p99, ms, ascending"
    assert found["said_down"] == "sorted by p99, ms, descending"
    assert found["sorted"] == ["descending"]
    assert found["words"] == ["am", "cam", "key_hash", "lm", "pkg"]
    assert found["sorted_after"] == ["ascending"]


def test_it_is_light_or_dark_as_the_reader_has_it(tmp_path: Path) -> None:
    light = opened(tmp_path, "--blink-settings=preferredColorScheme=1")
    dark = opened(tmp_path, "--blink-settings=preferredColorScheme=0")
    assert light["back"] == "rgb(255, 255, 255)"
    assert dark["back"] == "rgb(21, 23, 27)"


def test_a_phone_scrolls_tables_and_not_the_page(tmp_path: Path) -> None:
    assert not opened(tmp_path, "--window-size=500,900")["wider_than_the_window"]


def test_the_head_of_the_cells_is_on_every_page_on_paper(tmp_path: Path) -> None:
    page, paper = tmp_path / "report.html", tmp_path / "report.pdf"
    cells = [make_cell(repetition=number) for number in range(1, 101)]
    page.write_text(report_of(tmp_path, cells), encoding="utf-8")
    browse(tmp_path, page, "--no-pdf-header-footer", f"--print-to-pdf={paper}")
    assert shutil.which("pdftotext"), "install it, as in `apt-get install poppler-utils`"
    command = ["pdftotext", "-layout", str(paper), "-"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    sheets = [sheet for sheet in done.stdout.split("\f") if " / 60 " in sheet]
    assert len(sheets) >= 3
    for sheet in sheets:
        before, head, _after = re.split(r"(workload +partitioner +partitions .* figures)", sheet)
        assert " / 60 " not in before
        assert "records/s" in head
