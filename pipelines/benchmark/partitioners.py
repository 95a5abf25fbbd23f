"""All partitioners on the same streams, one table: what ``keyspread bench partitioners`` prints.

Rates are of one thread's CPU time, which others on the machine disturb less than the clock's: the
best of several repetitions after one to warm up, on a new partitioner each time. The figures of
balance and splitting are of one source that sends the whole stream.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from rich.table import Table

from partitioners import PARTITIONERS, Partitioner, create
from partitioners.base import KeyHashes
from partitioners.errors import InputError
from partitioners.hashing import hash_keys
from partitioners.metrics import fragmentation, imbalance, partition_counts, replication_factor
from partitioners.simulation import StreamSource
from partitioners.stream_names import Named, parse_named, parse_stream
from partitioners.streams import Stream

EXCLUDED: dict[str, str] = {}
"""Registered names that are not in the table, each with the reason."""


@dataclass(frozen=True)
class PublishedFigures:
    """What the authors' own code gave on the stream ``zipf`` at n = 16, one thread."""

    records_per_s: float
    imbalance: float
    fragmentation: float | None


PUBLISHED = {
    "shuffle": PublishedFigures(100e6, 0.0, 2.81),
    "key_hash": PublishedFigures(100e6, 5.69, 1.0),
    "pkg": PublishedFigures(31e6, 1.654, 1.056),
    "cm": PublishedFigures(8e6, 2.61, 1.305),
    "am": PublishedFigures(28e6, 4.21, 1.0),
    "cam": PublishedFigures(28e6, 3.98, 1.0),
    "lm": PublishedFigures(8e6, 1.98, None),
    "d_choices": PublishedFigures(0.17e6, 0.0001, 1.260),
    "w_choices": PublishedFigures(0.17e6, 0.0, 1.262),
    "dalton": PublishedFigures(3.9e6, 0.327, 1.007),
    "dalton:slide_ms=10000": PublishedFigures(8.4e6, 0.422, None),
    "dagreedy": PublishedFigures(2.5e6, 0.285, 1.007),
}
"""C++: ``pkg``, ``cm``, ``am``, ``cam``, ``lm``; Java: the others. Names left out published none.

Their keys had other hashes, so a key of a third of the stream had other neighbours: imbalance of
the algorithms that keep it whole, or on two partitions, differs by that alone.
"""

PUBLISHED_FOR = ("zipf", 16, 1_000_000)

SCALAR_CALLS = 20_000
WINDOW_MS = 60_000


@dataclass(frozen=True)
class PartitionerFigures:
    """One row: one partitioner on one stream."""

    stream: str
    name: str  # with its options
    num_records: int
    num_partitions: int
    route_records_per_s: float  # key hashes given; planning included
    strings_records_per_s: float  # from an Arrow string column, hashing included
    scalar_us: float  # one call of partition(key), without a timestamp
    imbalance: float
    replication_factor: float
    fragmentation: float  # tumbling windows of window_ms
    window_ms: int
    state_bytes: int  # after the stream

    def as_json(self) -> dict[str, Any]:
        """Give the row as plain values."""
        published = self.published
        return asdict(self) | {"published": None if published is None else asdict(published)}

    @property
    def published(self) -> PublishedFigures | None:
        """Figures of the authors' code, where they are for the same stream."""
        if (self.stream, self.num_partitions, self.num_records) != PUBLISHED_FOR:
            return None
        return PUBLISHED.get(self.name)


def run_partitioner_bench(
    partitioners: Sequence[str] | None = None,
    streams: Sequence[StreamSource] | None = None,
    *,
    num_partitions: int = 16,
    window_ms: int = WINDOW_MS,
    repetitions: int = 5,
    on_row: Callable[[PartitionerFigures], None] = lambda _row: None,
) -> list[PartitionerFigures]:
    """Measure partitioners.

    Args:
        partitioners: Names, with options such as ``dalton:slide_ms=10000``; None: all that are
            registered.
        streams: Streams; None: ``zipf`` with a million records.
        num_partitions: Partitions to spread over.
        window_ms: Of the fragmentation, and of partitioners with windows unless their options say
            otherwise.
        repetitions: Runs of each measurement; the best counts.
        on_row: Called with each row when it is there, for a progress bar.

    Returns:
        Rows, stream by stream, in the order of the names.

    Raises:
        InputError: An unknown name or option, or a stream without a record.

    Example:
        >>> zipf = [parse_stream("zipf", 10_000, 1)]
        >>> rows = run_partitioner_bench(["key_hash", "pkg:d=3"], zipf, repetitions=1)
        >>> rows[0].imbalance > rows[1].imbalance
        True
    """
    if repetitions < 1:
        raise InputError(f"repetitions must be 1 or more, not {repetitions}")
    all_names = [name for name in PARTITIONERS if name not in EXCLUDED]
    chosen = [parse_named(text) for text in (all_names if partitioners is None else partitioners)]
    for kind in chosen:
        create(kind.name, num_partitions, **_options(kind, window_ms))  # refuse before work
    rows = []
    for source in [parse_stream("zipf", 1_000_000, 1)] if streams is None else streams:
        stream = source.load()
        if not len(stream.ids):
            raise InputError(f"{source.label} has no records; give a stream with some")
        for kind in chosen:
            options = _options(kind, window_ms)
            make = functools.partial(create, kind.name, num_partitions, **options)
            rows.append(_measure(source.label, stream, str(kind), make, window_ms, repetitions))
            on_row(rows[-1])
    return rows


