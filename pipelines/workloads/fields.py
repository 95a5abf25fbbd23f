"""Vectorised reading of small binary payloads, safe for any bytes."""

from __future__ import annotations

import numba
import numpy as np
import numpy.typing as npt
import pyarrow as pa

Int64s = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]
Bools = npt.NDArray[np.bool_]

_COMMA = ord(",")
_MINUS = ord("-")
_ZERO = ord("0")
_MAX_DIGITS = 18


def flat_bytes(values: pa.Array) -> tuple[Bytes, Int64s]:
    """The bytes of a binary array and its n + 1 offsets into them."""
    width = np.int64 if pa.types.is_large_binary(values.type) else np.int32
    _, offsets, data = values.buffers()
    places = np.frombuffer(offsets, dtype=width)[values.offset : values.offset + len(values) + 1]
    flat = np.frombuffer(data, dtype=np.uint8) if data is not None else np.empty(0, np.uint8)
    return flat, places.astype(np.int64)


def read_int64s(values: pa.Array, width: int) -> tuple[list[Int64s], Bools | None]:
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


def read_integers(values: pa.Array, width: int) -> tuple[list[Int64s], Bools | None]:
    """Read values that are each `width` decimal integers of up to 18 digits, commas between.

    Args:
        values: Binary array, nulls allowed.
        width: How many integers a value has.

    Returns:
        The columns (0 in rows that were no such values), and which rows were (None: all).

    Example:
        >>> columns, good = read_integers(pa.array([b"7,-1", b"8"], pa.binary()), 2)
        >>> [column.tolist() for column in columns], good.tolist()
        ([[7, 0], [-1, 0]], [True, False])
    """
    flat, offsets = flat_bytes(values)
    out = np.zeros((width, len(values)), dtype=np.int64)
    good = np.ones(len(values), dtype=np.bool_)
    _read_integers(flat, offsets, out, good)
    return list(out), None if good.all() else good


def comma_fields(values: pa.Array) -> tuple[Bytes, Int64s, Int64s, Int64s, Int64s, Bools]:
    """Find the first and the last comma of each value.

    Returns:
        The flat bytes; where each value begins, where its first and its last comma stand, where it
        ends; and whether it has two commas or more (where not, both commas are where it begins).
    """
    flat, offsets = flat_bytes(values)
    begins, ends = offsets[:-1], offsets[1:]
    first, last = begins.copy(), begins.copy()
    good = np.zeros(len(values), dtype=np.bool_)
    _find_commas(flat, offsets, first, last, good)
    return flat, begins, first, last, ends, good


def parse_integers(flat: Bytes, begins: Int64s, ends: Int64s) -> tuple[Int64s, Bools]:
    """Parse decimal integers of up to 18 digits, with an optional minus sign.

    Args:
        flat: Bytes of all values.
        begins: Where each number begins.
        ends: Where it ends.

    Returns:
        The numbers, and whether each was one (0 where not).
    """
    numbers = np.zeros(len(begins), dtype=np.int64)
    good = np.zeros(len(begins), dtype=np.bool_)
    _parse_integers(flat, begins, ends, numbers, good)
    return numbers, good


# One pass over the bytes: NumPy's way, a pass per digit, is ten times slower.
@numba.njit(cache=True, nogil=True, inline="always")  # type: ignore[untyped-decorator]
def _integer(flat: Bytes, begin: int, end: int) -> tuple[np.int64, bool]:
    """The integer between two places, and whether there is one."""
    at = begin
    negative = at < end and flat[at] == _MINUS
    if negative:
        at += 1
    good = bool(0 < end - at <= _MAX_DIGITS)
    number = np.int64(0)
    if good:
        for place in range(at, end):
            digit = np.int64(flat[place]) - _ZERO
            good = good and bool(0 <= digit <= 9)
            number = number * 10 + digit
    if not good:
        return np.int64(0), False
    return -number if negative else number, True


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _parse_integers(
    flat: Bytes, begins: Int64s, ends: Int64s, numbers: Int64s, good: Bools
) -> None:
    for row in range(len(begins)):
        numbers[row], good[row] = _integer(flat, begins[row], ends[row])


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _read_integers(flat: Bytes, offsets: Int64s, out: Int64s, good: Bools) -> None:
    width = out.shape[0]
    for row in range(len(offsets) - 1):
        end = offsets[row + 1]
        begin = offsets[row]
        for column in range(width):
            stop = end
            if column < width - 1:
                stop = begin
                while stop < end and flat[stop] != _COMMA:
                    stop += 1
                if stop == end:
                    good[row] = False
            if good[row]:
                out[column, row], good[row] = _integer(flat, begin, stop)
            if not good[row]:
                break
            begin = stop + 1
        if not good[row]:
            out[:, row] = 0


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _find_commas(flat: Bytes, offsets: Int64s, first: Int64s, last: Int64s, good: Bools) -> None:
    for row in range(len(offsets) - 1):
        begin, end = offsets[row], offsets[row + 1]
        at = begin
        while at < end and flat[at] != _COMMA:
            at += 1
        back = end - 1
        while back > at and flat[back] != _COMMA:
            back -= 1
        if at < back:
            first[row], last[row], good[row] = at, back, True


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
