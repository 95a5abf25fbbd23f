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
from partitioners.option_values import list_of
from partitioners.registry import PARTITIONERS
from partitioners.simulation import CostModel, Setting, StreamSource
from partitioners.stream_names import STREAMS, parse_named, parse_stream
from partitioners.streams import Stream, of_keys
from pipelines.text_input import RejectedLine, read_chunks

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


def read_keys(path: Path, encoding: str, max_records: int) -> Stream:
    """Read a file with one key per line; lines that do not decode are left out.

    Args:
        path: The file, plain or gzip.
        encoding: Its encoding.
        max_records: Lines to read at most.

    Returns:
        The stream, one record per ms.

    Raises:
        InputError: The file cannot be read or holds no key.
    """

    def leave_out(_line: RejectedLine) -> None:
        return

    keys: list[str] = []
    for chunk in read_chunks(path, leave_out, encoding=encoding):
        keys.extend(chunk.lines)
        if len(keys) >= max_records:
            break
    if not keys:
        raise InputError(f"{path} holds no line that is a key; give a file with one key per line")
    return of_keys(pa.array(keys[:max_records], pa.string()))


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


def sources_of(
    names: Sequence[str], path: Path | None, encoding: str, *, num_records: int, seed: int
) -> list[StreamSource]:
    """Find the streams a user names, or that of the file given in their place.

    Args:
        names: Of streams, with options; none: ``zipf``, unless there is a file.
        path: A file with a key per line.
        encoding: Its encoding.
        num_records: Records of each stream, at most.
        seed: Of generated ones.

    Raises:
        InputError: Names and a file; an unknown name; a file that cannot be read.
    """
    if path is None:
        return [stream_source(text, num_records, seed) for text in list_of(names or ["zipf"])]
    if names:
        raise InputError("--stream and --input exclude each other: leave one out")
    given = FileStream(path, encoding, num_records)
    given.load()  # refused before any work
    return [given]


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
