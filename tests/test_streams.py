"""Generated streams: the shares they promise, and how their names are read."""

from __future__ import annotations

import numpy as np
import pytest

from partitioners.errors import InputError
from partitioners.hashing import hash_keys
from partitioners.stream_names import STREAMS, parse_named, parse_stream
from partitioners.streams import (
    drift,
    lognormal,
    mixed,
    of_keys,
    top_share,
    uniform,
    zipf,
    zipf_exponent,
)


def top(ids):
    return np.bincount(ids).max() / len(ids)


@pytest.mark.parametrize(("num_keys", "share"), [(1_000, 0.2), (300_000, 0.0932)])
def test_the_hottest_key_has_the_share_asked_for(num_keys, share):
    assert top(top_share(400_000, num_keys, share).ids) == pytest.approx(share, rel=0.03)


def test_the_exponent_is_found_for_tables_summed_and_integrated():
    for num_keys in (500, 2_900_000):
        shares = np.arange(1, num_keys + 1) ** -zipf_exponent(num_keys, 0.1)
        assert shares[0] / shares.sum() == pytest.approx(0.1, abs=1e-7)
    for impossible in (0.0001, 1.0):
        with pytest.raises(InputError, match="no law over"):
            zipf_exponent(100, impossible)


@pytest.mark.parametrize(
    ("mu", "sigma", "share", "num_keys"),
    [(1.789, 2.366, 0.1471, 16_000), (2.245, 1.133, 0.0701, 1_100)],
)
def test_log_normal_streams_are_those_of_the_paper(mu, sigma, share, num_keys):
    ids = lognormal(10_000_000, mu, sigma).ids
    assert top(ids) == pytest.approx(share, abs=0.0005)
    assert len(np.unique(ids)) == pytest.approx(num_keys, rel=0.05)


def test_many_keys_are_drawn_as_few_are():
    # Above the number of records keys are numbered anew; who is drawn when is the same.
    many = zipf(2_000, 150_000, 1.2, seed=4).ids
    random = np.random.default_rng(4)
    shares = np.arange(1, 150_001) ** -1.2
    ranks = np.searchsorted(np.cumsum(shares / shares.sum()), random.random(2_000), side="right")
    assert (many == np.unique(random.permutation(150_000)[ranks], return_inverse=True)[1]).all()


def test_hot_keys_change_between_phases():
    ids = drift(100_000, num_phases=4).ids
    hottest = [np.bincount(part).argmax() for part in np.split(ids, 4)]
    assert len(set(hottest)) == 4


def test_sources_in_turn_see_one_stream_each():
    ids = mixed(200_000, num_keys=1_000).ids
    assert top(ids[::2]) < 0.005
    assert top(ids[1::2]) > 0.3


def test_keys_and_hashes_are_those_of_the_names():
    for stream in (uniform(1_000, 50), of_keys(["b", None, "a", "b"])):
        assert stream.keys.to_pylist() == [stream.names[i].as_py() for i in stream.ids.tolist()]
        assert (stream.hashes("murmur2") == hash_keys(stream.keys, function="murmur2")).all()
    assert stream.timestamps_ms.tolist() == [0, 2, 3]


@pytest.mark.parametrize("name", STREAMS)
def test_every_named_stream_is_of_the_length_asked_for_and_repeats(name):
    once, again = (parse_stream(name, 5_000, seed=7).load() for _ in range(2))
    assert len(once.ids) == 5_000
    assert (once.ids == again.ids).all()
    assert (once.ids != parse_stream(name, 5_000, seed=8).load().ids).any()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("zip", 'did you mean "zipf"'),
        ("zipf:exponnet=1", 'did you mean "exponent"'),
        ("zipf:exponent", "is not option=value"),
        ("zipf:exponent=1:exponent=2", "comes twice"),
        ("zipf:exponent=much", "must be a number"),
        ("zipf:num_keys=2.5", "must be a whole number"),
        ("zipf:num_keys=1", "must be from 2"),
        ("zipf:exponent=nan", "must be from 0 to 16"),
        ("zipf:seed=3", 'no option "seed"'),
        ("drift:num_phases=6000", "more phases than records"),
        ("varying:low=1.5:high=1", "above its high"),
        ("top_share:fraction=1", "no law over"),
    ],
)
def test_streams_that_cannot_be_are_refused(text, message):
    with pytest.raises(InputError, match=message):
        parse_stream(text, 5_000, seed=1)


def test_options_keep_their_kinds_and_order():
    assert str(parse_named("dalton:alone=true:first_split=none:step_size=0.5")) == (
        "dalton:alone=True:first_split=None:step_size=0.5"
    )
