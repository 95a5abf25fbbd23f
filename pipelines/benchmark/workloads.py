"""Workloads beside Spark's own `window()`, on the same topics: `keyspread bench workloads`.

A topic is filled with the workload's data over and over (`workload_streams`). Both read it in
batches of the same size, group, and write every window of every key to Parquet; each has had a
first query on a smaller topic. Where Spark is not done within a limit it is stopped, and what is
given is the least that the ratio can be.

Spark writes a window only when a later batch has passed it, and so leaves out those open at the end
of the topic; ours closes all. What Spark wrote is compared with ours, up to its last window: the
number of rows, a checksum of windows and keys, and the total of every value column.
"""

from __future__ import annotations

import math
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
from rich.table import Table

from partitioners.errors import InputError, nearest
from pipelines.benchmark.beside_spark import BesideSpark, PeakMemory, SparkForm
from pipelines.benchmark.site import Say, open_site
from pipelines.benchmark.workload_streams import (
    RepeatedInput,
    TextGcmQ2,
    TextTpchQ1,
    TextWordCount,
)
from pipelines.panes import Windows

# Java compiles while it runs: for nine seconds of processor time in a run of 24 that began cold.
WARM_UP_RECORDS = 1_000_000
WARM_UP_SECONDS = 30.0
BATCHES = 4
EVERY_RECORDS = 1_000
# Sums of doubles in another order.
TOLERANCE = 1e-9
_TIME = "timestamp_millis(CAST(f[0] AS BIGINT))"


@dataclass(frozen=True)
class Case:
    """One workload of the benchmark.

    Attributes:
        stream: Its data.
        windows: Its windows.
        num_records: As many as tell something within minutes.
        target: The ratio to reach.
        form: Spark's own form of the query.
    """

    stream: RepeatedInput
    windows: Windows
    num_records: int
    target: float
    form: SparkForm


def _cases() -> dict[str, Case]:
    return {
        "gcm-q2": Case(
            RepeatedInput(TextGcmQ2(), "in time"),
            Windows.of("45 min", "1 s"),
            500_000,
            20.0,
            SparkForm(
                columns={
                    "time": _TIME,
                    "job_id": "CAST(key AS BIGINT)",
                    "cpu": "CAST(f[1] AS BIGINT)",
                },
                keys=("job_id",),
                aggregates={"mean_cpu": "avg(cpu) / 1e9D", "count": "count(*)"},
                delay="10 minutes",
            ),
        ),
        "tpch-q1": Case(
            RepeatedInput(TextTpchQ1(), "in density"),
            Windows.of("90 d", "1 d"),
            2_000_000,
            8.0,
            SparkForm(
                columns={
                    "time": _TIME,
                    "l_returnflag": "substring(key, 1, 1)",
                    "l_linestatus": "substring(key, 3, 1)",
                    "qty": "CAST(f[1] AS BIGINT)",
                    "price": "CAST(f[2] AS BIGINT)",
                    "disc": "CAST(f[3] AS BIGINT)",
                    "tax": "CAST(f[4] AS BIGINT)",
                },
                keys=("l_returnflag", "l_linestatus"),
                aggregates={
                    "sum_qty": "sum(qty) / 1e2D",
                    "sum_base_price": "sum(price) / 1e2D",
                    "sum_disc_price": "sum(price * (100 - disc)) / 1e4D",
                    "sum_charge": "sum(price * (100 - disc) * (100 + tax)) / 1e6D",
                    "avg_qty": "avg(qty) / 1e2D",
                    "avg_price": "avg(price) / 1e2D",
                    "avg_disc": "avg(disc) / 1e2D",
                    "count_order": "count(*)",
                },
                delay="30 days",
            ),
        ),
        "wordcount": Case(
            RepeatedInput(TextWordCount(), "in time"),
            Windows.of("30 s", "10 s"),
            4_000_000,
            1.3,
            SparkForm(
                columns={"time": _TIME, "word": "key"},
                keys=("word",),
                aggregates={"count": "count(*)"},
                delay="1 minute",
            ),
        ),
    }


CASES = tuple(_cases())


