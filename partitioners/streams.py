"""Seeded streams of keys, for benchmarks, simulations and tests.

``zipf`` is the stream of every figure in this project: 1,000,000 records, Zipf(1.4) over 10,000
keys, ids permuted so that a small id is not a hot one; the top key has 32.9 % of the records.
``partitioners.stream_names`` makes streams from names, such as ``zipf:exponent=1.0``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from partitioners.errors import InputError
from partitioners.hashing import HashFunction, hash_keys

Ids = npt.NDArray[np.int64]

_KEYS_IN_CACHE = 100_000
_EXACT_TERMS = 100_000  # of a harmonic sum; the rest is an integral, off by less than 1e-12


@dataclass(frozen=True)
class Stream:
    """A stream of n records over k keys.

    Attributes:
        ids: ``int64[n]``: number of each record's key, 0 .. k - 1.
        names: k strings: what each number is called.
        timestamps_ms: ``int64[n]``, event time.
    """

    ids: Ids
    names: pa.StringArray
    timestamps_ms: npt.NDArray[np.int64]

    @cached_property
    def keys(self) -> pa.StringArray:
        """The n keys, as a producer has them."""
        return self.names.take(pa.array(self.ids))

    @property
    def key_hashes(self) -> npt.NDArray[np.uint64]:
        """The n key hashes, ``uint64[n]``, of the library's own function."""
        return self.hashes("murmur3")

    def hashes(self, function: HashFunction) -> npt.NDArray[np.uint64]:
        """Hash the n keys by a function; each distinct key is hashed once.

        Args:
            function: See ``hashing.hash_keys``.

        Returns:
            ``uint64[n]``.
        """
        if function not in self._hashes:
            names = hash_keys(self.names, function=function)
            self._hashes[function] = names[self.ids] if len(self.ids) else np.empty(0, np.uint64)
        return self._hashes[function]

    @cached_property
    def _hashes(self) -> dict[HashFunction, npt.NDArray[np.uint64]]:
        return {}


def zipf(
    num_records: int = 1_000_000,
    num_keys: int = 10_000,
    exponent: float = 1.4,
    seed: int = 1,
) -> Stream:
    """Draw keys by Zipf's law: the r-th most frequent of k keys has a share of r**-exponent / c.

    Args:
        num_records: n.
        num_keys: k.
        exponent: 0 is uniform; 1.4 gives the hottest of 10,000 keys a third of the records.
        seed: Of the draw and of which key is hot.

    Returns:
        The stream.

    Example:
        >>> stream = zipf(100_000)
        >>> round(float(np.bincount(stream.ids).max()) / len(stream.ids), 2)
        0.33
    """
    return of_ids(_zipf_ids(num_records, num_keys, exponent, seed))


def uniform(num_records: int = 1_000_000, num_keys: int = 10_000, seed: int = 1) -> Stream:
    """Draw every key with the same probability; see ``zipf``."""
    return zipf(num_records, num_keys, 0.0, seed)


def one_hot(
    num_records: int = 1_000_000, num_keys: int = 10_000, fraction: float = 0.6, seed: int = 1
) -> Stream:
    """Give one key a share of the records, the others the rest evenly.

    Args:
        num_records: n.
        num_keys: k, the hot one included.
        fraction: Share of the hot key, number 0.
        seed: Of the draw.

    Returns:
        The stream.
    """
    random = np.random.default_rng(seed)
    ids = random.integers(1, max(num_keys, 2), num_records)
    ids[random.random(num_records) < fraction] = 0
    return of_ids(ids)


def top_share(
    num_records: int = 1_000_000, num_keys: int = 10_000, fraction: float = 0.1, seed: int = 1
) -> Stream:
    """Draw keys by the one Zipf law over k keys that gives the hottest a given share.

    So a data set is stood in for of which only the number of keys and the top share are published.

    Args:
        num_records: n.
        num_keys: k.
        fraction: Share of the hottest key, from 1/k to below 1.
        seed: Of the draw and of which key is hot.

    Returns:
        The stream.

    Example:
        >>> stream = top_share(100_000, num_keys=1_000, fraction=0.2)
        >>> round(float(np.bincount(stream.ids).max()) / len(stream.ids), 2)
        0.2
    """
    return zipf(num_records, num_keys, zipf_exponent(num_keys, fraction), seed)


