"""Sums of any size as columns of int64: limbs of 32 bits, each summed by itself.

The total of a column is `high * 2**32 + low`. A record adds less than 2**32 to a limb, so no limb
overflows below 2**31 records of a key in a window, whatever the values are; and a limb is deducted
by subtraction like any sum. `carry` makes the limbs of a total unique again.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from partitioners.errors import RunError

Int64s = npt.NDArray[np.int64]

LIMB_BITS = 32
_MASK = (1 << LIMB_BITS) - 1
_MASK_U = np.uint64(_MASK)
_BITS_U = np.uint64(LIMB_BITS)


def split(values: Int64s) -> tuple[Int64s, Int64s]:
    """Cut integers into a signed high and an unsigned low limb.

    Example:
        >>> [limb.tolist() for limb in split(np.array([5, -1]))]
        [[0, -1], [5, 4294967295]]
    """
    return values >> LIMB_BITS, values & _MASK


def split_squares(values: Int64s) -> list[Int64s]:
    """Cut the squares of integers into four limbs, highest first.

    Example:
        >>> limbs = split_squares(np.array([-(2**63), 3]))
        >>> [sum(int(limb[i]) << (32 * (3 - j)) for j, limb in enumerate(limbs)) for i in (0, 1)]
        [85070591730234615865843651857942052864, 9]
    """
    # The magnitude of -2**63 is right as an unsigned number.
    size = np.abs(values).view(np.uint64)
    a, b = size >> _BITS_U, size & _MASK_U
    aa, ab, bb = a * a, a * b, b * b
    carried = (bb >> _BITS_U) + ((ab & _MASK_U) << np.uint64(1))
    limb1 = carried & _MASK_U
    carried = (carried >> _BITS_U) + ((ab >> _BITS_U) << np.uint64(1)) + (aa & _MASK_U)
    limbs = [(carried >> _BITS_U) + (aa >> _BITS_U), carried & _MASK_U, limb1, bb & _MASK_U]
    return [limb.view(np.int64) for limb in limbs]


def carry(limbs: Int64s) -> None:
    """Make limbs unique in place: all but the highest in [0, 2**32).

    Args:
        limbs: int64[num_limbs, n], highest first.
    """
    for row in range(len(limbs) - 1, 0, -1):
        limbs[row - 1] += limbs[row] >> LIMB_BITS
        limbs[row] &= _MASK


def to_integers(limbs: Int64s) -> npt.NDArray[np.object_]:
    """The totals as Python integers, object[n]."""
    total: npt.NDArray[np.object_] = limbs[0].astype(object)
    for row in limbs[1:]:
        total = (total << LIMB_BITS) + row.astype(object)
    return total


def to_floats(limbs: Int64s, divisor: Int64s | int = 1) -> npt.NDArray[np.float64]:
    """The nearest double to each total divided by `divisor` (a positive integer).

    Where both sides are integers a double holds, one division rounds correctly; elsewhere Python's
    own division of integers does.
    """
    divisors = np.broadcast_to(np.asarray(divisor), limbs[0].shape)
    small = (np.abs(limbs[:-1]).sum(axis=0) < 2**20) & (divisors < 2**53)
    if len(limbs) > 2:
        small &= (limbs[:-2] == 0).all(axis=0)
    totals = np.where(small, (limbs[-2] << LIMB_BITS) + limbs[-1], 0)
    out = totals / np.maximum(divisors, 1)
    for i in np.flatnonzero(~small).tolist():
        out[i] = int(to_integers(limbs[:, i : i + 1])[0]) / int(divisors[i])
    return np.asarray(out)


def to_array(limbs: Int64s, type_: pa.DataType, name: str) -> pa.Array:
    """Carried totals of two limbs as an Arrow column.

    Args:
        limbs: int64[2, n].
        type_: int64, a decimal128 (of which the totals are the unscaled values), or float64.
        name: For the message.

    Raises:
        RunError: A total is larger than the type.
    """
    high, low = limbs
    if pa.types.is_decimal128(type_):
        words = np.empty((len(high), 2), dtype=np.int64)
        words[:, 0] = (high << LIMB_BITS) + low
        words[:, 1] = high >> LIMB_BITS
        return pa.Array.from_buffers(type_, len(high), [None, pa.py_buffer(words)])
    if pa.types.is_floating(type_):
        return pa.array(to_floats(limbs), type=type_)
    if bool((high != (high << LIMB_BITS) >> LIMB_BITS).any()):
        raise RunError(
            f'a total of "{name}" is larger than 64 bits: give its column a decimal128 type'
        )
    return pa.array((high << LIMB_BITS) + low, type=type_)
