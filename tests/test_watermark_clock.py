"""Watermark records stand where a plain loop puts them, however the stream is cut."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.benchmark.watermark_clock import WatermarkClock
from pipelines.punctuation import NO_WATERMARK_MS


def naive(
    times: list[int], slide_ms: int, lateness_ms: int, every: int
) -> tuple[list[tuple[int, int]], list[int]]:
    """The marks as (place, watermark), and the watermark each record meets."""
    marks, met = [], []
    largest = sent = NO_WATERMARK_MS
    since = 0
    for place, time in enumerate(times):
        met.append(sent)
        largest = max(largest, time)
        since += 1
        watermark = (largest - lateness_ms) // slide_ms * slide_ms
        if watermark > sent and since >= every:
            marks.append((place, watermark))
            sent, since = watermark, 0
    return marks, met


@given(
    times=st.lists(st.integers(-500, 500), max_size=60),
    slide_ms=st.integers(1, 50),
    lateness_ms=st.integers(0, 100),
    every=st.integers(1, 20),
    cuts=st.lists(st.integers(0, 60), max_size=5),
)
def test_equals_the_plain_loop(
    times: list[int], slide_ms: int, lateness_ms: int, every: int, cuts: list[int]
) -> None:
    clock = WatermarkClock(slide_ms=slide_ms, lateness_ms=lateness_ms, every_records=every)
    marks: list[tuple[int, int]] = []
    met: list[int] = []
    bounds = [0, *sorted(min(cut, len(times)) for cut in cuts), len(times)]
    for start, stop in itertools.pairwise(bounds):
        found = clock.advance(np.array(times[start:stop], dtype=np.int64))
        marks += [
            (start + int(place), int(value))
            for place, value in zip(found.positions, found.values_ms, strict=True)
        ]
        met += found.met_ms.tolist()
    assert (marks, met) == naive(times, slide_ms, lateness_ms, every)


@pytest.mark.parametrize(("every", "expected"), [(1, [0, 1, 3]), (3, [2, 5])])
def test_worked_example(every: int, expected: list[int]) -> None:
    #  place      0   1   2   3   4   5
    #  time       5  12  14  25   9  31      slide 10
    #  watermark  0  10  10  20  20  30
    times = np.array([5, 12, 14, 25, 9, 31][: 6 if every > 1 else 5])
    clock = WatermarkClock(slide_ms=10, lateness_ms=0, every_records=every)
    assert clock.advance(times).positions.tolist() == expected
