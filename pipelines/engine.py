"""Runs a workload over a topic: combine, exchange, reduce, sink.

`start` wires the stages into one structured-streaming query; `RunningQuery` waits for it. Results
are exact whatever the batch boundaries and after any restart; see docs/pipelines.md.
"""

from __future__ import annotations

import contextlib
import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import polars as pl
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from partitioners.errors import InputError, RunError, nearest
from pipelines.batch_sink import BatchSink
from pipelines.combine import Combiner
from pipelines.dead_letter_topic import DeadLetterTopic
from pipelines.events import EventReducer, PerEvent
from pipelines.listener import BatchProgress, ProgressListener
from pipelines.panes import Windows
from pipelines.plan import WindowPlan
from pipelines.processor import ShardProcessor
from pipelines.query import Query
from pipelines.reduce import ShardReducer
from pipelines.session import query_session
from pipelines.sessions import SessionReducer, Sessions, with_times
from pipelines.shards import shard_labels
from pipelines.sinks import ParquetSink, ResultWriter, Sink
from pipelines.source.combined import read_combined
from pipelines.stages import REDUCED
from pipelines.summary import QuerySummary
from pipelines.topics import check_topic, client_settings

Emit = Literal["all", "changed", "top"]
ProgressMode = Literal["watermarks", "records"]
EMITS = ("all", "changed", "top")
PROGRESS_MODES = ("watermarks", "records")
PINNED = "keyspread.json"
_PYTHON_ERROR = re.compile(r"^(?!org\.|java\.|py4j\.)[A-Za-z_][\w.]*Error: .+", re.MULTILINE)
_SPARK_WORDS = re.compile(
    r"^\[STREAM_FAILED\] Query \[.*?\] terminated with exception:\s*"
    r"|\s*SQLSTATE: \w+( \(no cause message\))?\s*$"
)
# Spark has no words of its own for it but those of its socket, which is not a task's: a task's
# stand in a sentence of Spark's.
_SOCKET_WORDS = ("", "Connection reset", "Connection reset by peer", "Broken pipe", "Socket closed")
PLANNER_GONE = "the process that plans its batches has ended: killed, or out of memory"

# Spark waits ten seconds, whatever is set, for the Python process that it asks for a processor's
# state. Nothing is lost where it does not come in time: the query goes on from its checkpoint.
TOO_SLOW = "Python worker failed to connect back"
MAX_RESTARTS = 3

JAVA_GONE = (
    "Spark's Java process is gone: it was killed or ran out of memory; give it more memory if "
    "nobody killed it"
)


