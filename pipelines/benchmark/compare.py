"""Two runs or grids side by side: what changed, what of it is noise, what is a regression."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from partitioners.errors import InputError
from pipelines.benchmark.cell import Cell
from pipelines.benchmark.figures import FIGURES, Figure, by_place, place_names
from pipelines.benchmark.noise import LEVEL, Change
from pipelines.benchmark.report_folder import ReportFolder

DEFAULT_TOLERANCE = 0.05
_MOST_NAMED = 3  # of the settings that are wrong, in the sentence


@dataclass(frozen=True)
class Difference:
    """One figure of one setting, before and after.

    Attributes:
        setting: Place and partitioner.
        figure: The figure.
        before: Mean over repetitions.
        after: Likewise.
        change: From before to after, with bounds where both have repetitions.
        tolerance: How much slower is still no regression, as a fraction.
    """

    setting: str
    figure: Figure
    before: float | None
    after: float | None
    change: Change | None
    tolerance: float

    @property
    def is_slowdown(self) -> bool:
        """Whether it is slower by more than the tolerance, beyond noise."""
        if self.change is None or not self.figure.is_speed:
            return False
        if self.figure.more_is_better:
            return self.change.is_below(1 / (1 + self.tolerance) - 1)
        return self.change.is_above(self.tolerance)

    @property
    def times_slower(self) -> float:
        """By which factor it is slower, as estimated; below 1 where it is faster."""
        factor = 1.0 if self.change is None else 1.0 + self.change.estimate
        return 1 / factor if self.figure.more_is_better else factor

    @property
    def verdict(self) -> str:
        """What the change is, in a word or two."""
        if self.change is None:
            return "not comparable"
        if not self.change.is_bounded:
            return "no bound"
        if self.is_slowdown:
            return "SLOWER"
        if not (self.change.is_above(0.0) or self.change.is_below(0.0)):
            return "noise" if self.change.estimate else "same"
        is_more = self.change.estimate > 0
        return "better" if is_more == self.figure.more_is_better else "worse"


@dataclass(frozen=True)
class Comparison:
    """What changed from one run to another.

    Attributes:
        before: Name of the first.
        after: Name of the second.
        repetitions: Of each setting, how many each has.
        differences: Of each setting, each figure.
        lost: Settings that were exact, and are not, or failed: name and what is wrong.
        only_before: Settings that only the first has.
        only_after: Settings that only the second has.
        level: Of the intervals of speeds, so that all of them together hold with `LEVEL`.
        tolerance: How much slower is still no regression, as a fraction.
    """

    before: str
    after: str
    repetitions: dict[str, tuple[int, int]]
    differences: tuple[Difference, ...]
    lost: tuple[tuple[str, str], ...]
    only_before: tuple[str, ...]
    only_after: tuple[str, ...]
    level: float
    tolerance: float

    @property
    def slowdowns(self) -> list[Difference]:
        """Figures that are slower beyond noise and tolerance."""
        return [each for each in self.differences if each.is_slowdown]

    @property
    def has_regression(self) -> bool:
        """Whether exactness was lost, or something is slower."""
        return bool(self.lost or self.slowdowns)

    @property
    def sentence(self) -> str:
        """What came out, in one sentence."""
        parts = [
            f"{name} is no longer exact ({reason})" for name, reason in self.lost[:_MOST_NAMED]
        ]
        if len(self.lost) > _MOST_NAMED:
            parts.append(f"so are {len(self.lost) - _MOST_NAMED} more")
        if slower := sorted(self.slowdowns, key=lambda each: -each.times_slower):
            first = slower[0]
            more = f"{len(slower)} speeds are slower beyond noise, most of all " * (len(slower) > 1)
            change = first.figure.write_change(first.change)
            parts.append(f"{more}{first.setting}: {first.figure.name} {change}")
        if parts:
            return "Regression: " + "; ".join(parts) + "."
        bounded = [each for each in self.differences if each.change and each.change.is_bounded]
        if not bounded:
            return (
                "Nothing lost its exactness; with one repetition of each setting no bound can be "
                "given, so whether anything is slower is not known: run both with repetitions."
            )
        return "Nothing lost its exactness, and nothing is slower beyond noise and tolerance."

    @property
    def method(self) -> str:
        """How the bounds are made."""
        return (
            f"Bounds: Welch's t interval over repetitions, of ratios on logarithms. Each is at "
            f"{self.level:.2%}, so that all speeds together hold with {LEVEL:.0%} (Bonferroni). "
            f"SLOWER: the whole interval is more than {self.tolerance:.0%} slower. The scatter is "
            "that within each run: a machine that was busier during one of them is not in it. "
            "One repetition has no scatter, so no bound is given."
        )

    def as_json(self) -> dict[str, Any]:
        """Give it as plain values."""
        return {
            "before": self.before,
            "after": self.after,
            "regression": self.has_regression,
            "sentence": self.sentence,
            "method": self.method,
            "level": self.level,
            "tolerance": self.tolerance,
            "exactness_lost": [{"setting": name, "reason": text} for name, text in self.lost],
            "only_before": list(self.only_before),
            "only_after": list(self.only_after),
            "differences": [
                {
                    "setting": each.setting,
                    "repetitions": self.repetitions[each.setting],
                    "figure": each.figure.name,
                    "before": each.before,
                    "after": each.after,
                    "relative": each.figure.is_relative,
                    "change": None if each.change is None else each.change.estimate,
                    "low": None if each.change is None else each.change.low,
                    "high": None if each.change is None else each.change.high,
                    "verdict": each.verdict,
                }
                for each in self.differences
            ],
        }


def compare(
    before: ReportFolder, after: ReportFolder, *, tolerance: float = DEFAULT_TOLERANCE
) -> Comparison:
    """Compare two runs or grids, setting by setting.

    A setting is the whole configuration of a run but where it took place; its cells are its
    repetitions.

    Args:
        before: The first.
        after: The second.
        tolerance: How much slower is still no regression, as a fraction.

    Raises:
        InputError: They have no setting in common, or the tolerance is none.
    """
    if not 0 <= tolerance < float("inf"):
        raise InputError(f"--tolerance must be 0 or more, not {tolerance:g}")
    cells = (_settings(before, after), _settings(after, before))
    common = [name for name in cells[0] if name in cells[1]]
    if not common and not after.failures:
        raise InputError(
            f"{before.name} and {after.name} have no setting in common: compare runs of the same "
            "workload, input, partitioner, partitions and windows"
        )
    speeds = sum(figure.is_speed for figure in FIGURES) * len(common)
    level = 1 - (1 - LEVEL) / max(speeds, 1)
    differences = [
        Difference(
            name,
            figure,
            figure.mean(cells[0][name]),
            figure.mean(cells[1][name]),
            figure.change(cells[0][name], cells[1][name], level),
            tolerance,
        )
        for name in common
        for figure in FIGURES
    ]
    return Comparison(
        before=before.name,
        after=after.name,
        repetitions={name: (len(cells[0][name]), len(cells[1][name])) for name in common},
        differences=tuple(differences),
        lost=tuple(_lost(common, cells[0], cells[1], before, after)),
        only_before=tuple(name for name in cells[0] if name not in cells[1]),
        only_after=tuple(name for name in cells[1] if name not in cells[0]),
        level=level,
        tolerance=tolerance,
    )


def _settings(folder: ReportFolder, other: ReportFolder) -> dict[str, list[Cell]]:
    """The cells of each setting; named so that both folders use the same names."""
    names = place_names(by_place([*folder.cells, *other.cells]))
    return {
        f"{names[place]}, {partitioner}": cells
        for place, partitioners in by_place(folder.cells).items()
        for partitioner, cells in partitioners.items()
    }


def _lost(
    common: Sequence[str],
    cells_before: dict[str, list[Cell]],
    cells_after: dict[str, list[Cell]],
    before: ReportFolder,
    after: ReportFolder,
) -> list[tuple[str, str]]:
    lost = []
    for name in common:
        wrong = [cell for cell in cells_after[name] if not cell.exact]
        if wrong and all(cell.exact for cell in cells_before[name]):
            first = wrong[0].differences[:1] or ["no difference is named"]
            lost.append((name, f"{len(wrong)} of {len(cells_after[name])} cells: {first[0]}"))
    failed_before = {failure.label for failure in before.failures}
    lost += [
        (failure.label, f"failed: {failure.reason}")
        for failure in after.failures
        if failure.label not in failed_before
    ]
    return lost
