"""What workers hold in every window, against plain loops and worked examples."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from partitioners.errors import InputError
from partitioners.hashing import candidates
from partitioners.metrics import fragmentation, imbalance, partition_counts
from partitioners.simulation import cumulative_imbalances, measure_windows
from partitioners.simulation.windows import MAX_SLIDES, REDUCER_SEED


def naive(ids, partitions, times, n, window, slide, reducers):
    """Each whole window by itself, from the records in it."""
    # Reducers own distinct keys by their number in the order of the ids.
    numbers = {key: row for row, key in enumerate(sorted(set(ids)))}
    owners = candidates(np.array(sorted(numbers), np.uint64), 1, reducers, REDUCER_SEED)[:, 0]
    windows = []
    end = (min(times) // slide) * slide + window
    while end <= max(times) + 1:
        rows = [i for i, time in enumerate(times) if end - window <= time < end]
        last = [i for i in rows if times[i] >= end - slide]
        pairs = {(ids[i], partitions[i]) for i in rows}
        pane_pairs = {(ids[i], partitions[i]) for i in last}
        split = {k for k, _ in pairs if sum(key == k for key, _ in pairs) > 1}
        owner = {key: owners[numbers[key]] for key in numbers}
        windows.append(
            {
                "ends_ms": end,
                "num_keys": len({k for k, _ in pairs}),
                "loads": [sum(partitions[i] == p for i in rows) for p in range(n)],
                "cardinalities": [sum(q == p for _, q in pairs) for p in range(n)],
                "pane_loads": [sum(partitions[i] == p for i in last) for p in range(n)],
                "pane_cardinalities": [sum(q == p for _, q in pane_pairs) for p in range(n)],
                "partials": [sum(owner[k] == r for k, _ in pairs) for r in range(reducers)],
                "split_partials": [
                    sum(owner[k] == r and k in split for k, _ in pairs) for r in range(reducers)
                ],
                "pane_partials": [
                    sum(owner[k] == r for k, _ in pane_pairs) for r in range(reducers)
                ],
            }
        )
        end += slide
    return windows


records = st.lists(
    st.tuples(st.integers(0, 5), st.integers(0, 2), st.integers(-40, 40)), min_size=1, max_size=60
)


@given(records, st.integers(1, 4), st.integers(1, 10), st.integers(1, 3))
def test_every_window_holds_what_its_records_say(rows, panes, slide, reducers):
    ids, partitions, times = map(list, zip(*rows, strict=True))
    expected = naive(ids, partitions, times, 3, panes * slide, slide, reducers)
    series = measure_windows(
        np.array(ids),
        np.array(partitions, np.int32),
        np.array(times),
        3,
        window_ms=panes * slide,
        slide_ms=slide,
        num_reducers=reducers,
    )
    if not expected:  # no window is whole: the one that ends the stream stands in
        assert len(series.ends_ms) == 1
        return
    assert len(series.ends_ms) == len(expected)
    for field in expected[0]:
        assert getattr(series, field).tolist() == [window[field] for window in expected], field


def test_tumbling_windows_agree_with_the_metrics():
    random = np.random.default_rng(3)
    ids = random.integers(0, 50, 4_000)
    partitions = random.integers(0, 7, 4_000).astype(np.int32)
    times = np.arange(4_000)
    series = measure_windows(ids, partitions, times, 7, window_ms=1_000)
    assert series.fragmentations.mean() == pytest.approx(
        fragmentation(ids.astype(np.uint64), partitions, times, 1_000)
    )
    assert series.imbalances.tolist() == pytest.approx(
        [imbalance(partition_counts(part, 7)) for part in np.split(partitions, 4)]
    )


def test_a_stream_shorter_than_a_window_counts_as_one():
    series = measure_windows(
        np.array([1, 2]), np.array([0, 1], np.int32), np.array([0, 5]), 2, window_ms=100
    )
    assert series.loads.tolist() == [[1, 1]]


def test_no_records_give_no_windows():
    nothing = np.empty(0, np.int64)
    series = measure_windows(nothing, nothing.astype(np.int32), nothing, 2, window_ms=10)
    assert len(series.ends_ms) == 0
    assert series.loads.shape == (0, 2)


@pytest.mark.parametrize(
    ("window_ms", "slide_ms", "last_ms", "message"),
    [
        (10, 3, 10, "the slide must divide the window"),
        (0, None, 10, "the slide must divide the window"),
        (10, 20, 10, "the slide must divide the window"),
        (1, 1, MAX_SLIDES, "choose a longer slide"),
    ],
)
def test_windows_that_cannot_be_are_refused(window_ms, slide_ms, last_ms, message):
    with pytest.raises(InputError, match=message):
        measure_windows(
            np.array([1, 1]),
            np.zeros(2, np.int32),
            np.array([0, last_ms]),
            1,
            window_ms=window_ms,
            slide_ms=slide_ms,
        )


def test_imbalance_over_time_is_that_of_all_records_so_far():
    partitions = np.array([0, 1, 1, 1, 0, 2], np.int32)
    # After 2 records (1, 1, 0), after 4 (1, 3, 0), after 6 (2, 3, 1): maximum less mean.
    expected = [1 - 2 / 3, 3 - 4 / 3, 3 - 2]
    assert cumulative_imbalances(partitions, 3, 3).tolist() == pytest.approx(expected)
    assert cumulative_imbalances(np.empty(0, np.int32), 3).tolist() == []
