"""What callers of a partitioner may get wrong, refused in a sentence."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from partitioners.errors import InputError

if TYPE_CHECKING:
    from partitioners.base import Partitioner


def with_lengths_checked(route: Callable[..., None]) -> Callable[..., None]:
    """Wrap ``route``: compiled code checks no bounds, and would write behind a short array.

    Args:
        route: An algorithm's.
    """

    @functools.wraps(route)
    def checked(
        self: Partitioner,
        key_hashes: npt.NDArray[np.uint64],
        timestamps_ms: npt.NDArray[np.int64],
        out: npt.NDArray[np.int32],
        weights: npt.NDArray[np.float64] | None = None,
    ) -> None:
        size = len(key_hashes)
        if (
            len(out) != size
            or (weights is not None and len(weights) != size)
            or (self.traits.uses_time and len(timestamps_ms) != size)
        ):
            lengths = [len(a) for a in (timestamps_ms, out, weights) if a is not None]
            raise InputError(
                f"timestamps_ms, out and weights have {lengths} values for {size} key hashes; "
                "give one per record"
            )
        route(self, key_hashes, timestamps_ms, out, weights)

    return checked


def require_time(timestamp_ms: object, cause: BaseException | None = None) -> None:
    """Refuse an event time that is no int64.

    Args:
        timestamp_ms: What was given.
        cause: The error it led to, if it did.

    Raises:
        InputError: It is none.
    """
    whole = isinstance(timestamp_ms, int | np.integer)
    if not whole or not -(1 << 63) <= int(timestamp_ms) < 1 << 63:  # type: ignore[call-overload]
        raise InputError(
            f"a timestamp is whole milliseconds in 64 bits, not {timestamp_ms!r}; convert it first"
        ) from cause


def weights_as_loads(weights: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Read the loads of records.

    Args:
        weights: What was given.

    Raises:
        InputError: They are no numbers, or one is negative or not finite.
    """
    try:
        loads: npt.NDArray[np.float64] = np.ascontiguousarray(weights, np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"weights are numbers ({error}); give each record's load") from error
    # One NaN would stay in a load for ever, and every later comparison with it be false.
    if loads.size and not (loads.min() >= 0 and loads.max() < np.inf):
        raise InputError("weights must be finite and 0 or more; mend the load of each record")
    return loads


def require_length(name: str, values: npt.NDArray[Any], num_records: int) -> None:
    """Refuse values that are not one per key.

    Args:
        name: What they are, for the message.
        values: The values.
        num_records: Keys there are.

    Raises:
        InputError: They are more or fewer.
    """
    if values.shape != (num_records,):
        raise InputError(f"{name} must be {num_records} values, one per key, not {values.shape}")
