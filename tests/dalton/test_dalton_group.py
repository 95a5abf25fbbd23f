"""Several agents: as good as one, sound under every fault, never waiting."""

from __future__ import annotations

import dataclasses
import pickle
import threading
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from dalton_groups import Group, Unreliable
from hypothesis import given, settings
from hypothesis import strategies as st

from partitioners.dalton import (
    AgentChannel,
    CooperativeConfig,
    CooperativeDalton,
    Dalton,
    DaltonConfig,
    GlobalTable,
    LeaveMessage,
    MemoryChannel,
    QTableReducer,
    ReducerConfig,
    SyncMessage,
    run_reducer,
)
from partitioners.errors import InputError
from partitioners.metrics import imbalance
from partitioners.streams import Stream, uniform, zipf

NUM_PARTITIONS = 16
WINDOW = 60_000


def qualities(stream: Stream, partitions: npt.NDArray[np.int32]) -> tuple[float, float, float]:
    """Imbalance of the stream, mean imbalance and mean fragmentation of its windows."""
    windows = [slice(start, start + WINDOW) for start in range(0, len(partitions), WINDOW)]
    parts = [np.bincount(partitions[rows], minlength=NUM_PARTITIONS) for rows in windows]
    pairs = [
        len(np.unique(stream.ids[rows].astype(np.int64) * NUM_PARTITIONS + partitions[rows]))
        / len(np.unique(stream.ids[rows]))
        for rows in windows
    ]
    whole = np.bincount(partitions, minlength=NUM_PARTITIONS)
    return (
        imbalance(whole),
        float(np.mean([imbalance(counts) for counts in parts])),
        float(np.mean(pairs)),
    )


class MixedStream:
    """Records of two streams in turn: agents of even number see one, of odd number the other."""

    def __init__(self, one: Stream, other: Stream) -> None:
        odd = np.arange(len(one.ids)) % 2 == 1
        self.ids = np.where(odd, other.ids, one.ids)
        self.key_hashes = np.where(odd, other.key_hashes, one.key_hashes)


STREAMS: dict[str, Any] = {
    "zipf": lambda: zipf(300_000, 10_000, 1.4, seed=1),
    "half uniform": lambda: MixedStream(
        uniform(300_000, 10_000, seed=2), zipf(300_000, 10_000, 1.5, seed=3)
    ),
}


@pytest.mark.parametrize("name", sorted(STREAMS))
def test_eight_agents_are_as_good_as_one(name: str) -> None:
    stream = STREAMS[name]()
    one = np.empty(len(stream.ids), np.int32)
    times = np.arange(len(one))
    Dalton(NUM_PARTITIONS, DaltonConfig(slide_ms=10_000)).route(stream.key_hashes, times, one)
    group = Group(NUM_PARTITIONS, 8, slide_ms=10_000)
    eight = group.run(stream.key_hashes, np.arange(len(one)) % 8)
    assert not any(agent.is_alone for agent in group.agents)
    for ours, single in zip(qualities(stream, eight), qualities(stream, one), strict=True):
        assert ours <= 1.1 * single


def test_a_run_repeats() -> None:
    stream = zipf(60_000, 2_000, 1.4, seed=4)
    owners = np.random.default_rng(1).integers(0, 3, len(stream.ids))
    runs = [Group(8, 3).run(stream.key_hashes, owners) for _ in range(2)]
    assert (runs[0] == runs[1]).all()


def test_a_key_hot_for_all_but_for_no_agent_is_split() -> None:
    # 4 agents; key 7 has 7 % of each one's records, of 16 partitions: hot by 1/16 together. One
    # agent alone sees 70 of 1,000, the threshold of the group is 4,000 / 16 = 250.
    draws = np.random.default_rng(2)
    cold = draws.integers(100, 1 << 50, 80_000).astype(np.uint64)
    hashes = np.where(draws.random(80_000) < 0.08, np.uint64(7), cold)
    group = Group(16, 4)
    out = group.run(hashes, np.arange(80_000) % 4)
    assert group.tables[-1].keys.tolist() == [7]
    late = np.arange(80_000) > 20_000
    assert len(set(out[(hashes == 7) & late].tolist())) > 4
    assert all(agent._state.amounts[0] == pytest.approx(1_000 / 16) for agent in group.agents)