def lognormal(
    num_records: int = 1_000_000, mu: float = 1.789, sigma: float = 2.366, seed: int = 1
) -> Stream:
    """Draw numbers by a log-normal law and take them, rounded, as keys.

    The defaults are data set LN1 of Nasir et al., ICDE 2015, section V.A; ``mu=2.245,
    sigma=1.133`` is LN2. The paper does not say how a draw becomes a key: rounding gives the top
    shares it reports, 14.71 % and 7.01 %.

    Args:
        num_records: n.
        mu: Mean of the logarithm.
        sigma: Its deviation.
        seed: Of the draw.

    Returns:
        The stream.
    """
    draws = np.rint(np.random.default_rng(seed).lognormal(mu, sigma, num_records))
    _, ids = np.unique(draws, return_inverse=True)
    return of_ids(ids.astype(np.int64))


def drift(
    num_records: int = 1_000_000,
    num_keys: int = 10_000,
    exponent: float = 1.4,
    num_phases: int = 10,
    seed: int = 1,
) -> Stream:
    """Change which keys are hot, at once, between phases of equal length.

    Args:
        num_records: n.
        num_keys: k.
        exponent: See ``zipf``.
        num_phases: How many.
        seed: Of the first phase; the next ones count on.

    Returns:
        The stream.
    """
    return _phases(num_records, num_keys, num_phases, lambda _phase: exponent, seed)


def alternating(
    num_records: int = 1_000_000,
    num_keys: int = 10_000,
    exponent: float = 1.4,
    num_phases: int = 6,
    seed: int = 1,
) -> Stream:
    """Alternate phases of uniform keys with phases of Zipf's law, beginning with uniform ones.

    Args:
        num_records: n.
        num_keys: k.
        exponent: Of the second, fourth ... phase.
        num_phases: How many.
        seed: Of the first phase; the next ones count on.

    Returns:
        The stream.
    """
    return _phases(
        num_records, num_keys, num_phases, lambda phase: exponent if phase % 2 else 0.0, seed
    )


def varying(
    num_records: int = 1_000_000,
    num_keys: int = 10_000,
    low: float = 0.5,
    high: float = 1.5,
    num_phases: int = 10,
    seed: int = 1,
) -> Stream:
    """Draw the exponent of each phase, and which keys are hot in it, at random.

    Args:
        num_records: n.
        num_keys: k.
        low: Least exponent.
        high: Largest exponent.
        num_phases: How many.
        seed: Of everything.

    Returns:
        The stream.
    """
    exponents = np.random.default_rng(seed).uniform(low, high, num_phases)
    return _phases(num_records, num_keys, num_phases, lambda phase: float(exponents[phase]), seed)


