"""What holds for every partitioner: each check below runs for every registered name."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import pickle
import re
from pathlib import Path

import naive
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partitioners import PARTITIONERS, ChoicePartitioner, create
from partitioners.base import MAX_PARTITIONS
from partitioners.errors import InputError
from partitioners.hashing import hash_keys
from partitioners.metrics import replication_factor
from partitioners.streams import of_ids, zipf

NUM_PARTITIONS = 7
STREAM = zipf(20_000, 500, 1.2, seed=5)
TEXT = STREAM.keys.to_pylist()

TWINS = naive.TWINS

every_partitioner = pytest.mark.parametrize("name", sorted(PARTITIONERS))
every_choice_partitioner = pytest.mark.parametrize(
    "name", sorted(n for n, kind in PARTITIONERS.items() if issubclass(kind, ChoicePartitioner))
)


def key_hashes_for(partitioner, keys=STREAM.keys):
    return hash_keys(keys, function=partitioner.hash_function)


def routed(partitioner, key_hashes, timestamps_ms, weights=None):
    out = np.full(len(key_hashes), -1, np.int32)
    partitioner.route(key_hashes, timestamps_ms, out, weights)
    return out


def whole(name, **options):
    return create(name, NUM_PARTITIONS, **options).partition_batch(
        STREAM.keys, STREAM.timestamps_ms
    )


@every_partitioner
@pytest.mark.parametrize("num_partitions", [1, 2, 3, 16, 100])
def test_every_record_gets_a_partition_in_range(name, num_partitions):
    partitions = create(name, num_partitions).partition_batch(STREAM.keys, STREAM.timestamps_ms)
    assert partitions.dtype == np.int32
    assert len(partitions) == len(STREAM.ids)
    assert partitions.min() >= 0
    assert partitions.max() < num_partitions
    assert create(name, num_partitions).partition("x", 0) in range(num_partitions)


@every_partitioner
def test_no_records_are_no_records(name):
    partitioner = create(name, NUM_PARTITIONS)
    assert partitioner.partition_batch([]).tolist() == []
    assert routed(partitioner, np.empty(0, np.uint64), np.empty(0, np.int64)).tolist() == []


@every_partitioner
def test_the_same_options_give_the_same_route(name):
    assert (whole(name) == whole(name)).all()


@pytest.mark.parametrize(
    "name",
    [
        name
        for name in sorted(PARTITIONERS)
        if "seed" in {field.name for field in dataclasses.fields(PARTITIONERS[name].config_type)}
    ],
)
def test_another_seed_gives_another_route(name):
    extra = {"hash_function": "murmur3"} if name == "key_hash" else {}
    assert (whole(name, seed=1, **extra) != whole(name, seed=2, **extra)).any()


@every_partitioner
@pytest.mark.parametrize("form", ["scalar", "route", "chunks", "sliced", "chunked", "dictionary"])
def test_every_form_of_the_same_records_decides_the_same(name, form):
    expected = whole(name)
    partitioner = create(name, NUM_PARTITIONS)
    keys, times = STREAM.keys, STREAM.timestamps_ms
    if form == "scalar":
        actual = [
            partitioner.partition(key, int(time)) for key, time in zip(TEXT, times, strict=True)
        ]
    elif form == "route":
        actual = routed(partitioner, key_hashes_for(partitioner), times)
    elif form == "chunks":
        parts, start = [], 0
        for size in (1, 2, 0, 997, 16_384, 20_000):
            rows = slice(start, start + size)
            parts.append(partitioner.partition_batch(TEXT[rows], times[rows]))
            start += size
        actual = np.concatenate(parts)
    elif form == "sliced":
        padded = pa.concat_arrays([pa.array(["before"]), keys, pa.array(["after"])])
        actual = partitioner.partition_batch(padded[1:-1], times)
    elif form == "chunked":
        chunks = pa.chunked_array([keys[:777].cast(pa.string()), keys[777:]])
        actual = partitioner.partition_batch(chunks, times)
    else:
        encoded = keys.dictionary_encode()
        actual = np.concatenate(
            [
                partitioner.partition_batch(encoded[:5000].cast(encoded.type), times[:5000]),
                partitioner.partition_batch(encoded[5000:], times[5000:]),
            ]
        )
    assert np.array_equal(actual, expected)


@every_partitioner
def test_scalar_and_batch_may_alternate(name):
    expected = whole(name)[:300]
    partitioner = create(name, NUM_PARTITIONS)
    actual: list[int] = []
    while len(actual) < 300:
        row = len(actual)
        if row % 3:
            actual.append(partitioner.partition(TEXT[row], int(STREAM.timestamps_ms[row])))
        else:
            rows = slice(row, row + 10)
            batch = partitioner.partition_batch(STREAM.keys[rows], STREAM.timestamps_ms[rows])
            actual.extend(batch.tolist())
    assert actual[:300] == expected.tolist()


@every_partitioner
@settings(deadline=None, max_examples=15)
@given(
    keys=st.lists(st.one_of(st.none(), st.text(max_size=20), st.binary(max_size=20)), max_size=60),
    cut=st.integers(0, 60),
    num_partitions=st.integers(1, 9),
)
def test_any_keys_cut_anywhere_scalar_or_batch(name, keys, cut, num_partitions):
    times = list(range(len(keys)))
    one = create(name, num_partitions)
    expected = [one.partition(key, time) for key, time in zip(keys, times, strict=True)]
    assert create(name, num_partitions).partition_batch(keys, times).tolist() == expected
    cut_in_two = create(name, num_partitions)
    actual = [
        *cut_in_two.partition_batch(keys[:cut], times[:cut]),
        *cut_in_two.partition_batch(keys[cut:], times[cut:]),
    ]
    assert actual == expected


@every_partitioner
def test_a_snapshot_goes_on_as_the_original(name):
    partitioner = create(name, NUM_PARTITIONS)
    half = len(TEXT) // 2
    keys, times = STREAM.keys, STREAM.timestamps_ms
    partitioner.partition_batch(keys[:half], times[:half])
    partitioner.partition(None)
    saved = pickle.loads(pickle.dumps(partitioner.snapshot()))
    expected = partitioner.partition_batch(keys[half:], times[half:])
    null_after = partitioner.partition(None)

    other = create(name, NUM_PARTITIONS)
    other.restore(saved)
    assert (other.partition_batch(keys[half:], times[half:]) == expected).all()
    assert other.partition(None) == null_after

    partitioner.restore(saved)  # back again, on itself and after a scalar call bound its arrays
    scalar = [
        partitioner.partition(key, int(time))
        for key, time in zip(TEXT[half : half + 500], times[half:], strict=False)
    ]
    assert scalar == expected[:500].tolist()


@every_partitioner
def test_a_snapshot_of_something_else_is_refused(name):
    partitioner = create(name, NUM_PARTITIONS)
    with pytest.raises(InputError, match="num_partitions"):
        partitioner.restore(create(name, NUM_PARTITIONS + 1).snapshot())
    other = "pkg" if name != "pkg" else "potc"
    with pytest.raises(InputError, match="name"):
        partitioner.restore(create(other, NUM_PARTITIONS).snapshot())


@every_partitioner
@pytest.mark.parametrize("broken", ["", None, {"null_cursor": "x"}, {"arrays": None}])
def test_a_broken_snapshot_is_refused(name, broken):
    partitioner = create(name, NUM_PARTITIONS)
    whole = partitioner.snapshot()
    with pytest.raises(InputError, match="give what snapshot"):
        partitioner.restore(whole | broken if broken else broken)
    for array in whole["arrays"]:
        arrays = whole["arrays"] | {array: np.array(["x"])}
        with pytest.raises(InputError, match="give what snapshot"):
            partitioner.restore(whole | {"arrays": arrays})


def test_a_snapshot_of_other_options_is_refused():
    with pytest.raises(InputError, match="the snapshot has options"):
        create("pkg", NUM_PARTITIONS, d=3).restore(create("pkg", NUM_PARTITIONS).snapshot())


@every_partitioner
@pytest.mark.parametrize(
    ("times", "weights", "sentence"),
    [
        ([1], None, "timestamps_ms must be 2 values"),
        (np.array([1, 2**63], np.uint64), None, "whole milliseconds in 64 bits"),
        (np.array(["2015-01-01", "NaT"], "datetime64[ms]"), None, "has gaps"),
        ([1, 2], [1], "weights must be 2 values"),
        ([1, 2], [1, -1], "weights must be finite and 0 or more"),
        ([1, 2], [np.nan, 1], "weights must be finite and 0 or more"),
        ([1, 2], [np.inf, 1], "weights must be finite and 0 or more"),
        ([1, 2], ["a", "b"], "weights are numbers"),
    ],
)
def test_times_and_weights_out_of_range_are_refused(name, times, weights, sentence):
    with pytest.raises(InputError, match=sentence):
        create(name, NUM_PARTITIONS).partition_batch(["a", "b"], times, weights)


READ_ONLY = np.zeros(3, np.int32)
READ_ONLY.setflags(write=False)
BAD_ARRAYS = [
    ({"out": np.empty(2, np.int32)}, "3 key_hashes, 3 timestamps_ms, 2 out; give one per record"),
    ({"out": np.empty(4, np.int32)}, "give one per record"),
    ({"weights": np.ones(2)}, "2 weights; give one per record"),
    ({"timestamps_ms": np.zeros(5, np.int64)}, "give one per record"),
    ({"key_hashes": [1, 2, 3]}, r"key_hashes must be .* of uint64, not a list"),
    ({"key_hashes": np.arange(3)}, r"of uint64, not int64\[3\]"),
    ({"key_hashes": np.zeros((3, 1), np.uint64)}, r"not uint64\[3, 1\]"),
    ({"timestamps_ms": [0, 0, 0]}, r"timestamps_ms must be .* of int64, not a list"),
    ({"timestamps_ms": np.zeros(3)}, r"of int64, not float64\[3\]"),
    ({"out": [0, 0, 0]}, r"out must be .* of int32, not a list"),
    ({"out": np.zeros(3, np.int64)}, r"of int32, not int64\[3\]"),
    ({"out": np.zeros((3, 2), np.int32)}, r"not int32\[3, 2\]"),
    ({"out": READ_ONLY}, "out is read-only; give an array"),
    ({"weights": [1, 1, 1]}, r"weights must be .* of float64, not a list"),
    ({"weights": np.ones(3, np.float32)}, r"of float64, not float32\[3\]"),
]
BAD_CHOICES = [
    ([[0, 1]] * 3, r"choices must be int32\[3, d\], a row per record, not a list"),
    (np.zeros((3, 2), np.int64), r"not int64\[3, 2\]"),
    (np.zeros(3, np.int32), r"not int32\[3\]"),
    (np.zeros((2, 2), np.int32), r"not int32\[2, 2\]"),
    (np.zeros((3, 0), np.int32), "at least one per record"),
    (np.full((3, 2), -1, np.int32), f"partitions from 0 to {NUM_PARTITIONS - 1}"),
    (np.full((3, 2), NUM_PARTITIONS, np.int32), f"partitions from 0 to {NUM_PARTITIONS - 1}"),
]


def good_arrays():
    return {
        "key_hashes": np.arange(3, dtype=np.uint64),
        "timestamps_ms": np.zeros(3, np.int64),
        "out": np.empty(3, np.int32),
        "weights": None,
    }


@every_partitioner
@pytest.mark.parametrize(("bad", "sentence"), BAD_ARRAYS)
def test_route_refuses_arrays_of_another_kind_or_length(name, bad, sentence):
    partitioner = create(name, NUM_PARTITIONS)
    with pytest.raises(InputError, match=sentence):
        partitioner.route(**(good_arrays() | bad))
    if hasattr(partitioner, "select"):
        with pytest.raises(InputError, match=sentence):
            partitioner.select(np.zeros((3, 2), np.int32), **(good_arrays() | bad))


@pytest.mark.parametrize(
    "name", sorted(n for n, kind in PARTITIONERS.items() if hasattr(kind, "select"))
)
@pytest.mark.parametrize(("choices", "sentence"), BAD_CHOICES)
def test_select_refuses_choices_of_another_kind_or_length(name, choices, sentence):
    with pytest.raises(InputError, match=sentence):
        create(name, NUM_PARTITIONS).select(choices, **good_arrays())


@every_partitioner
def test_arrays_with_gaps_between_their_values_route_alike(name):
    expected = routed(create(name, NUM_PARTITIONS), *(array.copy() for array in strided()))
    assert (routed(create(name, NUM_PARTITIONS), *strided()) == expected).all()


def strided():
    return STREAM.key_hashes[:1000:2], STREAM.timestamps_ms[:1000:2]


def test_one_time_that_is_none_is_refused():
    for time in ("x", 2**63):
        with pytest.raises(InputError, match="whole milliseconds in 64 bits"):
            create("cam", NUM_PARTITIONS).partition("a", time)


@pytest.mark.parametrize("name", [5, None])
def test_a_name_that_is_no_text_is_refused(name):
    with pytest.raises(InputError, match="no partitioner is called"):
        create(name, NUM_PARTITIONS)


@every_partitioner
def test_a_pickle_goes_on_as_the_original(name):
    partitioner = create(name, NUM_PARTITIONS)
    keys, times = STREAM.keys, STREAM.timestamps_ms
    partitioner.partition_batch(keys[:5000], times[:5000])
    copy = pickle.loads(pickle.dumps(partitioner))
    assert copy.config == partitioner.config
    expected = partitioner.partition_batch(keys[5000:], times[5000:])
    assert (copy.partition_batch(keys[5000:], times[5000:]) == expected).all()


@every_partitioner
def test_inputs_are_left_alone_and_may_be_read_only(name):
    partitioner = create(name, NUM_PARTITIONS)
    key_hashes, times = key_hashes_for(partitioner), STREAM.timestamps_ms.copy()
    weights = np.linspace(0, 2, len(times))
    before = key_hashes.copy(), times.copy(), weights.copy()
    expected = routed(partitioner, key_hashes, times, weights)
    for array, copy in zip((key_hashes, times, weights), before, strict=True):
        assert (array == copy).all()
        array.setflags(write=False)
    again = create(name, NUM_PARTITIONS)
    assert (routed(again, key_hashes, times, weights) == expected).all()


@every_partitioner
def test_null_keys_are_spread_evenly_and_change_nothing(name):
    partitioner = create(name, NUM_PARTITIONS)
    nulls = [partitioner.partition(None) for _ in range(3 * NUM_PARTITIONS)]
    nulls += partitioner.partition_batch([None] * NUM_PARTITIONS * 2).tolist()
    assert np.bincount(nulls, minlength=NUM_PARTITIONS).tolist() == [5] * NUM_PARTITIONS

    mixed = [key for text in TEXT[:2000] for key in (None, text)]
    times = np.repeat(STREAM.timestamps_ms[:2000], 2)
    partitions = create(name, NUM_PARTITIONS).partition_batch(mixed, times)
    assert (partitions[1::2] == whole(name)[:2000]).all()
    counts = np.bincount(partitions[::2], minlength=NUM_PARTITIONS)
    assert counts.max() - counts.min() <= 1


@every_choice_partitioner
def test_an_empty_key_has_candidates_like_any_other(name):
    partitioner = create(name, NUM_PARTITIONS)
    allowed = set(partitioner.candidates(hash_keys([""]))[0].tolist())
    assert {partitioner.partition(key, 0) for key in [b"", ""] * 25} <= allowed


@pytest.mark.parametrize(
    "name", sorted(n for n, kind in PARTITIONERS.items() if not kind.traits.splits_keys)
)
def test_an_empty_key_stays_whole_like_any_other(name):
    partitioner = create(name, NUM_PARTITIONS)
    assert len({partitioner.partition(key, 0) for key in [b"", ""] * 20}) == 1


@every_partitioner
def test_keys_stay_whole_or_on_their_candidates(name):
    partitioner = create(name, NUM_PARTITIONS)
    key_hashes = key_hashes_for(partitioner)
    # One window's worth of time: an algorithm with windows may move a key between them.
    times = np.zeros(len(key_hashes), np.int64)
    partitions = routed(partitioner, key_hashes, times)
    if not partitioner.traits.splits_keys:
        assert replication_factor(key_hashes, partitions) == 1.0
    elif isinstance(partitioner, ChoicePartitioner):
        allowed = partitioner.candidates(key_hashes)
        assert (allowed == partitions[:, None]).any(axis=1).all()


@every_choice_partitioner
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("tie", ["first", "last"])
@pytest.mark.parametrize("distinct", [True, False])
def test_route_is_candidates_then_select(name, weighted, tie, distinct):
    weights = np.random.default_rng(3).exponential(size=len(TEXT)) if weighted else None
    one, two = (create(name, NUM_PARTITIONS, tie=tie, distinct=distinct) for _ in range(2))
    times = STREAM.timestamps_ms
    expected = routed(one, STREAM.key_hashes, times, weights)
    actual = np.empty(len(TEXT), np.int32)
    choices = two.candidates(STREAM.key_hashes)
    two.select(choices, STREAM.key_hashes, times, actual, weights)
    assert (actual == expected).all()


OPTIONS = {
    "shuffle": [{}, {"start": 5}],
    "key_hash": [{}, {"hash_function": "crc32"}, {"hash_function": "murmur3", "seed": 4}],
    "pkg": [{}, {"tie": "last"}, {"d": 5, "distinct": False}, {"window_ms": 700}],
    "potc": [{}, {"tie": "last", "d": 3}, {"window_ms": 700}],
    "on_greedy": [{}, {"tie": "last"}, {"window_ms": 700}],
    "off_greedy": [{}, {"tie": "last"}],
    "d_choices": [
        {},
        {"tie": "last", "distinct": False},
        {"refresh_fraction": 0.0, "capacity": 30, "theta": 0.05},
        {"window_ms": 700, "epsilon": 0.01},
    ],
    "w_choices": [{}, {"tie": "last"}, {"capacity": 20}, {"window_ms": 700}],
}


def options_of(name):
    return OPTIONS.get(name, [{}])


@pytest.mark.parametrize(
    ("name", "options"),
    [(name, options) for name in sorted(TWINS) for options in options_of(name)],
    ids=str,
)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("exponent", [0.0, 1.0, 1.4])
def test_decisions_equal_the_naive_twin(name, options, weighted, exponent):
    stream = zipf(3000, 300, exponent, seed=11)
    random = np.random.default_rng(2)
    # Late records among the others: time steps back by up to 50.
    times = np.maximum(stream.timestamps_ms - random.integers(0, 50, 3000), 0)
    weights = random.integers(0, 9, 3000) / 4.0 if weighted else None
    for num_partitions in (1, 2, 13, 100):
        check_against_twin(name, options, num_partitions, stream, times, weights)


def check_against_twin(name, options, num_partitions, stream, times, weights):
    partitioner = create(name, num_partitions, **options)
    key_hashes = key_hashes_for(partitioner, stream.keys)
    choices = np.empty((len(key_hashes), 0), np.int32)
    if isinstance(partitioner, ChoicePartitioner):
        choices = partitioner.candidates(key_hashes)
    expected = TWINS[name](
        partitioner.config,
        num_partitions,
        choices.tolist(),
        key_hashes.tolist(),
        times.tolist(),
        None if weights is None else weights.tolist(),
    )
    if hasattr(partitioner, "fit"):
        partitioner.fit(key_hashes, weights)
    assert routed(partitioner, key_hashes, times, weights).tolist() == expected


@pytest.mark.parametrize("name", sorted(TWINS))
@settings(deadline=None, max_examples=40)
@given(
    ids=st.lists(st.integers(0, 12), min_size=1, max_size=150),
    num_partitions=st.integers(1, 5),
    data=st.data(),
)
def test_decisions_equal_the_naive_twin_on_any_stream(name, ids, num_partitions, data):
    options = data.draw(st.sampled_from(options_of(name)))
    steps = data.draw(st.lists(st.integers(0, 400), min_size=len(ids), max_size=len(ids)))
    stream = of_ids(np.array(ids))
    check_against_twin(name, options, num_partitions, stream, np.cumsum(steps), None)


def test_every_name_has_a_twin():
    untested = set(PARTITIONERS) - set(TWINS)
    # Each name without a twin here says where its own is.
    elsewhere = dict.fromkeys(("cm", "am", "cam", "lm"), "tests/naive_cardinality.py")
    elsewhere["dalton"] = "tests/naive_dalton.py"
    elsewhere |= dict.fromkeys(("key_groups", "prompt"), "tests/naive_batch.py")
    elsewhere |= dict.fromkeys(("dagreedy", "hot_fill"), "tests/naive_own.py")
    assert untested <= set(elsewhere)
    assert all((Path(__file__).parent.parent / file).exists() for file in elsewhere.values())


@every_partitioner
@pytest.mark.parametrize("num_partitions", [0, -1, MAX_PARTITIONS + 1, 1.5, True, "4", None])
def test_a_number_of_partitions_out_of_range_is_refused(name, num_partitions):
    with pytest.raises(InputError, match=f"from 1 to {MAX_PARTITIONS}"):
        create(name, num_partitions)


@every_partitioner
def test_an_unknown_option_is_refused_with_the_nearest(name):
    with pytest.raises(InputError, match=f'{name} has no option "no_such_option"'):
        create(name, 4, no_such_option=1)
    fields = dataclasses.fields(PARTITIONERS[name].config_type)
    for field in fields:
        with pytest.raises(InputError, match=f'did you mean "{field.name}"'):
            create(name, 4, **{field.name + "x": 1})


@every_partitioner
def test_every_option_is_checked_and_named(name):
    for field in dataclasses.fields(PARTITIONERS[name].config_type):
        for value in ("no such value", -1e99, float("nan"), [1]):
            with pytest.raises(InputError, match=field.name):
                create(name, 4, **{field.name: value})


@every_partitioner
def test_config_is_frozen_and_keyword_only(name):
    kind = PARTITIONERS[name].config_type
    config = kind()
    fields = dataclasses.fields(kind)
    assert all(field.kw_only for field in fields)
    if fields:
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(config, fields[0].name, 1)


@every_partitioner
def test_timestamps_and_weights_of_another_length_are_refused(name):
    partitioner = create(name, 4)
    with pytest.raises(InputError, match="timestamps_ms must be 2 values"):
        partitioner.partition_batch(["a", "b"], [1])
    with pytest.raises(InputError, match="weights must be 2 values"):
        partitioner.partition_batch(["a", "b"], [1, 2], weights=[1.0])
    with pytest.raises(InputError, match="whole milliseconds"):
        partitioner.partition_batch(["a", "b"], [1.5, 2.5])


@every_partitioner
def test_times_may_be_datetimes(name):
    times = STREAM.timestamps_ms[:500]
    dates = times.astype("datetime64[ms]").astype("datetime64[us]")
    expected = create(name, 4).partition_batch(TEXT[:500], times)
    assert (create(name, 4).partition_batch(TEXT[:500], dates) == expected).all()


@every_partitioner
def test_without_timestamps_the_wall_clock_serves(name):
    partitions = create(name, 4).partition_batch(TEXT[:500])
    assert len(partitions) == 500
    assert create(name, 4).partition(TEXT[0]) in range(4)


@every_partitioner
def test_state_is_counted(name):
    partitioner = create(name, 4)
    assert partitioner.state_bytes == sum(
        array.nbytes for array in partitioner.snapshot()["arrays"].values()
    )


# Named by paper and algorithm: the text from which sections would be cited is not at hand.
WITHOUT_SECTION = ("d_choices", "w_choices")


@every_partitioner
def test_the_docstring_names_paper_and_section_and_when_not_to_use_it(name):
    kind = PARTITIONERS[name]
    module = importlib.import_module(kind.__module__)
    text = inspect.getdoc(module) or ""
    assert re.search(r"^Papers?: .*\d{4}", text, re.MULTILINE | re.DOTALL)
    place = "algorithm" if name in WITHOUT_SECTION else "[Ss]ection"
    assert re.search(place, text)
    assert "emory" in text
    assert "Not for you" in text
    assert "Departures" in text
    assert "Example:" in (inspect.getdoc(kind) or "")
    assert kind.name == name


def test_names_are_listed_with_the_nearest():
    with pytest.raises(InputError, match='did you mean "pkg"'):
        create("pgk", 4)
