"""Load per partition over the stream, in a bounded number of slots of equally many records."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

MOST_SLOTS = 96
MOST_COUNTS = 4_096  # of all slots and partitions: what a cell may grow by
FIRST_SLOT_RECORDS = 64


class LoadOverTime:
    """Counts records per partition while a stream goes by; its length need not be known.

    When all slots are in use, neighbours are added up and slots hold twice as many records. Slots
    follow the records and not the clock, so that a single record from the year 9999 leaves them
    as they are, and a resumed run counts as one that was not stopped.

    Args:
        num_partitions: Partitions there are.

    Example:
        >>> load = LoadOverTime(2)
        >>> load.add(np.array([0, 1, 1], np.int32), np.array([10, 11, 12]))
        >>> load.as_json()
        {'slot_records': 64, 'first_ms': [10], 'records': [[1, 2]]}
    """

    def __init__(self, num_partitions: int) -> None:
        num_slots = min(MOST_SLOTS, max(8, MOST_COUNTS // num_partitions)) // 2 * 2
        self.slot_records = FIRST_SLOT_RECORDS
        self._num_partitions = num_partitions
        self._counts = np.zeros((num_slots, num_partitions), np.int64)
        self._first_ms = np.zeros(num_slots, np.int64)
        self._num_records = 0

    def add(
        self, partitions: npt.NDArray[np.signedinteger], timestamps_ms: npt.NDArray[np.int64]
    ) -> None:
        """Count records, in the order of the stream.

        Args:
            partitions: Where each goes.
            timestamps_ms: Event times.
        """
        if not len(partitions):
            return
        num_slots = len(self._counts)
        begin, end = self._num_records, self._num_records + len(partitions)
        while end > num_slots * self.slot_records:
            self._halve()
        first, last = begin // self.slot_records, (end - 1) // self.slot_records
        slots = np.arange(begin, end) // self.slot_records - first
        flat = np.bincount(
            slots * self._num_partitions + partitions,
            minlength=(last - first + 1) * self._num_partitions,
        )
        self._counts[first : last + 1] += flat.reshape(-1, self._num_partitions)
        starts = np.arange(first, last + 1) * self.slot_records
        new = starts >= begin
        self._first_ms[first : last + 1][new] = timestamps_ms[starts[new] - begin]
        self._num_records = end

    def _halve(self) -> None:
        half = len(self._counts) // 2
        self._counts[:half] = self._counts[::2] + self._counts[1::2]
        self._counts[half:] = 0
        self._first_ms[:half] = self._first_ms[::2].copy()
        self._first_ms[half:] = 0
        self.slot_records *= 2

    def as_json(self) -> dict[str, Any]:
        """Give records of each slot (the last may be short), event time of its first, counts."""
        used = -(-self._num_records // self.slot_records)
        return {
            "slot_records": self.slot_records,
            "first_ms": self._first_ms[:used].tolist(),
            "records": self._counts[:used].tolist(),
        }
