"""A topic as Spark's stream of partials: batches are planned here, and combined in tasks.

Offsets stand in Spark's checkpoint as its own Kafka source writes them, topic to partition to
offset. Beside those in which a batch ends stand the clock when it was planned, Kafka's id of the
topic, and where partitions begin that are new in it (all, in the first), so that a batch that is
done again is the same.

Spark imports this in processes of their own that plan, anew for each query: it has to be quick, and
so what combines stays pickled here.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows
from pyspark.sql.types import StructType

from pipelines.source.files import Shipped
from pipelines.source.offsets import Offsets, TopicOffsets, limited

if TYPE_CHECKING:
    import pyarrow as pa

# No topic can have such a name.
_PLANNED = "planned at, ms"
_ADDED = "added partitions"
_TOPIC_ID = "topic id"
_FIRST = "nothing read yet"


@dataclass(frozen=True)
class Topic:
    """What is read, and how it is combined.

    Attributes:
        settings: A client's.
        name: The topic.
        batch_records: Records in a batch at most.
        columns: Of what is combined.
        combine: A pickled function from records, as `read_partition` has them, and the clock of
            their batch in ms, to rows of these columns.
    """

    settings: Shipped
    name: str
    batch_records: int
    columns: StructType
    combine: bytes


class CombinedTopic(DataSource):
    """Spark makes it from the class: what it reads goes along as an attribute of a subclass."""

    topic: Topic

    def schema(self) -> StructType:
        """See `DataSource`."""
        return self.topic.columns

    def streamReader(self, schema: StructType) -> TopicReader:  # noqa: ARG002, N802 - Spark's name
        """See `DataSource`."""
        return TopicReader(self.topic)


class PartitionRange(InputPartition):
    """Offsets of one partition in one batch."""

    def __init__(self, partition: int, start: int, end: int, planned_ms: int) -> None:
        self.partition, self.start, self.end = partition, start, end
        self.planned_ms = planned_ms


class TopicReader(DataSourceStreamReader):
    """Plans batches, in a process beside Spark's driver, and reads their partitions, in tasks."""

    def __init__(self, topic: Topic) -> None:
        self._topic = topic
        self._asked: TopicOffsets | None = None
        self._ends: Offsets = {}

    @property
    def _offsets(self) -> TopicOffsets:
        if self._asked is None:
            self._asked = TopicOffsets(self._topic.settings.settings(), self._topic.name)
        return self._asked

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """See `DataSourceStreamReader`."""
        return {**self._to_json(self._offsets.first()), _FIRST: True}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """See `DataSourceStreamReader`."""
        return ReadMaxRows(self._topic.batch_records)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """See `DataSourceStreamReader`."""
        known = self._of_json(start)
        self._ends = self._offsets.last(known)
        if self._ends != known:
            # After its offsets: they may be those of a topic made anew.
            self._offsets.require(start.get(_TOPIC_ID))
        added = self._offsets.first_of_new(known, self._ends)
        if start.get(_FIRST):
            # Where the first batch begins stands in no checkpoint of Spark's.
            added = {**known, **added}
        ends = self._ends
        if not isinstance(limit, ReadAllAvailable):
            ends = limited({**known, **added}, ends, self._topic.batch_records)
        # An offset that differs is a batch to Spark.
        return start if ends == known else self._to_json(ends, added)

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802 - Spark's name
        """See `DataSourceStreamReader`."""
        return self._to_json(self._ends) if self._ends else None

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """See `DataSourceStreamReader`."""
        self._offsets.require(end.get(_TOPIC_ID))
        starts = {**self._of_json(start), **_by_partition(end.get(_ADDED, {}))}
        # Spark's own source, which planned the batches of older checkpoints, did not note it.
        planned_ms = end.get(_PLANNED, _now_ms())
        return [
            PartitionRange(partition, starts.get(partition, 0), last, planned_ms)
            for partition, last in self._of_json(end).items()
            if last > starts.get(partition, 0)
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read and combine the records of a partition, in a task of Spark's."""
        from pipelines.source.partition import read_partition

        assert isinstance(partition, PartitionRange)
        topic = self._topic
        batches = read_partition(
            topic.settings, topic.name, partition.partition, partition.start, partition.end
        )
        combine = pickle.loads(topic.combine)  # noqa: S301 - the query's own plan brought it
        yield from combine(batches, partition.planned_ms)

    def _to_json(self, offsets: Offsets, added: Offsets | None = None) -> dict[str, Any]:
        what = {
            self._topic.name: _to_text(offsets),
            _PLANNED: _now_ms(),
            _TOPIC_ID: self._offsets.topic_id,
        }
        return {**what, _ADDED: _to_text(added)} if added else what

    def _of_json(self, offsets: dict[str, Any]) -> Offsets:
        return _by_partition(offsets[self._topic.name])


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _to_text(offsets: Offsets) -> dict[str, int]:
    return {str(partition): offset for partition, offset in offsets.items()}


def _by_partition(offsets: Mapping[str, int]) -> Offsets:
    return {int(number): offset for number, offset in offsets.items()}
