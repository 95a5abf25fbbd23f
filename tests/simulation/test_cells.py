"""Cells against a direct computation; sources; the same figures for any number of processes."""

from __future__ import annotations

import dataclasses
import json
import multiprocessing
import os
import signal
from threading import Event, Timer

import numpy as np
import pytest

from partitioners import PARTITIONERS, create
from partitioners.dalton import CooperativeConfig, CooperativeDalton
from partitioners.errors import InputError, RunError
from partitioners.metrics import fragmentation, imbalance, partition_counts, replication_factor
from partitioners.simulation import Setting, Sweeper, route_by_sources, simulate, sweep
from partitioners.stream_names import parse_named, parse_stream
from partitioners.streams import zipf

STREAM = parse_stream("zipf:num_keys=500", 20_000, seed=1)


def setting(partitioner, **others):
    given = {"num_partitions": 8, "window_ms": 5_000} | others
    return Setting(partitioner=parse_named(partitioner), stream=STREAM, **given)


@pytest.mark.parametrize("num_sources", [1, 3])
@pytest.mark.parametrize("name", ["key_hash", "pkg", "cam", "hot_fill"])
def test_a_cell_equals_a_direct_computation(name, num_sources):
    cell = simulate(setting(name, num_sources=num_sources))
    stream = zipf(20_000, 500)
    partitions = np.empty(20_000, np.int32)
    kind = PARTITIONERS[name]
    options = {"window_ms": 5_000} if kind.traits.uses_time else {}
    if "slide_ms" in kind.config_type.__dataclass_fields__ and options:
        options["slide_ms"] = 5_000
    for source in range(num_sources):
        rows = np.arange(source, 20_000, num_sources)
        partitions[rows] = create(name, 8, **options).partition_batch(
            stream.keys.take(rows), stream.timestamps_ms[rows]
        )
    counts = partition_counts(partitions, 8)
    assert cell.loads == tuple(counts.astype(int))
    assert cell.imbalance == imbalance(counts)
    assert cell.replication_factor == replication_factor(stream.key_hashes, partitions)
    assert cell.fragmentation == fragmentation(
        stream.key_hashes, partitions, stream.timestamps_ms, 5_000
    )
    windows = [imbalance(partition_counts(part, 8)) for part in np.split(partitions, 4)]
    assert cell.imbalance_windows == pytest.approx(np.mean(windows))
    assert cell.imbalance_worst == pytest.approx(max(windows))
    assert cell.num_keys == len(np.unique(stream.ids))
    assert cell.top_fraction == np.bincount(stream.ids).max() / 20_000
    assert cell.over_time["imbalance"] == pytest.approx(windows)


@pytest.mark.parametrize("name", list(PARTITIONERS))
def test_every_partitioner_has_cells_with_several_sources(name):
    cell = simulate(setting(name, num_sources=2, slide_ms=1_000))
    assert sum(cell.loads) == cell.num_records == 20_000
    assert 1 <= cell.replication_factor <= 8
    assert 1 <= cell.fragmentation <= 8
    assert cell.split_fraction == 0 or cell.fragmentation > 1
    assert 0 < cell.efficiency <= 1
    assert json.loads(json.dumps(cell.as_json()))["partitioner"] == name


def test_figures_do_not_depend_on_the_number_of_processes():
    settings = [
        setting(name, num_sources=sources, slide_ms=1_000)
        for name in ("pkg", "dalton", "prompt", "off_greedy")
        for sources in (1, 3)
    ]
    seen = []
    alone = sweep(simulate, settings, jobs=1)
    together = sweep(simulate, settings, jobs=2, on_done=seen.append)
    assert together == alone
    assert len(seen) == len(settings)


def test_dalton_sources_learn_together_unless_told_not_to():
    stream = zipf(60_000, 500)

    def route(**options):
        return route_by_sources(
            "dalton", 8, stream, num_sources=4, window_ms=10_000, slide_ms=1_000, options=options
        )

    together, alone = route(), route(alone=True)
    assert len(together.sync_intervals_ms) > 50
    assert alone.sync_intervals_ms == ()
    assert (together.partitions != alone.partitions).any()
    # Alone each is what one partitioner of a quarter of the stream does.
    rows = np.arange(0, 60_000, 4)
    one = create("dalton", 8, window_ms=10_000, slide_ms=1_000)
    assert (
        alone.partitions[rows]
        == one.partition_batch(stream.keys.take(rows), stream.timestamps_ms[rows])
    ).all()


