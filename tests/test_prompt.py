"""Prompt: the plan, block by block; its measures; that records are neither lost nor doubled."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from naive_batch import naive_prompt, naive_tree_order

from partitioners import count_tree, micro_batch
from partitioners.base import NO_WEIGHTS
from partitioners.block_metrics import (
    BlockMetrics,
    block_cardinality_imbalance,
    block_size_imbalance,
    key_split_ratio,
    measure_blocks,
)
from partitioners.errors import InputError
from partitioners.hashing import hash_keys
from partitioners.prompt import Prompt, PromptConfig


def records_of(counts):
    """Key hashes with given counts: first each key once, then the rest in a fixed mixed order."""
    keys = np.repeat(np.arange(len(counts)), np.array(counts) - 1)
    mixed = np.random.default_rng(5).permutation(keys)
    return np.concatenate([np.arange(len(counts)), mixed]).astype(np.uint64)


def blocks_of(key_hashes, num_blocks, **options):
    out = np.empty(len(key_hashes), np.int32)
    Prompt(num_blocks, PromptConfig(**options)).route_micro_batch(key_hashes, out)
    return out


def zipf_keys(num_records, exponent, num_keys, seed=0):
    rng = np.random.default_rng(seed)
    shares = np.arange(1, num_keys + 1) ** -float(exponent)
    return rng.choice(num_keys, num_records, p=shares / shares.sum()).astype(np.uint64)


streams = st.integers(0, 1 << 32).flatmap(
    lambda seed: st.builds(
        zipf_keys,
        num_records=st.integers(0, 600),
        exponent=st.floats(0.0, 3.0),
        num_keys=st.integers(1, 200),
        seed=st.just(seed),
    )
)


class TestPlan:
    def test_the_papers_setting(self):
        """385 records of 8 keys into 4 blocks, as in figures 5 and 6 (the counts are ours).

        The capacity is 96.25 and the cut-off 48.125. As in figure 6c blocks are equal, cardinality
        nearly so, and only K1 and K2 are split.
        """
        keys = records_of([140, 90, 45, 40, 25, 20, 15, 10])
        out = blocks_of(keys, 4)
        metrics = measure_blocks(keys, out, 4)
        assert sorted(metrics.sizes) == [96, 96, 96, 97]
        assert metrics.bsi == 0.75
        assert sorted(metrics.cardinalities) == [2, 2, 3, 4]
        fragments = Counter(key for key, _ in set(zip(keys.tolist(), out.tolist(), strict=True)))
        assert {key for key, number in fragments.items() if number > 1} == {0, 1}

    @pytest.mark.parametrize(
        ("counts", "num_blocks", "expected"),
        [
            # alike and dividing evenly: whole keys, one after the other, the order reversed
            ([3, 3, 3, 3], 2, {0: {0: 3}, 1: {1: 3}, 2: {1: 3}, 3: {0: 3}}),
            # one key is all there is: it is on every block
            ([8], 4, {0: {0: 2, 1: 2, 2: 2, 3: 2}}),
            # fewer records than blocks
            ([2], 4, {0: {0: 1, 1: 1}}),
            # the mean is 5, the capacity 10: key 0 is cut, its rest fills its own block first
            ([14, 3, 2, 1], 2, {0: {0: 9, 1: 5}, 1: {1: 3}, 2: {1: 2}, 3: {0: 1}}),
            # three keys on two blocks: one exceeds, and gives back
            ([10, 10, 10], 2, {0: {0: 10}, 1: {0: 5, 1: 5}, 2: {1: 10}}),
        ],
    )
    def test_fragments(self, counts, num_blocks, expected):
        keys = records_of(counts)
        got = Counter(zip(keys.tolist(), blocks_of(keys, num_blocks).tolist(), strict=True))
        assert got == {
            (key, block): size for key, parts in expected.items() for block, size in parts.items()
        }

    def test_as_printed_blocks_may_exceed(self):
        keys = records_of([10, 10, 10])
        sizes = np.bincount(blocks_of(keys, 2, equal_blocks=False))
        assert sizes.tolist() == [10, 20]

    def test_a_hot_key_is_spread_over_more_than_three_blocks(self):
        """A third of all records in one key, 16 blocks: three fragments would leave BSI at 4.4."""
        keys = np.concatenate([np.zeros(33_000, np.uint64), zipf_keys(67_000, 0.5, 5_000) + 1])
        out = blocks_of(np.random.default_rng(1).permutation(keys), 16)
        metrics = measure_blocks(np.random.default_rng(1).permutation(keys), out, 16)
        assert metrics.bsi == 0
        assert metrics.bci < 3
        assert metrics.ksr < 1.005

    @pytest.mark.parametrize("exponent", [0.0, 0.8, 1.0, 1.4, 2.0])
    @pytest.mark.parametrize("num_blocks", [1, 3, 16, 64])
    def test_balance_on_zipf(self, exponent, num_blocks):
        keys = zipf_keys(100_000, exponent, 10_000)
        metrics = measure_blocks(keys, blocks_of(keys, num_blocks), num_blocks)
        num_keys = len(np.unique(keys))
        assert metrics.bsi < 1
        assert metrics.bci <= 3
        assert (metrics.ksr - 1) * num_keys <= 2 * num_blocks  # fragments beyond one per key

    def test_smallest_rests_first_splits_less_than_as_printed(self):
        keys = zipf_keys(100_000, 1.0, 10_000)
        ours = measure_blocks(keys, blocks_of(keys, 16), 16)
        printed = measure_blocks(keys, blocks_of(keys, 16, rests="largest_first"), 16)
        assert printed.bsi < 1
        assert ours.bci * 20 < printed.bci
        assert (ours.ksr - 1) * 20 < printed.ksr - 1

    def test_weights_make_blocks_of_equal_load(self):
        keys = zipf_keys(50_000, 1.2, 2_000)
        weights = np.random.default_rng(2).exponential(100.0, len(keys))
        out = np.empty(len(keys), np.int32)
        Prompt(8).route_micro_batch(keys, out, weights)
        metrics = measure_blocks(keys, out, 8, weights)
        # A record is not cut: each of a block's few partial fragments is off by half of one.
        assert metrics.bsi < 10 * weights.max()
        assert metrics.bsi < 0.01 * metrics.sizes.mean()


class TestAgainstNaive:
    @given(
        keys=streams,
        num_blocks=st.integers(1, 40),
        equal_blocks=st.booleans(),
        smallest_first=st.booleans(),
    )
    @settings(deadline=None, max_examples=150)
    def test_plan(self, keys, num_blocks, equal_blocks, smallest_first):
        rests = "smallest_first" if smallest_first else "largest_first"
        out = blocks_of(keys, num_blocks, equal_blocks=equal_blocks, rests=rests)
        expected = (
            naive_prompt(keys.tolist(), num_blocks, None, equal_blocks, smallest_first)
            if len(keys)
            else []
        )
        assert out.tolist() == expected

    @given(
        keys=streams,
        steps_ms=st.integers(0, 20),
        budget=st.integers(1, 12),
        batch_ms=st.integers(1, 5_000),
        num_blocks=st.integers(1, 9),
    )
    @settings(deadline=None, max_examples=100)
    def test_count_tree(self, keys, steps_ms, budget, batch_ms, num_blocks):
        rng = np.random.default_rng(len(keys))
        times = np.cumsum(rng.integers(0, steps_ms + 1, len(keys))) - 50
        config = PromptConfig(
            order="count_tree",
            budget=budget,
            batch_ms=batch_ms,
            expected_records=500,
            expected_keys=50,
        )
        prompt = Prompt(num_blocks, config)
        out = np.empty(len(keys), np.int32)
        prompt.route_micro_batch(keys, out, None, times)
        records = [(int(key), int(now), 1.0) for key, now in zip(keys, times, strict=True)]
        order = naive_tree_order(records, budget, batch_ms, 500.0, 50.0)
        expected = naive_prompt(keys.tolist(), num_blocks, order) if len(keys) else []
        assert out.tolist() == expected

    @given(
        loads=st.lists(
            st.one_of(st.integers(0, 1 << 40), st.floats(0, 1e300, allow_subnormal=True)),
            max_size=60,
        )
    )
    def test_load_order(self, loads):
        array = np.array(loads, np.float64) + 0.0
        expected = sorted(range(len(array)), key=lambda key: -array[key])
        assert micro_batch.load_order(array).tolist() == expected


class TestBatches:
    @given(
        keys=streams,
        num_blocks=st.integers(1, 20),
        weights_seed=st.none() | st.integers(0, 1 << 20),
        order=st.sampled_from(["sort", "count_tree"]),
        cuts=st.lists(st.integers(0, 600), max_size=4),
    )
    @settings(deadline=None, max_examples=100)
    def test_each_record_once_and_any_cutting_alike(
        self, keys, num_blocks, weights_seed, order, cuts
    ):
        config = PromptConfig(order=order)
        weights = None
        if weights_seed is not None:
            weights = np.random.default_rng(weights_seed).integers(0, 4, len(keys)).astype(float)
        batch = np.full(len(keys), -1, np.int32)
        Prompt(num_blocks, config).route_micro_batch(keys, batch, weights)
        fitted = Prompt(num_blocks, config)
        fitted.fit(keys, weights)
        pieces = np.full(len(keys), -1, np.int32)
        bounds = sorted({0, len(keys), *(min(cut, len(keys)) for cut in cuts)})
        for start, end in itertools.pairwise(bounds):
            rows = slice(start, end)
            part = None if weights is None else weights[rows]
            fitted.route(keys[rows], np.zeros(end - start, np.int64), pieces[rows], part)
        assert pieces.tolist() == batch.tolist()
        # Sum over blocks of records per key = records per key: none lost, none doubled.
        assert ((batch >= 0) & (batch < num_blocks)).all()
        sizes = np.bincount(batch, minlength=num_blocks)
        assert sizes.sum() == len(keys)
        if weights is None:
            assert sizes.max(initial=0) - sizes.min(initial=len(keys)) <= 1

    def test_one_by_one_equals_the_batch(self):
        keys = [f"k{number * number % 23}" for number in range(700)]
        batch = Prompt(5).partition_micro_batch(keys).tolist()
        fitted = Prompt(5)
        fitted.fit(hash_keys(keys))
        assert [fitted.partition(key) for key in keys] == batch
        fitted.fit(hash_keys(keys))
        assert fitted.partition_batch(pa.array(keys)).tolist() == batch

    def test_observed_piece_by_piece_equals_fit(self):
        keys = zipf_keys(20_000, 1.1, 3_000)  # more keys than the first table holds
        fitted, observed = Prompt(7), Prompt(7)
        fitted.fit(keys)
        for start in range(0, len(keys), 999):
            observed.observe(keys[start : start + 999])
        assert observed.num_observed == len(keys)
        observed.seal()
        assert observed.num_observed == 0
        first, second = np.empty((2, len(keys)), np.int32)
        fitted.route(keys, np.zeros(len(keys), np.int64), first)
        observed.route(keys, np.zeros(len(keys), np.int64), second)
        assert first.tolist() == second.tolist()

    def test_each_batch_is_planned_anew(self):
        prompt = Prompt(4)
        for seed in range(3):
            keys = zipf_keys(4_001, 1.3, 500, seed)
            sizes = np.bincount(prompt.partition_micro_batch([str(key) for key in keys]))
            assert sizes.max() - sizes.min() <= 1

    def test_a_plan_that_ran_out_goes_on_in_proportion(self):
        keys = zipf_keys(8_000, 1.5, 300)
        prompt = Prompt(8)
        prompt.fit(keys)
        out = np.empty(len(keys), np.int32)
        for _ in range(3):
            prompt.route(keys, np.zeros(len(keys), np.int64), out)
            assert np.bincount(out).max() == 1_000

    def test_an_unplanned_key_goes_home(self):
        prompt = Prompt(8)
        homes = {prompt.partition("new") for _ in range(5)}
        prompt.fit(hash_keys(["old"] * 100))
        assert homes == {prompt.partition("new")}
        assert Prompt(8).partition("new") in homes

    def test_null_keys_are_spread_and_not_planned(self):
        keys = ["a", None, "b", None, None, "a", None, "c"]
        out = Prompt(2).partition_micro_batch(keys)
        assert out[[1, 3, 4, 6]].tolist() == [0, 1, 0, 1]
        assert np.bincount(out).tolist() == [4, 4]

    def test_snapshot_in_the_middle_of_a_plan_and_of_a_batch(self):
        keys = zipf_keys(3_000, 1.2, 400)
        prompt = Prompt(6, PromptConfig(order="count_tree"))
        prompt.fit(keys)
        prompt.observe(keys[:1_000])
        head, tail, again = (np.empty(1_500, np.int32) for _ in range(3))
        times = np.zeros(1_500, np.int64)
        prompt.route(keys[:1_500], times, head)
        other = Prompt(6, PromptConfig(order="count_tree"))
        other.restore(prompt.snapshot())
        prompt.route(keys[1_500:], times, tail)
        other.route(keys[1_500:], times, again)
        assert tail.tolist() == again.tolist()
        for one in (prompt, other):
            one.observe(keys[1_000:])
            one.seal()
        prompt.route(keys[:1_500], times, tail)
        other.route(keys[:1_500], times, again)
        assert tail.tolist() == again.tolist()

    def test_memory_returns_after_a_large_batch(self):
        prompt = Prompt(4)
        out = np.empty(200_000, np.int32)
        prompt.route_micro_batch(np.arange(200_000, dtype=np.uint64), out)
        full = prompt.state_bytes
        assert full < 130 * 200_000
        for _ in range(2):
            prompt.route_micro_batch(np.zeros(10, np.uint64), out[:10])
        assert prompt.state_bytes < full / 100


class TestCountTree:
    def test_updates_stay_within_the_budget_and_the_order_is_nearly_sorted(self):
        keys = zipf_keys(100_000, 1.0, 2_000)
        batch, tree = micro_batch.new_micro_batch(), count_tree.new_count_tree()
        numbers = np.empty(len(keys), np.int32)
        micro_batch.count(batch, keys, NO_WEIGHTS, numbers)
        num_keys = int(batch.counts[micro_batch.NUM_KEYS])
        count_tree.make_room(tree, num_keys)
        times = np.arange(len(keys)) // 100
        arrays = vars(tree).values()
        count_tree.observe(numbers, times, NO_WEIGHTS, 8, 1_000, 1e5, 2e3, *arrays)
        assert tree.clock[count_tree.NUM_UPDATES] <= 8 * num_keys
        order = count_tree.walk(tree.links, num_keys)
        assert sorted(order.tolist()) == list(range(num_keys))
        loads = batch.loads[:num_keys]
        ranks = np.empty(num_keys)
        ranks[order] = np.arange(num_keys)
        true_ranks = np.empty(num_keys)
        true_ranks[np.argsort(-loads, kind="stable")] = np.arange(num_keys)
        assert np.corrcoef(ranks, true_ranks)[0, 1] > 0.9
        # The largest keys, which decide the plan, are where they belong.
        assert np.abs(ranks - true_ranks)[order[:20]].max() <= 5


class TestMetrics:
    def test_worked(self):
        keys = np.array([1, 1, 1, 2, 2, 3], np.uint64)
        blocks = measure_blocks(keys, np.array([0, 0, 1, 1, 1, 0]), 3)
        assert blocks.sizes.tolist() == [3, 3, 0]
        assert blocks.cardinalities.tolist() == [2, 2, 0]
        assert blocks.bsi == 1.0
        assert blocks.bci == pytest.approx(2 / 3)
        assert blocks.ksr == pytest.approx(4 / 3)
        assert blocks.mpi() == pytest.approx((1 + 2 / 3 + 4 / 3) / 3)
        assert blocks.mpi(1, 0, 0) == blocks.bsi
        with pytest.raises(InputError, match="must be 1"):
            blocks.mpi(1, 1, 0)

    def test_hashing_and_shuffling_are_the_two_ends(self):
        keys = zipf_keys(10_000, 1.2, 500)
        whole = measure_blocks(keys, (keys % 8).astype(np.int32), 8)
        spread = measure_blocks(keys, np.arange(10_000) % 8, 8)
        assert whole.ksr == 1.0
        assert whole.bsi > 1_000
        assert spread.bsi == 0.0
        assert spread.ksr > 2

    def test_no_records(self):
        nothing = measure_blocks(np.empty(0, np.uint64), np.empty(0, np.int32), 3)
        assert isinstance(nothing, BlockMetrics)
        assert (nothing.bsi, nothing.bci, nothing.ksr) == (0.0, 0.0, 1.0)
        assert block_size_imbalance([]) == block_cardinality_imbalance([]) == 0.0
        assert key_split_ratio(0, 0) == 1.0


@pytest.mark.parametrize(
    "options",
    [
        {"equal_blocks": 1},
        {"rests": "any"},
        {"order": "random"},
        {"budget": 0},
        {"batch_ms": 0},
        {"expected_records": 0},
        {"expected_keys": 0},
    ],
)
def test_refused(options):
    with pytest.raises(InputError, match=next(iter(options))):
        PromptConfig(**options)


def test_columns_of_other_lengths_are_refused():
    keys = np.zeros(3, np.uint64)
    with pytest.raises(InputError, match="2 weights"):
        Prompt(2).fit(keys, np.ones(2))
    with pytest.raises(InputError, match="1 timestamps"):
        Prompt(2).observe(keys, None, np.zeros(1, np.int64))
    with pytest.raises(InputError, match="weights"):
        Prompt(2).partition_micro_batch(["a", "b"], weights=[1.0])
