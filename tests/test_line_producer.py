"""Lines as keyed records: what is a record, and what is kept as a dead letter."""

from __future__ import annotations

from pathlib import Path

from pipelines.line_producer import LineSource
from pipelines.text_input import RejectedLine


def test_an_event_time_that_is_none_is_a_dead_letter(tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    times = ["5", "99999999999999999999", "1_000", "٣", " 7", "", "-8"]
    path.write_text("".join(f"key,{time}\n" for time in times), encoding="utf-8")
    source = LineSource(
        inputs=(str(path),), encoding="auto", delimiter=",", key_column=1, time_column=2
    )
    dead: list[RejectedLine] = []
    (rows,) = source.rows(dead.append)
    assert rows.timestamps_ms == [5, -8]
    assert rows.values == ["key,5", "key,-8"]
    assert [line.line_number for line in dead] == [2, 3, 4, 5, 6]
    assert {line.reason for line in dead} == {"event time is no integer of at most 18 digits"}
