"""Our engine and Spark's own windows on the same topics, one after the other, in one session."""

from __future__ import annotations

import contextlib
import os
import tempfile
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming.query import StreamingQuery

from partitioners import create
from partitioners.errors import RunError
from partitioners.kafka import ensure_topic
from pipelines import engine
from pipelines.benchmark.content import TopicContent, with_watermarks
from pipelines.benchmark.sender import TopicSender
from pipelines.benchmark.site import Say, Site
from pipelines.benchmark.watermark_clock import WatermarkClock
from pipelines.jars import add_connector
from pipelines.panes import Windows
from pipelines.punctuation import END_MS, encode_watermark
from pipelines.query import Query

SAMPLE_SECONDS = 0.2
# Kafka's default of 500 records a poll costs Spark's own source a quarter of its rate.
KAFKA_TUNING = {
    "kafka.max.poll.records": "20000",
    "kafka.max.partition.fetch.bytes": str(8 << 20),
}
# Topics as other brokers make them: ours lets larger records in.
KAFKA_DEFAULTS = {"max.message.bytes": str(1_048_588)}


@dataclass(frozen=True, kw_only=True)
class SparkForm:
    """A query in Spark's own words: SQL expressions over the comma-separated fields `f` of a value.

    Attributes:
        columns: The event time as `time`, and what the others read, from `key` (text) and `f`.
        keys: Columns to group by, beside the window.
        aggregates: The values, by name.
        delay: How late a record may be, as in `withWatermark`.
    """

    columns: Mapping[str, str]
    keys: tuple[str, ...]
    aggregates: Mapping[str, str]
    delay: str = "0 seconds"


