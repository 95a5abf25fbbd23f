"""The cardinality-aware partitioners as plain loops over dicts, the authors' rules one to one.

A pane's records are kept in lists and everything is counted anew from the live ones, so nothing
here shares a data structure, or an idea, with the kernels.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence
from typing import Any, Literal

import mmh3
import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from partitioners import ChoicePartitioner, create

Hashes = npt.NDArray[np.uint64]
Choices = npt.NDArray[np.int32]
Ids = npt.NDArray[np.int64]
Algorithm = Literal["cm", "am", "cam", "lm"]


def scaled(value: float, values: Sequence[float], offset: float) -> float:
    width = max(values) - min(values) + offset
    return (value - min(values)) / width if width else 0.0


def route(
    algorithm: Algorithm,
    num_partitions: int,
    choices: Sequence[Sequence[int]],
    keys: Sequence[int],
    timestamps_ms: Sequence[int],
    *,
    window_ms: int,
    slide_ms: int,
    tie_last: bool = False,
    weight: float = 0.5,
    range_offset: float = 1.0,
    weights: Sequence[float] | None = None,
) -> list[int]:
    live: list[tuple[int, int, int, float]] = []  # pane, key, partition, weight
    pane = None
    loads = [0.0] * num_partitions
    pairs: Counter[tuple[int, int]] = Counter()
    out = []
    for i, (options, key) in enumerate(zip(choices, keys, strict=True)):
        pane_of_record = timestamps_ms[i] // slide_ms
        if pane is None or pane_of_record > pane:
            pane = pane_of_record
            oldest = pane - window_ms // slide_ms + 1
            live = [record for record in live if record[0] >= oldest]
            loads = [0.0] * num_partitions
            pairs = Counter()
            for _, old_key, partition, load in live:
                loads[partition] += load
                pairs[old_key, partition] += 1
        keys_on = [0] * num_partitions
        for _, partition in pairs:
            keys_on[partition] += 1
        seen = [p for p in options if (key, p) in pairs]
        if algorithm in ("am", "cam") and seen:
            chosen = seen[0]
        else:
            if algorithm in ("cm", "am"):
                scores: list[float] = [keys_on[p] for p in options]
            elif algorithm == "cam":
                scores = [loads[p] for p in options]
            else:
                scores = [
                    weight * scaled(loads[p], loads, range_offset)
                    + (1.0 - weight) * scaled(keys_on[p], keys_on, range_offset)
                    for p in options
                ]
            best = 0
            for j in range(1, len(options)):
                if scores[j] < scores[best] or (tie_last and scores[j] == scores[best]):
                    best = j
            chosen = options[best]
        load = 1.0 if weights is None else weights[i]
        live.append((pane, key, chosen, load))
        loads[chosen] += load
        pairs[key, chosen] += 1
        out.append(chosen)
    return out


class Authors:
    """The authors' C++ classes CA (cm, lm), AN (am), CountAN (cam): two choices, tumbling windows.

    Sets are keyed by the first hash; draws go to the second choice; `init` resets counts and sets;
    the least and largest values of lm are those after the previous record.
    """

    def __init__(self, algorithm: Algorithm, num_partitions: int) -> None:
        self.algorithm = algorithm
        self.n = num_partitions
        self.init()

    def init(self) -> None:
        self.counts = [0] * self.n
        self.sets: list[set[int]] = [set() for _ in range(self.n)]
        self.min_count = self.max_count = self.min_keys = self.max_keys = 0

    def next(self, hash_one: int, first: int, second: int) -> int:
        if self.algorithm in ("am", "cam"):
            if hash_one in self.sets[first]:
                return self.take(hash_one, first)
            if hash_one in self.sets[second]:
                return self.take(hash_one, second)
        a, b = self.score(first), self.score(second)
        return self.take(hash_one, first if a < b else second)

    def score(self, p: int) -> float:
        if self.algorithm == "cam":
            return self.counts[p]
        if self.algorithm in ("cm", "am"):
            return len(self.sets[p])
        return (len(self.sets[p]) - self.min_keys) / (self.max_keys - self.min_keys + 1) + (
            self.counts[p] - self.min_count
        ) / (self.max_count - self.min_count + 1)

    def take(self, hash_one: int, p: int) -> int:
        self.counts[p] += 1
        self.sets[p].add(hash_one)
        if self.algorithm == "lm":
            self.max_count = max(self.max_count, self.counts[p])
            self.max_keys = max(self.max_keys, len(self.sets[p]))
            self.min_count = min(self.counts)
            self.min_keys = min(len(s) for s in self.sets)
        return p


# What the tests of the four algorithms share --------------------------------------------------


def authors_choices(ids: npt.NDArray[np.int64], num_partitions: int) -> tuple[Hashes, Choices]:
    """MurmurHash3_x64_128 of each id's text, seeds 313 and 317, low half xor high half."""
    ones, rows = np.zeros(ids.max() + 1, np.uint64), np.zeros((ids.max() + 1, 2), np.int32)
    for i in np.unique(ids):
        for column, seed in enumerate((313, 317)):
            low, high = mmh3.hash64(str(i), seed, signed=False)
            rows[i, column] = (low ^ high) % num_partitions
            if column == 0:
                ones[i] = low ^ high
    return ones[ids], rows[ids]


