"""Whole runs with the real broker and the real Spark, compared with DuckDB window by window."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pytest
from pyspark.sql import SparkSession
from rich.console import Console

from partitioners.errors import InputError
from pipelines.benchmark.cell import Cell
from pipelines.benchmark.oracle import Oracle
from pipelines.benchmark.parts import make_workload
from pipelines.benchmark.prepare import RunConfig, make_run_folder, new_run_id
from pipelines.benchmark.progress import RunProgress, progress_bars
from pipelines.benchmark.report import read_cells, run_summary
from pipelines.benchmark.run import execute
from pipelines.benchmark.site import Site
from pipelines.topics import client_settings, require_topic
from tests.integration.programs import keyed_lines

pytestmark = [pytest.mark.broker, pytest.mark.spark]


@pytest.fixture(scope="module")
def site(broker: Any, spark: SparkSession) -> Site:
    """The broker and the Spark session that all tests share."""
    settings = client_settings(broker.bootstrap, {})
    return Site(broker.bootstrap, settings, spark, ())


@pytest.fixture(scope="module")
def disordered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """20,000 records up to a second out of order, with odd keys and bad lines among them."""
    path = keyed_lines(tmp_path_factory.mktemp("input") / "in.csv", 20_000, disorder_ms=1_000)
    lines = path.read_text().splitlines()
    lines[500:500] = [
        "5000,,1",
        "5001,k\x00nul,2",
        "5002," + "x" * 100_000 + ",3",
        "5003,a,b,4",
        "not a record",
        "5004,key,many",
        "-7000,before the epoch,5",
    ]
    path.write_text("\n".join(lines) + "\n")
    return path


def carried_out(site: Site, runs: Path, path: Path, **changes: Any) -> tuple[Cell, Path]:
    base = RunConfig(
        run_id=new_run_id(),
        workload="keyed-sum",
        inputs=(str(path),),
        partitioner="pkg",
        partitions=3,
        window_ms=10_000,
        slide_ms=2_000,
        punctuation_records=200,
    )
    config = replace(base, **changes)
    config.check()
    folder = make_run_folder(runs, config)
    with progress_bars(Console(quiet=True), shown=True) as bars:
        progress = RunProgress(bars, "test", path.stat().st_size)
        return execute(config, folder, site, resumed=False, progress=progress), folder


@pytest.mark.parametrize(
    "changes",
    [
        {"emit": "all", "partitioner": "cam", "sources": 3, "lateness_ms": 200},
        {"emit": "top", "top": 3, "partitioner": "w_choices", "partitions": 8, "shards": 3},
        {"emit": "changed", "partitioner": "shuffle", "lateness_ms": 5_000},
    ],
    ids=lambda changes: changes["emit"],
)
def test_every_window_equals_the_oracle(
    site: Site, tmp_path: Path, disordered: Path, changes: dict[str, Any]
) -> None:
    cell, folder = carried_out(site, tmp_path, disordered, **changes)
    assert cell.differences == []
    assert cell.exact
    assert cell.windows_compared > 90
    assert cell.read == 20_007
    assert (cell.produced, cell.dead, cell.ignored) == (20_005, 2, 0)
    assert cell.delivered == cell.produced == cell.on_time + cell.late
    # Out of order by more than the lateness, some records miss a window; by less, one does.
    assert cell.late == 1 if cell.config["lateness_ms"] == 5_000 else cell.late > 100
    assert sum(cell.records_per_partition) == cell.produced
    assert len(cell.combine_seconds_per_partition) == cell.partitions
    assert len(cell.reduce_seconds_per_shard) == cell.shards
    assert cell.latency_ms["p50"] is not None
    dead = map(json.loads, (folder / "dead-letters.jsonl").read_text().splitlines())
    assert [(line["line_number"], line["text"]) for line in dead] == [
        (505, "not a record"),
        (506, "5004,key,many"),
    ]


def test_results_are_parquet_with_named_columns_and_a_wrong_row_is_found(
    site: Site, tmp_path: Path
) -> None:
    results = tmp_path / "results"
    path = keyed_lines(tmp_path / "in.csv", 3_000)
    cell, folder = carried_out(site, tmp_path, path, results_dir=str(results))
    assert cell.exact
    assert [each.to_json() for each in read_cells(folder)] == [cell.to_json()]
    rows = duckdb.sql(f"DESCRIBE SELECT * FROM read_parquet('{results}/*.parquet')").fetchall()
    assert [row[:2] for row in rows] == [
        ("window_start", "TIMESTAMP WITH TIME ZONE"),
        ("window_end", "TIMESTAMP WITH TIME ZONE"),
        ("key", "BLOB"),
        ("count", "BIGINT"),
        ("sum", "DECIMAL(38,0)"),
    ]
    assert differences(RunConfig.read(folder), results) == []
    victim = min(results.glob("*.parquet"))
    other = tmp_path / "other.parquet"
    once = "count + CASE row_number() OVER () WHEN 1 THEN 1 ELSE 0 END AS count"
    duckdb.sql(f"COPY (SELECT * REPLACE ({once}) FROM read_parquet('{victim}')) TO '{other}'")
    other.replace(victim)
    found = differences(RunConfig.read(folder), results)
    assert len(found) == 2
    assert found[0].startswith("1 rows missing, the first: window from")
    assert found[1].startswith("1 rows not in the oracle, the first: window from")


def differences(config: RunConfig, results: Path) -> list[str]:
    """Compare once more; in order as its input is, no record is late."""
    with duckdb.connect() as connection:
        oracle = Oracle(connection, config, make_workload(config))
        oracle.read_input([])
        oracle.fill_expected()
        oracle.read_results(results)
        return oracle.differences()


def test_a_rate_is_kept_and_latency_counts_from_it(site: Site, tmp_path: Path) -> None:
    path = keyed_lines(tmp_path / "in.csv", 6_000)
    cell, _ = carried_out(site, tmp_path / "runs", path, pace="rate", pace_value=2_000.0)
    assert cell.exact
    # 6,000 records at 2,000/s take 3 s by the schedule, whatever the machine does.
    assert cell.produce_seconds >= 2.9
    assert cell.produce_seconds < cell.consume_seconds < cell.total_seconds
    assert cell.delivered_per_s <= 2_100
    assert cell.publish_delay_ms["max"] is not None
    assert cell.latency_ms["max"] is not None


def test_a_run_prints_what_it_measured(site: Site, tmp_path: Path) -> None:
    path = keyed_lines(tmp_path / "in.csv", 2_000)
    cell, _ = carried_out(site, tmp_path / "runs", path, partitioner="key_hash")
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(run_summary(cell))
    text = console.export_text()
    for partition, count in enumerate(cell.records_per_partition):
        assert f"partition {partition}" in text
        assert f"{count:,}" in text
    for words in ("imbalance", "replication factor  1.000", "records/s", "p50", "exact: yes"):
        assert words in text
    assert "top 10" in text
    assert "key-1" in text
    assert "b'" not in text


def test_a_topic_that_is_gone_or_changed_cannot_be_resumed(site: Site, make_topic: Any) -> None:
    topic = make_topic(2)
    require_topic(site.settings, topic, 2)
    with pytest.raises(InputError, match="has 2 partitions and the run has 3"):
        require_topic(site.settings, topic, 3)
    with pytest.raises(InputError, match="start it anew"):
        require_topic(site.settings, f"{topic}-gone", 2)
