"""Our sliding windows beside Spark's own `window()`, on one topic, in one run.

4M records ``ts,key,x`` of one hour, keys by Zipf's law, over 8 partitions. Both read the same
topic in batches of the same size, both write Parquet, both have had a first query on a small topic
to warm up the JVM and the Python workers. Records/s are records by the wall time from the start of
a query to the commit of its last batch.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from partitioners import create
from partitioners.errors import RunError
from partitioners.kafka import ensure_topic
from partitioners.streams import Stream, zipf
from pipelines import engine
from pipelines.benchmark.sender import TopicSender
from pipelines.benchmark.site import Say, Site, open_site
from pipelines.benchmark.watermark_clock import WatermarkClock
from pipelines.punctuation import END_MS, encode_watermark
from pipelines.workloads import KeyedSum

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
# Watermark records of the topic: at every second of event time.
PUNCTUATION_MS = 1_000
WARM_UP_RECORDS = 20_000
CHUNK_RECORDS = 250_000
SAMPLE_SECONDS = 0.2


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
            bench = _Bench(site, folder, num_partitions, num_shards, batch_records, emit, say)
            bench.fill("warm", keyed_stream(WARM_UP_RECORDS, num_keys, exponent))
            bench.fill("bench", keyed_stream(num_records, num_keys, exponent))
            bench.native("warm", 30 * MINUTE_MS, MINUTE_MS)
            bench.ours("warm", 30 * MINUTE_MS, MINUTE_MS)
            native = bench.native("bench", 30 * MINUTE_MS, MINUTE_MS)
            ours = bench.ours("bench", 30 * MINUTE_MS, MINUTE_MS)
            fine = bench.ours("bench", 45 * MINUTE_MS, 1_000)
        return {
            "records": num_records,
            "partitions": num_partitions,
            "shards": num_shards,
            "emit": emit,
            "batch_records": batch_records,
            "spark_window_30min_1min": native,
            "keyspread_30min_1min": ours,
            "keyspread_45min_1s": fine,
            "speed_up_over_spark_window": ours["records_per_s"] / native["records_per_s"],
            "rate_45min_1s_over_30min_1min": fine["records_per_s"] / ours["records_per_s"],
            "peak_rss_bytes": memory.peak_bytes,
        }
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def keyed_stream(num_records: int, num_keys: int, exponent: float) -> Stream:
    """Zipf keys, spread evenly over one hour of event time."""
    stream = zipf(num_records, num_keys, exponent)
    timestamps = np.arange(num_records, dtype=np.int64) * HOUR_MS // num_records
    return replace(stream, timestamps_ms=timestamps)


class _Bench:
    """Topics and queries of one benchmark."""

    def __init__(
        self,
        site: Site,
        folder: Path,
        num_partitions: int,
        num_shards: int,
        batch_records: int,
        emit: engine.Emit,
        say: Say,
    ) -> None:
        self.site = site
        self.folder = folder
        self.num_partitions = num_partitions
        self.num_shards = num_shards
        self.batch_records = batch_records
        self.emit = emit
        self.say = say
        self.num_records: dict[str, int] = {}
        self.suffix = f"{os.getpid()}-{time.time_ns()}"

    def fill(self, name: str, stream: Stream) -> None:
        """Make a topic and send a stream to it, with watermark records."""
        self.say(f"filling the topic with {len(stream.ids):,} records")
        self.num_records[name] = len(stream.ids)
        partitioner = create("pkg", self.num_partitions)
        topic = f"{name}-{self.suffix}"
        ensure_topic(self.site.settings, topic, self.num_partitions)
        sender = TopicSender(self.site.settings, topic, self.num_partitions)
        clock = WatermarkClock(slide_ms=PUNCTUATION_MS, lateness_ms=0, every_records=1)
        for low in range(0, len(stream.ids), CHUNK_RECORDS):
            part = slice(low, low + CHUNK_RECORDS)
            timestamps = stream.timestamps_ms[part]
            keys = stream.keys[low : low + CHUNK_RECORDS]
            targets = np.empty(len(timestamps), dtype=np.int32)
            partitioner.route(stream.key_hashes[part], timestamps, targets)
            marks = clock.advance(timestamps)
            self._send(sender, timestamps, keys, targets, marks.positions, marks.values_ms)
        ends = pa.array([encode_watermark(END_MS)] * self.num_partitions, type=pa.binary())
        nobody = pa.nulls(self.num_partitions, type=pa.binary())
        sender.send(nobody, ends, np.arange(self.num_partitions, dtype=np.int32))
        sender.finish(stopped=False)

    def _send(
        self,
        sender: TopicSender,
        timestamps: Any,
        keys: pa.Array,
        targets: Any,
        mark_positions: Any,
        mark_values: Any,
    ) -> None:
        """Send records with the watermark records in their places, to every partition each."""
        values = [
            b"%d,%s,%d" % (time_ms, key.encode(), time_ms % 100)
            for time_ms, key in zip(timestamps.tolist(), keys.to_pylist(), strict=True)
        ]
        low = 0
        for position, mark in [*zip(mark_positions.tolist(), mark_values.tolist(), strict=True)]:
            high = position + 1
            self._send_part(sender, keys, values, targets, low, high, mark)
            low = high
        self._send_part(sender, keys, values, targets, low, len(values), None)

    def _send_part(
        self,
        sender: TopicSender,
        keys: pa.Array,
        values: list[bytes],
        targets: Any,
        low: int,
        high: int,
        mark: int | None,
    ) -> None:
        all_keys = keys[low:high].cast(pa.binary())
        all_values = values[low:high]
        all_targets = targets[low:high]
        if mark is not None:
            count = self.num_partitions
            all_keys = pa.concat_arrays([all_keys, pa.nulls(count, type=pa.binary())])
            all_values = all_values + [encode_watermark(mark)] * count
            everyone = np.arange(count, dtype=np.int32)
            all_targets = np.concatenate([all_targets, everyone])
        if len(all_values):
            sender.send(all_keys, pa.array(all_values, type=pa.binary()), all_targets)

    def ours(self, name: str, window_ms: int, slide_ms: int) -> dict[str, Any]:
        """Run our engine over a topic."""
        self.say(f"keyspread: {window_ms / MINUTE_MS:g} min / {slide_ms / 1000:g} s")
        folder = self._new_folder()
        started = time.perf_counter()
        query = engine.start(
            self.site.spark,
            KeyedSum(),
            bootstrap=self.site.bootstrap,
            topic=f"{name}-{self.suffix}",
            num_partitions=self.num_partitions,
            num_shards=self.num_shards,
            window_ms=window_ms,
            slide_ms=slide_ms,
            emit=self.emit,
            results_dir=folder / "results",
            checkpoint_dir=folder / "checkpoint",
            batch_records=self.batch_records,
        )
        query.await_end()
        seconds = time.perf_counter() - started
        summary = query.summary()
        if summary.records != self.num_records[name] or summary.late:
            raise RunError(f"{summary.records:,} records counted, {summary.late:,} of them late")
        shutil.rmtree(folder)
        return {
            **self._figures(name, seconds, summary.rows),
            "windows": summary.windows,
            "partial_rows": summary.partial_rows,
            "batch_seconds": summary.batch_seconds,
            "combine_seconds": sum(summary.combine_seconds.values()),
            "reduce_seconds": sum(summary.reduce_seconds.values()),
            "sink_seconds": sum(summary.sink_seconds.values()),
            "state_calls": summary.state_calls,
        }

    def native(self, name: str, window_ms: int, slide_ms: int) -> dict[str, Any]:
        """Run Spark's own windows over a topic."""
        self.say(f"Spark's window(): {window_ms / MINUTE_MS:g} min / {slide_ms / 1000:g} s")
        folder = self._new_folder()
        started = time.perf_counter()
        query = _native_query(
            self.site.spark,
            bootstrap=self.site.bootstrap,
            topic=f"{name}-{self.suffix}",
            num_shards=self.num_shards,
            window_ms=window_ms,
            slide_ms=slide_ms,
            batch_records=self.batch_records,
            folder=folder,
        )
        query.awaitTermination()
        seconds = time.perf_counter() - started
        rows = self.site.spark.read.parquet(str(folder / "results")).count()
        durations = [each.batchDuration / 1000 for each in query.recentProgress]
        shutil.rmtree(folder)
        return {**self._figures(name, seconds, rows), "batch_seconds": durations}

    def _figures(self, name: str, seconds: float, rows: int) -> dict[str, Any]:
        rate = self.num_records[name] / seconds
        return {"seconds": seconds, "records_per_s": rate, "result_rows": rows}

    def _new_folder(self) -> Path:
        return Path(tempfile.mkdtemp(dir=self.folder))


