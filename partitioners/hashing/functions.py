"""The hash functions over stretches of bytes, compiled."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from partitioners._jit import as_int64, inlined, kernel, load_uint32, load_uint64

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
def hash_murmur3(
    data: npt.NDArray[np.uint8],
    offsets: npt.NDArray[Any],
    seed: np.uint64,
    out: npt.NDArray[np.uint64],
) -> None:
    """Hash stretches ``offsets[i]`` to ``offsets[i + 1]`` of ``data``: 64 bits each."""
    end = as_int64(offsets[0])
    for row in range(out.size):
        start = end
        end = as_int64(offsets[row + 1])
        out[row] = _murmur3(data, start, end, seed)


# Kafka's murmur2 ----------------------------------------------------------------------------------

_M = np.uint64(0x5BD1E995)
_MASK32 = np.uint64(0xFFFFFFFF)


@inlined
def murmur2_of(data: npt.NDArray[np.uint8], start: int, end: int) -> np.uint64:
    """Hash one stretch as Kafka's Java client does: 32 bits."""
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
def hash_murmur2(
    data: npt.NDArray[np.uint8], offsets: npt.NDArray[Any], out: npt.NDArray[np.uint64]
) -> None:
    """Hash stretches with Kafka's murmur2: 32 bits each."""
    for row in range(out.size):
        out[row] = murmur2_of(data, as_int64(offsets[row]), as_int64(offsets[row + 1]))


# CRC-32 -------------------------------------------------------------------------------------------


def _crc32_table() -> npt.NDArray[np.uint32]:
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, (table >> 1) ^ np.uint32(0xEDB88320), table >> 1)
    return table.astype(np.uint32)


_CRC32_TABLE = _crc32_table()


@kernel
def hash_crc32(
    data: npt.NDArray[np.uint8], offsets: npt.NDArray[Any], out: npt.NDArray[np.uint64]
) -> None:
    """Hash stretches with CRC-32 of zlib: 32 bits each."""
    for row in range(out.size):
        crc = np.uint64(0xFFFFFFFF)
        for position in range(as_int64(offsets[row]), as_int64(offsets[row + 1])):
            index = (crc ^ np.uint64(data[position])) & np.uint64(0xFF)
            crc = (crc >> np.uint64(8)) ^ np.uint64(_CRC32_TABLE[index])
        out[row] = crc ^ np.uint64(0xFFFFFFFF)
