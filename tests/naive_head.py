"""D-Choices and W-Choices as their authors' simulator decides, in plain steps.

Java's 32-bit floats are NumPy's ``float32``; what it keeps in doubles is a Python float.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import mmh3
import numpy as np
import numpy.typing as npt

CAPACITY = 100
THRESHOLD = 10  # the simulator's argument; 2 / (n * 10) is the paper's 1 / (5 n)


class StreamSummary:
    """SpaceSaving with one queue of keys per count; the head of the lowest queue is taken over."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.place: dict[int, int] = {}  # key to its place in the arrays
        self.count = np.zeros(capacity, np.float32)
        self.error = np.zeros(capacity, np.float32)
        self.buckets: dict[int, list[int]] = {}  # count to its keys, the longest there first

    def offer(self, key: int) -> None:
        count = 0
        if key in self.place:
            count = int(self.count[self.place[key]])
            self._leave(key, count)
        elif len(self.place) < self.capacity:
            self.place[key] = len(self.place)
        else:
            count = min(self.buckets)
            dropped = self.buckets[count][0]
            self._leave(dropped, count)
            self.place[key] = self.place.pop(dropped)
            self.error[self.place[key]] = count
        self.count[self.place[key]] = count + 1
        self.buckets.setdefault(count + 1, []).append(key)

    def _leave(self, key: int, count: int) -> None:
        self.buckets[count].remove(key)
        if not self.buckets[count]:
            del self.buckets[count]

    def shares(self, messages: int) -> npt.NDArray[np.float32]:
        """Give (freq + error) / totalItems of every entry."""
        return (self.count + self.error) / np.float32(messages)

    def hottest(self) -> int:
        return self.place[self.buckets[max(self.buckets)][0]]


def number_of_choices(
    summary: StreamSummary, messages: int, probability: np.float32, n: int, epsilon: float
) -> int:
    shares = summary.shares(messages)
    p_head, in_head = 0.0, 0
    for share in shares.tolist():
        if share > float(probability):
            p_head += share
            in_head += 1
    p_top = float(shares[summary.hottest()])
    p_tail = 1 - p_head
    d = math.floor(p_top * n + 0.5)  # Math.round
    while True:
        missed_by_all = ((n - 1) / n) ** float(in_head * d)
        sum_1 = p_head + p_tail * (1 - missed_by_all) ** 2.0
        reached = 1 - ((n - 1) / n) ** float(d)
        sum_2 = p_top + (p_head - p_top) * reached ** float(d) + p_tail * reached**2.0
        d += 1
        fails = sum_1 > (1 - missed_by_all) + epsilon or sum_2 > reached + epsilon
        if not (d <= n and fails):
            return d - 1


def route(name: str, n: int, choices: Sequence[Sequence[int]], keys: Sequence[int]) -> list[int]:
    """Route with ``d_choices`` or ``w_choices``; `choices` has a row of n partitions per record."""
    summary = StreamSummary(CAPACITY)
    loads = [0] * n
    probability = np.float32(2) / np.float32(n * THRESHOLD)
    epsilon = float(np.float32(1e-4))
    out = []
    for messages, key in enumerate(keys, start=1):
        summary.offer(key)
        place = summary.place[key]
        share = (summary.count[place] + summary.error[place]) / np.float32(messages)
        row = choices[messages - 1]
        usable: Sequence[int] = row[:2]
        if share > probability:
            d = n
            if name == "d_choices":
                d = number_of_choices(summary, messages, probability, n, epsilon)
            usable = row[:d] if d < n else range(n)
        selected = usable[0]
        for partition in usable:
            if loads[partition] < loads[selected]:
                selected = partition
        loads[selected] += 1
        out.append(selected)
    return out


def authors_choices(ids: npt.NDArray[np.int64], n: int) -> npt.NDArray[np.int32]:
    """Hash number strings with Guava's murmur3_128(prime).asInt(), for primes from 43 upwards."""
    primes: list[int] = []
    candidate = 43
    while len(primes) < n:
        if all(candidate % divisor for divisor in range(2, candidate)):
            primes.append(candidate)
        candidate += 1
    names = [str(number).encode() for number in range(int(ids.max()) + 1)]
    table = np.empty((len(names), n), np.int32)
    for column, prime in enumerate(primes):
        for number, name in enumerate(names):
            as_int = mmh3.hash64(name, prime, signed=False)[0] & 0xFFFFFFFF
            signed = as_int - (1 << 32) if as_int >> 31 else as_int
            table[number, column] = abs(int(math.fmod(signed, n)))
    return table[ids]
