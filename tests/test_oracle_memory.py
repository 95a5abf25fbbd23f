"""The oracle of an input that is larger than its memory: it spills beside the run, as exact."""

import contextlib
import gzip
from decimal import Decimal
from pathlib import Path

import duckdb
import pytest
from workload_runs import run_workload

import pipelines.benchmark.verify as verifying
from partitioners.errors import RunError
from pipelines.benchmark.prepare import RunConfig
from pipelines.benchmark.verify import Answers
from pipelines.workloads.base import DATA
from pipelines.workloads.tpch import TpchQ6

COPIES = 6
# Less than the lines take, and enough for the blocks that DuckDB works on.
MEMORY_BYTES = 32 << 20


class LookingQ6(TpchQ6):
    """Q6 that notes what is on disk once all lines are read."""

    spilled_bytes = 0

    def oracle_records(self, connection: duckdb.DuckDBPyConnection, lines: str) -> str:
        found = connection.execute("SELECT sum(size) FROM duckdb_temporary_files()").fetchone()
        self.spilled_bytes = int(found[0] or 0) if found else 0
        return super().oracle_records(connection, lines)


def test_what_does_not_fit_is_in_the_folder_meanwhile(tmp_path: Path) -> None:
    table, spill = tmp_path / "lineitem.tbl", tmp_path / "run"
    spill.mkdir()
    text = gzip.decompress((DATA / "tpch" / "lineitem.tbl.gz").read_bytes()) * COPIES
    table.write_bytes(text)
    assert len(text) > MEMORY_BYTES
    workload = LookingQ6(whole=True)
    config = RunConfig(
        run_id="test",
        workload="tpch-q6",
        workload_options={"whole": True},
        inputs=(str(table),),
        partitioner="pkg",
        partitions=1,
        window_ms=workload.default_window_ms,
        slide_ms=workload.default_slide_ms,
    )
    with contextlib.closing(Answers(spill, memory_bytes=MEMORY_BYTES)) as answers:
        oracle, records = answers.oracle(config, workload, [])
        assert records == 1_191 * COPIES
        rows = oracle.connection.execute("SELECT revenue FROM expected").fetchall()
        # The scale's known answer, of as many copies.
        assert rows == [(Decimal("1193053.2253") * COPIES,)]
        assert len(list(spill.iterdir())) == 1
    assert workload.spilled_bytes > 1 << 20
    assert not list(spill.iterdir())


def test_what_fits_nowhere_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verifying, "memory_share", lambda: 100_000)
    with pytest.raises(RunError, match="the oracle of keyed-sum fits neither into 0 MiB of memory"):
        run_workload("keyed-sum", tmp_path, lines=["1,a,2"] * 10)
    assert not list(tmp_path.glob(".oracle-*"))
