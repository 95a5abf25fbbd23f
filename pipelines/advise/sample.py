"""A bounded sample of a keyed stream, from lines; `topic` takes one from a live topic."""

from __future__ import annotations

import os
import select
import sys
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from partitioners.errors import InputError
from partitioners.streams import Stream
from pipelines.input_files import STDIN, open_input, read_bytes
from pipelines.line_producer import LineSource
from pipelines.text_input import RejectedLine

Int64s = npt.NDArray[np.int64]

BLOCK_BYTES = 1 << 18
_GZIP_MAGIC = b"\x1f\x8b"
_GZIP = 16 + zlib.MAX_WBITS


@dataclass(frozen=True, slots=True)
class Limits:
    """How much of a stream is looked at.

    Attributes:
        records: At most so many.
        seconds: For at most so long.
    """

    records: int = 200_000
    seconds: float = 10.0

    def __post_init__(self) -> None:
        """Refuse what is out of range.

        Raises:
            InputError: It is.
        """
        if not 1 <= self.records <= 50_000_000:
            raise InputError(f"--records must be 1 to 50,000,000, not {self.records}")
        if not 0 < self.seconds <= 3600:
            raise InputError(f"--seconds must be above 0 and at most 3,600, not {self.seconds:g}")


@dataclass(frozen=True, slots=True)
class Sample:
    """Keys of a stream in their order, and what is known about where they come from.

    Attributes:
        source: What it was taken from, in words.
        stream: The records with a key.
        num_null: Records without a key, which every partitioner spreads evenly.
        has_times: Whether the records say when they were made; else they are 1 ms apart.
        partitions: `int32[n]`, where each record with a key is now; None where there is no topic.
        records_per_partition: `int64[P]`, what each partition of the topic got in the stretch of
            time that was sampled; None where there is no topic.
        topic: Its name.
        compacted: Whether Kafka keeps the last record of each key only; None: not known.
        notes: What a reader has to know about it.
    """

    source: str
    stream: Stream
    num_null: int = 0
    has_times: bool = False
    partitions: npt.NDArray[np.int32] | None = None
    records_per_partition: Int64s | None = None
    topic: str | None = None
    compacted: bool | None = None
    notes: list[str] = field(default_factory=list)

    @property
    def num_records(self) -> int:
        """All records, with and without a key."""
        return len(self.stream.ids) + self.num_null


def stream_of(keys: list[bytes | None], timestamps_ms: Int64s | None = None) -> tuple[Stream, int]:
    """Number the keys of a stream.

    Args:
        keys: Of each record; None is a null key.
        timestamps_ms: `int64[n]`; None: 1 ms apart.

    Returns:
        The records with a key, and the number of those without.

    Example:
        >>> stream, num_null = stream_of([b"b", None, b"a", b"b"])
        >>> stream.ids.tolist(), stream.names.to_pylist(), num_null
        ([0, 1, 0], [b'b', b'a'], 1)
    """
    times = np.arange(len(keys), dtype=np.int64) if timestamps_ms is None else timestamps_ms
    column = pa.array(keys, pa.binary())
    if column.null_count:
        times = times[column.is_valid().to_numpy(zero_copy_only=False)]
        column = column.drop_null()
    encoded = column.dictionary_encode()
    stream = Stream(
        ids=encoded.indices.to_numpy().astype(np.int64),
        names=encoded.dictionary,
        timestamps_ms=times,
    )
    return stream, len(keys) - len(column)


def sample_keys(path: str, limits: Limits) -> Sample:
    """Take keys from a file or standard input, one a line, as the bytes they are.

    Args:
        path: The file, plain or gzip; `-` is standard input, which may go on for ever.
        limits: Where to stop.

    Raises:
        InputError: It cannot be read, or holds no line.
    """
    name = "standard input" if path == STDIN else path
    deadline = time.monotonic() + limits.seconds
    blocks = _stdin_blocks(deadline) if path == STDIN else _file_blocks(path)
    keys: list[bytes | None] = []
    rest = b""
    complete = True
    for block in blocks:
        *lines, rest = (rest + block).split(b"\n")
        keys += [line.removesuffix(b"\r") for line in lines]
        if len(keys) >= limits.records or time.monotonic() > deadline:
            complete = False
            break
    else:
        # A pipe may be cut off by time in mid-line.
        complete = path != STDIN or time.monotonic() <= deadline
    if rest and complete:
        keys.append(rest.removesuffix(b"\r"))
    if not keys:
        raise InputError(f"{name} gave no key within {limits.seconds:g} s: give one key a line")
    stream, num_null = stream_of(keys[: limits.records])
    return Sample(source=name, stream=stream, num_null=num_null, notes=_ending(complete, limits))


def sample_lines(source: LineSource, limits: Limits) -> Sample:
    """Take keys from files as `keyspread produce` reads them.

    Args:
        source: The files, and where in a line the key stands.
        limits: Where to stop.

    Raises:
        InputError: One cannot be read, or no line has a key.
    """
    if STDIN in source.inputs:
        raise InputError("--input takes files: pipe keys, one a line, into --keys -")
    source.check()
    rejected: list[RejectedLine] = []
    keys: list[bytes | None] = []
    times: list[int] = []
    deadline = time.monotonic() + limits.seconds
    complete = True
    for rows in source.rows(rejected.append):
        keys += [key.encode() for key in rows.keys]
        times += rows.timestamps_ms or []
        if len(keys) >= limits.records or time.monotonic() > deadline:
            complete = False
            break
    if not keys:
        first = f", the first because of {rejected[0].reason}" if rejected else ""
        raise InputError(
            f"no line of {', '.join(source.inputs)} has a key ({len(rejected):,} bad lines{first}):"
            " check --delimiter and --key-column"
        )
    del keys[limits.records :], times[limits.records :]
    stream, num_null = stream_of(keys, np.array(times, np.int64) if times else None)
    notes = _ending(complete, limits)
    if rejected:
        notes.append(f"{len(rejected):,} lines without a key were left out")
    return Sample(
        source=", ".join(source.inputs),
        stream=stream,
        num_null=num_null,
        has_times=bool(times),
        notes=notes,
    )


def _ending(complete: bool, limits: Limits) -> list[str]:
    if complete:
        return []
    return [
        f"only the beginning was read: at most {limits.records:,} records or {limits.seconds:g} s "
        "(--records, --seconds)"
    ]


def _file_blocks(path: str) -> Iterator[bytes]:
    with open_input(Path(path)) as raw:
        while block := read_bytes(raw, path, BLOCK_BYTES):
            yield block


def _stdin_blocks(deadline: float) -> Iterator[bytes]:
    """Read what comes until a time; a pipe that says nothing must not hold us."""
    if sys.stdin is None:
        raise InputError("standard input is closed: name a file with --keys")
    number = sys.stdin.fileno()
    unpack = None
    first = True
    while select.select([number], [], [], max(deadline - time.monotonic(), 0.0))[0]:
        block = os.read(number, BLOCK_BYTES)
        if not block:
            return
        if first and block.startswith(_GZIP_MAGIC):
            unpack = zlib.decompressobj(_GZIP)
        first = False
        try:
            yield unpack.decompress(block) if unpack else block
        except zlib.error as error:
            raise InputError(f"standard input is damaged gzip ({error}): send it again") from error
