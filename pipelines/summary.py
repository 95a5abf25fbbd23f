"""What a query did so far, added up over its batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from pipelines.batch_log import merge_stretches
from pipelines.panes import Windows
from pipelines.punctuation import END_MS, NO_WATERMARK_MS
from pipelines.query import Query

Int64s = npt.NDArray[np.int64]


@dataclass(repr=False)
class QuerySummary:
    """Counts and times of a query.

    Attributes:
        on_time: Records that count in every window they belong to.
        late: Records that missed at least one window.
        dead: Rows of the topic whose value is not the workload's.
        rows: Result rows written.
        windows: Windows with at least one key, closed so far.
        records_per_partition: Rows of each topic partition but for watermark records and dead ones.
        watermarks_ms: The watermark each topic partition has reached.
        partial_rows: Rows from the combiners to the reducers.
        combine_seconds: Busy time of the combiner of each topic partition.
        reduce_seconds: Busy time of the reducer of each shard.
        sink_seconds: Time each shard's writer took.
        state_rows: Live keys over all shards, as of the last batch.
        state_bytes: Memory of the state stores as Spark reports it, last batch; 0 if unknown.
        state_calls: Largest number of state-store calls of a shard in a batch.
        batch_seconds: Duration of each batch, as far as this process ran it.
        window_start_ms: Starts of the windows in `windows`, in order, of each kind together.
        window_size_ms: Their sizes, which tell the kinds apart.
        emitted_ms: Wall time (Unix milliseconds) at which the results of each were in the sink.
        last_top: The top of the last window, of the first kind: (key columns by name, values by
            name) each.
        last_window_start_ms: That window's start.
    """

    on_time: int = 0
    late: int = 0
    dead: int = 0
    rows: int = 0
    windows: int = 0
    records_per_partition: dict[int, int] = field(default_factory=dict)
    watermarks_ms: dict[int, int] = field(default_factory=dict)
    partial_rows: int = 0
    combine_seconds: dict[int, float] = field(default_factory=dict)
    reduce_seconds: dict[int, float] = field(default_factory=dict)
    sink_seconds: dict[int, float] = field(default_factory=dict)
    state_rows: int = 0
    state_bytes: int = 0
    state_calls: int = 0
    batch_seconds: list[float] = field(default_factory=list)
    window_start_ms: Int64s = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    window_size_ms: Int64s = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    emitted_ms: Int64s = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    last_top: list[dict[str, Any]] = field(default_factory=list)
    last_window_start_ms: int | None = None

    def __repr__(self) -> str:
        """The counts alone: there may be a million windows.

        Example:
            >>> QuerySummary(on_time=1_200, late=3, windows=40, rows=900)
            QuerySummary(on_time=1200, late=3, dead=0, windows=40, rows=900)
        """
        return (
            f"QuerySummary(on_time={self.on_time}, late={self.late}, dead={self.dead}, "
            f"windows={self.windows}, rows={self.rows})"
        )

    @property
    def records(self) -> int:
        """Records counted: on time and late."""
        return self.on_time + self.late

    def ended(self, num_partitions: int) -> bool:
        """Whether every topic partition has had its end."""
        return all(
            self.watermarks_ms.get(p, NO_WATERMARK_MS) >= END_MS for p in range(num_partitions)
        )

    def add(self, batch: dict[str, Any], windows: Sequence[Windows], workload: Query) -> None:
        """Take one batch of the batch log, of a query with these windows."""
        shards = batch["shards"]
        for shard in shards:
            self.on_time += shard["on_time"]
            self.late += shard["late"]
            self.partial_rows += shard["partial_rows"]
            self.state_calls = max(self.state_calls, shard["state_calls"])
            _add(self.reduce_seconds, shard["shard"], shard["total_seconds"])
            _add(self.sink_seconds, shard["shard"], shard["sink_seconds"])
        self.rows += batch["rows"]
        self.state_rows = sum(shard["live_keys"] for shard in shards)
        # Every shard heard the same from every partition.
        for part in shards[0]["partitions"] if shards else []:
            partition = part["partition"]
            self.dead += part["dead"]
            _add(self.records_per_partition, partition, part["records"])
            _add(self.combine_seconds, partition, part["seconds"])
            before = self.watermarks_ms.get(partition, NO_WATERMARK_MS)
            self.watermarks_ms[partition] = max(before, part["watermark_ms"])
        closed = [
            (np.arange(start, end) * each.slide_ms, each.size_ms)
            for each, stretches in zip(
                windows, batch["windows"] or [[]] * len(windows), strict=True
            )
            for start, end in stretches
        ]
        if closed:
            new = np.concatenate([starts for starts, _ in closed]).astype(np.int64)
            sizes = [np.full(len(starts), size, dtype=np.int64) for starts, size in closed]
            self.window_size_ms = np.concatenate([self.window_size_ms, *sizes])
            self.windows += len(new)
            self.window_start_ms = np.concatenate([self.window_start_ms, new])
            self.emitted_ms = np.concatenate(
                [self.emitted_ms, np.full(len(new), batch["emitted_ms"], dtype=np.int64)]
            )
            if batch["top"]:
                self._take_top(batch["top"], windows[0], workload)

    def _take_top(self, top: list[Any], windows: Windows, workload: Query) -> None:
        import pyarrow as pa

        keys = [None if name is None else bytes.fromhex(name) for _, name, *_ in top]
        states = np.array([row[2:] for row in top], dtype=np.int64).T
        columns = [
            *workload.finish_keys(pa.array(keys, type=pa.binary())),
            *workload.finish_values(states),
        ]
        names = [each.name for each in (*workload.key_fields, *workload.value_fields)]
        self.last_top = pa.table(columns, names=names).to_pylist()
        self.last_window_start_ms = windows.start_ms(top[0][0])


def _add(into: dict[int, Any], key: int, value: Any) -> None:
    into[key] = into.get(key, 0) + value


def batch_record(
    batch_id: int,
    shards: list[dict[str, Any]],
    rows: int,
    emitted_ms: int,
    k: int,
    order: tuple[int, ...],
) -> dict[str, Any]:
    """What the batch log keeps of a batch.

    Args:
        batch_id: Spark's number.
        shards: The summaries of the shards.
        rows: Result rows written.
        emitted_ms: Wall time at which they were in the sink.
        k: Size of a window's top.
        order: Rows of the state columns that order it.
    """
    tops = [row for shard in shards for row in shard.pop("top")]
    last = max((row[0] for row in tops), default=None)
    tops = [row for row in tops if row[0] == last]
    tops.sort(key=lambda row: ([-row[2 + i] for i in order], row[1] is not None, row[1] or ""))
    return {
        "batch_id": batch_id,
        "emitted_ms": emitted_ms,
        "rows": rows,
        "windows": [
            merge_stretches([w for each in of_windows for w in each])
            for of_windows in zip(*(shard.pop("windows") for shard in shards), strict=True)
        ],
        "top": tops[:k],
        "shards": shards,
    }