class RunningQuery:
    """A started query.

    Args:
        begin: Starts Spark's query, from where its checkpoint is.
        listener: Hears when batches are committed.
        sink: Writes and adds up the batches.
        num_partitions: Topic partitions.

    Attributes:
        ended_s: When `await_end` saw the end (`time.monotonic`), before it stopped the query; None:
            not yet.
    """

    def __init__(
        self,
        begin: Callable[[], StreamingQuery],
        listener: ProgressListener,
        sink: BatchSink,
        num_partitions: int,
    ) -> None:
        # An earlier life may have written the last batch, and committed it or not. Where it did,
        # Spark has no batch to tell of any more. Asked before this life can write one.
        self._ended_before = sink.end_batch(num_partitions) is not None
        self._begin = begin
        self._query = begin()
        self.ended_s: float | None = None
        self._restarts = MAX_RESTARTS
        self._listener = listener
        self._sink = sink
        self._num_partitions = num_partitions
        # What ends with the query, such as a server of its metrics.
        self.closing = contextlib.ExitStack()

    def await_end(self, timeout: float | None = None) -> bool:
        """Wait until the end of every topic partition is committed, then stop.

        Args:
            timeout: Seconds to wait at most; None: for ever.

        Returns:
            Whether the end was reached.

        Raises:
            RunError: The query failed.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        if self._ended_before:
            self.process_available()
            self._stop_at_end()
            return True
        while True:
            end_batch = self._sink.end_batch(self._num_partitions)
            if end_batch is not None and self._listener.committed >= end_batch:
                self._stop_at_end()
                return True
            try:
                if not self._query.isActive:
                    self._begin_anew_or_raise(self._query.exception())
            except (Py4JError, OSError) as error:
                raise _why_java_failed(error) from error
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                return False
            self._listener.wait(0.5 if left is None else min(left, 0.5))

    def _stop_at_end(self) -> None:
        self.ended_s = time.monotonic()
        self.stop()

    def process_available(self) -> None:
        """Wait until all that is in the topic now is processed and committed."""
        while True:
            try:
                self._query.processAllAvailable()
            except StreamingQueryException as error:
                self._begin_anew_or_raise(error)
            except (Py4JError, OSError) as error:
                raise _why_java_failed(error) from error
            else:
                return

    def _begin_anew_or_raise(self, error: StreamingQueryException | None) -> None:
        """Begin anew where a machine under load was too slow for Spark; else say what failed."""
        if not (self._restarts and error is not None and TOO_SLOW in str(error)):
            self._listener.detach(str(self._query.runId))
            raise RunError(_reason(error)) from error
        self._restarts -= 1
        self._query = self._begin()

    @property
    def has_committed(self) -> bool:
        """Whether a batch has been committed since the start."""
        return self._listener.committed >= 0

    @property
    def lag(self) -> dict[int, int]:
        """Of each topic partition, the records that were in no batch yet, as of the last batch."""
        return dict(self._listener.lag)

    @property
    def largest_lag(self) -> dict[int, int]:
        """Of each topic partition, the largest lag so far."""
        return dict(self._listener.largest_lag)

    @property
    def active(self) -> bool:
        """Whether the query runs."""
        return bool(self._query.isActive)

    def stop(self) -> None:
        """Stop the query; what it has not committed is done again by the next start."""
        # Where the Java process is gone there is nothing to stop.
        with contextlib.suppress(Py4JError, OSError):
            self._query.stop()
            self._listener.detach(str(self._query.runId))
        self.closing.close()

    @property
    def progress(self) -> QuerySummary:
        """Counts and times so far; see `summary`."""
        return self.summary()

    def results(self) -> pl.DataFrame:
        """The results there are so far, with emit "changed" or "top" as these are written.

        Raises:
            InputError: No sink of this query is read back here.
        """
        return self._sink.results()

    def summary(self) -> QuerySummary:
        """Counts and times so far, earlier lives on the same results included."""
        with self._sink.lock:
            return replace(
                self._sink.summary,
                state_bytes=self._listener.state_bytes,
                batch_seconds=list(self._listener.batch_seconds),
            )


def start(
    spark: SparkSession,
    workload: Query,
    *,
    bootstrap: str,
    topic: str,
    num_partitions: int,
    num_shards: int,
    windows: Windows | Sequence[Windows] | Sessions | PerEvent,
    results_dir: Path | str,
    checkpoint_dir: Path | str,
    lateness_ms: int = 0,
    progress: ProgressMode = "watermarks",
    emit: Emit = "all",
    k: int | None = None,
    batch_records: int = 1_000_000,
    kafka: Mapping[str, Any] | None = None,
    listener: Callable[[BatchProgress], None] | None = None,
    sinks: Sequence[Sink] | None = None,
    max_future_ms: int | None = None,
    dead_letters: DeadLetterTopic | None = None,
    update_ms: int = 0,
) -> RunningQuery:
    """Start a query over a topic from its beginning, or go on where its checkpoint is.

    Args:
        spark: A session of `session.spark_session`.
        workload: What to compute.
        bootstrap: Kafka servers.
        topic: The topic.
        num_partitions: Its partitions.
        num_shards: Reducers, each one Spark state partition.
        windows: The windows; several kinds share their panes, see `plan`. Or sessions, or rows per
            event.
        results_dir: Where the batch log goes, and Parquet files where no sinks are given.
        checkpoint_dir: Spark's checkpoint.
        lateness_ms: How far a partition's watermark stays behind its event time (mode `records`).
        progress: `watermarks`: every partition carries watermark records; `records`: none does.
        emit: `all` (every live key of every window), `changed` (keys whose values differ from the
            window before; one that has left comes once more, with its values of no records) or
            `top` (the k largest of each window).
        k: Size of the top; the workload's own if None.
        batch_records: Records in a batch at most.
        kafka: Further librdkafka settings, such as those of TLS and SASL.
        listener: Called after each batch, in a thread of Spark's.
        sinks: Where results go; None: Parquet files in `results_dir`.
        max_future_ms: How far ahead of the clock (that of Spark's driver, when the batch was
            planned) an event time may be; records beyond are dead and move no watermark. None: a
            replay's clock says nothing about its records.
        dead_letters: Where records go that are none of the workload's; None: they are counted.
        update_ms: How long after its end a window still takes late records; its rows that change
            come again, with a revision number (see `updates`). 0: late records are dropped.

    Raises:
        InputError: An option is out of range, a sink cannot take the results, the topic has other
            partitions, or the checkpoint belongs to other settings.
    """
    plan: WindowPlan | Sessions | PerEvent
    if isinstance(windows, Sessions):
        plan, workload = windows, with_times(workload)
    elif isinstance(windows, PerEvent):
        plan = windows
    else:
        plan = WindowPlan.of(windows, workload.aggregates)
    if emit not in EMITS:
        raise InputError(f'unknown emit "{emit}": {nearest(emit, EMITS)}')
    if progress not in PROGRESS_MODES:
        raise InputError(f'unknown progress "{progress}": {nearest(progress, PROGRESS_MODES)}')
    if num_shards < 1:
        raise InputError(f"num_shards must be at least 1, not {num_shards}")
    if update_ms < 0:
        raise InputError(f"update_ms must be at least 0, not {update_ms}")
    if isinstance(windows, Sessions) and (update_ms or emit != "all"):
        raise InputError(
            "sessions are written when they have ended, each once: leave update_ms and emit out"
        )
    if isinstance(windows, PerEvent) and (
        update_ms or emit != "all" or num_shards != 1 or progress != "watermarks"
    ):
        raise InputError(
            "rows per event need num_shards=1 and watermark records: leave update_ms, emit and "
            "progress out"
        )
    if update_ms and emit != "all":
        raise InputError(
            f'windows that late records update are written with emit="all", not "{emit}": leave '
            "update_ms or emit out"
        )
    k = workload.k if k is None else k
    pinned = {
        "topic": topic,
        "workload": workload.name,
        "num_partitions": num_partitions,
        "num_shards": num_shards,
        "windows": _windows_in_words(plan),
        "lateness_ms": lateness_ms,
        "progress": progress,
        "emit": emit,
        "k": k,
        "update_ms": update_ms,
    }
    by_records = progress == "records"
    if by_records:
        # Partitions may be added to a live topic: Spark reads them from their beginning.
        del pinned["num_partitions"]
    settings = client_settings(bootstrap, kafka or {})
    # With too few the query would never end.
    check_topic(settings, topic, num_partitions)
    into = (ParquetSink(results_dir),) if sinks is None else tuple(sinks)
    writer = ResultWriter(into, workload, plan.windows, emit, k, update_ms > 0)
    for each in into:
        each.open(writer.shape)
    _pin(Path(checkpoint_dir), pinned)
    combiner = Combiner(
        workload,
        plan,
        num_shards,
        lateness_ms if by_records else None,
        max_future_ms,
        dead_letters,
        update_ms,
    )
    holding = None if by_records else num_partitions
    reducer: ShardReducer | SessionReducer | EventReducer
    if isinstance(plan, Sessions):
        reducer = SessionReducer(workload.aggregates, plan, holding)
    elif isinstance(plan, PerEvent):
        reducer = EventReducer(workload.aggregates, plan, num_partitions)
    else:
        reducer = ShardReducer(workload.aggregates, plan, holding, emit, k, update_ms)
    sink = BatchSink(writer, Path(results_dir), listener)
    session = query_session(spark, num_shards)
    reduced = (
        read_combined(session, combiner, settings, topic, batch_records)
        .groupBy("label")
        .transformWithStateInPandas(
            ShardProcessor(reducer, shard_labels(num_shards)), REDUCED, "Update", "None"
        )
    )
    progress_listener = ProgressListener(session)
    progress_listener.attach()
    stream = (
        reduced.writeStream.outputMode("update")
        .foreachBatch(sink)
        # With its scheme: where Hadoop is set up, a bare path is one of its own file system.
        .option("checkpointLocation", f"file://{Path(checkpoint_dir).absolute()}")
    )
    return RunningQuery(stream.start, progress_listener, sink, num_partitions)


def _windows_in_words(plan: WindowPlan | Sessions | PerEvent) -> str:
    if isinstance(plan, PerEvent):
        return f"{plan.window_ms} ms per event"
    if isinstance(plan, Sessions):
        return f"sessions with a gap of {plan.gap_ms} ms"
    return ", ".join(f"{each.size_ms} ms by {each.slide_ms} ms" for each in plan.windows)


def _pin(checkpoint_dir: Path, settings: dict[str, Any]) -> None:
    """Refuse to go on with a checkpoint under other settings; remember those of a new one."""
    path = checkpoint_dir.parent / f"{checkpoint_dir.name}.{PINNED}"
    if path.exists():
        before = json.loads(path.read_text(encoding="utf-8"))
        for name, value in settings.items():
            if before.get(name) != value:
                raise InputError(
                    f"the checkpoint {checkpoint_dir} was made with {name} = {before.get(name)}, "
                    f"not {value}: go on with {before.get(name)}, or start anew with another "
                    "checkpoint folder"
                )
        return
    checkpoint_dir.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_suffix(".tmp")
    scratch.write_text(json.dumps(settings) + "\n", encoding="utf-8")
    scratch.replace(path)


def _why_java_failed(error: BaseException) -> BaseException:
    """What a call to Java failed for: a Ctrl-C in its midst, else the end of Java."""
    cause: BaseException | None = error
    while cause is not None:
        if not isinstance(cause, Exception):
            return cause
        cause = cause.__cause__ or cause.__context__
    return RunError(JAVA_GONE)


def _reason(error: StreamingQueryException | None) -> str:
    """One sentence on why a query ended."""
    if error is None:
        return "the Spark query was stopped before the end of its input: start it again to go on"
    text = str(error)
    for line in reversed(text.splitlines()):
        for name in ("KeyspreadError", "InputError", "RunError"):
            if f"{name}: " in line:
                return line.split(f"{name}: ", 1)[1].strip()
    # Below Spark's own words stands the Python error that they are about, if it was one.
    causes = _PYTHON_ERROR.findall(text) or [line.strip() for line in text.splitlines()[:1]]
    cause = _SPARK_WORDS.sub("", causes[-1] if causes else "no reason given")
    if cause in _SOCKET_WORDS:
        cause = PLANNER_GONE
    return f"the Spark query failed ({cause[:300]}): start it again on the same checkpoint to go on"
