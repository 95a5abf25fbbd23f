"""Results as Kafka messages with keys, one per window and key."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import polars as pl
import pyarrow as pa

from partitioners.errors import InputError, RunError
from partitioners.kafka import PartitionedProducer, ensure_topic
from partitioners.kafka.refusals import raise_if_refused
from partitioners.kafka.settings import admin_settings
from partitioners.kafka.topics import count_partitions, require_may_write
from pipelines.sinks.base import Part, Shape, Sink, plain


@dataclass(frozen=True)
class KafkaSink(Sink):
    """A topic of results: key and value are JSON objects, times in milliseconds of the Unix epoch.

    The key holds the columns that tell a result from others (`window_start`, `window_end`, and the
    key columns or the rank), the value holds all. Decimals are text, so that they stay exact;
    binary columns are base64; NaN is null.

    At least once: a batch that is done again after a kill sends its messages again, with the same
    keys and values. So a reader that takes the last message of each key is exact, and so is a
    compacted topic. All messages of a key are in one partition, as Kafka's own hash places them.
    Transactions would not help: Spark commits a batch after its results are written, and has no
    way to commit both as one.

    Attributes:
        topic: Made if it is not there, with compaction.
        bootstrap: Kafka servers.
        kafka: Further librdkafka settings, such as those of TLS and SASL.
        num_partitions: Of the topic, if it is made.
        topic_config: Settings of the topic, if it is made.
    """

    guarantee: ClassVar[str] = "at least once; exact by key, of which the last message counts"
    topic: str
    bootstrap: str
    kafka: Mapping[str, Any] = field(default_factory=dict)
    num_partitions: int = 4
    topic_config: Mapping[str, str] = field(default_factory=lambda: {"cleanup.policy": "compact"})

    @property
    def _settings(self) -> dict[str, Any]:
        return {"log_level": 0, **self.kafka, "bootstrap.servers": self.bootstrap}

    def open(self, shape: Shape) -> None:  # noqa: ARG002
        """See `Sink`."""
        from confluent_kafka.admin import AdminClient

        try:
            there = count_partitions(AdminClient(admin_settings(self._settings)), self.topic, 10.0)
        except RunError as error:
            raise_if_refused(self._settings)
            raise InputError(f"the sink's Kafka: {error}") from error
        if there is None:
            ensure_topic(
                self._settings, self.topic, self.num_partitions, topic_config=self.topic_config
            )
        require_may_write(self._settings, self.topic)

    def write(self, tables: Iterable[pa.Table], shape: Shape, part: Part) -> int:  # noqa: ARG002
        """See `Sink`."""
        rows = 0
        with PartitionedProducer(self._settings, {self.topic: "key_hash"}) as producer:
            for table in tables:
                keys, values = messages(plain(table, shape.schema), shape)
                producer.produce_batch(self.topic, keys, values)
                rows += table.num_rows
        return rows


def messages(table: pa.Table, shape: Shape) -> tuple[pa.Array, pa.Array]:
    """The keys and values of rows, two arrays of JSON text.

    Example:
        >>> shape = Shape("q", pa.schema([("window_start", pa.timestamp("ms")), ("n", pa.int64())]),
        ...               ("window_start",))
        >>> rows = pa.table({"window_start": [5], "n": [2]}).cast(shape.schema)
        >>> [column.to_pylist() for column in messages(rows, shape)]
        [['{"window_start":5}'], ['{"window_start":5,"n":2}']]
    """
    frame = pl.DataFrame(pl.from_arrow(table)).with_columns(
        pl.selectors.datetime().dt.epoch("ms"), pl.selectors.binary().bin.encode("base64")
    )
    text = frame.select(
        key=pl.struct(shape.identity).struct.json_encode(),
        value=pl.struct(pl.all()).struct.json_encode(),
    )
    return text["key"].to_arrow(), text["value"].to_arrow()
