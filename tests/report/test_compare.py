"""Two runs compared: what is noise, what is a regression, what cannot be known."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partitioners.errors import InputError
from pipelines.benchmark.cell import Cell
from pipelines.benchmark.compare import compare
from pipelines.benchmark.noise import absolute_change, half_width, relative_change, t_quantile
from pipelines.benchmark.report_folder import Failure, ReportFolder, Written
from pipelines.benchmark.show_compare import comparison_page, comparison_text
from tests.cells import make_cell
from tests.report.test_html_report import HOSTILE, Page


def folder(name: str, cells: list[Cell], failures: tuple[Failure, ...] = ()) -> ReportFolder:
    written = tuple(Written(cell, f"cells/{n}.json") for n, cell in enumerate(cells, 1))
    return ReportFolder(Path("runs") / name, written, failures, ())


def repeated(rates: list[float], **changes: Any) -> list[Cell]:
    return [
        make_cell(delivered_per_s=rate, repetition=number, **changes)
        for number, rate in enumerate(rates, 1)
    ]


def test_t_quantiles_are_those_of_the_tables() -> None:
    # Fisher and Yates, two-sided.
    for level, freedom, value in (
        (0.95, 1, 12.706),
        (0.95, 2, 4.303),
        (0.95, 3, 3.182),
        (0.95, 10, 2.228),
        (0.95, 30, 2.042),
        (0.99, 5, 4.032),
        (0.999, 4, 8.610),
        (0.90, 120, 1.658),
    ):
        assert t_quantile(level, freedom) == pytest.approx(value, abs=5e-4)


def test_intervals_cover_as_often_as_they_say() -> None:
    # 3 repetitions a side with unequal scatter, 2,000 times: 95 % of intervals hold the truth.
    draws = np.random.default_rng(1)
    covered = 0
    for _ in range(2_000):
        before, after = np.exp(draws.normal(0, 0.05, 3)), np.exp(draws.normal(0.3, 0.1, 3))
        change = relative_change(before.tolist(), after.tolist())
        assert change is not None
        assert change.low is not None
        assert change.high is not None
        covered += change.low <= math.expm1(0.3) <= change.high
    # The degrees of freedom are rounded down, so a little more than they say.
    assert 0.94 <= covered / 2_000 <= 0.985


@given(
    st.lists(st.floats(0.001, 1e6), min_size=1, max_size=6),
    st.lists(st.floats(0.001, 1e6), min_size=1, max_size=6),
    st.floats(0.001, 1e3),
)
def test_changes_do_not_depend_on_units(
    before: list[float], after: list[float], unit: float
) -> None:
    change = relative_change(before, after)
    scaled = relative_change([v * unit for v in before], [v * unit for v in after])
    assert change is not None
    assert scaled is not None
    assert scaled.estimate == pytest.approx(change.estimate, rel=1e-6, abs=1e-9)
    assert change.is_bounded == (min(len(before), len(after)) > 1)
    if change.low is not None and change.high is not None:
        slack = 1e-9 * (1 + abs(change.estimate))
        assert change.low - slack <= change.estimate <= change.high + slack


def test_missing_figures_and_zeros_have_no_ratio() -> None:
    assert relative_change([], [1.0]) is None
    assert relative_change([0.0, 1.0], [1.0, 1.0]) is None
    assert absolute_change([0.0, 0.0], [0.0, 0.0]).is_bounded  # type: ignore[union-attr]
    assert half_width([1.0]) is None


def test_a_slowdown_beyond_noise_is_a_regression() -> None:
    found = compare(
        folder("a", repeated([1_000, 1_010, 990, 1_005])),
        folder("b", repeated([600, 605, 595, 602])),
    )
    assert [each.figure.name for each in found.slowdowns] == ["records/s"]
    assert found.has_regression
    assert found.sentence.startswith("Regression: wordcount, 2 partitions, key_hash: records/s -40")
    # The other way round it is a gain.
    back = compare(folder("b", repeated([600, 605, 595])), folder("a", repeated([1_000, 1_010])))
    assert not back.has_regression


def test_the_sentence_stays_one_whatever_the_number_of_settings() -> None:
    before = [c for n in range(1, 31) for c in repeated([1_000, 1_001] * 3, partitions=n)]
    wrong = [c for n in range(1, 11) for c in repeated([1_000], partitions=n, exact=False)]
    slow = [c for n in range(11, 30) for c in repeated([700, 701] * 3, partitions=n)]
    slowest = repeated([100, 101] * 3, partitions=30)
    found = compare(folder("a", before), folder("b", [*wrong, *slow, *slowest]))
    assert (len(found.lost), len(found.slowdowns)) == (10, 20)
    assert "so are 7 more" in found.sentence
    assert "20 speeds are slower beyond noise, most of all wordcount, 30 parti" in found.sentence
    assert len(found.sentence) < 500


def test_what_repetitions_scatter_is_noise() -> None:
    found = compare(
        folder("a", repeated([1_000, 700, 1_300])), folder("b", repeated([900, 1_250, 600]))
    )
    assert {e.verdict for e in found.differences if e.figure.name == "records/s"} == {"noise"}
    assert not found.has_regression
    assert "nothing is slower beyond noise" in found.sentence


def test_a_slowdown_within_the_tolerance_is_none() -> None:
    a, b = folder("a", repeated([1_000, 1_001] * 3)), folder("b", repeated([970, 971] * 3))
    assert not compare(a, b).has_regression
    assert compare(a, b, tolerance=0.01).has_regression


def test_one_repetition_gives_no_bound_and_no_regression() -> None:
    found = compare(folder("a", repeated([1_000])), folder("b", repeated([10])))
    assert {each.verdict for each in found.differences} == {"no bound"}
    assert not found.has_regression
    assert "no bound can be given" in found.sentence


def test_lost_exactness_is_a_regression_whatever_the_repetitions() -> None:
    wrong = repeated([1_000], exact=False, differences=["window 3 differs"])
    found = compare(folder("a", repeated([1_000])), folder("b", wrong))
    assert found.has_regression
    assert "no longer exact (1 of 1 cells: window 3 differs)" in found.sentence
    # What was wrong before is not lost now.
    assert not compare(folder("a", wrong), folder("b", wrong)).lost


def test_a_cell_that_fails_now_is_a_regression() -> None:
    failure = Failure("wordcount pkg, 2 partitions", "no broker", "failures/1.json")
    found = compare(folder("a", repeated([1.0])), folder("b", repeated([1.0]), (failure,)))
    assert found.lost == (("wordcount pkg, 2 partitions", "failed: no broker"),)
    before = folder("a", repeated([1.0]), (failure,))
    assert not compare(before, folder("b", repeated([1.0]), (failure,))).lost


def test_settings_match_by_what_was_run() -> None:
    before = [make_cell(), make_cell(partitions=4), make_cell(options={"d": 3})]
    moved = make_cell(run_id="other", bootstrap="elsewhere:9092", inputs=["/mnt/in.txt.gz"])
    after = [moved, make_cell(partitions=8)]
    found = compare(folder("a", before), folder("b", after))
    assert list(found.repetitions) == ["wordcount, 2 partitions, key_hash"]
    assert found.only_before == (
        "wordcount, 2 partitions, key_hash:d=3",
        "wordcount, 4 partitions, key_hash",
    )
    assert found.only_after == ("wordcount, 8 partitions, key_hash",)


def test_windows_are_named_where_they_differ() -> None:
    cells = [make_cell(window_ms=60_000), make_cell(window_ms=1_800_000)]
    found = compare(folder("a", cells), folder("b", cells))
    assert list(found.repetitions) == [
        "wordcount, 2 partitions, windows 1 min/1 min, key_hash",
        "wordcount, 2 partitions, windows 30 min/1 min, key_hash",
    ]


def test_what_follows_from_the_workload_is_not_named() -> None:
    cells = [make_cell(window_ms=60_000), make_cell(workload="gcm-q1", window_ms=1_000)]
    found = compare(folder("a", cells), folder("b", cells))
    assert list(found.repetitions) == [
        "wordcount, 2 partitions, key_hash",
        "gcm-q1, 2 partitions, key_hash",
    ]


@pytest.mark.parametrize("tolerance", [-0.1, float("nan"), float("inf")])
def test_a_tolerance_is_a_fraction(tolerance: float) -> None:
    a = folder("a", [make_cell()])
    with pytest.raises(InputError, match="--tolerance must be 0 or more"):
        compare(a, a, tolerance=tolerance)


def test_nothing_in_common_is_refused() -> None:
    with pytest.raises(InputError, match="no setting in common"):
        compare(folder("a", [make_cell()]), folder("b", [make_cell(partitions=9)]))


@settings(deadline=None, max_examples=30)
@given(name=HOSTILE)
def test_the_page_keeps_texts_as_texts(name: str) -> None:
    pages = []
    for text in ("x", name):
        failure = (Failure(text, text, "failures/1.json"),)
        a = folder("a", [make_cell(workload=text), make_cell(partitions=7)])
        b = folder("b", [make_cell(workload=text)], failure)
        pages.append(Page(comparison_page(compare(a, b))))
    tags = [[tag for tag, _ in page.elements] for page in pages]
    assert tags[0] == tags[1]


def test_text_and_json_say_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    from pipelines.consoles import stdout_console

    found = compare(folder("a", repeated([5.0, 6.0])), folder("b", repeated([5.0, 5.5])))
    stdout_console().print(comparison_text(found))
    said = capsys.readouterr().out
    values = json.loads(json.dumps(found.as_json()))
    assert len(values["differences"]) == 9
    for each in values["differences"]:
        assert each["figure"] in said
        assert each["verdict"] in said
        assert each["repetitions"] == [2, 2]
    assert "repetitions: 2, 2" in said
