"""Our sliding windows beside Spark's own `window()`, on one topic, in one run.

4M records ``ts,key,x`` of one hour, keys by Zipf's law, over 8 partitions. Both read the same
topic in batches of the same size, both write Parquet, both have had a first query on a small topic
to warm up the JVM and the Python workers. Records/s are records by the wall time from the start of
a query to the commit of its last batch.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from partitioners.streams import Stream, zipf
from pipelines import engine
from pipelines.benchmark.beside_spark import BesideSpark, PeakMemory, SparkForm
from pipelines.benchmark.site import Say, open_site
from pipelines.panes import Windows
from pipelines.workloads import KeyedSum
from pipelines.workloads.base import RECORDS

HOUR_MS = 3_600_000
# Watermark records of the topic: at every second of event time.
PUNCTUATION_MS = 1_000
WARM_UP_RECORDS = 20_000
CHUNK_RECORDS = 250_000

SPARK_FORM = SparkForm(
    columns={
        "time": "timestamp_millis(CAST(f[0] AS BIGINT))",
        "key": "f[1]",
        "x": "CAST(f[2] AS BIGINT)",
    },
    keys=("key",),
    aggregates={"count": "count(*)", "sum": "sum(x)"},
)


def run_windows_bench(
    *,
    num_records: int = 4_000_000,
    num_partitions: int = 8,
    num_shards: int = 2,
    num_keys: int = 10_000,
    exponent: float = 1.4,
    batch_records: int = 1_000_000,
    emit: engine.Emit = "all",
    master: str = "local[2]",
    bootstrap: str | None = None,
    work_dir: Path | None = None,
    say: Say = print,
) -> dict[str, Any]:
    """Measure both and return figures and ratios.

    Args:
        num_records: Records on the topic, over one hour of event time.
        num_partitions: Partitions of the topic.
        num_shards: Reducers of ours, shuffle partitions of Spark's own.
        num_keys: Distinct keys.
        exponent: Of Zipf's law.
        batch_records: Records per micro-batch, for both.
        emit: What of each window ours writes; Spark's own always writes all.
        master: Spark master.
        bootstrap: Kafka servers; None: an embedded broker.
        work_dir: For topics, checkpoints and results; a temporary folder if None.
        say: Told what is going on.

    Returns:
        Seconds, records/s and result rows of each query, the two ratios, and the peak memory of the
        process tree.
    """
    folder = Path(tempfile.mkdtemp(prefix="keyspread-bench-", dir=work_dir))
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
            bench = BesideSpark(site, folder, num_partitions, num_shards, batch_records, say)
            for name, count in (("warm", WARM_UP_RECORDS), ("bench", num_records)):
                chunks = _chunks(keyed_stream(count, num_keys, exponent))
                bench.fill(name, chunks, partitioner="pkg", watermark_ms=PUNCTUATION_MS)
            coarse, fine = Windows.of("30 min", "1 min"), Windows.of("45 min", "1 s")
            bench.native("warm", SPARK_FORM, coarse)
            bench.ours("warm", KeyedSum(), coarse, emit)
            native = bench.native("bench", SPARK_FORM, coarse)
            ours = bench.ours("bench", KeyedSum(), coarse, emit)
            finer = bench.ours("bench", KeyedSum(), fine, emit)
        for figures in (native, ours, finer):
            del figures["results"]
        return {
            "records": num_records,
            "partitions": num_partitions,
            "shards": num_shards,
            "emit": emit,
            "batch_records": batch_records,
            "spark_window_30min_1min": native,
            "keyspread_30min_1min": ours,
            "keyspread_45min_1s": finer,
            "speed_up_over_spark_window": ours["records_per_s"] / native["records_per_s"],
            "rate_45min_1s_over_30min_1min": finer["records_per_s"] / ours["records_per_s"],
            "peak_rss_bytes": memory.peak_bytes,
        }
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def keyed_stream(num_records: int, num_keys: int, exponent: float) -> Stream:
    """Zipf keys, spread evenly over one hour of event time."""
    stream = zipf(num_records, num_keys, exponent)
    timestamps = np.arange(num_records, dtype=np.int64) * HOUR_MS // num_records
    return replace(stream, timestamps_ms=timestamps)


def _chunks(stream: Stream) -> Iterator[pa.Table]:
    """The stream as records `ts,key,x`."""
    for low in range(0, len(stream.ids), CHUNK_RECORDS):
        timestamps = stream.timestamps_ms[low : low + CHUNK_RECORDS]
        keys = stream.keys[low : low + CHUNK_RECORDS].cast(pa.binary())
        values = [
            b"%d,%b,%d" % (time_ms, key, time_ms % 100)
            for time_ms, key in zip(timestamps.tolist(), keys.to_pylist(), strict=True)
        ]
        yield pa.table([timestamps, keys, pa.array(values, type=pa.binary())], schema=RECORDS)
