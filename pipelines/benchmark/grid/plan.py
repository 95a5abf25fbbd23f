"""The plan of a benchmark: which cells there are, each the configuration of one run."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from typing import Any

from partitioners.errors import InputError
from partitioners.stream_names import Named
from pipelines.benchmark.parts import check_inputs, check_options
from pipelines.benchmark.prepare import RunConfig
from pipelines.panes import Windows, parse_duration_ms

MAX_CELLS = 1_000
MAX_REPETITIONS = 100
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,119}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Axes:
    """What a benchmark varies; an axis without values stays as the base configuration has it.

    Attributes:
        partitioners: Names with options.
        partitions: Of the topic.
        sources: Producers.
        windows: Size and slide.
        repetitions: How often everything is run.
    """

    partitioners: Sequence[Named] = ()
    partitions: Sequence[int] = ()
    sources: Sequence[int] = ()
    windows: Sequence[Windows] = ()
    repetitions: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedCell:
    """One run of a benchmark.

    Attributes:
        number: From 1 on, in the order in which they are run.
        repetition: From 1 on.
        config: The run; its id is that of the grid and the number.
    """

    number: int
    repetition: int
    config: RunConfig

    @property
    def label(self) -> str:
        """Its name for people."""
        config = self.config
        partitioner = Named(config.partitioner, tuple(config.options.items()))
        sources = f", {config.sources} sources" if config.sources > 1 else ""
        windows = f"{in_words(config.window_ms)}/{in_words(config.slide_ms)}"
        return (
            f"{config.workload} {partitioner}, {config.partitions} partitions{sources}, "
            f"windows {windows}, repetition {self.repetition}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class GridPlan:
    """All cells of a benchmark; what `grid.json` holds.

    Attributes:
        grid_id: Also the name of its folder.
        settings: What varies, and over which values, for those who read the report.
        cells: In the order in which they are run.
    """

    grid_id: str
    settings: Mapping[str, Any]
    cells: tuple[PlannedCell, ...]

    def cell(self, number: int) -> PlannedCell:
        """Give a cell by its number.

        Raises:
            InputError: There is none.
        """
        if not 1 <= number <= len(self.cells):
            raise InputError(
                f"grid {self.grid_id} has the cells 1 to {len(self.cells)}, not {number}: give one "
                "of these"
            )
        return self.cells[number - 1]

    def to_json(self) -> str:
        """Give it as JSON, without secrets."""
        cells = [
            {
                "number": cell.number,
                "repetition": cell.repetition,
                "label": cell.label,
                "config": cell.config.public(),
            }
            for cell in self.cells
        ]
        shown = {"grid": self.grid_id, "settings": dict(self.settings), "cells": cells}
        return json.dumps(shown, indent=1)

    def essentials(self) -> str:
        """What its cells are, as JSON: without the grid's id, and wherever they take place."""
        place = ("run_id", "bootstrap", "kafka")
        cells = [
            {name: value for name, value in cell.config.public().items() if name not in place}
            for cell in self.cells
        ]
        return json.dumps(cells, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> GridPlan:
        """Read a plan back.

        Args:
            text: What `to_json` gave.
        """
        content = json.loads(text)
        cells = tuple(
            PlannedCell(
                number=cell["number"],
                repetition=cell["repetition"],
                config=RunConfig.from_public(cell["config"]),
            )
            for cell in content["cells"]
        )
        return cls(grid_id=content["grid"], settings=content["settings"], cells=cells)


def make_plan(grid_id: str, base: RunConfig, axes: Axes) -> GridPlan:
    """Lay out the cells of a benchmark, and refuse what cannot work in any of them.

    A repetition runs everything once before the next begins, so that a machine that grows slower or
    faster does so for all alike.

    Args:
        grid_id: Letters, digits, `.`, `_` and `-`.
        base: What all cells have in common.
        axes: What they differ in.

    Raises:
        InputError: A value is no good, or there are too many cells.
    """
    if not _ID.fullmatch(grid_id):
        raise InputError(
            f'"{grid_id}" is no id of a grid: give 1 to 120 letters, digits, ".", "_" or "-", the '
            "first a letter or digit"
        )
    if not 1 <= axes.repetitions <= MAX_REPETITIONS:
        raise InputError(f"--repetitions must be 1 to {MAX_REPETITIONS}, not {axes.repetitions}")
    partitioners = axes.partitioners or [Named(base.partitioner, tuple(base.options.items()))]
    windows = axes.windows or [Windows(base.window_ms, base.slide_ms)]
    partitions, sources = axes.partitions or [base.partitions], axes.sources or [base.sources]
    _refuse_doubles("--partitioner", [str(named) for named in partitioners])
    _refuse_doubles("--partitions", partitions)
    _refuse_doubles("--sources", sources)
    _refuse_doubles(
        "--windows", [f"{in_words(each.size_ms)}/{in_words(each.slide_ms)}" for each in windows]
    )
    size = axes.repetitions * len(partitioners) * len(partitions) * len(sources) * len(windows)
    if size > MAX_CELLS:
        raise InputError(f"{size:,} cells are more than {MAX_CELLS:,}: give fewer values, or grids")
    cells = []
    repetitions = range(1, axes.repetitions + 1)
    for number, (repetition, window, count, producers, named) in enumerate(
        product(repetitions, windows, partitions, sources, partitioners), 1
    ):
        config = replace(
            base,
            run_id=f"{grid_id}-{number}",
            partitioner=named.name,
            options=dict(named.options),
            partitions=count,
            sources=producers,
            window_ms=window.size_ms,
            slide_ms=window.slide_ms,
        )
        if repetition == 1:
            check_options(config)
        cells.append(PlannedCell(number=number, repetition=repetition, config=config))
    # The input last: to see that it is whole takes as long as to read it.
    check_inputs(base)
    settings = {
        "workload": base.workload,
        "partitioners": [str(named) for named in partitioners],
        "partitions": list(partitions),
        "sources": list(sources),
        "windows": [asdict(each) for each in windows],
        "repetitions": axes.repetitions,
    }
    return GridPlan(grid_id=grid_id, settings=settings, cells=tuple(cells))


def _refuse_doubles(option: str, values: Sequence[object]) -> None:
    double = next((value for value in values if values.count(value) > 1), None)
    if double is not None:
        raise InputError(f"{option} {double} is there twice: leave one out")


def in_words(duration_ms: int) -> str:
    """Write a duration in the largest unit that gives a whole number.

    Example:
        >>> in_words(1_800_000), in_words(1_500)
        ('30 min', '1500 ms')
    """
    for unit in ("d", "h", "min", "s"):
        unit_ms = parse_duration_ms(f"1 {unit}")
        if duration_ms % unit_ms == 0:
            return f"{duration_ms // unit_ms} {unit}"
    return f"{duration_ms} ms"
