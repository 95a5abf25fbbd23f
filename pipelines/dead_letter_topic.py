"""Records of a topic that are none of a query's: to a topic of their own, with reason and place.

A dead letter is the record as it was, key and value, with headers: `keyspread.reason`, and its
place as `keyspread.topic`, `keyspread.partition`, `keyspread.offset`. It goes to the partition of
its own partition's number (modulo their number), so those of a partition come in order.

At least once: the combiners send them before their batch is committed, so a batch that is done
again after a kill sends its letters again. An offset not above the largest one seen of its topic
and partition is such a second copy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from pipelines.blobs import Int64s

if TYPE_CHECKING:
    from partitioners.kafka import PartitionedProducer

REASON, TOPIC, PARTITION, OFFSET = (
    f"keyspread.{name}" for name in ("reason", "topic", "partition", "offset")
)

MAX_BYTES = 16 << 20


class Letters(NamedTuple):
    """Dead records of a topic partition.

    Attributes:
        offsets: int64[n]
        keys: Binary array of n keys.
        values: Binary array of n values.
        reasons: A text for each.
    """

    offsets: Int64s
    keys: pa.Array
    values: pa.Array
    reasons: Sequence[str]


@dataclass(frozen=True)
class DeadLetterTopic:
    """Sends dead records of one topic to another.

    Attributes:
        topic: Where they go.
        source: The topic they are of.
        settings: Of the Kafka client, servers included.
        num_partitions: Of `topic`, once it is open.
    """

    topic: str
    source: str
    settings: Mapping[str, Any] = field(repr=False)
    num_partitions: int = 1

    def check(self) -> None:
        """See that a producer can be made, before the first dead record finds that it cannot.

        Raises:
            InputError: A setting is refused.
        """
        with self._producer() as producer:
            _ = producer.client

    def send(self, partition: int, parts: Sequence[Letters]) -> int:
        """Send letters of a topic partition, and wait until the broker has them.

        Args:
            partition: Where they were.
            parts: The letters, in order.

        Returns:
            How many there were.

        Raises:
            RunError: The broker did not take all of them.
        """
        number = 0
        to = partition % self.num_partitions
        place = [(TOPIC, self.source), (PARTITION, str(partition))]
        with self._producer() as producer:
            for letters in parts:
                for offset, key, value, reason in zip(
                    letters.offsets.tolist(),
                    letters.keys.to_pylist(),
                    letters.values.to_pylist(),
                    letters.reasons,
                    strict=True,
                ):
                    headers: list[tuple[str, str | bytes | None]] = [
                        (REASON, reason),
                        *place,
                        (OFFSET, str(offset)),
                    ]
                    producer.produce(self.topic, value, key, to, headers=headers)
                    number += 1
        return number

    def _producer(self) -> PartitionedProducer:
        from partitioners.kafka import PartitionedProducer

        # A record that Kafka took, with headers on top.
        settings = {"message.max.bytes": MAX_BYTES, **self.settings}
        return PartitionedProducer(settings, {self.topic: "key_hash"})
