"""What a report is made of: the cells of a run or a grid, what failed, what is not there yet."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from partitioners.errors import InputError, nearest
from pipelines.benchmark.cell import Cell
from pipelines.benchmark.report import redacted

RUN, GRID = "config.json", "grid.json"


@dataclass(frozen=True)
class Written:
    """A cell and where it is.

    Attributes:
        cell: Its figures.
        path: Its file, relative to the folder.
    """

    cell: Cell
    path: str


@dataclass(frozen=True)
class Failure:
    """A cell that failed.

    Attributes:
        label: Which one.
        reason: One sentence.
        path: Its file, relative to the folder.
    """

    label: str
    reason: str
    path: str


@dataclass(frozen=True)
class ReportFolder:
    """The content of a folder.

    Attributes:
        path: The folder of a run or a grid.
        written: The cells that are done, in the order of their numbers or names.
        failures: Those that failed.
        missing: Names of those that were planned, and have neither figures nor failed.
    """

    path: Path
    written: tuple[Written, ...]
    failures: tuple[Failure, ...]
    missing: tuple[str, ...]

    @property
    def cells(self) -> list[Cell]:
        """The figures of all cells."""
        return [each.cell for each in self.written]

    @property
    def name(self) -> str:
        """The id of the run or the grid."""
        return self.path.resolve().name

    def redacted(self) -> ReportFolder:
        """Give it with hashes in place of keys."""
        return replace(
            self, written=tuple(Written(redacted(each.cell), each.path) for each in self.written)
        )


def find_report_folder(runs_dir: Path, name: str) -> Path:
    """Give the folder of a run or a grid.

    Args:
        runs_dir: Where runs are kept.
        name: Its id, or the path of its folder.

    Raises:
        InputError: There is no such run or grid.
    """
    for folder in (runs_dir / name, Path(name)):
        if (folder / RUN).is_file() or (folder / GRID).is_file():
            return folder
    known = {path.parent.name for kind in (RUN, GRID) for path in runs_dir.glob(f"*/{kind}")}
    hint = nearest(name, known, most=3) if known else "there are no runs yet"
    raise InputError(f'no run or grid "{name}" in {runs_dir}: {hint}')


def read_report_folder(folder: Path) -> ReportFolder:
    """Read a folder.

    Args:
        folder: Of a run or a grid.

    Raises:
        InputError: A file in it is damaged or of another version, or nothing has been run.
    """
    written = [
        Written(_read_cell(path), f"cells/{path.name}")
        for path in sorted((folder / "cells").glob("*.json"), key=_place)
    ]
    failed = [
        (path, _read(path)) for path in sorted((folder / "failures").glob("*.json"), key=_place)
    ]
    failures = [
        Failure(
            str(content.get("label") or f"cell {path.stem}"),
            str(content.get("reason") or "no reason is known"),
            f"failures/{path.name}",
        )
        for path, content in failed
    ]
    plan = folder / GRID
    planned = _read(plan)["cells"] if plan.is_file() else []
    there = {Path(each.path).stem for each in written}
    there |= {Path(each.path).stem for each in failures}
    missing = [
        str(cell.get("label") or f"cell {cell['number']}")
        for cell in planned
        if str(cell["number"]) not in there
    ]
    if not (written or failures or planned):
        name = folder.resolve().name
        raise InputError(
            f"run {name} has no results yet: finish it with `keyspread run --resume {name}`"
        )
    return ReportFolder(folder, tuple(written), tuple(failures), tuple(missing))


def _place(path: Path) -> tuple[int, str]:
    """Numbered files by number, others by name."""
    return (int(path.stem) if path.stem.isdecimal() else -1, path.stem)


def _read_cell(path: Path) -> Cell:
    try:
        return Cell.from_json(path.read_text(encoding="utf-8"))
    except (ValueError, TypeError) as error:
        raise InputError(
            f"{path} is not a cell of this version ({error}): run it again, or remove the file"
        ) from error


def _read(path: Path) -> dict[str, Any]:
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InputError(f"{path} is damaged ({error}): make it anew, or remove it") from error
    return content
