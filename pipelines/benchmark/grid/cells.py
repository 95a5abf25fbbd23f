"""Carries out cells of a grid: each on a new topic and a new checkpoint, whatever came before.

A cell is the `execute` of `keyspread run`. What a cell needed goes when it is done or stopped; of
one that failed, topic, checkpoint and logs stay to be looked at, until it is tried again or the
grid is cleaned.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from partitioners.errors import KeyspreadError
from pipelines.benchmark.cell import Cell
from pipelines.benchmark.grid.folder import GridFolder, empty
from pipelines.benchmark.grid.plan import PlannedCell
from pipelines.benchmark.prepare import RunConfig
from pipelines.benchmark.progress import RunProgress, input_bytes, progress_bars
from pipelines.benchmark.run import execute
from pipelines.benchmark.site import Site, open_site
from pipelines.benchmark.verify import Answers
from pipelines.interrupt import Interrupted, stoppable
from pipelines.run_lock import RunLock
from pipelines.topics import remove_topics

if TYPE_CHECKING:
    from rich.console import Console

    from pipelines.metrics import MetricsServer

# A stop is to be over soon, also where the broker no longer answers.
LAST_ANSWER_SECONDS = 5.0
SPARK_LOG = "spark.log"  # where `open_site` has it, beside Spark's folder


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where cells take place, as far as it is not as planned, and who is told.

    Attributes:
        bootstrap: Kafka servers; None: those of the plan, the started broker, or an own one.
        kafka: librdkafka settings beside those of the plan, which holds no secrets.
        master: Spark master; None: that of the plan.
        console: Where progress goes.
        quiet: Show none.
        metrics: Where the run at work is shown.
        open_site: Starts broker and Spark as far as they are not there.
    """

    bootstrap: str | None
    kafka: Mapping[str, str]
    master: str | None
    console: Console
    quiet: bool
    metrics: MetricsServer | None = None
    open_site: Callable[..., AbstractContextManager[Site]] = open_site

    def config(self, planned: PlannedCell) -> RunConfig:
        """The run of a cell, here."""
        config = planned.config
        return replace(
            config,
            bootstrap=self.bootstrap or config.bootstrap,
            master=self.master or config.master,
            kafka={**config.kafka, **self.kafka},
        )

    def say(self, text: str) -> None:
        """Tell what is going on."""
        if not self.quiet:
            self.console.print(f"{text} ...", style="dim", highlight=False, soft_wrap=True)


def run_cell(grid: GridFolder, number: int, place: Place) -> Cell:
    """Run one cell with a Spark of its own.

    Args:
        grid: Its grid.
        number: Which.
        place: Servers and master.

    Returns:
        Its figures, which are also in the grid's folder.

    Raises:
        InputError: Something is no good, or the cell is being run already.
        RunError: The run failed.
        Interrupted: Ctrl-C or SIGTERM; nothing of the cell is left.
    """
    planned = grid.plan.cell(number)
    config = place.config(planned)
    work = grid.work_path(number)
    work.mkdir(parents=True, exist_ok=True)
    with RunLock(work) as lock:
        grid.forget(number)
        with (
            _told(grid, planned, work / SPARK_LOG),
            stoppable(),
            place.open_site(
                bootstrap=config.bootstrap,
                kafka=config.kafka,
                broker_dir=work / "broker",
                master=config.master,
                spark_dir=work / "spark",
                say=place.say,
            ) as site,
        ):
            lock.note(os.getpid(), *site.pids)
            cell = _carry_out(grid, planned, config, site, place)
        empty(work)
    shutil.rmtree(work, ignore_errors=True)
    return cell


