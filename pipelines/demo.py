"""The main job on the data that ships: four runs on one broker and one Spark session."""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path

from rich.console import Console
from rich.text import Text

from pipelines.benchmark.cell import Cell
from pipelines.benchmark.parts import check_run, shipped_config
from pipelines.benchmark.prepare import make_run_folder, new_run_id
from pipelines.benchmark.progress import RunProgress, input_bytes, progress_bars
from pipelines.benchmark.report import cells_table, run_summary
from pipelines.benchmark.run import execute
from pipelines.benchmark.site import QUICK_START, open_site
from pipelines.benchmark.verify import Answers
from pipelines.interrupt import stoppable
from pipelines.run_lock import RunLock

# Each workload hashed, as everybody does it, and split.
RUNS = (
    ("debs-q1", "key_hash"),
    ("debs-q1", "cam"),
    ("wordcount", "key_hash"),
    ("wordcount", "pkg"),
)
PARTITIONS = 8


def run_demo(
    runs_dir: Path, master: str, *, console: Console, results: Console, quiet: bool
) -> list[Cell]:
    """Run all four, show each, and compare.

    Args:
        runs_dir: Where the runs are kept.
        master: Spark master.
        console: Where progress goes.
        results: Where results go.
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
    configs = [
        shipped_config(f"{demo_id}-{number}", *names, PARTITIONS)
        for number, names in enumerate(RUNS, 1)
    ]
    for config in configs:
        check_run(config)

    def say(text: str) -> None:
        if not quiet:
            console.print(f"{text} ...", style="dim", highlight=False)

    # Nobody resumes a demo: its broker's data and Spark's files go when it ends.
    scratch = runs_dir / f".demo-{demo_id}"
    # Both runs of a workload must have the same: the oracle is asked once.
    answers = Answers()
    try:
        with (
            contextlib.closing(answers),
            stoppable(),
            open_site(
                bootstrap=None,
                kafka={},
                broker_dir=scratch / "broker",
                master=master,
                spark_dir=scratch / "spark",
                say=say,
                spark_config=QUICK_START,
            ) as site,
        ):
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
                cells.append(cell)
                if not quiet:
                    results.print(run_summary(cell))
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    if not quiet:
        _compare(cells, results)
    return cells


def _compare(cells: list[Cell], results: Console) -> None:
    results.print(cells_table(cells))
    for hashed, split in zip(cells[::2], cells[1::2], strict=True):
        results.print(
            Text(
                f"{hashed.workload}: imbalance {hashed.imbalance:.3f} with {hashed.partitioner}, "
                f"{split.imbalance:.3f} with {split.partitioner}, which puts a key on "
                f"{split.replication_factor:.2f} partitions"
            )
        )
