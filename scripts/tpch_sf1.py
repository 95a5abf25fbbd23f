"""Whole-table Q1, Q3 and Q6 at scale 1 against the answers that TPC publishes.

    python scripts/tpch_sf1.py [FOLDER]

FOLDER is what `keyspread data prepare tpch --scale 1` makes; without one it is made for this and
removed. The six million lines go in chunks through parser, combiners (four partitions, dealt in
turn) and reducers (two shards) in this one process. Exits with 1 unless every figure is TPC's: sums
to the cent and means to two places, as published; Q3's ten rows also equal DuckDB's own query over
the same files, to the last digit.
"""

from __future__ import annotations

import sys
import tempfile
import time
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from pipelines.benchmark.aggregates import DictStore
from pipelines.combine import Combiner, ShardRow
from pipelines.datasets.tpch import prepare_tpch
from pipelines.panes import Windows
from pipelines.plan import WindowPlan
from pipelines.punctuation import END_MS, encode_watermark
from pipelines.reduce import ShardReducer
from pipelines.sinks import ParquetSink, ResultWriter
from pipelines.text_input import read_chunks
from pipelines.workloads import create_workload
from pipelines.workloads.base import Workload

ANSWERS = Path(__file__).resolve().parent.parent / "tests" / "data" / "tpch"
PARTITIONS, SHARDS, K = 4, 2, 10
CENT = Decimal("0.01")
Q3 = """
    SELECT l_orderkey, sum(l_extendedprice * (1 - l_discount)) AS revenue, o_orderdate,
           o_shippriority
    FROM customer, orders, lineitem
    WHERE c_mktsegment = 'BUILDING' AND c_custkey = o_custkey AND l_orderkey = o_orderkey
      AND o_orderdate < DATE '1995-03-15' AND l_shipdate > DATE '1995-03-15'
    GROUP BY ALL ORDER BY revenue DESC, o_orderdate LIMIT 10
"""
# Of each table of the query: the column's number, name and type.
COLUMNS = {
    "customer": ("0 c_custkey BIGINT", "6 c_mktsegment VARCHAR"),
    "orders": (
        "0 o_orderkey BIGINT",
        "1 o_custkey BIGINT",
        "4 o_orderdate DATE",
        "7 o_shippriority BIGINT",
    ),
    "lineitem": (
        "00 l_orderkey BIGINT",
        "05 l_extendedprice DECIMAL(15,2)",
        "06 l_discount DECIMAL(15,2)",
        "10 l_shipdate DATE",
    ),
}


class InProcess:
    """Combiners, reducers and writer of a whole-table query, without Kafka and Spark."""

    def __init__(self, workload: Workload, results: Path) -> None:
        self.emit = workload.default_emit
        windows = Windows(workload.default_window_ms, workload.default_slide_ms)
        plan = WindowPlan.of(windows, workload.aggregates)
        self.combiner = Combiner(workload, plan, SHARDS)
        self.reducer = ShardReducer(workload.aggregates, plan, PARTITIONS, self.emit, K)
        sinks = (ParquetSink(results),)
        self.writer = ResultWriter(sinks, workload, plan.windows, self.emit, K)
        self.stores: list[Any] = [DictStore() for _ in range(SHARDS)]
        self.batches = 0

    def batch(self, keys: pa.Array, values: pa.Array) -> None:
        """Deal records to the partitions in turn, combine, reduce and write."""
        combined: list[ShardRow] = []
        for partition in range(PARTITIONS):
            mine = pa.array(np.arange(partition, len(keys), PARTITIONS))
            columns = {
                "key": keys.take(mine),
                "value": values.take(mine),
                "partition": pa.array(np.full(len(mine), partition, np.int32)),
            }
            combined += self.combiner.run([pa.RecordBatch.from_pydict(columns)])
        blobs: list[bytes] = []
        for shard, store in enumerate(self.stores):
            rows = [row for row in combined if row.shard == shard]
            output = self.reducer.process(store, rows).blobs if rows else []
            blobs += output
            if self.emit != "top" and output:
                self.writer.write_shard(output, self.batches, shard)
        if self.emit == "top" and blobs:
            self.writer.write_top(blobs, self.batches)
        self.batches += 1


