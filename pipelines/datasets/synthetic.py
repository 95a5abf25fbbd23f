"""Synthetic streams: skew, drift and turns as one asks for.

Lines are `ts,key,x` for `keyed-sum`, or `ts,post_code,given,family,year,street` for `clustering`.

The streams are those of `keyspread simulate` (`partitioners.stream_names`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from partitioners.errors import InputError, nearest
from partitioners.stream_names import parse_stream
from partitioners.streams import Stream
from pipelines.datasets.folder import LINES_PER_PART, DataFolder

MAX_RECORDS = 1_000_000_000
LINES_PER_BLOCK = 100_000
FORMATS = ("keyed", "people")
PEOPLE_STREAM = "top_share:num_keys=100000:fraction=0.3845"
"""Dalton's post codes: table 2, Voters."""
_MAX_X = 100
# A person comes back now and then, and an attribute of theirs has been mistyped in so many cases.
_PEOPLE_PER_KEY = 60
_MISTYPED_FRACTION = 0.1
_NUM_CODES = np.array([2_000, 30_000, 90, 5_000])


def prepare_synthetic(
    stream: str,
    records: int,
    out: Path,
    *,
    rate: int = 1_000,
    seed: int = 1,
    lines: str = "keyed",
    on_lines: Callable[[int], None] = lambda _lines: None,
) -> DataFolder:
    """Write a stream, a million lines to a file.

    Args:
        stream: Name and options, such as `zipf:exponent=1.4:num_keys=10000`.
        records: How many lines.
        out: The folder.
        rate: Records per second of event time.
        seed: Of all draws.
        lines: What a line holds, one of `FORMATS`.
        on_lines: Called with the number of lines that are done more.

    Raises:
        InputError: Something is out of range, or the folder is no good.
    """
    for option, value, most in (("--records", records, MAX_RECORDS), ("--rate", rate, 10**9)):
        if not 1 <= value <= most:
            raise InputError(f"{option} must be from 1 to {most:,}, not {value}")
    if lines not in FORMATS:
        raise InputError(f'unknown --lines "{lines}": {nearest(lines, FORMATS)}')
    generated = parse_stream(stream, records, seed)
    settings = {"data": "synthetic", "stream": stream, "records": records}
    settings |= {"lines": lines} if lines != "keyed" else {}
    folder = DataFolder(out, {**settings, "rate": rate, "seed": seed})
    blocks = _people if lines == "people" else _blocks
    names = [f"part-{n:05d}.csv.gz" for n in range(-(-records // LINES_PER_PART))]
    drawn: Stream | None = None
    for number, name in enumerate(names):
        if folder.has(name):
            on_lines(folder.files[name]["lines"])
            continue
        if drawn is None:
            drawn = generated.load()
        first = number * LINES_PER_PART
        end = min(first + LINES_PER_PART, records)
        folder.write(name, blocks(drawn, first, end, rate, seed), on_lines)
    folder.finish(names)
    return folder


def _blocks(stream: Stream, first: int, end: int, rate: int, seed: int) -> Iterator[bytes]:
    for low in range(first, end, LINES_PER_BLOCK):
        rows = np.arange(low, min(low + LINES_PER_BLOCK, end), dtype=np.int64)
        keys = stream.names.take(stream.ids[rows]).to_pylist()
        xs = np.random.default_rng([seed, low]).integers(0, _MAX_X, len(rows)).tolist()
        lines = zip((rows * 1000 // rate).tolist(), keys, xs, strict=True)
        yield "".join(f"{time},{key},{x}\n" for time, key, x in lines).encode()


def _people(stream: Stream, first: int, end: int, rate: int, seed: int) -> Iterator[bytes]:
    """People of each post code, each with four codes."""
    for low in range(first, end, LINES_PER_BLOCK):
        rows = np.arange(low, min(low + LINES_PER_BLOCK, end), dtype=np.int64)
        post_codes = stream.ids[rows].astype(np.int64)
        draw = np.random.default_rng([seed, low])
        person = draw.integers(0, _PEOPLE_PER_KEY, len(rows))
        # A person's codes are a hash of who they are, the same in every block.
        who = (post_codes[:, None] * _PEOPLE_PER_KEY + person[:, None]) * 4 + np.arange(4)
        codes = _mixed(who.astype(np.uint64)) % _NUM_CODES.astype(np.uint64)
        other = draw.integers(0, _NUM_CODES, (len(rows), 4))
        mistyped = draw.random((len(rows), 4)) < _MISTYPED_FRACTION
        fields = np.where(mistyped, other, codes.astype(np.int64)).tolist()
        times = (rows * 1000 // rate).tolist()
        lines = zip(times, post_codes.tolist(), fields, strict=True)
        yield "".join(
            f"{time},{post_code:05d},{','.join(map(str, each))}\n"
            for time, post_code, each in lines
        ).encode()


def _mixed(numbers: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Numbers that look drawn (the finaliser of SplitMix64)."""
    out = (numbers + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    out = (out ^ (out >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    out = (out ^ (out >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return out ^ (out >> np.uint64(31))