def test_a_key_hot_for_one_agent_alone_stays_whole() -> None:
    # Agent 0 sees a tenth of the stream, a third of it key 7: 3 % of all, below 1/16.
    draws = np.random.default_rng(3)
    hashes = draws.integers(100, 1 << 50, 100_000).astype(np.uint64)
    owners = draws.integers(0, 10, 100_000)
    hashes[(owners == 0) & (draws.random(100_000) < 0.3)] = 7
    group = Group(16, 10)
    out = group.run(hashes, owners)
    late = np.arange(100_000) > 5_000
    assert len(set(out[(hashes == 7) & late].tolist())) == 1


def test_values_are_averaged_by_load() -> None:
    reducer = QTableReducer(2, clock=lambda: 0)
    for agent, load, values in (("a", 300.0, [0.4, -2.0]), ("b", 100.0, [0.0, 0.2])):
        reducer.receive(message_of(agent, load=load, values=values))
    table = reducer.close_if_due()
    assert table is not None
    assert table.load == 400.0
    assert table.values.tolist() == pytest.approx([0.3, -1.45])


def message_of(
    agent: str,
    *,
    sequence: int = 1,
    load: float = 100.0,
    values: list[float] | None = None,
    wants_longer: bool = False,
    interval_ms: int = 1_000,
    epoch_ms: int = 0,
) -> SyncMessage:
    values = [-0.5, -0.25] if values is None else values
    return SyncMessage(
        agent=agent,
        epoch_ms=epoch_ms,
        sequence=sequence,
        interval_ms=interval_ms,
        wants_longer=wants_longer,
        load=load,
        top_keys=np.array([7], np.uint64),
        top_loads=np.array([load]),
        row_keys=np.array([7], np.uint64),
        row_loads=np.array([load]),
        row_values=np.array(values),
    )


@settings(max_examples=100, deadline=None)
@given(
    loads=st.lists(st.floats(0, 1e6), min_size=1, max_size=6),
    values=st.lists(st.floats(-2, 1), min_size=12, max_size=12),
)
def test_an_average_lies_between_the_values(loads: list[float], values: list[float]) -> None:
    reducer = QTableReducer(2, clock=lambda: 0)
    rows = [values[2 * place : 2 * place + 2] for place in range(len(loads))]
    for number, (load, row) in enumerate(zip(loads, rows, strict=True)):
        reducer.receive(message_of(f"{number}", load=load, values=row))
    table = reducer.close_if_due()
    assert table is not None
    if table.keys.size:
        weights = np.array(loads) / sum(loads)
        expected = weights @ np.array(rows)
        assert table.values.tolist() == pytest.approx(expected.tolist(), abs=1e-9)
        assert (table.values <= 1.0).all()
        assert (table.values >= -2.0).all()


def test_a_round_waits_for_members_but_not_for_ever() -> None:
    now = [0]
    reducer = QTableReducer(2, ReducerConfig(lease_ms=5_000, wait_ms=1_000), clock=lambda: now[0])
    for agent in "ab":
        reducer.receive(message_of(agent))
    assert reducer.close_if_due() is not None
    reducer.receive(message_of("a", sequence=2))
    assert reducer.close_if_due() is None  # b holds a lease
    now[0] = 1_000
    table = reducer.close_if_due()
    assert table is not None
    assert table.num_agents == 1
    reducer.receive(LeaveMessage(agent="b", epoch_ms=0))
    assert reducer.members == ["a"]
    reducer.receive(message_of("a", sequence=3))
    assert reducer.close_if_due() is not None  # nobody else to wait for
    now[0] = 7_000
    assert reducer.members == []


