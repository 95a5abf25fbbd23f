"""What all tests share: one real broker and one Spark, and topics with names of their own."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

import pytest

from partitioners.kafka import ensure_topic
from pipelines.broker import EmbeddedBroker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


# A program for Airflow's Python: this one cannot import it, also not to look for doctests.
collect_ignore = ["airflow/look_at_dags.py"]


class TopicFactory(Protocol):
    """Makes a topic that no other test has."""

    def __call__(
        self, num_partitions: int = 4, topic_config: dict[str, str] | None = None, prefix: str = "t"
    ) -> str: ...


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    """A broker for all tests that do not stop theirs."""
    with EmbeddedBroker(tmp_path_factory.mktemp("broker"), quick_start=True) as running:
        yield running


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A Spark session for all tests that run in this process."""
    from pipelines.benchmark.site import QUICK_START
    from pipelines.session import spark_session

    folder = tmp_path_factory.mktemp("spark")
    session = spark_session(
        "local[2]", local_dir=folder, log_file=folder / "spark.log", config=QUICK_START
    )
    yield session
    session.stop()


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


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Say what a run without a Docker engine, Airflow and a browser leaves out."""
    if config.option.markexpr == "not containers and not airflow and not browser":
        terminalreporter.write_line(
            "left out: tests/containers (clusters, TLS and logins, the compose stack), which need "
            "a Docker engine: run them with `make test-containers`; tests/airflow: run them with "
            "`make test-airflow`; tests/browser (the report in Chromium): `make test-browser`"
        )
