"""Synthetic streams as lines `ts,key,x` for `keyed-sum`: skew, drift and turns as one asks for.

The streams are those of `keyspread simulate` (`partitioners.stream_names`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from partitioners.errors import InputError
from partitioners.stream_names import parse_stream
from partitioners.streams import Stream
from pipelines.datasets.folder import LINES_PER_PART, DataFolder

MAX_RECORDS = 1_000_000_000
LINES_PER_BLOCK = 100_000
_MAX_X = 100


def prepare_synthetic(
    stream: str,
    records: int,
    out: Path,
    *,
    rate: int = 1_000,
    seed: int = 1,
    on_lines: Callable[[int], None] = lambda _lines: None,
) -> DataFolder:
    """Write a stream, a million lines to a file.

    Args:
        stream: Name and options, such as `zipf:exponent=1.4:num_keys=10000`.
        records: How many lines.
        out: The folder.
        rate: Records per second of event time.
        seed: Of all draws.
        on_lines: Called with the number of lines that are done more.

    Raises:
        InputError: Something is out of range, or the folder is no good.
    """
    for option, value, most in (("--records", records, MAX_RECORDS), ("--rate", rate, 10**9)):
        if not 1 <= value <= most:
            raise InputError(f"{option} must be from 1 to {most:,}, not {value}")
    generated = parse_stream(stream, records, seed)
    settings = {"data": "synthetic", "stream": stream, "records": records}
    folder = DataFolder(out, {**settings, "rate": rate, "seed": seed})
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
        folder.write(name, _blocks(drawn, first, end, rate, seed), on_lines)
    folder.finish(names)
    return folder


def _blocks(stream: Stream, first: int, end: int, rate: int, seed: int) -> Iterator[bytes]:
    for low in range(first, end, LINES_PER_BLOCK):
        rows = np.arange(low, min(low + LINES_PER_BLOCK, end), dtype=np.int64)
        keys = stream.names.take(stream.ids[rows]).to_pylist()
        xs = np.random.default_rng([seed, low]).integers(0, _MAX_X, len(rows)).tolist()
        lines = zip((rows * 1000 // rate).tolist(), keys, xs, strict=True)
        yield "".join(f"{time},{key},{x}\n" for time, key, x in lines).encode()
