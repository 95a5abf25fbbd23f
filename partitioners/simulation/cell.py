"""One cell: a partitioner on a stream, with so many partitions and sources, and its figures."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from partitioners.errors import InputError
from partitioners.metrics import fragmentation, imbalance, partition_counts, replication_factor
from partitioners.simulation.costs import CostModel
from partitioners.simulation.sources import check_sources, route_by_sources
from partitioners.simulation.windows import cumulative_imbalances, measure_windows
from partitioners.stream_names import Named
from partitioners.streams import Stream

SERIES_POINTS = 200
"""Points of a series over time, at most; more are averaged."""


class StreamSource(Hashable, Protocol):
    """Where a stream comes from; a frozen value, made into records where it is needed."""

    @property
    def label(self) -> str:
        """What it is called in tables."""

    def load(self) -> Stream:
        """Make or read the records; the same ones each time."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What a cell simulates.

    Attributes:
        partitioner: Name and options.
        stream: The records.
        num_partitions: Workers there are.
        num_sources: Producers, to which records are dealt in turn.
        window_ms: Size of the windows.
        slide_ms: Their slide; None: the size.
        costs: Prices of the work.
    """

    partitioner: Named
    stream: StreamSource
    num_partitions: int = 16
    num_sources: int = 1
    window_ms: int = 60_000
    slide_ms: int | None = None
    costs: CostModel = field(default_factory=CostModel)

    def check(self) -> None:
        """Refuse what cannot be, before any work.

        Raises:
            InputError: An unknown partitioner or option, or a value out of range.
        """
        if self.window_ms < 1:
            raise InputError(f"window_ms must be 1 or more, not {self.window_ms}")
        if self.slide_ms is not None and (self.slide_ms < 1 or self.window_ms % self.slide_ms):
            raise InputError(
                f"slide_ms must divide window_ms {self.window_ms}, not {self.slide_ms}: "
                "choose a slide such as a tenth of the window"
            )
        check_sources(
            self.partitioner.name,
            self.num_partitions,
            self.num_sources,
            dict(self.partitioner.options),
            self.window_ms,
            self.slide_ms,
        )


@dataclass(frozen=True, kw_only=True)
class Figures:
    """What a cell measured. Windows are the whole ones of ``measure_windows``, w of them.

    Attributes:
        stream: Label of the stream.
        partitioner: Name and options.
        num_partitions: Workers.
        num_sources: Producers.
        window_ms: Size of the windows.
        slide_ms: Their slide.
        num_records: Records of the stream.
        num_keys: Its distinct keys.
        top_fraction: Share of the hottest key.
        imbalance: Of the whole stream, (max - mean) / mean.
        imbalance_windows: Of the windows, mean.
        imbalance_worst: Of the windows, largest.
        imbalance_average: Mean of I(t), max less mean of all records so far, over all records.
        replication_factor: Partitions per key over the whole stream.
        fragmentation: Partitions per key within tumbling windows, mean.
        partials_per_window: Rows (key, partition), mean.
        split_fraction: Share of these that belong to split keys and must be merged, mean.
        combine_us: Work of the mean and of the slowest combiner per slide, mean over windows.
        reduce_us: The same of the reducers.
        throughput: Records per second at which the slowest worker is just busy.
        efficiency: That over what balanced combiners would take, were there no partials.
        bottleneck: Which side decides: combine or reduce.
        window_latency_us: Slowest combiner, then slowest reducer, mean over windows.
        state_bytes: Of all sources' partitioners.
        counters: Rows all combiners keep at a time, the most of all windows.
        loads: Records of each worker over the whole stream.
        over_time: Series over time by name: ``end_ms``, ``imbalance``, ``fragmentation``.
        sync_intervals_ms: See ``Routed``.
    """

    stream: str
    partitioner: str
    num_partitions: int
    num_sources: int
    window_ms: int
    slide_ms: int
    num_records: int
    num_keys: int
    top_fraction: float
    imbalance: float
    imbalance_windows: float
    imbalance_worst: float
    imbalance_average: float
    replication_factor: float
    fragmentation: float
    partials_per_window: float
    split_fraction: float
    combine_us: tuple[float, float]
    reduce_us: tuple[float, float]
    throughput: float
    efficiency: float
    bottleneck: str
    window_latency_us: float
    state_bytes: int
    counters: int
    loads: tuple[int, ...]
    over_time: dict[str, list[float]]
    sync_intervals_ms: tuple[int, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Give the cell as plain values; a throughput without bound is null."""
        values = asdict(self)
        for name in ("throughput", "efficiency"):
            if not np.isfinite(values[name]):
                values[name] = None
        return values


