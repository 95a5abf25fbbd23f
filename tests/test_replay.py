"""What a run puts into its topic: the same whatever the chunks, and the rest after a kill."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

from partitioners import create
from pipelines.benchmark.parts import make_content, make_workload
from pipelines.benchmark.prepare import RunConfig
from pipelines.benchmark.replay import Replay, ReplayReport, Stopped
from pipelines.dead_letters import DeadLetters
from pipelines.punctuation import END_MS, MAGIC, NO_WATERMARK_MS, decode_watermark
from pipelines.text_input import LINES_PER_CHUNK

PARTITIONS = 3
Log = list[list[tuple[bytes | None, bytes]]]


class TopicLog:
    """Keeps what a replay sends, as a topic would."""

    def __init__(self) -> None:
        self.partitions: Log = [[] for _ in range(PARTITIONS)]
        self.batch_sizes: list[int] = []

    def send(self, keys: pa.Array, values: pa.Array, partitions: npt.NDArray[np.int32]) -> None:
        self.batch_sizes.append(len(keys))
        rows = zip(keys.to_pylist(), values.to_pylist(), partitions.tolist(), strict=True)
        for key, value, partition in rows:
            self.partitions[partition].append((key, value))

    def finish(self, *, stopped: bool) -> int:  # noqa: ARG002  nothing is under way here
        return sum(map(len, self.partitions))


def config(path: Path, **changes: Any) -> RunConfig:
    return RunConfig(
        **{
            "run_id": "test",
            "workload": "keyed-sum",
            "inputs": (str(path),),
            "partitioner": "pkg",
            "partitions": PARTITIONS,
            "window_ms": 100,
            "slide_ms": 50,
            "lateness_ms": 20,
            "punctuation_records": 5,
            **changes,
        }
    )


@pytest.fixture
def stream(tmp_path: Path) -> Path:
    """2,000 records, out of order by up to 100 ms, with bad lines among them."""
    draw = random.Random(7)
    path = tmp_path / "stream.csv"
    with path.open("w") as file:
        for i in range(2_000):
            if i % 500 == 250:
                file.write(f"{i},no number\n")
            time = i * 3 + draw.randint(-100, 100)
            file.write(f"{time},key-{int(draw.paretovariate(1))},{i}\n")
    return path


def replayed(
    run: RunConfig,
    tmp_path: Path,
    in_topic: Sequence[int] = (0,) * PARTITIONS,
    lines_per_chunk: int = LINES_PER_CHUNK,
) -> tuple[TopicLog, ReplayReport]:
    log = TopicLog()
    with DeadLetters(tmp_path / "dead-letters.jsonl") as dead:
        replay = Replay(
            run,
            make_workload(run),
            make_content(run),
            log,
            dead,
            in_topic,
            lines_per_chunk=lines_per_chunk,
        )
        return log, replay.run()


def test_every_record_is_there_once(stream: Path, tmp_path: Path) -> None:
    log, report = replayed(config(stream), tmp_path)
    records = [row for part in log.partitions for row in part if row[0] is not None]
    lines = [line for line in stream.read_bytes().splitlines() if b"no number" not in line]
    assert sorted(value for _, value in records) == sorted(lines)
    assert report.produced == report.delivered == 2_000
    assert report.dead == 4
    assert report.read == 2_004
    assert report.records_per_partition.tolist() == [
        sum(key is not None for key, _ in part) for part in log.partitions
    ]


def test_every_partition_gets_the_same_watermarks_and_the_end(stream: Path, tmp_path: Path) -> None:
    log, report = replayed(config(stream), tmp_path)
    marks = [
        [decode_watermark(value) for key, value in part if key is None] for part in log.partitions
    ]
    expected = [NO_WATERMARK_MS, *(mark for _, mark in report.marks), END_MS]
    assert marks[0] == marks[1] == marks[2] == expected
    assert marks[0] == sorted(set(marks[0]))
    assert len(marks[0]) > 50
    assert all(part[-1] == (None, MAGIC + END_MS.to_bytes(8, "little")) for part in log.partitions)


@pytest.mark.parametrize("lines_per_chunk", [1, 77, 1_000])
@pytest.mark.parametrize("sources", [1, 4])
def test_chunks_do_not_change_the_content(
    stream: Path, tmp_path: Path, sources: int, lines_per_chunk: int
) -> None:
    run = config(stream, sources=sources, partitioner="cam")
    whole, _ = replayed(run, tmp_path)
    cut, _ = replayed(run, tmp_path, lines_per_chunk=lines_per_chunk)
    assert len(cut.batch_sizes) >= 2_000 // lines_per_chunk
    assert cut.partitions == whole.partitions


def test_sources_have_loads_of_their_own(stream: Path, tmp_path: Path) -> None:
    run = config(stream, sources=2, partitioner="pkg")
    log, _ = replayed(run, tmp_path)
    lines = [line for line in stream.read_text().splitlines() if "no number" not in line]
    expected = np.empty(len(lines), np.int32)
    for source in range(2):
        keys = [line.split(",")[1] for line in lines[source::2]]
        expected[source::2] = create("pkg", PARTITIONS).partition_batch(keys)
    counts = np.bincount(expected, minlength=PARTITIONS).tolist()
    assert [sum(key is not None for key, _ in part) for part in log.partitions] == counts
    for partition, part in enumerate(log.partitions):
        sent = [value.decode() for key, value in part if key is not None]
        assert sent == [lines[i] for i in np.flatnonzero(expected == partition)]


@pytest.mark.parametrize("seed", range(5))
def test_what_is_in_the_topic_is_not_sent_again(stream: Path, tmp_path: Path, seed: int) -> None:
    run = config(stream)
    whole, _ = replayed(run, tmp_path)
    draw = random.Random(seed)
    in_topic = [
        draw.choice([0, draw.randint(0, len(part)), len(part)]) for part in whole.partitions
    ]
    rest, report = replayed(run, tmp_path, in_topic)
    for part, count, remaining in zip(whole.partitions, in_topic, rest.partitions, strict=True):
        assert remaining == part[count:]
    assert report.produced == report.delivered == 2_000
    assert report.skipped == sum(
        key is not None
        for part, count in zip(whole.partitions, in_topic, strict=True)
        for key, _ in part[:count]
    )


def test_late_records_are_those_whose_window_the_watermark_has_passed(
    stream: Path, tmp_path: Path
) -> None:
    run = config(stream)
    log, report = replayed(run, tmp_path)
    late = 0
    for part in log.partitions:
        watermark = NO_WATERMARK_MS
        for key, value in part:
            if key is None:
                watermark = decode_watermark(value)
                continue
            time = int(value.split(b",")[0])
            ends = [end for end in range(-1000, 8000, 50) if end - 100 <= time < end]
            late += any(end <= watermark for end in ends)
    assert 0 < report.late < 2_000
    assert report.late == late


def test_a_stopped_replay_says_so(stream: Path, tmp_path: Path) -> None:
    run = config(stream, pace="rate", pace_value=0.001)
    with DeadLetters(tmp_path / "dead-letters.jsonl") as dead:
        parts = make_workload(run), make_content(run), TopicLog()
        replay = Replay(run, *parts, dead, [0] * PARTITIONS)
        replay.stop()
        with pytest.raises(Stopped):
            replay.run()
    assert replay.report.delivered < 2_000


def test_several_files_are_one_stream_and_keep_their_line_numbers(
    stream: Path, tmp_path: Path
) -> None:
    lines = stream.read_text().splitlines(keepends=True)
    halves = [tmp_path / "1.csv", tmp_path / "2.csv"]
    halves[0].write_text("".join(lines[:700]))
    halves[1].write_text("".join(lines[700:]))
    whole, _ = replayed(config(stream), tmp_path)
    both, _ = replayed(config(stream, inputs=tuple(map(str, halves))), tmp_path)
    assert both.partitions == whole.partitions
    dead = (tmp_path / "dead-letters.jsonl").read_text()
    assert '"1.csv", "line_number": 251' in dead.replace(f"{tmp_path}/", "")
    assert '"2.csv", "line_number": 52,' in dead.replace(f"{tmp_path}/", "")


def test_off_greedy_knows_the_loads_beforehand(stream: Path, tmp_path: Path) -> None:
    run = config(stream, partitioner="off_greedy", sources=2)
    _, report = replayed(run, tmp_path)
    counts = Counter(
        line.split(",")[1] for line in stream.read_text().splitlines() if "no number" not in line
    )
    loads = [0] * PARTITIONS
    for _, count in counts.most_common():
        loads[loads.index(min(loads))] += count
    assert sorted(report.records_per_partition.tolist()) == sorted(loads)
    assert report.spread.replication_factor == 1.0
