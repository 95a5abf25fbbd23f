"""What each partitioner would make of a sample: balance, splitting, work of combining, rate."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from partitioners import PARTITIONERS, Partitioner, create
from partitioners.errors import InputError
from partitioners.metrics import imbalance, partition_counts, replication_factor
from partitioners.streams import Stream
from pipelines.advise.sample import Sample

PRESENT = "present"
REPETITIONS = 3
_WARM_UP_RECORDS = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """One partitioner on the sample.

    Attributes:
        partitioner: Its name; `PRESENT` for where the records of a topic are now.
        splits_keys: Whether it puts a key on several partitions.
        imbalance: The fullest partition over the mean, minus 1.
        replication_factor: Partitions that a key is on.
        partials_per_record: Partial results to merge, a record: distinct (window, key, partition).
        records_per_s: Routing in one thread, key hashes given; 0 where nothing is routed.
        work: Of the fullest partition and its share of the merging, in records; 1 is ideal.
    """

    partitioner: str
    splits_keys: bool
    imbalance: float
    replication_factor: float
    partials_per_record: float
    records_per_s: float
    work: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What the partitioners are tried for.

    Attributes:
        num_partitions: To spread over.
        num_producers: Each knows only what it sends; records are dealt to them in turn.
        window_ms: Over which keys are aggregated.
        merge_cost: What merging a partial result costs, in records aggregated.
    """

    num_partitions: int
    num_producers: int = 1
    window_ms: int = 60_000
    merge_cost: float = 1.0

    def __post_init__(self) -> None:
        """Refuse what is out of range.

        Raises:
            InputError: It is.
        """
        for option, value in (
            ("--partitions", self.num_partitions),
            ("--producers", self.num_producers),
        ):
            if not 1 <= value <= 10_000:
                raise InputError(f"{option} must be 1 to 10,000, not {value}")
        if not 1 <= self.window_ms <= 10**15:
            raise InputError(f"--window-ms must be 1 or more, not {self.window_ms}")
        if not 0 <= self.merge_cost < float("inf"):
            raise InputError(f"--merge-cost must be 0 or more, not {self.merge_cost:g}")


def compare(
    stream: Stream,
    num_null: int,
    plan: Plan,
    names: Sequence[str] = tuple(PARTITIONERS),
    on_row: Callable[[Figures], None] = lambda _row: None,
) -> list[Figures]:
    """Try partitioners on a stream, those with least work first.

    Work is the makespan of a job that combines each partition's records into partial results by
    window and key, and merges these in as many reducers as there are partitions: (largest partition
    + merge_cost * partials / partitions) / (records / partitions). These are the two terms of the
    model of Katsipoulakis et al., VLDB 2017, equation 3, added up.

    Args:
        stream: Records with keys.
        num_null: Records without; every partitioner spreads them evenly.
        plan: What for.
        names: Which.
        on_row: Called with each when it is there.

    Example:
        >>> from partitioners.streams import zipf
        >>> stream = zipf(20_000)
        >>> best, *others = compare(stream, 0, Plan(num_partitions=8), ["key_hash", "w_choices"])
        >>> best.partitioner, best.imbalance < others[0].imbalance
        ('w_choices', True)
    """
    rows = []
    for name in names:
        rows.append(_figures(name, stream, num_null, plan))
        on_row(rows[-1])
    return sorted(rows, key=lambda row: (row.work, row.partitioner))


def present(sample: Sample, plan: Plan) -> Figures | None:
    """Judge where the records of a topic are now, as `compare` does a partitioner.

    Args:
        sample: The records.
        plan: What for.

    Returns:
        None where nothing is known, or the plan is for another number of partitions.
    """
    load = sample.records_per_partition
    if sample.partitions is None or load is None or len(load) != plan.num_partitions:
        return None
    return _judged(PRESENT, sample.stream, sample.partitions, load, sample.num_null, plan)


def options_of(name: str, window_ms: int) -> dict[str, Any]:
    """Give the options a partitioner needs for windows of a size.

    Args:
        name: The partitioner.
        window_ms: The windows.
    """
    return {"window_ms": window_ms} if PARTITIONERS[name].traits.uses_time else {}


def partials_per_record(
    stream: Stream, partitions: npt.NDArray[np.int32], num_partitions: int, window_ms: int
) -> float:
    """Count distinct (tumbling window, key, partition), over records.

    Args:
        stream: The records.
        partitions: Of each.
        num_partitions: There are.
        window_ms: Size of the windows.
    """
    if not len(stream.ids):
        return 0.0
    windows = np.unique(stream.timestamps_ms // window_ms, return_inverse=True)[1]
    places = (windows * (int(stream.ids.max()) + 1) + stream.ids) * num_partitions + partitions
    return len(np.unique(places)) / len(places)


def _figures(name: str, stream: Stream, num_null: int, plan: Plan) -> Figures:
    out = np.empty(len(stream.ids), np.int32)
    kind = PARTITIONERS[name]
    hashes = stream.hashes(_make(name, plan, stream)[0].hash_function)
    few = slice(0, min(len(out), _WARM_UP_RECORDS))
    _make(name, plan, stream)[0].route(hashes[few], stream.timestamps_ms[few], out[few])
    seconds = []
    for _ in range(REPETITIONS if len(out) else 0):
        sources = _make(name, plan, stream)
        started = time.perf_counter()
        for number, source in enumerate(sources):
            mine = slice(number, None, len(sources))
            part = np.empty(len(out[mine]), np.int32)
            source.route(hashes[mine], stream.timestamps_ms[mine], part)
            out[mine] = part
        seconds.append(time.perf_counter() - started)
    counts = partition_counts(out, plan.num_partitions) + num_null / plan.num_partitions
    figures = _judged(name, stream, out, counts, num_null, plan)
    return replace(
        figures,
        splits_keys=kind.traits.splits_keys,
        records_per_s=len(out) / min(seconds) if seconds else 0.0,
    )


def _judged(
    name: str,
    stream: Stream,
    partitions: npt.NDArray[np.int32],
    load: npt.ArrayLike,
    num_null: int,
    plan: Plan,
) -> Figures:
    """What follows from where the records of a stream are, and from the load of all partitions."""
    partials = partials_per_record(stream, partitions, plan.num_partitions, plan.window_ms)
    partials *= len(partitions) / max(len(partitions) + num_null, 1)
    uneven = imbalance(load)
    replicas = replication_factor(stream.ids.astype(np.uint64), partitions)
    return Figures(
        partitioner=name,
        splits_keys=replicas > 1,
        imbalance=uneven,
        replication_factor=replicas,
        partials_per_record=partials,
        records_per_s=0.0,
        work=1 + uneven + plan.merge_cost * partials,
    )


def _make(name: str, plan: Plan, stream: Stream) -> list[Partitioner]:
    options = options_of(name, plan.window_ms)
    made = [create(name, plan.num_partitions, **options) for _ in range(plan.num_producers)]
    for number, partitioner in enumerate(made):
        if partitioner.traits.needs_batch and hasattr(partitioner, "fit"):
            hashes = stream.hashes(partitioner.hash_function)
            partitioner.fit(hashes[number :: len(made)])  # hindsight
    return made