def load_stream(source: StreamSource) -> Stream:
    """Make a stream, or take one of the last two made: cells of one stream follow each other."""
    return _load(source)


@lru_cache(maxsize=2)
def _load(source: Any) -> Stream:
    stream: Stream = source.load()
    return stream


def simulate(setting: Setting) -> Figures:
    """Run one cell.

    Args:
        setting: What to simulate.

    Returns:
        Its figures; the same for the same setting in any process.

    Raises:
        InputError: See ``Setting.check``; or the stream has no records.

    Example:
        >>> from partitioners.stream_names import parse_named, parse_stream
        >>> stream = parse_stream("zipf", 20_000, seed=1)
        >>> made = Setting(partitioner=parse_named("shuffle"), stream=stream, num_partitions=4)
        >>> simulate(made).imbalance
        0.0
    """
    setting.check()
    stream = load_stream(setting.stream)
    if not len(stream.ids):
        raise InputError(f"{setting.stream.label} has no records; give a stream with some")
    routed = route_by_sources(
        setting.partitioner.name,
        setting.num_partitions,
        stream,
        num_sources=setting.num_sources,
        window_ms=setting.window_ms,
        slide_ms=setting.slide_ms,
        options=dict(setting.partitioner.options),
    )
    partitions, costs = routed.partitions, setting.costs
    series = measure_windows(
        stream.ids,
        partitions,
        stream.timestamps_ms,
        setting.num_partitions,
        window_ms=setting.window_ms,
        slide_ms=setting.slide_ms,
        num_reducers=costs.num_reducers,
    )
    combine, reduce = costs.combine_us(series), costs.reduce_us(series)
    counts = partition_counts(partitions, setting.num_partitions)
    ids = stream.ids.astype(np.uint64)
    throughput = costs.throughput(series)
    key_counts = np.bincount(stream.ids)
    average = cumulative_imbalances(partitions, setting.num_partitions)
    return Figures(
        stream=setting.stream.label,
        partitioner=str(setting.partitioner),
        num_partitions=setting.num_partitions,
        num_sources=setting.num_sources,
        window_ms=setting.window_ms,
        slide_ms=setting.slide_ms or setting.window_ms,
        num_records=len(ids),
        num_keys=int(np.count_nonzero(key_counts)),
        top_fraction=float(key_counts.max() / len(ids)),
        imbalance=imbalance(counts),
        imbalance_windows=float(series.imbalances.mean()),
        imbalance_worst=float(series.imbalances.max()),
        imbalance_average=float(average.mean() / len(ids)),
        replication_factor=replication_factor(ids, partitions),
        fragmentation=fragmentation(ids, partitions, stream.timestamps_ms, setting.window_ms),
        partials_per_window=float(series.partials.sum(axis=1).mean()),
        split_fraction=float(series.split_partials.sum() / max(series.partials.sum(), 1)),
        combine_us=_mean_and_slowest(combine),
        reduce_us=_mean_and_slowest(reduce),
        throughput=throughput,
        efficiency=throughput * costs.record_us / 1e6 / setting.num_partitions,
        bottleneck=costs.bottleneck(series),
        window_latency_us=float(costs.window_latency_us(series).mean()),
        state_bytes=routed.state_bytes,
        counters=int(series.partials.sum(axis=1).max()),
        loads=tuple(int(count) for count in counts),
        over_time={
            "end_ms": thinned(series.ends_ms, np.max),
            "imbalance": thinned(series.imbalances, np.mean),
            "fragmentation": thinned(series.fragmentations, np.mean),
        },
        sync_intervals_ms=routed.sync_intervals_ms,
    )


def thinned(
    values: npt.ArrayLike, by: Callable[[npt.NDArray[Any]], Any], points: int = SERIES_POINTS
) -> list[float]:
    """Make a long series short: neighbours become one point.

    Args:
        values: The series.
        by: Makes one value of several.
        points: Points left, at most.

    Example:
        >>> thinned([1, 3, 5, 7], np.mean, points=2)
        [2.0, 6.0]
    """
    array = np.asarray(values)
    if len(array) <= points:
        return [float(value) for value in array]
    return [float(by(part)) for part in np.array_split(array, points)]


def _mean_and_slowest(work_us: npt.NDArray[np.float64]) -> tuple[float, float]:
    return float(work_us.mean()), float(work_us.max(axis=1).mean())
