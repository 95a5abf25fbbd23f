"""Dalton's agents and reducer over a real broker."""

from __future__ import annotations

import logging
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from confluent_kafka.admin import AdminClient

from partitioners.dalton import CooperativeDalton, QTableReducer, ReducerConfig, run_reducer
from partitioners.dalton.messages import LeaveMessage, encode
from partitioners.kafka.dalton_channel import (
    KafkaAgentChannel,
    KafkaReducerChannel,
    sync_topic,
    table_topic,
)
from partitioners.streams import zipf
from tests.integration.sending import ordered_producer

pytestmark = pytest.mark.broker

NUM_PARTITIONS = 8
STREAM = zipf(50_000, 500, 1.4, seed=3)


def clock() -> int:
    return time.monotonic_ns() // 1_000_000


@pytest.fixture
def group() -> str:
    return f"g-{uuid.uuid4().hex[:12]}"


@contextmanager
def reducing(
    client_config: dict[str, object], group: str, epoch_ms: int = 0, lease_ms: int = 30_000
) -> Iterator[QTableReducer]:
    channel = KafkaReducerChannel(client_config, group, NUM_PARTITIONS)
    config = ReducerConfig(max_interval_ms=1_000, wait_ms=200, lease_ms=lease_ms)
    reducer = QTableReducer(NUM_PARTITIONS, config, clock=clock, epoch_ms=epoch_ms)
    stop = threading.Event()
    service = threading.Thread(
        target=run_reducer, args=(channel, reducer), kwargs={"clock": clock, "stop": stop}
    )
    service.start()
    try:
        yield reducer
    finally:
        stop.set()
        service.join(60)
        channel.close()


@contextmanager
def joined(
    client_config: dict[str, object], group: str, name: str
) -> Iterator[tuple[CooperativeDalton, Callable[[], None]]]:
    """An agent, and a way to let it route one more interval."""
    channel = KafkaAgentChannel(client_config, group, NUM_PARTITIONS)
    agent = CooperativeDalton(NUM_PARTITIONS, channel=channel, agent=name)
    now = [0]

    def route_more() -> None:
        rows = np.arange(now[0], now[0] + 1_000)
        out = np.empty(1_000, np.int32)
        agent.route(STREAM.key_hashes[rows % 50_000], rows, out)
        assert out.max() < NUM_PARTITIONS
        now[0] += 1_000

    try:
        yield agent, route_more
    finally:
        agent.leave()


def route_until(done: Callable[[], bool], *steps: Callable[[], None]) -> None:
    """Route on until something holds; a minute without it is a failure."""
    deadline = time.monotonic() + 60
    while not done():
        assert time.monotonic() < deadline
        for step in steps:
            step()


def test_agents_learn_together_and_a_late_one_starts_warm(
    client_config: dict[str, object], group: str
) -> None:
    with (
        joined(client_config, group, "a") as (one, route_one),
        joined(client_config, group, "b") as (other, route_other),
        reducing(client_config, group) as reducer,
    ):
        route_until(
            lambda: not one.is_alone and not other.is_alone and reducer.members == ["a", "b"],
            route_one,
            route_other,
        )
        rounds = reducer.round_number
        with joined(client_config, group, "c") as (late, route_late):
            route_until(lambda: not late.is_alone, route_late)
            assert late._state.sync[4] >= min(rounds, 1)
    # Another reducer goes on from the compacted topic.
    with (
        reducing(client_config, group, epoch_ms=1) as heir,
        joined(client_config, group, "d") as (_, route),
    ):
        route_until(lambda: heir.round_number > rounds, route)


def test_a_producer_killed_in_mid_sync_is_dropped_and_the_others_go_on(
    client_config: dict[str, object], group: str
) -> None:
    program = Path(__file__).with_name("dalton_agent_program.py")
    bootstrap = client_config["bootstrap.servers"]
    with (
        reducing(client_config, group, lease_ms=3_000) as reducer,
        joined(client_config, group, "a") as (one, route),
        subprocess.Popen(
            [sys.executable, program, str(bootstrap), group, str(NUM_PARTITIONS), "killed"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as process,
    ):
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "joined\n"
            assert process.stdout.readline() == "awaits\n"
            route_until(lambda: reducer.members == ["a", "killed"], route)
        finally:
            process.send_signal(signal.SIGKILL)
        assert process.wait(60) == -signal.SIGKILL
        route_until(lambda: reducer.members == ["a"], route)
        before = reducer.round_number
        route_until(lambda: reducer.round_number > before + 2 and not one.is_alone, route)
        # One of the same name takes its place, and starts from the table of all.
        with joined(client_config, group, "killed") as (heir, route_heir):
            route_until(lambda: not heir.is_alone and len(reducer.members) == 2, route, route_heir)
            # It may read an older table first, where the topic still holds one.
            route_until(lambda: heir._state.sync[4] >= before, route, route_heir)


def test_routing_goes_on_when_the_topics_are_deleted_and_the_group_meets_again(
    client_config: dict[str, object], group: str, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        joined(client_config, group, "a") as (agent, route),
        reducing(client_config, group) as reducer,
        caplog.at_level(logging.WARNING),
    ):
        route_until(lambda: not agent.is_alone, route)
        admin = AdminClient({"bootstrap.servers": client_config["bootstrap.servers"]})
        topics = [sync_topic(group), table_topic(group)]
        for deleted in admin.delete_topics(topics, operation_timeout=30).values():
            deleted.result(30)
        # Messages still under way may close a round or two without the topics.
        before = reducer.round_number + 5
        route_until(lambda: agent._state.sync[4] > before, route)
    said = [record.getMessage() for record in caplog.records if group in record.getMessage()]
    assert len(said) == len(set(said))


def test_strangers_on_the_topic_are_left_alone_with_one_warning_each(
    client_config: dict[str, object], group: str, caplog: pytest.LogCaptureFixture
) -> None:
    stranger = LeaveMessage(agent="x", epoch_ms=0)

    def left_alone() -> list[str]:
        texts = [record.getMessage() for record in caplog.records]
        return [text for text in texts if group in text and "left alone" in text]

    with (
        caplog.at_level(logging.WARNING),
        reducing(client_config, group) as reducer,
        joined(client_config, group, "a") as (agent, route),
    ):
        route_until(lambda: not agent.is_alone, route)
        producer = ordered_producer(client_config)
        for _ in range(3):
            producer.produce(sync_topic(group), encode(stranger, group, NUM_PARTITIONS + 1))
            producer.produce(sync_topic(group), encode(stranger, "other", NUM_PARTITIONS))
            producer.produce(sync_topic(group), b"something else")
        assert producer.flush(30) == 0
        route_until(lambda: len(left_alone()) >= 3, route)
        before = reducer.round_number
        route_until(lambda: reducer.round_number > before, route)
        assert reducer.members == ["a"]
    assert len(left_alone()) == 3