def test_late_and_doubled_messages_change_nothing() -> None:
    reducer = QTableReducer(2, clock=lambda: 0)
    reducer.receive(message_of("a", sequence=2, load=200.0))
    reducer.receive(message_of("a", sequence=1, load=900.0))
    reducer.receive(message_of("a", sequence=2, load=900.0))
    first = reducer.close_if_due()
    assert first is not None
    assert first.load == 200.0
    reducer.receive(message_of("a", sequence=2, load=900.0))
    assert reducer.close_if_due() is None
    reducer.receive(message_of("a", sequence=1, load=50.0, epoch_ms=9))  # it started again
    again = reducer.close_if_due()
    assert again is not None
    assert again.load == 50.0


def test_intervals_double_on_a_wish_and_fall_when_idle_to_the_bound() -> None:
    config = ReducerConfig(interval_ms=4_000, min_interval_ms=1_000, max_interval_ms=16_000)
    reducer = QTableReducer(2, config, clock=lambda: 0)
    lengths = []
    for sequence in range(1, 40):
        reducer.note_time(busy_ms=1, idle_ms=100)
        wish = sequence <= 4
        reducer.receive(message_of("a", sequence=sequence, wants_longer=wish))
        table = reducer.close_if_due()
        assert table is not None
        lengths.append(table.interval_ms)
    assert lengths[:4] == [8_000, 16_000, 16_000, 16_000]
    assert sorted(set(lengths[4:]), reverse=True) == [16_000, 8_000, 4_000, 2_000, 1_000]
    assert lengths[-1] == 1_000
    busy = QTableReducer(2, config, clock=lambda: 0)
    for sequence in range(1, 40):
        busy.note_time(busy_ms=100, idle_ms=1)
        busy.receive(message_of("a", sequence=sequence))
        busy.close_if_due()
    assert busy.interval_ms == 4_000


def test_an_agent_still_waiting_wishes_for_longer_intervals() -> None:
    stream = zipf(20_000, 500, 1.4, seed=5)
    group = Group(8, 1)
    held, group.reducer = group.reducer, None

    def back_at_five(start: int) -> None:
        if start == 5_000:
            group.reducer = held

    group.run(stream.key_hashes, np.zeros(20_000, np.int64), on_chunk=back_at_five)
    assert group.agents[0].interval_ms == 2_000
    assert group.tables[0].interval_ms == 2_000


def test_rewards_seen_while_waiting_are_on_top_of_the_answer() -> None:
    # Interval 0 is answered at once; in interval 1 the key turns hot; its message is answered after
    # 100 more records. The value is then the answer's, moved by their rewards as in equation 5.
    hashes = np.full(3_000, 7, np.uint64)
    config = CooperativeConfig(window_ms=10_000, slide_ms=1_000, exploration=0.0)
    channel = MemoryChannel()
    agent = CooperativeDalton(4, config, channel=channel.agent(), agent="a", clock=lambda: 0)
    out = np.empty(3_000, np.int32)
    times = np.arange(3_000)
    nothing = GlobalTable(
        epoch_ms=0,
        round_number=1,
        interval_ms=1_000,
        num_agents=1,
        load=1_000.0,
        keys=np.empty(0, np.uint64),
        rounds_left=np.empty(0, np.int64),
        values=np.empty(0),
    )
    agent.route(hashes[:1_001], times[:1_001], out[:1_001])
    channel.broadcast(nothing)
    agent.route(hashes[1_001:2_100], times[1_001:2_100], out[1_001:2_100])
    assert agent.awaits
    _, message = channel.receive(0.0)
    assert isinstance(message, SyncMessage)
    assert not message.wants_longer
    sent = message.row_values
    home = int(out[2_050])
    before = agent._state.kept_share.copy(), agent._state.kept_gain.copy()
    rewarded = np.flatnonzero(before[0] != 1.0)
    assert rewarded.tolist() == [home]  # the row is the first, n a power of two
    answer = dataclasses.replace(
        nothing,
        round_number=2,
        keys=np.array([7], np.uint64),
        rounds_left=np.array([2]),
        values=sent * 0.5,
    )
    channel.broadcast(answer)
    agent.route(hashes[:0], times[:0], out[:0])
    assert not agent.awaits
    expected = sent[home] * 0.5 * before[0][home] + before[1][home]
    leaf = agent._state.values[4]  # leaf 0 of row 0 is home
    assert leaf == pytest.approx(expected)