def mixed(
    num_records: int = 1_000_000, num_keys: int = 10_000, exponent: float = 1.5, seed: int = 1
) -> Stream:
    """Take records in turn from a uniform stream and from one by Zipf's law.

    With an even number of sources to which records are dealt in turn, half of them see the one and
    half the other.

    Args:
        num_records: n.
        num_keys: k.
        exponent: Of the odd records.
        seed: Of both.

    Returns:
        The stream.
    """
    ids = np.empty(num_records, np.int64)
    ids[::2] = _zipf_ids((num_records + 1) // 2, num_keys, 0.0, seed)
    ids[1::2] = _zipf_ids(num_records // 2, num_keys, exponent, seed + 1)
    return of_ids(ids)


def of_ids(ids: Ids, timestamps_ms: npt.NDArray[np.int64] | None = None) -> Stream:
    """Name keys by number: key i is ``key-i``.

    Args:
        ids: ``int64[n]``, 0 or more.
        timestamps_ms: ``int64[n]``; None: one record per ms.

    Returns:
        The stream.
    """
    numbers = pa.array(np.arange(int(ids.max()) + 1 if len(ids) else 0)).cast(pa.string())
    names = pc.binary_join_element_wise(pa.scalar("key-"), numbers, "")
    times = np.arange(len(ids), dtype=np.int64) if timestamps_ms is None else timestamps_ms
    return Stream(ids=ids, names=names, timestamps_ms=times)


def of_keys(keys: object, timestamps_ms: npt.NDArray[np.int64] | None = None) -> Stream:
    """Make a stream of given keys; nulls are left out, for no algorithm groups them.

    Args:
        keys: See ``hashing.hash_keys``.
        timestamps_ms: ``int64[n]``; None: one record per ms.

    Returns:
        The stream.
    """
    column = pa.chunked_array([pa.array(keys, pa.string())]).combine_chunks()
    is_valid = column.is_valid().to_numpy(zero_copy_only=False)
    times = np.arange(len(column), dtype=np.int64) if timestamps_ms is None else timestamps_ms
    encoded = column.drop_null().dictionary_encode()
    return Stream(
        ids=encoded.indices.to_numpy().astype(np.int64),
        names=encoded.dictionary,
        timestamps_ms=times[is_valid],
    )


def zipf_exponent(num_keys: int, fraction: float) -> float:
    """Find the exponent of Zipf's law over k keys whose hottest key has a given share.

    Args:
        num_keys: k, 2 or more.
        fraction: The share, from 1/k to 0.99.

    Returns:
        The exponent, to 1e-9.

    Raises:
        InputError: No exponent gives such a share.

    Example:
        >>> round(zipf_exponent(10_000, 0.329), 2)
        1.4
    """
    if num_keys < 2 or not 1.0 / num_keys <= fraction <= 0.99:
        raise InputError(
            f"no law over {num_keys:,} keys gives the hottest a share of {fraction:g}: "
            f"choose 2 keys or more and a share from 1/{num_keys} to 0.99"
        )
    low, high = 0.0, 16.0
    while high - low > 1e-9:
        middle = (low + high) / 2
        if 1.0 / _harmonic(num_keys, middle) < fraction:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _zipf_ids(num_records: int, num_keys: int, exponent: float, seed: int) -> Ids:
    random = np.random.default_rng(seed)
    shares = np.arange(1, num_keys + 1, dtype=np.float64) ** -exponent
    cumulative = np.cumsum(shares / shares.sum())
    cumulative[-1] = 1.0
    draws = random.random(num_records)
    if num_keys <= _KEYS_IN_CACHE:
        ranks = np.searchsorted(cumulative, draws, side="right")
    else:  # the same, with neighbours looked up after each other
        order = np.argsort(draws)
        ranks = np.empty(num_records, np.int64)
        ranks[order] = np.searchsorted(cumulative, draws[order], side="right")
    ids = random.permutation(num_keys)[ranks]
    # Keys that never occur need no names.
    return ids if num_keys <= num_records else np.unique(ids, return_inverse=True)[1]


def _phases(
    num_records: int,
    num_keys: int,
    num_phases: int,
    exponent_of: Callable[[int], float],
    seed: int,
) -> Stream:
    """Put phases of equal length one after the other, each with hot keys of its own."""
    if not 1 <= num_phases <= max(num_records, 1):
        raise InputError(f"num_phases must be from 1 to the number of records, not {num_phases}")
    ends = [num_records * phase // num_phases for phase in range(num_phases + 1)]
    parts = [
        _zipf_ids(end - start, num_keys, exponent_of(phase), seed + phase)
        for phase, (start, end) in enumerate(pairwise(ends))
    ]
    return of_ids(np.concatenate(parts))


def _harmonic(num_keys: int, exponent: float) -> float:
    """Sum r**-exponent over r = 1 .. k, the far terms by Euler and Maclaurin."""
    exact = min(num_keys, _EXACT_TERMS)
    total = float((np.arange(1, exact + 1, dtype=np.float64) ** -exponent).sum())
    if exact == num_keys:
        return total
    first, last = float(exact + 1), float(num_keys)
    if abs(exponent - 1.0) < 1e-12:
        integral = np.log(last / first)
    else:
        power = 1.0 - exponent
        integral = (last**power - first**power) / power
    ends = (first**-exponent + last**-exponent) / 2
    return float(total + integral + ends)
