"""Late records that update windows: after every batch the newest rows are those of plain loops."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from naive_windows import Values, naive_sums
from streams import Engine, Row, deal, keyed, out_of_order
from test_aggregates import Everything, naive_windows

from pipelines.panes import Windows
from pipelines.punctuation import MAGIC, decode_watermark, encode_watermark
from pipelines.workloads import KeyedSum


def newest(engine: Engine, windows: Windows) -> Values:
    """The newest row of each window and key; their revisions are 0, 1, 2, ..., of other values."""
    rows = defaultdict(dict)
    for row in engine.results():
        start, end = (round(row[f"window_{at}"].timestamp() * 1000) for at in ("start", "end"))
        if end - start == windows.size_ms:
            assert row["revision"] not in rows[start, row["key"]]
            rows[start, row["key"]][row["revision"]] = (row["count"], row["sum"])
    for found in rows.values():
        assert sorted(found) == list(range(len(found)))
        counts = [found[revision][0] for revision in sorted(found)]
        assert counts == sorted(set(counts)), "a row came again unchanged, or lost a record"
    return {place: found[len(found) - 1] for place, found in rows.items()}


def watermark_of(rows: Sequence[Row]) -> int:
    return max(
        (
            decode_watermark(value)
            for key, value in rows
            if key is None and value is not None and value.startswith(MAGIC)
        ),
        default=-(2**62),
    )


@settings(max_examples=20, deadline=None)
@given(
    size_ms=st.integers(1, 40),
    slide_ms=st.integers(1, 40),
    other_ms=st.sampled_from([None, 7, 50]),
    jitter_ms=st.integers(0, 80),
    update_ms=st.integers(1, 60),
    every=st.integers(1, 30),
    batch_rows=st.integers(5, 80),
    num_partitions=st.integers(1, 3),
    seed=st.integers(0, 10**6),
)
def test_after_every_batch_the_newest_rows_are_right(
    tmp_path_factory: pytest.TempPathFactory,
    size_ms: int,
    slide_ms: int,
    other_ms: int | None,
    jitter_ms: int,
    update_ms: int,
    every: int,
    batch_rows: int,
    num_partitions: int,
    seed: int,
) -> None:
    size_ms, slide_ms = max(size_ms, slide_ms), min(size_ms, slide_ms)
    several = [Windows(size_ms, slide_ms)]
    if other_ms not in (None, size_ms):
        several.append(Windows(other_ms, other_ms))
    times = out_of_order(120, 300, jitter_ms, seed)
    partitions = deal(keyed(times, seed), times, num_partitions, slide_ms=3, every=every, seed=seed)
    folder = tmp_path_factory.mktemp("updates")
    engine = Engine(KeyedSum(), several, folder, num_partitions, 2, update_ms=update_ms)
    missed: set[tuple[int, int]] = set()
    for high in range(batch_rows, max(map(len, partitions)) + batch_rows, batch_rows):
        engine.batch([rows[high - batch_rows : high] for rows in partitions])
        seen = [rows[:high] for rows in partitions]
        frontier = min(map(watermark_of, seen))
        for windows in several:
            naive = naive_sums(seen, windows.size_ms, windows.slide_ms, update_ms=update_ms)
            due = {
                place: value
                for place, value in naive.values.items()
                if place[0] + windows.size_ms <= frontier
            }
            assert newest(engine, windows) == due
            missed |= naive.missed
    assert (engine.summary.late, engine.summary.on_time) == (len(missed), 120 - len(missed))
    assert all(set(store.values) == {"meta", "keys"} for store in engine.stores)


def test_the_example_of_the_docs(tmp_path: Path) -> None:
    engine = Engine(KeyedSum(), Windows(10, 10), tmp_path, update_ms=15)

    def batch(watermark: int, *times: int) -> list[tuple[int, int, int]]:
        records: list[Row] = [(b"k", b"%d,-,1" % time) for time in times]
        engine.batch([[*records, (None, encode_watermark(watermark))]])
        rows = engine.results()
        starts = [round(row["window_start"].timestamp() * 1000) for row in rows]
        return [
            (start, row["revision"], row["count"]) for start, row in zip(starts, rows, strict=True)
        ]

    assert batch(20, 5, 12) == [(0, 0, 1), (10, 0, 1)]
    assert batch(25, 9) == [(0, 0, 1), (0, 1, 2), (10, 0, 1)]
    assert batch(30, 6) == [(0, 0, 1), (0, 1, 2), (10, 0, 1)]
    assert engine.summary.late == 1


@pytest.mark.parametrize("batch_rows", [50, 1_000])
def test_all_aggregates_can(tmp_path: Path, batch_rows: int) -> None:
    times = out_of_order(1_500, 20_000, 2_000, seed=5)
    partitions = deal(keyed(times, 5), times, 3, slide_ms=100, every=20)
    engine = Engine(Everything(), Windows(3_000, 300), tmp_path, 3, 2, update_ms=10_000)
    engine.run(partitions, batch_rows)
    rows = {}
    for row in engine.results():
        del row["window_end"]
        place = (round(row.pop("window_start").timestamp() * 1000), row.pop("key"))
        revision = row.pop("revision")
        if revision >= rows.get(place, (0, None))[0]:
            rows[place] = (revision, row)
    assert engine.summary.late == 0
    assert any(revision for revision, _ in rows.values()) == (batch_rows == 50)
    unlimited = [
        [row for row in part if not (row[1] or b"").startswith(MAGIC)] for part in partitions
    ]
    assert {place: row for place, (_, row) in rows.items()} == naive_windows(unlimited, 3_000, 300)
