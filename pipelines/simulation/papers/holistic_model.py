"""Katsipoulakis et al., PVLDB 2017: algorithms, generated data, and what is measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from partitioners.simulation import (
    CostModel,
    StreamSource,
    WindowSeries,
    measure_windows,
    route_by_sources,
)
from partitioners.simulation.cell import load_stream
from partitioners.stream_names import parse_named
from partitioners.streams import Stream, of_ids, zipf

ALGORITHMS: Mapping[str, str] = {
    "SH": "shuffle",
    "FLD-1": "key_hash:hash_function=murmur3",
    "PK-2": "pkg:distinct=False",
    "PK-5": "pkg:d=5:distinct=False",
    "CM-2": "cm:distinct=False",
    "AM-2": "am:distinct=False",
    "AM-5": "am:d=5:distinct=False",
    "cAM-2": "cam:distinct=False",
    "cAM-5": "cam:d=5:distinct=False",
    "LM-2": "lm:distinct=False",
    "CM-2-H": "cm:distinct=False:cardinality=hll",
    "AM-2-H": "am:distinct=False:cardinality=hll",
    "LM-2-H": "lm:distinct=False:cardinality=hll",
}
KEEP_WHOLE = ("FLD-1", "AM-2", "AM-5", "cAM-2", "cAM-5", "AM-2-H")
"""The paper's 1-choice partitioners, whose results need no aggregation."""

WORKERS = (8, 16, 32)
PRICES = CostModel(record_us=1.0, merge_us=1.0, num_reducers=1)
MODEL = (
    "Latency: slowest worker, then one aggregator that takes in all partials (equations 1 to 4); a "
    "record and a partial cost the same; no aggregation where keys stay whole. Windows tumble, as "
    "in the authors' code."
)


@dataclass(frozen=True)
class Shares:
    """Records of a few groups with given shares, evenly spaced in time."""

    label: str
    shares: tuple[float, ...]
    num_records: int
    records_per_s: int

    def load(self) -> Stream:
        """Draw them."""
        random = np.random.default_rng(1)
        shares = np.array(self.shares)
        ids = random.choice(len(shares), self.num_records, p=shares / shares.sum())
        return of_ids(ids.astype(np.int64), _times(self.num_records, self.records_per_s))


@dataclass(frozen=True)
class Jobs:
    """Records by a Zipf law over jobs, evenly spaced in time."""

    label: str
    num_jobs: int
    exponent: float
    num_records: int
    records_per_s: int

    def load(self) -> Stream:
        """Draw them."""
        drawn = zipf(self.num_records, self.num_jobs, self.exponent, seed=1)
        return Stream(drawn.ids, drawn.names, _times(self.num_records, self.records_per_s))


@dataclass(frozen=True)
class Orders:
    """Line items in the order of the table: each order's, one to four, after each other."""

    label: str
    num_orders: int

    def load(self) -> Stream:
        """Draw how many there are of each order."""
        counts = np.random.default_rng(1).integers(1, 5, self.num_orders)
        return of_ids(np.repeat(np.arange(self.num_orders), counts))


def _times(num_records: int, records_per_s: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.arange(num_records, dtype=np.int64) * 1_000 // records_per_s


@dataclass(frozen=True)
class Task:
    """One algorithm on one query's stream."""

    stream: StreamSource
    algorithm: str
    num_workers: int
    window_ms: int | None  # None: the whole stream is one window


@dataclass(frozen=True)
class Outcome:
    """What is shown of a task: means over windows.

    Attributes:
        imbalance: (max - mean) / mean of the workers' records.
        cardinality_imbalance: The same of their keys.
        aggregation: Partials over keys, Gamma / ||S||.
        latency_us: By the model.
        aggregating_fraction: Share of the latency that is aggregation.
        records_per_window: Mean.
        keys_per_window: Mean.
    """

    imbalance: float
    cardinality_imbalance: float
    aggregation: float
    latency_us: float
    aggregating_fraction: float
    records_per_window: float
    keys_per_window: float


def run_query(task: Task) -> Outcome:
    """Route a query's stream and measure its windows."""
    stream = load_stream(task.stream)
    kind = parse_named(ALGORITHMS[task.algorithm])
    window_ms = task.window_ms or int(stream.timestamps_ms.max()) + 1
    routed = route_by_sources(
        kind.name, task.num_workers, stream, window_ms=window_ms, options=dict(kind.options)
    )
    series = measure_windows(
        stream.ids, routed.partitions, stream.timestamps_ms, task.num_workers, window_ms=window_ms
    )
    return outcome_of(series, aggregates=task.algorithm not in KEEP_WHOLE)


def outcome_of(series: WindowSeries, *, aggregates: bool) -> Outcome:
    """Take the paper's measures of windows.

    Args:
        series: From ``measure_windows`` with one reducer.
        aggregates: Whether the partials go through the aggregator.
    """
    keys = series.cardinalities.astype(np.float64)
    means = np.maximum(keys.mean(axis=1), 1e-300)
    prices = PRICES if aggregates else CostModel(record_us=PRICES.record_us, merge_us=0.0)
    latency = prices.window_latency_us(series)
    aggregating = series.partials[:, 0] * prices.merge_us
    return Outcome(
        imbalance=float(series.imbalances.mean()),
        cardinality_imbalance=float((keys.max(axis=1) / means - 1).mean()),
        aggregation=float(series.fragmentations.mean()),
        latency_us=float(latency.mean()),
        aggregating_fraction=float((aggregating / np.maximum(latency, 1e-300)).mean()),
        records_per_window=float(series.loads.sum(axis=1).mean()),
        keys_per_window=float(series.num_keys.mean()),
    )
