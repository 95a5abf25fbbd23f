"""A partitioner as the callable that kafka-python 2 and aiokafka take. Imports neither client.

Both call it for each record with the key's bytes and the lists of all and of available
partitions, in an order that varies from call to call.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from partitioners import Partitioner, create
from partitioners.errors import InputError


class PartitionCallable:
    """Asks a partitioner for each record; made once per producer *and topic*.

    Neither client says which topic a record is for, so one such producer serves one topic. When
    the topic's partition count changes, the partitioner is made anew for it with its options.

    Args:
        partitioner: A partitioner, or the name of one to be made at the first record.
        options: Options of a partitioner given by name.

    Raises:
        InputError: The name or an option is unknown.

    Example:
        >>> choose = PartitionCallable("key_hash")
        >>> choose(b"100:48069", [3, 1, 0, 2, 11, 10, 4, 5, 6, 7, 8, 9], [0])
        9
    """

    def __init__(
        self, partitioner: str | Partitioner, options: Mapping[str, Any] | None = None
    ) -> None:
        self._options = dict(options or {})
        self._name = partitioner if isinstance(partitioner, str) else partitioner.name
        self._partitioner: Partitioner | None = None
        if not isinstance(partitioner, str):
            if self._options:
                raise InputError(
                    "options go with a partitioner's name: give them to create() instead"
                )
            self._partitioner = partitioner  # one that was given may have been fitted
        # Made here only to tell a wrong name now, and not at the first record.
        elif create(partitioner, 1, **self._options).traits.needs_batch:
            raise InputError(
                f"{self._name} decides on whole batches, and this client asks record by record: "
                "give one that was fitted, or use a partitioner for streams such as pkg"
            )
        self._given = self._partitioner is not None

    def __call__(
        self,
        key: bytes | None,
        all_partitions: Collection[int],
        available: Collection[int],  # noqa: ARG002 - part of the clients' signature
    ) -> int:
        """Choose a partition.

        Args:
            key: The serialized key.
            all_partitions: Numbers of all partitions, in any order.
            available: Numbers of those with a leader; a record for another one waits for it.

        Returns:
            The partition's number.

        Raises:
            InputError: The partitioner given is for another number of partitions.
        """
        num_partitions = len(all_partitions)
        partitioner = self._partitioner
        if partitioner is None or partitioner.num_partitions != num_partitions:
            partitioner = self._fit(num_partitions)
        chosen = partitioner.partition(key)
        # Kafka numbers partitions 0 to n - 1; only a client's own view could have gaps.
        return chosen if chosen in all_partitions else sorted(all_partitions)[chosen]

    def _fit(self, num_partitions: int) -> Partitioner:
        before = self._partitioner
        if before is None:
            self._partitioner = create(self._name, num_partitions, **self._options)
        elif self._given:
            raise InputError(
                f"the topic has {num_partitions} partitions and its partitioner "
                f"{before.num_partitions}: make it for {num_partitions}, or give its name"
            )
        else:
            self._partitioner = type(before)(num_partitions, before.config)
        return self._partitioner


def partition_callable(partitioner: str | Partitioner, **options: Any) -> PartitionCallable:
    """Give what `AIOKafkaProducer(partitioner=...)` and kafka-python 2 take.

    Args:
        partitioner: A name, or a partitioner for the topic's number of partitions.
        options: Options of a partitioner given by name.

    Example:
        >>> partition_callable("pkg", d=3)(b"user-7", range(8), range(8)) in range(8)
        True
    """
    return PartitionCallable(partitioner, options)
