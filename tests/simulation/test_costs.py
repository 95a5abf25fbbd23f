"""The cost models on examples worked by hand."""

from __future__ import annotations

import numpy as np
import pytest

from partitioners.errors import InputError
from partitioners.simulation import CostModel, measure_windows, queue_waits_us

# One window of two panes, two workers. Key 1 is split, keys 2 and 3 are whole.
#            pane [0, 4)          pane [4, 8)
IDS = np.array([1, 1, 2, 2, 1, 1, 1, 3])
PARTITIONS = np.array([0, 1, 0, 0, 0, 0, 0, 1], np.int32)
TIMES = np.arange(8)
# Window: loads 6 and 2, partials {1, 2} and {1, 3}; panes: {1, 2}, {1} and then {1}, {3}.
SERIES = measure_windows(IDS, PARTITIONS, TIMES, 2, window_ms=8, slide_ms=4)


def test_the_example_is_as_drawn():
    assert SERIES.loads.tolist() == [[6, 2]]
    assert SERIES.cardinalities.tolist() == [[2, 2]]
    assert SERIES.pane_cardinalities.tolist() == [[1, 1]]
    assert SERIES.partials.tolist() == [[4]]
    assert SERIES.split_partials.tolist() == [[2]]
    assert SERIES.pane_partials.tolist() == [[2]]


@pytest.mark.parametrize(
    ("prices", "combine", "reduce"),
    [
        # Per slide: 3 and 1 records; partials of the last pane (1 and 1), 2 to the reducer.
        ({}, [3.0, 1.0], 2.0),
        ({"record_us": 2.0, "partial_us": 10.0}, [16.0, 12.0], 2.0),
        # Whole windows at each slide, as Flink: 2 partials each, 4 to the reducer.
        ({"shares_panes": False, "partial_us": 1.0, "merge_us": 3.0}, [5.0, 3.0], 12.0),
        # Key forwarding: the two partials of key 1 alone; of a pane's two, half.
        ({"shares_panes": False, "forwards_whole": True}, [3.0, 1.0], 2.0),
        ({"forwards_whole": True, "merge_us": 4.0}, [3.0, 1.0], 4.0),
    ],
)
def test_work_per_slide(prices, combine, reduce):
    model = CostModel(**prices)
    assert model.combine_us(SERIES).tolist() == [combine]
    assert model.reduce_us(SERIES).tolist() == [[reduce]]


def test_the_slowest_worker_decides_the_throughput():
    # Four records a slide; the slowest combiner needs 3 us for its share.
    assert CostModel().throughput(SERIES) == pytest.approx(4 / 3e-6)
    assert CostModel().bottleneck(SERIES) == "combine"
    # At 5 us per partial the reducer needs 10.
    dear = CostModel(merge_us=5.0)
    assert dear.throughput(SERIES) == pytest.approx(4 / 10e-6)
    assert dear.bottleneck(SERIES) == "reduce"
    assert CostModel(record_us=0.0, merge_us=0.0).throughput(SERIES) == float("inf")


def test_window_latency_is_the_slowest_combiner_then_the_slowest_reducer():
    # Equation 1 of Prompt, Gamma of Holistic: 6 records, then 4 partials.
    assert CostModel().window_latency_us(SERIES).tolist() == [10.0]
    assert CostModel(record_us=2.0, partial_us=1.0, merge_us=0.5).window_latency_us(
        SERIES
    ).tolist() == [6 * 2.0 + 2 + 4 * 0.5]
    assert CostModel(forwards_whole=True).window_latency_us(SERIES).tolist() == [8.0]


def test_partials_of_panes_are_averaged_over_the_window():
    ids = np.array([1, 2, 3, 4, 1, 1])
    times = np.array([0, 1, 2, 3, 4, 7])
    # Panes of 4 ms hold 4, then 1 distinct keys; windows of 8 ms from the second pane on.
    series = measure_windows(ids, np.zeros(6, np.int32), times, 1, window_ms=4, slide_ms=4)
    assert CostModel().reduce_us(series).tolist() == [[4.0], [1.0]]


def test_queues_of_one_worker_by_hand():
    # Arrivals at 0, 1, 2, 3 us of 2 us each on one worker: done at 2, 4, 6, 8.
    waits = queue_waits_us(np.zeros(4, np.int32), 1, records_per_s=1e6, record_us=2.0)
    assert waits.tolist() == [2.0, 3.0, 4.0, 5.0]
    # Two workers in turn keep up.
    shared = queue_waits_us(np.array([0, 1, 0, 1], np.int32), 2, records_per_s=1e6, record_us=2.0)
    assert shared.tolist() == [2.0] * 4
    with pytest.raises(InputError, match="above 0"):
        queue_waits_us(np.zeros(1, np.int32), 1, records_per_s=0, record_us=1.0)


@pytest.mark.parametrize(
    ("prices", "message"),
    [
        ({"record_us": -1.0}, "record_us must be from 0"),
        ({"merge_us": float("nan")}, "merge_us must be from 0"),
        ({"num_reducers": 0}, "num_reducers must be from 1"),
    ],
)
def test_prices_out_of_range_are_refused(prices, message):
    with pytest.raises(InputError, match=message):
        CostModel(**prices)
