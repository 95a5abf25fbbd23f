"""Hot fill: decisions of its twin, where keys may be, fixed memory, balance also after a drift."""

from __future__ import annotations

import naive_own
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partitioners.errors import InputError
from partitioners.hashing import candidates, hash_keys
from partitioners.hot_fill import HotFill, HotFillConfig
from partitioners.stream_names import parse_stream
from partitioners.streams import of_ids, one_hot, uniform, zipf

OPTIONS = [
    {},
    {"window_ms": 700, "slide_ms": 100, "seed": 9},
    {"window_ms": 500, "tolerance": 0.0, "hot_fraction": 0.01, "memory_windows": 0.5},
    {"valve": False, "drift_sigmas": 0.0, "tolerance": 0.3},
    {"window_ms": 77, "drift_sigmas": 3.0},
    {"window_ms": 900, "slide_ms": 100, "overflow_sigmas": 0.5},
    {"overflow_sigmas": 1.5, "drift_sigmas": 0.0, "tolerance": 0.05},
]


def routed(partitioner, stream, weights=None, times=None):
    out = np.full(len(stream.ids), -1, np.int32)
    partitioner.route(
        stream.key_hashes, stream.timestamps_ms if times is None else times, out, weights
    )
    return out


def imbalance(partitions, n):
    counts = np.bincount(partitions, minlength=n)
    return counts.max() / counts.mean() - 1


