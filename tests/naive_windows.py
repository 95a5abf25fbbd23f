"""The late rule and the windows in plain loops: the slow obvious version the engine must equal."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from pipelines.punctuation import MAGIC, decode_watermark

Row = tuple[bytes | None, bytes | None]
Values = dict[tuple[int, bytes | None], tuple[int, int]]


class Naive(NamedTuple):
    """(window start, key) -> (count, sum), and which records missed a window.

    Attributes:
        missed: (partition, row) of each.
    """

    values: Values
    missed: frozenset[tuple[int, int]]

    @property
    def late(self) -> int:
        """How many records missed a window."""
        return len(self.missed)


def naive_sums(
    partitions: Sequence[Sequence[Row]],
    size_ms: int,
    slide_ms: int,
    watermark_lag_ms: int | None = None,
    update_ms: int = 0,
) -> Naive:
    """Count and sum `ts,key,x` records per window and key, partition by partition.

    A record has missed a window that ended `update_ms` before the watermark.
    """
    sums: dict[tuple[int, bytes | None], list[int]] = defaultdict(lambda: [0, 0])
    late = set()
    for partition, rows in enumerate(partitions):
        watermark = -(2**70)
        for number, (key, value) in enumerate(rows):
            assert value is not None
            if key is None and value.startswith(MAGIC):
                watermark = max(watermark, decode_watermark(value))
                continue
            fields = value.split(b",")
            timestamp, x = int(fields[0]), int(fields[-1])
            if watermark_lag_ms is not None:
                watermark = max(watermark, timestamp - watermark_lag_ms)
            start = timestamp - timestamp % slide_ms
            while start + size_ms > timestamp:
                if start + size_ms <= watermark - update_ms:
                    late.add((partition, number))
                else:
                    sums[start, key][0] += 1
                    sums[start, key][1] += x
                start -= slide_ms
    values = {place: (count, total) for place, (count, total) in sums.items()}
    return Naive(values, frozenset(late))


def changed_only(values: Values, slide_ms: int) -> Values:
    """Only where a key's values differ from the window before; (0, 0) once where it has left."""
    changed = {
        (start, key): value
        for (start, key), value in values.items()
        if values.get((start - slide_ms, key)) != value
    }
    gone = {
        (start + slide_ms, key): (0, 0)
        for start, key in values
        if (start + slide_ms, key) not in values
    }
    return changed | gone


def top_only(values: Values, k: int) -> list[tuple[int, int, bytes | None, int]]:
    """Rows (window start, rank, key, count) of the k largest counts; ties by key, null first."""
    windows: dict[int, list[tuple[int, bool, bytes, bytes | None]]] = defaultdict(list)
    for (start, key), (count, _) in values.items():
        windows[start].append((-count, key is not None, key or b"", key))
    return [
        (start, rank, key, -count)
        for start in sorted(windows)
        for rank, (count, _, _, key) in enumerate(sorted(windows[start])[:k], 1)
    ]
