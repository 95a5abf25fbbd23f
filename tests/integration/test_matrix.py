"""One input, cut anyhow, through the real broker and the real Spark: always the same results.

Lines go through replay, producer, topic, Spark and sink. A pairwise cover of batch
boundaries, partitions and shards meets every partitioner; tests/test_exact.py does the wide grid
without the real parts.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import combinations, product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from naive_windows import Naive, Row, Values, naive_sums
from streams import read_results

from partitioners import PARTITIONERS
from pipelines import engine
from pipelines.batch_log import FOLDER
from pipelines.benchmark.parts import make_content, make_workload
from pipelines.benchmark.prepare import RunConfig
from pipelines.benchmark.replay import Replay, ReplayReport, Sender
from pipelines.benchmark.sender import TopicSender
from pipelines.dead_letters import DeadLetters
from pipelines.panes import Windows
from pipelines.punctuation import MAGIC, decode_watermark
from pipelines.topics import client_settings
from pipelines.workloads import KeyedSum

pytestmark = [pytest.mark.broker, pytest.mark.spark]

MINUTE_MS = 60_000
WINDOW_MS, SLIDE_MS, LATENESS_MS = 8 * MINUTE_MS, 2 * MINUTE_MS, MINUTE_MS
LAG_MS = 20 * MINUTE_MS
END_SECONDS = 120.0
EVENT_TIME_MS = 36 * MINUTE_MS
# Batches of 77,777 need more records than that; those of 1,000 shall not be many.
SHORT, LONG = 4_000, 90_000

FOR_EVER = 2**62
ALL = 10**6
BATCHES, PARTITIONS, SHARDS = (1_000, 77_777, ALL), (1, 3, 8), (1, 2, 5)


class Case(NamedTuple):
    """One way to cut the input."""

    partitioner: str
    num_records: int
    batch_records: int
    num_partitions: int
    num_shards: int


def cover() -> Iterator[Case]:
    """Each partitioner with another cut; nine cuts are a Latin square, so they hold every pair."""
    cuts = [
        (BATCHES[batch], PARTITIONS[part], SHARDS[(batch + turn * part) % 3])
        for turn in (1, 2)
        for part, batch in product(range(3), range(3))
    ]
    for number, partitioner in enumerate(sorted(PARTITIONERS)):
        cut = cuts[number % len(cuts)]
        # Both inputs are also read in one batch, for batches to be compared with.
        is_short = cut[0] == 1_000 or (cut[0] == ALL and number % 2 == 0)
        yield Case(partitioner, SHORT if is_short else LONG, *cut)


CASES = list(cover())


class Stream(NamedTuple):
    """An input, and what is right for it."""

    path: Path
    answer: Naive


class Collected:
    """Takes what a replay sends, instead of a topic."""

    def __init__(self, num_partitions: int) -> None:
        self.partitions: list[list[Row]] = [[] for _ in range(num_partitions)]

    def send(self, keys: pa.Array, values: pa.Array, partitions: npt.NDArray[np.int32]) -> None:
        rows = zip(partitions.tolist(), keys.to_pylist(), values.to_pylist(), strict=True)
        for partition, key, value in rows:
            self.partitions[partition].append((key, value))

    def finish(self, *, stopped: bool) -> int:  # noqa: ARG002  nothing is under way here
        return sum(map(len, self.partitions))


@pytest.fixture(scope="module")
def streams(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Stream]:
    """Skewed keys, out of order by up to three minutes, a null key now and then."""
    folder = tmp_path_factory.mktemp("streams")
    return {size: make_stream(folder / f"{size}.csv", size) for size in (SHORT, LONG)}


def make_stream(path: Path, num_records: int) -> Stream:
    draw = random.Random(11)
    step_ms = EVENT_TIME_MS / num_records
    with path.open("w") as file:
        for i in range(num_records):
            key = "" if i % 997 == 0 else f"key-{min(int(draw.paretovariate(0.9)), 300)}"
            time_ms = int(i * step_ms) - draw.randint(0, 3 * MINUTE_MS)
            file.write(f"{time_ms},{key},{i % 100 - 50}\n")
    whole = Collected(1)
    replayed(path, Case("key_hash", num_records, ALL, 1, 1), whole)
    return Stream(path, naive_sums(whole.partitions, WINDOW_MS, SLIDE_MS))


def replayed(path: Path, case: Case, sender: Sender) -> ReplayReport:
    config = RunConfig(
        run_id="test",
        workload="keyed-sum",
        inputs=(str(path),),
        partitioner=case.partitioner,
        partitions=case.num_partitions,
        sources=2,
        window_ms=WINDOW_MS,
        slide_ms=SLIDE_MS,
        lateness_ms=LATENESS_MS,
        punctuation_records=case.num_records // 100,
    )
    with DeadLetters(path.with_suffix(".dead")) as dead:
        nothing_sent = [0] * case.num_partitions
        content = make_content(config)
        report = Replay(config, make_workload(config), content, sender, dead, nothing_sent).run()
    assert report.delivered == report.produced == case.num_records
    return report


@pytest.fixture
def query(bootstrap: str, spark: Any, tmp_path: Path) -> Any:
    """Start a query on a topic, as the case has it."""

    def start(topic: str, case: Case) -> engine.RunningQuery:
        return engine.start(
            spark,
            KeyedSum(),
            bootstrap=bootstrap,
            topic=topic,
            num_partitions=case.num_partitions,
            num_shards=case.num_shards,
            windows=Windows(WINDOW_MS, SLIDE_MS),
            results_dir=tmp_path / "results",
            checkpoint_dir=tmp_path / "checkpoint",
            batch_records=case.batch_records,
        )

    return start


def results(folder: Path) -> Values:
    rows = read_results(folder)
    values = {
        (int(row["window_start"].timestamp() * 1000), row["key"]): (row["count"], row["sum"])
        for row in rows
    }
    assert len(values) == len(rows)
    return values


# What the first case of each input found; all others have to find the same.
found_first: dict[int, Values] = {}


def test_the_cases_hold_every_partitioner_and_every_pair() -> None:
    assert {case.partitioner for case in CASES} == set(PARTITIONERS)
    cuts = [case[2:] for case in CASES]
    for one, other in combinations(range(3), 2):
        values = (BATCHES, PARTITIONS, SHARDS)
        pairs = {(cut[one], cut[other]) for cut in cuts}
        assert pairs == set(product(values[one], values[other]))
    assert {case.num_records for case in CASES if case.batch_records == ALL} == {SHORT, LONG}


@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(map(str, case)))
def test_the_same_results_cut_anyhow(
    case: Case,
    streams: dict[int, Stream],
    query: Any,
    make_topic: Any,
    bootstrap: str,
    tmp_path: Path,
) -> None:
    stream = streams[case.num_records]
    topic = make_topic(case.num_partitions)
    settings = client_settings(bootstrap, {})
    report = replayed(stream.path, case, TopicSender(settings, topic, case.num_partitions))
    running = query(topic, case)
    assert running.await_end(END_SECONDS)
    values = results(tmp_path / "results")
    assert values == stream.answer.values
    assert values == found_first.setdefault(case.num_records, values)
    summary = running.summary()
    assert summary.late == report.late == stream.answer.late > 100
    assert summary.on_time + summary.late == case.num_records
    # The cut is the one asked for: Spark rounds each partition's part of a batch.
    messages = case.num_records + 102 * case.num_partitions
    least_batches = messages // (case.batch_records + case.num_partitions)
    # Counted where they are kept: what Spark tells of a batch may be late on a busy machine.
    batches = list((tmp_path / "results" / FOLDER).glob("*.json"))
    assert len(batches) > least_batches or case.batch_records == ALL
    assert sorted(summary.combine_seconds) == list(range(case.num_partitions))
    assert sorted(summary.reduce_seconds) == list(range(case.num_shards))


SPLIT = [
    case
    for case in CASES
    if PARTITIONERS[case.partitioner].traits.splits_keys and case.num_partitions > 1
]


@pytest.mark.parametrize("case", SPLIT, ids=lambda case: "-".join(map(str, case)))
def test_keys_are_on_several_partitions_within_a_window(
    case: Case, streams: dict[int, Stream]
) -> None:
    """Else the cases would not show that results of split keys are merged."""
    sent = Collected(case.num_partitions)
    replayed(streams[case.num_records].path, case, sent)
    partitions: dict[tuple[bytes, int], set[int]] = {}
    for partition, rows in enumerate(sent.partitions):
        for key, value in rows:
            if key is not None:
                time_ms = int((value or b"").split(b",")[0])
                partitions.setdefault((key, time_ms // WINDOW_MS), set()).add(partition)
    assert max(map(len, partitions.values())) > 1


def test_a_key_of_dalton_turns_hot_within_a_window(streams: dict[int, Stream]) -> None:
    """Whole at first, split later in the same window; its results are exact all the same, above."""
    case = max(case for case in SPLIT if case.partitioner == "dalton")
    sent = Collected(case.num_partitions)
    replayed(streams[case.num_records].path, case, sent)
    times: dict[bytes, list[list[int]]] = {}
    for partition, rows in enumerate(sent.partitions):
        for key, value in rows:
            if key is not None:
                own = times.setdefault(key, [[] for _ in sent.partitions])
                own[partition].append(int((value or b"").split(b",")[0]))
    hot = max(times.values(), key=lambda own: sum(map(len, own)))
    first = min(min(each) for each in hot if each)
    home = next(each for each in hot if each and min(each) == first)
    elsewhere = min(min(each) for each in hot if each and each is not home)
    assert first // WINDOW_MS == elsewhere // WINDOW_MS
    assert sum(time_ms < elsewhere for time_ms in home) > 10


def until(rows: list[Row], time_ms: int) -> int:
    """Count the rows of a partition up to its first watermark past a time."""
    for place, (key, value) in enumerate(rows):
        is_mark = key is None and value is not None and value.startswith(MAGIC)
        if is_mark and decode_watermark(value or b"") > time_ms:
            return place + 1
    return len(rows)


def test_a_partition_20_minutes_behind_changes_nothing(
    streams: dict[int, Stream],
    query: Any,
    make_topic: Any,
    bootstrap: str,
    tmp_path: Path,
) -> None:
    """The messages are those of any run; those of the last partition come that much later."""
    num_partitions = 3
    case = Case("cam", SHORT, 77_777, num_partitions, num_shards=2)
    collected = Collected(num_partitions)
    replayed(streams[SHORT].path, case, collected)
    settings = client_settings(bootstrap, {})
    topic = make_topic(num_partitions)
    running = query(topic, case)
    behind = num_partitions - 1
    sent = [0] * num_partitions
    for now_ms in (*range(LAG_MS, EVENT_TIME_MS + LAG_MS, 8 * MINUTE_MS), FOR_EVER):
        sender = TopicSender(settings, topic, num_partitions)
        for partition, rows in enumerate(collected.partitions):
            lag_ms = LAG_MS if partition == behind else 0
            stop = until(rows, now_ms - lag_ms)
            if new := rows[sent[partition] : stop]:
                keys, values = zip(*new, strict=True)
                targets = np.full(len(new), partition, np.int32)
                sender.send(pa.array(keys, pa.binary()), pa.array(values, pa.binary()), targets)
            sent[partition] = stop
        sender.finish(stopped=False)
        running.process_available()
        reached_ms = running.summary().watermarks_ms
        if now_ms <= EVENT_TIME_MS:
            others = [reached_ms[partition] for partition in range(behind)]
            assert min(others) - reached_ms[behind] >= LAG_MS - 2 * SLIDE_MS
    assert sent == [len(rows) for rows in collected.partitions]
    assert running.await_end(END_SECONDS)
    found = results(tmp_path / "results")
    assert found == streams[SHORT].answer.values
    assert found == found_first.setdefault(SHORT, found)
    assert running.summary().late == streams[SHORT].answer.late
