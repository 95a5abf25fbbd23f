import json

import pytest
from streams import Row, arrow_batches

from partitioners.errors import RunError
from pipelines.blobs import from_blob, split_blobs
from pipelines.combine import Combiner
from pipelines.panes import Windows
from pipelines.partials import ON_TIME
from pipelines.plan import WindowPlan
from pipelines.punctuation import encode_watermark
from pipelines.workloads import KeyedSum, WordCount

WINDOWS = WindowPlan((Windows(30, 10),))


def record(timestamp: int, key: bytes | None, x: int = 1) -> Row:
    return key, b"%d,%s,%d" % (timestamp, key or b"", x)


def combine(
    rows: list[Row], *, shards: int = 1, lag_ms: int | None = None, arrow_rows: int = 1000
) -> tuple[list[tuple[int, int, bytes | None, int, int]], dict[str, int]]:
    """Rows (pane, watermark met, key, count, sum) over all shards, and the progress."""
    combiner = Combiner(KeyedSum(), WINDOWS, shards, lag_ms)
    found: list[tuple[int, int, bytes | None, int, int]] = []
    progress = {}
    for row in combiner.run(arrow_batches(rows, 3, arrow_rows)):
        progress = json.loads(row.progress)
        if row.partials:
            for each in from_blob(split_blobs(row.partials)[0]).to_pylist():
                *place, high, low = each.values()
                found.append((*place, (high << 32) + low))
    return sorted(found, key=lambda each: (each[:2], each[2] is not None, each[2] or b"")), progress


@pytest.mark.parametrize("arrow_rows", [1, 2, 1000])
@pytest.mark.parametrize("shards", [1, 4])
def test_records_are_grouped_by_pane_and_key(arrow_rows: int, shards: int) -> None:
    rows = [record(1, b"a", 5), record(9, b"a", -2), record(10, b"a"), record(3, b"b")]
    rows.append(record(-1, b"a"))
    found, progress = combine(rows, shards=shards, arrow_rows=arrow_rows)
    assert found == [
        (-1, ON_TIME, b"a", 1, 1),
        (0, ON_TIME, b"a", 2, 3),
        (0, ON_TIME, b"b", 1, 1),
        (1, ON_TIME, b"a", 1, 1),
    ]
    assert progress["records"] == 5
    assert progress["partition"] == 3


def test_null_and_empty_keys_are_different_keys() -> None:
    found, _ = combine([record(1, None), record(1, b""), record(1, None)])
    assert found == [(0, ON_TIME, None, 2, 2), (0, ON_TIME, b"", 1, 1)]


@pytest.mark.parametrize("arrow_rows", [1, 1000])
def test_a_late_record_counts_in_the_windows_it_has_not_missed(arrow_rows: int) -> None:
    rows: list[Row] = [
        record(5, b"a"),  # windows -2 [-20, 10), -1 [-10, 20), 0 [0, 30)
        (None, encode_watermark(20)),
        record(6, b"a"),  # has missed -2 and -1
        record(6, b"a"),
        (None, encode_watermark(30)),
        record(7, b"a"),  # has missed all
    ]
    found, progress = combine(rows, arrow_rows=arrow_rows)
    assert found == [(0, ON_TIME, b"a", 1, 1), (0, 2, b"a", 2, 2), (0, 3, b"a", 1, 1)]
    assert progress["watermark_ms"] == 30
    assert progress["records"] == 4


@pytest.mark.parametrize("arrow_rows", [1, 1000])
def test_the_watermark_of_records_is_the_largest_event_time_less_the_lateness(
    arrow_rows: int,
) -> None:
    rows = [record(5, b"a"), record(24, b"a"), record(6, b"a"), record(100, b"a")]
    found, progress = combine(rows, lag_ms=4, arrow_rows=arrow_rows)
    assert (0, 2, b"a", 1, 1) in found
    assert progress["watermark_ms"] == 96


def test_a_watermark_never_falls() -> None:
    rows: list[Row] = [(None, encode_watermark(50)), (None, encode_watermark(20)), record(19, b"a")]
    found, progress = combine(rows)
    assert progress["watermark_ms"] == 50
    assert found == [(1, 5, b"a", 1, 1)]


def test_values_of_no_record_are_counted_as_dead() -> None:
    rows: list[Row] = [
        record(1, b"a"),
        (b"a", None),
        (b"a", b""),
        (b"a", b"1,a"),
        (b"a", b"x,a,1"),
        (b"a", b"1,a,"),
        (b"a", b"1,a,1234567890123456789"),
        (None, b"\x00keyspread-watermark\x00short"),
    ]
    found, progress = combine(rows)
    assert found == [(0, ON_TIME, b"a", 1, 1)]
    assert (progress["records"], progress["dead"]) == (1, 7)


def test_keys_that_are_no_text_are_dead_where_the_key_is_text() -> None:
    value = b"\x01" + b"\0" * 7
    rows: list[Row] = [(b"a", value), (b"\xff", value), (None, value), (b"\xff", b"short")]
    (row,) = Combiner(WordCount(), WINDOWS, 1).run(arrow_batches(rows, 0, 10))
    progress = json.loads(row.progress)
    assert (progress["records"], progress["dead"]) == (2, 2)


def test_rows_of_two_topic_partitions_in_one_task_are_refused() -> None:
    batches = [
        *arrow_batches([record(1, b"a")], 0, 10),
        *arrow_batches([record(1, b"a")], 1, 10),
    ]
    with pytest.raises(RunError, match="topic partitions 0 and 1"):
        list(Combiner(KeyedSum(), WINDOWS, 1).run(batches))


def test_a_task_without_rows_says_nothing() -> None:
    assert list(Combiner(KeyedSum(), WINDOWS, 2).run([])) == []


def test_a_task_with_watermarks_alone_tells_every_shard() -> None:
    rows = list(
        Combiner(KeyedSum(), WINDOWS, 3).run(arrow_batches([(None, encode_watermark(7))], 0, 10))
    )
    assert [row.shard for row in rows] == [0, 1, 2]
    assert all(not row.partials for row in rows)
    assert json.loads(rows[0].progress)["watermark_ms"] == 7
