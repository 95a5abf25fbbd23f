"""The algorithms once more, slow and obvious: plain loops over Python numbers, no arrays.

Each twin takes what ``select`` takes, a list of candidates per record, and gives the partitions.
They follow the papers and the published code, not the library: nothing here imports from it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

Choices = Sequence[Sequence[int]]
Weights = Sequence[float] | None
MASK = 0xFFFFFFFFFFFFFFFF


# Hashing ------------------------------------------------------------------------------------------


def murmur2_java(data: bytes) -> int:
    """Utils.murmur2 of Apache Kafka, with Java's signed ints; the result is signed."""

    def signed(value: int) -> int:
        value &= 0xFFFFFFFF
        return value - (1 << 32) if value & 0x80000000 else value

    def unsigned_shift(value: int, bits: int) -> int:
        return (value & 0xFFFFFFFF) >> bits

    m = 0x5BD1E995
    h = signed(0x9747B28C ^ len(data))
    whole = len(data) // 4
    for i in range(whole):
        k = signed(int.from_bytes(data[4 * i : 4 * i + 4], "little", signed=True))
        k = signed(k * m)
        k = signed(k ^ unsigned_shift(k, 24))
        k = signed(k * m)
        h = signed(signed(h * m) ^ k)
    rest = data[4 * whole :]
    if len(rest) == 3:
        h = signed(h ^ (rest[2] << 16))
    if len(rest) >= 2:
        h = signed(h ^ (rest[1] << 8))
    if len(rest) >= 1:
        h = signed(signed(h ^ rest[0]) * m)
    h = signed(h ^ unsigned_shift(h, 13))
    h = signed(h * m)
    return signed(h ^ unsigned_shift(h, 15))


def mix64(word: int) -> int:
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & MASK
    return word ^ (word >> 31)


