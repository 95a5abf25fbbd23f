"""The report of a run or a grid: whole, without a network, escaped, whatever is missing."""

from __future__ import annotations

import base64
import json
import re
import struct
import zlib
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partitioners.errors import InputError
from pipelines.benchmark.cell import Cell
from pipelines.benchmark.html_report import report_page, write_report
from pipelines.benchmark.report_folder import (
    Failure,
    ReportFolder,
    Written,
    find_report_folder,
    read_report_folder,
)
from pipelines.benchmark.verdict import contests, verdict
from pipelines.html.frame import DARK, DARK_SERIES, LIGHT, LIGHT_SERIES
from pipelines.html.heat_map import png_uri
from pipelines.html.sortable import Entry, figure, table, words
from tests.cells import make_cell

VOID = {"meta", "br", "link", "img"}


class Page(HTMLParser):
    """Reads a page: elements closed in order, what it loads, what it says."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not {"style", "script"} & set(self.open):
            self.text.append(data)

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


def folder_of(*cells: Cell, **rest: Any) -> ReportFolder:
    written = tuple(Written(cell, f"cells/{n}.json") for n, cell in enumerate(cells, 1))
    found = {"failures": (), "missing": (), **rest}
    return ReportFolder(Path("runs/run-1"), written, **found)


def grid(repetitions: int = 1) -> list[Cell]:
    return [
        make_cell(
            partitioner=name,
            imbalance=uneven,
            fragmentation=split,
            repetition=repetition,
            delivered_per_s=rate + repetition,
            partitions=partitions,
            records_per_partition=[10] * partitions,
            load_over_time={
                "slot_records": 64,
                "first_ms": [0],
                "records": [[10] * partitions],
            },
        )
        for repetition in range(1, repetitions + 1)
        for partitions in (2, 4)
        for name, uneven, split, rate in (
            ("key_hash", 0.5, 1.0, 1_000.0),
            ("pkg", 0.1, 1.5, 2_000.0),
        )
    ]


def test_the_page_is_whole_and_loads_nothing() -> None:
    text = report_page(folder_of(*grid()))
    page = Page(text)
    assert not re.search(r"https?://|@import|url\(", text)
    assert all(each["src"].startswith("data:image/png") for each in page.all("img") if each["src"])
    assert not page.all("link")
    # Raw figures beside the page, each once in the table of cells.
    links = [each["href"] for each in page.all("a")]
    assert links == [f"cells/{number}.json" for number in range(1, 5)]
    assert "prefers-color-scheme: dark" in text
    assert "@media print" in text


def test_what_is_seen_can_be_read_and_operated_without_seeing() -> None:
    page = Page(report_page(folder_of(*grid())))
    assert page.all("html")[0]["lang"] == "en"
    assert all(each.get("alt") for each in page.all("img"))
    charts = [each for each in page.all("svg") if each.get("aria-hidden") != "true"]
    assert charts
    assert all(each["role"] == "img" and each["aria-label"] for each in charts)
    # A plot each has its table, and each table its caption, column heads and row heads.
    # Heat maps of a setting share one.
    assert len(page.all("details")) == len(charts) + 2
    assert len(page.all("caption")) == len(page.all("table"))
    assert {each["scope"] for each in page.all("th")} == {"col", "row"}
    sortable = [each for each in page.all("th") if "aria-sort" in each]
    assert len(sortable) == len(page.all("button")) > 0


def test_one_cell_is_enough() -> None:
    page = Page(report_page(folder_of(make_cell())))
    said = " ".join(page.text)
    assert "The cell is exact; on wordcount, 2 partitions key_hash has imbalance 0.500" in said
    assert "Where plain hashing wins" not in said


def test_a_cell_of_an_older_version_is_shown_without_what_it_lacks() -> None:
    content = json.loads(make_cell().to_json())
    lacking = ("load_over_time", "latency_curve_ms", "hot_keys", "state_calls", "consume_seconds")
    for name in lacking:
        content.pop(name)
    for name in ("slide_ms", "sinks", "emit"):
        content["config"].pop(name)
    old = Cell.from_json(json.dumps(content))
    page = Page(report_page(folder_of(old)))
    assert not page.all("img")
    assert "latency of windows by quantile" in page.text
    # And compares with a new one that has the defaults.
    assert len(contests([old, make_cell(partitioner="pkg")])) == 5


MISSING = st.fixed_dictionaries(
    {
        "latency_ms": st.sampled_from([{}, dict.fromkeys(("p50", "p95", "p99", "max"))]),
        "latency_curve_ms": st.just([]),
        "combine_seconds_per_partition": st.sampled_from([[], [0.0, 0.0]]),
        "reduce_seconds_per_shard": st.sampled_from([[], [0.0]]),
        "delivered_per_s": st.just(0.0),
        "hot_keys": st.just([]),
        "machine": st.just({}),
        "versions": st.just({}),
        "load_over_time": st.sampled_from(
            [{}, {"slot_records": 64, "first_ms": [], "records": []}]
        ),
        "last_window": st.just({}),
        "partial_rows": st.just(0),
    }
)


@settings(deadline=None, max_examples=20)
@given(missing=MISSING)
def test_missing_figures_are_dashes(missing: dict[str, Any]) -> None:
    cells = [make_cell(partitioner=name, **missing) for name in ("key_hash", "pkg")]
    page = Page(report_page(folder_of(*cells)))
    assert "-" in page.text
    assert "nan" not in " ".join(page.text).lower()
    assert "None" not in page.text


HOSTILE = st.text(
    st.sampled_from("<>&\"'/`=\\ abscript!-\x00\n\u202e\U0001f600"), min_size=1, max_size=40
) | st.sampled_from(["</script><script>alert(1)</script>", "<img src=x onerror=alert(1)>", "]]>"])


@settings(deadline=None, max_examples=30)
@given(key=HOSTILE, reason=HOSTILE, name=HOSTILE)
def test_texts_from_data_stay_text(key: str, reason: str, name: str) -> None:
    plain, hostile = (
        report_page(
            folder_of(
                make_cell(
                    workload=workload,
                    partitioner=workload,
                    hot_keys=[{"key": text, "share": 0.5, "num_partitions": 2}],
                    exact=False,
                    differences=[why],
                    machine={workload: text},
                ),
                failures=(Failure(workload, why, f"failures/{'x' if why == 'x' else 1}.json"),),
                missing=(text,),
            )
        )
        for workload, text, why in (("x", "x", "x"), (name, key, reason))
    )
    one, other = Page(plain), Page(hostile)
    # The same elements, whatever the texts are.
    assert [tag for tag, _ in one.elements] == [tag for tag, _ in other.elements]
    assert {k for _, found in other.elements for k in found} == {
        k for _, found in one.elements for k in found
    }


@settings(deadline=None, max_examples=30)
@given(
    st.lists(
        st.one_of(
            st.none(),
            st.floats(allow_nan=False, allow_infinity=False),
            st.integers(-(10**9), 10**9),
        ),
        min_size=1,
        max_size=8,
    )
)
def test_figures_sort_by_their_values(values: list[float | None]) -> None:
    page = Page(table("t", ("name", "value"), [[words("x"), figure(v)] for v in values]))
    kinds = [each["data-kind"] for each in page.all("th") if "data-kind" in each]
    assert kinds == ["text", "number"]
    # What the page sorts by reads back as the figure; missing ones are empty, and sort last.
    found = [each.get("data-v") for each in page.all("td")]
    assert [None if text == "" else float(text or "x") for text in found] == [
        None if value is None else float(value) for value in values
    ]


def test_columns_of_words_sort_as_words() -> None:
    page = Page(table("t", ("a", "b"), [[words("x"), words("9")], [words("y"), Entry("-", None)]]))
    assert [each["data-kind"] for each in page.all("th") if "data-kind" in each] == ["text"] * 2


def test_failed_wrong_and_missing_cells_are_named() -> None:
    folder = folder_of(
        make_cell(),
        make_cell(partitioner="pkg", exact=False, differences=["window 3: 5 is not 6"]),
        failures=(Failure("wordcount cam, 2 partitions", "the broker is gone", "failures/3.json"),),
        missing=("wordcount lm, 2 partitions",),
    )
    page = Page(report_page(folder))
    said = " ".join(page.text)
    assert "1 of 2 cells is NOT exact, 1 failed, 1 is missing" in said
    for text in ("the broker is gone", "window 3: 5 is not 6", "not run: wordcount lm"):
        assert text in said
    assert "failures/3.json" in [each["href"] for each in page.all("a")]


def test_who_wins_needs_repetitions() -> None:
    one = folder_of(*grid())
    assert {each.winner for each in contests(one.cells) if each.figure.name == "records/s"} == {
        "pkg, no bound"
    }
    assert "one repetition does not tell who is faster" in verdict(one)
    three = folder_of(*grid(3))
    assert {each.winner for each in contests(three.cells) if each.figure.name == "records/s"} == {
        "pkg"
    }
    assert "another partitioner is faster than plain hashing in every setting" not in verdict(one)
    assert "another partitioner is faster than plain hashing in every setting" in verdict(three)


def test_plain_hashing_wins_where_it_does() -> None:
    cells = grid(3)
    slower = [
        make_cell(
            partitioner="cam", partitions=2, repetition=n, delivered_per_s=500.0 + n, imbalance=0.4
        )
        for n in (1, 2, 3)
    ]
    found = contests([*(c for c in cells if c.partitioner == "key_hash"), *slower])
    assert [each.winner for each in found if each.figure.name == "records/s"] == ["key_hash"]


def test_a_grid_is_read_with_what_failed_and_what_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "cells").mkdir()
    (tmp_path / "failures").mkdir()
    plan = {"cells": [{"number": n, "label": f"cell number {n}"} for n in (1, 2, 3)]}
    (tmp_path / "grid.json").write_text(json.dumps(plan))
    (tmp_path / "cells" / "2.json").write_text(make_cell().to_json())
    failure = {"number": 1, "label": "cell number 1", "reason": "no broker"}
    (tmp_path / "failures" / "1.json").write_text(json.dumps(failure))
    found = read_report_folder(tmp_path)
    assert found.failures == (Failure("cell number 1", "no broker", "failures/1.json"),)
    assert found.missing == ("cell number 3",)
    path = write_report(tmp_path)
    assert path == tmp_path / "report.html"
    assert "no broker" in path.read_text(encoding="utf-8")
    assert not list(tmp_path.glob(".report*"))


def test_cells_are_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    (tmp_path / "cells").mkdir()
    for number in (10, 9, 1):
        (tmp_path / "cells" / f"{number}.json").write_text(make_cell(repetition=number).to_json())
    assert [cell.repetition for cell in read_report_folder(tmp_path).cells] == [1, 9, 10]


def test_redacted_reports_name_no_key(tmp_path: Path) -> None:
    (tmp_path / "cells").mkdir()
    cell = make_cell(hot_keys=[{"key": "secret-name", "share": 0.3, "num_partitions": 1}])
    (tmp_path / "cells" / "1.json").write_text(cell.to_json())
    assert "secret-name" in write_report(tmp_path).read_text(encoding="utf-8")
    assert "secret-name" not in write_report(tmp_path, redact=True).read_text(encoding="utf-8")


@pytest.mark.parametrize("content", ["", "{}", "not JSON", "[]"])
def test_a_damaged_cell_is_named(tmp_path: Path, content: str) -> None:
    (tmp_path / "cells").mkdir()
    (tmp_path / "cells" / "1.json").write_text(content)
    with pytest.raises(InputError, match=r"1\.json is not a cell of this version"):
        read_report_folder(tmp_path)


def test_a_folder_without_results_says_how_to_get_them(tmp_path: Path) -> None:
    (tmp_path / "r").mkdir()
    (tmp_path / "r" / "config.json").write_text("{}")
    folder = find_report_folder(tmp_path, "r")
    with pytest.raises(InputError, match="finish it with `keyspread run --resume r`"):
        read_report_folder(folder)
    with pytest.raises(InputError, match='no run or grid "s"'):
        find_report_folder(tmp_path, "s")


def test_heat_maps_are_pictures_of_their_values() -> None:
    values = np.array([[0.0, 1.0, 2.0], [4.0, 3.0, 9.0]])
    content = base64.b64decode(png_uri(values, 4.0).partition(",")[2])
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    chunks, at = {}, 8
    while at < len(content):
        (size,) = struct.unpack(">I", content[at : at + 4])
        kind, body = content[at + 4 : at + 8], content[at + 8 : at + 8 + size]
        assert struct.unpack(">I", content[at + 8 + size : at + 12 + size])[0] == zlib.crc32(
            kind + body
        )
        chunks[kind], at = body, at + 12 + size
    assert struct.unpack(">II", chunks[b"IHDR"][:8]) == (3, 2)
    pixels = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), np.uint8).reshape(2, 4)[:, 1:]
    assert pixels.tolist() == [[0, 64, 128], [255, 191, 255]]


def luminance(colour: str) -> float:
    channels = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (
        c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize(("theme", "series"), [(LIGHT, LIGHT_SERIES), (DARK, DARK_SERIES)])
def test_contrast_is_that_of_wcag_aa(theme: dict[str, str], series: tuple[str, ...]) -> None:
    for behind in (theme["back"], theme["panel"]):
        for text in ("text", "faint", "link", "good", "bad"):
            assert contrast(theme[text], behind) >= 4.5, text
        for colour in series:
            assert contrast(colour, behind) >= 3.0, colour


def test_charts_are_well_formed() -> None:
    text = report_page(folder_of(*grid(2)))
    for svg in re.findall(r"<svg.*?</svg>", text):
        ElementTree.fromstring(svg)
