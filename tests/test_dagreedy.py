"""DAGreedy: decisions of its twin, which scores every partition, and what the score promises."""

from __future__ import annotations

import naive_own
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partitioners.dagreedy import DAGreedy, DAGreedyConfig
from partitioners.hashing import candidates, hash_keys
from partitioners.streams import of_ids, uniform, zipf

OPTIONS = [
    {},
    {"window_ms": 700, "slide_ms": 100, "seed": 9, "hot_fraction": 0.2},
    {"window_ms": 500, "slide_ms": 500, "hot_fraction": 0.0},
    {"window_ms": 400, "slide_ms": 50, "interval_ms": 170, "balance_weight": 0.25},
    {"window_ms": 400, "slide_ms": 50, "interval_ms": 20, "balance_weight": 0.75},
    {"window_ms": 60, "slide_ms": 20, "balance_weight": 1.0},
    {"window_ms": 600, "slide_ms": 20, "balance_weight": 0.0},
]


def routed(partitioner, stream, weights=None, times=None):
    out = np.full(len(stream.ids), -1, np.int32)
    partitioner.route(
        stream.key_hashes, stream.timestamps_ms if times is None else times, out, weights
    )
    return out


def check_against_twin(options, n, stream, times, weights):
    config = DAGreedyConfig(**options)
    actual = routed(DAGreedy(n, config), stream, weights, times)
    expected = naive_own.dagreedy(
        config,
        n,
        stream.key_hashes.tolist(),
        times.tolist(),
        None if weights is None else weights.tolist(),
    )
    assert actual.tolist() == expected


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("exponent", [0.0, 1.4])
def test_decisions_equal_the_naive_twin(options, weighted, exponent):
    stream = zipf(1500, 400, exponent, seed=11)
    random = np.random.default_rng(2)
    times = np.maximum(stream.timestamps_ms - random.integers(0, 50, 1500), 0)
    weights = random.integers(0, 9, 1500) / 4.0 if weighted else None
    for n in (1, 5):
        check_against_twin(options, n, stream, times, weights)


@settings(deadline=None, max_examples=40)
@given(
    ids=st.lists(st.integers(0, 12), min_size=1, max_size=200),
    n=st.integers(1, 5),
    data=st.data(),
)
def test_decisions_equal_the_naive_twin_on_any_stream(ids, n, data):
    options = data.draw(st.sampled_from(OPTIONS))
    steps = data.draw(st.lists(st.integers(-30, 300), min_size=len(ids), max_size=len(ids)))
    check_against_twin(options, n, of_ids(np.array(ids)), np.cumsum(steps), None)


def test_more_hot_keys_than_there_is_room_for():
    # 128 rows for one partition, and every key is hot from its first record on.
    stream = of_ids(np.random.default_rng(5).integers(0, 400, 2000))
    options = {"window_ms": 900, "slide_ms": 300, "hot_fraction": 0.0}
    check_against_twin(options, 1, stream, stream.timestamps_ms, None)
    dagreedy = DAGreedy(2, DAGreedyConfig(**options))
    before = dagreedy.state_bytes
    routed(dagreedy, of_ids(np.arange(50_000)))
    assert dagreedy.state_bytes == before


def test_a_worked_example():
    # Two partitions, one hot key that is at home on h. It stays while L_h - L_g < the average,
    # so the other gets its first record when h leads by a whole average: 2 (L - 0) >= L, at once
    # when the key turns hot; from then on it is on both and takes the less loaded.
    dagreedy = DAGreedy(2, DAGreedyConfig(window_ms=100, slide_ms=10))
    home = int(candidates(hash_keys(["key-0"]), 2, 2)[0, 0])
    partitions = routed(dagreedy, of_ids(np.zeros(40, np.int64)))
    assert partitions[:10].tolist() == [home] * 10  # nothing is hot in the first interval
    # Then both have 10: the lower number first, and on in turn.
    assert partitions[10:40].tolist() == [1 - home] * 10 + [0, 1] * 10


def test_no_partition_is_a_whole_average_above_the_least_for_long():
    stream, n = zipf(300_000), 16
    partitions = routed(DAGreedy(n), stream)
    for start in range(60_000, 300_000, 60_000):
        counts = np.bincount(partitions[start : start + 60_000], minlength=n)
        assert counts.max() - counts.min() < 1.1 * counts.mean()


def test_uniform_keys_stay_whole():
    stream = uniform(200_000)
    partitions = routed(DAGreedy(16), stream)
    homes = candidates(hash_keys([f"key-{i}" for i in range(10_000)]), 2, 16)[:, 0]
    assert (partitions == homes[stream.ids]).mean() > 0.99
