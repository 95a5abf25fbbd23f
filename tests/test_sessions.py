"""Sessions against plain loops: any disorder, any batches, every aggregate."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from streams import Engine, Row, deal, out_of_order
from test_aggregates import Everything, naive_values

from partitioners.errors import InputError, RunError
from pipelines.punctuation import END_MS, MAGIC, decode_watermark, encode_watermark
from pipelines.sessions import PANES_PER_GAP, Sessions, with_times
from pipelines.workloads import KeyedSum
from pipelines.workloads.debs_q2 import DebsQ2

Found = dict[tuple[int, int, bytes | None], dict[str, Any]]


def naive_sessions(partitions: Sequence[Sequence[Row]], gap_ms: int) -> tuple[Found, int]:
    """(start, end, key) -> values, and how many records were late."""
    pane_ms = max(1, gap_ms // PANES_PER_GAP)
    records: dict[bytes | None, list[tuple[int, int]]] = defaultdict(list)
    late = 0
    for rows in partitions:
        watermark = -(2**70)
        for key, value in rows:
            assert value is not None
            if key is None and value.startswith(MAGIC):
                watermark = max(watermark, decode_watermark(value))
                continue
            time, x = (int(field) for field in value.split(b",-,"))
            if time // pane_ms < watermark // pane_ms:
                late += 1
            else:
                records[key].append((time, x))
    found: Found = {}
    for key, of_key in records.items():
        session: list[tuple[int, int]] = []
        for time, x in sorted(of_key):
            if session and time - session[-1][0] >= gap_ms:
                found[session[0][0], session[-1][0] + gap_ms, key] = naive_values(session)
                session = []
            session.append((time, x))
        found[session[0][0], session[-1][0] + gap_ms, key] = naive_values(session)
    return found, late


def sessions_of(engine: Engine) -> Found:
    found: Found = {}
    for row in engine.results():
        start, end = (round(row.pop(f"window_{at}").timestamp() * 1000) for at in ("start", "end"))
        place = (start, end, row.pop("key"))
        assert place not in found
        found[place] = row
    return found


def keyed(times: Sequence[int], seed: int) -> list[Row]:
    random = np.random.default_rng(seed)
    xs = random.integers(-5, 6, len(times)).tolist()
    keys = random.integers(0, 4, len(times)).tolist()
    names = [None, b"", b"a", b"b"]
    return [
        (names[key], b"%d,-,%d" % (time, x)) for time, key, x in zip(times, keys, xs, strict=True)
    ]


@settings(max_examples=25, deadline=None)
@given(
    gap_ms=st.integers(1, 60),
    jitter_ms=st.integers(0, 80),
    every=st.integers(1, 30),
    batch_rows=st.integers(1, 80),
    num_partitions=st.integers(1, 3),
    span_ms=st.sampled_from([50, 1_000, 5_000]),
    seed=st.integers(0, 10**6),
)
def test_sessions_equal_plain_python(
    tmp_path_factory: pytest.TempPathFactory,
    gap_ms: int,
    jitter_ms: int,
    every: int,
    batch_rows: int,
    num_partitions: int,
    span_ms: int,
    seed: int,
) -> None:
    times = out_of_order(90, span_ms, jitter_ms, seed)
    partitions = deal(keyed(times, seed), times, num_partitions, slide_ms=3, every=every, seed=seed)
    folder = tmp_path_factory.mktemp("sessions")
    engine = Engine(Everything(), Sessions(gap_ms), folder, num_partitions, 2)
    summary = engine.run(partitions, batch_rows)
    expected, late = naive_sessions(partitions, gap_ms)
    assert sessions_of(engine) == expected
    assert (summary.late, summary.on_time) == (late, 90 - late)
    assert summary.rows == len(expected)
    assert all(set(store.values) == {"meta"} for store in engine.stores)


def test_a_session_is_written_when_nothing_can_make_it_longer(tmp_path: Path) -> None:
    engine = Engine(KeyedSum(), Sessions(80), tmp_path)

    def batch(watermark: int, *times: int) -> list[tuple[int, int, int]]:
        records: list[Row] = [(b"k", b"%d,-,1" % time) for time in times]
        engine.batch([[*records, (None, encode_watermark(watermark))]])
        found = sessions_of(engine)
        return [(start, end, row["count"]) for (start, end, _), row in sorted(found.items())]

    assert batch(100, 5, 60) == []
    assert batch(139, 139) == []  # less than 80 after the last: the same session
    assert batch(219, 300) == []  # [5, 219) may still get a record of time 218: panes are of 10
    assert batch(220) == [(5, 219, 3)]
    assert batch(END_MS, 210) == [(5, 219, 3), (300, 380, 1)]
    assert engine.summary.late == 1


def test_what_a_session_cannot_have_is_refused() -> None:
    with pytest.raises(InputError, match="at least 1 ms, not 0 ms"):
        Sessions(0)
    with pytest.raises(InputError, match='"half an hour" is no duration'):
        Sessions.of("half an hour")
    with pytest.raises(InputError, match="no last part of fixed length: leave last_ms out"):
        with_times(DebsQ2())


def test_a_partition_beyond_those_that_hold_sessions_back_is_refused(tmp_path: Path) -> None:
    engine = Engine(KeyedSum(), Sessions(80), tmp_path, num_partitions=1)
    rows: list[Row] = [(b"k", b"5,-,1")]
    with pytest.raises(RunError, match="the topic has a partition 1, yet the query was started"):
        engine.batch([rows, rows])