def test_a_slow_reducer_makes_agents_ask_for_longer_intervals():
    routed = route_by_sources(
        "dalton",
        8,
        zipf(60_000, 500),
        num_sources=2,
        window_ms=10_000,
        slide_ms=1_000,
        options={"reducer_ms": 3_000},
    )
    assert max(routed.sync_intervals_ms) >= 2_000


def test_a_dalton_source_is_a_cooperative_agent():
    routed = route_by_sources("dalton", 4, zipf(5_000, 50), num_sources=2, window_ms=1_000)
    config = CooperativeConfig(window_ms=1_000, slide_ms=1_000)
    lone = CooperativeDalton(4, config)
    assert routed.state_bytes >= lone.state_bytes


def test_prompt_cuts_each_slide_as_a_micro_batch():
    stream = zipf(3_000, 100)
    routed = route_by_sources("prompt", 4, stream, window_ms=1_000)
    expected = [
        create("prompt", 4).partition_micro_batch(stream.keys.slice(start, 1_000))
        for start in (0, 1_000, 2_000)
    ]
    assert (routed.partitions == np.concatenate(expected)).all()


def test_owners_deal_the_records():
    stream = zipf(1_000, 50)
    owners = (stream.ids % 2).astype(np.int64)
    routed = route_by_sources("shuffle", 4, stream, num_sources=2, owners=owners)
    for source in (0, 1):
        rows = np.flatnonzero(owners == source)
        assert (routed.partitions[rows] == np.arange(len(rows)) % 4).all()


@pytest.mark.parametrize(
    ("partitioner", "others", "message"),
    [
        ("pgk", {}, 'did you mean "pkg"'),
        ("pkg:dd=3", {}, 'no option "dd"'),
        ("dalton:epsilom=1", {"num_sources": 2}, 'no option "epsilom"'),
        ("pkg", {"num_partitions": 0}, "num_partitions"),
        ("dalton", {"num_partitions": 0}, "num_partitions"),
        ("pkg", {"num_sources": 0}, "sources must be from 1"),
        ("pkg", {"window_ms": 0}, "window_ms must be 1 or more"),
        ("pkg", {"slide_ms": 3_000}, "slide_ms must divide"),
    ],
)
def test_settings_that_cannot_be_are_refused_before_any_work(partitioner, others, message):
    with pytest.raises(InputError, match=message):
        setting(partitioner, **others).check()


def test_a_sweep_needs_a_process():
    with pytest.raises(InputError, match="jobs must be from 1"):
        Sweeper(0)


def test_a_process_that_dies_is_told():
    from os import _exit

    with pytest.raises(RunError, match="a process of the simulation died"):
        sweep(_exit, [3, 3], jobs=2)


def wait_for_ever(_task):
    Event().wait()


class StopError(Exception):
    pass


def stop(*_args):
    raise StopError


def run_until_stopped():
    """Two tasks without an end in two processes, and a signal to this one."""
    with Sweeper(2) as sweeper:
        sweeper.run(abs, [1, 2])  # the processes are there
        previous = signal.signal(signal.SIGUSR1, stop)
        Timer(0.0, os.kill, (os.getpid(), signal.SIGUSR1)).start()
        try:
            sweeper.run(wait_for_ever, [1, 2])
        finally:
            signal.signal(signal.SIGUSR1, previous)


def test_a_sweep_that_is_stopped_leaves_no_process():
    before = set(multiprocessing.active_children())
    with pytest.raises(StopError):
        run_until_stopped()
    assert set(multiprocessing.active_children()) == before


def test_figures_are_frozen_values():
    cell = simulate(setting("shuffle"))
    with pytest.raises(dataclasses.FrozenInstanceError):
        cell.imbalance = 0.0
