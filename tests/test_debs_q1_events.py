"""Query 1 per event: line by line the official output, through any partitioner, cut anyhow."""

import gzip
from itertools import islice
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from test_workloads import trip
from workload_runs import run_workload

from partitioners.errors import InputError
from pipelines.benchmark.parts import check_options, shipped_config
from pipelines.benchmark.prepare import RunConfig
from pipelines.workloads.debs_q1 import DebsQ1
from pipelines.workloads.debs_q1_events import FrequentRoutes, naive_rows
from pipelines.workloads.debs_q1_trips import K

EXPECTED = Path(__file__).parent / "data" / "debs2015_expected_q1_halfopen.csv.gz"
WINDOW_MS = 1_800_000


def run(folder: Path, **settings: object):
    return run_workload("debs-q1", folder, shards=1, options={"per_event": True}, **settings)


@pytest.mark.parametrize(
    ("partitioner", "partitions", "batch_records"),
    [("key_hash", 1, 10**6), ("shuffle", 8, 700)],
)
def test_the_output_is_the_official_one(
    tmp_path: Path, partitioner: str, partitions: int, batch_records: int
) -> None:
    outcome = run(
        tmp_path, partitioner=partitioner, partitions=partitions, batch_records=batch_records
    )
    assert outcome.comparison.differences == []
    DebsQ1(per_event=True).publish(outcome.folder, tmp_path)
    with gzip.open(EXPECTED, "rt") as file:
        assert (tmp_path / "debs-q1.csv").read_text() == file.read()


def test_trips_out_of_order_are_put_in_order_or_late(tmp_path: Path) -> None:
    with gzip.open(DebsQ1.default_input, "rt") as file:
        lines = [line.rstrip("\n") for line in islice(file, 3_000)]
    order = np.arange(3_000) + np.random.default_rng(2).integers(0, 400, 3_000)
    lines = [lines[i] for i in np.argsort(order, kind="stable")]
    late = []
    for lateness_ms in (0, 20_000):
        folder = tmp_path / str(lateness_ms)
        folder.mkdir()
        outcome = run(
            folder,
            lines=lines,
            partitioner="pkg",
            batch_records=900,
            lateness_ms=lateness_ms,
            punctuation_records=40,
        )
        assert outcome.comparison.differences == []
        late.append(outcome.report.late)
    assert late[0] > late[1] > 0


@pytest.mark.parametrize(
    "dropoffs",
    [
        ["2013-01-01 00:10:00"] * 300,
        [f"2013-01-01 0{i % 7}:10:00" for i in range(300)],
        [f"2015-06-30 23:59:{i // 5:02d}" for i in range(305)],
    ],
    ids=["one timestamp", "times go back hours", "a leap second"],
)
def test_odd_times_are_exact(tmp_path: Path, dropoffs: list[str]) -> None:
    lines = [
        trip(dropoff=time, x1=f"-73.9{i * i % 31:02d}", x2=f"-73.9{i % 7}")
        for i, time in enumerate(dropoffs)
    ]
    outcome = run(
        tmp_path, lines=lines, partitioner="shuffle", batch_records=70, punctuation_records=10
    )
    assert outcome.comparison.differences == []
    assert outcome.report.produced == len(lines)
    assert (outcome.report.late > 0) == (" 06:" in "".join(dropoffs))


def test_a_pick_up_that_does_not_read_is_none_and_the_window_is_ones_own(tmp_path: Path) -> None:
    pickups = ["2013-01-01 00:00:00", "soon", "1370-01-01 00:00:01"]
    lines = [
        trip(dropoff=f"2013-01-01 00:0{i}:00", x1=f"-73.9{i}").replace(pickups[0], pickups[i], 1)
        for i in range(3)
    ]
    # The first drop-off is the first pick-up too.
    lines[0] = trip(x1="-73.90", dropoff="2013-01-01 00:00:30")
    outcome = run(tmp_path, lines=lines, window_ms=60_000)
    assert outcome.comparison.differences == []
    assert outcome.table("line, pickup IS NULL, route_1 IS NULL, route_2 IS NULL") == [
        (1, False, False, True),
        (2, True, False, False),
        (3, True, False, True),
    ]


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"shards": 2}, "leave --shards and --emit out"),
        ({"shards": 1, "emit": "top"}, "leave --shards and --emit out"),
        ({"shards": 1, "slide_ms": 60_000}, "leave --slide-ms out"),
        ({"shards": 1, "window_ms": 1_500, "slide_ms": 500}, "windows are of whole seconds"),
        ({"shards": 1, "more_windows": ((1_000, 1_000),)}, "leave --window out"),
    ],
)
def test_what_there_is_not_per_event_is_refused(changes: dict, sentence: str) -> None:
    config = shipped_config("x", "debs-q1", "pkg", 4, {"per_event": True})
    said = {name: getattr(config, name) for name in RunConfig.__dataclass_fields__} | changes
    with pytest.raises(InputError, match=sentence):
        check_options(RunConfig(**said))


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
    routes, found = FrequentRoutes(WINDOW_MS), []
    for low in range(0, 900, 250):
        at, tops = routes.add(times[low : low + 250], pa.array(names[low : low + 250]))
        for i, top in zip(at.tolist(), tops.tolist(), strict=True):
            found.append((low + i, [routes.names[route] for route in top if route >= 0]))
    assert found == wanted
    assert len(found) >= 1
    trips = [(int(time), name.decode()) for time, name in zip(times, names, strict=True)]
    naive = [(i, [n.encode() for n in top if n]) for i, top in naive_rows(trips, WINDOW_MS)]
    assert naive == wanted
