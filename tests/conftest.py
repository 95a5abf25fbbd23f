"""What all tests share: one real broker and one Spark, and topics with names of their own."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
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


LEFT_OUT = {
    "containers": "tests/containers (clusters, TLS and logins, the compose stack), which need a "
    "Docker engine: run them with `make test-containers`",
    "airflow": "tests/airflow: run them with `make test-airflow`",
    "browser": "tests/browser (the report in Chromium): `make test-browser`",
}


@pytest.fixture
def make_topic(client_config: dict[str, object]) -> TopicFactory:
    def make(
        num_partitions: int = 4, topic_config: dict[str, str] | None = None, prefix: str = "t"
    ) -> str:
        name = f"{prefix}-{uuid.uuid4().hex[:12]}"
        assert ensure_topic(client_config, name, num_partitions, topic_config=topic_config)
        return name

    return make


def is_left_out(mark: str, config: pytest.Config) -> bool:
    """Whether a run is about other things than a mark."""
    marks = config.option.markexpr
    return mark not in marks or f"not {mark}" in marks


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Pass a folder over that needs what a machine may not have, unless `-m` asks for it."""
    folder = collection_path.name
    ours = collection_path.parent == Path(__file__).parent
    return True if ours and folder in LEFT_OUT and is_left_out(folder, config) else None


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Say what a run without a Docker engine, Airflow or a browser leaves out."""
    # Who asks for one of them knows what it is.
    if all(is_left_out(mark, config) for mark in LEFT_OUT):
        terminalreporter.write_line(f"left out: {'; '.join(LEFT_OUT.values())}")
