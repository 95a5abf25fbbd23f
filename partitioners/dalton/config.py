"""Options of `dalton`."""

from __future__ import annotations

from dataclasses import dataclass

from partitioners.base import MAX_PARTITIONS
from partitioners.config import Config
from partitioners.panes import num_panes


@dataclass(frozen=True, kw_only=True)
class DaltonConfig(Config):
    """Options of ``dalton``; the defaults are the paper's (section 5).

    Attributes:
        window_ms: Length of the window that load and fragmentation are taken over (W).
        slide_ms: Its slide (s); divides the window.
        interval_ms: Keys are counted over intervals of this length (STATS_WIN; several producers
            also meet once per interval, DSYNC); None: one slide.
        step_size: How much of a new reward enters a Q-value (gamma).
        exploration: Share of a hot key's records that try a partition at random (epsilon).
        balance_weight: Weight of balance in the reward (p1); fragmentation has the rest (p2).
        max_split: A hot key on so many partitions explores only among these; None: all.
        first_split: The limit begins here and rises by one up to ``max_split`` whenever 70 % of
            the hot keys have reached it; None: it is ``max_split`` at once, as in the paper.
        exact_keys: Keys counted exactly in an interval; later ones go into a count-min sketch.
        rules: ``"paper"``, or ``"published"`` for the details of the authors' code (see the
            package's docstring).
        seed: Places the home of each key, and seeds the exploration.
    """

    window_ms: int = 60_000
    slide_ms: int = 1_000
    interval_ms: int | None = None
    step_size: float = 0.1
    exploration: float = 0.1
    balance_weight: float = 0.5
    max_split: int | None = None
    first_split: int | None = 2
    exact_keys: int = 10_000
    rules: str = "paper"
    seed: int = 0

    def __post_init__(self) -> None:
        self.require_range("window_ms", 1, 1 << 53)
        self.require_range("slide_ms", 1, 1 << 53)
        num_panes(self.window_ms, self.slide_ms)
        if self.interval_ms is not None:
            self.require_range("interval_ms", 1, 1 << 53)
        self.require_range("step_size", 0.0, 1.0)
        self.require_range("exploration", 0.0, 1.0)
        self.require_range("balance_weight", 0.0, 1.0)
        for name in ("max_split", "first_split"):
            if getattr(self, name) is not None:
                self.require_range(name, 1, MAX_PARTITIONS)
        self.require_range("exact_keys", 1, 1 << 24)
        self.require_one_of("rules", ("paper", "published"))
        self.require_range("seed", -(1 << 63), (1 << 64) - 1)