def candidates(key_hash: int, d: int, n: int, seed: int, distinct: bool) -> list[int]:
    """Distinct: draw from a shrinking list, the drawn place filled by the list's own head."""
    chosen: list[int] = []
    pool = list(range(n))
    for j in range(d):
        word = mix64(((key_hash ^ mix64(seed & MASK)) + 0x9E3779B97F4A7C15 * (j // 2 + 1)) & MASK)
        half = word >> 32 if j % 2 == 0 else word & 0xFFFFFFFF
        if not distinct:
            chosen.append(half * n >> 32)
            continue
        place = j + (half * (n - j) >> 32)
        pool[j], pool[place] = pool[place], pool[j]
        chosen.append(pool[j])
    return chosen


# Loads --------------------------------------------------------------------------------------------


def least(loads: Sequence[float], choices: Sequence[int], tie: str) -> int:
    best = choices[0]
    for choice in choices[1:]:
        if loads[choice] < loads[best] or (tie == "last" and loads[choice] == loads[best]):
            best = choice
    return best


class Clock:
    """Says when a later window begins; time never goes back."""

    def __init__(self, window_ms: int | None) -> None:
        self.window_ms = window_ms
        self.window: int | None = None

    def enters(self, timestamp_ms: int) -> bool:
        if self.window_ms is None:
            return False
        window = timestamp_ms // self.window_ms
        if self.window is not None and window <= self.window:
            return False
        self.window = window
        return True


def weight_of(weights: Weights, row: int) -> float:
    return 1.0 if weights is None else float(weights[row])


# Algorithms ---------------------------------------------------------------------------------------


def shuffle(
    config: Any, n: int, choices: Choices, keys: list[int], times: list[int], weights: Weights
) -> list[int]:
    return [(config.start + row) % n for row in range(len(keys))]


def key_hash(
    config: Any, n: int, choices: Choices, keys: list[int], times: list[int], weights: Weights
) -> list[int]:
    if config.hash_function == "murmur2":
        return [(key & 0x7FFFFFFF) % n for key in keys]
    if config.hash_function == "crc32":
        return [(key & 0xFFFFFFFF) % n for key in keys]
    return [candidates(key, 1, n, config.seed, False)[0] for key in keys]


def pkg(
    config: Any, n: int, choices: Choices, keys: list[int], times: list[int], weights: Weights
) -> list[int]:
    loads = [0.0] * n
    clock = Clock(config.window_ms)
    out = []
    for row in range(len(keys)):
        if clock.enters(times[row]):
            loads = [0.0] * n
        best = least(loads, choices[row], config.tie)
        loads[best] += weight_of(weights, row)
        out.append(best)
    return out


def potc(
    config: Any, n: int, choices: Choices, keys: list[int], times: list[int], weights: Weights
) -> list[int]:
    loads = [0.0] * n
    home: dict[int, int] = {}
    clock = Clock(config.window_ms)
    out = []
    for row, key in enumerate(keys):
        if clock.enters(times[row]):
            loads, home = [0.0] * n, {}
        if key not in home:
            home[key] = least(loads, choices[row], config.tie)
        loads[home[key]] += weight_of(weights, row)
        out.append(home[key])
    return out


def on_greedy(
    config: Any, n: int, choices: Choices, keys: list[int], times: list[int], weights: Weights
) -> list[int]:
    return potc(config, n, [range(n)] * len(keys), keys, times, weights)


def off_greedy(
    config: Any, n: int, choices: Choices, keys: list[int], times: list[int], weights: Weights
) -> list[int]:
    """Told all records first: keys by falling load, then by first record."""
    frequency: dict[int, float] = {}
    for row, key in enumerate(keys):
        frequency[key] = frequency.get(key, 0.0) + weight_of(weights, row)
    loads = [0.0] * n
    home = {}
    for key in sorted(frequency, key=lambda key: -frequency[key]):  # sorted() is stable
        home[key] = least(loads, range(n), config.tie)
        loads[home[key]] += frequency[key]
    return [home[key] for key in keys]


class SpaceSaving:
    """Metwally et al., as a list of [key, count, error] that is kept by falling count."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.entries: list[list[Any]] = []
        self.total = 0.0

    def offer(self, key: int, weight: float) -> float:
        self.total += weight
        keys = [entry[0] for entry in self.entries]
        if key in keys:
            position = keys.index(key)
        else:
            if len(self.entries) < self.capacity:
                self.entries.append([key, 0.0, 0.0])
            else:
                least_entry = self.entries[-1]
                self.entries[-1] = [key, least_entry[1], least_entry[1]]
            position = len(self.entries) - 1
        self.entries[position][1] += weight
        count: float = self.entries[position][1]
        while position > 0 and self.entries[position - 1][1] < count:
            passed = self.entries[position - 1][1]
            first = next(i for i, entry in enumerate(self.entries) if entry[1] == passed)
            entries = self.entries
            entries[first], entries[position] = entries[position], entries[first]
            position = first
        return count


def head_choices(sketch: SpaceSaving, theta: float, epsilon: float, n: int, distinct: bool) -> int:
    """Section IV of the D-Choices paper: the least d that meets the constraint of every prefix."""
    shares = [
        count / sketch.total for _, count, _ in sketch.entries if count >= theta * sketch.total
    ]
    d = max(2, math.ceil(shares[0] * n)) if shares else 2
    head = 0.0
    for share in shares:
        head += share
    while d < n:
        prefix, fits = 0.0, True
        for h in range(1, len(shares) + 1):
            prefix += shares[h - 1]
            stay_out = (1.0 - d / n) ** float(h) if distinct else ((n - 1.0) / n) ** float(h * d)
            b = n - n * stay_out
            load = prefix + (b / n) ** float(d) * (head - prefix) + (b / n) ** 2.0 * (1.0 - head)
            fits = fits and load <= b * (1.0 / n + epsilon)
        if fits:
            return d
        d += 1
    return n


def _with_head(
    config: Any,
    n: int,
    choices: Choices,
    keys: list[int],
    times: list[int],
    weights: Weights,
    adaptive: bool,
) -> list[int]:
    theta = 1.0 / (5 * n) if config.theta is None else config.theta
    capacity = config.capacity or max(100, math.ceil(1.25 / theta))
    loads, sketch, d, refresh_at = [0.0] * n, SpaceSaving(capacity), n, 0.0
    clock = Clock(config.window_ms)
    out = []
    for row, key in enumerate(keys):
        weight = weight_of(weights, row)
        if clock.enters(times[row]):
            loads, sketch, refresh_at = [0.0] * n, SpaceSaving(capacity), 0.0
        count = sketch.offer(key, weight)
        if count > 0.0 and count >= theta * sketch.total:
            if adaptive and sketch.total >= refresh_at:
                d = head_choices(sketch, theta, config.epsilon, n, config.distinct)
                refresh_at = sketch.total * (1.0 + config.refresh_fraction)
            usable = range(n) if d >= n else choices[row][:d]
        else:
            usable = choices[row][:2]
        best = least(loads, usable, config.tie)
        loads[best] += weight
        out.append(best)
    return out


def d_choices(
    config: Any, n: int, choices: Choices, keys: list[int], times: list[int], weights: Weights
) -> list[int]:
    return _with_head(config, n, choices, keys, times, weights, adaptive=True)


def w_choices(
    config: Any, n: int, choices: Choices, keys: list[int], times: list[int], weights: Weights
) -> list[int]:
    return _with_head(config, n, choices, keys, times, weights, adaptive=False)


TWINS: dict[str, Callable[..., list[int]]] = {
    "shuffle": shuffle,
    "key_hash": key_hash,
    "pkg": pkg,
    "potc": potc,
    "on_greedy": on_greedy,
    "off_greedy": off_greedy,
    "d_choices": d_choices,
    "w_choices": w_choices,
}
