"""Dalton as slow plain loops: what the kernels must equal, decision by decision.

`NaiveDalton` follows Algorithm 1 of the paper with our departures; `NaivePublished` follows the
authors' code, from its description. Dicts, full scans, no windows kept incrementally.
"""

from __future__ import annotations

import math

LOWEST_Q = -2.0


class JavaRandom:
    """The generator that the documentation of java.util.Random specifies."""

    def __init__(self, seed: int) -> None:
        self.word = (seed ^ 0x5DEECE66D) % 2**48

    def bits(self, count: int) -> int:
        self.word = (self.word * 0x5DEECE66D + 0xB) % 2**48
        return self.word >> (48 - count)

    def uniform(self) -> float:
        high = self.bits(26)
        return (high * 2**27 + self.bits(27)) / 2**53

    def below(self, bound: int) -> int:
        if bound & (bound - 1) == 0:
            return bound * self.bits(31) // 2**31
        while True:
            bits = self.bits(31)
            if bits - bits % bound + bound - 1 < 2**31:
                return bits % bound


def greedy(q_values: list[float], home: int) -> int:
    best = home
    for partition, value in enumerate(q_values):
        if value > q_values[best]:
            best = partition
    return best


class NaiveDalton:
    def __init__(
        self,
        num_partitions: int,
        window_ms: int = 60_000,
        slide_ms: int = 1_000,
        interval_ms: int | None = None,
        step_size: float = 0.1,
        exploration: float = 0.1,
        balance_weight: float = 0.5,
        max_split: int | None = None,
        first_split: int | None = 2,
        seed: int = 0,
    ) -> None:
        self.n = num_partitions
        self.num_panes = window_ms // slide_ms
        self.slide_ms = slide_ms
        self.interval_ms = interval_ms or slide_ms
        self.step_size, self.greedy_share = step_size, 1.0 - exploration
        self.balance_weight = balance_weight
        self.max_split = min(max_split or num_partitions, num_partitions)
        self.split_limit = min(first_split or self.max_split, self.max_split)
        self.random = JavaRandom(seed)
        self.now_ms: int | None = None
        self.interval: int | None = None
        self.counts: dict[int, float] = {}
        self.threshold = math.inf
        self.hot_keys: set[int] = set()  # that turned hot in this interval
        self.q: dict[int, list[float]] = {}
        self.expiry_ms: dict[int, int] = {}
        self.full: set[int] = set()
        self.sent: list[tuple[int, int, int, float]] = []  # pane, key, partition, load
        self.holders: dict[int, dict[int, int]] = {}  # key: partition: last pane, since once hot

    def step(self, key: int, time_ms: int, home: int, load: float = 1.0) -> int:
        self.now_ms = time_ms if self.now_ms is None else max(time_ms, self.now_ms)
        self._begin_interval()
        self._expire_pairs()
        self.counts[key] = self.counts.get(key, 0.0) + load
        hot = self._is_hot(key)
        if hot and key not in self.holders:
            self.holders[key] = {home: self.pane}
        if hot and key not in self.q:
            self.q[key] = [LOWEST_Q] * self.n
        partition = self._choose(key, home) if hot else home
        self.sent.append((self.pane, key, partition, load))
        if key in self.holders:
            self.holders[key][partition] = self.pane
        if hot:
            reward = self._reward(key, partition)
            self._raise_limit(key)
            old = self.q[key][partition]
            self.q[key][partition] = old * (1.0 - self.step_size) + self.step_size * reward
        return partition

    @property
    def pane(self) -> int:
        return self.now_ms // self.slide_ms

    def _begin_interval(self) -> None:
        interval = self.now_ms // self.interval_ms
        if interval == self.interval:
            return
        load = sum(self.counts.values())
        if load > 0:
            self.threshold = max(load / self.n, 2.0)
        self.interval = interval
        self.counts = {}
        self.hot_keys = set()
        for key in [key for key in self.q if self.now_ms >= self.expiry_ms[key]]:
            del self.q[key]
            self.full.discard(key)

    def _expire_pairs(self) -> None:
        oldest = self.pane - self.num_panes + 1
        self.sent = [row for row in self.sent if row[0] >= oldest]
        for key, panes in list(self.holders.items()):
            live = {part: pane for part, pane in panes.items() if pane >= oldest}
            if len(live) < len(panes) and len(live) < self.split_limit:
                self.full.discard(key)
            self.holders[key] = live
            if not live and key not in self.q:
                del self.holders[key]

    def _is_hot(self, key: int) -> bool:
        if self.counts[key] >= self.threshold:
            if key in self.hot_keys:
                return True
            if len(self.hot_keys) < self.n:
                self.hot_keys.add(key)
                self.expiry_ms[key] = (self.interval + 2) * self.interval_ms
                return True
        return key in self.q and self.now_ms < self.expiry_ms[key]

    def _choose(self, key: int, home: int) -> int:
        live = sorted(self.holders[key])
        at_most = len(live) >= self.max_split
        if self.random.uniform() < self.greedy_share:
            best = greedy(self.q[key], home)
            if not at_most or best in live:
                return best
            ranked = [*(p for p in live if p == home), *(p for p in live if p != home)]
            return max(ranked, key=lambda partition: self.q[key][partition])
        if (at_most or key in self.full) and live:
            return live[self.random.below(len(live))]
        return self.random.below(self.n)

    def _reward(self, key: int, partition: int) -> float:
        load = sum(row[3] for row in self.sent if row[2] == partition)
        average = sum(row[3] for row in self.sent) / self.n
        highest = max(load, average)
        imbalance = (load - average) / highest if highest > 0 else 0.0
        split = len(self.holders[key]) / self.n
        return -(self.balance_weight * imbalance + (1.0 - self.balance_weight) * split)

    def _raise_limit(self, key: int) -> None:
        if len(self.holders[key]) >= self.split_limit:
            self.full.add(key)
        if self.split_limit < self.max_split and len(self.full) >= 0.7 * len(self.q):
            self.full.clear()
            self.split_limit += 1


