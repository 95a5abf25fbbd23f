"""Arrow record batches as bytes, and numpy's view of their columns."""

from __future__ import annotations

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


def from_blob(blob: bytes) -> pa.RecordBatch:
    """Read what `to_blob` wrote; the columns are views of the bytes."""
    with pa.ipc.open_stream(pa.py_buffer(blob)) as reader:
        return reader.read_next_batch()


def numbers(column: Any) -> Any:
    """An integer column without nulls as a numpy array, not copied."""
    return column.to_numpy(zero_copy_only=True)