def _native_query(
    spark: SparkSession,
    *,
    bootstrap: str,
    topic: str,
    num_shards: int,
    window_ms: int,
    slide_ms: int,
    batch_records: int,
    folder: Path,
) -> Any:
    """The same question in Spark's own words, as its guide has it."""
    session = spark.newSession()
    session.conf.set("spark.sql.shuffle.partitions", str(num_shards))
    fields = sf.split(sf.col("value").cast("string"), ",")
    return (
        session.readStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", str(batch_records))
        .options(**engine.KAFKA_TUNING)
        .load()
        .where(sf.col("key").isNotNull())
        .select(
            sf.timestamp_millis(fields[0].cast("long")).alias("time"),
            fields[1].alias("key"),
            fields[2].cast("long").alias("x"),
        )
        .withWatermark("time", "0 seconds")
        .groupBy(sf.window("time", f"{window_ms} milliseconds", f"{slide_ms} milliseconds"), "key")
        .agg(sf.count("*").alias("count"), sf.sum("x").alias("sum"))
        .select("window.start", "window.end", "key", "count", "sum")
        .writeStream.outputMode("append")
        .format("parquet")
        .option("path", str(folder / "results"))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )


class PeakMemory:
    """Samples the resident memory of this process and all below it."""

    def __init__(self) -> None:
        self.peak_bytes = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)

    def __enter__(self) -> PeakMemory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _sample(self) -> None:
        here = psutil.Process()
        while not self._stop.wait(SAMPLE_SECONDS):
            total = 0
            for process in [here, *here.children(recursive=True)]:
                try:
                    total += process.memory_info().rss
                except psutil.NoSuchProcess:
                    continue
            self.peak_bytes = max(self.peak_bytes, total)