class NaivePublished:
    """The authors' code for one agent, records at times 0, 1, 2 ..., keys of n or more.

    Its fragmentation only ever grows (the expiry clears a bit that is not the worker's), and its
    split limit ends at ``max_split``.
    """

    def __init__(
        self, num_partitions: int, window_ms: int, slide_ms: int, max_split: int = 6, seed: int = 3
    ) -> None:
        self.n, self.window_ms, self.slide_ms = num_partitions, window_ms, slide_ms
        self.max_split, self.limit = max_split, 2
        self.random = JavaRandom(seed)
        self.next_hot = self.next_slide = slide_ms
        self.counts: dict[int, int] = {}
        self.total = 0
        self.hot: set[int] = set()
        self.threshold: float = math.inf
        self.q: dict[int, list[float]] = {}
        self.expiry: dict[int, int] = {}
        self.bits: dict[int, set[int]] = {}
        self.full: set[int] = set()
        self.blocks: list[tuple[int, list[int]]] = []
        self.head = [0] * num_partitions
        self.load = [0] * num_partitions

    def step(self, key: int, time_ms: int) -> int:
        hot = self._is_hot(key, time_ms)
        if time_ms >= self.next_slide:
            if self.blocks and self.blocks[0][0] <= time_ms - self.window_ms:
                _, expired = self.blocks.pop(0)
                self.load = [a - b for a, b in zip(self.load, expired, strict=True)]
            self.blocks.append((self.next_slide, self.head))
            self.head = [0] * self.n
            self.next_slide += self.slide_ms
        worker = self._choose(key) if hot else key % self.n
        self.bits.setdefault(key, set()).add(worker)
        self.head[worker] += 1
        self.load[worker] += 1
        if hot:
            if len(self.bits[key]) == self.limit:
                self.full.add(key)
            average = sum(self.load) / self.n
            load = self.load[worker]
            imbalance = (load - average) / max(load, average)
            if len(self.full) >= 0.7 * len(self.q) and self.limit < self.max_split:
                self.full.clear()
                self.limit += 1
            reward = -(0.5 * imbalance + 0.5 * (len(self.bits[key]) / self.n))
            self.q[key][worker] = self.q[key][worker] * (1 - 0.1) + 0.1 * reward
        return worker

    def _is_hot(self, key: int, time_ms: int) -> bool:
        if time_ms >= self.next_hot:
            self.counts, self.hot = {}, set()
            self.threshold, self.total = self.total // self.n, 0
            self.next_hot += self.slide_ms
        self.total += 1
        if key in self.hot:
            return True
        self.counts[key] = self.counts.get(key, 0) + 1
        if self.counts[key] > self.threshold:
            self.hot.add(key)
            self.q.setdefault(key, [LOWEST_Q] * self.n)
            self.expiry[key] = self.next_hot + self.slide_ms
            return True
        if key not in self.q:
            return False
        if time_ms > self.expiry[key]:
            del self.q[key]
            return False
        return True

    def _choose(self, key: int) -> int:
        if self.random.uniform() < 1 - 0.1:
            return greedy(self.q[key], key % self.n)
        if key in self.full:
            live = sorted(self.bits[key])
            return live[self.random.below(len(live))]
        return self.random.below(self.n)