def run(name: str, data: Path) -> list[tuple[Any, ...]]:
    """Give the rows of a whole-table query by key, or by rank; say how many lines were read."""
    tables = {table: str(data / f"{table}.tbl.gz") for table in ("orders", "customer")}
    workload = create_workload(name, whole=True, **(tables if name == "tpch-q3" else {}))
    started, lines, records = time.perf_counter(), 0, 0
    with tempfile.TemporaryDirectory() as folder:
        engine, parser = InProcess(workload, Path(folder)), workload.parser()
        rejected: list[Any] = []
        for chunk in read_chunks(data / "lineitem.tbl.gz", rejected.append):
            parsed = parser.parse(chunk)
            lines += len(chunk.lines)
            records += len(parsed.table)
            rejected += parsed.rejected
            table = parsed.table.combine_chunks()
            if len(table):
                engine.batch(*(pa.concat_arrays(table[c].chunks) for c in ("key", "value")))
        end = pa.array([encode_watermark(END_MS)] * PARTITIONS, pa.binary())
        engine.batch(pa.nulls(PARTITIONS, pa.binary()), end)
        with duckdb.connect() as connection:
            connection.execute(
                "SELECT * EXCLUDE (window_start, window_end) FROM read_parquet($files) "
                "ORDER BY ALL",
                {"files": f"{folder}/*.parquet"},
            )
            rows = connection.fetchall()
    seconds = time.perf_counter() - started
    print(
        f"{name}: {lines:,} lines, {records:,} records, {len(rejected)} rejected, {seconds:.0f} s"
    )
    return rows


def published(name: str) -> list[list[str]]:
    """Give the rows of an answer of TPC's."""
    lines = (ANSWERS / f"sf1_{name}.out").read_text().splitlines()[1:]
    return [[text.strip() for text in line.split("|")] for line in lines]


def as_published(row: tuple[Any, ...]) -> list[str]:
    """Round what has places to two, as TPC publishes it."""
    return [
        str(Decimal(value).quantize(CENT, ROUND_HALF_UP))
        if isinstance(value, Decimal | float)
        else str(value)
        for value in row
    ]


def by_sql(data: Path) -> list[tuple[Any, ...]]:
    """Give Q3 by TPC's text in DuckDB."""
    with duckdb.connect() as connection:
        for table, columns in COLUMNS.items():
            read = ", ".join(
                f"column{place}::{kind} AS {name}"
                for place, name, kind in (each.split(" ", 2) for each in columns)
            )
            connection.execute(
                f"CREATE VIEW {table} AS SELECT {read} FROM read_csv("
                f"'{data / table}.tbl.gz', delim = '|', header = false, all_varchar = true)"
            )
        return connection.execute(Q3).fetchall()


def check(data: Path) -> bool:
    """Run and compare all three, a line for each."""
    verdicts = []
    for query in ("q1", "q3", "q6"):
        rows = run(f"tpch-{query}", data)
        if query == "q3":
            # Rank first; then key columns and values in TPC's order.
            rows = [(order, revenue, *date_etc) for _, order, *date_etc, revenue in rows]
            exact = rows == by_sql(data)
            print(f"  DuckDB's own answer over the same files, to the last digit: {_word(exact)}")
            verdicts.append(exact)
        equal = [as_published(row) for row in rows] == published(query)
        print(f"  TPC's answer, {len(rows)} rows, to the cent: {_word(equal)}")
        verdicts.append(equal)
    return all(verdicts)


def _word(equal: bool) -> str:
    return "equal" if equal else "NOT EQUAL"


def main() -> int:
    """Check the folder that is named, or one made for it."""
    if len(sys.argv) > 1:
        return 0 if check(Path(sys.argv[1])) else 1
    with tempfile.TemporaryDirectory() as folder:
        prepare_tpch(1, Path(folder) / "tpch1")
        return 0 if check(Path(folder) / "tpch1") else 1


if __name__ == "__main__":
    sys.exit(main())
