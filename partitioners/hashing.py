"""The only place that hashes: keys to 64-bit key hashes, key hashes to candidate partitions.

Three hash functions, by the name of the client they agree with:

======== ==================================================================== ====================
name     value                                                                whose default
======== ==================================================================== ====================
murmur3  MurmurHash3 x64 128, first eight bytes (Guava's ``asLong``), 64 bits  ours
murmur2  Kafka's ``Utils.murmur2`` as an unsigned 32-bit number                Java client
crc32    CRC-32 of zlib, unsigned 32 bits                                      librdkafka
======== ==================================================================== ====================

``hash_keys`` works on the offsets and data buffers of Arrow arrays: no Python object is made per
key. A dictionary array has its dictionary hashed once. ``hash_key`` is the same function for one
key, and agrees with it bit for bit.

``candidates`` derives d partitions from a key hash: word j is splitmix64's finaliser of the key
hash, the seed and j; its upper and lower halves give candidates 2j and 2j + 1 by multiply and
shift (no modulo; bias below n / 2**32). The first d candidates of a key are a prefix of its first
d + 1. With ``distinct`` they never coincide, so a key has d real choices even on two partitions
(so does Storm); without it they are independent and may coincide (as in the papers' analysis and
their authors' code).
"""

from __future__ import annotations

import functools
import zlib
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

import mmh3
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from numba import types

from partitioners._jit import as_int64, direct_entry, inlined, kernel, load_uint32, load_uint64
from partitioners.errors import InputError

HashFunction: TypeAlias = Literal["murmur3", "murmur2", "crc32"]
HASH_FUNCTIONS: tuple[HashFunction, ...] = ("murmur3", "murmur2", "crc32")

Key: TypeAlias = bytes | bytearray | memoryview | str | None
Keys: TypeAlias = (
    Any  # a sequence of Key, or an Arrow array, chunked array or anything exporting one
)


class HashedKeys(NamedTuple):
    """Key hashes, and which of the keys were null (their hash means nothing)."""

    hashes: npt.NDArray[np.uint64]  # uint64[n]
    is_null: npt.NDArray[np.bool_] | None  # bool[n]; None: no key is null


# One key ------------------------------------------------------------------------------------------


def hash_key(key: bytes | str, seed: int = 0, function: HashFunction = "murmur3") -> int:
    """Hash one key.

    Args:
        key: Bytes, or text, which is hashed as UTF-8.
        seed: 32-bit seed; murmur3 only.
        function: One of ``HASH_FUNCTIONS``.

    Returns:
        The unsigned key hash: 64 bits of murmur3, 32 bits of murmur2 and crc32.

    Example:
        >>> (hash_key(b"100:48069", function="murmur2") & 0x7FFFFFFF) % 12  # Java's client
        9
        >>> hash_key(b"100:48069", function="crc32") % 12  # librdkafka's default
        6
    """
    data = key.encode() if isinstance(key, str) else key
    if function == "murmur3":
        return int(mmh3.hash64(data, seed, signed=False)[0])
    if function == "crc32":
        return zlib.crc32(data)
    return murmur2(data)


def murmur2(key: bytes | bytearray | memoryview) -> int:
    """Hash one key as Kafka's Java client does, before it masks the sign bit away.

    Args:
        key: The key's bytes.

    Returns:
        Unsigned 32 bits; the partition is ``(murmur2(key) & 0x7fffffff) % num_partitions``.

    Example:
        >>> murmur2(b"")
        275646681
    """
    return int(scalar_hash("murmur2")(bytes(key)))


@functools.cache
def scalar_hash(function: HashFunction) -> Callable[[bytes], int]:
    """Give the shortest way to hash one key.

    Args:
        function: One of ``HASH_FUNCTIONS``.

    Returns:
        A function of bytes (no other kind); murmur3 comes as a *signed* number.
    """
    if function == "murmur3":
        return lambda key: int(mmh3.hash64(key)[0])
    if function == "crc32":
        return zlib.crc32
    # Straight from bytes: an array made of them first costs 0.9 µs more.
    return direct_entry(_murmur2_one, types.Bytes(types.uint8, 1, "C"))


@kernel
def _murmur2_one(data: npt.NDArray[np.uint8]) -> int:
    return as_int64(_murmur2(data, 0, len(data)))


# Many keys ----------------------------------------------------------------------------------------


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
        _hash_murmur3(data, offsets, np.uint64(seed), out)
    elif function == "murmur2":
        _hash_murmur2(data, offsets, out)
    else:
        _hash_crc32(data, offsets, out)


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


# MurmurHash3 x64 128, first half ------------------------------------------------------------------

_C1 = np.uint64(0x87C37B91114253D5)
_C2 = np.uint64(0x4CF5AD432745937F)
_FIVE = np.uint64(5)
_ADD1 = np.uint64(0x52DCE729)
_ADD2 = np.uint64(0x38495AB5)
_ONES = np.uint64(0xFFFFFFFFFFFFFFFF)