def zipf(num_records: int, num_keys: int = 10_000, skew: float = 1.4, seed: int = 7) -> Ids:
    """Key ids, Zipf distributed, ranks permuted."""
    rng = np.random.default_rng(seed)
    shares = np.arange(1, num_keys + 1.0) ** -skew
    ranks = rng.choice(num_keys, num_records, p=shares / shares.sum())
    return rng.permutation(num_keys)[ranks]


def relative_imbalance(partitions: npt.NDArray[np.integer[Any]], num_partitions: int) -> float:
    counts = np.bincount(partitions, minlength=num_partitions)
    return float(counts.max() / counts.mean() - 1.0)


@dataclasses.dataclass
class Stream:
    """A short stream with choices that are a function of the key."""

    num_partitions: int
    window_ms: int
    slide_ms: int
    tie_last: bool
    keys: list[int]
    choices: list[list[int]]
    timestamps_ms: list[int]
    weights: list[float]

    def select(
        self, algorithm: Algorithm, *, weighted: bool = False, cut: int = 0, **options: object
    ) -> list[int]:
        """Route by the kernels, in two calls cut at `cut`."""
        partitioner = create(
            algorithm,
            self.num_partitions,
            window_ms=self.window_ms,
            slide_ms=self.slide_ms,
            tie="last" if self.tie_last else "first",
            **options,
        )
        assert isinstance(partitioner, ChoicePartitioner)
        out = np.full(len(self.keys), -1, np.int32)
        for part in (slice(0, cut), slice(cut, None)):
            partitioner.select(
                np.array(self.choices, np.int32)[part],
                np.array(self.keys, np.uint64)[part],
                np.array(self.timestamps_ms, np.int64)[part],
                out[part],
                np.array(self.weights)[part] if weighted else None,
            )
        return out.tolist()

    def naive(self, algorithm: Algorithm, *, weighted: bool = False, **options: Any) -> list[int]:
        return route(
            algorithm,
            self.num_partitions,
            self.choices,
            self.keys,
            self.timestamps_ms,
            window_ms=self.window_ms,
            slide_ms=self.slide_ms,
            tie_last=self.tie_last,
            weights=self.weights if weighted else None,
            **options,
        )

    def window_places(self, partitions: list[int]) -> dict[tuple[int, int], set[int]]:
        """Partitions of each (window, key), for every window that slides over the stream."""
        places: dict[tuple[int, int], set[int]] = {}
        now = -(1 << 62)
        for key, timestamp, partition in zip(
            self.keys, self.timestamps_ms, partitions, strict=True
        ):
            now = max(now, timestamp)  # a late record counts in the pane of now
            pane = now // self.slide_ms
            for start in range(pane - self.window_ms // self.slide_ms + 1, pane + 1):
                places.setdefault((start, key), set()).add(partition)
        return places


@st.composite
def streams(draw: st.DrawFn) -> Stream:
    num_partitions = draw(st.integers(1, 7))
    d = draw(st.sampled_from([1, 2, 2, 3, 5]))
    slide_ms = draw(st.integers(1, 20))
    num_keys = draw(st.sampled_from([3, 12, 60]))
    row = st.lists(st.integers(0, num_partitions - 1), min_size=d, max_size=d)
    table = draw(st.lists(row, min_size=num_keys, max_size=num_keys))
    ids = draw(st.lists(st.integers(0, num_keys - 1), min_size=1, max_size=150))
    steps = draw(
        st.lists(
            st.sampled_from([0, 0, 0, 0, 1, 1, 3, 7, 25, 150, -4]),
            min_size=len(ids),
            max_size=len(ids),
        )
    )
    start = draw(st.integers(-300, 300))
    loads = st.sampled_from([0.0, 0.25, 1.0, 2.0, 7.5])  # binary fractions: sums are exact
    return Stream(
        num_partitions=num_partitions,
        window_ms=slide_ms * draw(st.integers(1, 6)),
        slide_ms=slide_ms,
        tie_last=draw(st.booleans()),
        # Hashes that share their low bits: the table has to mix them.
        keys=[i << 20 for i in ids],
        choices=[table[i] for i in ids],
        timestamps_ms=[int(t) + start for t in np.cumsum(steps)],
        weights=draw(st.lists(loads, min_size=len(ids), max_size=len(ids))),
    )


def against_authors(algorithm: Algorithm, num_records: int = 120_000, n: int = 16) -> float:
    """Compare every decision with the authors' rules; give the imbalance over the stream."""
    key_hashes, choices = authors_choices(zipf(num_records), n)
    timestamps_ms = np.arange(num_records, dtype=np.int64)
    out = np.zeros(num_records, np.int32)
    partitioner = create(algorithm, n, window_ms=60_000, tie="last", distinct=False)
    assert isinstance(partitioner, ChoicePartitioner)
    partitioner.select(choices, key_hashes, timestamps_ms, out)
    authors = Authors(algorithm, n)
    for i, (key_hash, (first, second)) in enumerate(
        zip(key_hashes.tolist(), choices.tolist(), strict=True)
    ):
        if i % 60_000 == 0:
            authors.init()
        assert out[i] == authors.next(key_hash, first, second), f"record {i}"
    return relative_imbalance(out, n)
