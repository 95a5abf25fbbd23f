"""Keys on no more partitions than allowed, and memory that returns: of every partitioner."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partitioners import PARTITIONERS, create
from partitioners.hashing import mix64

HASHES = np.array([mix64(np.uint64(word)) for word in range(1, 30)], np.uint64)


def routed(partitioner, hashes, times):
    if hasattr(partitioner, "fit"):
        partitioner.fit(hashes)
    out = np.full(len(hashes), -1, np.int32)
    partitioner.route(hashes, times, out)
    return out


def most_partitions(hashes, out):
    pairs = np.unique(np.stack([hashes, out.astype(np.uint64)]), axis=1)
    return np.unique(pairs[0], return_counts=True)[1].max()


LIMITS = {
    "shuffle": None,
    "key_hash": 1,
    "potc": 1,
    "on_greedy": 1,
    "off_greedy": 1,
    "key_groups": 1,
    "am": 1,
    "cam": 1,
    "pkg": 2,
    "cm": 2,
    "lm": 2,
    "d_choices": None,
    "w_choices": None,
    "dalton": None,
    "dagreedy": None,
    "hot_fill": None,
    "prompt": None,
}
"""Partitions a key may be on within a window; None: all there are, if it is hot."""


def test_every_name_has_a_limit():
    assert LIMITS.keys() == PARTITIONERS.keys()


@pytest.mark.parametrize("name", sorted(PARTITIONERS))
@settings(deadline=None, max_examples=25)
@given(
    ids=st.lists(st.integers(0, 28), min_size=1, max_size=200),
    num_partitions=st.integers(1, 9),
)
def test_a_key_is_on_no_more_partitions_than_allowed(name, ids, num_partitions):
    hashes = HASHES[np.array(ids)]
    out = routed(create(name, num_partitions), hashes, np.zeros(len(ids), np.int64))
    assert ((out >= 0) & (out < num_partitions)).all()
    assert most_partitions(hashes, out) <= min(LIMITS[name] or num_partitions, num_partitions)


@pytest.mark.parametrize("name", ["pkg", "cm", "lm"])
@settings(deadline=None, max_examples=25)
@given(
    ids=st.lists(st.integers(0, 28), min_size=1, max_size=200),
    num_partitions=st.integers(1, 9),
    d=st.integers(1, 12),
)
def test_the_limit_is_d(name, ids, num_partitions, d):
    hashes = HASHES[np.array(ids)]
    out = routed(
        create(name, num_partitions, d=min(d, num_partitions)), hashes, np.zeros(len(ids), np.int64)
    )
    assert most_partitions(hashes, out) <= d


WINDOWED = sorted(
    name
    for name, kind in PARTITIONERS.items()
    if "window_ms" in kind.config_type.__dataclass_fields__
)


@pytest.mark.parametrize("name", WINDOWED)
@settings(deadline=None, max_examples=5)
@given(num_keys=st.integers(20_000, 60_000), batch=st.sampled_from([500, 7_000]))
def test_memory_returns_after_keys_vanish(name, num_keys, batch):
    """A burst of keys in one window; then, windows later, a handful of keys again and again."""
    burst = np.random.default_rng(num_keys).integers(0, 1 << 64, num_keys, np.uint64)
    few = np.tile(HASHES, 400)
    times = 10_000 + np.arange(len(few)) * 2
    sizes = []
    for comes in (True, False):
        partitioner = create(name, 8, window_ms=1_000)
        if comes:
            routed(partitioner, burst, np.arange(num_keys) * 900 // num_keys)
        for start in range(0, len(few), batch):
            rows = slice(start, start + batch)
            routed(partitioner, few[rows], times[rows])
        sizes.append(partitioner.state_bytes)
    assert sizes[0] <= 2 * sizes[1]


@pytest.mark.parametrize("name", ["potc", "on_greedy"])
def test_memory_returns_to_callers_of_single_records(name):
    partitioner = create(name, 8, window_ms=1_000)
    empty = partitioner.state_bytes
    for number in range(5_000):
        partitioner.partition(str(number), number % 1_000)
    burst = partitioner.state_bytes
    assert burst > 5 * empty
    # The first window of a few keys still has the room of the one before.
    routed = [partitioner.partition(str(number % 10), 1_000 + number) for number in range(1_500)]
    assert partitioner.state_bytes == empty
    expected = create(name, 8, window_ms=1_000)
    times = [number % 1_000 for number in range(5_000)] + [1_000 + n for n in range(1_500)]
    keys = [str(number) for number in range(5_000)] + [str(n % 10) for n in range(1_500)]
    assert expected.partition_batch(keys, times)[5_000:].tolist() == routed
