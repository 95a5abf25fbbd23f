"""Hashing: golden vectors of other clients, one function for scalar and batch, candidates."""

from __future__ import annotations

import os
import subprocess
import sys
import zlib

import mmh3
import naive
import numpy as np
import polars
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partitioners import create, hashing
from partitioners.errors import InputError

KEYS = [
    b"",
    b"\x00",
    b"\x00\x00\x00\x00",
    b"a",
    b"100:48069",
    "Schlüssel-ß-€-𝄞".encode(),
    b"\xff\xfe\xfd",
    b"x" * 100_000,
    *(bytes(range(size)) for size in range(1, 40)),
]


@pytest.mark.parametrize(
    ("key", "num_partitions", "java", "librdkafka"),
    [
        # Reported by users whose clients disagreed; the first three trap a wrong integer width,
        # abs() and an unsigned hash.
        ("100:48069", 12, 9, 6),
        ("fd7af248-ce5c-46a5-93d7-1c0c9005b99d", 32, 26, 23),
        ('Struct{documentKey={"_id": "638d1b94ce8def06be68b439"}}', 50, 40, 36),
        ("354afe16-939a-4ea8-8e17-8bb0840b6886", 10, 4, 9),
    ],
)
def test_key_hash_equals_other_clients(key, num_partitions, java, librdkafka):
    for function, expected in (("murmur2", java), ("crc32", librdkafka)):
        partitioner = create("key_hash", num_partitions, hash_function=function)
        assert partitioner.partition(key) == expected
        assert partitioner.partition(key.encode()) == expected
        assert partitioner.partition_batch([key, key.encode()]).tolist() == [expected] * 2


def test_murmur2_is_the_default_of_key_hash():
    assert create("key_hash", 12).partition("100:48069") == 9


def test_murmur2_of_kafkas_own_vectors():
    # From UtilsTest.testMurmur2 of Apache Kafka, signed.
    vectors = {
        b"21": -973932308,
        b"foobar": -790332482,
        b"a-little-bit-long-string": -985981536,
        b"a-little-bit-longer-string": -1486304829,
        b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
        b"abc": 479470107,
    }
    for key, signed in vectors.items():
        assert hashing.murmur2(key) == signed & 0xFFFFFFFF


def test_empty_key_is_a_key():
    assert hashing.murmur2(b"") == 275646681
    for function, value in (("murmur2", 275646681), ("crc32", 0)):
        partitioner = create("key_hash", 7, hash_function=function)
        assert {partitioner.partition(b"") for _ in range(9)} == {value % 7}
        assert partitioner.partition_batch([b"", ""]).tolist() == [value % 7] * 2


@settings(deadline=None)  # the first example may compile
@given(st.binary(max_size=70), st.integers(1, 1000))
def test_murmur2_equals_java_also_with_the_top_bit_set(key, num_partitions):
    signed = naive.murmur2_java(key)
    assert hashing.murmur2(key) == signed & 0xFFFFFFFF
    java = (signed & 0x7FFFFFFF) % num_partitions
    assert create("key_hash", num_partitions).partition(key) == java
    batch = hashing.hash_keys([key], function="murmur2")
    assert int(batch[0]) == signed & 0xFFFFFFFF


@pytest.mark.parametrize("seed", [0, 13, 17, 313, 2**32 - 1])
def test_murmur3_is_the_first_half_of_x64_128(seed):
    # Guava's murmur3_128(seed).asLong() is the same eight bytes, little-endian.
    expected = [mmh3.hash64(key, seed, signed=False)[0] for key in KEYS]
    digest = [int.from_bytes(mmh3.mmh3_x64_128_digest(key, seed)[:8], "little") for key in KEYS]
    assert hashing.hash_keys(KEYS, seed).tolist() == expected == digest
    assert [hashing.hash_key(key, seed) for key in KEYS] == expected


@settings(deadline=None)  # the first example may compile
@given(st.lists(st.binary(max_size=50), max_size=30), st.integers(0, 30))
def test_batch_hashes_equal_the_reference_at_any_offset(keys, start):
    for kind in (pa.binary(), pa.large_binary()):
        rows = pa.array(keys, kind)[start:]
        expected = keys[start:]
        murmur3 = [mmh3.hash64(key, signed=False)[0] for key in expected]
        assert hashing.hash_keys(rows).tolist() == murmur3
        assert hashing.hash_keys(rows, function="crc32").tolist() == [
            zlib.crc32(key) for key in expected
        ]
        assert hashing.hash_keys(rows, function="murmur2").tolist() == [
            naive.murmur2_java(key) & 0xFFFFFFFF for key in expected
        ]


def test_a_buffer_that_ends_with_the_last_key_is_not_read_beyond():
    # Arrow pads what it allocates; a buffer of exactly the keys' bytes has nothing to spare.
    data = b"abcdefghijklmnopqrstuvw"
    offsets = np.array([0, 3, 3, 11, 23], np.int32)
    exact = pa.StringArray.from_buffers(4, pa.py_buffer(offsets.tobytes()), pa.py_buffer(data))
    expected = [mmh3.hash64(key.as_py(), signed=False)[0] for key in exact]
    assert hashing.hash_keys(exact).tolist() == expected


TEXT = ["a", "", None, "ä€", "a", "longer than sixteen bytes, and than thirty-two", None]


