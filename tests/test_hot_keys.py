"""Hot keys are found, counted and named; what a report says of them."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pyarrow as pa
import pytest

from partitioners import create
from partitioners.hashing import hash_keys
from partitioners.streams import Stream, one_hot, uniform, zipf
from pipelines.benchmark.cell import Cell
from pipelines.benchmark.hot_keys import (
    KEPT,
    CountedKey,
    KeyCounts,
    cannot_be_hashed,
    key_names,
    name_hot_keys,
)
from pipelines.benchmark.report import redacted, run_summary
from pipelines.consoles import stdout_console
from pipelines.key_names import redact_key, show_key
from pipelines.workloads import KeyedSum, WordCount, create_workload

CHUNK = 10_000


def counted(stream: Stream, partitions: np.ndarray) -> KeyCounts:
    counts = KeyCounts()
    keys = stream.keys.cast(pa.binary())
    for low in range(0, len(keys), CHUNK):
        part = slice(low, low + CHUNK)
        counts.add(keys[part], stream.key_hashes[part], partitions[part])
    return counts


@pytest.mark.parametrize(
    "stream",
    [zipf(100_000), zipf(300_000, 200_000, 1.1), one_hot(100_000, 50_000, 0.1), uniform(20_000, 9)],
    ids=["few", "more keys than are kept", "one hot", "nine keys"],
)
def test_the_hottest_are_those_with_most_records(stream: Stream) -> None:
    partitions = create("shuffle", 8).partition_batch(stream.keys)
    found = counted(stream, partitions).hottest(3)
    numbered = enumerate(np.bincount(stream.ids).tolist())
    hot = [(-n, f"key-{key}".encode(), key) for key, n in numbered if n > len(stream.ids) / 500]
    expected = [
        CountedKey(name, -n, len(np.unique(partitions[stream.ids == key])))
        for n, name, key in sorted(hot)[:3]
    ]
    assert expected
    assert found[: len(expected)] == expected


def test_no_more_keys_are_kept_than_said() -> None:
    stream = uniform(400_000, 10**6)
    counts = counted(stream, np.zeros(len(stream.ids), np.int32))
    counts.hottest(1)
    assert sum(map(len, counts._waiting)) <= KEPT
    assert len(counts._names) <= KEPT


def test_a_stream_without_keys_has_no_hot_ones() -> None:
    counts = KeyCounts()
    assert counts.hottest() == []
    nothing = np.empty(0, np.int32)
    counts.add(pa.array([], pa.binary()), np.empty(0, np.uint64), nothing)
    assert counts.hottest() == []


ODD_KEYS = [b"a", b"\xff\xfe", b"new\nline", "Füße".encode(), b"", b"x" * 100_000]
SHOWN = ["a", "b'\\xff\\xfe'", "new\\nline", "Füße", "(empty)", "x" * 60 + "…"]


def test_keys_are_named_by_the_workload_and_safe_to_show() -> None:
    assert key_names(KeyedSum(), ODD_KEYS) == SHOWN
    # A word is text; bytes that are none are shown all the same.
    assert key_names(WordCount(), [b"\xff"]) == ["b'\\xff'"]
    counts = KeyCounts()
    keys = pa.array(ODD_KEYS * 3, pa.binary())
    counts.add(keys, hash_keys(keys), np.zeros(len(keys), np.int32))
    named = name_hot_keys(KeyedSum(), counts.hottest(10), 36)
    assert sorted(each["key"] for each in named) == sorted(SHOWN)
    assert {each["share"] for each in named} == {round(3 / 36, 6)}
    assert json.loads(json.dumps(named)) == named


def test_a_route_is_named_as_in_the_results() -> None:
    workload = create_workload("debs-q1")
    line = (
        "07290D3599E7A0D62097A346EFCC1FB5,E7750A37CAB07D0DFF0AF7E3573AC141,2013-01-01 00:00:00,"
        "2013-01-01 00:02:00,120,0.44,-73.956528,40.716976,-73.962440,40.715008,CSH,3.50,0.50,0.50,"
        "0.00,0.00,4.50"
    )
    from pipelines.text_input import LineChunk

    table = workload.parser().parse(LineChunk("in.csv", 1, [line])).table
    assert key_names(workload, table["key"].to_pylist()) == ["161.170-160.170"]


def test_hashing_is_blamed_only_where_a_key_exceeds_an_even_share() -> None:
    hot = [{"key": "the", "share": 0.126}]
    assert cannot_be_hashed(hot, 8) == (
        "hashing cannot fix it: key the alone is 12.6 % of the stream, more than 1/8"
    )
    assert cannot_be_hashed(hot, 7) is None
    assert cannot_be_hashed(hot, 1) is None
    assert cannot_be_hashed([], 8) is None


@pytest.fixture
def cell() -> Cell:
    plain: dict[str, object] = {
        field.name: {"int": 1, "float": 1.0, "str": "x", "bool": True}.get(str(field.type), [])
        for field in dataclasses.fields(Cell)
        if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    }
    plain |= {
        "workload": "wordcount",
        "partitioner": "pkg",
        "partitions": 4,
        "config": {"workload_options": {}},
        "latency_ms": {"p50": 1.0},
        "publish_delay_ms": {},
        "last_window": {
            "window_start": "a",
            "window_end": "b",
            "rows": [{"word": "the", "count": 3}],
        },
        "differences": ["word the: 3, not 4"],
        "hot_keys": [
            {"key": "the", "share": 0.4, "num_partitions": 2},
            {"key": "and", "share": 0.1, "num_partitions": 1},
        ],
    }
    return Cell(**plain)  # type: ignore[arg-type]


def printed(cell: Cell, capsys: pytest.CaptureFixture[str]) -> str:
    stdout_console().print(run_summary(cell))
    return capsys.readouterr().out


def test_a_report_names_the_hot_keys(cell: Cell, capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(cell, capsys)
    assert "the 40.0 % on 2 partitions, and 10.0 %" in text
    assert "key the alone is 40.0 % of the stream, more than 1/4; pkg puts it on 2 of them" in text


def test_a_redacted_report_names_none(cell: Cell, capsys: pytest.CaptureFixture[str]) -> None:
    hidden = redacted(cell)
    text = printed(hidden, capsys) + hidden.to_json()
    assert "the 40" not in text
    assert '"the"' not in text
    assert "word the" not in text
    assert f"{redact_key('the')} 40.0 %" in text
    assert hidden.last_window["rows"] == [{"word": redact_key("the"), "count": 3}]
    assert cell.last_window["rows"] == [{"word": "the", "count": 3}]


def test_a_shown_key_cannot_move_the_cursor() -> None:
    assert show_key("\x1b[31mred\u202e") == "\\x1b[31mred\\u202e"
    assert show_key(7) == "7"
