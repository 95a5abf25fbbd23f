"""Key groups: where groups go, when, how balanced that is, and that results stay what they were."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from naive_batch import NaiveKeyGroups

from partitioners.errors import InputError
from partitioners.hashing import hash_keys
from partitioners.key_groups import KeyGroups, KeyGroupsConfig


def route(partitioner, key_hashes, timestamps_ms, weights=None):
    out = np.empty(len(key_hashes), np.int32)
    partitioner.route(key_hashes, timestamps_ms, out, weights)
    return out


def zipf_keys(num_records, exponent, num_keys, seed):
    """Key hashes of a Zipf stream; another seed is another order of the keys: a drift."""
    rng = np.random.default_rng(seed)
    shares = np.arange(1, num_keys + 1) ** -float(exponent)
    ids = rng.permutation(num_keys)[rng.choice(num_keys, num_records, p=shares / shares.sum())]
    return hash_keys([str(number) for number in range(num_keys)])[ids]


def imbalance(partitions, num_partitions):
    counts = np.bincount(partitions, minlength=num_partitions)
    return counts.max() / counts.mean() - 1


def partitioner_of(group_to_partition, loads_per_group, **options):
    """Fill one pane with given loads per group, then say where each group goes in the next."""
    groups = KeyGroups(
        int(np.max(group_to_partition)) + 1,
        KeyGroupsConfig(num_groups=len(loads_per_group), window_ms=10, **options),
    )
    groups._state.owners[:] = group_to_partition
    candidates = hash_keys([str(number) for number in range(2_000)])
    of_group = groups.groups(candidates)
    keys = np.array([candidates[of_group == group][0] for group in range(len(loads_per_group))])
    route(groups, keys, np.zeros(len(keys), np.int64), np.array(loads_per_group, float))
    route(groups, keys[:1], np.array([10]))
    return groups


@pytest.mark.parametrize(
    ("owners", "loads", "options", "expected"),
    [
        # most 0 (9) gives to least 2 (1): the gap is 8, half of it 4: the group of 4 moves
        ([0, 0, 0, 1, 2], [2, 3, 4, 5, 1], {"max_rounds": 1}, [0, 0, 2, 1, 2]),
        # the biggest that still narrows the gap is what Flux takes
        ([0, 0, 1, 1], [6, 1, 1, 0], {"max_rounds": 1}, [0, 1, 1, 1]),
        ([0, 0, 0, 1], [7, 3, 1, 3], {"max_rounds": 1, "suitable": "biggest"}, [1, 0, 0, 1]),
        ([0, 0, 0, 1], [7, 3, 1, 3], {"max_rounds": 1, "suitable": "best"}, [0, 1, 0, 1]),
        # one hot group alone cannot move; the least loaded serves the next partition instead
        ([0, 1, 1, 2], [9, 3, 3, 0], {"max_rounds": 1}, [0, 2, 1, 2]),
        # a gap within the tolerance is no gap
        ([0, 0, 1, 1], [3, 3, 2, 3], {"tolerance_fraction": 0.2}, [0, 0, 1, 1]),
        # rounds until nothing is left to gain
        ([0, 0, 0, 0, 1], [2, 2, 2, 2, 0], {"tolerance_fraction": 0.0}, [1, 1, 0, 0, 1]),
        ([0, 0, 0, 1], [5, 3, 1, 1], {"max_rounds": 0}, [0, 0, 0, 1]),
    ],
)
def test_which_groups_move(owners, loads, options, expected):
    assert partitioner_of(owners, loads, **options).owners.tolist() == expected


@given(
    num_partitions=st.integers(1, 9),
    more_groups=st.integers(0, 40),
    pane_ms=st.integers(1, 200),
    tolerance=st.sampled_from([0.0, 0.05, 0.5]),
    max_rounds=st.integers(0, 20),
    suitable=st.sampled_from(["best", "biggest"]),
    weighted=st.booleans(),
    seed=st.integers(0, 1 << 32),
)
@settings(deadline=None, max_examples=60)
def test_equals_naive(
    num_partitions, more_groups, pane_ms, tolerance, max_rounds, suitable, weighted, seed
):
    rng = np.random.default_rng(seed)
    num_groups = num_partitions + more_groups
    groups = KeyGroups(
        num_partitions,
        KeyGroupsConfig(
            num_groups=num_groups,
            window_ms=pane_ms,
            tolerance_fraction=tolerance,
            max_rounds=max_rounds,
            suitable=suitable,
            seed=seed,
        ),
    )
    naive = NaiveKeyGroups(
        num_partitions, num_groups, pane_ms, tolerance, max_rounds, suitable, seed
    )
    keys = rng.integers(0, 60, 800).astype(np.uint64)
    times = np.cumsum(rng.integers(-2, 6, 800)) - 300
    weights = rng.integers(0, 5, 800).astype(float) if weighted else None
    expected = [
        naive.partition(int(keys[row]), int(times[row]), 1.0 if weights is None else weights[row])
        for row in range(800)
    ]
    assert route(groups, keys, times, weights).tolist() == expected
    assert groups.owners.tolist() == naive.owners


def test_balance_is_back_two_panes_after_a_drift():
    pane, num_partitions = 20_000, 16
    groups = KeyGroups(num_partitions, KeyGroupsConfig(num_groups=1024, window_ms=pane))
    # The stream drifts in the middle of pane 5.
    keys = np.concatenate(
        [zipf_keys(11 * pane // 2, 0.8, 10_000, 1), zipf_keys(11 * pane // 2, 0.8, 10_000, 2)]
    )
    per_pane = []
    for number in range(11):
        rows = slice(number * pane, (number + 1) * pane)
        out = route(groups, keys[rows], np.arange(rows.start, rows.stop))
        per_pane.append((imbalance(out, num_partitions), groups.balance_limit))
    balanced = 0.12  # tolerance, and the noise of 1,250 records on a partition
    assert per_pane[0][0] > 0.3
    assert all(now < max(balanced, limit + 0.05) for now, limit in per_pane[1:5])
    assert per_pane[6][0] > 0.2
    assert all(now < max(balanced, limit + 0.05) for now, limit in per_pane[7:])


def test_the_hottest_group_limits_balance():
    keys = zipf_keys(100_000, 1.4, 10_000, 3)
    groups = KeyGroups(16, KeyGroupsConfig(window_ms=20_000))
    route(groups, keys[:80_000], np.arange(80_000))
    out = route(groups, keys[80_000:], np.arange(80_000, 100_000))
    hottest = np.bincount(groups.groups(keys[80_000:])).max()
    assert groups.balance_limit == pytest.approx(hottest / (20_000 / 16) - 1)
    assert groups.balance_limit > 4
    assert imbalance(out, 16) == pytest.approx(groups.balance_limit, abs=0.05)


def test_migration_changes_no_result():
    """Partials per (partition, pane, key), merged, are the counts of the stream."""
    pane = 1_000
    keys = np.concatenate([zipf_keys(6_000, 1.1, 300, 4), zipf_keys(6_000, 1.1, 300, 5)])
    panes = np.arange(12_000) // pane
    groups = KeyGroups(8, KeyGroupsConfig(window_ms=pane))
    out = route(groups, keys, np.arange(12_000))
    assert groups.num_migrations > 20
    partials = Counter(zip(out.tolist(), panes.tolist(), keys.tolist(), strict=True))
    merged = Counter()
    for (_, number, key), count in partials.items():
        merged[number, key] += count
    assert merged == Counter(zip(panes.tolist(), keys.tolist(), strict=True))
    # Within a pane a key is whole; over the stream it is not: that is what a migration costs.
    assert len(partials) == len(merged)
    assert len(set(zip(out.tolist(), keys.tolist(), strict=True))) > len(np.unique(keys))


def test_without_rounds_keys_stay_whole():
    groups = KeyGroups(8, KeyGroupsConfig(window_ms=100, max_rounds=0))
    assert not groups.traits.splits_keys
    keys = zipf_keys(5_000, 1.2, 100, 6)
    out = route(groups, keys, np.arange(5_000))
    assert len(set(zip(out.tolist(), keys.tolist(), strict=True))) == len(np.unique(keys))


def test_late_and_extreme_timestamps():
    groups = KeyGroups(4, KeyGroupsConfig(window_ms=1_000))
    keys = hash_keys(["a", "b", "c", "d"] * 2)
    limits = np.iinfo(np.int64)
    times = np.array([limits.min, -5, 0, 10_000, 3, limits.max - 1, limits.max, 0])
    out = route(groups, keys, times)
    assert out.min() >= 0
    assert out.max() < 4


def test_scalar_equals_batch():
    keys = [f"k{number % 37}" for number in range(900)]
    times = list(range(900))
    config = KeyGroupsConfig(window_ms=70)
    batch = KeyGroups(6, config).partition_batch(keys, times).tolist()
    one = KeyGroups(6, config)
    assert [one.partition(key, now) for key, now in zip(keys, times, strict=True)] == batch


@pytest.mark.parametrize(
    "options",
    [
        {"num_groups": 0},
        {"num_groups": 3},
        {"window_ms": 0},
        {"slide_ms": 0},
        {"tolerance_fraction": -0.1},
        {"max_rounds": -1},
        {"suitable": "worst"},
    ],
)
def test_refused(options):
    with pytest.raises(InputError, match=next(iter(options))):
        KeyGroups(4, KeyGroupsConfig(**options))


def test_the_pane_is_the_common_divisor_of_window_and_slide():
    assert KeyGroupsConfig(window_ms=2_700_000, slide_ms=60_000).pane_ms == 60_000
    assert KeyGroupsConfig(window_ms=60_000, slide_ms=25_000).pane_ms == 5_000
    assert KeyGroupsConfig(window_ms=60_000).pane_ms == 60_000
