"""Latency is counted from the scheduled send of a window's last record."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pipelines.benchmark.latency import (
    WindowSchedule,
    latency_curve_ms,
    latency_quantiles_ms,
    window_latencies_ms,
)
from pipelines.benchmark.pace import DelayHistogram, Pace
from pipelines.punctuation import NO_WATERMARK_MS


def naive_due(
    records: list[tuple[int, int]], window_ms: int, slide_ms: int, ends: list[int]
) -> list[float]:
    """For each window the place of the last record that counts in it."""
    due = []
    for end in ends:
        places = [
            float(place)
            for place, (time, watermark) in enumerate(records)
            if end - window_ms <= time < end and end > watermark
        ]
        due.append(max(places, default=-np.inf))
    return due


@given(
    slide_ms=st.integers(1, 20),
    panes=st.integers(1, 6),
    times=st.lists(st.integers(-200, 200), min_size=1, max_size=50),
    watermarks=st.lists(st.integers(-10, 10), min_size=50, max_size=50),
    cut=st.integers(0, 50),
)
def test_due_times_equal_a_plain_loop(
    slide_ms: int, panes: int, times: list[int], watermarks: list[int], cut: int
) -> None:
    # Watermarks only rise, as those of a partition do.
    risen = np.maximum.accumulate(watermarks)[: len(times)] * slide_ms
    schedule = WindowSchedule(panes * slide_ms, slide_ms)
    for part in (slice(0, cut), slice(cut, None)):
        schedule.add(
            np.array(times, dtype=np.int64)[part],
            risen[part],
            np.arange(len(times), dtype=np.float64)[part],
        )
    ends = list(range(-200 // slide_ms * slide_ms, 500, slide_ms))
    expected = naive_due(list(zip(times, risen, strict=True)), panes * slide_ms, slide_ms, ends)
    assert schedule.due_ms(np.array(ends)).tolist() == expected


def test_a_stall_shows_in_the_quantiles() -> None:
    # Ten windows of one record each, due every 100 ms. The sink was stuck until 1,000 ms: each
    # result waited from when its record was *due*, though all records may have been sent late.
    schedule = WindowSchedule(10, 10)
    due = np.arange(10) * 100.0
    schedule.add(np.arange(10) * 10, np.full(10, NO_WATERMARK_MS), due)
    in_sink = dict.fromkeys(range(10, 110, 10), 1000.0)
    latencies = window_latencies_ms(schedule, in_sink)
    found = latency_quantiles_ms(latencies)
    assert found == {"p50": 500.0, "p95": 1000.0, "p99": 1000.0, "max": 1000.0}
    curve = latency_curve_ms(latencies)
    assert curve[0] == [0.0, 100.0]
    assert curve[-1] == [1.0, 1000.0]
    assert curve == sorted(curve)


def test_windows_without_a_record_of_this_attempt_have_no_latency() -> None:
    schedule = WindowSchedule(10, 10)
    none = window_latencies_ms(schedule, {10: 5.0})
    assert latency_quantiles_ms(none)["p50"] is None
    assert latency_curve_ms(none) == []
    schedule.add(np.array([15]), np.array([NO_WATERMARK_MS]), np.array([100.0]))
    assert window_latencies_ms(schedule, {10: 5.0, 20: 130.0}).tolist() == [30.0]


def test_a_rate_spaces_records_and_a_speedup_follows_event_time() -> None:
    rate = Pace("rate", 50)
    assert rate.due_ms(np.array([7, 7, 9])).tolist() == [0.0, 20.0, 40.0]
    assert rate.due_ms(np.array([9])).tolist() == [60.0]
    speedup = Pace("speedup", 10)
    # The third is older than the second, and due with it.
    assert speedup.due_ms(np.array([1000, 1100, 1050])).tolist() == [0.0, 10.0, 10.0]
    assert speedup.due_ms(np.array([1040, 2000])).tolist() == [10.0, 100.0]


def test_a_resumed_schedule_starts_with_the_first_record_sent() -> None:
    pace = Pace("rate", 10)
    due = pace.due_ms(np.zeros(1000, np.int64))
    pace.start_at(due[900])
    assert pace.seconds_until(due[900]) <= 0
    assert 9 < pace.seconds_until(due[999]) <= 9.9


def test_delays_without_a_schedule_are_none() -> None:
    assert DelayHistogram().quantiles_ms({"p50": 0.5}) == {"p50": None}
