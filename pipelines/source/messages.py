"""Messages of librdkafka to Arrow columns, compiled: no Python object for a record.

A message is `rd_kafka_message_t`: nine words of 64 bits, which are error (its lower half), topic,
partition, payload, its bytes, key, its bytes, offset, and one of librdkafka's own.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from llvmlite import ir
from numba import carray, types
from numba.core import cgutils
from numba.extending import intrinsic

from partitioners._jit import kernel, pointer
from pipelines.source.librdkafka import DESTROY, END_OF_PARTITION

Int64s = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

_WORDS = 9
_PAYLOAD, _PAYLOAD_BYTES, _KEY, _KEY_BYTES, _OFFSET = 3, 4, 5, 6, 7
# What `weigh` finds.
ROWS, KEY_BYTES, VALUE_BYTES, LAST, PAST_END, AT_LOG_END, ERROR = range(7)
NUM_FOUND = 7
NONE = -1


@intrinsic  # type: ignore[untyped-decorator]
def _copy(_typingctx: Any, target: Any, source: Any, size: Any) -> Any:  # noqa: ARG001
    """Copy bytes from one address to another."""

    def codegen(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        to, of = (builder.inttoptr(each, cgutils.voidptr_t) for each in args[:2])
        cgutils.raw_memcpy(builder, to, of, args[2], 1)
        return _context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), codegen


@intrinsic  # type: ignore[untyped-decorator]
def _call(_typingctx: Any, function: Any, argument: Any) -> Any:  # noqa: ARG001
    """Call a C function of one pointer by its address."""

    def codegen(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        of_pointer = ir.FunctionType(ir.VoidType(), [cgutils.voidptr_t]).as_pointer()
        called = builder.inttoptr(args[0], of_pointer)
        builder.call(called, [builder.inttoptr(args[1], cgutils.voidptr_t)])
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), codegen


@kernel
def weigh(messages: Int64s, end: int, end_of_partition: int, found: Int64s) -> None:
    """Say what is in messages of one partition.

    Args:
        messages: Their addresses, in order of offsets.
        end: Offset behind the last record that is wanted.
        end_of_partition: librdkafka's error code for the end of a log.
        found: Takes rows, bytes of keys and of values, the last offset among these rows, whether a
            record at or behind the end was seen, the end of the log if that was seen, and the first
            error other than that; the last four are -1, 0, -1 and 0 where there is none.
    """
    found[:] = 0
    found[LAST] = found[AT_LOG_END] = NONE
    for address in messages:
        message = carray(pointer(address), (_WORDS,), np.int64)
        code = np.int64(np.int32(message[0]))
        if code == end_of_partition:
            found[AT_LOG_END] = message[_OFFSET]
        elif code != 0:
            if found[ERROR] == 0:
                found[ERROR] = code
        elif message[_OFFSET] >= end:
            found[PAST_END] = 1
        else:
            found[ROWS] += 1
            found[KEY_BYTES] += message[_KEY_BYTES]
            found[VALUE_BYTES] += message[_PAYLOAD_BYTES]
            found[LAST] = message[_OFFSET]


@kernel
def _unpack(
    messages: Int64s,
    end: int,
    destroy: int,
    row: int,
    keys: Bytes,
    key_ends: npt.NDArray[np.int32],
    has_key: Bytes,
    values: Bytes,
    value_ends: npt.NDArray[np.int32],
    has_value: Bytes,
    offsets: Int64s,
) -> None:
    key_end, value_end = np.int64(key_ends[row]), np.int64(value_ends[row])
    for address in messages:
        message = carray(pointer(address), (_WORDS,), np.int64)
        if np.int32(message[0]) == 0 and message[_OFFSET] < end:
            has_key[row] = message[_KEY] != 0
            has_value[row] = message[_PAYLOAD] != 0
            _copy(keys.ctypes.data + key_end, message[_KEY], message[_KEY_BYTES])
            _copy(values.ctypes.data + value_end, message[_PAYLOAD], message[_PAYLOAD_BYTES])
            key_end += message[_KEY_BYTES]
            value_end += message[_PAYLOAD_BYTES]
            offsets[row] = message[_OFFSET]
            row += 1
            key_ends[row] = key_end
            value_ends[row] = value_end
        _call(destroy, address)


class Rows:
    """Records of one partition on their way to an Arrow batch.

    Args:
        partition: Its number.
        rows: Room for so many at first,
        key_bytes: for so many bytes of their keys,
        value_bytes: and for so many of their values.
    """

    def __init__(
        self, partition: int, rows: int, key_bytes: int = 1 << 16, value_bytes: int = 1 << 16
    ) -> None:
        self._partition = partition
        self.rows = 0
        self._keys = _Texts(rows, key_bytes)
        self._values = _Texts(rows, value_bytes)
        self._offsets = np.empty(rows, np.int64)
        self._found = np.empty(NUM_FOUND, np.int64)

    def next(self) -> Rows:
        """Empty ones with room for as many."""
        sizes = len(self._keys.data), len(self._values.data)
        return Rows(self._partition, len(self._offsets), *sizes)

    @property
    def num_bytes(self) -> int:
        """Bytes of the keys and values so far."""
        return int(self._keys.ends[self.rows]) + int(self._values.ends[self.rows])

    def add(self, messages: Int64s, end: int) -> Int64s:
        """Take over the records below an offset, and free all messages.

        Returns:
            What `weigh` found; where there is an error, the rows before it are added.
        """
        found = self._found
        weigh(messages, end, END_OF_PARTITION, found)
        rows = self.rows + int(found[ROWS])
        if rows > len(self._offsets):
            self._offsets = np.resize(self._offsets, 2 * rows)
        self._keys.reserve(self.rows, int(found[ROWS]), int(found[KEY_BYTES]))
        self._values.reserve(self.rows, int(found[ROWS]), int(found[VALUE_BYTES]))
        _unpack(
            messages,
            end,
            DESTROY,
            self.rows,
            self._keys.data,
            self._keys.ends,
            self._keys.there,
            self._values.data,
            self._values.ends,
            self._values.there,
            self._offsets,
        )
        self.rows = rows
        return found

    def batch(self) -> pa.RecordBatch:
        """All rows as (key, value, partition, offset); the arrays are the batch's from then on."""
        rows = self.rows
        partition = pa.array(np.full(rows, self._partition, np.int32))
        columns = [self._keys.column(rows), self._values.column(rows), partition]
        columns.append(pa.array(self._offsets[:rows]))
        return pa.RecordBatch.from_arrays(columns, ["key", "value", "partition", "offset"])


class _Texts:
    """A binary column that grows: bytes, where each text ends, and whether it is there."""

    def __init__(self, rows: int, num_bytes: int) -> None:
        self.data = np.empty(num_bytes, np.uint8)
        self.ends = np.zeros(rows + 1, np.int32)
        self.there = np.empty(rows, np.uint8)

    def reserve(self, rows: int, more_rows: int, more_bytes: int) -> None:
        """Make room."""
        needed = int(self.ends[rows]) + more_bytes
        if needed > len(self.data):
            self.data = np.resize(self.data, max(needed, 2 * len(self.data)))
        if rows + more_rows > len(self.there):
            size = 2 * (rows + more_rows)
            self.ends = np.resize(self.ends, size + 1)
            self.there = np.resize(self.there, size)

    def column(self, rows: int) -> pa.Array:
        """The first rows as an Arrow array."""
        there = self.there[:rows]
        valid = None
        if not there.all():
            valid = pa.py_buffer(np.packbits(there, bitorder="little"))
        buffers = [valid, pa.py_buffer(self.ends[: rows + 1]), pa.py_buffer(self.data)]
        return pa.Array.from_buffers(pa.binary(), rows, buffers)
