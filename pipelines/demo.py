"""The main job on the data that ships: four runs on one broker and one Spark session."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from pipelines.benchmark.prepare import make_run_folder, new_run_id
from pipelines.benchmark.site import Site, open_site
from pipelines.interrupt import stoppable
from pipelines.run_lock import RunLock

if TYPE_CHECKING:
    from pipelines.benchmark.cell import Cell
    from pipelines.benchmark.prepare import RunConfig

# Each workload hashed, as everybody does it, and split.
RUNS = (
    ("debs-q1", "key_hash"),
    ("debs-q1", "cam"),
    ("wordcount", "key_hash"),
    ("wordcount", "pkg"),
)
PARTITIONS = 8


def run_demo(runs_dir: Path, master: str, *, console: Console, quiet: bool) -> list[Cell]:
    """Run all four, show each on stdout, and compare.

    Args:
        runs_dir: Where the runs are kept.
        master: Spark master.
        console: Where progress goes.
        quiet: Show nothing.

    Returns:
        Their cells.

    Raises:
        InputError: The machine lacks something.
        RunError: A run failed.
        Interrupted: Ctrl-C or SIGTERM.
    """
    demo_id = new_run_id()
    cells: list[Cell] = []
    configs: list[RunConfig] = []

    def say(text: str) -> None:
        if not quiet:
            console.print(f"{text} ...", style="dim", highlight=False)

    # Nobody resumes a demo: its broker's data and Spark's files go when it ends.
    scratch = runs_dir / f".demo-{demo_id}"
    try:
        with (
            stoppable(),
            open_site(
                bootstrap=None,
                kafka={},
                broker_dir=scratch / "broker",
                master=master,
                spark_dir=scratch / "spark",
                say=say,
                quick_start=True,
                meanwhile=lambda: configs.extend(_prepare(demo_id)),
            ) as site,
        ):
            from pipelines.benchmark.report import run_summary
            from pipelines.consoles import stdout_console

            results = stdout_console()
            for cell in _run_all(configs, site, runs_dir, console, quiet):
                cells.append(cell)
                if not quiet:
                    results.print(run_summary(cell))
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    if not quiet:
        _compare(cells)
        results.print(f"report of each run: {runs_dir / demo_id}-*/report.html", highlight=False)
    return cells


def _prepare(demo_id: str) -> list[RunConfig]:
    """Import what runs need, configure and check them.

    Raises:
        InputError: The shipped data cannot be read.
    """
    import pipelines.benchmark.run  # noqa: F401 - imported here, it costs nobody any time
    from pipelines.benchmark.parts import check_run, shipped_config

    configs = [
        shipped_config(f"{demo_id}-{number}", *names, PARTITIONS)
        for number, names in enumerate(RUNS, 1)
    ]
    for config in configs:
        check_run(config)
    return configs


def _run_all(
    configs: list[RunConfig], site: Site, runs_dir: Path, console: Console, quiet: bool
) -> Iterator[Cell]:
    from pipelines.benchmark.html_report import write_report
    from pipelines.benchmark.progress import RunProgress, input_bytes, progress_bars
    from pipelines.benchmark.run import execute
    from pipelines.benchmark.verify import Answers

    # Both runs of a workload must have the same: the oracle is asked once.
    with contextlib.closing(Answers(runs_dir)) as answers:
        for config in configs:
            folder = make_run_folder(runs_dir, config)
            with RunLock(folder), progress_bars(console, shown=not quiet) as bars:
                title = f"{config.workload} {config.partitioner}"
                size = input_bytes(config.inputs)
                progress = RunProgress(bars, title, size, shown=not quiet)
                cell = execute(
                    config, folder, site, resumed=False, progress=progress, answers=answers
                )
            shutil.rmtree(folder / "checkpoint", ignore_errors=True)
            # Without it the figures are there all the same: `keyspread report` shows them.
            with contextlib.suppress(OSError):
                write_report(folder)
            yield cell


def _compare(cells: list[Cell]) -> None:
    from pipelines.benchmark.report import cells_table
    from pipelines.consoles import stdout_console

    results = stdout_console()
    results.print(cells_table(cells))
    for hashed, split in zip(cells[::2], cells[1::2], strict=True):
        results.print(
            Text(
                f"{hashed.workload}: imbalance {hashed.imbalance:.3f} with {hashed.partitioner}, "
                f"{split.imbalance:.3f} with {split.partitioner}, which puts a key on "
                f"{split.replication_factor:.2f} partitions"
            )
        )
