"""Sliding windows over one's own topic, in five lines: `pipelines.run`."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka.admin import AdminClient
from pyspark import cloudpickle
from pyspark.sql import SparkSession

from partitioners.errors import InputError
from partitioners.kafka.topics import count_partitions
from pipelines import engine
from pipelines.aggregates import Aggregate
from pipelines.java_client import java_client_settings
from pipelines.json_records import JsonQuery, TimeUnit
from pipelines.panes import Windows
from pipelines.session import spark_session
from pipelines.topics import client_settings, require_answer


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
    windows: Windows,
    sink: Path | str,
    emit: engine.Emit = "all",
    order_by: Sequence[str] = ("count",),
    k: int = 10,
    lateness_ms: int = 0,
    num_shards: int = 2,
    checkpoint: Path | str | None = None,
    batch_records: int = 1_000_000,
    spark: SparkSession | None = None,
    master: str = "local[2]",
) -> engine.RunningQuery:
    """Start a query over a topic from its beginning, or go on where its checkpoint is.

    The number of records is always computed, as `count`. Records that are not what the source says
    are left out and counted (`dead`).

    Args:
        source: The topic.
        key: The field to group by; None: the key of the records.
        aggregates: What to compute.
        windows: The windows.
        sink: Folder for Parquet files.
        emit: See `engine.start`.
        order_by: Names of the aggregates that order the top, where `emit` is "top".
        k: Size of the top.
        lateness_ms: How late a record may be, by the largest event time of its partition.
        num_shards: Reducers.
        checkpoint: Folder of the checkpoint; None: `sink` with ".checkpoint" behind it.
        batch_records: Records in a batch at most.
        spark: A session of `spark_session`; None: one is made.
        master: Spark master of a session that is made.

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
    if lateness_ms < 0:
        raise InputError(f"lateness_ms must be at least 0, not {lateness_ms}")
    require_answer(settings)
    num_partitions = count_partitions(AdminClient(settings), source.name)
    if num_partitions is None:
        raise InputError(f'there is no topic "{source.name}" at {source.bootstrap}: check its name')
    _ship(aggregates)
    if spark is None:
        spark = spark_session(master)
    return engine.start(
        spark,
        query,
        bootstrap=source.bootstrap,
        topic=source.name,
        num_partitions=num_partitions,
        num_shards=num_shards,
        window_ms=windows.size_ms,
        slide_ms=windows.slide_ms,
        results_dir=sink,
        checkpoint_dir=checkpoint or f"{Path(sink)}.checkpoint",
        lateness_ms=lateness_ms,
        progress="records",
        emit=emit,
        k=k,
        batch_records=batch_records,
        kafka_options=java_client_settings(source.kafka),
    )


def _ship(aggregates: Sequence[Aggregate]) -> None:
    """Send the modules of one's own aggregates along: Spark's workers need not find them."""
    for each in aggregates:
        home = type(each).__module__
        if home.partition(".")[0] not in ("pipelines", "__main__"):
            cloudpickle.register_pickle_by_value(  # type: ignore[no-untyped-call]
                sys.modules[home]
            )
