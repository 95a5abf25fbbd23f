"""The PostgreSQL sink where query and database are killed in the middle: no window twice."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pyspark.sql import SparkSession
from testcontainers.core.container import DockerContainer

from tests.containers.kafka_cluster import free_ports
from tests.containers.versions import image
from tests.containers.waiting import wait_until
from tests.integration import sinks_job
from tests.integration.test_sinks import NUM_RECORDS, by_place, fill, in_table, job

pytestmark = [pytest.mark.containers, pytest.mark.broker, pytest.mark.spark]


class Postgres(DockerContainer):
    """A database whose port stays when it is killed and started again."""

    def __init__(self) -> None:
        super().__init__(image("POSTGRES"), mem_limit="256m")
        (port,) = free_ports(1)
        self.ports["5432/tcp"] = ("127.0.0.1", port)  # type: ignore[assignment]
        self.with_envs(POSTGRES_USER="me", POSTGRES_PASSWORD="secret", POSTGRES_DB="results")
        self.uri = f"postgresql://me:secret@127.0.0.1:{port}/results"

    def answers(self) -> bool:
        """Whether it takes queries."""
        try:
            psycopg.connect(self.uri, connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True


@pytest.fixture
def postgres() -> Iterator[Postgres]:
    with Postgres() as running:
        wait_until(running.answers, "a database")
        yield running


def test_query_and_database_are_killed(
    postgres: Postgres,
    spark: SparkSession,
    bootstrap: str,
    client_config: dict[str, Any],
    make_topic: Any,
    tmp_path: Path,
) -> None:
    topic = make_topic(3)
    expected, dead = fill(topic, client_config)
    commits = tmp_path / "results.checkpoint" / "commits"

    def committed() -> int:
        return sum(path.name.isdigit() for path in commits.glob("*"))

    with job(tmp_path / "log", bootstrap, topic, tmp_path, postgres.uri) as wait:
        wait(lambda: committed() >= 2, "a second batch")
        # First the database, so that the query meets its end in the midst of a batch.
        postgres.get_wrapped_container().kill()
    postgres.get_wrapped_container().start()
    wait_until(postgres.answers, "a database again")
    query = sinks_job.start(bootstrap, topic, tmp_path, postgres.uri, spark=spark)
    try:
        query.process_available()
        progress, results = query.progress, by_place(query.results().to_dicts())
    finally:
        query.stop()
    assert (progress.on_time, progress.late, progress.dead) == (NUM_RECORDS, 0, len(dead))
    assert len(results) > 100
    assert results == {place: expected[place] for place in results}
    assert in_table(postgres.uri, "windows") == results
