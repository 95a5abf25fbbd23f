"""Query 1 per event: line by line the official output, through any partitioner."""

import gzip
from collections import deque
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from workload_runs import TopicLists

from pipelines.benchmark.parts import make_content, shipped_config
from pipelines.benchmark.replay import Replay
from pipelines.dead_letters import DeadLetters
from pipelines.workloads.debs_q1 import DebsQ1, TripParser
from pipelines.workloads.debs_q1_events import (
    WINDOW_MS,
    FrequentRoutes,
    InOrder,
    K,
    official_lines,
)

EXPECTED = Path(__file__).parent / "data" / "debs2015_expected_q1_halfopen.csv.gz"


class WithPickup(DebsQ1):
    def parser(self) -> TripParser:
        return TripParser(with_pickup=True)


@pytest.mark.parametrize(
    ("partitioner", "partitions", "batch"), [("key_hash", 1, 10**6), ("shuffle", 8, 700)]
)
def test_the_output_is_the_official_one(
    tmp_path: Path, partitioner: str, partitions: int, batch: int
) -> None:
    config = shipped_config("x", "debs-q1", partitioner, partitions)
    topic = TopicLists([[] for _ in range(partitions)])
    with DeadLetters(tmp_path / "dead.jsonl") as dead:
        Replay(config, WithPickup(), make_content(config), topic, dead, [0] * partitions).run()
    order, routes, found = InOrder(partitions), FrequentRoutes(), []
    waiting = [deque(rows) for rows in topic.partitions]
    while any(waiting):
        parts = []
        for rows in waiting:
            now = [rows.popleft() for _ in range(min(batch, len(rows)))]
            parts.append(tuple(pa.array(list(c), pa.binary()) for c in zip(*now, strict=True)))
        parts = [part or (pa.array([], pa.binary()),) * 2 for part in parts]
        (times, _, pickups), names = order.take(parts)
        at, tops = routes.add(times, names)
        found += official_lines(routes.names, pickups[at], times[at], tops)
    with gzip.open(EXPECTED, "rt") as file:
        assert found == file.read().splitlines()


@pytest.mark.parametrize("num_routes", [1, 9, 40])
def test_the_ten_are_those_of_plain_loops(num_routes: int) -> None:
    draw = np.random.default_rng(num_routes)
    times = np.sort(draw.integers(0, 5 * WINDOW_MS, 900)) // 60_000 * 60_000
    names = [f"{route}.1-1.1".encode() for route in draw.integers(0, num_routes, 900)]
    wanted, before = [], None
    for i, now in enumerate(times):
        inside = [j for j in range(i + 1) if times[j] > now - WINDOW_MS]
        last = {names[j]: j for j in inside}
        count = {name: sum(names[j] == name for j in inside) for name in last}
        top = sorted(last, key=lambda name: (-count[name], -last[name]))[:K]
        if top != before:
            wanted.append((i, top))
        before = top
    routes, found = FrequentRoutes(), []
    for low in range(0, 900, 250):
        at, tops = routes.add(times[low : low + 250], pa.array(names[low : low + 250]))
        for i, top in zip(at.tolist(), tops.tolist(), strict=True):
            found.append((low + i, [routes.names[route] for route in top if route >= 0]))
    assert found == wanted
    assert len(found) >= 1
