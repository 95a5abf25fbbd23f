"""The plots of a report: cost and benefit, latency, balance and load over the stream."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from partitioners.metrics import imbalance
from pipelines.benchmark.cell import Cell
from pipelines.benchmark.collect import event_time_text
from pipelines.benchmark.figures import (
    FRAGMENTATION,
    IMBALANCE,
    SLOWEST_COMBINER,
    SLOWEST_REDUCER,
    partitioner_of,
)
from pipelines.html.charts import bar_chart, line_chart, number, scatter_chart
from pipelines.html.heat_map import heat_map, scale
from pipelines.html.sortable import figure, table, words

Repetitions: TypeAlias = Mapping[str, Sequence[Cell]]
"""The cells of a place by partitioner."""

_PERCENTILES = {0.0: "0 %", 1.0: "90 %", 2.0: "99 %", 3.0: "99.9 %"}
# An axis of imbalance goes at least so far, so that what is even looks even.
_LEAST_IMBALANCE = 0.1
_END = 3.3  # where the maximum stands on that axis


def colours_of(cells: Sequence[Cell]) -> dict[str, int]:
    """Give each partitioner the number of its colour, the same in all plots.

    Args:
        cells: All cells.
    """
    names = dict.fromkeys(partitioner_of(cell) for cell in cells)
    return {name: index for index, name in enumerate(names)}


def place_plots(partitioners: Repetitions, colours: Mapping[str, int]) -> str:
    """Draw what was measured at one place.

    Args:
        partitioners: Its cells.
        colours: Number of each partitioner's colour.

    Returns:
        HTML.
    """
    plots = [_cost_and_benefit(partitioners, colours), _busy(partitioners, colours)]
    curves = {name: curve for name, cells in partitioners.items() if (curve := _curve(cells))}
    if curves:
        plots.append(_latency(curves, colours))
    loads = {
        name: load for name, cells in partitioners.items() if (load := _loads(cells)) is not None
    }
    if loads:
        plots.append(_imbalance_over_time(loads, partitioners, colours))
    shown = f'<div class="charts">{"".join(plots)}</div>'
    return shown + (_heat_maps(loads, partitioners) if loads else "")


def _folded(
    caption: str, columns: Sequence[str], rows: Sequence[Sequence[float | str | None]]
) -> str:
    entries = [
        [words(each) if isinstance(each, str) else figure(each, "{:,.6g}") for each in row]
        for row in rows
    ]
    return (
        f"<details><summary>as a table</summary>"
        f"{table(caption, columns, entries, sorts=False)}</details>"
    )


def _cost_and_benefit(partitioners: Repetitions, colours: Mapping[str, int]) -> str:
    points = {
        name: (FRAGMENTATION.mean(cells) or 1.0, IMBALANCE.mean(cells) or 0.0)
        for name, cells in partitioners.items()
    }
    title = "cost and benefit of each partitioner: lower left is better"
    return scatter_chart(
        title,
        points,
        x_label="cost: partitions of a key within a window (fragmentation)",
        y_label="imbalance",
        colours=colours,
        from_x=1.0,
        to_y=_LEAST_IMBALANCE,
        fallback=_folded(
            title,
            ("partitioner", "fragmentation", "imbalance"),
            [(name, *at) for name, at in points.items()],
        ),
    )


def _busy(partitioners: Repetitions, colours: Mapping[str, int]) -> str:
    values = [
        (name, (SLOWEST_COMBINER.mean(cells) or 0.0) + (SLOWEST_REDUCER.mean(cells) or 0.0))
        for name, cells in partitioners.items()
    ]
    title = "busy seconds of the slowest combiner and the slowest reducer"
    return bar_chart(
        title,
        values,
        x_label="seconds",
        colours=colours,
        fallback=_folded(title, ("partitioner", "seconds"), values),
    )


def _curve(cells: Sequence[Cell]) -> list[tuple[float, float]]:
    """Latencies by share, mean over repetitions; of older cells their four quantiles."""
    curves = [_cell_curve(cell) for cell in cells]
    shares = [share for share in curves[0] if all(share in curve for curve in curves)]
    return [(share, sum(curve[share] for curve in curves) / len(curves)) for share in shares]


def _cell_curve(cell: Cell) -> dict[float, float]:
    if cell.latency_curve_ms:
        return {float(share): value for share, value in cell.latency_curve_ms}
    named = {0.5: "p50", 0.95: "p95", 0.99: "p99", 1.0: "max"}
    found = {share: cell.latency_ms.get(name) for share, name in named.items()}
    return {share: value for share, value in found.items() if value is not None}


def _latency(
    curves: Mapping[str, Sequence[tuple[float, float]]], colours: Mapping[str, int]
) -> str:
    title = "latency of windows by quantile"
    shares = list(dict.fromkeys(share for curve in curves.values() for share, _ in curve))
    rows = [
        [f"{100 * share:g} %", *(dict(curve).get(share) for curve in curves.values())]
        for share in sorted(shares)
    ]
    return line_chart(
        title,
        {name: [(_tail(share), value) for share, value in curve] for name, curve in curves.items()},
        x_label="share of the windows, stretched towards the slowest",
        y_label="milliseconds",
        colours=colours,
        x_ticks={**_PERCENTILES, _END: "max"},
        fallback=_folded(title, ("windows", *curves), rows),
    )


def _tail(share: float) -> float:
    """Give nines equal room: 0, 90 %, 99 % and 99.9 % are one apart."""
    return _END if share >= 1 else min(-math.log10(1 - share), _END)


def _loads(cells: Sequence[Cell]) -> npt.NDArray[np.int64] | None:
    """Records of each slot and partition, of the first repetition that has them."""
    for cell in cells:
        if cell.load_over_time.get("records"):
            return np.array(cell.load_over_time["records"], np.int64)
    return None


def _imbalance_over_time(
    loads: Mapping[str, npt.NDArray[np.int64]],
    partitioners: Repetitions,
    colours: Mapping[str, int],
) -> str:
    title = "imbalance over the stream"
    series = {}
    for name, load in loads.items():
        ends = np.cumsum(load.sum(axis=1))
        series[name] = [(float(end), imbalance(slot)) for end, slot in zip(ends, load, strict=True)]
    rows = [
        (
            name,
            float(np.mean([value for _, value in points])),
            max(value for _, value in points),
            IMBALANCE.mean(partitioners[name]),
        )
        for name, points in series.items()
    ]
    return line_chart(
        title,
        series,
        x_label="records sent",
        y_label="imbalance of each slot",
        colours=colours,
        to_y=_LEAST_IMBALANCE,
        fallback=_folded(
            title, ("partitioner", "mean of the slots", "largest", "of the whole stream"), rows
        ),
    )


def _heat_maps(loads: Mapping[str, npt.NDArray[np.int64]], partitioners: Repetitions) -> str:
    shares = {name: _fair_shares(load) for name, load in loads.items()}
    # One scale for all, so that they compare; 2 at least, so that evenness looks even.
    most = max(2.0, *(float(each.max(initial=0.0)) for each in shares.values()))
    fullest = {name: _fullest(load, shares[name]) for name, load in loads.items()}
    maps = [
        _heat_map(name, load, shares[name], most, fullest[name], partitioners[name])
        for name, load in loads.items()
    ]
    title = "Load per partition over the stream"
    return (
        f"<h3>{title}</h3>{scale(most, 'times a fair share')}"
        f'<div class="charts">{"".join(maps)}</div>'
        + _folded(
            f"{title}, as times of a fair share",
            ("partitioner", "fullest partition", "its load", "at its fullest: partition", "load"),
            [(name, *each) for name, each in fullest.items()],
        )
    )


def _fullest(
    load: npt.NDArray[np.int64], shares: npt.NDArray[np.float64]
) -> tuple[int, float, int, float]:
    """The fullest partition of the whole stream and that of any slot, each with its load."""
    totals = load.sum(axis=0)
    slot, partition = np.unravel_index(int(shares.argmax()), shares.shape)
    return (
        int(totals.argmax()),
        float(totals.max() / max(totals.mean(), 1e-9)),
        int(partition),
        float(shares[slot, partition]),
    )


def _fair_shares(load: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Load over that of perfect balance, `float64[slots, partitions]`."""
    return np.asarray(load / np.maximum(load.mean(axis=1, keepdims=True), 1e-9), np.float64)


def _heat_map(
    name: str,
    load: npt.NDArray[np.int64],
    shares: npt.NDArray[np.float64],
    most: float,
    fullest: tuple[int, float, int, float],
    cells: Sequence[Cell],
) -> str:
    whole, whole_share, once, once_share = fullest
    alt = (
        f"{name}, {load.shape[1]} partitions: the fullest of the whole stream is partition {whole} "
        f"with {whole_share:.2f} times a fair share; at any time it is partition {once} with "
        f"{once_share:.2f} times"
    )
    first_ms = next(
        (c.load_over_time["first_ms"] for c in cells if c.load_over_time.get("records")), [0]
    )
    return heat_map(
        name,
        shares.T,
        most=most,
        rows="partition",
        ends=(event_time_text(first_ms[0]), f"{number(float(load.sum()))} records"),
        alt=alt,
    )
