"""Cuts columns of keys and values into blocks of Python objects, ordered by partition."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from partitioners.errors import InputError

# At 32,768 rows a block's dicts and bytes stay in the caches and are freed before the next
# block; one block of a million took a third longer.
BLOCK_ROWS = 32_768

Column = Any  # a sequence, an Arrow array or chunked array, or anything that exports one


def as_column(values: Column, what: str) -> Column:
    """Give a column that can be sliced: Arrow stays Arrow, what exports Arrow becomes it.

    Args:
        values: Keys or values.
        what: What they are, for the message.

    Raises:
        InputError: It is neither a sequence nor Arrow, or Arrow of a type that is no bytes.
    """
    if isinstance(values, pa.Array | pa.ChunkedArray):
        column = values
    elif hasattr(values, "__arrow_c_stream__"):
        column = pa.chunked_array(values)
    elif hasattr(values, "__arrow_c_array__"):
        column = pa.array(values)
    elif isinstance(values, Sequence | np.ndarray) and not isinstance(values, bytes | str):
        return values
    else:
        raise InputError(
            f"{what} must be a sequence or an Arrow array, not {type(values).__name__}"
        )
    kind = column.type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if not _is_bytes(kind):
        raise InputError(f"{what} must be strings or binary, not {kind}: encode them first")
    return column


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_string_view(kind)
        or pa.types.is_binary_view(kind)
        or pa.types.is_fixed_size_binary(kind)
        or pa.types.is_null(kind)
    )


def block_objects(column: Column, start: int, stop: int) -> npt.NDArray[np.object_]:
    """Give rows of a column as an object array of bytes, str and None.

    Args:
        column: From `as_column`.
        start: First row.
        stop: Row after the last.
    """
    if isinstance(column, pa.Array | pa.ChunkedArray):
        rows = column.slice(start, stop - start)
        if pa.types.is_dictionary(rows.type):
            rows = rows.cast(rows.type.value_type)
        if pa.types.is_string_view(rows.type) or pa.types.is_binary_view(rows.type):
            rows = rows.cast(pa.large_binary())
        objects: npt.NDArray[np.object_] = (
            rows.to_numpy()
            if isinstance(rows, pa.ChunkedArray)
            else rows.to_numpy(zero_copy_only=False)
        )
        if objects.dtype != object:  # Arrow's null type comes as floats
            objects = np.full(stop - start, None, object)
        return objects
    part = column[start:stop]
    if isinstance(part, np.ndarray):
        part = part.tolist()
    # fromiter, for np.array would look inside a bytearray or a list.
    return np.fromiter(part, object, stop - start)


def grouped_blocks(
    keys: Column, values: Column, partitions: npt.NDArray[np.int32], num_partitions: int
) -> Iterator[tuple[int, list[Any], list[Any]]]:
    """Cut rows into blocks, and each block into one group per partition, in their order.

    Args:
        keys: From `as_column`.
        values: From `as_column`, as many.
        partitions: Partition of each row, `int32[n]`.
        num_partitions: Partitions there are.

    Yields:
        A partition, the keys and the values that go there next.

    Example:
        >>> rows = grouped_blocks([b"a", b"b", b"c"], [b"1", b"2", b"3"], np.int32([1, 0, 1]), 2)
        >>> list(rows)
        [(0, [b'b'], [b'2']), (1, [b'a', b'c'], [b'1', b'3'])]
    """
    # A stable sort of 16-bit numbers is a radix sort, three times as fast as one of 32 bits.
    narrow = np.uint16 if num_partitions <= 1 << 16 else np.uint32
    for start in range(0, len(partitions), BLOCK_ROWS):
        stop = min(start + BLOCK_ROWS, len(partitions))
        block = partitions[start:stop].astype(narrow)
        order = np.argsort(block, kind="stable")
        block_keys = block_objects(keys, start, stop)[order].tolist()
        block_values = block_objects(values, start, stop)[order].tolist()
        ends = np.cumsum(np.bincount(block, minlength=num_partitions)).tolist()
        begin = 0
        for partition, end in enumerate(ends):
            if end > begin:
                yield partition, block_keys[begin:end], block_values[begin:end]
            begin = end
