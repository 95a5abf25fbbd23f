"""State of partitioners after many distinct keys: what `keyspread bench memory` prints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from rich.table import Table

from partitioners import Partitioner, create
from partitioners.greedy import OffGreedy
from partitioners.prompt import Prompt
from partitioners.stream_names import parse_named

KEYS_PER_BATCH = 60_000


@dataclass(frozen=True)
class StateFigures:
    """State of one partitioner, in bytes of its arrays.

    Attributes:
        name: The partitioner, with its options.
        num_keys: Distinct keys it was sent, one record each.
        num_partitions: Partitions.
        one_window_bytes: With all of them in one window.
        over_time_bytes: With a key per ms of event time, so that the window (60 s by default) holds
            60,000 of them; those that plan batches get one of so many after the other.
    """

    name: str
    num_keys: int
    num_partitions: int
    one_window_bytes: int
    over_time_bytes: int


def measure_state(name: str, *, num_keys: int, num_partitions: int) -> StateFigures:
    """Send keys to a new partitioner, twice.

    Args:
        name: The partitioner, with options such as ``cam:cardinality=hll``.
        num_keys: Distinct keys.
        num_partitions: Partitions.

    Raises:
        InputError: An unknown name or option, or a number out of range.

    Example:
        >>> measure_state("pkg", num_keys=1_000, num_partitions=16).one_window_bytes
        136
    """
    kind = parse_named(name)
    hashes = np.random.default_rng(1).integers(0, 1 << 64, num_keys, np.uint64)
    sizes = []
    for ms_per_key in (0, 1):
        partitioner = create(kind.name, num_partitions, **dict(kind.options))
        at_once = num_keys if ms_per_key == 0 else KEYS_PER_BATCH
        for start in range(0, num_keys, at_once):
            rows = np.arange(start, min(start + at_once, num_keys))
            _send(partitioner, hashes[rows], rows * ms_per_key)
        sizes.append(partitioner.state_bytes)
    return StateFigures(name, num_keys, num_partitions, *sizes)


def _send(
    partitioner: Partitioner, key_hashes: npt.NDArray[np.uint64], times: npt.NDArray[np.int64]
) -> None:
    if isinstance(partitioner, Prompt | OffGreedy):
        partitioner.fit(key_hashes)
    partitioner.route(key_hashes, times, np.empty(len(key_hashes), np.int32))


def memory_table(rows: Sequence[StateFigures]) -> Table:
    """Lay rows out for a terminal.

    Args:
        rows: From `measure_state`.
    """
    table = Table(header_style="bold")
    table.add_column("partitioner")
    for column in ("keys", "kB, one window", "kB, a key per ms"):
        table.add_column(column, justify="right")
    for row in rows:
        sizes = (row.one_window_bytes / 1000, row.over_time_bytes / 1000)
        table.add_row(row.name, f"{row.num_keys:,}", *(f"{size:,.1f}" for size in sizes))
    return table
