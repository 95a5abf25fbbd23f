"""What repetitions say about a difference: means, changes, and how far noise alone may carry them.

Changes of positive figures are ratios of geometric means, with Welch's t interval on the
logarithms: it takes the scatter of both sides as it is, and two repetitions a side suffice.
Figures that may be 0 (an imbalance) are compared by their difference, with the same interval. A
side with one repetition has no scatter that could be seen: no bound is given then.

The scatter is that *within* a run. A machine that was busier during one of the two runs shifts all
its repetitions, and no interval can tell that from a change of ours.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

LEVEL = 0.95


@dataclass(frozen=True, slots=True)
class Change:
    """A change from before to after.

    Attributes:
        estimate: Relative (0.1: a tenth more) or absolute.
        low: The smallest change that the repetitions allow; None: no bound can be given.
        high: The largest.
    """

    estimate: float
    low: float | None = None
    high: float | None = None

    @property
    def is_bounded(self) -> bool:
        """Whether there are bounds."""
        return self.low is not None and self.high is not None

    def is_above(self, threshold: float) -> bool:
        """Whether it is larger than that beyond noise."""
        return self.low is not None and self.low > threshold

    def is_below(self, threshold: float) -> bool:
        """Whether it is smaller than that beyond noise."""
        return self.high is not None and self.high < threshold


def relative_change(
    before: Sequence[float], after: Sequence[float], level: float = LEVEL
) -> Change | None:
    """Compare positive figures by their ratio.

    Args:
        before: Of each repetition.
        after: Likewise.
        level: Of the interval.

    Returns:
        The change, 0 where there is none; None where a figure is missing or not above 0.

    Example:
        >>> change = relative_change([100.0, 102.0, 98.0], [120.0, 121.0, 119.0])
        >>> round(change.estimate, 3), change.is_above(0.1)
        (0.2, True)
        >>> relative_change([100.0], [120.0, 121.0]).is_bounded
        False
    """
    if not before or not after or min(*before, *after) <= 0:
        return None
    logs, logs_after = ([math.log(value) for value in values] for values in (before, after))
    change = absolute_change(logs, logs_after, level)
    assert change is not None
    return Change(
        math.expm1(change.estimate),
        None if change.low is None else _expm1(change.low),
        None if change.high is None else _expm1(change.high),
    )


def absolute_change(
    before: Sequence[float], after: Sequence[float], level: float = LEVEL
) -> Change | None:
    """Compare figures by their difference.

    Args:
        before: Of each repetition.
        after: Likewise.
        level: Of the interval.

    Returns:
        The change; None where a figure is missing.
    """
    if not before or not after:
        return None
    estimate = statistics.fmean(after) - statistics.fmean(before)
    if min(len(before), len(after)) < 2:
        return Change(estimate)
    errors = [statistics.variance(values) / len(values) for values in (before, after)]
    if sum(errors) == 0:
        return Change(estimate, estimate, estimate)
    # Welch and Satterthwaite; rounded down, so that the interval is rather too wide.
    freedom = sum(errors) ** 2 / sum(
        error**2 / (len(values) - 1)
        for error, values in zip(errors, (before, after), strict=True)
        if error
    )
    half = t_quantile(level, max(1, math.floor(freedom + 1e-9))) * math.sqrt(sum(errors))
    return Change(estimate, estimate - half, estimate + half)


def half_width(values: Sequence[float], level: float = LEVEL) -> float | None:
    """Give half of the t interval of a mean; None for fewer than two values.

    Example:
        >>> half_width([5.0]) is None, half_width([5.0, 5.0])
        (True, 0.0)
    """
    if len(values) < 2:
        return None
    return t_quantile(level, len(values) - 1) * statistics.stdev(values) / math.sqrt(len(values))


def t_quantile(level: float, freedom: int) -> float:
    """Give t such that Student's variable is within -t and t with that probability.

    Args:
        level: Between 0 and 1.
        freedom: Degrees of freedom, at least 1.

    Example:
        >>> round(t_quantile(0.95, 1), 3), round(t_quantile(0.95, 4), 3)
        (12.706, 2.776)
    """
    low, high = 0.0, math.pi / 2
    # By the angle whose tangent is t / sqrt(freedom), in which the probability is a finite sum.
    for _ in range(60):
        middle = (low + high) / 2
        if _probability(middle, freedom) < level:
            low = middle
        else:
            high = middle
    return math.tan(low) * math.sqrt(freedom)


def _probability(angle: float, freedom: int) -> float:
    """P(|T| <= t), Abramowitz and Stegun 26.7.3 and 26.7.4."""
    cosine, total = math.cos(angle), 0.0
    if freedom % 2:
        term = cosine
        for step in range(3, freedom + 1, 2):
            total += term
            term *= cosine**2 * (step - 1) / step
        return 2 / math.pi * (angle + math.sin(angle) * total)
    term = 1.0
    for step in range(2, freedom + 1, 2):
        total += term
        term *= cosine**2 * (step - 1) / step
    return math.sin(angle) * total


def _expm1(value: float) -> float:
    return math.expm1(min(value, 700.0))
