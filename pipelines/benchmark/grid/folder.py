"""Where a grid is on disk: its plan, what came of each cell, and the scratch of cells at work."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from partitioners.errors import InputError, nearest
from pipelines.benchmark.cell import Cell
from pipelines.benchmark.grid.plan import GridPlan, PlannedCell
from pipelines.benchmark.prepare import require_free_space, writing

PLAN = "grid.json"


@dataclass(frozen=True)
class GridFolder:
    """The folder of a grid, with its plan.

    Attributes:
        path: `runs/<grid id>`.
        plan: What `grid.json` in there says.
    """

    path: Path
    plan: GridPlan

    def cell_path(self, number: int) -> Path:
        """Where the figures of a cell are, once it is done."""
        return self.path / "cells" / f"{number}.json"

    def failure_path(self, number: int) -> Path:
        """Where it stands why a cell failed."""
        return self.path / "failures" / f"{number}.json"

    def work_path(self, number: int) -> Path:
        """Scratch of a cell: checkpoint, results, logs."""
        return self.path / "work" / str(number)

    def forget(self, number: int) -> None:
        """Remove what an earlier attempt at a cell left, its topic aside."""
        failure = self.failure_path(number)
        for path in (self.cell_path(number), failure, failure.with_suffix(".log")):
            path.unlink(missing_ok=True)
        empty(self.work_path(number))

    def keep(self, planned: PlannedCell, cell: Cell) -> Cell:
        """Keep the figures of a cell; gives them with the repetition in."""
        cell = replace(cell, repetition=planned.repetition)
        _write(self.cell_path(planned.number), cell.to_json())
        return cell

    def keep_failure(self, planned: PlannedCell, reason: str, log: Path) -> None:
        """Keep why a cell failed, and a copy of the log of Spark, if there is one."""
        failure = {
            "number": planned.number,
            "repetition": planned.repetition,
            "label": planned.label,
            "config": planned.config.public(),
            "reason": reason,
        }
        path = self.failure_path(planned.number)
        _write(path, json.dumps(failure))
        if log.is_file():
            shutil.copyfile(log, path.with_suffix(".log"))

    def read_cell(self, number: int) -> Cell | None:
        """Read the figures of a cell; None if there are none.

        Raises:
            InputError: They are of another version.
        """
        path = self.cell_path(number)
        if not path.is_file():
            return None
        try:
            return Cell.from_json(path.read_text(encoding="utf-8"))
        except (ValueError, TypeError) as error:
            raise InputError(
                f"{path} is not a cell of this version ({error}): run the cell again"
            ) from error

    def read_failure(self, number: int) -> dict[str, Any] | None:
        """Read why a cell failed; None if it did not."""
        path = self.failure_path(number)
        if not path.is_file():
            return None
        failure: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return failure


def make_grid_folder(runs_dir: Path, plan: GridPlan) -> GridFolder:
    """Make the folder of a grid; one that is there with the same cells is left as it is.

    Args:
        runs_dir: Where runs are kept.
        plan: What the grid is.

    Raises:
        InputError: It is there with another plan, or cannot be written.
    """
    folder = GridFolder(runs_dir / plan.grid_id, plan)
    with writing(runs_dir, "--runs-dir"):
        if (folder.path / PLAN).is_file():
            there = find_grid(runs_dir, plan.grid_id)
            if there.plan.essentials() != plan.essentials():
                raise InputError(
                    f"grid {plan.grid_id} is there already, with other settings: name another --id"
                )
            return there
        if folder.path.exists() and any(folder.path.iterdir()):
            raise InputError(f"{folder.path} is there and no grid: name another --id")
        folder.path.mkdir(parents=True, exist_ok=True)
        require_free_space(runs_dir, "--runs-dir")
        _write(folder.path / PLAN, plan.to_json())
    return folder


def find_grid(runs_dir: Path, grid: str) -> GridFolder:
    """Give the folder of a grid.

    Args:
        runs_dir: Where runs are kept.
        grid: Its id, or the path of its folder.

    Raises:
        InputError: There is no such grid, or its plan cannot be read.
    """
    for path in (runs_dir / grid, Path(grid)):
        if not (path / PLAN).is_file():
            continue
        try:
            text = (path / PLAN).read_text(encoding="utf-8")
            return GridFolder(path, GridPlan.from_json(text))
        except (ValueError, TypeError, KeyError) as error:
            raise InputError(
                f"{path / PLAN} is damaged or of another version ({error}): plan the grid anew"
            ) from error
    known = [path.parent.name for path in runs_dir.glob(f"*/{PLAN}")]
    hint = nearest(grid, known, most=3) if known else "`keyspread grid plan` makes one"
    raise InputError(f'no grid "{grid}" in {runs_dir}: {hint}')


def empty(folder: Path, *, keep: tuple[str, ...] = ("run.lock",)) -> None:
    """Remove what is in a folder, but its lock, which the caller may hold."""
    for path in folder.iterdir() if folder.is_dir() else ():
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        elif path.name not in keep:
            path.unlink(missing_ok=True)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(exist_ok=True)
    scratch = path.with_name(f".{path.name}.tmp")
    scratch.write_text(text + "\n", encoding="utf-8")
    scratch.replace(path)
