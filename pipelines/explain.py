"""The plan of a query's windows in words: what is shared, and what each kind costs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from pipelines.panes import Windows, duration
from pipelines.plan import Step, WindowPlan


def plan_figures(plan: WindowPlan) -> dict[str, Any]:
    """The plan as figures, all of one key that is in every pane.

    Returns:
        `period_ms`, the time that all counts are for; `panes`, the common ones in it; `windows`, of
        each kind: `size_ms`, `slide_ms`, `built_from` (kinds and how many of their panes),
        `combines` (panes that are combined into its own), `changes` (of its running total: one
        when a pane comes and one when it leaves, whatever the size) and `from_common_panes`
        (combines if every window were put together from the common panes alone); and the sums of
        these: `combines`, `changes`, `from_common_panes`. And, of the least slide, `slide_ms`:
        `combines_per_slide`, `changes_per_slide`; of a record, `combines_per_record`.
    """
    period_ms = math.lcm(plan.panes.period_ms, *(step.period_ms for step in plan.steps))
    per_period = period_ms // plan.panes.period_ms * plan.panes.num_in_period
    steps = {step.number: step for step in plan.steps}
    rows: list[dict[str, Any]] = []
    for number, windows in enumerate(plan.windows):
        step = steps[number]
        own = period_ms // step.panes.period_ms * step.panes.num_in_period
        # Each common pane is in as many windows as start between its two ends.
        from_common = windows.size_ms * per_period // windows.slide_ms
        rows.append(
            {
                "size_ms": windows.size_ms,
                "slide_ms": windows.slide_ms,
                "built_from": _built_from(plan, step, period_ms),
                "combines": step.num_combined * (period_ms // step.period_ms),
                "changes": 2 * own,
                # A window that is one pane needs no combine.
                "from_common_panes": from_common
                if from_common > period_ms // windows.slide_ms
                else 0,
            }
        )
    sums = {
        name: sum(row[name] for row in rows)
        for name in ("combines", "changes", "from_common_panes")
    }
    slide_ms = min(each.slide_ms for each in plan.windows)
    return {
        "period_ms": period_ms,
        "panes": per_period,
        "windows": rows,
        **sums,
        "combines_per_record": 1,
        "slide_ms": slide_ms,
        "combines_per_slide": sums["combines"] * slide_ms / period_ms,
        "changes_per_slide": sums["changes"] * slide_ms / period_ms,
    }


def _built_from(plan: WindowPlan, step: Step, period_ms: int) -> dict[str, int]:
    """Names of kinds of panes, and how many of them in a period."""
    found = {}
    for source in step.sources:
        panes = plan.panes_of(source.level)
        in_period = period_ms // panes.period_ms * panes.num_in_period
        share = int(source.chosen.sum()) * in_period // len(source.chosen)
        found[_level_name(plan, source.level)] = share
    return found or {_level_name(plan, step.level): 0}


def _level_name(plan: WindowPlan, level: int) -> str:
    return "common panes" if level < 0 else f"panes of {duration(plan.windows[level].size_ms)}"


def explain(windows: Windows | Sequence[Windows]) -> str:
    """How windows will be computed, and what that costs.

    Args:
        windows: One or several kinds, as `pipelines.run` takes them.

    Raises:
        InputError: They cannot be computed together.

    Example:
        >>> print(explain([Windows.of("5 min"), Windows.of("10 min")]))
        2 common panes in 10 min; each record is combined into its pane, once
        windows of 5 min, tumbling: the common panes as they are; 4 changes of the running total
        windows of 10 min, tumbling: 2 common panes, 2 combines; 2 changes of the running total
        a record costs 1 combine; a slide of 5 min costs a key 1 combine and 3 changes
        in all 2 combines and 6 changes of a key in 10 min; from the common panes alone: 2 combines
    """
    return in_words(WindowPlan((windows,) if isinstance(windows, Windows) else tuple(windows)))


def in_words(plan: WindowPlan) -> str:
    """What `explain` says of a plan."""
    figures = plan_figures(plan)
    time = duration(figures["period_ms"])
    lines = [
        f"{_number(figures['panes'], 'common pane')} in {time}; each record is combined into its "
        "pane, once"
    ]
    for row in figures["windows"]:
        slide = (
            "tumbling"
            if row["slide_ms"] == row["size_ms"]
            else f"sliding by {duration(row['slide_ms'])}"
        )
        lines.append(
            f"windows of {duration(row['size_ms'])}, {slide}: {_sources(row)}; "
            f"{_number(row['changes'], 'change')} of the running total"
        )
    lines.append(
        f"a record costs 1 combine; a slide of {duration(figures['slide_ms'])} costs a key "
        f"{_number(figures['combines_per_slide'], 'combine')} and "
        f"{_number(figures['changes_per_slide'], 'change')}"
    )
    lines.append(
        f"in all {_number(figures['combines'], 'combine')} and "
        f"{_number(figures['changes'], 'change')} of a key in {time}; from the common panes "
        f"alone: {_number(figures['from_common_panes'], 'combine')}"
    )
    return "\n".join(lines)


def _sources(row: dict[str, Any]) -> str:
    if not row["combines"]:
        return f"the {next(iter(row['built_from']))} as they are"
    parts = [f"{count:,} {name}" for name, count in row["built_from"].items()]
    return f"{' + '.join(parts)}, {_number(row['combines'], 'combine')}"


def _number(count: float, name: str) -> str:
    text = f"{count:,}" if isinstance(count, int) else f"{count:,.4g}"
    return f"{text} {name}" if count == 1 else f"{text} {name}s"
