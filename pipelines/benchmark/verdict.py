"""What a report says first: is everything exact, who is even at what price, where hashing wins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pipelines.benchmark.cell import Cell
from pipelines.benchmark.figures import (
    FRAGMENTATION,
    IMBALANCE,
    SPEEDS,
    Figure,
    by_place,
    place_names,
)
from pipelines.benchmark.noise import LEVEL, Change
from pipelines.benchmark.report_folder import ReportFolder

HASHING = "key_hash"


@dataclass(frozen=True)
class Contest:
    """Plain hashing against the best of the others, in one figure at one place.

    Attributes:
        place: The name of the place.
        figure: The figure.
        hashing: Its mean with plain hashing.
        other: The best other partitioner.
        best: Its mean with that.
        change: From hashing to that.
    """

    place: str
    figure: Figure
    hashing: float
    other: str
    best: float
    change: Change | None

    @property
    def hashing_leads(self) -> bool:
        """Whether no other is better; noise aside."""
        return (
            self.hashing >= self.best if self.figure.more_is_better else self.hashing <= self.best
        )

    @property
    def is_beyond_noise(self) -> bool:
        """Whether the difference is larger than that of repetitions."""
        change = self.change
        return change is not None and (change.is_above(0.0) or change.is_below(0.0))

    @property
    def winner(self) -> str:
        """Who wins, in words."""
        leader = HASHING if self.hashing_leads else self.other
        if self.is_beyond_noise:
            return leader
        if self.change is not None and self.change.is_bounded:
            return "neither, within noise"
        return f"{leader}, no bound"


def contests(cells: Sequence[Cell]) -> list[Contest]:
    """Hold plain hashing against the others, wherever both were run.

    Args:
        cells: All cells.
    """
    places = by_place(cells)
    names = place_names(places)
    found = []
    for place, partitioners in places.items():
        hashed = partitioners.get(HASHING)
        others = {name: cells for name, cells in partitioners.items() if name != HASHING}
        if not hashed or not others:
            continue
        for figure in SPEEDS:
            mean = figure.mean(hashed)
            means = {
                name: value
                for name, cells in others.items()
                if (value := figure.mean(cells)) is not None
            }
            if mean is None or not means:
                continue
            best = (max if figure.more_is_better else min)(means, key=means.__getitem__)
            # The best of several is chosen after the fact: each of them has its share of the level.
            level = 1 - (1 - LEVEL) / len(others)
            change = figure.change(hashed, others[best], level)
            found.append(Contest(names[place], figure, mean, best, means[best], change))
    return found


def verdict(folder: ReportFolder) -> str:
    """Say in one sentence what came out.

    Args:
        folder: What was run.
    """
    parts = [_exactness(folder)]
    if folder.written:
        parts += _balance(folder.cells)
        if (hashing := _hashing(contests(folder.cells))) is not None:
            parts.append(hashing)
    return "; ".join(parts) + "."


def _exactness(folder: ReportFolder) -> str:
    cells = folder.cells
    exact = sum(cell.exact for cell in cells)
    if not cells:
        text = "No cell is done"
    elif exact == len(cells):
        text = "The cell is exact" if exact == 1 else f"All {exact} cells are exact"
    else:
        text = f"{len(cells) - exact} of {len(cells)} cells {_are(len(cells) - exact)} NOT exact"
    if folder.failures:
        text += f", {len(folder.failures)} failed"
    if folder.missing:
        text += f", {len(folder.missing)} {_are(len(folder.missing))} missing"
    return text


def _are(count: int) -> str:
    return "is" if count == 1 else "are"


def _balance(cells: Sequence[Cell]) -> list[str]:
    places = by_place(cells)
    names = place_names(places)
    evenest = {place: _evenest(partitioners) for place, partitioners in places.items()}
    if len(places) <= 2:
        return [
            _place_balance(names[place], partitioners, evenest[place])
            for place, partitioners in places.items()
        ]
    counts: dict[str, int] = {}
    for name in evenest.values():
        counts[name] = counts.get(name, 0) + 1
    most = max(counts, key=counts.__getitem__)
    return [f"{most} spreads the records most evenly in {counts[most]} of {len(places)} settings"]


def _evenest(partitioners: Mapping[str, list[Cell]]) -> str:
    return min(partitioners, key=lambda name: IMBALANCE.mean(partitioners[name]) or 0.0)


def _place_balance(place: str, partitioners: Mapping[str, list[Cell]], evenest: str) -> str:
    cells = partitioners[evenest]
    text = f"on {place} {evenest} "
    if len(partitioners) > 1:
        text += "spreads the records most evenly, with "
    else:
        text += "has "
    text += f"imbalance {IMBALANCE.write(IMBALANCE.mean(cells))}"
    if HASHING in partitioners and evenest != HASHING:
        text += f" ({HASHING}: {IMBALANCE.write(IMBALANCE.mean(partitioners[HASHING]))})"
    split = FRAGMENTATION.write(FRAGMENTATION.mean(cells))
    return f"{text} and a key on {split} partitions within a window"


def _hashing(found: Sequence[Contest]) -> str | None:
    if not found:
        return None
    bounded = [each for each in found if each.change is not None and each.change.is_bounded]
    if not bounded:
        return "one repetition does not tell who is faster"
    places = dict.fromkeys(each.place for each in bounded)
    beaten = {each.place for each in bounded if each.is_beyond_noise and not each.hashing_leads}
    if not beaten:
        return "no other partitioner is faster than plain hashing beyond noise"
    if len(beaten) == len(places):
        where = "" if len(places) == 1 else " in every setting"
        return f"another partitioner is faster than plain hashing{where}"
    rest = [place for place in places if place not in beaten]
    where = rest[0] if len(rest) == 1 else f"{len(rest)} of {len(places)} settings"
    return f"plain hashing is as fast as any other partitioner on {where}"
