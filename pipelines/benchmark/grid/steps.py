"""What is done with a grid before and after its cells: topics tried, verdict, rest removed."""

from __future__ import annotations

import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from partitioners.errors import InputError
from pipelines.benchmark.cell import Cell
from pipelines.benchmark.grid.cells import Place
from pipelines.benchmark.grid.folder import PLAN, GridFolder, find_grid
from pipelines.broker import broker_status
from pipelines.run_lock import RunLock
from pipelines.topics import OWN_BROKER, client_settings, remove_topics, require_answer, try_topics

NOT_RUN = "was not run"


@dataclass(frozen=True)
class Problem:
    """A cell that is not as it should be.

    Attributes:
        number: Of the cell.
        label: Its name.
        reason: A sentence.
    """

    number: int
    label: str
    reason: str

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def done_cells(grid: GridFolder) -> list[Cell]:
    """Give the figures there are, in order of the cells."""
    cells = (grid.read_cell(planned.number) for planned in grid.plan.cells)
    return [cell for cell in cells if cell is not None]


def open_numbers(grid: GridFolder) -> list[int]:
    """Give the cells that have no figures yet, or not those of the oracle."""
    return [problem.number for problem in problems(grid)]


def problems(grid: GridFolder) -> list[Problem]:
    """Name the cells that failed, are not exact, or have not been run.

    Args:
        grid: The grid.

    Returns:
        None of them: every cell is exact.
    """
    found = []
    for planned in grid.plan.cells:
        failure = grid.read_failure(planned.number)
        cell = grid.read_cell(planned.number)
        if failure is not None:
            reason = f"failed: {failure['reason']}"
        elif cell is None:
            reason = NOT_RUN
        elif not cell.exact:
            reason = f"is not exact: {'; '.join(cell.differences) or 'the oracle differs'}"
        else:
            continue
        found.append(Problem(planned.number, planned.label, reason))
    return found


def servers(grid: GridFolder, place: Place) -> dict[str, Any] | None:
    """Find the servers that have a grid's topics.

    Args:
        grid: The grid.
        place: May name them.

    Returns:
        Settings of clients; None where each run starts a broker of its own.

    Raises:
        InputError: They do not answer.
    """
    config = place.config(grid.plan.cells[0])
    bootstrap = config.bootstrap or broker_status().bootstrap
    if bootstrap is None:
        return None
    settings = client_settings(bootstrap, config.kafka)
    require_answer(settings, OWN_BROKER)
    return settings


def prepare_topics(grid: GridFolder, place: Place) -> list[str]:
    """See that each cell can have its topic; remove those that an earlier attempt left.

    No topic is made: a cell makes its own, and takes it along when it ends or is stopped.

    Args:
        grid: The grid.
        place: Servers.

    Returns:
        The names, in order of the cells.

    Raises:
        InputError: The broker does not answer, or would refuse one.
    """
    topics = {cell.config.topic: cell.config.partitions for cell in grid.plan.cells}
    settings = servers(grid, place)
    if settings is not None:
        remove_topics(settings, topics)
        try_topics(settings, topics)
    return list(topics)


def clean(grid: GridFolder, place: Place) -> list[str]:
    """Remove topics, checkpoints and scratch of a grid; plan, figures and report stay.

    Args:
        grid: The grid.
        place: Servers.

    Returns:
        The topics that were there.

    Raises:
        InputError: A cell is being run, or the broker does not answer.
    """
    work = grid.path / "work"
    for path in sorted(work.glob("*/run.lock")):
        with RunLock(path.parent):
            pass
    settings = servers(grid, place)
    removed: list[str] = []
    if settings is not None:
        removed = remove_topics(settings, [cell.config.topic for cell in grid.plan.cells])
    shutil.rmtree(work, ignore_errors=True)
    return removed


def previous_grid(runs_dir: Path, grid: GridFolder) -> GridFolder | None:
    """Find the newest earlier grid with the same cells, all of them run or failed.

    Args:
        runs_dir: Where runs are kept.
        grid: The grid.

    Returns:
        It, or None where this is the first of its kind.
    """
    wanted, age = grid.plan.essentials(), _age(grid)
    best: GridFolder | None = None
    for path in runs_dir.glob(f"*/{PLAN}"):
        try:
            other = find_grid(runs_dir, path.parent.name)
        except InputError:
            continue  # of another version
        if other.plan.grid_id == grid.plan.grid_id or _age(other) > age:
            continue
        if best is not None and _age(other) <= _age(best):
            continue
        if other.plan.essentials() == wanted and not any(
            problem.reason == NOT_RUN for problem in problems(other)
        ):
            best = other
    return best


def _age(grid: GridFolder) -> float:
    """When it was planned."""
    return (grid.path / PLAN).stat().st_mtime
