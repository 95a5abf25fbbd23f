"""Several kinds of windows on one set of panes: the plan, and what the engine makes of it."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from naive_windows import Values, changed_only, naive_sums, top_only
from streams import Engine, deal, keyed, out_of_order

from partitioners.errors import InputError
from pipelines.explain import explain, plan_figures
from pipelines.panes import Panes, Windows
from pipelines.plan import WindowPlan
from pipelines.workloads import KeyedSum

MINUTE_MS = 60_000


def minutes(*sizes_and_slides: tuple[int, int]) -> tuple[Windows, ...]:
    return tuple(Windows(size * MINUTE_MS, slide * MINUTE_MS) for size, slide in sizes_and_slides)


@st.composite
def kinds(draw: st.DrawFn, most: int = 4, longest: int = 40) -> tuple[Windows, ...]:
    sizes = draw(st.lists(st.integers(1, longest), min_size=1, max_size=most, unique=True))
    return tuple(Windows(size, draw(st.integers(max(1, size // 4), size))) for size in sizes)


@given(kinds())
def test_records_of_a_pane_are_in_the_same_windows_of_every_kind(several: tuple[Windows, ...]):
    panes = Panes(several)
    times = np.arange(-100, 400)
    found = panes.of(times)
    inside = [
        tuple((int(each.first_window(time)), int(each.exit_window(time))) for each in several)
        for time in times
    ]
    for i in range(1, len(times)):
        assert (found[i] == found[i - 1]) == (inside[i] == inside[i - 1])
        assert found[i] - found[i - 1] in (0, 1)
    begins = panes.start_ms(found)
    assert (begins <= times).all()
    assert panes.of(begins).tolist() == found.tolist()


@settings(deadline=None)
@given(kinds())
def test_each_pane_is_built_once_from_panes_that_lie_in_it(several: tuple[Windows, ...]):
    plan = WindowPlan(several)
    for step in plan.steps:
        if not step.sources:
            continue
        period = math.lcm(plan.panes.period_ms, step.period_ms)
        covered = np.zeros(period, dtype=np.int64)
        for source in step.sources:
            panes = plan.panes_of(source.level)
            numbers = np.arange(period // panes.period_ms * panes.num_in_period)
            for pane in numbers[source.takes(numbers)].tolist():
                low, high = panes.start_ms(np.array([pane, pane + 1])).tolist()
                assert len(set(step.panes.of(np.arange(low, high)).tolist())) == 1
                covered[np.arange(low, high) % period] += 1
        assert (covered == 1).all()


def combined_per_hour(plan: WindowPlan) -> int:
    return sum(step.num_combined * 60 * MINUTE_MS // step.period_ms for step in plan.steps)


def test_the_example_of_enorm() -> None:
    # Section 6.1: 86 partial results for an hour of 5, 10, 15 and 20 minutes, 240 without sharing.
    kinds = minutes((1, 1), (5, 5), (10, 10), (15, 15), (20, 20))
    assert combined_per_hour(WindowPlan(kinds)) == 60 + 12 + 8 + 6
    # Without a window of a minute, no pane need be so short.
    assert combined_per_hour(WindowPlan(kinds[1:])) == 12 + 8 + 6


def test_windows_that_slide_alike_have_the_same_panes() -> None:
    plan = WindowPlan(minutes((1, 1), (5, 1), (15, 1), (60, 1)))
    assert plan.panes.num_in_period == 1
    assert all(not step.sources for step in plan.steps)


def test_a_size_that_is_no_multiple_of_its_slide_costs_two_panes_a_slide() -> None:
    assert Panes([Windows(45_000, 7_001)]).num_in_period == 2


def test_windows_without_a_pattern_are_refused() -> None:
    with pytest.raises(InputError, match="choose slides that are multiples of one another"):
        Panes([Windows(9_999_991, 9_999_991), Windows(9_999_973, 1)])
    # Where the query is started, not in its first batch.
    with pytest.raises(InputError, match="choose slides that are multiples of one another"):
        WindowPlan((Windows(9_999_991, 9_999_991), Windows(9_999_973, 1)))


def test_two_windows_of_one_size_are_refused() -> None:
    with pytest.raises(InputError, match=r"two of the windows are of 60,000 ms.*each size once"):
        WindowPlan((*minutes((1, 1), (5, 1)), Windows(MINUTE_MS, 1000)))
    with pytest.raises(InputError, match="name at least one size"):
        WindowPlan(())


def values_of(engine: Engine, windows: Windows) -> Values:
    values = {}
    for row in engine.results():
        start, end = (round(row[f"window_{edge}"].timestamp() * 1000) for edge in ("start", "end"))
        if end - start == windows.size_ms:
            assert (start, row["key"]) not in values
            values[start, row["key"]] = (row["count"], row["sum"])
    return values


@settings(max_examples=20, deadline=None)
@given(
    several=kinds(),
    jitter_ms=st.integers(0, 60),
    every=st.integers(1, 30),
    batch_rows=st.integers(1, 80),
    num_partitions=st.integers(1, 3),
    emit=st.sampled_from(["all", "changed"]),
    seed=st.integers(0, 10**6),
)
def test_every_kind_of_windows_is_what_it_is_alone(
    tmp_path_factory: pytest.TempPathFactory,
    several: tuple[Windows, ...],
    jitter_ms: int,
    every: int,
    batch_rows: int,
    num_partitions: int,
    emit: str,
    seed: int,
) -> None:
    times = out_of_order(120, 300, jitter_ms, seed)
    partitions = deal(keyed(times, seed), times, num_partitions, slide_ms=3, every=every, seed=seed)
    folder = tmp_path_factory.mktemp("several")
    engine = Engine(KeyedSum(), several, folder, num_partitions, 2, emit)
    summary = engine.run(partitions, batch_rows)
    missed: set[tuple[int, int]] = set()
    for windows in several:
        naive = naive_sums(partitions, windows.size_ms, windows.slide_ms)
        expected = naive.values
        if emit == "changed":
            expected = changed_only(expected, windows.slide_ms)
        assert values_of(engine, windows) == expected
        missed |= naive.missed
    assert (summary.late, summary.on_time) == (len(missed), len(times) - len(missed))
    assert all(set(store.values) == {"meta", "keys"} for store in engine.stores)


def test_tops_of_every_kind(tmp_path: Path) -> None:
    times = out_of_order(2_000, 60_000, 3_000)
    partitions = deal(keyed(times, 0), times, 3, slide_ms=1000)
    several = (Windows(6_000, 1_000), Windows(20_000, 5_000))
    engine = Engine(KeyedSum(), several, tmp_path, 3, 2, emit="top", k=3)
    engine.run(partitions, 200)
    rows = engine.results()
    for windows in several:
        naive = naive_sums(partitions, windows.size_ms, windows.slide_ms)
        found = [
            (round(row["window_start"].timestamp() * 1000), row["rank"], row["key"], row["count"])
            for row in rows
            if (row["window_end"] - row["window_start"]).total_seconds() * 1000 == windows.size_ms
        ]
        assert sorted(found) == sorted(top_only(naive.values, 3))


def test_the_plan_in_words() -> None:
    kinds = minutes((1, 1), (5, 5), (10, 10), (15, 15), (20, 20))
    figures = plan_figures(WindowPlan(kinds))
    assert (figures["combines"], figures["from_common_panes"]) == (86, 240)
    assert "in all 86 combines" in explain(kinds)
    sliding = plan_figures(WindowPlan(minutes((1, 1), (5, 1), (15, 1), (60, 1))))
    assert (sliding["combines"], sliding["changes"], sliding["from_common_panes"]) == (0, 8, 80)
