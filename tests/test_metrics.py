"""Metrics: worked examples."""

from __future__ import annotations

import numpy as np
import pytest

from partitioners.errors import InputError
from partitioners.metrics import (
    fragmentation,
    hot_keys,
    imbalance,
    partition_counts,
    replication_factor,
)

KEYS = np.array([1, 1, 2, 1, 3, 1], np.uint64)
PARTITIONS = np.array([0, 1, 0, 0, 2, 1], np.int32)


@pytest.mark.parametrize(
    ("counts", "expected"), [([5, 5], 0.0), ([10, 0, 0, 0], 3.0), ([3, 1], 0.5), ([0, 0], 0.0)]
)
def test_imbalance(counts, expected):
    assert imbalance(counts) == expected


def test_imbalance_of_no_partition_is_refused():
    with pytest.raises(InputError):
        imbalance([])


def test_idle_partitions_count_and_weights_add_up():
    assert partition_counts(PARTITIONS, 5).tolist() == [3, 2, 1, 0, 0]
    weights = np.array([1, 2, 3, 4, 5, 6], float)
    assert partition_counts(PARTITIONS, 3, weights).tolist() == [8, 8, 5]


def test_replication_factor_counts_pairs_per_key():
    # Key 1 on partitions 0 and 1, keys 2 and 3 on one each: 4 pairs of 3 keys.
    assert replication_factor(KEYS, PARTITIONS) == pytest.approx(4 / 3)


def test_fragmentation_is_the_mean_over_windows_in_any_order_of_time():
    # [0, 10): keys 1 1 2 -> 3 pairs of 2 keys; [10, 20): keys 1 3 1 -> 3 pairs of 2 keys.
    times = np.array([0, 9, 3, 10, 11, 19])
    assert fragmentation(KEYS, PARTITIONS, times, 10) == 1.5
    order = np.array([5, 0, 3, 2, 4, 1])
    assert fragmentation(KEYS[order], PARTITIONS[order], times[order], 10) == 1.5
    assert fragmentation(KEYS, PARTITIONS, times, 1) == 1.0
    with pytest.raises(InputError, match="window_ms"):
        fragmentation(KEYS, PARTITIONS, times, 0)


def test_hot_keys_are_those_above_an_even_share():
    hottest, *others = hot_keys(KEYS, PARTITIONS, 4)
    assert hottest == (1, pytest.approx(4 / 6), 2)
    assert others == []
    assert hot_keys(KEYS, PARTITIONS, 1) == []
