"""Combiner, reducers and writers together, on dicts instead of Spark and Kafka."""

import copy
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from naive_windows import Values, changed_only, naive_sums, top_only
from streams import Engine, Row, deal, out_of_order

from partitioners.errors import RunError
from pipelines.panes import Windows
from pipelines.punctuation import END_MS, encode_watermark
from pipelines.workloads import KeyedSum

KEYS: list[bytes | None] = [b"a", b"", None, b"\xff\xfe", b"nul\x00", b"k" * 1_000, b"b", b"c"]


def keyed(timestamps: list[int], seed: int = 0) -> list[Row]:
    random = np.random.default_rng(seed)
    keys = random.zipf(1.4, len(timestamps)).tolist()
    xs = random.integers(-5, 6, len(timestamps)).tolist()
    return [
        (KEYS[(key - 1) % len(KEYS)], b"%d,-,%d" % (timestamp, x))
        for timestamp, key, x in zip(timestamps, keys, xs, strict=True)
    ]


def values_of(engine: Engine) -> Values:
    rows = engine.results()
    values = {
        (int(row["window_start"].timestamp() * 1000), row["key"]): (row["count"], row["sum"])
        for row in rows
    }
    assert len(values) == len(rows)
    size = engine.windows.size_ms
    assert all((r["window_end"] - r["window_start"]).total_seconds() * 1000 == size for r in rows)
    return values


@pytest.mark.parametrize("num_partitions", [1, 3, 8])
@pytest.mark.parametrize("num_shards", [1, 2, 5])
@pytest.mark.parametrize("batch_rows", [37, 777, 10**6])
def test_results_do_not_depend_on_batches_partitions_or_shards(
    tmp_path: Path, num_partitions: int, num_shards: int, batch_rows: int
) -> None:
    times = out_of_order(3000, 60_000, 3_000)
    partitions = deal(keyed(times), times, num_partitions, slide_ms=1000, lateness_ms=1500)
    naive = naive_sums(partitions, 6000, 1000)
    engine = Engine(KeyedSum(), Windows(6000, 1000), tmp_path, num_partitions, num_shards)
    summary = engine.run(partitions, batch_rows)
    assert values_of(engine) == naive.values
    assert naive.late > 0
    assert (summary.late, summary.on_time) == (naive.late, len(times) - naive.late)
    assert summary.ended(num_partitions)
    assert summary.windows == len(summary.emitted_ms) == len({start for start, _ in naive.values})
    assert sum(summary.records_per_partition.values()) == len(times)


def test_late_records_do_not_depend_on_the_partitioning_either(tmp_path: Path) -> None:
    times = out_of_order(2000, 60_000, 5_000)
    found = []
    for num_partitions in (1, 3, 8):
        engine = Engine(
            KeyedSum(), Windows(4000, 2000), tmp_path / str(num_partitions), num_partitions
        )
        engine.run(deal(keyed(times), times, num_partitions, slide_ms=2000), 100)
        found.append((values_of(engine), engine.summary.late))
    assert found[0] == found[1] == found[2]
    assert found[0][1] > 0


@settings(max_examples=25, deadline=None)
@given(
    size_ms=st.integers(1, 40),
    slide_ms=st.integers(1, 40),
    jitter_ms=st.integers(0, 60),
    every=st.integers(1, 30),
    batch_rows=st.integers(1, 60),
    num_partitions=st.integers(1, 4),
    emit=st.sampled_from(["all", "changed"]),
    seed=st.integers(0, 10**6),
)
def test_any_windows_any_disorder(
    tmp_path_factory: pytest.TempPathFactory,
    size_ms: int,
    slide_ms: int,
    jitter_ms: int,
    every: int,
    batch_rows: int,
    num_partitions: int,
    emit: str,
    seed: int,
) -> None:
    size_ms, slide_ms = max(size_ms, slide_ms), min(size_ms, slide_ms)
    times = out_of_order(120, 300, jitter_ms, seed)
    partitions = deal(keyed(times, seed), times, num_partitions, slide_ms=slide_ms, every=every)
    naive = naive_sums(partitions, size_ms, slide_ms)
    expected = naive.values if emit == "all" else changed_only(naive.values, slide_ms)
    engine = Engine(
        KeyedSum(),
        Windows(size_ms, slide_ms),
        tmp_path_factory.mktemp("any"),
        num_partitions,
        num_shards=2,
        emit=emit,
    )
    summary = engine.run(partitions, batch_rows)
    assert values_of(engine) == expected
    assert summary.late == naive.late
    assert all(len(store.values) == 2 for store in engine.stores), "state left behind"