def run_cells(
    grid: GridFolder,
    numbers: Sequence[int],
    place: Place,
    *,
    on_cell: Callable[[Cell], None] = lambda _cell: None,
) -> None:
    """Run cells one after the other, with one broker and one Spark as long as none fails.

    A cell that fails stops no other; why it did is kept in the grid's folder.

    Args:
        grid: Their grid.
        numbers: Which, in this order.
        place: Servers and master.
        on_cell: Called after each cell that ran to its end.

    Raises:
        InputError: There is no broker, no Spark, or the grid is being run already.
        Interrupted: Ctrl-C or SIGTERM; nothing is left of the cell that was being run.
    """
    waiting = deque(numbers)
    answers = Answers(grid.path)
    scratch = grid.path / "work" / "site"
    with (
        RunLock(grid.path) as lock,
        _naming_resume(grid),
        stoppable(),
        contextlib.closing(answers),
    ):
        while waiting:
            first = place.config(grid.plan.cell(waiting[0]))
            with place.open_site(
                bootstrap=first.bootstrap,
                kafka=first.kafka,
                broker_dir=scratch / "broker",
                master=first.master,
                spark_dir=scratch / "spark",
                say=place.say,
            ) as site:
                lock.note(os.getpid(), *site.pids)
                while waiting:
                    planned = grid.plan.cell(waiting.popleft())
                    try:
                        on_cell(_run_beside(grid, planned, site, place, answers))
                    except KeyspreadError as error:
                        place.say(f"cell {planned.number} failed: {error}")
                        # Broker or Spark may be what failed: the others get new ones.
                        break


def _run_beside(
    grid: GridFolder, planned: PlannedCell, site: Site, place: Place, answers: Answers
) -> Cell:
    """Run one of several cells of a site."""
    work = grid.work_path(planned.number)
    work.mkdir(parents=True, exist_ok=True)
    place.say(f"cell {planned.number} of {len(grid.plan.cells)}: {planned.label}")
    with RunLock(work):
        grid.forget(planned.number)
        with _told(grid, planned, grid.path / "work" / "site" / SPARK_LOG):
            cell = _carry_out(grid, planned, place.config(planned), site, place, answers)
    shutil.rmtree(work, ignore_errors=True)
    return cell


@contextlib.contextmanager
def _naming_resume(grid: GridFolder) -> Iterator[None]:
    """Tell of a stop how to go on."""
    try:
        yield
    except Interrupted as error:
        shutil.rmtree(grid.path / "work", ignore_errors=True)
        resume = f"`keyspread grid run --resume {grid.plan.grid_id}`"
        error.args = (f"{error}; the cells done are kept, go on with {resume}",)
        raise


@contextlib.contextmanager
def _told(grid: GridFolder, planned: PlannedCell, log: Path) -> Iterator[None]:
    """Keep why a cell failed, whatever it was."""
    try:
        yield
    except (KeyspreadError, Interrupted) as error:
        grid.keep_failure(planned, str(error), log)
        raise
    except Exception as error:
        grid.keep_failure(planned, f"{type(error).__name__}: {error}", log)
        raise


def _carry_out(
    grid: GridFolder,
    planned: PlannedCell,
    config: RunConfig,
    site: Site,
    place: Place,
    answers: Answers | None = None,
) -> Cell:
    """Run a cell on a site, on a new topic; what it needed goes, unless it failed."""
    work = grid.work_path(planned.number)
    config = replace(config, bootstrap=site.bootstrap)
    config.write(work)
    remove_topics(site.settings, [config.topic])
    try:
        with progress_bars(place.console, shown=not place.quiet) as bars:
            size = input_bytes(config.inputs)
            progress = RunProgress(bars, planned.label, size, shown=not place.quiet)
            cell = execute(
                config,
                work,
                site,
                resumed=False,
                progress=progress,
                answers=answers,
                metrics=place.metrics,
            )
    except Interrupted:
        with contextlib.suppress(KeyspreadError):
            remove_topics(site.settings, [config.topic], LAST_ANSWER_SECONDS)
        empty(work)
        raise
    cell = grid.keep(planned, cell)
    remove_topics(site.settings, [config.topic])
    return cell
