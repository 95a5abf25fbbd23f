"""Sliding windows over one's own topic, in five lines: `pipelines.run`."""

from __future__ import annotations

import shutil
import sys
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka.admin import AdminClient
from pyspark import cloudpickle
from pyspark.sql import SparkSession

from partitioners.errors import InputError
from partitioners.kafka.topics import count_partitions, ensure_topic
from pipelines import engine
from pipelines.aggregates import Aggregate
from pipelines.dead_letter_topic import DeadLetterTopic
from pipelines.json_records import JsonQuery, TimeUnit
from pipelines.metrics import LOCALHOST, MetricsServer, QueryCollector
from pipelines.panes import Windows
from pipelines.session import spark_session
from pipelines.sessions import Sessions
from pipelines.sinks import MemorySink, ParquetSink, Sink, named_sink
from pipelines.source.partition import check_settings
from pipelines.topics import client_settings, described_topic, require_answer

MAX_FUTURE_MS = 3_600_000
"""An hour: more than clocks are wrong by, less than what would close windows of the day."""
# Begins the name of a folder that goes with its query.
SCRATCH = "keyspread-query-"


@dataclass(frozen=True, kw_only=True)
class Topic:
    """A topic of JSON objects.

    Attributes:
        name: The topic.
        bootstrap: Kafka servers.
        time: The field with the event time.
        time_unit: "ms", "s" or "us" of the Unix epoch, or "iso" for ISO 8601 text.
        decimals: Decimal places of number fields; the others hold integers.
        kafka: Further librdkafka settings, such as those of TLS and SASL.
    """

    name: str
    bootstrap: str
    time: str
    time_unit: TimeUnit = "ms"
    decimals: Mapping[str, int] = field(default_factory=dict)
    kafka: Mapping[str, str] = field(default_factory=dict)


def run(
    source: Topic,
    *,
    key: str | None = None,
    aggregates: Sequence[Aggregate] = (),
    windows: Windows | Sequence[Windows] | Sessions,
    sink: Path | str | Sink | Sequence[Path | str | Sink],
    emit: engine.Emit = "all",
    order_by: Sequence[str] = ("count",),
    k: int = 10,
    lateness_ms: int = 0,
    update_ms: int = 0,
    max_future_ms: int | None = MAX_FUTURE_MS,
    dead_letters: str | None = None,
    num_shards: int = 2,
    checkpoint: Path | str | None = None,
    batch_records: int = 1_000_000,
    spark: SparkSession | None = None,
    master: str = "local[2]",
    metrics_port: int | None = None,
    metrics_host: str = LOCALHOST,
) -> engine.RunningQuery:
    """Start a query over a topic from its beginning, or go on where its checkpoint is.

    The number of records is always computed, as `count`. Records that are not what the source says
    are left out and counted (`dead`): on time + late + dead are all records of the topic.

    Args:
        source: The topic.
        key: The field to group by; None: the key of the records.
        aggregates: What to compute.
        windows: `Sessions`, or the windows; several of different sizes share one set of panes, and
            their results one sink (see `explain` for what they cost).
        sink: Where results go: a folder for Parquet files, a sink of `pipelines.sinks`, a name
            that `pipelines.sinks.named_sink` knows, or several of these.
        emit: See `engine.start`.
        order_by: Names of the aggregates that order the top, where `emit` is "top".
        k: Size of the top.
        lateness_ms: How late a record may be, by the largest event time of its partition. Windows
            wait so long.
        update_ms: How long after it was written a window still takes late records. Its rows that
            change are written again, with the next `revision`; the newest one holds, and sinks
            that replace rows (PostgreSQL, a compacted topic) have that one only. 0: a record
            that misses a window is counted as late.
        max_future_ms: How far ahead of the clock a record's time may be; one beyond is dead, for it
            would close windows that others still belong to. None: as far as you like, for a topic
            whose times are not those of the clock.
        dead_letters: A topic for the records that are left out, with reason and offset in their
            headers (see `pipelines.dead_letter_topic`); made if it is not there. None: they are
            counted.
        num_shards: Reducers.
        checkpoint: Folder of the checkpoint; None: `sink` with ".checkpoint" behind it where that
            is a folder, and none that lasts where results are in memory or on the console only.
        batch_records: Records in a batch at most.
        spark: A session of `spark_session`; None: one is made.
        master: Spark master of a session that is made.
        metrics_port: Serve Prometheus metrics there until the query stops; 0: any free port.
        metrics_host: On which address.

    Returns:
        The running query: `progress`, `results`, `process_available`, `await_end`, `stop`.

    Raises:
        InputError: The broker does not answer, there is no such topic, or an argument is no good.

    Example:
        ::

            import pipelines
            clicks = pipelines.Topic(
                name="clicks", bootstrap="localhost:9092", time="ts", decimals={"price": 2}
            )
            query = pipelines.run(
                clicks,
                key="user",
                aggregates=[pipelines.Sum("spent", "price"), pipelines.Median("typical", "price")],
                windows=pipelines.Windows.of("30 min", "1 min"),
                sink="results",
            )
    """
    settings = client_settings(source.bootstrap, source.kafka)
    query = JsonQuery(
        f"json-{source.name}",
        aggregates,
        time=source.time,
        time_unit=source.time_unit,
        key=key,
        decimals=source.decimals,
        order_by=tuple(order_by),
        k=k,
    )
    for name, number in (
        ("lateness_ms", lateness_ms),
        ("update_ms", update_ms),
        ("max_future_ms", max_future_ms),
    ):
        if number is not None and number < 0:
            raise InputError(f"{name} must be at least 0, not {number}")
    check_settings(settings)
    require_answer(settings)
    described = described_topic(AdminClient(settings), source.name)
    if described is None:
        raise InputError(f'there is no topic "{source.name}" at {source.bootstrap}: check its name')
    num_partitions = described.num_partitions
    sinks = _sinks(sink, source)
    checkpoint_dir, results_dir = _places(sinks, checkpoint)
    letters = None
    if dead_letters is not None:
        letters = _letters(dead_letters, source, settings, num_partitions)
    _ship(aggregates)
    if spark is None:
        spark = spark_session(master)
    running = engine.start(
        spark,
        query,
        bootstrap=source.bootstrap,
        topic=source.name,
        num_partitions=num_partitions,
        num_shards=num_shards,
        windows=windows,
        results_dir=results_dir,
        checkpoint_dir=checkpoint_dir,
        sinks=sinks,
        max_future_ms=max_future_ms,
        dead_letters=letters,
        lateness_ms=lateness_ms,
        update_ms=update_ms,
        progress="records",
        emit=emit,
        k=k,
        batch_records=batch_records,
        kafka=source.kafka,
    )
    if checkpoint_dir.parent.name.startswith(SCRATCH):
        weakref.finalize(running, shutil.rmtree, checkpoint_dir.parent, ignore_errors=True)
    if metrics_port is not None:
        _show_metrics(running, source, windows, metrics_port, metrics_host)
    return running