@pytest.mark.parametrize("seed", range(4))
def test_partitions_may_be_read_unevenly(tmp_path: Path, seed: int) -> None:
    times = out_of_order(1500, 60_000, 3_000, seed)
    partitions = deal(keyed(times), times, 8, slide_ms=1000, lateness_ms=1500, seed=seed)
    naive = naive_sums(partitions, 6000, 1000)
    engine = Engine(KeyedSum(), Windows(6000, 1000), tmp_path, 8, 5)
    random = np.random.default_rng(seed)
    at = [0] * 8
    while any(low < len(rows) for low, rows in zip(at, partitions, strict=True)):
        steps = (random.integers(0, 120, 8) * random.integers(0, 2, 8)).tolist()
        engine.batch(
            [rows[low : low + n] for low, n, rows in zip(at, steps, partitions, strict=True)]
        )
        at = [low + n for low, n in zip(at, steps, strict=True)]
    assert engine.summary.late == naive.late > 0
    assert values_of(engine) == naive.values


@pytest.mark.parametrize("batch_rows", [100, 10**6])
def test_top_of_every_window(tmp_path: Path, batch_rows: int) -> None:
    times = out_of_order(2000, 60_000, 0)
    partitions = deal(keyed(times), times, 3, slide_ms=1000)
    engine = Engine(KeyedSum(), Windows(6000, 1000), tmp_path, 3, 2, emit="top", k=3)
    engine.run(partitions, batch_rows)
    found = [
        (int(row["window_start"].timestamp() * 1000), row["rank"], row["key"], row["count"])
        for row in engine.results()
    ]
    expected = top_only(naive_sums(partitions, 6000, 1000).values, 3)
    assert found == expected
    last = engine.summary.last_top
    assert [(row["key"], row["count"]) for row in last] == [
        (r[2], r[3]) for r in expected[-len(last) :]
    ]


