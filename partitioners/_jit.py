"""How every kernel of this library is compiled, and the few words of machine code they share.

``kernel`` is ``numba.njit`` with the one set of options used everywhere, typed so that callers keep
the signature of the Python function.

The second half serves ``Partitioner.partition``, the scalar call. Handing a NumPy array to compiled
code costs about 0.1 µs, so ten arrays of state would cost more than hashing and routing together.
A kernel therefore takes one ``int64`` array of *handles*, made once by ``handles``: address and
length of each state array, opened inside the kernel by ``float64_at(handles, 0)`` and so on. The
partitioner owns the arrays and makes new handles whenever it replaces one of them. A scalar kernel
takes no array at all, but the address of the handles, and reads the clock itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, TypeAlias, TypeVar, cast

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import carray, njit, types
from numba.core import cgutils
from numba.extending import intrinsic

P = ParamSpec("P")
R = TypeVar("R")

_MOST_HANDLES = 1 << 10

as_int64: Callable[[Any], int] = cast(Callable[[Any], int], np.int64)
"""``np.int64`` for kernels, where compiled code has no other int."""


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a function on plain arrays: no interpreter, no global lock, kept on disk.

    Args:
        function: Arrays and numbers in, ``out`` last, nothing allocated per record.

    Returns:
        The compiled function, under the signature it was written with.
    """
    return cast(Callable[P, R], njit(nogil=True, cache=True)(function))


