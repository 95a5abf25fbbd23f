"""One agent: equal to its naive twins, bounded, and adaptive."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from naive_dalton import NaiveDalton, NaivePublished

from partitioners.dalton import Dalton, DaltonConfig
from partitioners.hashing import mix64


def zipf_ids(num_records: int, skew: float, num_ids: int, seed: int) -> npt.NDArray[np.int64]:
    draws = np.random.default_rng(seed)
    weights = np.arange(1, num_ids + 1) ** -skew
    ids = draws.choice(num_ids, size=num_records, p=weights / weights.sum())
    return draws.permutation(num_ids)[ids].astype(np.int64)


def hashes_of(ids: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
    table = np.array([mix64(np.uint64(word + 1)) for word in range(int(ids.max()) + 1)], np.uint64)
    return table[ids]


def routed(
    dalton: Dalton,
    hashes: npt.NDArray[np.uint64],
    times: npt.NDArray[np.int64],
    weights: npt.NDArray[np.float64] | None = None,
) -> npt.NDArray[np.int32]:
    out = np.empty(len(hashes), np.int32)
    dalton.route(hashes, times, out, weights)
    return out


def one_record(dalton: Dalton, word: int, time_ms: int) -> int:
    partition = dalton._entry(word, time_ms, dalton._address)
    return partition if partition >= 0 else dalton._finish_one(partition, word, time_ms)


OPTIONS: list[dict[str, Any]] = [
    {},
    {"max_split": 3},
    {"first_split": None},
    {"interval_ms": 500, "step_size": 0.3, "exploration": 0.3, "balance_weight": 0.9},
    {"interval_ms": 130, "seed": 11},
    {"exploration": 0.0},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("num_partitions", [1, 2, 7, 16])
def test_decides_as_the_naive_twin(num_partitions: int, options: dict[str, Any]) -> None:
    options = {"window_ms": 1_000, "slide_ms": 200} | options
    # Skew comes and goes, so that keys turn hot, cool down and turn hot again.
    ids = np.concatenate(
        [zipf_ids(900, 1.6, 300, 1), zipf_ids(700, 0.0, 300, 2), zipf_ids(900, 1.4, 300, 3)]
    )
    jumps = np.random.default_rng(5).choice([0, 1, 2, 700], len(ids), p=[0.3, 0.5, 0.198, 0.002])
    times = np.cumsum(jumps) - np.random.default_rng(6).integers(0, 3, len(ids))
    hashes = hashes_of(ids)
    dalton = Dalton(num_partitions, DaltonConfig(**options))
    homes = dalton.candidates(hashes)[:, 0]
    naive = NaiveDalton(num_partitions, **options)
    expected = [
        naive.step(int(key), int(time), int(home))
        for key, time, home in zip(ids, times, homes, strict=True)
    ]
    assert routed(dalton, hashes, times).tolist() == expected


def test_decides_as_the_naive_twin_on_weights() -> None:
    ids = zipf_ids(1_500, 1.3, 50, 4)
    # Multiples of 1/8 add up exactly in any order.
    weights = np.random.default_rng(8).integers(0, 40, len(ids)) / 8
    times = np.arange(len(ids), dtype=np.int64)
    hashes = hashes_of(ids)
    dalton = Dalton(5, DaltonConfig(window_ms=400, slide_ms=100))
    homes = dalton.candidates(hashes)[:, 0]
    naive = NaiveDalton(5, window_ms=400, slide_ms=100)
    expected = [
        naive.step(int(key), int(time), int(home), float(weight))
        for key, time, home, weight in zip(ids, times, homes, weights, strict=True)
    ]
    assert routed(dalton, hashes, times, weights).tolist() == expected


@pytest.mark.parametrize(("num_partitions", "max_split"), [(8, 6), (16, 6), (16, 16), (12, 12)])
def test_published_rules_replay_the_published_code(num_partitions: int, max_split: int) -> None:
    ids = zipf_ids(30_000, 1.4, 1_000, 9) + num_partitions
    times = np.arange(len(ids), dtype=np.int64)
    naive = NaivePublished(num_partitions, window_ms=5_000, slide_ms=500, max_split=max_split)
    expected = [naive.step(int(key), int(time)) for key, time in zip(ids, times, strict=True)]
    config = DaltonConfig(
        window_ms=5_000, slide_ms=500, max_split=max_split, rules="published", seed=3
    )
    out = np.empty(len(ids), np.int32)
    Dalton(num_partitions, config).select(
        (ids % num_partitions).astype(np.int32)[:, None], hashes_of(ids), times, out
    )
    assert out.tolist() == expected


def test_uniform_keys_are_routed_as_by_hashing() -> None:
    hashes = hashes_of(np.random.default_rng(1).integers(0, 5_000, 100_000))
    dalton = Dalton(16, DaltonConfig(slide_ms=10_000))
    out = routed(dalton, hashes, np.arange(len(hashes)))
    assert (out == dalton.candidates(hashes)[:, 0]).all()


def test_batches_of_any_size_and_single_records_decide_the_same() -> None:
    hashes = hashes_of(zipf_ids(6_000, 1.4, 500, 2))
    times = np.arange(len(hashes), dtype=np.int64)
    config = DaltonConfig(window_ms=2_000, slide_ms=500)
    whole = routed(Dalton(64, config), hashes, times)
    chunked = Dalton(64, config)
    parts = [
        routed(chunked, hashes[start : start + 77], times[start : start + 77])
        for start in range(0, len(hashes), 77)
    ]
    assert np.concatenate(parts).tolist() == whole.tolist()
    single = Dalton(64, config)
    signed = hashes.view(np.int64)
    ones = [
        one_record(single, int(word), int(time)) for word, time in zip(signed, times, strict=True)
    ]
    assert ones == whole.tolist()


def test_fragmentation_leaves_with_the_window() -> None:
    #  hot key in panes 0..3, one record of it at home in pane 4, window of 4 panes
    #  |hot hot hot hot|home ...           |
    #        pane 7 sees only panes 4..7: whole again
    dalton = Dalton(4, DaltonConfig(window_ms=400, slide_ms=100, exploration=0.5))
    hot = np.full(400, 9, np.uint64)
    routed(dalton, hot, np.arange(400))
    assert not dalton.is_whole(9)
    others = hashes_of(np.arange(400, dtype=np.int64) + 100)
    routed(dalton, others, np.arange(400, 800))
    assert dalton.is_whole(9)
    assert dalton._state.rows.reshape(-1, 8)[:, 5].sum() == 0  # the row is free again


def test_a_hot_key_cools_down_after_the_next_interval() -> None:
    #  interval  0: learns the load   1: hot at the 25th record   2: still in the Q-table   3: out
    dalton = Dalton(4, DaltonConfig(window_ms=1_000, slide_ms=100, exploration=1.0))
    cold = hashes_of(np.arange(1_000, dtype=np.int64) + 50)
    routed(dalton, cold[:100], np.arange(100))
    home = int(dalton.candidates(np.array([9], np.uint64))[0, 0])
    first = routed(dalton, np.full(100, 9, np.uint64), np.arange(100, 200))
    assert (first[:24] == home).all()
    assert len(set(first[24:].tolist())) > 1
    routed(dalton, cold[100:199], np.arange(200, 299))
    second = routed(dalton, np.full(1, 9, np.uint64), np.array([299]))
    assert dalton._state.words[5] == 1  # in the Q-table
    third = routed(dalton, np.full(1, 9, np.uint64), np.array([300]))
    assert third[0] == home
    assert dalton._state.words[5] == 0
    assert 0 <= second[0] < 4


def test_keys_past_exact_keys_are_found_by_the_sketch() -> None:
    draws = np.random.default_rng(3)
    cold = draws.integers(100, 1 << 40, 40_000).astype(np.uint64)
    hashes = np.where(draws.random(40_000) < 0.2, np.uint64(7), cold)
    config = DaltonConfig(window_ms=40_000, slide_ms=10_000, exact_keys=8)
    dalton = Dalton(16, config)
    hashes[:20] = cold[:20]  # the table is full before the hot key comes
    hashes[10_000:10_020] = cold[10_000:10_020]
    out = routed(dalton, hashes, np.arange(40_000))
    hot = hashes == 7
    assert len(set(out[hot].tolist())) > 1
    assert (out[~hot] == dalton.candidates(hashes[~hot])[:, 0]).all()


def test_memory_does_not_grow_with_the_number_of_keys() -> None:
    dalton = Dalton(16, DaltonConfig(slide_ms=10_000))
    before = dalton.state_bytes
    for start in range(0, 1_000_000, 100_000):
        hashes = np.arange(start, start + 100_000, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        routed(dalton, hashes, np.arange(start, start + 100_000))
    assert dalton.state_bytes == before


def test_memory_returns_when_hot_keys_vanish() -> None:
    #  32 other keys are hot in each of 30 intervals, all within one window; then none is
    dalton = Dalton(64, DaltonConfig(window_ms=10_000, slide_ms=100))
    before = dalton.state_bytes
    drift = np.repeat(np.arange(30, dtype=np.int64) * 32, 1_000)
    drift += np.random.default_rng(2).integers(0, 32, len(drift))
    times = np.repeat(np.arange(30) * 100, 1_000)
    routed(dalton, hashes_of(drift), times)
    assert dalton.state_bytes > 2 * before
    calm = hashes_of(np.arange(5_000, 45_000))
    out = routed(dalton, calm, np.arange(3_000, 43_000))
    assert (out == dalton.candidates(calm)[:, 0]).all()
    routed(dalton, calm[:1], np.array([43_000]))
    assert dalton.state_bytes == before


def test_giving_rows_back_changes_no_choice() -> None:
    # Single calls never give rows back; batches of 50 do, in mid-interval too.
    drift = np.repeat(np.arange(12, dtype=np.int64) * 8, 300) + np.tile(np.arange(8), 450)
    calm = np.tile(np.arange(200, 203, dtype=np.int64), 1_500)
    hashes = hashes_of(np.concatenate([drift, calm]))
    times = np.arange(len(hashes), dtype=np.int64)
    config = DaltonConfig(window_ms=1_200, slide_ms=300)
    batches, single = Dalton(16, config), Dalton(16, config)
    parts, sizes = [], []
    for start in range(0, len(hashes), 50):
        rows = slice(start, start + 50)
        parts.append(routed(batches, hashes[rows], times[rows]))
        sizes.append(batches.state_bytes)
    assert max(sizes) > sizes[0] == sizes[-1]
    signed = hashes.view(np.int64)
    ones = [one_record(single, int(h), int(t)) for h, t in zip(signed, times, strict=True)]
    assert np.concatenate(parts).tolist() == ones


def test_a_waking_stream_makes_no_more_than_n_keys_hot_per_interval() -> None:
    # Three records in the first interval make the threshold tiny; then 5,000 keys come 5 times.
    dalton = Dalton(8, DaltonConfig(window_ms=10_000, slide_ms=1_000))
    routed(dalton, np.array([1, 2, 3], np.uint64), np.array([0, 1, 2]))
    many = np.repeat(hashes_of(np.arange(5_000, dtype=np.int64)), 5)
    routed(dalton, many, np.full(len(many), 1_500))
    assert dalton._state.words[5] <= 8


def test_times_at_the_ends_of_the_range_are_routed() -> None:
    ends = np.array([-(1 << 63), -(1 << 63), 0, (1 << 63) - 1, 5], np.int64)
    out = routed(Dalton(4), np.arange(5, dtype=np.uint64), ends)
    assert ((out >= 0) & (out < 4)).all()


@settings(max_examples=60, deadline=None)
@given(
    num_partitions=st.integers(1, 20),
    keys=st.lists(st.integers(0, 12), min_size=1, max_size=400),
    step_ms=st.sampled_from([0, 1, 7, 90, 5_000]),
    weights=st.sampled_from([None, 0.0, 1.5]),
    balance_weight=st.sampled_from([0.0, 0.5, 1.0]),
    data=st.data(),
)
def test_q_values_and_loads_stay_in_their_ranges(
    num_partitions: int,
    keys: list[int],
    step_ms: int,
    weights: float | None,
    balance_weight: float,
    data: st.DataObject,
) -> None:
    limit = data.draw(st.one_of(st.none(), st.integers(1, 20)))
    config = DaltonConfig(
        window_ms=300,
        slide_ms=100,
        exact_keys=5,
        max_split=limit,
        first_split=1,
        balance_weight=balance_weight,
    )
    dalton = Dalton(num_partitions, config)
    hashes = hashes_of(np.array(keys, np.int64))
    times = np.arange(len(keys), dtype=np.int64) * step_ms
    loads = None if weights is None else np.full(len(keys), weights)
    out = routed(dalton, hashes, times, loads)
    assert ((out >= 0) & (out < num_partitions)).all()
    state = dalton._state
    live = state.values[np.isfinite(state.values)]
    assert ((live >= -2.0) & (live <= 1.0)).all()
    assert (state.loads >= 0).all()
    in_window = times >= (times[-1] // 100 - 2) * 100
    expected = np.bincount(
        out[in_window],
        weights=None if loads is None else loads[in_window],
        minlength=num_partitions,
    )
    assert state.loads.tolist() == expected.tolist()
