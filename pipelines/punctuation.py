"""Watermark records: how a producer tells every partition how far event time has come.

A watermark record has a null key and the value ``MAGIC`` followed by the watermark as a
little-endian int64. It says: a record after me in this partition misses every window that ends at
or before the watermark. `END_MS` closes all windows.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

MAGIC = b"\x00keyspread-watermark\x00"
# Far beyond any event time, yet safe to add a window to.
END_MS = 2**62
# What a partition has promised before its first watermark.
NO_WATERMARK_MS = -(2**62)

_LENGTH = len(MAGIC) + 8


class Watermarks(NamedTuple):
    """The watermark records among the rows of one Arrow batch."""

    positions: npt.NDArray[np.int64]
    values_ms: npt.NDArray[np.int64]


def encode_watermark(watermark_ms: int) -> bytes:
    """Return the value of a watermark record.

    Example:
        >>> decode_watermark(encode_watermark(60_000))
        60000
    """
    return MAGIC + struct.pack("<q", watermark_ms)


def decode_watermark(value: bytes) -> int:
    """Return the watermark of a watermark record's value, in milliseconds."""
    (watermark_ms,) = struct.unpack("<q", value[len(MAGIC) :])
    return int(watermark_ms)


def find_watermarks(keys: pa.Array, values: pa.Array) -> Watermarks:
    """Find the watermark records in a batch of raw rows.

    Args:
        keys: Binary array of record keys.
        values: Binary array of record values, as long as `keys`.

    Returns:
        Where they are and what they say.
    """
    if not keys.null_count:
        empty = np.empty(0, dtype=np.int64)
        return Watermarks(empty, empty)
    candidates = np.flatnonzero(keys.is_null().to_numpy(zero_copy_only=False))
    chosen = values.take(pa.array(candidates))
    matches = pc.and_(pc.equal(pc.binary_length(chosen), _LENGTH), pc.starts_with(chosen, MAGIC))
    found = np.flatnonzero(matches.fill_null(False).to_numpy(zero_copy_only=False))
    marks = [decode_watermark(chosen[int(i)].as_py()) for i in found]
    return Watermarks(candidates[found].astype(np.int64), np.array(marks, dtype=np.int64))