class BesideSpark:
    """Topics and queries of one benchmark.

    Args:
        site: Where they run.
        folder: For checkpoints and results.
        num_partitions: Of the topics.
        num_shards: Reducers of ours, shuffle partitions of Spark's own.
        batch_records: Records per micro-batch, for both.
        say: Told what is going on.
    """

    def __init__(
        self,
        site: Site,
        folder: Path,
        num_partitions: int,
        num_shards: int,
        batch_records: int,
        say: Say,
    ) -> None:
        self.site = site
        self.folder = folder
        self.num_partitions = num_partitions
        self.num_shards = num_shards
        self.batch_records = batch_records
        self.say = say
        self.num_records: dict[str, int] = {}
        self.suffix = f"{os.getpid()}-{time.time_ns()}"

    def fill(
        self,
        name: str,
        chunks: Iterable[pa.Table],
        *,
        partitioner: str,
        watermark_ms: int,
        every_records: int = 1,
    ) -> None:
        """Make a topic and send a stream to it, with watermark records.

        Args:
            name: Names the topic in this benchmark.
            chunks: Of schema `RECORDS`, none late.
            partitioner: Spreads them.
            watermark_ms: Watermarks are multiples of this.
            every_records: Least number of records between two of them.
        """
        self.say(f"filling topic {name}")
        topic = self._topic(name)
        ensure_topic(self.site.settings, topic, self.num_partitions, topic_config=KAFKA_DEFAULTS)
        sender = TopicSender(self.site.settings, topic, self.num_partitions)
        clock = WatermarkClock(slide_ms=watermark_ms, lateness_ms=0, every_records=every_records)
        content = TopicContent([create(partitioner, self.num_partitions)], clock)
        self.num_records[name] = 0
        for chunk in chunks:
            messages = with_watermarks(content.route(chunk), self.num_partitions)
            sender.send(messages.keys, messages.values, messages.partitions)
            self.num_records[name] += len(chunk)
        ends = pa.array([encode_watermark(END_MS)] * self.num_partitions, type=pa.binary())
        nobody = pa.nulls(self.num_partitions, type=pa.binary())
        sender.send(nobody, ends, np.arange(self.num_partitions, dtype=np.int32))
        sender.finish(stopped=False)

    def ours(
        self, name: str, query: Query, windows: Windows, emit: engine.Emit = "all"
    ) -> dict[str, Any]:
        """Run our engine over a topic.

        Returns:
            Figures, and `results`: where the results are.

        Raises:
            RunError: A record was not counted, or was late.
        """
        self.say(f"keyspread: {_title(windows)}")
        folder = self._new_folder()
        started = time.perf_counter()
        running = engine.start(
            self.site.spark,
            query,
            bootstrap=self.site.bootstrap,
            topic=self._topic(name),
            num_partitions=self.num_partitions,
            num_shards=self.num_shards,
            windows=windows,
            emit=emit,
            results_dir=folder / "results",
            checkpoint_dir=folder / "checkpoint",
            batch_records=self.batch_records,
        )
        running.await_end()
        seconds = time.perf_counter() - started
        summary = running.summary()
        if summary.records != self.num_records[name] or summary.late:
            raise RunError(f"{summary.records:,} records counted, {summary.late:,} of them late")
        return {
            **self._figures(self.num_records[name], seconds, summary.rows),
            "windows": summary.windows,
            "partial_rows": summary.partial_rows,
            "batch_seconds": summary.batch_seconds,
            "combine_seconds": sum(summary.combine_seconds.values()),
            "reduce_seconds": sum(summary.reduce_seconds.values()),
            "sink_seconds": sum(summary.sink_seconds.values()),
            "state_calls": summary.state_calls,
            "results": str(folder / "results"),
        }

    def native(
        self, name: str, form: SparkForm, windows: Windows, limit_seconds: float | None = None
    ) -> dict[str, Any]:
        """Run Spark's own windows over a topic.

        Args:
            name: The topic.
            form: The query.
            windows: Its windows.
            limit_seconds: Spark is stopped after so long; its rate, with all of the batch that it
                was at, is then at most the one given.

        Returns:
            Figures, `stopped`, and `results`: the files that Spark has committed.
        """
        self.say(f"Spark's window(): {_title(windows)}")
        folder = self._new_folder()
        started = time.perf_counter()
        query = self._start(name, form, windows, folder)
        query.awaitTermination(limit_seconds)  # type: ignore[arg-type]
        seconds = time.perf_counter() - started
        stopped = query.isActive
        spark = self.site.spark
        while query.isActive:
            # Spark gives up waiting for a query that ends its job first; so the job goes first.
            spark.sparkContext.cancelAllJobs()
            with contextlib.suppress(Py4JJavaError):
                query.stop()
        files: list[str] = []
        rows = 0
        if any((folder / "results").glob("*.parquet")):
            frame = spark.read.parquet(str(folder / "results"))
            files, rows = frame.inputFiles(), frame.count()
        progress = query.recentProgress
        records = self.num_records[name]
        if stopped:
            # Of what it was at when it was stopped, Spark may have read the most and written none.
            records = min(records, (len(progress) + 1) * self.batch_records)
        return {
            **self._figures(records, seconds, rows),
            "stopped": stopped,
            "batch_seconds": [each.batchDuration / 1000 for each in progress],
            "dropped": sum(s.numRowsDroppedByWatermark for p in progress for s in p.stateOperators),
            "results": files,
        }

    def _start(self, name: str, form: SparkForm, windows: Windows, folder: Path) -> StreamingQuery:
        """The same question in Spark's own words, as its guide has it."""
        session: SparkSession = self.site.spark.newSession()
        add_connector(session)
        session.conf.set("spark.sql.shuffle.partitions", str(self.num_shards))
        window = sf.window(
            "time", f"{windows.size_ms} milliseconds", f"{windows.slide_ms} milliseconds"
        )
        return (
            session.readStream.format("kafka")
            .option("kafka.bootstrap.servers", self.site.bootstrap)
            .option("subscribe", self._topic(name))
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", str(self.batch_records))
            .options(**KAFKA_TUNING)
            .load()
            .where(sf.col("key").isNotNull())
            .selectExpr("CAST(key AS STRING) AS key", "split(CAST(value AS STRING), ',') AS f")
            .selectExpr(*(f"{sql} AS {column}" for column, sql in form.columns.items()))
            .withWatermark("time", form.delay)
            .groupBy(window, *form.keys)
            .agg(*(sf.expr(sql).alias(column) for column, sql in form.aggregates.items()))
            .selectExpr(
                "window.start AS window_start",
                "window.end AS window_end",
                *form.keys,
                *form.aggregates,
            )
            .writeStream.outputMode("append")
            .format("parquet")
            .option("path", str(folder / "results"))
            .option("checkpointLocation", str(folder / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )

    def _topic(self, name: str) -> str:
        return f"{name}-{self.suffix}"

    @staticmethod
    def _figures(records: int, seconds: float, rows: int) -> dict[str, Any]:
        return {"seconds": seconds, "records_per_s": records / seconds, "result_rows": rows}

    def _new_folder(self) -> Path:
        return Path(tempfile.mkdtemp(dir=self.folder))


def _title(windows: Windows) -> str:
    return f"{windows.size_ms / 1000:g} s / {windows.slide_ms / 1000:g} s"


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
