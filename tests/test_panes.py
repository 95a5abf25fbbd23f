from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partitioners import panes
from partitioners.errors import InputError

INT64 = np.iinfo(np.int64)


@settings(deadline=None)  # the first call compiles
@given(
    st.integers(1, 6),
    st.integers(1, 50),
    st.lists(st.integers(-500, 500) | st.integers(INT64.min, INT64.max), min_size=1, max_size=60),
)
def test_totals_are_sums_over_the_live_panes(
    num_panes: int, slide_ms: int, timestamps_ms: list[int]
) -> None:
    clock = panes.new_clock(num_panes * slide_ms, slide_ms)
    ring, totals = np.zeros(num_panes * 2), np.zeros(2)
    seen: list[tuple[int, int]] = []
    now = timestamps_ms[0] // slide_ms
    for i, timestamp_ms in enumerate(timestamps_ms):
        if timestamp_ms >= clock[panes.NEXT_PANE_MS]:
            panes.open_panes(clock, panes.advance_clock(clock, timestamp_ms), ring, totals)
        row = clock[panes.NOW_ROW] * 2 + i % 2
        ring[row] += i
        totals[i % 2] += i
        now = max(now, timestamp_ms // slide_ms)
        seen.append((now, i))
        if clock[panes.NEXT_PANE_MS] == INT64.max:
            return  # the last pane of all time is never left
        live = [j for pane, j in seen if pane > now - num_panes]
        assert totals.tolist() == [sum(j for j in live if j % 2 == odd) for odd in (0, 1)]


def test_a_tumbling_window_is_reset_at_its_multiples() -> None:
    # window      |  0 ..  9 | 10 .. 19 | 20 .. 29 |
    # timestamps     3     9   10   8     20
    clock = panes.new_clock(10, 10)
    opened = []
    for timestamp_ms in (3, 9, 10, 8, 20):
        new = timestamp_ms >= clock[panes.NEXT_PANE_MS]
        opened.append(bool(new))
        if new:
            panes.advance_clock(clock, timestamp_ms)
    assert opened == [True, False, True, False, True]


def test_before_1970_panes_begin_at_multiples_too() -> None:
    clock = panes.new_clock(10, 10)
    panes.advance_clock(clock, -1)
    assert clock[panes.NEXT_PANE_MS] == 0


def test_fractions_leave_nothing_behind() -> None:
    clock = panes.new_clock(3, 1)
    ring, totals = np.zeros(3), np.zeros(1)
    for timestamp_ms in range(30_000):
        panes.open_panes(clock, panes.advance_clock(clock, timestamp_ms), ring, totals)
        ring[clock[panes.NOW_ROW]] += 0.1
        totals[0] += 0.1
    assert totals[0] == pytest.approx(0.3, abs=1e-15)


@pytest.mark.parametrize(
    ("window_ms", "slide_ms", "sentence"),
    [
        (0, 1, "window_ms is 0"),
        (10, 0, "slide_ms is 0"),
        (10, 3, "divides the window"),
        (10, 20, "divides the window"),
        (100_000, 1, "at most 65536"),
    ],
)
def test_bad_windows(window_ms: int, slide_ms: int, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        panes.num_panes(window_ms, slide_ms)
