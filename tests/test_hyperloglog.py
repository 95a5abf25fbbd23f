from __future__ import annotations

import warnings

import datasketch
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partitioners.sketches.hyperloglog import NUM_REGISTERS, HyperLogLog

STANDARD_ERROR = 1.04 / NUM_REGISTERS**0.5


def hashes(count: int, seed: int) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    return np.random.default_rng(seed).integers(0, 1 << 64, count, np.uint64)


@pytest.mark.parametrize("count", [0, 1, 100, 3_000, 10_000, 100_000, 1_000_000])
def test_estimate_is_within_four_standard_errors_as_is_datasketch(count: int) -> None:
    # The raw estimator is known to be up to 3 % high around 2.5 registers (10,000 keys).
    tolerance = 4 * STANDARD_ERROR * count
    keys = hashes(count, seed=count)
    ours = HyperLogLog()
    ours.add(keys)
    ours.add(keys[::-1].copy())
    assert ours.estimate() == pytest.approx(count, abs=tolerance)
    theirs = datasketch.HyperLogLog(p=12, hashfunc=lambda key: key & 0xFFFFFFFF)
    for key in keys[:100_000].tolist():
        theirs.update(key)
    with warnings.catch_warnings():
        # It warns that 10,000 keys are near the threshold of its small-range correction.
        warnings.simplefilter("ignore", UserWarning)
        count_of_theirs = theirs.count()
    assert count_of_theirs == pytest.approx(min(count, 100_000), abs=tolerance)


def test_errors_over_many_streams_have_the_size_theory_says() -> None:
    errors = []
    for seed in range(200):
        sketch = HyperLogLog()
        sketch.add(hashes(50_000, seed))
        errors.append(sketch.estimate() / 50_000 - 1.0)
    assert abs(np.mean(errors)) < 4 * STANDARD_ERROR / 200**0.5
    assert 0.8 * STANDARD_ERROR < np.std(errors) < 1.2 * STANDARD_ERROR


@settings(deadline=None)  # the first call compiles
@given(
    st.integers(1, 6),
    st.lists(st.lists(st.integers(0, 4000), max_size=3), min_size=1, max_size=12),
)
def test_over_panes_it_is_a_fresh_sketch_over_the_live_ones(
    num_panes: int, stream: list[list[int]]
) -> None:
    spread = hashes(400_000, seed=1)
    sliding = HyperLogLog(num_panes)
    for i, blocks in enumerate(stream):
        for block in blocks:
            sliding.add(spread[block * 100 : block * 100 + 100])
        fresh = HyperLogLog()
        for live in stream[max(0, i - num_panes + 1) : i + 1]:
            for block in live:
                fresh.add(spread[block * 100 : block * 100 + 100])
        assert sliding.estimate() == fresh.estimate()
        sliding.next_pane()


@pytest.mark.parametrize(("num_panes", "state_bytes"), [(1, 4_120), (2, 544_792), (900, 544_792)])
def test_memory_does_not_grow(num_panes: int, state_bytes: int) -> None:
    sketch = HyperLogLog(num_panes)
    assert sketch.state_bytes == state_bytes
    for pane in range(5):
        sketch.add(hashes(50_000, pane))
        sketch.next_pane()
    assert sketch.state_bytes == state_bytes