def _show_metrics(
    running: engine.RunningQuery,
    source: Topic,
    windows: Windows | Sequence[Windows] | Sessions,
    port: int,
    host: str,
) -> None:
    """Serve a query's metrics until it stops."""
    try:
        server = running.closing.enter_context(MetricsServer(port, host))
    except InputError:
        running.stop()
        raise
    kinds = [windows] if isinstance(windows, Windows | Sessions) else list(windows)
    only = kinds[0] if len(kinds) == 1 else None
    size_ms = only.size_ms if isinstance(only, Windows) else None
    labels = {"topic": source.name}
    server.show([QueryCollector(running, labels=labels, window_ms=size_ms)])


def _letters(
    topic: str, source: Topic, settings: dict[str, Any], num_partitions: int
) -> DeadLetterTopic:
    """The topic of dead letters, made if it is not there."""
    if topic == source.name:
        raise InputError("dead letters need a topic of their own: name another than the source's")
    there = count_partitions(AdminClient(settings), topic)
    letters = DeadLetterTopic(topic, source.name, settings, there or num_partitions)
    letters.check()
    if there is None:
        ensure_topic(settings, topic, num_partitions)
    return letters


def _sinks(
    sink: Path | str | Sink | Sequence[Path | str | Sink], source: Topic
) -> tuple[Sink, ...]:
    """The sinks that were said."""
    several = [sink] if isinstance(sink, Path | str | Sink) else sink
    found: list[Sink] = []
    for each in several:
        if isinstance(each, str):
            found.append(
                named_sink(each, query=source.name, bootstrap=source.bootstrap, kafka=source.kafka)
            )
        else:
            found.append(ParquetSink(each) if isinstance(each, Path) else each)
    if not found:
        raise InputError('name a sink, such as a folder, or "console"')
    return tuple(found)


def _places(sinks: tuple[Sink, ...], checkpoint: Path | str | None) -> tuple[Path, Path]:
    """Where the checkpoint and the batch log are.

    Raises:
        InputError: No checkpoint is said and none follows, or a sink in memory cannot go with one.
    """
    lasting = [sink for sink in sinks if sink.keeps]
    if any(isinstance(sink, MemorySink) for sink in sinks) and (lasting or checkpoint is not None):
        raise InputError(
            "memory is empty at each start, so it goes with no checkpoint and no sink that keeps "
            "results: leave these out, or leave memory out"
        )
    folder = next((Path(sink.folder) for sink in sinks if isinstance(sink, ParquetSink)), None)
    if checkpoint is not None:
        where = Path(checkpoint)
    elif folder is not None:
        where = folder.with_name(f"{folder.name}.checkpoint")
    elif lasting:
        raise InputError("say a folder for the checkpoint, from which the next start goes on")
    else:
        where = Path(tempfile.mkdtemp(prefix=SCRATCH)) / "checkpoint"
    return where, folder or where.with_name(f"{where.name}.log")


def _ship(aggregates: Sequence[Aggregate]) -> None:
    """Send the modules of one's own aggregates along: Spark's workers need not find them."""
    for each in aggregates:
        home = type(each).__module__
        if home.partition(".")[0] not in ("pipelines", "__main__"):
            cloudpickle.register_pickle_by_value(  # type: ignore[no-untyped-call]
                sys.modules[home]
            )