def partitioner_table(rows: Sequence[PartitionerFigures]) -> Table:
    """Lay rows out for a terminal.

    Args:
        rows: From ``run_partitioner_bench``.

    Returns:
        A Rich table.
    """
    table = Table(header_style="bold")
    for column in ("stream", "partitioner"):
        table.add_column(column)
    for column in (
        "route M/s",
        "(published)",
        "strings M/s",
        "scalar µs",
        "imbalance",
        "(published)",
        "replication",
        "fragmentation",
        "(published)",
        "state kB",
    ):
        table.add_column(column, justify="right")
    for row in rows:
        theirs = row.published
        table.add_row(
            row.stream,
            row.name,
            f"{row.route_records_per_s / 1e6:.1f}",
            "" if theirs is None else _figure(theirs.records_per_s, 1e6, ".3g"),
            f"{row.strings_records_per_s / 1e6:.1f}",
            f"{row.scalar_us:.2f}",
            f"{row.imbalance:.4f}",
            "" if theirs is None else _figure(theirs.imbalance, 1, ".4g"),
            f"{row.replication_factor:.3f}",
            f"{row.fragmentation:.3f}",
            "" if theirs is None else _figure(theirs.fragmentation, 1, ".4g"),
            f"{row.state_bytes / 1000:.1f}",
        )
    return table


def _figure(value: float | None, unit: float, form: str) -> str:
    return "" if value is None else format(value / unit, form)


def _options(kind: Named, window_ms: int) -> dict[str, Any]:
    options = dict(kind.options)
    known = PARTITIONERS.get(kind.name)
    if known is not None and known.traits.uses_time:
        options.setdefault("window_ms", window_ms)
    return options


def _show(partitioner: Partitioner, key_hashes: KeyHashes) -> None:
    """Let one that plans see the stream before it comes: hindsight, and a part of its work."""
    if partitioner.traits.needs_batch and hasattr(partitioner, "fit"):
        partitioner.fit(key_hashes)


def _measure(
    stream_name: str,
    stream: Stream,
    name: str,
    make: Callable[[], Partitioner],
    window_ms: int,
    repetitions: int,
) -> PartitionerFigures:
    partitioner = make()
    key_hashes = hash_keys(stream.keys, function=partitioner.hash_function)
    num_records = len(key_hashes)
    out = np.empty(num_records, np.int32)
    times = stream.timestamps_ms

    def route(fresh: Partitioner) -> None:
        _show(fresh, key_hashes)
        fresh.route(key_hashes, times, out)

    def strings(fresh: Partitioner) -> None:
        _show(fresh, key_hashes)
        fresh.partition_batch(stream.keys, times)

    route_s = _best_seconds(route, make, repetitions)
    strings_s = _best_seconds(strings, make, repetitions)
    route(partitioner)
    alone = make()
    _show(alone, key_hashes)
    counts = partition_counts(out, partitioner.num_partitions)
    return PartitionerFigures(
        stream=stream_name,
        name=name,
        num_records=num_records,
        num_partitions=partitioner.num_partitions,
        route_records_per_s=num_records / route_s,
        strings_records_per_s=num_records / strings_s,
        scalar_us=_scalar_us(alone, stream, repetitions),
        imbalance=imbalance(counts),
        replication_factor=replication_factor(stream.key_hashes, out),
        fragmentation=fragmentation(stream.key_hashes, out, times, window_ms),
        window_ms=window_ms,
        state_bytes=partitioner.state_bytes,
    )


def _best_seconds(
    measured: Callable[[Partitioner], None], make: Callable[[], Partitioner], repetitions: int
) -> float:
    measured(make())  # compiles, or loads what was compiled
    best = float("inf")
    for _ in range(repetitions):
        fresh = make()
        started = time.thread_time()
        measured(fresh)
        best = min(best, time.thread_time() - started)
    return best


def _scalar_us(partitioner: Partitioner, stream: Stream, repetitions: int) -> float:
    keys = [key.encode() for key in stream.keys[:SCALAR_CALLS].to_pylist()]
    partition = partitioner.partition
    partition(keys[0])
    best = float("inf")
    for _ in range(repetitions):
        started = time.thread_time()
        for key in keys:
            partition(key)
        best = min(best, time.thread_time() - started)
    return best / len(keys) * 1e6
