"""Load over the stream: every record is in a slot, however many there are."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.benchmark.load_over_time import MOST_COUNTS, MOST_SLOTS, LoadOverTime


@given(
    num_partitions=st.integers(1, 5),
    num_records=st.integers(0, 30_000),
    cuts=st.lists(st.integers(0, 30_000), max_size=6),
    seed=st.integers(0, 2**32 - 1),
)
def test_slots_equal_a_plain_count_however_the_stream_is_cut(
    num_partitions: int, num_records: int, cuts: list[int], seed: int
) -> None:
    draws = np.random.default_rng(seed)
    partitions = draws.integers(0, num_partitions, num_records).astype(np.int32)
    times = draws.integers(-(10**12), 10**12, num_records)
    load = LoadOverTime(num_partitions)
    bounds = [0, *sorted(min(cut, num_records) for cut in cuts), num_records]
    for begin, end in pairwise(bounds):
        load.add(partitions[begin:end], times[begin:end])
    found = load.as_json()
    size = found["slot_records"]
    starts = range(0, num_records, size)
    assert found["records"] == [
        np.bincount(partitions[at : at + size], minlength=num_partitions).tolist() for at in starts
    ]
    assert found["first_ms"] == [int(times[at]) for at in starts]
    assert len(found["records"]) <= MOST_SLOTS


@pytest.mark.parametrize("num_partitions", [1, 42, 1_000])
def test_a_cell_grows_by_so_much_at_most(num_partitions: int) -> None:
    load = LoadOverTime(num_partitions)
    load.add(np.zeros(200_000, np.int32), np.zeros(200_000, np.int64))
    counts = np.array(load.as_json()["records"])
    assert counts.sum() == 200_000
    assert counts.size <= max(MOST_COUNTS, 8 * num_partitions)
