"""Rates of aggregates through combiner and reducer, in process: `keyspread bench aggregates`.

The stream is that of the window benchmarks, one hour of Zipf keys, in one topic partition and one
shard, in windows of 30 minutes that slide by one. What is timed is all that a combine task and a
reducer do, from raw record bytes to blobs of runs; Spark, Kafka and sinks are left out.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from rich.table import Table

from partitioners.errors import InputError, nearest
from partitioners.streams import zipf
from pipelines.aggregates import (
    SMALLEST,
    Aggregate,
    Aggregates,
    Count,
    Distinct,
    First,
    Int64s,
    Last,
    Max,
    Mean,
    Median,
    Min,
    Sum,
    Variance,
)
from pipelines.approximate import ApproxDistinct, ApproxQuantile, TopK
from pipelines.combine import Combiner
from pipelines.lists import Collect
from pipelines.panes import Windows
from pipelines.plan import WindowPlan
from pipelines.punctuation import END_MS, encode_watermark
from pipelines.reduce import ShardReducer
from pipelines.workloads import KeyedSum

HOUR_MS = 3_600_000
NUM_KEYS = 10_000
NUM_VALUES = 1_000
RECORDS_PER_BATCH = 250_000
BASE = "sum"


@dataclass(frozen=True)
class _Checksum(Aggregate):
    """As a user's own with `deduct`."""

    neutral = (0,)

    def create(self, columns: Mapping[str, Int64s]) -> Sequence[Int64s]:
        return [columns["x"]]

    def combine(self, a: Int64s, b: Int64s) -> Int64s:
        return a ^ b

    def deduct(self, a: Int64s, b: Int64s) -> Int64s:
        return a ^ b


CASES: dict[str, Callable[[], Aggregate]] = {
    "count": lambda: Count("n"),
    "sum": lambda: Sum("a", "x"),
    "mean": lambda: Mean("a", "x"),
    "variance": lambda: Variance("a", "x"),
    "min": lambda: Min("a", "x"),
    "max": lambda: Max("a", "x"),
    "first": lambda: First("a", "x"),
    "last": lambda: Last("a", "x"),
    "own-deduct": lambda: _Checksum("a"),
    "approx-distinct": lambda: ApproxDistinct("a", "x"),
    "approx-quantile": lambda: ApproxQuantile("a", "x"),
    "distinct": lambda: Distinct("a", "x"),
    "top-k": lambda: TopK("a", "x"),
    "median": lambda: Median("a", "x"),
    "collect": lambda: Collect("a", "x"),
}


@dataclass(frozen=True)
class AggregateFigures:
    """What one aggregate costs.

    Attributes:
        name: The aggregate.
        slides: How it slides.
        seconds: Of combiner and reducer together, the best of the repetitions.
        combine_seconds: Of the combiner.
        records_per_s: Records by `seconds`.
        times_sum: Seconds, in those of `sum`.
    """

    name: str
    slides: str
    seconds: float
    combine_seconds: float
    records_per_s: float
    times_sum: float


@dataclass(frozen=True)
class CountedMax(Aggregate):
    """A maximum as a user writes it, which counts the elements it combines."""

    combined: list[int] = field(default_factory=list)
    neutral = (SMALLEST,)

    def create(self, columns: Mapping[str, Int64s]) -> Sequence[Int64s]:
        """See `Aggregate`."""
        return [columns["x"]]

    def combine(self, a: Int64s, b: Int64s) -> Int64s:
        """See `Aggregate`."""
        self.combined.append(a.shape[1])
        return np.maximum(a, b)


@dataclass
class DictStore:
    """A state store in a dict."""

    values: dict[str, bytes] = field(default_factory=dict)

    @property
    def num_bytes(self) -> int:
        """Bytes of all values."""
        return sum(map(len, self.values.values()))

    def get(self, name: str) -> bytes | None:
        """See `pending.Store`."""
        return self.values.get(name)

    def put(self, name: str, value: bytes) -> None:
        """See `pending.Store`."""
        self.values[name] = value

    def remove(self, name: str) -> None:
        """See `pending.Store`."""
        del self.values[name]


