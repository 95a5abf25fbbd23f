"""What holds of Dalton on any stream, and of a group whatever happens to it."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from dalton_groups import Group, Unreliable
from hypothesis import given, settings
from hypothesis import strategies as st

from partitioners.dalton import (
    CooperativeDalton,
    Dalton,
    DaltonConfig,
    GlobalTable,
    MemoryChannel,
    QTableReducer,
    ReducerConfig,
    SyncMessage,
)
from partitioners.dalton.state import LOWEST_Q, ROW_FIELDS, ROW_USED
from partitioners.hashing import mix64
from partitioners.streams import zipf

HASHES = np.array([mix64(np.uint64(word)) for word in range(1, 40)], np.uint64)
key_lists = st.lists(st.integers(0, 12), min_size=1, max_size=300)


def routed(
    dalton: Dalton, hashes: npt.NDArray[np.uint64], times: npt.NDArray[np.int64]
) -> npt.NDArray[np.int32]:
    out = np.full(len(hashes), -1, np.int32)
    dalton.route(hashes, times, out)
    return out


def q_values(dalton: Dalton) -> npt.NDArray[np.float64]:
    """Q-values of the rows in use, ``[row, partition]``, never tried ones too."""
    state, n = dalton._state, dalton.num_partitions
    rows = state.rows.reshape(-1, ROW_FIELDS)
    trees = state.values.reshape(len(rows), -1)
    leaves = trees[rows[:, ROW_USED] == 1, trees.shape[1] // 2 :]
    return leaves[:, :n]


@settings(max_examples=80, deadline=None)
@given(
    num_partitions=st.integers(1, 20),
    keys=key_lists,
    step_ms=st.sampled_from([0, 1, 30]),
    balance_weight=st.floats(0.0, 1.0),
    exploration=st.floats(0.0, 1.0),
)
def test_rewards_are_from_minus_one_to_the_weight_of_balance(
    num_partitions: int, keys: list[int], step_ms: int, balance_weight: float, exploration: float
) -> None:
    # With a step of 1 a Q-value is the last reward of its action.
    config = DaltonConfig(
        window_ms=300,
        slide_ms=100,
        step_size=1.0,
        balance_weight=balance_weight,
        exploration=exploration,
    )
    dalton = Dalton(num_partitions, config)
    for start in range(0, len(keys), 50):
        rows = np.arange(start, min(start + 50, len(keys)))
        routed(dalton, HASHES[np.array(keys)[rows]], rows * step_ms)
        values = q_values(dalton)
        rewards = values[values != LOWEST_Q]
        assert ((rewards >= -1.0) & (rewards <= balance_weight)).all()
        # A partition that holds the key is a part of its split, however small.
        if balance_weight == 0.0:
            assert (rewards <= -1.0 / num_partitions).all()


@settings(max_examples=80, deadline=None)
@given(
    num_partitions=st.integers(1, 12),
    keys=key_lists,
    max_split=st.integers(1, 12),
    first_split=st.none() | st.integers(1, 12),
    cold_ms=st.integers(0, 5_000),
    seed=st.integers(0, 1 << 20),
)
def test_a_key_is_on_no_more_partitions_than_max_split(
    num_partitions: int,
    keys: list[int],
    max_split: int,
    first_split: int | None,
    cold_ms: int,
    seed: int,
) -> None:
    """In any window, though it turns hot, cold and hot again, and partitions leave it."""
    config = DaltonConfig(
        window_ms=6_000,
        slide_ms=1_000,
        max_split=max_split,
        first_split=first_split,
        exploration=0.5,
        seed=seed,
    )
    dalton = Dalton(num_partitions, config)
    hashes = HASHES[np.tile(np.array(keys), 8)]
    times = np.repeat(np.arange(8) * (1_000 + cold_ms), len(keys))
    out = routed(dalton, hashes, times)
    for end_ms in np.unique(times):
        live = (times <= end_ms) & (times // 1_000 > end_ms // 1_000 - 6)
        pairs = np.unique(np.stack([hashes[live], out[live].astype(np.uint64)]), axis=1)
        assert np.unique(pairs[0], return_counts=True)[1].max() <= min(max_split, num_partitions)


@st.composite
def sync_messages(draw: st.DrawFn) -> list[SyncMessage]:
    """What up to five agents say of up to four keys, at 3 partitions."""
    messages = []
    for number in range(draw(st.integers(1, 5))):
        keys = sorted(draw(st.sets(st.integers(1, 4))))
        loads = [draw(st.sampled_from([0.0, 1.0, 8.0, 250.5])) for _ in keys]
        rows = [draw(st.floats(-2.0, 1.0)) for _ in range(3 * len(keys))]
        messages.append(
            SyncMessage(
                agent=f"{number}",
                epoch_ms=0,
                sequence=1,
                interval_ms=1_000,
                wants_longer=False,
                load=sum(loads),
                top_keys=np.empty(0, np.uint64),
                top_loads=np.empty(0),
                row_keys=np.array(keys, np.uint64),
                row_loads=np.array(loads),
                row_values=np.array(rows),
            )
        )
    return messages


@settings(max_examples=150, deadline=None)
@given(messages=sync_messages())
def test_a_table_is_the_average_weighted_by_load(messages: list[SyncMessage]) -> None:
    reducer = QTableReducer(3, clock=lambda: 0)
    for message in messages:
        reducer.receive(message)
    table = reducer.close_if_due()
    assert table is not None
    total = sum(Fraction(message.load) for message in messages)
    assert Fraction(table.load) == total
    seen: dict[int, list[tuple[Fraction, list[float]]]] = {}
    for message in messages:
        rows = message.row_values.reshape(-1, 3).tolist()
        for key, load, row in zip(
            message.row_keys.tolist(), message.row_loads.tolist(), rows, strict=True
        ):
            seen.setdefault(key, []).append((Fraction(load), row))
    sums = {key: sum(load for load, _ in parts) for key, parts in seen.items()}
    fair = max(total / 3, Fraction(2))
    assert table.keys.tolist() == sorted(key for key, load in sums.items() if load >= fair)
    for key, row in zip(table.keys.tolist(), table.values.reshape(-1, 3).tolist(), strict=True):
        expected = [
            float(sum(load * Fraction(values[place]) for load, values in seen[key]) / sums[key])
            for place in range(3)
        ]
        assert row == pytest.approx(expected, abs=1e-12)


@settings(max_examples=40, deadline=None)
@given(cut=st.integers(0, 6_000), answered=st.integers(0, 5), answer_later=st.integers(0, 2_500))
def test_a_snapshot_at_any_step_of_a_sync_goes_on_as_the_original(
    cut: int, answered: int, answer_later: int
) -> None:
    """Of an agent whose first messages are answered at once, and the rest later or never."""
    stream = zipf(9_000, 300, 1.4, seed=4)
    now = [0]
    channel = MemoryChannel()
    reducer = QTableReducer(8, clock=lambda: now[0])

    def agent() -> CooperativeDalton:
        return CooperativeDalton(8, channel=channel.agent(), agent="a", clock=lambda: 0)

    def answer() -> None:
        for message in channel.receive(0.0):
            reducer.receive(message)
        table = reducer.close_if_due()
        if table is not None:
            channel.broadcast(table)

    first = agent()
    for start in range(0, cut, 500):
        rows = np.arange(start, min(start + 500, cut))
        routed(first, stream.key_hashes[rows], rows)
        if start < 1_000 * answered:
            answer()
    second = agent()
    second.restore(pickle.loads(pickle.dumps(first.snapshot())))
    assert second.awaits == first.awaits
    rests = np.split(np.arange(cut, 9_000), [answer_later])
    for rows in rests:
        routes = [routed(one, stream.key_hashes[rows], rows) for one in (first, second)]
        assert (routes[0] == routes[1]).all()
        answer()
    saved, again = first.snapshot()["arrays"], second.snapshot()["arrays"]
    for name, array in saved.items():
        assert array.tobytes() == again[name].tobytes(), name


class Faulty(Unreliable):
    """A channel that loses, doubles and reorders until it is mended."""

    mended = False

    def _released(self, waiting: list[Any]) -> Iterator[Any]:
        if not self.mended:
            return super()._released(waiting)
        items = list(waiting)
        waiting.clear()
        return iter(items)


FAULTS = ("nothing", "agent", "reducer", "topics", "two reducers", "old table")


@settings(max_examples=40, deadline=None)
@given(
    faults=st.lists(st.tuples(st.sampled_from(FAULTS), st.integers(0, 2)), min_size=1, max_size=25),
    seed=st.integers(0, 1 << 20),
    chunk=st.sampled_from([173, 500, 1_300]),
)
def test_whatever_dies_routing_goes_on_tables_are_sound_and_the_group_meets_again(
    faults: list[tuple[str, int]], seed: int, chunk: int
) -> None:
    """Over a channel that loses, doubles and reorders, until it is mended at the end."""
    stream = zipf(50_000, 300, 1.4, seed=6)
    wrappers: list[Faulty] = []

    def wrap(channel: Any) -> Faulty:
        wrappers.append(Faulty(channel, seed + len(wrappers)))
        return wrappers[-1]

    group = Group(8, 3, reducer=ReducerConfig(lease_ms=3_000, wait_ms=500), wrap=wrap)
    left = iter(faults)

    def strike(start: int) -> None:
        fault, number = next(left, ("end", 0))
        if fault == "agent":  # dies, and another of its name takes its records over
            group.agents[number] = group.new_agent(f"agent {number}")
        elif fault == "reducer":
            group.reducer = None if number == 0 else group.new_reducer(start)
        elif fault == "topics":  # deleted, with all that was under way
            group.channel.receive(0.0)
            for wrapper in wrappers:
                wrapper.held.clear()
                wrapper.late.clear()
        elif fault == "two reducers":  # an older one lives still
            other = group.new_reducer(-1)
            for message in group.channel.receive(0.0):
                other.receive(message)
            group.now_ms += 501
            table = other.close_if_due()
            if table is not None:
                group.channel.broadcast(table)
        elif fault == "old table" and group.tables:
            group.channel.broadcast(group.tables[0])
        elif fault == "end":
            for wrapper in wrappers:
                wrapper.mended = True
            if group.reducer is None:
                group.reducer = group.new_reducer(start)

    out = group.run(stream.key_hashes, np.arange(50_000) % 3, chunk=chunk, on_chunk=strike)
    assert ((out >= 0) & (out < 8)).all()
    for table in group.tables:
        assert_sound(table)
    for agent in group.agents:
        assert ((q_values(agent) >= LOWEST_Q) & (q_values(agent) <= 1.0)).all()
        assert not agent.is_alone
    assert group.reducer is not None
    assert group.reducer.members == ["agent 0", "agent 1", "agent 2"]


def assert_sound(table: GlobalTable) -> None:
    assert len(table.keys) <= 2 * 8
    assert (np.diff(table.keys.astype(object)) > 0).all()
    assert table.values.shape == (8 * len(table.keys),)
    assert ((table.values >= LOWEST_Q) & (table.values <= 1.0)).all()
    assert 0.0 <= table.load < 1e7
    assert 1_000 <= table.interval_ms <= 600_000
