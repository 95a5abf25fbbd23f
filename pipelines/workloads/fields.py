"""Vectorised reading of small binary payloads, safe for any bytes."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Int64s = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

_COMMA = ord(",")
_MINUS = ord("-")
_MAX_DIGITS = 18


def flat_bytes(values: pa.Array) -> tuple[Bytes, Int64s]:
    """The bytes of a binary array and its n + 1 offsets into them."""
    width = np.int64 if pa.types.is_large_binary(values.type) else np.int32
    _, offsets, data = values.buffers()
    places = np.frombuffer(offsets, dtype=width)[values.offset : values.offset + len(values) + 1]
    flat = np.frombuffer(data, dtype=np.uint8) if data is not None else np.empty(0, np.uint8)
    return flat, places.astype(np.int64)


def read_int64s(values: pa.Array, width: int) -> tuple[list[Int64s], npt.NDArray[np.bool_] | None]:
    """Read values that are each `width` little-endian int64s.

    Args:
        values: Binary array, nulls allowed.
        width: How many int64s a value has.

    Returns:
        The columns, and which rows had that length (None: all).
    """
    rows = len(values)
    flat, offsets = flat_bytes(values)
    size = 8 * width
    if not values.null_count and bool((np.diff(offsets) == size).all()):
        first = int(offsets[0]) if rows else 0
        table = flat[first : first + rows * size].view(np.int64).reshape(rows, width)
        return [np.ascontiguousarray(table[:, i]) for i in range(width)], None
    good = np.diff(offsets) == size
    good &= values.is_valid().to_numpy(zero_copy_only=False)
    out = np.zeros((rows, width), dtype=np.int64)
    where = offsets[:-1][good][:, None] + np.arange(size)
    out[good] = flat[where].view(np.int64).reshape(-1, width)
    return [np.ascontiguousarray(out[:, i]) for i in range(width)], good


def write_int64s(*columns: Int64s) -> pa.Array:
    """The reverse of `read_int64s`: one binary value per row.

    Example:
        >>> columns, good = read_int64s(write_int64s(np.array([1, -2])), 1)
        >>> columns[0], good
        (array([ 1, -2]), None)
    """
    table = np.ascontiguousarray(np.stack(columns, axis=1).astype("<i8"))
    rows, width = table.shape
    offsets = (np.arange(rows + 1, dtype=np.int32)) * np.int32(8 * width)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(table)]
    return pa.Array.from_buffers(pa.binary(), rows, buffers)


def comma_fields(
    values: pa.Array,
) -> tuple[Bytes, Int64s, Int64s, Int64s, Int64s, npt.NDArray[np.bool_]]:
    """Find the first and the last comma of each value.

    Returns:
        The flat bytes; where each value begins, where its first and its last comma stand, where it
        ends; and whether it has two commas or more.
    """
    flat, offsets = flat_bytes(values)
    begins, ends = offsets[:-1], offsets[1:]
    commas = np.flatnonzero(flat == _COMMA)
    if not len(commas):
        return flat, begins, begins, begins, ends, np.zeros(len(values), dtype=bool)
    low = np.searchsorted(commas, begins)
    high = np.searchsorted(commas, ends) - 1
    good = high > low
    last = len(commas) - 1
    return flat, begins, commas[np.minimum(low, last)], commas[np.maximum(high, 0)], ends, good


def parse_integers(
    flat: Bytes, begins: Int64s, ends: Int64s
) -> tuple[Int64s, npt.NDArray[np.bool_]]:
    """Parse decimal integers of up to 18 digits, with an optional minus sign.

    Args:
        flat: Bytes of all values.
        begins: Where each number begins.
        ends: Where it ends.

    Returns:
        The numbers, and whether each was one (0 where not).
    """
    if not len(flat):
        return np.zeros(len(begins), np.int64), np.zeros(len(begins), dtype=bool)
    negative = (flat[np.minimum(begins, len(flat) - 1)] == _MINUS) & (begins < ends)
    lengths = ends - begins - negative
    good = (lengths > 0) & (lengths <= _MAX_DIGITS)
    # Digit by digit from the right: a row per place, so each step runs over one flat array.
    numbers = np.zeros(len(begins), dtype=np.int64)
    power = 1
    for place in range(int(lengths[good].max(initial=0))):
        # What is left of a number is not its own; its digit then counts 0.
        digits = flat[np.maximum(ends - (place + 1), 0)] - np.uint8(ord("0"))
        inside = place < lengths
        good &= (digits <= 9) | ~inside
        numbers += (digits * inside) * np.int64(power)
        power *= 10
    return np.where(good, np.where(negative, -numbers, numbers), 0), good


def slices(flat: Bytes, begins: Int64s, ends: Int64s) -> pa.Array:
    """Copy stretches of a byte array, in order and not overlapping, into a binary array.

    Example:
        >>> flat = np.frombuffer(b"1,ab,2", dtype=np.uint8)
        >>> slices(flat, np.array([2]), np.array([4])).to_pylist()
        [b'ab']
    """
    ends = np.maximum(begins, ends)
    step = np.zeros(len(flat) + 1, dtype=np.int8)
    np.add.at(step, begins, 1)
    np.subtract.at(step, ends, 1)
    data = flat[np.cumsum(step[:-1], dtype=np.int8).astype(bool)]
    offsets = np.zeros(len(begins) + 1, dtype=np.int32)
    np.cumsum(ends - begins, out=offsets[1:])
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.binary(), len(begins), buffers)
