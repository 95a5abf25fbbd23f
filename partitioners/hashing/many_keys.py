"""Hashing many keys at once, on the buffers of Arrow arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from partitioners.errors import InputError
from partitioners.hashing.functions import hash_crc32, hash_murmur2, hash_murmur3
from partitioners.hashing.one_key import HashFunction

Key: TypeAlias = bytes | bytearray | memoryview | str | None
Keys: TypeAlias = (
    Any  # a sequence of Key, or an Arrow array, chunked array or anything exporting one
)


class HashedKeys(NamedTuple):
    """Key hashes, and which of the keys were null (their hash means nothing)."""

    hashes: npt.NDArray[np.uint64]  # uint64[n]
    is_null: npt.NDArray[np.bool_] | None  # bool[n]; None: no key is null


def hash_keys(
    keys: Keys, seed: int = 0, function: HashFunction = "murmur3"
) -> npt.NDArray[np.uint64]:
    """Hash many keys; a null has hash 0.

    Args:
        keys: A sequence of bytes, str and None; or an Arrow array (string, binary, their large and
            view kinds, fixed-size binary, dictionary of these, null), sliced or not; or a chunked
            array; or any object that exports one (polars, pandas with Arrow strings).
        seed: 32-bit seed; murmur3 only.
        function: One of ``HASH_FUNCTIONS``.

    Returns:
        ``uint64[n]``.

    Raises:
        InputError: The keys are of another type.

    Example:
        >>> from partitioners.hashing import hash_key
        >>> bool(hash_keys(["a", b"a"])[0] == hash_keys(pa.array(["a"]))[0] == hash_key("a"))
        True
    """
    return hash_keys_with_nulls(keys, seed, function).hashes


def hash_keys_with_nulls(
    keys: Keys, seed: int = 0, function: HashFunction = "murmur3"
) -> HashedKeys:
    """Hash many keys and say which are null.

    Args:
        keys: See ``hash_keys``.
        seed: 32-bit seed; murmur3 only.
        function: One of ``HASH_FUNCTIONS``.

    Returns:
        Hashes ``uint64[n]`` and the null mask ``bool[n]``, or None where no key is null.
    """
    chunks = key_chunks(keys)
    hashes = np.zeros(sum(len(chunk) for chunk in chunks), np.uint64)
    position = 0
    for chunk in chunks:
        hash_chunk(chunk, hashes[position : position + len(chunk)], seed, function)
        position += len(chunk)
    if not any(has_nulls(chunk) for chunk in chunks):
        return HashedKeys(hashes, None)
    masks = [null_mask(chunk) for chunk in chunks]
    is_null = np.concatenate(masks)
    hashes[is_null] = 0
    return HashedKeys(hashes, is_null)


def key_chunks(keys: Keys) -> list[Any]:
    """Turn keys into Arrow arrays the kernels read: binary, large binary, or dictionaries of them.

    Args:
        keys: See ``hash_keys``.

    Returns:
        The chunks in order, empty ones left out; nothing is copied for string and binary arrays.

    Raises:
        InputError: The keys are of another type.
    """
    if isinstance(keys, pa.Array | pa.ChunkedArray):
        array = keys
    elif isinstance(keys, str | bytes | bytearray | memoryview):
        raise InputError("expected many keys but got one; for one key call partition(key)")
    elif hasattr(keys, "__arrow_c_stream__"):
        array = pa.chunked_array(keys)
    else:
        array = _array_from_sequence(keys)
    chunks = array.chunks if isinstance(array, pa.ChunkedArray) else [array]
    return [_readable(chunk) for chunk in chunks if len(chunk)]


def _array_from_sequence(keys: Sequence[Key]) -> Any:
    try:
        return pa.array(keys, pa.binary())
    except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError, UnicodeEncodeError) as error:
        raise InputError(
            "keys are bytes, str (without lone surrogates) or None; "
            f"encode other values first ({error})"
        ) from error


def _readable(chunk: Any) -> Any:
    """Cast the kinds the kernels do not read; refuse what is no key."""
    kind = chunk.type
    if pa.types.is_dictionary(kind):
        values = _readable(chunk.dictionary)
        return pa.DictionaryArray.from_arrays(chunk.indices, values, safe=False)
    if _is_binary(kind):
        return chunk
    if pa.types.is_string_view(kind) or pa.types.is_binary_view(kind):
        return chunk.cast(pa.large_binary() if pa.types.is_binary_view(kind) else pa.large_string())
    if pa.types.is_fixed_size_binary(kind) or pa.types.is_null(kind):
        return chunk.cast(pa.binary())
    raise InputError(f"keys are strings or bytes, not Arrow {kind}; cast the column first")


def _is_binary(kind: Any) -> bool:
    return bool(
        pa.types.is_string(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_large_binary(kind)
    )


def has_nulls(chunk: Any) -> bool:
    """Say whether a chunk of ``key_chunks`` holds a null key, in itself or in its dictionary."""
    if chunk.null_count:
        return True
    return bool(pa.types.is_dictionary(chunk.type) and chunk.dictionary.null_count)


def null_mask(chunk: Any) -> npt.NDArray[np.bool_]:
    """Mark the null keys of a chunk of ``key_chunks``: ``bool[n]``."""
    mask: npt.NDArray[np.bool_] = chunk.is_null().to_numpy(zero_copy_only=False)
    if pa.types.is_dictionary(chunk.type) and chunk.dictionary.null_count:
        null_values = chunk.dictionary.is_null().to_numpy(zero_copy_only=False)
        mask = mask | null_values[_indices(chunk)]
    return mask


def hash_chunk(
    chunk: Any,
    out: npt.NDArray[np.uint64],
    seed: int = 0,
    function: HashFunction = "murmur3",
) -> None:
    """Hash one chunk of ``key_chunks``.

    Args:
        chunk: An Arrow array as ``key_chunks`` returns it.
        out: ``uint64[len(chunk)]`` to fill; what a null gets means nothing.
        seed: 32-bit seed; murmur3 only.
        function: One of ``HASH_FUNCTIONS``.
    """
    if pa.types.is_dictionary(chunk.type):
        if len(chunk.dictionary) == 0:
            out[:] = 0
            return
        values = np.zeros(len(chunk.dictionary), np.uint64)
        hash_chunk(chunk.dictionary, values, seed, function)
        np.take(values, _indices(chunk), out=out)
        return
    offsets, data = _buffers(chunk)
    if function == "murmur3":
        hash_murmur3(data, offsets, np.uint64(seed), out)
    elif function == "murmur2":
        hash_murmur2(data, offsets, out)
    else:
        hash_crc32(data, offsets, out)


def _indices(chunk: Any) -> npt.NDArray[np.int64]:
    indices: npt.NDArray[np.int64] = (
        chunk.indices.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
    )
    return indices


def _buffers(chunk: Any) -> tuple[npt.NDArray[Any], npt.NDArray[np.uint8]]:
    """Give offsets (``int32`` or ``int64`` [n + 1]) and data of a binary array, without a copy."""
    _, offset_buffer, data_buffer = chunk.buffers()
    large = pa.types.is_large_string(chunk.type) or pa.types.is_large_binary(chunk.type)
    offset_type = np.dtype(np.int64 if large else np.int32)
    offsets = np.frombuffer(
        offset_buffer, offset_type, len(chunk) + 1, chunk.offset * offset_type.itemsize
    )
    if data_buffer is None or data_buffer.size == 0:
        return offsets, np.frombuffer(b"", np.uint8)
    return offsets, np.frombuffer(data_buffer, np.uint8)
