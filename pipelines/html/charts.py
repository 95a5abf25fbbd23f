"""Charts as SVG text; their colours are those of the page, in light and dark."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

NUM_COLOURS = 12
WIDTH, HEIGHT = 560, 300
# More of them cover the lines, and make a page slow to open.
_MOST_DOTS = 150
LEFT, RIGHT, TOP, BOTTOM = 62, 12, 14, 44

Points = Sequence[tuple[float, float]]


def line_chart(
    title: str,
    series: Mapping[str, Points],
    *,
    x_label: str,
    y_label: str,
    colours: Mapping[str, int],
    log_y: bool = False,
    from_y: float = 0.0,
    to_y: float | None = None,
    x_ticks: Mapping[float, str] | None = None,
    fallback: str = "",
) -> str:
    """Draw lines.

    Args:
        title: Above the chart.
        series: Points (x, y) by name; values that are no number are left out.
        x_label: Below the axis.
        y_label: Beside the axis.
        colours: Number of each name's colour.
        log_y: Whether y is logarithmic; values of 0 then lie on the axis.
        from_y: Where a linear axis begins, unless values are below.
        to_y: Where it ends, unless values are above; None: at the largest value.
        x_ticks: What stands below the axis, by x; None: round numbers.
        fallback: HTML of a table of the same, folded away.

    Returns:
        An HTML ``figure``.
    """
    kept = {
        name: [(x, y) for x, y in points if math.isfinite(x) and math.isfinite(y)]
        for name, points in series.items()
    }
    xs = [x for points in kept.values() for x, _ in points] or [0.0, 1.0]
    ys = [y for points in kept.values() for _, y in points] or [0.0, 1.0]
    x_scale = _Scale(min(xs), max(xs), LEFT, WIDTH - RIGHT)
    y_scale = (
        _LogScale(ys, HEIGHT - BOTTOM, TOP)
        if log_y
        else _Scale(min(from_y, *ys), _top(ys, to_y), HEIGHT - BOTTOM, TOP)
    )
    body = _axes(x_scale, y_scale, x_label, y_label, x_ticks)
    shows_dots = sum(map(len, kept.values())) <= _MOST_DOTS
    for name, points in kept.items():
        if not points:
            continue
        path = " ".join(f"{x_scale(x):.1f},{y_scale(y):.1f}" for x, y in sorted(points))
        colour = colours[name] % NUM_COLOURS
        body.append(f'<polyline class="line c{colour}" points="{path}"><title>')
        body.append(f"{escape(name)}</title></polyline>")
        if shows_dots and len(points) <= 24:
            for x, y in points:
                tip = f"{escape(name)}: {number(x)}, {number(y)}"
                body.append(
                    f'<circle class="dot c{colour}" cx="{x_scale(x):.1f}" '
                    f'cy="{y_scale(y):.1f}" r="3"><title>{tip}</title></circle>'
                )
    return _figure(title, HEIGHT, body, fallback)


def scatter_chart(
    title: str,
    points: Mapping[str, tuple[float, float]],
    *,
    x_label: str,
    y_label: str,
    colours: Mapping[str, int],
    from_x: float = 0.0,
    to_y: float | None = None,
    fallback: str = "",
) -> str:
    """Draw a named point per series.

    Args:
        title: Above the chart.
        points: (x, y) by name; one that has no such number is left out.
        x_label: Below the axis.
        y_label: Beside the axis.
        colours: Number of each name's colour.
        from_x: Where the x axis begins, unless values are below.
        to_y: Where the y axis ends, unless values are above; None: at the largest value.
        fallback: HTML of a table of the same, folded away.

    Returns:
        An HTML ``figure``.
    """
    kept = {name: at for name, at in points.items() if all(map(math.isfinite, at))}
    xs = [x for x, _ in kept.values()] or [from_x + 1.0]
    ys = [y for _, y in kept.values()] or [1.0]
    # Names stand to the right of their points: leave them room there.
    x_scale = _Scale(min(from_x, *xs), max(xs), LEFT, WIDTH - RIGHT - 90)
    y_scale = _Scale(min(0.0, *ys), _top(ys, to_y), HEIGHT - BOTTOM, TOP + 8)
    body = _axes(x_scale, y_scale, x_label, y_label)
    taken: list[tuple[float, float]] = []
    for name, (x, y) in sorted(kept.items(), key=lambda each: each[1][::-1]):
        at_x, at_y = x_scale(x), y_scale(y)
        label_y = at_y + 4
        # Up, past the names that are there already.
        while any(abs(label_y - other) < 11 and abs(at_x - left) < 90 for left, other in taken):
            label_y -= 11
        taken.append((at_x, label_y))
        body.append(f'<circle class="dot c{colours[name] % NUM_COLOURS}" cx="{at_x:.1f}" ')
        body.append(f'cy="{at_y:.1f}" r="5"><title>{escape(name)}: {number(x)}, {number(y)}')
        body.append(f'</title></circle><text class="name" x="{at_x + 9:.1f}" y="{label_y:.1f}">')
        body.append(f"{escape(name)}</text>")
    return _figure(title, HEIGHT, body, fallback)


def bar_chart(
    title: str,
    values: Sequence[tuple[str, float]],
    *,
    x_label: str,
    colours: Mapping[str, int],
    fallback: str = "",
) -> str:
    """Draw a horizontal bar per name.

    Args:
        title: Above the chart.
        values: Name and value, in their order.
        x_label: Below the axis.
        colours: Number of each name's colour.
        fallback: HTML of a table of the same, folded away.

    Returns:
        An HTML ``figure``.
    """
    row, left = 20, 132
    height = TOP + row * len(values) + BOTTOM
    largest = max((value for _, value in values if math.isfinite(value)), default=1.0) or 1.0
    scale = _Scale(0.0, largest, left, WIDTH - RIGHT - 50)
    bottom = height - BOTTOM
    body = []
    for tick, text in scale.labels().items():
        body.append(f'<line class="grid" x1="{scale(tick):.1f}" x2="{scale(tick):.1f}" ')
        body.append(f'y1="{TOP}" y2="{bottom}"/>')
        body.append(f'<text class="tick" text-anchor="middle" x="{scale(tick):.1f}" ')
        body.append(f'y="{bottom + 15}">{text}</text>')
    for index, (name, value) in enumerate(values):
        y = TOP + row * index
        shown = value if math.isfinite(value) else 0.0
        body.append(f'<text class="name" text-anchor="end" x="{left - 6}" y="{y + 14}">')
        body.append(f"{escape(name)}</text>")
        body.append(f'<rect class="bar c{colours[name] % NUM_COLOURS}" x="{left}" y="{y + 3}" ')
        body.append(f'height="{row - 6}" width="{max(scale(shown) - left, 0.5):.1f}"/>')
        body.append(f'<text class="tick" x="{scale(shown) + 5:.1f}" y="{y + 14}">')
        body.append(f"{number(value)}</text>")
    body.append(f'<text class="label" text-anchor="middle" x="{(left + WIDTH) / 2:.0f}" ')
    body.append(f'y="{height - 8}">{escape(x_label)}</text>')
    return _figure(title, height, body, fallback)


def _top(values: Sequence[float], least: float | None) -> float:
    return max(values) if least is None else max(least, *values)


def legend(colours: Mapping[str, int]) -> str:
    """Name the colours.

    Args:
        colours: Number of each name's colour.

    Returns:
        An HTML list.
    """
    items = "".join(
        f'<li><svg width="14" height="14" aria-hidden="true"><rect class="bar '
        f'c{colour % NUM_COLOURS}" width="14" height="14" rx="3"/></svg>{escape(name)}</li>'
        for name, colour in colours.items()
    )
    return f'<ul class="legend">{items}</ul>'


def number(value: float, digits: int = 3) -> str:
    """Write a figure short.

    Args:
        value: The figure.
        digits: How many of it count, below 1,000 and above a million.

    Example:
        >>> [number(value) for value in (0, 0.01234, 2.5, 1234.5, 5_300_000)]
        ['0', '0.0123', '2.5', '1,234', '5.3M']
    """
    if not math.isfinite(value):
        return "-"
    if abs(value) >= 1e6:
        return f"{value / 1e6:.{digits}g}M"
    if abs(value) >= 1_000:
        return f"{value:,.0f}"
    return f"{value:.{digits}g}"


def tick_texts(ticks: Sequence[float]) -> list[str]:
    """Write the figures of an axis, short, but no two alike.

    Example:
        >>> tick_texts([0.0, 0.5, 1.0]), tick_texts([1.0, 1.0005, 1.001])
        (['0', '0.5', '1'], ['1', '1.0005', '1.001'])
    """
    for digits in range(3, 10):
        texts = [number(tick, digits) for tick in ticks]
        if len(set(texts)) == len(texts):
            break
    return texts


class _Scale:
    """Maps values to pixels, linearly, from round number to round number."""

    def __init__(self, low: float, high: float, start: float, end: float) -> None:
        if high <= low:
            high = low + (abs(low) or 1.0)
        self.low, self.high, self.start, self.end = low, high, start, end

    def __call__(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)

    def ticks(self) -> list[float]:
        step = 10.0 ** math.floor(math.log10((self.high - self.low) / 4))
        span = (self.high - self.low) / step
        step *= next(factor for factor in (1, 2, 5, 10) if span / factor <= 6)
        first = math.ceil(self.low / step - 1e-9)
        count = math.floor(self.high / step + 1e-9)
        return [index * step for index in range(first, count + 1)]

    def labels(self) -> dict[float, str]:
        """What stands beside each tick."""
        ticks = self.ticks()
        return dict(zip(ticks, tick_texts(ticks), strict=True))


class _LogScale(_Scale):
    """Maps values to pixels by their logarithm; below the least power of ten is the axis."""

    def __init__(self, values: Sequence[float], start: float, end: float) -> None:
        positive = [value for value in values if value > 0] or [1.0]
        low = math.floor(math.log10(min(positive)))
        high = math.ceil(math.log10(max(positive)) + 1e-9)
        super().__init__(max(low, high - 9), max(high, low + 1), start, end)

    def __call__(self, value: float) -> float:
        return super().__call__(max(math.log10(value), self.low) if value > 0 else self.low)

    def ticks(self) -> list[float]:
        step = max(1, round((self.high - self.low) / 6))
        return [10.0**power for power in range(round(self.low), round(self.high) + 1, step)]


def _axes(
    x_scale: _Scale,
    y_scale: _Scale,
    x_label: str,
    y_label: str,
    x_ticks: Mapping[float, str] | None = None,
) -> list[str]:
    body = []
    bottom, right = HEIGHT - BOTTOM, WIDTH - RIGHT
    for tick, text in y_scale.labels().items():
        y = y_scale(tick)
        body.append(f'<line class="grid" x1="{LEFT}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}"/>')
        body.append(f'<text class="tick" text-anchor="end" x="{LEFT - 6}" y="{y + 4:.1f}">')
        body.append(f"{text}</text>")
    if x_ticks is None:
        x_ticks = x_scale.labels()
    for tick, text in x_ticks.items():
        x = x_scale(tick)
        if not LEFT - 1 <= x <= right + 1:
            continue
        body.append(f'<text class="tick" text-anchor="middle" x="{x:.1f}" y="{bottom + 16}">')
        body.append(f"{escape(text)}</text>")
    body.append(f'<line class="axis" x1="{LEFT}" x2="{right}" y1="{bottom}" y2="{bottom}"/>')
    middle = (TOP + bottom) / 2
    body.append(f'<text class="label" text-anchor="middle" x="{(LEFT + right) / 2:.0f}" ')
    body.append(f'y="{HEIGHT - 8}">{escape(x_label)}</text>')
    body.append(f'<text class="label" text-anchor="middle" transform="rotate(-90 14 {middle:.0f})"')
    body.append(f' x="14" y="{middle:.0f}">{escape(y_label)}</text>')
    return body


def _figure(title: str, height: int, body: Sequence[str], fallback: str = "") -> str:
    return (
        f'<figure><figcaption>{escape(title)}</figcaption><svg viewBox="0 0 {WIDTH} {height}" '
        f'role="img" aria-label="{escape(title)}">{"".join(body)}</svg>{fallback}</figure>'
    )
