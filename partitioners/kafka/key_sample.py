"""A sample of a topic's keys: which are hot, and on how many partitions they are.

Of every 256 records one is looked at, each time another at random, so that a stream with a period
hides nothing. That costs a few nanoseconds a record, and tells a key with 1 % of the records
from one with 0.5 % after a million of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

EVERY = 256
# Counts are halved when there are so many, so that what was hot an hour ago fades.
MOST_SAMPLES = 20_000


class SampledKey(NamedTuple):
    """A key of the sample.

    Attributes:
        key: As it was given.
        share: Of the sampled records with a key.
        num_partitions: Partitions that its sampled records are on.
    """

    key: bytes | str
    share: float
    num_partitions: int


class KeySample:
    """What the sampled records of one topic say about its keys.

    Example:
        >>> sample = KeySample()
        >>> for partition in (0, 1, 0):
        ...     sample.add(b"the", partition)
        >>> sample.add(b"a", 0)
        >>> sample.hottest(1)
        [SampledKey(key=b'the', share=0.75, num_partitions=2)]
        >>> sample.num_keys, sample.num_split
        (2, 1)
    """

    def __init__(self) -> None:
        # Of each key its records, and its partitions as bits: a set costs three times as much.
        self._seen: dict[bytes | str, list[int]] = {}
        self._total = 0
        self._draws = np.random.default_rng(0)

    def add(self, key: bytes | str | None, partition: int) -> None:
        """Take a record that is in the sample; null keys ask for no grouping and are left out.

        Args:
            key: Its key.
            partition: Where it went.
        """
        if key is None:
            return
        seen = self._seen.get(key)
        if seen is None:
            self._seen[key] = [1, 1 << partition]
        else:
            seen[0] += 1
            seen[1] |= 1 << partition
        self._total += 1
        if self._total >= MOST_SAMPLES:
            self._fade()

    def rows(self, num_records: int) -> npt.NDArray[np.int64]:
        """Draw a place from every stretch of 256.

        Args:
            num_records: How many there are.
        """
        starts = np.arange(0, num_records, EVERY)
        places = starts + self._draws.integers(0, EVERY, len(starts))
        return places[places < num_records]

    def add_rows(self, keys: Any, partitions: npt.NDArray[np.int32]) -> None:
        """Sample a batch.

        Args:
            keys: A sequence, or an Arrow array.
            partitions: Where each row went.
        """
        rows = self.rows(len(partitions))
        if not len(rows):
            return
        for key, partition in zip(_taken(keys, rows), partitions[rows].tolist(), strict=True):
            self.add(key, partition)

    def _fade(self) -> None:
        # A new dict, for a scrape may be reading the old one.
        self._seen = {key: [count // 2, on] for key, (count, on) in self._seen.items() if count > 1}
        self._total = sum(count for count, _ in self._seen.values())

    def hottest(self, num_keys: int) -> list[SampledKey]:
        """Give the keys with most of the sampled records.

        Args:
            num_keys: How many at most.
        """
        total = max(self._total, 1)
        seen = sorted(self._seen.items(), key=lambda each: -each[1][0])[:num_keys]
        return [SampledKey(key, count / total, on.bit_count()) for key, (count, on) in seen]

    @property
    def num_keys(self) -> int:
        """Keys in the sample."""
        return len(self._seen)

    @property
    def num_split(self) -> int:
        """Of these, keys seen on more than one partition: at least so many are split."""
        return sum(on.bit_count() > 1 for _, on in list(self._seen.values()))


def _taken(keys: Any, rows: npt.NDArray[np.int64]) -> Iterable[bytes | str | None]:
    if hasattr(keys, "take"):
        taken: list[bytes | str | None] = keys.take(rows).to_pylist()
        return taken
    column: Sequence[bytes | str | None] = keys
    return [column[row] for row in rows.tolist()]