def test_a_partition_20_minutes_behind_loses_nothing(tmp_path: Path) -> None:
    minute = 60_000
    times = list(range(0, 60 * minute, 10_000))
    ahead = [*keyed(times), (None, encode_watermark(END_MS))]
    behind: list[Row] = []
    for timestamp, row in zip(times, keyed(times, seed=1), strict=True):
        behind += [row, (None, encode_watermark(timestamp // minute * minute))]
    behind.append((None, encode_watermark(END_MS)))
    naive = naive_sums([ahead, behind], 10 * minute, minute)
    engine = Engine(KeyedSum(), Windows(10 * minute, minute), tmp_path, 2)
    shift = 20 * minute // 10_000
    for low in range(0, 2 * len(times) + shift, 10):
        engine.batch(
            [
                ahead[low : low + 10],
                behind[max(0, 2 * (low - shift)) : 2 * (low - shift + 10)]
                if low >= shift - 10
                else [],
            ]
        )
    assert values_of(engine) == naive.values
    assert engine.summary.late == 0
    assert engine.summary.ended(2)


def test_a_partition_without_records_holds_nothing_back(tmp_path: Path) -> None:
    rows = [*keyed([0, 1000, 2000]), (None, encode_watermark(2000))]
    engine = Engine(KeyedSum(), Windows(1000, 1000), tmp_path, 2)
    engine.batch([rows, []])
    assert engine.summary.windows == 0, "partition 1 has promised nothing yet"
    engine.batch([[], [(None, encode_watermark(END_MS))]])
    assert engine.summary.windows == 2
    assert not engine.summary.ended(2)


def test_progress_by_records_closes_windows_without_watermark_records(tmp_path: Path) -> None:
    times = out_of_order(2000, 60_000, 900)
    partitions = [keyed(times)[i::3] for i in range(3)]
    engine = Engine(
        KeyedSum(), Windows(6000, 1000), tmp_path, 3, 2, progress="records", lateness_ms=1000
    )
    summary = engine.run(partitions, 100)
    naive = naive_sums(partitions, 6000, 1000, watermark_lag_ms=1000)
    found = values_of(engine)
    assert summary.late == naive.late == 0
    assert len(found) > 100
    assert found == {place: naive.values[place] for place in found}
    last = max(start for start, _ in found)
    assert {place for place in naive.values if place[0] <= last} == set(found)


def test_hours_without_data_are_skipped(tmp_path: Path) -> None:
    year = 365 * 24 * 3_600_000
    times = [-year, -year + 1, 0, 5, year]
    rows = [*keyed(times), (None, encode_watermark(END_MS))]
    engine = Engine(KeyedSum(), Windows(3, 1), tmp_path)
    engine.run([rows], 2)
    assert values_of(engine) == naive_sums([rows], 3, 1).values


def test_a_batch_done_again_changes_nothing(tmp_path: Path) -> None:
    times = out_of_order(1000, 30_000, 1_000)
    (rows,) = deal(keyed(times), times, 1, slide_ms=1000)
    engine = Engine(KeyedSum(), Windows(6000, 1000), tmp_path)
    for low in range(0, len(rows), 100):
        before = copy.deepcopy([store.values for store in engine.stores])
        engine.batch([rows[low : low + 100]])
        written = {file.name: file.read_bytes() for file in tmp_path.glob("*.parquet")}
        for store, values in zip(engine.stores, before, strict=True):
            store.values = values
        engine.batch_id -= 1
        engine.batch([rows[low : low + 100]])
        assert {f.name: f.read_bytes() for f in tmp_path.glob("*.parquet")} == written
    assert values_of(engine) == naive_sums([rows], 6000, 1000).values


@pytest.mark.parametrize(("size_ms", "ratio"), [(60_000, 6), (60_000, 60), (2_700_000, 2700)])
def test_state_calls_follow_rows_not_keys_or_panes(
    tmp_path: Path, size_ms: int, ratio: int
) -> None:
    times = list(range(0, 3 * size_ms, size_ms // 3000))
    rows: list[Row] = [(b"k%d" % (i % 1000), b"%d,-,1" % t) for i, t in enumerate(times)]
    engine = Engine(KeyedSum(), Windows(size_ms, size_ms // ratio), tmp_path)
    batches = 30
    step = len(rows) // batches
    calls = []
    for low in range(0, len(rows), step):
        part = rows[low : low + step]
        mark = times[low : low + step][-1] // (size_ms // ratio) * (size_ms // ratio)
        engine.batch([[*part, (None, encode_watermark(mark))]])
        calls.append(engine.stores[0].calls)
    # meta and keys read and written; a segment or two written, and read and removed when due: a
    # tenth of a window's changes are few enough for one.
    assert max(calls) <= 16


def test_a_partition_that_should_not_be_there_is_refused(tmp_path: Path) -> None:
    engine = Engine(KeyedSum(), Windows(10, 10), tmp_path, num_partitions=1)
    with pytest.raises(RunError, match="a partition 1, yet the query was started for 1 partitions"):
        engine.batch([keyed([1]), keyed([1])])


def test_key_ids_are_used_again(tmp_path: Path) -> None:
    engine = Engine(KeyedSum(), Windows(10, 10), tmp_path)
    for window in range(50):
        rows: list[Row] = [(b"%d-%d" % (window, i), b"%d,-,1" % (window * 10)) for i in range(20)]
        engine.batch([[*rows, (None, encode_watermark(window * 10))]])
    assert engine.summary.state_rows <= 40
    assert len(engine.stores[0].values["keys"]) < 6_000