@inlined
def _rotate(word: np.uint64, bits: int) -> np.uint64:
    return (word << np.uint64(bits)) | (word >> np.uint64(64 - bits))


@inlined
def _fmix64(word: np.uint64) -> np.uint64:
    word ^= word >> np.uint64(33)
    word *= np.uint64(0xFF51AFD7ED558CCD)
    word ^= word >> np.uint64(33)
    word *= np.uint64(0xC4CEB9FE1A85EC53)
    word ^= word >> np.uint64(33)
    return word


@inlined
def _low_bytes(count: int) -> np.uint64:
    """Mask of the low 0 to 8 bytes; two half shifts, for a shift by 64 is undefined."""
    half = np.uint64(4 * (8 - count))
    return (_ONES >> half) >> half


@inlined
def _tail_bytes(data: npt.NDArray[np.uint8], start: int, count: int) -> np.uint64:
    """Read 0 to 8 bytes near the end of the buffer, where eight may not be read."""
    word = np.uint64(0)
    for index in range(count):
        word |= np.uint64(data[start + index]) << np.uint64(8 * index)
    return word


@inlined
def _murmur3(data: npt.NDArray[np.uint8], start: int, end: int, seed: np.uint64) -> np.uint64:
    h1 = seed
    h2 = seed
    length = end - start
    position = start
    while position + 16 <= end:
        k1 = _rotate(load_uint64(data, position) * _C1, 31) * _C2
        h1 = (_rotate(h1 ^ k1, 27) + h2) * _FIVE + _ADD1
        k2 = _rotate(load_uint64(data, position + 8) * _C2, 33) * _C1
        h2 = (_rotate(h2 ^ k2, 31) + h1) * _FIVE + _ADD2
        position += 16
    tail = end - position
    first = min(tail, 8)
    second = tail - first
    if position + 16 <= data.size:
        # Whole words and a mask: no loop over bytes, and no branch on the key's length.
        k1 = load_uint64(data, position) & _low_bytes(first)
        k2 = load_uint64(data, position + 8) & _low_bytes(second)
    else:
        k1 = _tail_bytes(data, position, first)
        k2 = _tail_bytes(data, position + 8, second)
    h2 ^= _rotate(k2 * _C2, 33) * _C1
    h1 ^= _rotate(k1 * _C1, 31) * _C2
    h1 ^= np.uint64(length)
    h2 ^= np.uint64(length)
    h1 += h2
    h2 += h1
    return _fmix64(h1) + _fmix64(h2)


@kernel
def _hash_murmur3(
    data: npt.NDArray[np.uint8],
    offsets: npt.NDArray[Any],
    seed: np.uint64,
    out: npt.NDArray[np.uint64],
) -> None:
    end = as_int64(offsets[0])
    for row in range(out.size):
        start = end
        end = as_int64(offsets[row + 1])
        out[row] = _murmur3(data, start, end, seed)


# Kafka's murmur2 ----------------------------------------------------------------------------------

_M = np.uint64(0x5BD1E995)
_MASK32 = np.uint64(0xFFFFFFFF)


@inlined
def _murmur2(data: npt.NDArray[np.uint8], start: int, end: int) -> np.uint64:
    # 32-bit arithmetic kept in 64-bit registers: mask after each product. Java shifts with >>>.
    h = np.uint64(0x9747B28C) ^ (np.uint64(end - start) & _MASK32)
    position = start
    while position + 4 <= end:
        k = (np.uint64(load_uint32(data, position)) * _M) & _MASK32
        k ^= k >> np.uint64(24)
        k = (k * _M) & _MASK32
        h = ((h * _M) & _MASK32) ^ k
        position += 4
    if position < end:
        h = ((h ^ _tail_bytes(data, position, end - position)) * _M) & _MASK32
    h ^= h >> np.uint64(13)
    h = (h * _M) & _MASK32
    return h ^ (h >> np.uint64(15))


@kernel
def _hash_murmur2(
    data: npt.NDArray[np.uint8], offsets: npt.NDArray[Any], out: npt.NDArray[np.uint64]
) -> None:
    for row in range(out.size):
        out[row] = _murmur2(data, as_int64(offsets[row]), as_int64(offsets[row + 1]))


# CRC-32 -------------------------------------------------------------------------------------------


def _crc32_table() -> npt.NDArray[np.uint32]:
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, (table >> 1) ^ np.uint32(0xEDB88320), table >> 1)
    return table.astype(np.uint32)


_CRC32_TABLE = _crc32_table()


@kernel
def _hash_crc32(
    data: npt.NDArray[np.uint8], offsets: npt.NDArray[Any], out: npt.NDArray[np.uint64]
) -> None:
    for row in range(out.size):
        crc = np.uint64(0xFFFFFFFF)
        for position in range(as_int64(offsets[row]), as_int64(offsets[row + 1])):
            index = (crc ^ np.uint64(data[position])) & np.uint64(0xFF)
            crc = (crc >> np.uint64(8)) ^ np.uint64(_CRC32_TABLE[index])
        out[row] = crc ^ np.uint64(0xFFFFFFFF)


