"""Replication factor and fragmentation equal those counted with plain sets."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.benchmark.spread import Spread


@given(
    records=st.lists(
        st.tuples(st.integers(0, 5), st.integers(0, 3), st.integers(0, 99)), min_size=1, max_size=80
    ),
    window_ms=st.integers(1, 40),
    cut=st.integers(0, 80),
)
def test_equals_plain_sets(records: list[tuple[int, int, int]], window_ms: int, cut: int) -> None:
    # Lateness covers the whole stream, so that every record counts in its window.
    spread = Spread(window_ms=window_ms, lateness_ms=100)
    for part in (records[:cut], records[cut:]):
        keys, partitions, times = (
            (np.array(column) for column in zip(*part, strict=True))
            if (part)
            else (np.empty(0, np.int64),) * 3
        )
        spread.add(keys.astype(np.uint64), partitions, times)
    pairs = {(key, partition) for key, partition, _ in records}
    keys_seen = {key for key, _, _ in records}
    assert spread.replication_factor == pytest.approx(len(pairs) / len(keys_seen))
    ratios = []
    for window in {time // window_ms for _, _, time in records}:
        inside = [(k, p) for k, p, time in records if time // window_ms == window]
        ratios.append(len(set(inside)) / len({k for k, _ in inside}))
    assert spread.fragmentation == pytest.approx(sum(ratios) / len(ratios))


def test_closed_windows_are_forgotten_and_still_count() -> None:
    spread = Spread(window_ms=10, lateness_ms=0)
    for window in range(100):
        keys = np.array([1, 1, 2], dtype=np.uint64)
        spread.add(keys, np.array([0, 1, 0]), np.full(3, 10 * window))
    assert spread.fragmentation == pytest.approx(1.5)
    assert len(spread._window_pairs.counts()[0]) == 1


def test_nothing_has_no_spread() -> None:
    spread = Spread(window_ms=10, lateness_ms=0)
    spread.add(np.empty(0, np.uint64), np.empty(0, np.int32), np.empty(0, np.int64))
    assert (spread.replication_factor, spread.fragmentation) == (0.0, 0.0)
