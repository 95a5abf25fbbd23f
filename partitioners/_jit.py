"""How every kernel of this library is compiled, and the few words of machine code they share.

``kernel`` is ``numba.njit`` with the one set of options used everywhere, typed so that callers keep
the signature of the Python function.

The second half serves ``Partitioner.partition``, the scalar call. Handing a NumPy array to compiled
code costs about 0.1 µs, so ten arrays of state would cost more than hashing and routing together.
A scalar kernel therefore takes one ``int64`` array of *handles*, made once by ``handles``: address
and length of each state array, opened inside the kernel by ``float64_at(handles, 0)`` and so on.
The partitioner owns the arrays and makes new handles whenever it replaces one of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, cast

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import carray, njit, types
from numba.core import cgutils
from numba.extending import intrinsic

P = ParamSpec("P")
R = TypeVar("R")

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


class ScalarKernel:
    """A kernel ``(key_hash, timestamp_ms, handles) -> partition`` that is called once per record.

    Where a table of the state is full after the record, it returns ``~partition`` instead, and the
    base calls ``_make_room`` before the next.

    Compiled at the first ``entry()``, then called past numba's dispatcher: one signature is all
    there is, and finding it among one costs 0.25 µs of a call's 0.6.

    Args:
        function: Takes int, int and ``int64[:]`` of ``handles``; returns int.
    """

    def __init__(self, function: Callable[[int, int, npt.NDArray[np.int64]], int]) -> None:
        self._dispatcher: Any = njit(nogil=True, cache=True)(function)

    def entry(self) -> Callable[[int, int, npt.NDArray[np.int64]], int]:
        """Compile, or load from disk, and return what to call."""
        return cast(
            Callable[[int, int, npt.NDArray[np.int64]], int],
            direct_entry(self._dispatcher, types.int64, types.int64, types.int64[::1]),
        )


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
def _pointer(typingctx: Any, address: Any) -> Any:  # noqa: ARG001 - numba passes both
    """Read an int64 as a machine address."""

    def codegen(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.inttoptr(args[0], cgutils.voidptr_t)

    return types.voidptr(types.int64), codegen


@inlined
def float64_at(packed: npt.NDArray[np.int64], index: int) -> npt.NDArray[np.float64]:
    """Open handle ``index`` as a flat float64 array."""
    array: npt.NDArray[np.float64] = carray(
        _pointer(packed[2 * index]), (packed[2 * index + 1],), np.float64
    )
    return array


@inlined
def int64_at(packed: npt.NDArray[np.int64], index: int) -> npt.NDArray[np.int64]:
    """Open handle ``index`` as a flat int64 array."""
    array: npt.NDArray[np.int64] = carray(
        _pointer(packed[2 * index]), (packed[2 * index + 1],), np.int64
    )
    return array


@inlined
def uint64_at(packed: npt.NDArray[np.int64], index: int) -> npt.NDArray[np.uint64]:
    """Open handle ``index`` as a flat uint64 array."""
    array: npt.NDArray[np.uint64] = carray(
        _pointer(packed[2 * index]), (packed[2 * index + 1],), np.uint64
    )
    return array


@inlined
def int32_at(packed: npt.NDArray[np.int64], index: int) -> npt.NDArray[np.int32]:
    """Open handle ``index`` as a flat int32 array."""
    array: npt.NDArray[np.int32] = carray(
        _pointer(packed[2 * index]), (packed[2 * index + 1],), np.int32
    )
    return array


@inlined
def uint8_at(packed: npt.NDArray[np.int64], index: int) -> npt.NDArray[np.uint8]:
    """Open handle ``index`` as a flat uint8 array."""
    array: npt.NDArray[np.uint8] = carray(
        _pointer(packed[2 * index]), (packed[2 * index + 1],), np.uint8
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