# Candidates ---------------------------------------------------------------------------------------

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


@inlined
def mix64(word: np.uint64) -> np.uint64:
    """Spread a 64-bit word: splitmix64's finaliser (Stafford's mix 13)."""
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return word ^ (word >> np.uint64(31))


def seed_word(seed: int) -> np.uint64:
    """Turn a seed into the word that ``candidate_word`` takes.

    Args:
        seed: Any integer of 64 bits, of either sign.

    Returns:
        The word; equal seeds give equal words in every process.
    """
    return np.uint64(mix64(np.uint64(seed & 0xFFFFFFFFFFFFFFFF)))


@inlined
def candidate_word(key_hash: np.uint64, seed: np.uint64, index: int) -> np.uint64:
    """Give word ``index`` of a key: its halves place candidates 2 index and 2 index + 1."""
    return mix64((key_hash ^ seed) + _GOLDEN * np.uint64(index + 1))


@inlined
def upper_range(word: np.uint64, size: int) -> int:
    """Map the upper half of a word to 0 .. size - 1, evenly, without a division."""
    return as_int64(((word >> np.uint64(32)) * np.uint64(size)) >> np.uint64(32))


@inlined
def lower_range(word: np.uint64, size: int) -> int:
    """Map the lower half of a word to 0 .. size - 1, evenly, without a division."""
    return as_int64(((word & _MASK32) * np.uint64(size)) >> np.uint64(32))


@inlined
def two_candidates(
    key_hash: np.uint64, seed: np.uint64, num_partitions: int, distinct: bool
) -> tuple[int, int]:
    """Give the first two candidates of a key, those of ``fill_candidates``, unrolled.

    Args:
        key_hash: The key's hash.
        seed: ``seed_word(seed)``.
        num_partitions: At least 2 where ``distinct``.
        distinct: Whether the two must differ.

    Returns:
        Two partitions.
    """
    word = candidate_word(key_hash, seed, 0)
    first = upper_range(word, num_partitions)
    if not distinct:
        return first, lower_range(word, num_partitions)
    second = 1 + lower_range(word, num_partitions - 1)
    return first, 0 if second == first else second


@inlined
def fill_candidates(
    key_hash: np.uint64,
    seed: np.uint64,
    distinct: bool,
    identity: npt.NDArray[np.int32],
    out: npt.NDArray[np.int32],
) -> None:
    """Write the candidates of one key.

    Where they are distinct this is the start of a Fisher-Yates shuffle of 0 .. n - 1, undone after
    use, so d candidates cost O(d).

    Args:
        key_hash: The key's hash.
        seed: ``seed_word(seed)``.
        distinct: Whether all must differ; then ``out`` is no longer than ``identity``.
        identity: ``int32[n]`` holding 0 .. n - 1, and so again on return.
        out: ``int32[d]`` to fill.
    """
    size = identity.size
    num_choices = out.size
    word = np.uint64(0)
    for index in range(num_choices):
        if index & 1 == 0:
            word = candidate_word(key_hash, seed, index >> 1)
        remaining = size - index if distinct else size
        place = upper_range(word, remaining) if index & 1 == 0 else lower_range(word, remaining)
        if not distinct:
            out[index] = place
            continue
        place += index
        out[index] = identity[place]
        identity[place] = identity[index]
        identity[index] = out[index]
    if distinct:
        for index in range(num_choices):
            identity[index] = index
        for index in range(num_choices):
            identity[out[index]] = out[index]


@kernel
def _candidates(
    key_hashes: npt.NDArray[np.uint64],
    seed: np.uint64,
    distinct: bool,
    identity: npt.NDArray[np.int32],
    out: npt.NDArray[np.int32],
) -> None:
    for row in range(key_hashes.size):
        fill_candidates(key_hashes[row], seed, distinct, identity, out[row])


def candidates(
    key_hashes: npt.NDArray[np.uint64],
    num_choices: int,
    num_partitions: int,
    seed: int = 0,
    *,
    distinct: bool = True,
) -> npt.NDArray[np.int32]:
    """Say which partitions each key may use; a function of key and seed alone.

    Args:
        key_hashes: ``uint64[n]``.
        num_choices: d; at most ``num_partitions`` where ``distinct``.
        num_partitions: Number of partitions.
        seed: Any 64-bit integer.
        distinct: Whether the d partitions of a key must differ (see the module's docstring).

    Returns:
        ``int32[n, d]``.

    Example:
        >>> rows = candidates(hash_keys(["a", "b"]), 2, 2)
        >>> [sorted(row) for row in rows.tolist()]
        [[0, 1], [0, 1]]
    """
    out = np.empty((len(key_hashes), num_choices), np.int32)
    identity = np.arange(num_partitions, dtype=np.int32)
    _candidates(key_hashes, seed_word(seed), distinct, identity, out)
    return out
