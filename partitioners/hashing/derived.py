"""Words and candidates derived from key hashes."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from partitioners._jit import as_int64, inlined, kernel

_MASK32 = np.uint64(0xFFFFFFFF)
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
        >>> from partitioners.hashing import hash_keys
        >>> rows = candidates(hash_keys(["a", "b"]), 2, 2)
        >>> [sorted(row) for row in rows.tolist()]
        [[0, 1], [0, 1]]
    """
    out = np.empty((len(key_hashes), num_choices), np.int32)
    identity = np.arange(num_partitions, dtype=np.int32)
    _candidates(key_hashes, seed_word(seed), distinct, identity, out)
    return out
