"""Correlation clustering of records by the attributes they share: VOTE and greedy merging.

Two records are *alike* if enough of their four attributes are equal. A clustering is as good as it
has few disagreements: alike pairs in different clusters, and other pairs in one. Both algorithms
are quadratic in time, greedy in memory too.

VOTE (Elsner, Schudy; ILP-NLP 2009, section 3.1) takes the records one by one and puts each into the
cluster with the largest net weight, alike less other records, or alone where none is above 0.
Greedy merging begins with single records and merges the two clusters of the largest net weight
between them, until none is above 0. Of equals, the cluster with the first record is taken.

A record is one integer of four codes of 15 bits, and records are taken in the order of these.
"""

from __future__ import annotations

import numba
import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]

CODE_BITS = 15


@numba.njit(cache=True, nogil=True, inline="always")  # type: ignore[untyped-decorator]
def _weight(a: int, b: int, least_equal: int) -> int:
    """1 of records that are alike, else -1."""
    differ = a ^ b
    equal = 0
    for _ in range(4):
        equal += (differ & 32767) == 0
        differ >>= 15
    return 1 if equal >= least_equal else -1


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def vote(records: Int64s, least_equal: int, out: Int64s) -> None:
    """Cluster by VOTE.

    Args:
        records: int64[n], ascending.
        least_equal: Equal attributes of records that are alike.
        out: int64[n], set to the number of each record's cluster, from 0.
    """
    net = np.zeros(records.size, np.int64)
    num_clusters = 0
    for i in range(records.size):
        net[:num_clusters] = 0
        for j in range(i):
            net[out[j]] += _weight(records[i], records[j], least_equal)
        best = num_clusters
        largest = 0
        for cluster in range(num_clusters):
            if net[cluster] > largest:
                best, largest = cluster, net[cluster]
        out[i] = best
        num_clusters += best == num_clusters


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def greedy(records: Int64s, least_equal: int, out: Int64s) -> None:
    """Cluster by greedy merging; see `vote`.

    A cluster goes by its first record. Of each, the best partner further down is remembered, so a
    merge looks at one row of weights, and at those rows whose partner it changed.
    """
    n = records.size
    weight = np.zeros((n, n), np.int32)
    for i in range(n):
        for j in range(i):
            weight[i, j] = weight[j, i] = _weight(records[i], records[j], least_equal)
    there = np.ones(n, np.bool_)
    partner = np.zeros(n, np.int64)
    for i in range(n):
        out[i] = i
        partner[i] = _partner(weight, there, i)
    while True:
        best, largest = -1, 0
        for i in range(n):
            if there[i] and partner[i] >= 0 and weight[i, partner[i]] > largest:
                best, largest = i, weight[i, partner[i]]
        if best < 0:
            break
        gone = partner[best]
        there[gone] = False
        for i in range(n):
            weight[best, i] += weight[gone, i]
            weight[i, best] = weight[best, i]
            if out[i] == gone:
                out[i] = best
        for i in range(gone):
            if not there[i]:
                continue
            known = partner[i]
            if i == best or known in (best, gone):
                partner[i] = _partner(weight, there, i)
            elif i < best:
                old, new = weight[i, known], weight[i, best]
                if new > old or (new == old and best < known):
                    partner[i] = best


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _partner(weight: npt.NDArray[np.int32], there: npt.NDArray[np.bool_], i: int) -> int:
    """The cluster further down with the largest weight to cluster i; -1 if there is none."""
    best = -1
    for j in range(i + 1, there.size):
        if there[j] and (best < 0 or weight[i, j] > weight[i, best]):
            best = j
    return best


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def disagreements(records: Int64s, least_equal: int, clusters: Int64s) -> int:
    """Count alike pairs in different clusters, and other pairs in one."""
    total = 0
    for i in range(records.size):
        for j in range(i):
            alike = _weight(records[i], records[j], least_equal) > 0
            total += alike != (clusters[i] == clusters[j])
    return total
