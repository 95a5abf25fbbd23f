"""The demo's workloads with every partitioner there is, compared with DuckDB window by window.

By default each with one of the two in turn, on the first lines of the data that ships with the
project; with `KEYSPREAD_WHOLE_DATA=1` each with both, on all of it (13 minutes).
"""

from __future__ import annotations

import gzip
import itertools
import os
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from rich.console import Console

from partitioners import PARTITIONERS
from pipelines.benchmark.prepare import RunConfig, make_run_folder, new_run_id
from pipelines.benchmark.progress import RunProgress, progress_bars
from pipelines.benchmark.run import execute
from pipelines.benchmark.site import Site
from pipelines.topics import client_settings
from pipelines.workloads import WORKLOADS

pytestmark = [pytest.mark.broker, pytest.mark.spark]

NUM_LINES = {"wordcount": 2_000, "debs-q1": 10_000}
WHOLE = os.environ.get("KEYSPREAD_WHOLE_DATA") == "1"
CASES = [
    (workload, name)
    for place, name in enumerate(sorted(PARTITIONERS))
    for turn, workload in enumerate(sorted(NUM_LINES))
    if WHOLE or turn == place % len(NUM_LINES)
]


@pytest.fixture(scope="module")
def site(broker: Any, spark: SparkSession) -> Site:
    """The broker and the Spark session that all tests share."""
    return Site(broker.bootstrap, client_settings(broker.bootstrap, {}), spark, ())


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The input of each workload."""
    folder = tmp_path_factory.mktemp("inputs")
    paths = {}
    for workload, num_lines in NUM_LINES.items():
        whole = WORKLOADS[workload].default_input
        assert whole is not None
        paths[workload] = Path(whole)
        if not WHOLE:
            paths[workload] = folder / workload
            with gzip.open(whole, "rb") as lines:
                paths[workload].write_bytes(b"".join(itertools.islice(lines, num_lines)))
    return paths


@pytest.mark.parametrize(("workload", "name"), CASES)
def test_every_partitioner_is_exact(
    site: Site, tmp_path: Path, inputs: dict[str, Path], workload: str, name: str
) -> None:
    kind = WORKLOADS[workload]
    config = RunConfig(
        run_id=new_run_id(),
        workload=workload,
        inputs=(str(inputs[workload]),),
        encoding=kind.default_encoding,
        partitioner=name,
        partitions=3,
        sources=2,
        window_ms=kind.default_window_ms,
        slide_ms=kind.default_slide_ms,
        top=kind.k,
    )
    config.check()
    folder = make_run_folder(tmp_path, config)
    with progress_bars(Console(quiet=True), shown=True) as bars:
        progress = RunProgress(bars, name, inputs[workload].stat().st_size)
        cell = execute(config, folder, site, resumed=False, progress=progress)
    assert cell.differences == []
    assert cell.exact
    assert cell.windows_compared > 0
    assert cell.delivered == cell.produced == cell.on_time + cell.late
    assert cell.produced == cell.read - cell.dead - cell.ignored
    if not PARTITIONERS[name].traits.splits_keys and name in ("key_hash", "off_greedy"):
        assert cell.replication_factor == 1.0
    if WHOLE:
        print(
            f"{workload} {name}: {cell.produced} produced, {cell.late} late, exact {cell.exact}, "
            f"imbalance {cell.imbalance:.3f}, replication {cell.replication_factor:.3f}, "
            f"{cell.delivered_per_s:.0f} records/s"
        )