def test_agents_go_on_alone_without_a_reducer_and_come_back() -> None:
    stream = zipf(60_000, 2_000, 1.4, seed=6)
    group = Group(8, 3)
    kept = group.reducer

    def fault(start: int) -> None:
        if start == 10_000:
            group.reducer = None
        if start == 30_000:
            assert all(agent.is_alone for agent in group.agents)
            group.reducer = group.new_reducer(30_000)  # restarted with empty hands

    out = group.run(stream.key_hashes, np.arange(60_000) % 3, on_chunk=fault)
    assert kept is not group.reducer
    assert not any(agent.is_alone for agent in group.agents)
    assert ((out >= 0) & (out < 8)).all()


def test_a_late_agent_starts_warm() -> None:
    stream = zipf(20_000, 500, 1.4, seed=7)
    group = Group(8, 2)
    group.run(stream.key_hashes, np.arange(20_000) % 2)
    late = group.new_agent("late")
    out = np.empty(1, np.int32)
    late.route(stream.key_hashes[:1], np.array([20_000]), out)
    assert not late.is_alone
    rows = late._state.rows.reshape(-1, 8)
    assert sorted(rows[rows[:, 6] == 1, 0].view(np.uint64)) == group.tables[-1].keys.tolist()


def test_agents_join_leave_and_die() -> None:
    stream = zipf(60_000, 2_000, 1.4, seed=8)
    group = Group(8, 4, reducer=ReducerConfig(lease_ms=3_000, wait_ms=500))
    owners = np.arange(60_000) % 4

    def change(start: int) -> None:
        if start == 10_000:
            group.agents[3].leave()
        if start == 20_000:  # dies without a word, and another takes over its records
            group.agents[2] = group.new_agent("agent 2 again")

    group.run(stream.key_hashes, owners, on_chunk=change)
    assert group.reducer is not None
    assert group.reducer.members == ["agent 0", "agent 1", "agent 2 again"]
    assert group.agents[3].is_alone
    assert not group.agents[2].is_alone
    assert len(group.tables) > 40


@pytest.mark.parametrize("seed", range(4))
def test_tables_stay_sound_on_a_channel_that_loses_doubles_and_reorders(seed: int) -> None:
    stream = zipf(30_000, 1_000, 1.4, seed=seed)
    dice = iter(range(seed * 100, seed * 100 + 100))
    group = Group(8, 3, wrap=lambda channel: Unreliable(channel, next(dice)))
    out = group.run(stream.key_hashes, np.arange(30_000) % 3, chunk=211)
    assert ((out >= 0) & (out < 8)).all()
    assert len(group.tables) > 5
    for table in group.tables:
        assert len(table.keys) <= 2 * 8
        assert ((table.values >= -2.0) & (table.values <= 1.0)).all()
        assert np.isfinite(table.load)
    for agent in group.agents:
        values = agent._state.values
        live = values[np.isfinite(values)]
        assert ((live >= -2.0) & (live <= 1.0)).all()


def test_a_snapshot_in_mid_sync_goes_on_as_the_original() -> None:
    stream = zipf(12_000, 500, 1.4, seed=9)
    times = np.arange(12_000)
    config = CooperativeConfig()
    answers = MemoryChannel()
    first = CooperativeDalton(8, config, channel=answers.agent(), agent="a", clock=lambda: 0)
    out = np.empty(12_000, np.int32)
    first.route(stream.key_hashes[:4_500], times[:4_500], out[:4_500])
    assert first.awaits
    saved = pickle.loads(pickle.dumps(first.snapshot()))
    second = CooperativeDalton(8, config, channel=answers.agent(), agent="a", clock=lambda: 0)
    second.restore(saved)
    assert second.awaits
    reducer = QTableReducer(8, clock=lambda: 0)
    for message in answers.receive(0.0):
        reducer.receive(message)
    table = reducer.close_if_due()
    assert table is not None
    answers.broadcast(table)
    again = out.copy()
    first.route(stream.key_hashes[4_500:], times[4_500:], out[4_500:])
    second.route(stream.key_hashes[4_500:], times[4_500:], again[4_500:])
    assert (out == again).all()
    assert first._state.sync.tolist() == second._state.sync.tolist()


