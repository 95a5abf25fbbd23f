"""What all tests share: one real broker for the session, and topics with names of their own."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Protocol

import pytest

from partitioners.kafka import ensure_topic
from pipelines.broker import EmbeddedBroker


class TopicFactory(Protocol):
    """Makes a topic that no other test has."""

    def __call__(
        self, num_partitions: int = 4, topic_config: dict[str, str] | None = None, prefix: str = "t"
    ) -> str: ...


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    """A broker for all tests that do not stop theirs."""
    with EmbeddedBroker(tmp_path_factory.mktemp("broker")) as running:
        yield running


@pytest.fixture
def bootstrap(broker: EmbeddedBroker) -> str:
    return broker.bootstrap


@pytest.fixture
def client_config(bootstrap: str) -> dict[str, object]:
    """Settings of a confluent-kafka client of the session's broker."""
    return {"bootstrap.servers": bootstrap, "log_level": 2}


@pytest.fixture
def make_topic(client_config: dict[str, object]) -> TopicFactory:
    def make(
        num_partitions: int = 4, topic_config: dict[str, str] | None = None, prefix: str = "t"
    ) -> str:
        name = f"{prefix}-{uuid.uuid4().hex[:12]}"
        assert ensure_topic(client_config, name, num_partitions, topic_config=topic_config)
        return name

    return make
