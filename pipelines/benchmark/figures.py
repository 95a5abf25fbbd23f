"""The figures of cells that are compared, and which cells are comparable."""

from __future__ import annotations

import dataclasses
import json
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import TypeAlias

from partitioners.stream_names import Named
from pipelines.benchmark.cell import Cell
from pipelines.benchmark.grid.plan import in_words
from pipelines.benchmark.noise import Change, absolute_change, half_width, relative_change
from pipelines.benchmark.prepare import RunConfig

Place: TypeAlias = tuple[tuple[str, str], ...]
"""Where partitioners meet: all of a run's configuration but the partitioner, as JSON by name."""

# What does not bear on what is measured, or is compared within a place.
_NOT_OF_A_PLACE = frozenset(
    ("run_id", "partitioner", "options", "bootstrap", "kafka", "master", "results_dir", "sinks")
)


@dataclass(frozen=True)
class Figure:
    """A figure of a cell.

    Attributes:
        name: For people.
        text: How it is written.
        of: Takes it from a cell; None where the cell has none.
        more_is_better: Whether the larger is the better.
        is_relative: Whether changes are ratios; else differences, for figures that may be 0.
        is_speed: Whether it tells how fast the cell was.
    """

    name: str
    text: str
    of: Callable[[Cell], float | None]
    more_is_better: bool = False
    is_relative: bool = True
    is_speed: bool = False

    def values(self, cells: Iterable[Cell]) -> list[float]:
        """Give the figure of each cell that has it."""
        found = (self.of(cell) for cell in cells)
        return [float(value) for value in found if value is not None]

    def mean(self, cells: Iterable[Cell]) -> float | None:
        """Give the mean over repetitions; None where no cell has the figure."""
        values = self.values(cells)
        return statistics.fmean(values) if values else None

    def change(self, before: Iterable[Cell], after: Iterable[Cell], level: float) -> Change | None:
        """Compare repetitions; None where the figure is missing."""
        compare = relative_change if self.is_relative else absolute_change
        return compare(self.values(before), self.values(after), level)

    def write(self, value: float | None) -> str:
        """Write a value; a dash where there is none."""
        return "-" if value is None else self.text.format(value)

    def write_mean(self, cells: Sequence[Cell], level: float) -> str:
        """Write the mean over repetitions, with the half width of its interval if there is one."""
        values = self.values(cells)
        half = half_width(values, level)
        text = self.write(statistics.fmean(values) if values else None)
        return text if half is None else f"{text} ± {self.text.format(half)}"

    def write_change(self, change: Change | None) -> str:
        """Write a change with its bounds."""
        if change is None:
            return "-"
        text = self._delta(change.estimate)
        if change.low is None or change.high is None:
            return f"{text} (no bound)"
        return f"{text} [{self._delta(change.low)}, {self._delta(change.high)}]"

    def _delta(self, change: float) -> str:
        if self.is_relative:
            return f"{change:+.1%}" if change < 10 else f"{change + 1:,.0f} times"
        return f"{change:+.3f}"


THROUGHPUT = Figure("records/s", "{:,.0f}", lambda c: c.delivered_per_s or None, True, True, True)
LATENCY_P50 = Figure("latency p50, ms", "{:,.0f}", lambda c: c.latency_ms.get("p50"), is_speed=True)
LATENCY_P99 = Figure("latency p99, ms", "{:,.0f}", lambda c: c.latency_ms.get("p99"), is_speed=True)
SLOWEST_COMBINER = Figure(
    "slowest combiner, s",
    "{:.3f}",
    lambda c: max(c.combine_seconds_per_partition, default=None),
    is_speed=True,
)
SLOWEST_REDUCER = Figure(
    "slowest reducer, s",
    "{:.3f}",
    lambda c: max(c.reduce_seconds_per_shard, default=None),
    is_speed=True,
)
IMBALANCE = Figure("imbalance", "{:.3f}", lambda c: c.imbalance, is_relative=False)
REPLICATION = Figure(
    "replication factor", "{:.3f}", lambda c: c.replication_factor, is_relative=False
)
FRAGMENTATION = Figure("fragmentation", "{:.3f}", lambda c: c.fragmentation, is_relative=False)
PARTIALS = Figure("partial rows", "{:,.0f}", lambda c: float(c.partial_rows))

FIGURES = (
    THROUGHPUT,
    LATENCY_P50,
    LATENCY_P99,
    SLOWEST_COMBINER,
    SLOWEST_REDUCER,
    IMBALANCE,
    REPLICATION,
    FRAGMENTATION,
    PARTIALS,
)
SPEEDS = tuple(figure for figure in FIGURES if figure.is_speed)


def partitioner_of(cell: Cell) -> str:
    """Name a cell's partitioner with its options.

    Args:
        cell: The cell.
    """
    return str(Named(cell.partitioner, tuple(cell.config.get("options", {}).items())))


def place_of(cell: Cell) -> Place:
    """Give all of a cell's configuration that must be the same for a fair comparison.

    What an older cell does not say is as by default.

    Args:
        cell: The cell.
    """
    place = {}
    for field in dataclasses.fields(RunConfig):
        if field.name in _NOT_OF_A_PLACE:
            continue
        value = cell.config.get(field.name, _default(field))
        if field.name == "inputs":
            value = [PurePath(path).name for path in value or ()]
        place[field.name] = json.dumps(value, sort_keys=True, default=str)
    return tuple(place.items())


def _default(field: dataclasses.Field[object]) -> object:
    if field.default is not dataclasses.MISSING:
        return field.default
    return field.default_factory() if callable(field.default_factory) else None


def by_place(cells: Iterable[Cell]) -> dict[Place, dict[str, list[Cell]]]:
    """Sort cells by place, and there by partitioner, each with its repetitions.

    Args:
        cells: In any order, which is kept.
    """
    found: dict[Place, dict[str, list[Cell]]] = {}
    for cell in cells:
        found.setdefault(place_of(cell), {}).setdefault(partitioner_of(cell), []).append(cell)
    return found


def place_names(places: Iterable[Place]) -> dict[Place, str]:
    """Name places for people: workload and partitions, and what else tells them apart.

    Args:
        places: All there are.
    """
    known = [dict(place) for place in places]
    names = {}
    for place in known:
        # What follows from the workload does not tell two places of it apart.
        same = [other for other in known if other["workload"] == place["workload"]]
        varying = {
            name for name, value in place.items() if any(other.get(name) != value for other in same)
        }
        names[tuple(place.items())] = _place_name(place, varying)
    return names


def _place_name(place: dict[str, str], varying: set[str]) -> str:
    said = {"workload", "partitions"}
    count = json.loads(place["partitions"])
    parts = [json.loads(place["workload"]), f"{count} partition{'s' if count != 1 else ''}"]
    if "sources" in varying or place["sources"] != "1":
        count = json.loads(place["sources"])
        parts.append(f"{count} source{'s' if count != 1 else ''}")
        said.add("sources")
    if varying & {"window_ms", "slide_ms"}:
        window, slide = json.loads(place["window_ms"]), json.loads(place["slide_ms"])
        parts.append(f"windows {in_words(window)}/{in_words(slide)}")
        said |= {"window_ms", "slide_ms"}
    parts += [
        f"{name.replace('_', ' ')} {value}"
        for name, value in place.items()
        if name in varying - said
    ]
    return ", ".join(parts)