def test_without_a_channel_it_decides_as_one_agent() -> None:
    stream = zipf(20_000, 1_000, 1.4, seed=10)
    times = np.arange(20_000)
    alone, one = np.empty(20_000, np.int32), np.empty(20_000, np.int32)
    CooperativeDalton(8).route(stream.key_hashes, times, alone)
    Dalton(8).route(stream.key_hashes, times, one)
    assert (alone == one).all()
    copied = pickle.loads(pickle.dumps(CooperativeDalton(8)))
    copied.route(stream.key_hashes, times, alone)
    assert (alone == one).all()


def test_the_service_answers_until_told_to_stop() -> None:
    channel = MemoryChannel()
    now = [0]

    def clock() -> int:
        now[0] += 1
        return now[0]

    stop, closed = threading.Event(), threading.Event()
    reducer = QTableReducer(2, clock=clock)
    rounds: list[int] = []
    service = threading.Thread(
        target=lambda: rounds.append(
            run_reducer(channel, reducer, clock=clock, stop=stop, on_round=lambda _: closed.set())
        )
    )
    agent = channel.agent()
    service.start()
    agent.send(message_of("a"))
    assert closed.wait(30)
    stop.set()
    service.join(30)
    assert rounds == [1]
    (table,) = agent.receive()
    assert table.keys.tolist() == [7]
    # Another reducer goes on where this one ended.
    stop.clear()
    heir = QTableReducer(2, clock=clock)
    stop.set()
    run_reducer(channel, heir, clock=clock, stop=stop)
    assert heir.round_number == 1


def test_bad_bounds_are_refused() -> None:
    with pytest.raises(InputError, match="min_interval_ms"):
        ReducerConfig(interval_ms=100, min_interval_ms=200)
    with pytest.raises(InputError, match="patience must be"):
        CooperativeConfig(patience=0)


class _Dies(Exception):  # noqa: N818 - no error, the end of a process
    pass


class _Deadly:
    """A channel whose agent is killed at one step of a sync."""

    def __init__(self, inner: AgentChannel, step: str) -> None:
        self.inner, self.step, self.calls = inner, step, 0

    def _dies_at(self, step: str) -> None:
        self.calls += self.step == step
        if self.step == step and self.calls == 5:
            raise _Dies

    def send(self, message: SyncMessage | LeaveMessage) -> None:
        self._dies_at("before sending")
        self.inner.send(message)
        self._dies_at("after sending")

    def receive(self) -> list[GlobalTable]:
        tables = self.inner.receive()
        if tables:
            self._dies_at("with the answer in hand")
        return tables

    def close(self) -> None:
        self.inner.close()


@pytest.mark.parametrize("step", ["before sending", "after sending", "with the answer in hand"])
def test_an_agent_killed_at_any_step_of_a_sync_is_replaced(step: str) -> None:
    stream = zipf(40_000, 1_000, 1.4, seed=11)
    times = np.arange(40_000)
    deadly = [True]

    def wrap(channel: AgentChannel) -> AgentChannel:
        if deadly:
            deadly.clear()
            return _Deadly(channel, step)
        return channel

    group = Group(8, 2, reducer=ReducerConfig(lease_ms=3_000, wait_ms=500), wrap=wrap)
    killed_ms = -1
    for start in range(0, 40_000, 500):
        group.now_ms = start
        for number in range(2):
            rows = slice(start + number, start + 500, 2)
            out = np.empty(250, np.int32)
            try:
                group.agents[number].route(stream.key_hashes[rows], times[rows], out)
            except _Dies:
                killed_ms = start
                group.agents[number] = group.new_agent(f"agent {number}")  # the same name again
                group.agents[number].route(stream.key_hashes[rows], times[rows], out)
            assert out.max() < 8
        group.reduce()
    assert killed_ms > 0
    assert group.reducer is not None
    assert group.reducer.members == ["agent 0", "agent 1"]
    assert not any(agent.is_alone for agent in group.agents)
    # Rounds went on meanwhile, and both were in the last ones.
    assert len(group.tables) >= 36
    assert group.tables[-1].num_agents == 2
