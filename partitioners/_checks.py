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


def with_arrays_checked(route: Callable[..., None]) -> Callable[..., None]:
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
        _require_arrays(key_hashes, timestamps_ms, out, weights)
        route(self, key_hashes, timestamps_ms, out, weights)

    return checked


def with_choices_checked(select: Callable[..., None]) -> Callable[..., None]:
    """Wrap ``select``, as ``with_arrays_checked`` does ``route``.

    Args:
        select: An algorithm's.
    """

    @functools.wraps(select)
    def checked(
        self: Partitioner,
        choices: npt.NDArray[np.int32],
        key_hashes: npt.NDArray[np.uint64],
        timestamps_ms: npt.NDArray[np.int64],
        out: npt.NDArray[np.int32],
        weights: npt.NDArray[np.float64] | None = None,
    ) -> None:
        _require_arrays(key_hashes, timestamps_ms, out, weights)
        size = len(key_hashes)
        if not _is_array(choices, np.dtype(np.int32), 2) or len(choices) != size:
            raise InputError(
                f"choices must be int32[{size}, d], a row per record, not {_shape(choices)}; "
                "candidates() gives such"
            )
        named = choices.size > 0 and choices.min() >= 0 and choices.max() < self.num_partitions
        if size and not named:
            raise InputError(
                f"choices must be partitions from 0 to {self.num_partitions - 1}, at least one "
                "per record; mend the rows"
            )
        rows = np.ascontiguousarray(choices)
        select(self, rows, key_hashes, timestamps_ms, out, weights)

    return checked


def _require_arrays(key_hashes: Any, timestamps_ms: Any, out: Any, weights: Any) -> None:
    """Refuse what is no array of its kind, or not one value per record."""
    given: tuple[tuple[str, Any, np.dtype[Any]], ...] = (
        ("key_hashes", key_hashes, _KEY_HASH),
        ("timestamps_ms", timestamps_ms, _TIME),
        ("out", out, _PARTITION),
    )
    if weights is not None:
        given = (*given, ("weights", weights, _LOAD))
    for name, array, dtype in given:
        if not _is_array(array, dtype, 1):
            raise InputError(
                f"{name} must be a one-dimensional array of {dtype}, "
                f"not {_shape(array)}; partition_batch takes any keys and times"
            )
    sizes = {name: len(array) for name, array, _ in given}
    if len(set(sizes.values())) > 1:
        listing = ", ".join(f"{size} {name}" for name, size in sizes.items())
        raise InputError(f"there are {listing}; give one per record")
    if not out.flags.writeable:
        raise InputError("out is read-only; give an array to write the partitions to")


_KEY_HASH, _TIME = np.dtype(np.uint64), np.dtype(np.int64)
_PARTITION, _LOAD = np.dtype(np.int32), np.dtype(np.float64)


def _is_array(value: Any, dtype: np.dtype[Any], num_dimensions: int) -> bool:
    return isinstance(value, np.ndarray) and value.dtype == dtype and value.ndim == num_dimensions


def _shape(value: Any) -> str:
    if not isinstance(value, np.ndarray):
        return f"a {type(value).__name__}"
    return f"{value.dtype}{list(value.shape)}"


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


def bytes_of_key(key: object) -> bytes:
    """Give the bytes of one key that is not bytes already.

    Args:
        key: What was given.

    Raises:
        InputError: It is no key.
    """
    try:
        if isinstance(key, str):
            return key.encode()
        return bytes(memoryview(key))  # type: ignore[arg-type]
    except (TypeError, UnicodeEncodeError) as error:
        raise InputError(
            "a key is bytes, str (without lone surrogates) or None, "
            f"not {type(key).__name__}; encode it first"
        ) from error


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
