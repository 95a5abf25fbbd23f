"""The greedy baselines and PoTC: worked examples; their decisions are in the contract test."""

from __future__ import annotations

import numpy as np
import pytest

from partitioners import create
from partitioners.errors import InputError
from partitioners.hashing import hash_keys

KEYS = hash_keys(["a", "b", "c", "d", "e"])


def routed(partitioner, key_hashes):
    out = np.full(len(key_hashes), -1, np.int32)
    partitioner.route(key_hashes, np.zeros(len(key_hashes), np.int64), out)
    return out.tolist()


def test_off_greedy_places_the_largest_load_first_on_the_least_loaded():
    off_greedy = create("off_greedy", 2)
    off_greedy.fit(KEYS, np.array([3.0, 7.0, 4.0, 5.0, 6.0]))
    # 7 | 6, then 5 to the second, 4 to the first, and 3 to the first of two with 11.
    assert routed(off_greedy, KEYS) == [0, 0, 0, 1, 1]


def test_off_greedy_adds_up_the_records_of_a_key():
    off_greedy = create("off_greedy", 2)
    off_greedy.fit(KEYS[[0, 1, 1, 2, 2, 2]])
    assert routed(off_greedy, KEYS[:3]) == [1, 1, 0]


def test_off_greedy_refuses_other_numbers_of_weights():
    with pytest.raises(InputError, match="5 key hashes but 2 weights"):
        create("off_greedy", 2).fit(KEYS, np.ones(2))


def test_on_greedy_gives_a_new_key_the_least_loaded_partition_and_keeps_it():
    on_greedy = create("on_greedy", 3)
    assert routed(on_greedy, KEYS[[0, 0, 0, 1, 2, 1, 3, 0]]) == [0, 0, 0, 1, 2, 1, 2, 0]


def test_potc_keeps_a_key_where_its_first_record_went():
    potc = create("potc", 8)
    both = set(potc.candidates(KEYS[:1])[0].tolist())
    first, *others = routed(potc, np.repeat(KEYS[:1], 50))
    assert first in both
    assert set(others) == {first}


@pytest.mark.parametrize("name", ["pkg", "potc", "cm", "am", "cam", "lm"])
def test_more_choices_than_partitions_are_all_partitions(name):
    random = np.random.default_rng(5)
    hashes = hash_keys([f"key-{i}" for i in random.zipf(1.4, 2_000)])
    assert routed(create(name, 3, d=99), hashes) == routed(create(name, 3, d=3), hashes)
