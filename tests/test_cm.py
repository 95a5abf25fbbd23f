from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from naive_cardinality import Stream, against_authors, relative_imbalance, streams, zipf

from partitioners import create
from partitioners.errors import InputError
from partitioners.hashing import hash_keys


@settings(deadline=None)  # the first call compiles
@given(streams(), st.integers(0, 150))
def test_equals_naive(stream: Stream, cut: int) -> None:
    assert stream.select("cm", cut=cut) == stream.naive("cm")


def test_equals_the_authors_code() -> None:
    # The authors' code on their own permutation of 1M ids: 2.61.
    assert 1.63 < against_authors("cm") < 5.0


def test_least_keys_win_however_many_records() -> None:
    # Partition 0 has two keys in three records, partition 1 one key in five.
    cm = create("cm", 2, d=2)
    out = np.zeros(9, np.int32)
    cm.select(  # type: ignore[attr-defined]
        np.array([[0, 0]] * 3 + [[1, 1]] * 5 + [[0, 1]], np.int32),
        np.array([1, 2, 2, 3, 3, 3, 3, 3, 4], np.uint64),
        np.zeros(9, np.int64),
        out,
    )
    assert out.tolist() == [0, 0, 0, 1, 1, 1, 1, 1, 1]
    assert cm.cardinalities.tolist() == [2.0, 2.0]  # type: ignore[attr-defined]


def test_estimates_balance_keys_as_exact_counts_do() -> None:
    ids = zipf(200_000, num_keys=50_000, skew=0.5)
    hashes = hash_keys([str(i).encode() for i in range(50_000)])[ids]
    for cardinality in ("exact", "hll"):
        cm = create("cm", 8, cardinality=cardinality, window_ms=1 << 40)
        out = np.zeros(len(ids), np.int32)
        cm.route(hashes, np.zeros(len(ids), np.int64), out)
        keys_on = np.unique(ids * 8 + out) % 8  # one entry for each (key, partition)
        assert relative_imbalance(keys_on, 8) < 0.05
        # The counters say what a count of the routing says.
        truth = np.bincount(keys_on, minlength=8)
        tolerance = 0 if cardinality == "exact" else 0.07
        assert np.abs(cm.cardinalities - truth).max() <= tolerance * truth.max()  # type: ignore[attr-defined]


@pytest.mark.parametrize("slide_ms", [None, 1_000])
def test_hll_state_is_fixed_and_exact_state_follows_the_live_pairs(slide_ms: int | None) -> None:
    rng = np.random.default_rng(5)
    burst = rng.integers(0, 1 << 63, 300_000).astype(np.uint64)
    quiet = np.zeros(200, np.uint64)
    sizes: dict[str, list[int]] = {}
    for cardinality in ("exact", "hll"):
        cm = create("cm", 16, cardinality=cardinality, window_ms=10_000, slide_ms=slide_ms)
        sizes[cardinality] = [cm.state_bytes]
        for hashes, start_ms in ((burst, 0), (quiet, 30_000), (quiet, 60_000), (quiet, 90_000)):
            times = start_ms + np.arange(len(hashes), dtype=np.int64) // 100
            cm.route(hashes, times, np.zeros(len(hashes), np.int32))
            sizes[cardinality].append(cm.state_bytes)
    assert len(set(sizes["hll"])) == 1
    empty, after_burst, *_, after_quiet = sizes["exact"]
    live_pairs = 300_000
    assert 32 * live_pairs <= after_burst - empty + 16_384 <= 130 * live_pairs
    assert after_quiet == empty


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"window_ms": 0}, "window_ms must be a whole number from 1"),
        ({"slide_ms": 7_000}, "give a slide that divides the window"),
        ({"slide_ms": 120_000}, "give a slide that divides the window"),
        ({"window_ms": 100_000, "slide_ms": 1}, "give a slide with at most 65536"),
        ({"cardinality": "hhl"}, 'did you mean "hll"'),
        ({"d": 0}, "d must be a whole number from 1"),
    ],
)
def test_options_out_of_range(options: dict[str, object], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        create("cm", 4, **options)


def test_choices_that_are_no_partitions_are_refused() -> None:
    cm = create("cm", 4)
    with pytest.raises(InputError, match="partitions from 0 to 3"):
        cm.select(  # type: ignore[attr-defined]
            np.array([[0, 4]], np.int32),
            np.zeros(1, np.uint64),
            np.zeros(1, np.int64),
            np.zeros(1, np.int32),
        )