def imbalance_of_windows(partitions, n):
    """Of each window of 60,000 records, sliding by 1,000."""
    panes = len(partitions) // 1000
    loads = np.zeros((panes + 1, n))
    np.add.at(loads, (np.arange(panes * 1000) // 1000 + 1, partitions[: panes * 1000]), 1)
    sums = loads.cumsum(axis=0)
    windows = sums[60:] - sums[:-60]
    return windows.max(1) / windows.mean(1) - 1


def routed_by_sources(stream, n, num_sources):
    """Deal the records to sources in turn, each with a partitioner of its own."""
    partitions = np.empty(len(stream.ids), np.int32)
    for source in range(num_sources):
        rows = slice(source, None, num_sources)
        part = np.empty(len(stream.ids[rows]), np.int32)
        HotFill(n, HotFillConfig(slide_ms=1000)).route(
            np.ascontiguousarray(stream.key_hashes[rows]),
            np.ascontiguousarray(stream.timestamps_ms[rows]),
            part,
        )
        partitions[rows] = part
    return partitions


def fragmentation(ids, partitions):
    return len(np.unique(ids * 1000 + partitions)) / len(np.unique(ids))


def check_against_twin(options, n, stream, times, weights):
    config = HotFillConfig(**options)
    actual = routed(HotFill(n, config), stream, weights, times)
    given_weights = None if weights is None else weights.tolist()
    expected = naive_own.hot_fill(
        config, n, stream.key_hashes.tolist(), times.tolist(), given_weights
    )
    assert actual.tolist() == expected


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("exponent", [0.0, 1.0, 1.6])
def test_decisions_equal_the_naive_twin(options, weighted, exponent):
    # Another order of the keys half way: a drift.
    ids = np.concatenate([zipf(3000, 300, exponent, seed).ids for seed in (3, 4)])
    stream = of_ids(ids)
    random = np.random.default_rng(2)
    times = np.maximum(stream.timestamps_ms - random.integers(0, 50, 6000), 0)
    weights = random.integers(0, 9, 6000) / 4.0 if weighted else None
    for n in (1, 2, 13):
        check_against_twin(options, n, stream, times, weights)


@settings(deadline=None, max_examples=40)
@given(
    ids=st.lists(st.integers(0, 12), min_size=1, max_size=300),
    n=st.integers(1, 5),
    data=st.data(),
)
def test_decisions_equal_the_naive_twin_on_any_stream(ids, n, data):
    options = data.draw(st.sampled_from(OPTIONS))
    steps = data.draw(st.lists(st.integers(-30, 400), min_size=len(ids), max_size=len(ids)))
    check_against_twin(options, n, of_ids(np.array(ids)), np.cumsum(steps), None)


@pytest.mark.parametrize(
    ("n", "most_imbalance", "most_fragmentation"), [(16, 0.02, 1.008), (64, 0.05, 1.0225)]
)
def test_balance_and_fragmentation_on_the_stream_of_the_figures(
    n, most_imbalance, most_fragmentation
):
    stream = zipf()
    partitions = routed(HotFill(n, HotFillConfig(slide_ms=1000)), stream)
    windows = [slice(start, start + 60_000) for start in range(0, 960_000, 60_000)]
    fragments = [fragmentation(stream.ids[rows], partitions[rows]) for rows in windows]
    assert imbalance(partitions, n) <= most_imbalance
    assert np.mean(fragments) <= most_fragmentation


@pytest.mark.parametrize(
    ("n", "num_sources", "most_imbalance", "most_in_a_window", "most_fragmentation"),
    [
        (16, 4, 0.02, 0.03, 1.006),
        (16, 16, 0.02, 0.03, 1.0065),
        (64, 4, 0.03, 0.06, 1.0255),
        (64, 16, 0.04, 0.065, 1.0285),
    ],
)
def test_sources_that_never_talk_choose_the_same_homes(
    n, num_sources, most_imbalance, most_in_a_window, most_fragmentation
):
    stream = zipf()
    partitions = routed_by_sources(stream, n, num_sources)
    assert imbalance(partitions, n) <= most_imbalance
    # Past the first window, in which the keys become known.
    windows = [slice(start, start + 60_000) for start in range(60_000, 960_000, 60_000)]
    assert max(imbalance(partitions[rows], n) for rows in windows) <= most_in_a_window
    fragments = [fragmentation(stream.ids[rows], partitions[rows]) for rows in windows]
    assert np.mean(fragments) <= most_fragmentation


def test_tail_keys_use_their_two_candidates_and_hot_keys_few_partitions():
    stream, n = zipf(300_000), 16
    partitions = routed(HotFill(n), stream)
    shares = np.bincount(stream.ids) / len(stream.ids)
    allowed = candidates(hash_keys([f"key-{i}" for i in range(len(shares))]), 2, n)
    rows = np.arange(200_000, 300_000)  # past the start
    for key in np.unique(stream.ids[rows]):
        used = set(partitions[rows[stream.ids[rows] == key]].tolist())
        if shares[key] * n < 0.05:
            assert used <= set(allowed[key].tolist())
        else:
            # A key's homes are rooms of a fourth of a partition or more, but for the last.
            assert len(used) <= 3 + 4 * shares[key] * n


def test_memory_is_fixed():
    hot_fill = HotFill(16)
    before = hot_fill.state_bytes
    many = of_ids(np.arange(300_000))
    routed(hot_fill, many)
    assert hot_fill.state_bytes == before


def test_balance_returns_after_a_drift():
    n = 16
    stream = of_ids(np.concatenate([zipf(200_000, seed=seed).ids for seed in (1, 2)]))
    hot_fill = HotFill(n, HotFillConfig(slide_ms=1000))
    partitions = routed(hot_fill, stream)
    assert hot_fill.num_drifts >= 1
    assert imbalance(partitions[205_000:265_000], n) <= 0.05
    keys_before = HotFill(n)
    out = routed(keys_before, of_ids(stream.ids[:200_000]))
    assert (out == HotFill(n).partition_batch(stream.keys[:200_000], range(200_000))).all()


@pytest.mark.parametrize(
    ("name", "n", "num_sources", "most_imbalance", "most_fragmentation"),
    [
        ("drift:exponent=1.0", 16, 1, 0.016, 1.0055),  # no key is hot enough to be missed at once
        ("drift:exponent=1.0", 64, 1, 0.042, 1.0195),
        ("drift:exponent=1.0", 64, 4, 0.045, 1.0285),
        ("drift", 16, 1, 0.013, 1.0085),
        ("drift", 16, 16, 0.02, 1.0135),
        ("drift", 64, 1, 0.035, 1.034),
        ("drift", 64, 4, 0.03, 1.0425),
        ("drift", 64, 16, 0.055, 1.0545),
    ],
)
def test_windows_stay_level_while_the_keys_change_places(
    name, n, num_sources, most_imbalance, most_fragmentation
):
    stream = parse_stream(name, 1_000_000, 1).load()
    partitions = routed_by_sources(stream, n, num_sources)
    assert np.mean(imbalance_of_windows(partitions, n)) <= most_imbalance
    windows = [slice(start, start + 60_000) for start in range(0, 960_000, 60_000)]
    fragments = [fragmentation(stream.ids[rows], partitions[rows]) for rows in windows]
    assert np.mean(fragments) <= most_fragmentation


@pytest.mark.parametrize("num_sources", [1, 4, 16])
@pytest.mark.parametrize("exponent", [1.2, 1.4, 1.7, 2.0])
def test_windows_of_skewed_streams_are_level_at_64_partitions(exponent, num_sources):
    partitions = routed_by_sources(zipf(exponent=exponent), 64, num_sources)
    assert np.mean(imbalance_of_windows(partitions, 64)) <= 0.05


@pytest.mark.parametrize(("n", "most_records"), [(16, 20), (64, 14)])
def test_that_all_hot_keys_are_gone_shows_in_a_few_records(n, most_records):
    """The chi-square test alone waits for 2 records per partition, 128 of them at n = 64."""
    ids = np.concatenate([zipf(100_000, seed=1).ids, zipf(1000, seed=2).ids])
    stream = of_ids(ids)
    hot_fill, out = HotFill(n), np.empty(1, np.int32)
    before = slice(100_000)
    hot_fill.route(
        stream.key_hashes[before], stream.timestamps_ms[before], np.empty(100_000, np.int32)
    )
    assert hot_fill.num_drifts == 0
    num_seen = 0
    while hot_fill.num_drifts == 0:
        row = slice(100_000 + num_seen, 100_001 + num_seen)
        hot_fill.route(stream.key_hashes[row], stream.timestamps_ms[row], out)
        num_seen += 1
    assert num_seen <= most_records


@pytest.mark.parametrize(
    ("overflow_sigmas", "most_imbalance", "most_fragmentation"),
    [(0.0, 0.043, 1.007), (2.0, 0.038, 1.0135), (1.0, 0.022, 1.046), (0.5, 0.013, 1.085)],
)
def test_without_hot_keys_overflow_buys_balance(
    overflow_sigmas, most_imbalance, most_fragmentation
):
    stream, n = uniform(300_000), 16
    partitions = routed(
        HotFill(n, HotFillConfig(slide_ms=1000, overflow_sigmas=overflow_sigmas)), stream
    )
    windows = [slice(start, start + 60_000) for start in range(60_000, 240_001, 10_000)]
    assert np.mean([imbalance(partitions[rows], n) for rows in windows]) <= most_imbalance
    fragments = [fragmentation(stream.ids[rows], partitions[rows]) for rows in windows]
    assert np.mean(fragments) <= most_fragmentation


def test_what_was_missed_is_not_made_up_for_at_once():
    """What had too little while no key was known is no burst, which later windows would feel."""
    stream, n = zipf(100_000, seed=5), 64
    partitions = routed(HotFill(n, HotFillConfig(slide_ms=1000)), stream)
    assert np.max(imbalance_of_windows(partitions, n)) <= 0.06


def test_drift_is_not_seen_where_there_is_none():
    for seed in (1, 2):
        for stream in (zipf(seed=seed), uniform(seed=seed), one_hot(seed=seed)):
            for n in (16, 64):
                hot_fill = HotFill(n)
                routed(hot_fill, stream)
                assert hot_fill.num_drifts == 0


def test_keys_that_vanished_are_forgotten():
    hot_fill = HotFill(4, HotFillConfig(window_ms=1000))
    routed(hot_fill, of_ids(np.zeros(5000, np.int64)))
    hot = int(hash_keys(["key-0"])[0])
    assert [key for key, _, _ in hot_fill.hot_keys()] == [hot]
    others = of_ids(np.random.default_rng(1).integers(1, 2000, 20_000))
    routed(hot_fill, others, times=others.timestamps_ms + 5000)
    assert hot not in [key for key, _, _ in hot_fill.hot_keys()]


def test_one_key_alone_is_dealt_evenly():
    partitions = routed(HotFill(8), of_ids(np.zeros(80_000, np.int64)))
    assert imbalance(partitions[8000:], 8) < 0.01


def test_weights_are_what_is_levelled():
    stream, n = zipf(300_000), 8
    weights = np.random.default_rng(1).exponential(100.0, len(stream.ids))
    partitions = routed(HotFill(n), stream, weights)
    loads = np.bincount(partitions, weights, n)
    assert loads.max() / loads.mean() - 1 < 0.03


def test_a_window_that_the_slide_does_not_divide_is_refused():
    with pytest.raises(InputError, match="slide"):
        HotFillConfig(window_ms=1000, slide_ms=300)
    assert HotFillConfig(window_ms=1001).pane_ms == 1001
    assert HotFillConfig(window_ms=1000).pane_ms == 100
