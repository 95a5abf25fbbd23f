"""`keyspread dalton-reducer` as a program of its own: served, killed, started again, ended."""

from __future__ import annotations

import json
import signal
import threading
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from partitioners.dalton.messages import LeaveMessage, encode
from partitioners.kafka.dalton_channel import sync_topic, table_topic
from tests.conftest import TopicFactory
from tests.integration.programs import Program
from tests.integration.sending import ordered_producer
from tests.integration.test_dalton_kafka import NUM_PARTITIONS, joined, route_until

pytestmark = pytest.mark.broker


class Reducer:
    """The command, and what it has printed so far."""

    def __init__(self, client_config: dict[str, Any], *args: str) -> None:
        bootstrap = client_config["bootstrap.servers"]
        self.program = Program(
            "dalton-reducer", "--bootstrap", bootstrap, "--wait-ms", "200", "--json", *args
        )
        self.rounds: list[dict[str, Any]] = []
        self.warnings: list[str] = []
        self.ready = threading.Event()
        self._readers = [
            threading.Thread(target=self._read_rounds, daemon=True),
            threading.Thread(target=self._read_words, daemon=True),
        ]
        for reader in self._readers:
            reader.start()
        assert self.ready.wait(120)
        assert self.program.process.poll() is None, self.warnings

    def _read_rounds(self) -> None:
        assert self.program.process.stdout is not None
        for line in self.program.process.stdout:
            self.rounds.append(json.loads(line))

    def _read_words(self) -> None:
        assert self.program.process.stderr is not None
        for line in self.program.process.stderr:
            self.warnings.append(line)
            self.ready.set()

    def end(self, number: signal.Signals) -> int:
        self.program.look()
        self.program.process.send_signal(number)
        code = self.program.process.wait(60)
        for reader in self._readers:
            reader.join(60)
        for pipe in (self.program.process.stdout, self.program.process.stderr):
            if pipe is not None:
                pipe.close()
        assert self.program.survivors() == []
        return code


def test_killed_and_started_again_it_goes_on_where_it_was(
    client_config: dict[str, Any], make_topic: TopicFactory
) -> None:
    topic = make_topic(NUM_PARTITIONS)
    first = Reducer(client_config, "--topic", topic)
    with (
        joined(client_config, topic, "a") as (one, route_one),
        joined(client_config, topic, "b") as (_, route_other),
    ):
        route_until(
            lambda: sum(told["agents"] == 2 for told in first.rounds) >= 5, route_one, route_other
        )
        assert first.end(signal.SIGKILL) == -signal.SIGKILL
        route_until(lambda: one.is_alone, route_one)  # routing goes on without it
        last = first.rounds[-1]["round"]
        second = Reducer(client_config, "--topic", topic)
        route_until(lambda: bool(second.rounds) and not one.is_alone, route_one, route_other)
        assert second.rounds[0]["round"] > 1  # the table of before was there
        route_until(lambda: second.rounds[-1]["round"] > last, route_one, route_other)
        assert second.rounds[-1]["hot_keys"] > 0
        assert second.end(signal.SIGINT) == 0
    assert "rounds; the producers go on alone" in second.warnings[-1]
    assert not [text for text in second.warnings if "Traceback" in text]


def test_lost_topics_and_strangers_are_one_warning_each(
    client_config: dict[str, Any], make_topic: TopicFactory
) -> None:
    topic = make_topic(NUM_PARTITIONS)
    reducer = Reducer(client_config, "--topic", topic)
    with joined(client_config, topic, "a") as (agent, route):
        route_until(lambda: not agent.is_alone, route)
        producer = ordered_producer(client_config)
        stranger = LeaveMessage(agent="x", epoch_ms=0)
        for _ in range(3):
            producer.produce(sync_topic(topic), encode(stranger, topic, NUM_PARTITIONS + 1))
            producer.produce(sync_topic(topic), encode(stranger, "other", NUM_PARTITIONS))
            producer.produce(sync_topic(topic), b"DLTNnot a message of any version")
        assert producer.flush(30) == 0

        def left_alone() -> list[str]:
            return [text for text in reducer.warnings if "left alone" in text]

        route_until(lambda: len(left_alone()) >= 3, route)
        admin = AdminClient({"bootstrap.servers": client_config["bootstrap.servers"]})
        topics = [sync_topic(topic), table_topic(topic)]
        for deleted in admin.delete_topics(topics, operation_timeout=30).values():
            deleted.result(30)
        before = reducer.rounds[-1]["round"] + 5  # some may be closed from what was under way
        route_until(lambda: reducer.rounds[-1]["round"] > before, route)
    assert reducer.end(signal.SIGTERM) == 0
    assert len(left_alone()) == 3
    assert len(reducer.warnings) == len(set(reducer.warnings))


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        ((), "give --topic, or --group and --partitions"),
        (("--group", "g"), "give --topic, whose partitions are counted"),
        (("--topic", "no-such-topic-here"), 'there is no topic "no-such-topic-here"'),
        (("--group", "g", "--partitions", "4", "--lease-ms", "0"), "lease_ms must be"),
    ],
)
def test_bad_options_are_one_sentence(
    client_config: dict[str, Any], args: tuple[str, ...], sentence: str
) -> None:
    program = Program("dalton-reducer", "--bootstrap", client_config["bootstrap.servers"], *args)
    code, _, err = program.finish()
    assert code == 2
    assert sentence in err
    assert err.count("\n") == 1