def run_workloads_bench(
    names: Sequence[str] = (),
    *,
    num_records: int | None = None,
    limit_seconds: float = 120.0,
    num_partitions: int = 8,
    num_shards: int = 2,
    master: str = "local[2]",
    bootstrap: str | None = None,
    say: Say = print,
) -> dict[str, Any]:
    """Measure workloads one by one.

    Args:
        names: Which of `CASES`; none: all.
        num_records: Records of each topic; None: as many as the case says.
        limit_seconds: When Spark's own query is stopped.
        num_partitions: Partitions of the topics.
        num_shards: Reducers of ours, shuffle partitions of Spark's own.
        master: Spark master.
        bootstrap: Kafka servers; None: an embedded broker.
        say: Told what is going on.

    Returns:
        `rows`, and the peak memory of the process tree.

    Raises:
        InputError: There is no workload of that name here.
        RunError: Ours lost records.
    """
    for name in names:
        if name not in CASES:
            raise InputError(f'no benchmark of a workload "{name}": {nearest(name, list(CASES))}')
    cases = _cases()
    folder = Path(tempfile.mkdtemp(prefix="keyspread-bench-"))
    rows = []
    try:
        with (
            PeakMemory() as memory,
            open_site(
                bootstrap=bootstrap,
                kafka={},
                broker_dir=folder / "broker",
                master=master,
                spark_dir=folder / "spark",
                say=say,
            ) as site,
        ):
            for name in names or CASES:
                case = cases[name]
                size = num_records or case.num_records
                # Watermark records count too: no last batch of a handful of records.
                messages = size + (size // EVERY_RECORDS + 2) * num_partitions
                batch_records = -(-messages // BATCHES) + num_partitions
                bench = BesideSpark(site, folder, num_partitions, num_shards, batch_records, say)
                rows.append({"workload": name, **_measure(bench, name, case, size, limit_seconds)})
        return {"rows": rows, "peak_rss_bytes": memory.peak_bytes}
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _measure(
    bench: BesideSpark, name: str, case: Case, num_records: int, limit_seconds: float
) -> dict[str, Any]:
    query = case.stream.workload
    warm_up = min(-(-num_records // 4), WARM_UP_RECORDS)
    for topic, count in ((f"{name}-warm", warm_up), (name, num_records)):
        bench.fill(
            topic,
            case.stream.chunks(count),
            partitioner="hot_fill",
            watermark_ms=case.windows.slide_ms,
            every_records=EVERY_RECORDS,
        )
    bench.native(f"{name}-warm", case.form, case.windows, min(limit_seconds, WARM_UP_SECONDS))
    bench.ours(f"{name}-warm", query, case.windows)
    # Spark comes last: tasks of a query that was stopped may run on for a moment.
    ours = bench.ours(name, query, case.windows)
    native = bench.native(name, case.form, case.windows, limit_seconds)
    equal = results_equal(ours.pop("results"), native.pop("results"), case.form)
    return {
        "window_ms": case.windows.size_ms,
        "slide_ms": case.windows.slide_ms,
        "records": num_records,
        "keyspread": ours,
        "spark": native,
        "ratio": ours["records_per_s"] / native["records_per_s"],
        "at_least": native["stopped"],
        "target": case.target,
        "equal": equal,
    }


def results_equal(ours: str, native: Sequence[str], form: SparkForm) -> bool | None:
    """Whether what Spark wrote is what ours wrote, up to Spark's last window.

    Args:
        ours: Folder of our Parquet files.
        native: Spark's files.
        form: Names the columns.

    Returns:
        None where Spark wrote nothing.
    """
    if not native:
        return None
    files = [each.removeprefix("file://") for each in native]
    keys = ", ".join(f"{key}::VARCHAR" for key in form.keys)
    totals = ", ".join(f"sum({value}::DOUBLE)" for value in form.aggregates)
    digest = f"""
        SELECT max(epoch_ms(window_end)), count(*),
               sum(hash(epoch_ms(window_start), epoch_ms(window_end), {keys})::HUGEINT), {totals}
        FROM read_parquet($files) WHERE epoch_ms(window_end) <= $last
    """
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        asked: dict[str, Any] = {"files": files, "last": 2**62}
        theirs = connection.execute(digest, asked).fetchall()[0]
        asked = {"files": [f"{ours}/*.parquet"], "last": theirs[0]}
        own = connection.execute(digest, asked).fetchall()[0]
    return bool(own[:3] == theirs[:3]) and all(
        math.isclose(a, b, rel_tol=TOLERANCE) for a, b in zip(own[3:], theirs[3:], strict=True)
    )


def workloads_table(rows: Sequence[dict[str, Any]]) -> Table:
    """The figures as a table."""
    table = Table(title="workloads beside Spark's window(), records/s")
    table.add_column("workload")
    for name in (
        "window / slide",
        "records",
        "keyspread",
        "Spark",
        "ratio",
        "target",
        "equal",
    ):
        table.add_column(name, justify="right")
    for row in rows:
        most, least = ("< ", ">= ") if row["at_least"] else ("", "")
        table.add_row(
            row["workload"],
            f"{row['window_ms'] / 1000:,.0f} s / {row['slide_ms'] / 1000:,.0f} s",
            f"{row['records']:,}",
            f"{row['keyspread']['records_per_s']:,.0f}",
            f"{most}{row['spark']['records_per_s']:,.0f}",
            f"{least}{row['ratio']:.1f}",
            f"{row['target']:g}",
            {True: "yes", False: "NO", None: "no window yet"}[row["equal"]],
        )
    return table
