"""How long a report of 200 cells takes to open in Chromium, in ms.

    python scripts/report_200_cells.py [GRID] [--cells 200] [--rounds 5] [--repetitions]

The cells are those of a real grid, GRID (its folder), each repeated until there are so many;
without one, a small grid of words is run first. Every copy of the grid is a setting of its own
(under another lateness), with its section and plots; with --repetitions the copies are repetitions
of the same settings. Each round opens the page in the same browser profile, which the first finds
empty. Its figure is the time from the navigation to the `load` event, as the browser itself has it,
and to the first contentful paint where there was one by then.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from pipelines.benchmark.html_report import write_report
from pipelines.benchmark.report_folder import read_report_folder

ROOT = Path(__file__).resolve().parent.parent
SMALL = ("--partitioner", "key_hash,pkg,cam,hot_fill", "--partitions", "4,8")
# The load event is over when this runs. What it writes is the last thing in the page's text.
PROBE = """
<script>
addEventListener("load", () => {
  const loaded = performance.now();
  const paint = performance.getEntriesByName("first-contentful-paint")[0];
  const pre = document.createElement("pre");
  pre.id = "probe"; pre.textContent = JSON.stringify([loaded, paint ? paint.startTime : null]);
  document.body.append(pre);
});
</script>
"""


def run_small_grid(runs_dir: Path) -> Path:
    """Run a grid of eight cells; gives its folder."""
    keyspread = Path(sys.executable).with_name("keyspread")
    where = ("--runs-dir", str(runs_dir), "--id", "small", "--json")
    command = [str(keyspread), "grid", "run", "wordcount", *SMALL, *where]
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True, cwd=ROOT)
    return runs_dir / "small"


def repeat_cells(grid: Path, folder: Path, number: int, as_repetitions: bool) -> Path:
    """Write a report of so many cells.

    Args:
        grid: Folder of the grid whose cells are repeated.
        folder: For the cells and the report.
        number: Of cells.
        as_repetitions: Of the same settings; else each copy is under another lateness.

    Returns:
        The report.
    """
    cells = read_report_folder(grid).cells
    (folder / "cells").mkdir(parents=True)
    for index in range(number):
        copy, cell = index // len(cells), cells[index % len(cells)]
        if as_repetitions:
            cell = replace(cell, repetition=copy + 1)
        else:
            cell = replace(cell, config={**cell.config, "lateness_ms": copy * 1_000})
        (folder / "cells" / f"{index + 1}.json").write_text(cell.to_json(), encoding="utf-8")
    return write_report(folder)


def open_page(browser: str, page: Path, profile: Path) -> tuple[float, float | None]:
    """Open a page that has the probe; gives ms until it was loaded, and until its first paint."""
    quiet = ("--disable-background-networking", "--disable-component-update", "--disable-sync")
    headless = ("--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}")
    done = subprocess.run(
        [browser, *headless, *quiet, "--dump-dom", page.as_uri()],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    found = re.search(r'<pre id="probe">(.*?)</pre>', done.stdout)
    if found is None:
        sys.exit(f"report_200_cells: the page did not load:\n{done.stderr}")
    loaded, painted = json.loads(found.group(1))
    return loaded, painted


def main() -> None:
    """Print each round, and the median."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("grid", nargs="?", type=Path)
    parser.add_argument("--cells", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--repetitions", action="store_true")
    given = parser.parse_args()
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        sys.exit("report_200_cells: no Chromium: install it, as in `apt-get install chromium`")
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        grid = given.grid or run_small_grid(folder / "runs")
        page = repeat_cells(grid, folder / "report", given.cells, given.repetitions)
        size = page.stat().st_size
        page.write_text(page.read_text(encoding="utf-8").replace("</body>", f"{PROBE}</body>"))
        print(f"{given.cells} cells, {size / 2**20:.1f} MiB of HTML")
        times = []
        for number in range(1, given.rounds + 1):
            loaded, painted = open_page(browser, page, folder / "profile")
            times.append(loaded)
            paint = "not painted yet" if painted is None else f"first paint {painted:,.0f} ms"
            print(f"round {number}: loaded {loaded:,.0f} ms, {paint}")
        print(f"median: loaded {statistics.median(times):,.0f} ms")


if __name__ == "__main__":
    main()