def run_aggregates_bench(
    names: Sequence[str] = (),
    *,
    num_records: int = 1_000_000,
    repetitions: int = 3,
    on_row: Callable[[str], None] = lambda _name: None,
) -> list[AggregateFigures]:
    """Measure aggregates one by one.

    Args:
        names: Which of `CASES`; none: all. `sum` is always measured, for the ratio.
        num_records: Records of the stream.
        repetitions: How often; the best counts, and one more warms up.
        on_row: Told each name when it has been measured.

    Raises:
        InputError: There is no aggregate of that name.
    """
    for name in names:
        if name not in CASES:
            raise InputError(f'there is no aggregate "{name}": {nearest(name, list(CASES))}')
    batches = zipf_batches(num_records)
    measured: dict[str, tuple[float, float]] = {}
    for name in dict.fromkeys((BASE, *(names or CASES))):
        best = (np.inf, np.inf)
        for repetition in range(repetitions + 1):
            combine, reduce_ = _measure(CASES[name](), batches)
            if repetition and combine + reduce_ < best[0]:
                best = (combine + reduce_, combine)
        measured[name] = best
        on_row(name)
    base = measured[BASE][0]
    return [
        AggregateFigures(
            name,
            CASES[name]().slides,
            measured[name][0],
            measured[name][1],
            num_records / measured[name][0],
            measured[name][0] / base,
        )
        for name in names or CASES
    ]


def zipf_batches(
    num_records: int, records_per_batch: int = RECORDS_PER_BATCH
) -> list[pa.RecordBatch]:
    """Records `ts,key,x` with watermark records at the end of each batch."""
    keys = zipf(num_records, NUM_KEYS, 1.4).keys.cast(pa.binary()).to_pylist()
    times = (np.arange(num_records, dtype=np.int64) * HOUR_MS // num_records).tolist()
    xs = np.random.default_rng(1).zipf(1.2, num_records) % NUM_VALUES
    values = [
        b"%d,%b,%d" % (time, key, x) for time, key, x in zip(times, keys, xs.tolist(), strict=True)
    ]
    batches = []
    for low in range(0, num_records, records_per_batch):
        high = min(low + records_per_batch, num_records)
        mark = END_MS if high == num_records else times[high]
        rows = {
            "key": pa.array([*keys[low:high], None], type=pa.binary()),
            "value": pa.array([*values[low:high], encode_watermark(mark)], type=pa.binary()),
            "partition": pa.array(np.zeros(high - low + 1, dtype=np.int32)),
        }
        batches.append(pa.RecordBatch.from_pydict(rows))
    return batches


def stages_of(
    aggregate: Aggregate, windows: Windows, emit: str = "all"
) -> tuple[Combiner, ShardReducer]:
    """The combiner and the reducer of one aggregate, for one shard and one topic partition."""
    query = KeyedSum()
    own = () if isinstance(aggregate, Count) else (aggregate,)
    vars(query)["aggregates"] = Aggregates(*own)
    plan = WindowPlan.of(windows, query.aggregates)
    reducer = ShardReducer(query.aggregates, plan, 1, emit, 10)
    return Combiner(query, plan, num_shards=1), reducer


def _measure(aggregate: Aggregate, batches: Sequence[pa.RecordBatch]) -> tuple[float, float]:
    """Seconds of combiner and reducer."""
    combiner, reducer = stages_of(aggregate, Windows.of("30 min", "1 min"))
    store = DictStore()
    combine = reduce_ = 0.0
    for batch in batches:
        started = time.perf_counter()
        rows = list(combiner.run([batch]))
        combined = time.perf_counter()
        reducer.process(store, rows)
        combine += combined - started
        reduce_ += time.perf_counter() - combined
    return combine, reduce_


def aggregates_table(rows: Sequence[AggregateFigures]) -> Table:
    """The figures as a table."""
    table = Table(title="aggregates: combine and reduce, in process")
    table.add_column("aggregate")
    table.add_column("slides")
    for name in ("records/s", "seconds", "combine s", "times sum"):
        table.add_column(name, justify="right")
    for row in rows:
        table.add_row(
            row.name,
            row.slides,
            f"{row.records_per_s:,.0f}",
            f"{row.seconds:.3f}",
            f"{row.combine_seconds:.3f}",
            f"{row.times_sum:.2f}",
        )
    return table