@pytest.mark.parametrize("function", hashing.HASH_FUNCTIONS)
@pytest.mark.parametrize(
    "keys",
    [
        pa.array(TEXT),
        pa.array(TEXT, pa.large_string()),
        pa.array(TEXT, pa.string_view()),
        pa.array(TEXT, pa.binary_view()),
        pa.array(TEXT).cast(pa.binary()),
        pa.array(TEXT).dictionary_encode(),
        pa.array(TEXT).dictionary_encode(null_encoding="encode"),
        pa.array(["x", *TEXT, "y"])[1:-1],
        pa.array(["x", *TEXT, "y"]).dictionary_encode()[1:-1],
        pa.array(TEXT, pa.string_view()).dictionary_encode(),
        pa.chunked_array([TEXT[:2], [], TEXT[2:]], pa.string()),
        pa.chunked_array(
            [pa.array(TEXT[:3]).dictionary_encode(), pa.array(TEXT[3:]).dictionary_encode()]
        ),
        TEXT,
        [None if key is None else key.encode() for key in TEXT],
        tuple(TEXT),
        np.array(TEXT, object),
    ],
    ids=str,
)
def test_every_kind_of_array_has_the_same_hashes(keys, function):
    hashed = hashing.hash_keys_with_nulls(keys, function=function)
    expected = [0 if key is None else hashing.hash_key(key, function=function) for key in TEXT]
    assert hashed.hashes.tolist() == expected
    assert hashed.is_null is not None
    assert hashed.is_null.tolist() == [key is None for key in TEXT]


def test_fixed_size_binary_null_type_and_nothing():
    fixed = pa.array([b"abcd", b"efgh"], pa.binary(4))
    assert hashing.hash_keys(fixed).tolist() == hashing.hash_keys([b"abcd", b"efgh"]).tolist()
    nulls = hashing.hash_keys_with_nulls(pa.nulls(3))
    assert nulls.is_null is not None
    assert nulls.is_null.all()
    for nothing in ([], pa.array([], pa.string()), pa.chunked_array([], pa.string())):
        assert len(hashing.hash_keys(nothing)) == 0
    dictionary_of_nulls = pa.DictionaryArray.from_arrays(
        pa.array([None, None], pa.int32()), pa.array([], pa.string())
    )
    assert hashing.hash_keys(dictionary_of_nulls).tolist() == [0, 0]


def test_polars_columns_are_read_through_arrow():
    expected = hashing.hash_keys(TEXT).tolist()
    assert hashing.hash_keys(polars.Series("key", TEXT)).tolist() == expected


@pytest.mark.parametrize("keys", ["abc", b"abc", [1, 2], [1.5], pa.array([1, 2]), ["\ud800"], 7])
def test_what_is_no_sequence_of_keys_is_refused(keys):
    with pytest.raises(InputError):
        hashing.hash_keys(keys)


@pytest.mark.parametrize("key", [1, 1.5, ["a"], "\ud800"])
def test_what_is_no_key_is_refused(key):
    for function in hashing.HASH_FUNCTIONS:
        with pytest.raises(InputError):
            create("key_hash", 4, hash_function=function).partition(key)


@settings(deadline=None)  # the first example may compile
@given(
    st.integers(0, 2**64 - 1),
    st.integers(1, 40),
    st.integers(1, 40),
    st.integers(-(2**63), 2**64 - 1),
    st.booleans(),
)
def test_candidates_equal_the_plain_loop(key_hash, d, n, seed, distinct):
    d = min(d, n) if distinct else d
    keys = np.array([key_hash], np.uint64)
    rows = hashing.candidates(keys, d, n, seed, distinct=distinct)
    assert rows[0].tolist() == naive.candidates(key_hash, d, n, seed, distinct)
    if distinct:
        assert len(set(rows[0].tolist())) == d
    assert rows.min() >= 0
    assert rows.max() < n


def test_candidates_are_even_and_independent_of_each_other():
    keys = hashing.hash_keys([f"user-{number}" for number in range(100_000)])
    rows = hashing.candidates(keys, 3, 16, 5)
    for column in range(3):
        counts = np.bincount(rows[:, column], minlength=16)
        assert abs(counts - 6250).max() < 6 * np.sqrt(6250)
    pairs = np.bincount(rows[:, 0] * 16 + rows[:, 1], minlength=256).reshape(16, 16)
    assert np.diag(pairs).sum() == 0
    off_diagonal = pairs[~np.eye(16, dtype=bool)]
    assert abs(off_diagonal - 100_000 / 240).max() < 6 * np.sqrt(100_000 / 240)


def test_a_seed_moves_the_candidates_and_small_key_hashes_do_not_line_up():
    keys = np.arange(50_000, dtype=np.uint64)
    one, other = hashing.candidates(keys, 1, 8, 1), hashing.candidates(keys, 1, 8, 2)
    assert 0.8 < (one != other).mean() < 0.95
    assert abs(np.bincount(one[:, 0], minlength=8) - 6250).max() < 6 * np.sqrt(6250)


PROGRAM = """
import sys
from partitioners import PARTITIONERS, create
for name in sys.argv[1:]:
    partitioner = create(name, 7)
    keys = [f"key-{i % 40}" for i in range(200)]
    print(name, partitioner.partition_batch(keys, range(200)).tolist())
"""


def test_two_processes_agree_whatever_their_hash_salt():
    """Python's own hash() would move keys at each restart."""
    running = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM, "key_hash", "pkg", "potc", "d_choices"],
            env={**os.environ, "PYTHONHASHSEED": salt},
            stdout=subprocess.PIPE,
            text=True,
        )
        for salt in ("1", "2")
    ]
    one, other = (process.communicate()[0] for process in running)
    assert one == other
    assert one.count("[") == 4
