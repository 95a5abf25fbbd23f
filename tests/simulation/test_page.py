"""The page of a simulation: whole, without a network, escaped."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest

from partitioners.simulation import Setting, simulate
from partitioners.stream_names import parse_named, parse_stream
from pipelines.html.charts import bar_chart, line_chart
from pipelines.simulation.page import page

VOID = {"meta", "br", "link", "img"}


class Reader(HTMLParser):
    """Checks that elements are closed in order, and keeps what loads from elsewhere."""

    def __init__(self):
        super().__init__()
        self.open, self.loads, self.counts = [], [], {}

    def handle_starttag(self, tag, attrs):
        self.counts[tag] = self.counts.get(tag, 0) + 1
        self.loads += [value for name, value in attrs if name in ("src", "href")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, _attrs):
        self.counts[tag] = self.counts.get(tag, 0) + 1

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def cells():
    return [
        simulate(
            Setting(
                partitioner=parse_named(name),
                stream=parse_stream("zipf:num_keys=200", 6_000, seed=1),
                num_partitions=partitions,
                window_ms=2_000,
                slide_ms=500,
            )
        )
        for partitions in (4, 8)
        for name in ("key_hash", "pkg:d=3", "hot_fill")
    ]


def test_the_page_is_whole_and_loads_nothing(cells):
    text = page(cells)
    reader = Reader()
    reader.feed(text)
    assert reader.open == []
    assert reader.loads == []
    assert not re.search(r"https?://|url\(|@import", text)
    assert "prefers-color-scheme: dark" in text
    # A row per cell and the head; three plots over partitions, three for each number of them.
    assert reader.counts["tr"] == len(cells) + 1
    assert reader.counts["figure"] == 3 + 3 * 2
    assert reader.counts["polyline"] == 3 * 3 + 2 * 2 * 3


def test_the_page_carries_its_figures(cells):
    raw = re.search(r'<script type="application/json" id="cells">(.*?)</script>', page(cells))
    assert json.loads(raw.group(1)) == json.loads(json.dumps([cell.as_json() for cell in cells]))


def test_names_from_outside_stay_text(cells):
    from dataclasses import replace

    hostile = [replace(cells[0], stream="</script><b>x</b>.txt")]
    text = page(hostile)
    reader = Reader()
    reader.feed(text)
    assert "b" not in reader.counts
    assert reader.counts["script"] == 1


def test_a_page_without_cells_says_so():
    assert "No cells." in page([])


def svg_of(figure):
    return ElementTree.fromstring(re.search(r"<svg.*</svg>", figure).group(0))


def test_lines_go_through_their_points():
    svg = svg_of(
        line_chart("t", {"a": [(0, 0), (10, 5)]}, x_label="x", y_label="y", colours={"a": 0})
    )
    points = [tuple(map(float, p.split(","))) for p in svg.find("polyline").get("points").split()]
    # From the lower left to the upper right corner of the plot.
    assert points[0] == (62, 300 - 44)
    assert points[1] == (560 - 12, 14)


@pytest.mark.parametrize("log_y", [False, True])
@pytest.mark.parametrize(
    "points", [[], [(1, 0)], [(1, 3), (1, 3)], [(0, float("nan")), (1, 1)], [(0, 1e-12), (1, 1e9)]]
)
def test_any_points_make_a_chart(points, log_y):
    svg = svg_of(
        line_chart("t", {"a": points}, x_label="x", y_label="y", colours={"a": 0}, log_y=log_y)
    )
    for dot in svg.iter("circle"):
        assert 0 <= float(dot.get("cx")) <= 560
        assert 0 <= float(dot.get("cy")) <= 300


def test_bars_are_as_long_as_their_values():
    svg = svg_of(
        bar_chart(
            "t",
            [("a", 2.0), ("b", 1.0), ("c", float("inf"))],
            x_label="x",
            colours={"a": 0, "b": 1, "c": 2},
        )
    )
    widths = [float(bar.get("width")) for bar in svg.iter("rect")]
    assert widths[0] == pytest.approx(2 * widths[1], abs=0.2)
    assert widths[2] == 0.5
