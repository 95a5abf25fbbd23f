"""`run --sink`: Kafka and PostgreSQL get what the folder of a run has, and the oracle."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import duckdb
import psycopg
import pytest
from postgres_server import running_postgres
from pyspark.sql import SparkSession
from rich.console import Console

from pipelines.benchmark.parts import check_options, shipped_config
from pipelines.benchmark.prepare import RunConfig, make_run_folder, new_run_id
from pipelines.benchmark.progress import RunProgress, progress_bars
from pipelines.benchmark.run import execute
from pipelines.benchmark.site import Site
from pipelines.topics import client_settings
from pipelines.workloads.debs_q1 import DebsQ1
from tests.conftest import TopicFactory
from tests.integration.programs import keyed_lines
from tests.integration.reading import read_topic

pytestmark = [pytest.mark.broker, pytest.mark.spark]


@pytest.fixture(scope="module")
def postgres() -> Iterator[str]:
    with running_postgres() as uri:
        yield uri


@pytest.fixture(scope="module")
def site(broker: Any, spark: SparkSession) -> Site:
    settings = client_settings(broker.bootstrap, {})
    return Site(broker.bootstrap, settings, spark, ())


def carried_out(config: RunConfig, runs: Path, site: Site) -> Path:
    """The folder of a run that was exact."""
    check_options(config)
    folder = make_run_folder(runs, config)
    with progress_bars(Console(quiet=True), shown=True) as bars:
        progress = RunProgress(bars, "test", 0)
        cell = execute(config, folder, site, resumed=False, progress=progress)
    assert cell.differences == []
    return folder


def in_folder(folder: Path, columns: str) -> list[tuple[Any, ...]]:
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        return connection.execute(
            f"SELECT {columns} FROM '{folder}/results/*.parquet' ORDER BY ALL"
        ).fetchall()


def test_several_windows_go_to_a_topic_and_a_table(
    site: Site, postgres: str, make_topic: TopicFactory, client_config: Any, tmp_path: Path
) -> None:
    topic = make_topic(2)
    config = RunConfig(
        run_id=new_run_id(),
        workload="keyed-sum",
        inputs=(str(keyed_lines(tmp_path / "in.csv", 2_000)),),
        partitioner="pkg",
        partitions=2,
        window_ms=10_000,
        slide_ms=2_000,
        more_windows=((4_000, 4_000),),
        sinks=(f"kafka:{topic}", f"{postgres}#sums"),
    )
    folder = carried_out(config, tmp_path, site)
    expected = in_folder(
        folder, "epoch_ms(window_start), epoch_ms(window_end), decode(key), count, sum::BIGINT"
    )
    assert {end - start for start, end, *_ in expected} == {10_000, 4_000}
    with psycopg.connect(postgres) as connection:
        rows = connection.execute(
            "SELECT (extract(epoch FROM window_start) * 1000)::bigint, "
            "(extract(epoch FROM window_end) * 1000)::bigint, convert_from(key, 'UTF8'), count, "
            "sum::bigint FROM sums"
        ).fetchall()
    assert sorted(rows) == sorted(expected)
    messages = {
        record.key: json.loads(record.value or b"") for record in read_topic(client_config, topic)
    }
    found = [
        (m["window_start"], m["window_end"], m["count"], int(m["sum"])) for m in messages.values()
    ]
    assert sorted(found) == sorted((start, end, n, total) for start, end, _, n, total in expected)


def test_rows_per_event_go_to_a_table(site: Site, postgres: str, tmp_path: Path) -> None:
    assert DebsQ1.default_input is not None
    with gzip.open(DebsQ1.default_input, "rt") as file:
        (tmp_path / "trips.csv").write_text("".join(islice(file, 1_000)))
    config = replace(
        shipped_config(new_run_id(), "debs-q1", "shuffle", 3, {"per_event": True}),
        inputs=(str(tmp_path / "trips.csv"),),
        sinks=(f"{postgres}#top_routes",),
    )
    folder = carried_out(config, tmp_path, site)
    with psycopg.connect(postgres) as connection:
        rows = connection.execute("SELECT line, route_1, route_10 FROM top_routes").fetchall()
    assert sorted(rows, key=str) == sorted(in_folder(folder, "line, route_1, route_10"), key=str)
    assert len((folder / "debs-q1.csv").read_text().splitlines()) == len(rows) > 100