def inlined(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a step that belongs inside the loops of other kernels.

    Args:
        function: A step of a few operations.

    Returns:
        The compiled function; LLVM is told to expand it at each call.
    """
    options: Any = {"nogil": True, "cache": True, "forceinline": True}
    return cast(Callable[P, R], njit(**options)(function))


ScalarEntry: TypeAlias = Callable[[int, int | None, int], int]


class ScalarKernel:
    """A kernel ``(key_hash, timestamp_ms, address of the handles) -> partition``, for one record.

    Where a table of the state is full after the record, it returns ``~partition`` instead, and the
    base calls ``_make_room`` before the next.

    Compiled at the first ``entry()``, then called past numba's dispatcher: one signature is all
    there is, and finding it among one costs 0.25 µs of a call's 0.6. It keeps the global lock: to
    let go of it and take it again costs 0.2 µs, more than what is done meanwhile.

    Args:
        function: Takes int, int or None (see ``given_or_now``), and int (see ``handles_at``);
            returns int.
    """

    def __init__(self, function: ScalarEntry) -> None:
        self._dispatcher: Any = njit(cache=True)(function)

    def entry(self, *, reads_clock: bool = False) -> ScalarEntry:
        """Compile, or load from disk, and return what to call.

        Args:
            reads_clock: Give the entry whose second argument is None.
        """
        time = types.none if reads_clock else types.int64
        return cast(ScalarEntry, direct_entry(self._dispatcher, types.int64, time, types.int64))


def direct_entry(function: Any, *signature: Any) -> Callable[..., Any]:
    """Compile a kernel for one signature and give its wrapper, without the choice of signature.

    Args:
        function: What ``kernel`` returned.
        signature: numba types of the arguments.

    Returns:
        A callable that takes exactly these types.
    """
    function.compile(signature)
    return cast(Callable[..., Any], function.overloads[signature].entry_point)


def handles(*arrays: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Pack addresses and lengths of state arrays for a scalar kernel.

    Args:
        arrays: C-contiguous arrays, which the caller keeps alive and in place.

    Returns:
        ``int64[2 * len(arrays)]``: address, number of elements, address, ...

    Example:
        >>> loads = np.zeros(4)
        >>> int(handles(loads)[1])
        4
    """
    packed = np.empty(2 * len(arrays), np.int64)
    for index, array in enumerate(arrays):
        if not array.flags.c_contiguous:
            raise ValueError("state arrays are C-contiguous")
        packed[2 * index] = array.ctypes.data
        packed[2 * index + 1] = array.size
    return packed


@intrinsic  # type: ignore[untyped-decorator]
def pointer(typingctx: Any, address: Any) -> Any:  # noqa: ARG001 - numba passes both
    """Read an int64 as a machine address."""

    def codegen(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.inttoptr(args[0], cgutils.voidptr_t)

    return types.voidptr(types.int64), codegen


@intrinsic  # type: ignore[untyped-decorator]
def _clock_ms(_typingctx: Any) -> Any:
    """Read the wall clock, ms since 1970: ``clock_gettime(CLOCK_REALTIME)``, as Python does."""

    def codegen(_context: Any, builder: Any, _signature: Any, _args: Any) -> Any:
        word = ir.IntType(64)
        seconds_and_ns = ir.LiteralStructType([word, word])
        clock_type = ir.IntType(32)
        read = cgutils.get_or_insert_function(
            builder.module,
            ir.FunctionType(clock_type, [clock_type, seconds_and_ns.as_pointer()]),
            "clock_gettime",
        )
        now = cgutils.alloca_once(builder, seconds_and_ns)
        builder.call(read, [clock_type(0), now])
        seconds = builder.load(cgutils.gep_inbounds(builder, now, 0, 0))
        ns = builder.load(cgutils.gep_inbounds(builder, now, 0, 1))
        return builder.add(builder.mul(seconds, word(1_000)), builder.sdiv(ns, word(1_000_000)))

    return types.int64(), codegen


@inlined
def given_or_now(timestamp_ms: int | None) -> int:
    """Give the time that a scalar kernel was called with, or the wall clock's, 0.1 µs sooner."""
    if timestamp_ms is None:  # decided while compiling: None has a type of its own
        now_ms: int = _clock_ms()
        return now_ms
    return timestamp_ms


@inlined
def handles_at(address: int) -> npt.NDArray[np.int64]:
    """Open the handles themselves; how many there are is not known here."""
    packed: npt.NDArray[np.int64] = carray(pointer(address), (_MOST_HANDLES,), np.int64)
    return packed


@inlined
def float64_at(packed: npt.NDArray[np.int64], index: int) -> npt.NDArray[np.float64]:
    """Open handle ``index`` as a flat float64 array."""
    array: npt.NDArray[np.float64] = carray(
        pointer(packed[2 * index]), (packed[2 * index + 1],), np.float64
    )
    return array


@inlined
def int64_at(packed: npt.NDArray[np.int64], index: int) -> npt.NDArray[np.int64]:
    """Open handle ``index`` as a flat int64 array."""
    array: npt.NDArray[np.int64] = carray(
        pointer(packed[2 * index]), (packed[2 * index + 1],), np.int64
    )
    return array


@inlined
def uint64_at(packed: npt.NDArray[np.int64], index: int) -> npt.NDArray[np.uint64]:
    """Open handle ``index`` as a flat uint64 array."""
    array: npt.NDArray[np.uint64] = carray(
        pointer(packed[2 * index]), (packed[2 * index + 1],), np.uint64
    )
    return array


@inlined
def int32_at(packed: npt.NDArray[np.int64], index: int) -> npt.NDArray[np.int32]:
    """Open handle ``index`` as a flat int32 array."""
    array: npt.NDArray[np.int32] = carray(
        pointer(packed[2 * index]), (packed[2 * index + 1],), np.int32
    )
    return array


@inlined
def uint8_at(packed: npt.NDArray[np.int64], index: int) -> npt.NDArray[np.uint8]:
    """Open handle ``index`` as a flat uint8 array."""
    array: npt.NDArray[np.uint8] = carray(
        pointer(packed[2 * index]), (packed[2 * index + 1],), np.uint8
    )
    return array


def _load(width: int, result: Any) -> Any:
    """Make an intrinsic that reads ``width`` bits at any byte of a uint8 array."""

    def typing(_typingctx: Any, data: Any, position: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            array = context.make_array(signature.args[0])(context, builder, args[0])
            index = context.cast(builder, args[1], signature.args[1], types.intp)
            place = builder.gep(array.data, [index])
            word = builder.bitcast(place, ir.IntType(width).as_pointer())
            loaded = builder.load(word)
            loaded.align = 1
            return loaded

        return result(data, position), codegen

    return typing


# Eight, or four, bytes at any position of a uint8 array, in the machine's byte order.
load_uint64: Callable[[npt.NDArray[np.uint8], int], np.uint64] = intrinsic(_load(64, types.uint64))
load_uint32: Callable[[npt.NDArray[np.uint8], int], np.uint32] = intrinsic(_load(32, types.uint32))
