"""From what a user asks for to settings: names, files, and every combination as a cell."""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from itertools import product
from pathlib import Path

import numpy as np
import pyarrow as pa

from partitioners.errors import InputError, nearest
from partitioners.registry import PARTITIONERS
from partitioners.simulation import CostModel, Setting, StreamSource
from partitioners.stream_names import STREAMS, parse_named, parse_stream
from partitioners.streams import Stream, of_keys
from pipelines.benchmark.partitioners import read_keys

PARTITIONS_PER_REDUCER = 8
"""Dalton's own set-up (section 5.1): 1, 2, 4, 8 reducers for a parallelism of 8, 16, 32, 64."""

_DATA = files("pipelines") / "data"


@dataclass(frozen=True)
class FileStream:
    """The keys of a file, one per line, a record per ms."""

    path: Path
    encoding: str
    max_records: int

    @property
    def label(self) -> str:
        """What it is called in tables."""
        return self.path.name

    def load(self) -> Stream:
        """Read it."""
        return read_keys(self.path, self.encoding, self.max_records)


@dataclass(frozen=True)
class ShippedStream:
    """A stream of data that ships: ``words``, ``routes`` or ``taxis``; at most so many records."""

    name: str
    max_records: int

    @property
    def label(self) -> str:
        """What it is called in tables."""
        return self.name

    def load(self) -> Stream:
        """Read it."""
        stream = SHIPPED[self.name]()
        kept = slice(self.max_records)
        return Stream(stream.ids[kept], stream.names, stream.timestamps_ms[kept])


def words() -> Stream:
    """Take the words of the shipped novel, a record per ms."""
    text = gzip.decompress((_DATA / "anna_karenina.txt.gz").read_bytes()).decode("cp1252")
    return of_keys(pa.array(re.findall(r"[a-z']+", text.lower())))


def routes() -> Stream:
    """Take the routes of the shipped hour of taxi trips, cells of 500 m, by drop-off time."""
    kept = [trip for trip in _trips() if trip.route is not None]
    times = np.array([trip.dropoff_ms for trip in kept], np.int64)
    return of_keys(pa.array([trip.route for trip in kept]), times)


def taxis() -> Stream:
    """Take the taxis of the shipped hour of trips, by drop-off time."""
    trips = _trips()
    times = np.array([trip.dropoff_ms for trip in trips], np.int64)
    return of_keys(pa.array([trip.taxi for trip in trips]), times)


SHIPPED: dict[str, Callable[[], Stream]] = {"words": words, "routes": routes, "taxis": taxis}


@dataclass(frozen=True)
class _Trip:
    taxi: str
    dropoff_ms: int
    route: str | None


def _trips() -> list[_Trip]:
    trips = []
    text = gzip.decompress((_DATA / "debs2015_first_hour.csv.gz").read_bytes()).decode("ascii")
    for line in text.splitlines():
        fields = line.split(",")
        cells = (*_cell(fields[6], fields[7]), *_cell(fields[8], fields[9]))
        inside = all(1 <= cell <= 300 for cell in cells)
        route = "{}.{}-{}.{}".format(*cells) if inside else None
        dropoff_ms = int(np.datetime64(fields[3], "ms").astype(np.int64))
        trips.append(_Trip(fields[0], dropoff_ms, route))
    return trips


def _cell(longitude: str, latitude: str) -> tuple[int, int]:
    """Give the 500 m cell of a coordinate, exactly, in micro-degrees (DEBS 2015)."""
    east, north = round(float(longitude) * 1e6), round(float(latitude) * 1e6)
    return (
        (east + 74_913_585 + 2_993) // 5_986 + 1,
        (1_000 * (41_474_937 - north) + 2_245_778) // 4_491_556 + 1,
    )


def stream_source(text: str, num_records: int, seed: int) -> StreamSource:
    """Find a generated or shipped stream.

    Args:
        text: Its name, with options where it is generated.
        num_records: Its length, at most.
        seed: Of a generated one.

    Raises:
        InputError: There is none, or an option cannot be.
    """
    name = text.partition(":")[0].strip()
    if name in SHIPPED:
        if ":" in text:
            raise InputError(f"{name} is data as it is and takes no options: write {name} alone")
        return ShippedStream(name, num_records)
    if name not in STREAMS:
        known = [*STREAMS, *SHIPPED]
        raise InputError(f'no stream is called "{name}"; {nearest(name, known)}')
    return parse_stream(text, num_records, seed)


def settings_of(
    partitioners: Sequence[str],
    streams: Sequence[StreamSource],
    partitions: Sequence[int],
    sources: Sequence[int],
    *,
    window_ms: int,
    slide_ms: int | None,
    prices: CostModel,
    num_reducers: int | None,
) -> list[Setting]:
    """Make every combination a cell, and refuse those that cannot be before any work.

    Args:
        partitioners: Names, with options.
        streams: Streams.
        partitions: Numbers of partitions.
        sources: Numbers of sources.
        window_ms: Size of the windows.
        slide_ms: Their slide; None: the size.
        prices: Prices of the work.
        num_reducers: Reducers; None: one to eight partitions.

    Returns:
        The cells; those of one stream follow each other.

    Raises:
        InputError: See ``Setting.check``.
    """
    named = [parse_named(text) for text in partitioners]
    for kind in named:
        if kind.name not in PARTITIONERS:
            raise InputError(
                f'no partitioner is called "{kind.name}"; {nearest(kind.name, PARTITIONERS)}'
            )
    settings = [
        Setting(
            partitioner=kind,
            stream=stream,
            num_partitions=num_partitions,
            num_sources=num_sources,
            window_ms=window_ms,
            slide_ms=slide_ms,
            costs=with_reducers(prices, num_reducers, num_partitions),
        )
        for stream, num_partitions, num_sources, kind in product(
            streams, partitions, sources, named
        )
    ]
    for setting in settings:
        setting.check()
    return settings


def with_reducers(prices: CostModel, num_reducers: int | None, num_partitions: int) -> CostModel:
    """Say how many reducers there are: as many as asked for, else one to eight partitions."""
    count = num_reducers or max(1, num_partitions // PARTITIONS_PER_REDUCER)
    return CostModel(**{**vars(prices), "num_reducers": count})


def list_of(texts: Sequence[str]) -> list[str]:
    """Read an option that may be repeated and hold several words, split by commas.

    Example:
        >>> list_of(["pkg,cam", "lm"])
        ['pkg', 'cam', 'lm']
    """
    return [word.strip() for text in texts for word in text.split(",") if word.strip()]


def numbers_of(texts: Sequence[str], option: str) -> list[int]:
    """Read an option that is one or several whole numbers.

    Args:
        texts: What was given.
        option: For the message.

    Raises:
        InputError: One is no whole number of 1 or more.
    """
    numbers = []
    for word in list_of(texts):
        if not word.isascii() or not word.isdigit() or int(word) < 1:
            raise InputError(f"{option} must be whole numbers of 1 or more, not {word}")
        numbers.append(int(word))
    if not numbers:
        raise InputError(f"{option} names no number: give one, such as {option} 16")
    return numbers
