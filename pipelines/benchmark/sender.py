"""Sends messages to partitions already chosen, through the PartitionedProducer.

The choice was made before, by several sources and with watermark records among the rows; queueing,
back-pressure, retries and counting are the producer's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from partitioners.base import (
    Loads,
    Partitioner,
    Partitions,
    Traits,
)
from partitioners.config import Config
from partitioners.errors import RunError
from partitioners.hashing import Key, Keys
from partitioners.kafka import PartitionedProducer

# How long a stopped run waits for what it has handed over.
STOPPED_FLUSH_SECONDS = 10.0


class GivenPartitions(Partitioner):
    """Sends each record where it was told before.

    Args:
        num_partitions: Partitions of the topic.
    """

    name: ClassVar[str] = "given"
    traits = Traits(splits_keys=True)
    config_type: ClassVar[type[Config]] = Config

    def __init__(self, num_partitions: int) -> None:
        super().__init__(num_partitions)
        self.given: Partitions = np.empty(0, np.int32)

    def route(
        self,
        key_hashes: npt.NDArray[np.uint64],  # noqa: ARG002  the choice was made
        timestamps_ms: npt.NDArray[np.int64],  # noqa: ARG002
        out: Partitions,
        weights: Loads | None = None,  # noqa: ARG002
    ) -> None:
        """Give the partitions told."""
        out[:] = self.given

    def partition_batch(
        self,
        keys: Keys,  # noqa: ARG002
        timestamps_ms: npt.ArrayLike | None = None,  # noqa: ARG002
        weights: npt.ArrayLike | None = None,  # noqa: ARG002
    ) -> Partitions:
        """Give the partitions told, for null keys too."""
        return self.given

    def partition(self, key: Key, timestamp_ms: int | None = None) -> int:
        """Refuse: single records have no place here."""
        raise NotImplementedError("GivenPartitions takes batches")


class TopicSender:
    """The sending end of a replay.

    Args:
        settings: Settings of librdkafka.
        topic: Where to.
        num_partitions: Its partitions.
    """

    def __init__(self, settings: Mapping[str, Any], topic: str, num_partitions: int) -> None:
        self.topic = topic
        self._given = GivenPartitions(num_partitions)
        self._producer = PartitionedProducer(
            settings, {topic: self._given}, on_partition_change="fail"
        )

    @property
    def producer(self) -> PartitionedProducer:
        """The producer beneath."""
        return self._producer

    def send(self, keys: pa.Array, values: pa.Array, partitions: npt.NDArray[np.int32]) -> None:
        """Hand over messages, in order.

        Args:
            keys: Binary, nulls allowed.
            values: Binary.
            partitions: Where each goes.

        Raises:
            RunError: The client takes no more.
        """
        self._given.given = partitions
        self._producer.produce_batch(self.topic, keys, values)

    def finish(self, *, stopped: bool) -> int:
        """Wait for the acknowledgements and let the client go.

        Args:
            stopped: Do not wait long, and do not complain about what is still on its way.

        Returns:
            Messages delivered.

        Raises:
            RunError: Not everything was delivered.
        """
        try:
            self._producer.close(STOPPED_FLUSH_SECONDS if stopped else -1)
        except RunError:
            if not stopped:
                raise
        return self._producer.delivered
