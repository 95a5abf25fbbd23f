"""Records that wait, one by one produced, until they are a micro-batch for their partitioner.

A partitioner such as `prompt` decides well only when it knows a whole batch. So `produce` keeps
its records here until there are enough of them or the first has waited long enough; then all are
routed at once and sent in the order they came. A record that is refused is refused when it is
given, not later in the name of another.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from time import monotonic, time_ns
from typing import Any

import numpy as np

from partitioners import Partitioner
from partitioners.errors import InputError

NO_PARTITION = -1


@dataclass(slots=True)
class WaitingRecord:
    """A record as `produce` was given it."""

    value: bytes | str | None
    key: bytes | str | None
    partition: int  # `NO_PARTITION` until it is routed
    report: Any
    timestamp: int
    headers: Any
    event_time_ms: int


@dataclass
class Waiting:
    """The records of one topic that wait, in their order.

    Attributes:
        max_records: So many are a micro-batch.
        max_ms: The first waits no longer than this.
        max_record_bytes: What the client sends at most in one record.
    """

    max_records: int
    max_ms: int
    max_record_bytes: int
    records: deque[WaitingRecord] = field(default_factory=deque)
    due_s: float = 0.0
    is_draining: bool = False

    def __len__(self) -> int:
        return len(self.records)

    def add(self, topic: str, record: WaitingRecord) -> None:
        """Let a record wait.

        Raises:
            InputError: The client would refuse it.
        """
        size = _size(record.value, "value") + _size(record.key, "key")
        if size > self.max_record_bytes:
            raise InputError(
                f'a record for topic "{topic}" is larger than the client sends: set '
                '"message.max.bytes" in its settings (and the topic\'s max.message.bytes) higher, '
                "or make it smaller"
            )
        if not self.records:
            self.due_s = monotonic() + self.max_ms / 1000
        self.records.append(record)

    @property
    def is_due(self) -> bool:
        """Whether the batch is full or has waited long enough."""
        return bool(self.records) and (
            len(self.records) >= self.max_records or monotonic() >= self.due_s
        )

    def route(self, partitioner: Partitioner) -> None:
        """Give every waiting record its partition, as one micro-batch."""
        open_records = [each for each in self.records if each.partition == NO_PARTITION]
        if not open_records:
            return
        partitions = partitioner.partition_micro_batch(
            [each.key for each in open_records],
            np.array([each.event_time_ms for each in open_records], np.int64),
        )
        for record, partition in zip(open_records, partitions.tolist(), strict=True):
            record.partition = partition


def event_time(event_time_ms: int | None, timestamp: int) -> int:
    """Give a record's event time: what it was given, its Kafka timestamp, or the wall clock's."""
    if event_time_ms is not None:
        return event_time_ms
    return timestamp or time_ns() // 1_000_000


def _size(part: object, name: str) -> int:
    if part is None:
        return 0
    if isinstance(part, str):
        return len(part.encode())
    if isinstance(part, bytes):
        return len(part)
    raise InputError(f"a {name} is bytes, str or None, not {type(part).__name__}; encode it first")
