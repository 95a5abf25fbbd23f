"""Arrow record batches as bytes, and numpy's view of their columns."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Int64s = npt.NDArray[np.int64]
Int32s = npt.NDArray[np.int32]


def to_blob(batch: pa.RecordBatch) -> bytes:
    """Write one record batch as an Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    blob: bytes = sink.getvalue().to_pybytes()
    return blob


def from_blob(blob: bytes | memoryview) -> pa.RecordBatch:
    """Read what `to_blob` wrote; the columns are views of the bytes."""
    with pa.ipc.open_stream(pa.py_buffer(blob)) as reader:
        return reader.read_next_batch()


def numbers(column: Any) -> Any:
    """An integer column without nulls as a numpy array, not copied."""
    return column.to_numpy(zero_copy_only=True)


def join_blobs(blobs: Sequence[bytes]) -> bytes:
    """Put blobs one after the other, each behind its length.

    Example:
        >>> [bytes(part) for part in split_blobs(join_blobs([b"a", b"", b"bc"]))]
        [b'a', b'', b'bc']
    """
    return b"".join(part for blob in blobs for part in (struct.pack("<q", len(blob)), blob))


def split_blobs(joined: bytes) -> list[memoryview]:
    """Read what `join_blobs` wrote, not copied."""
    view, at, blobs = memoryview(joined), 0, []
    while at < len(view):
        (length,) = struct.unpack_from("<q", view, at)
        blobs.append(view[at + 8 : at + 8 + length])
        at += 8 + length
    return blobs
