"""From lines of text to windows: every partitioner, cut anyhow, gives the one right answer.

Replay and stages are the real ones; lists stand for Kafka and Spark, which have tests of their own.
"""

from __future__ import annotations

import random
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from naive_windows import Naive, naive_sums
from streams import Engine
from workload_runs import TopicLists

from partitioners import PARTITIONERS
from pipelines.benchmark.parts import make_content, make_workload
from pipelines.benchmark.prepare import RunConfig
from pipelines.benchmark.replay import Replay, ReplayReport
from pipelines.dead_letters import DeadLetters
from pipelines.panes import Windows
from pipelines.workloads import KeyedSum

NUM_RECORDS = 80_000
WINDOW_MS, SLIDE_MS, LATENESS_MS = 20_000, 5_000, 2_000

# Each partitioner meets another cut.
PARTITIONS, SHARDS, BATCH_RECORDS = (1, 3, 8), (1, 2, 5), (1_000, 77_777, NUM_RECORDS * 2)
ALL_CUTS = list(product(PARTITIONS, SHARDS, BATCH_RECORDS))
random.Random(5).shuffle(ALL_CUTS)
CUTS = list(zip(sorted(PARTITIONERS), ALL_CUTS, strict=False))


@pytest.fixture(scope="module")
def stream(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Skewed keys, out of order by up to three seconds, a null key now and then."""
    draw = random.Random(11)
    path = tmp_path_factory.mktemp("stream") / "in.csv"
    with path.open("w") as file:
        for i in range(NUM_RECORDS):
            key = "" if i % 997 == 0 else f"key-{min(int(draw.paretovariate(0.9)), 300)}"
            file.write(f"{i * 3 - draw.randint(0, 3_000)},{key},{i % 100 - 50}\n")
    return path


def replayed(stream: Path, partitioner: str, partitions: int) -> tuple[TopicLists, ReplayReport]:
    config = RunConfig(
        run_id="test",
        workload="keyed-sum",
        inputs=(str(stream),),
        partitioner=partitioner,
        partitions=partitions,
        sources=2,
        window_ms=WINDOW_MS,
        slide_ms=SLIDE_MS,
        lateness_ms=LATENESS_MS,
    )
    topic = TopicLists([[] for _ in range(partitions)])
    dead = DeadLetters(stream.parent / "dead-letters.jsonl")
    content = make_content(config)
    report = Replay(config, make_workload(config), content, topic, dead, [0] * partitions).run()
    assert dead.count == 0
    return topic, report


@pytest.fixture(scope="module")
def answer(stream: Path) -> Naive:
    topic, _ = replayed(stream, "key_hash", 1)
    return naive_sums(topic.partitions, WINDOW_MS, SLIDE_MS)


@pytest.mark.parametrize(("partitioner", "cut"), CUTS)
def test_every_partitioner_cut_anyhow_is_exact(
    stream: Path, answer: Naive, tmp_path: Path, partitioner: str, cut: tuple[int, int, int]
) -> None:
    num_partitions, num_shards, batch_records = cut
    topic, report = replayed(stream, partitioner, num_partitions)
    assert report.delivered == report.produced == NUM_RECORDS
    windows = Windows(WINDOW_MS, SLIDE_MS)
    engine = Engine(KeyedSum(), windows, tmp_path, num_partitions, num_shards)
    at = [0] * num_partitions
    for low in range(0, len(topic.order), batch_records):
        arrived = np.bincount(topic.order[low : low + batch_records], minlength=num_partitions)
        ends = [begin + int(count) for begin, count in zip(at, arrived, strict=True)]
        parts = zip(topic.partitions, at, ends, strict=True)
        engine.batch([rows[begin:end] for rows, begin, end in parts])
        at = ends
    found = {
        (int(row["window_start"].timestamp() * 1000), row["key"]): (row["count"], row["sum"])
        for row in engine.results()
    }
    assert found == answer.values
    summary = engine.summary
    assert summary.late == report.late == answer.late > 100
    assert summary.on_time + summary.late == NUM_RECORDS
    assert summary.ended(num_partitions)
