"""The second stage: partials of one shard to the runs of the windows that close.

One call per shard and batch. The state is a few Arrow blobs: `meta` (watermarks, and for each kind
of windows the next one to close and the index of segments), `keys` (running totals by key id) and
the segments of pending changes. `ShardReducer` knows nothing of Spark: it works on any `Store`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from partitioners.errors import RunError
from pipelines.aggregates import Aggregates
from pipelines.blobs import Int64s, from_blob, to_blob
from pipelines.combine import ShardRow
from pipelines.key_table import KeyTable
from pipelines.lane import Lane, LaneMeta, late_for, neutral_totals
from pipelines.lists import Lists
from pipelines.panes import Panes
from pipelines.partials import ON_TIME, Partials, concat_partials, consolidate, decode_partials
from pipelines.pending import Store
from pipelines.plan import Step, WindowPlan
from pipelines.punctuation import NO_WATERMARK_MS
from pipelines.ring import Bools, Runs, covered
from pipelines.top import top_of_windows
from pipelines.updates import Overlay, Updates

# Runs in one blob; bounds the size of a row between the stages.
RUNS_PER_BLOB = 1 << 20
# Where a blob of runs says which windows of the plan they are of.
WINDOWS = b"windows"
# No aggregate is of this name.
REVISION = "\0revision"


class ShardOutput(NamedTuple):
    """What a shard hands to the sink in one batch."""

    summary: dict[str, Any]
    blobs: list[bytes]


@dataclass
class Meta:
    """The small part of a shard's state."""

    watermarks_ms: dict[int, int] = field(default_factory=dict)
    serial: int = 0
    lanes: list[LaneMeta] = field(default_factory=list)

    @classmethod
    def load(cls, blob: bytes | None, num_lanes: int) -> Meta:
        """Read what `dump` wrote."""
        if blob is None:
            return cls(lanes=[LaneMeta() for _ in range(num_lanes)])
        values = json.loads(blob)
        return cls(
            {int(p): w for p, w in values["watermarks_ms"].items()},
            values["serial"],
            [LaneMeta(**lane) for lane in values["lanes"]],
        )

    def dump(self) -> bytes:
        """One JSON object."""
        return json.dumps(asdict(self)).encode()

    def next_serial(self) -> int:
        """A number that no earlier call gave."""
        self.serial += 1
        return self.serial


@dataclass(frozen=True)
class ShardReducer:
    """Reduces the partials of a shard.

    Args:
        aggregates: What to compute.
        plan: Of the windows.
        num_partitions: Topic partitions that hold windows back until their watermark passes; None:
            only partitions with rows in the batch do.
        emit: `all`, `changed` or `top`.
        k: Size of a window's top.
        update_ms: How long after its end a window still takes records, see `updates`; 0: not.
    """

    aggregates: Aggregates
    plan: WindowPlan
    num_partitions: int | None
    emit: str
    k: int
    update_ms: int = 0

    def process(self, store: Store, rows: Iterable[ShardRow]) -> ShardOutput:
        """Take the rows of one batch, close the windows that are due, and write the state.

        Args:
            store: The shard's state.
            rows: One row per topic partition that had records; in any order.
        """
        started = time.perf_counter()
        meta = Meta.load(store.get("meta"), len(self.plan.windows))
        table = self._load_table(store)
        before = store
        overlay = Overlay(store) if self.update_ms else None
        store = overlay or store
        lists = Lists()
        lanes = {
            step.number: self._lane(lists, step, meta.lanes[step.number], store, table)
            for step in self.plan.steps
        }
        rows = sorted(rows, key=lambda row: row.partition)
        check_partitions(rows, self.num_partitions)
        progress = [json.loads(row.progress) for row in rows]
        counts = {"on_time": 0, "late": 0, "partial_rows": 0}
        self._take([row for row in rows if row.partials], meta, table, lanes, counts)
        frontier_ms = raise_watermarks(meta.watermarks_ms, progress, self.num_partitions)
        blobs: list[bytes] = []
        windows, last = [], []
        keys: pa.Array | None = None
        steps = {step.number: step for step in self.plan.steps}
        for number, lane in sorted(lanes.items()):
            revised = None
            if overlay is not None:
                lane_on = partial(self._lane, lists, steps[number])
                updates = Updates(lane, meta.lanes[number], overlay, before, table, lane_on)
                runs, revised = updates.close(frontier_ms, self.update_ms, meta.next_serial)
            else:
                runs = lane.close(lane.windows.first_window(frontier_ms), meta.next_serial)
                lane.save()
            keys = table.keys() if keys is None else keys
            blobs += self._emit(number, runs, keys, lists)
            if revised is not None and len(revised.revision):
                blobs.append(
                    encode_runs(
                        revised.runs, keys, self.aggregates, number, lists, revised.revision
                    )
                )
            windows.append(covered(runs))
            if number == 0:
                last = self._last_top(runs, keys)
        table.free_unused()
        store.put("keys", to_blob(table.to_batch()))
        store.put("meta", meta.dump())
        if overlay is not None:
            overlay.flush()
        summary = {
            **counts,
            "partitions": progress,
            "windows": windows,
            "top": last,
            "live_keys": table.live,
            "segments": sum(lane.num_segments for lane in lanes.values()),
            "seconds": time.perf_counter() - started,
        }
        return ShardOutput(summary, blobs)

    def _lane(
        self, lists: Lists, step: Step, meta: LaneMeta, store: Store, table: KeyTable
    ) -> Lane:
        windows = self.plan.windows[step.number]
        return Lane(step.number, windows, step.panes, self.aggregates, meta, store, table, lists)

    def _load_table(self, store: Store) -> KeyTable:
        blob = store.get("keys")
        num_lanes = len(self.plan.windows)
        neutral = np.tile(neutral_totals(self.aggregates), (num_lanes, 1))
        if blob is None:
            return KeyTable.empty(neutral, num_lanes)
        return KeyTable.from_batch(from_blob(blob), neutral, num_lanes)

    def _take(
        self,
        rows: list[ShardRow],
        meta: Meta,
        table: KeyTable,
        lanes: dict[int, Lane],
        counts: dict[str, int],
    ) -> None:
        """Give each task's partials to all kinds of windows."""
        if not rows:
            return
        decoded = [decode_partials(row.partials, self.aggregates) for row in rows]
        ids = table.ids(pa.concat_arrays([partials.keys for partials in decoded]))
        at = 0
        for row, partials in zip(rows, decoded, strict=True):
            watermark_ms = meta.watermarks_ms.get(row.partition, NO_WATERMARK_MS) - self.update_ms
            self._count(partials, watermark_ms, meta, counts)
            self._give(partials, ids[at : at + len(partials.keys)], watermark_ms, lanes)
            at += len(partials.keys)

    def _give(
        self, partials: Partials, ids: Int64s, watermark_ms: int, lanes: dict[int, Lane]
    ) -> None:
        """Give partials to all kinds of windows, each in its own panes."""
        levels = {-1: partials}
        for step in self.plan.steps:
            found = levels[step.level]
            if step.sources:
                parts = []
                for source in step.sources:
                    panes = self.plan.panes_of(source.level)
                    parts.append(_moved(levels[source.level], panes, step.panes, source.takes))
                found = consolidate(concat_partials(parts), self.aggregates)
                levels[step.number] = found
            lanes[step.number].take(
                found,
                ids,
                self._met_ms(found.met, watermark_ms),
                {name: self._met_ms(c.met, watermark_ms) for name, c in found.cells.items()},
            )

    def _count(
        self, partials: Partials, watermark_ms: int, meta: Meta, counts: dict[str, int]
    ) -> None:
        """Count records: on time where they missed no window of any kind."""
        start_ms = self.plan.panes.start_ms(partials.pane)
        met_ms = self._met_ms(partials.met, watermark_ms)
        late = np.zeros(len(start_ms), dtype=bool)
        for windows, lane in zip(self.plan.windows, meta.lanes, strict=True):
            late |= late_for(windows, start_ms, met_ms, lane.next_window)[1]
        records = partials.states[0]
        num_late = int(records[late].sum())
        counts["late"] += num_late
        counts["on_time"] += int(records.sum()) - num_late
        counts["partial_rows"] += len(records)

    def _met_ms(self, met: Int64s, watermark_ms: int) -> Int64s:
        """The watermark that partials met: at their place in the partition, or before the batch."""
        told = met != ON_TIME
        if not told.any():
            return np.full(len(met), watermark_ms, dtype=np.int64)
        pane_ms = self.plan.panes.start_ms(np.where(told, met, 0))
        return np.where(told, np.maximum(pane_ms, watermark_ms), watermark_ms)

    def _emit(self, number: int, runs: Runs, keys: pa.Array, lists: Lists) -> list[bytes]:
        """The blobs for the sink."""
        if self.emit == "top":
            runs = top_of_windows(runs, keys, self.aggregates, self.k)
        elif self.emit == "changed":
            runs = runs.where(runs.changed)
        else:
            runs = runs.live()
        return [
            encode_runs(
                runs.where(np.arange(at, min(at + RUNS_PER_BLOB, len(runs.key)))),
                keys,
                self.aggregates,
                number,
                lists,
            )
            for at in range(0, len(runs.key), RUNS_PER_BLOB)
        ]

    def _last_top(self, runs: Runs, keys: pa.Array) -> list[Any]:
        """The top of the last window that has any key."""
        stretches = covered(runs)
        if not stretches:
            return []
        window = stretches[-1][1] - 1
        alive = (runs.start <= window) & (runs.end > window)
        there = runs.where(alive)
        there = there._replace(
            start=np.full(len(there.key), window), end=np.full(len(there.key), window + 1)
        )
        top = top_of_windows(there, keys, self.aggregates, self.k)
        names = keys.take(pa.array(top.key)).to_pylist()
        return [
            [window, None if name is None else name.hex(), *values]
            for name, values in zip(names, top.value.T.tolist(), strict=True)
        ]


def check_partitions(rows: list[ShardRow], num_partitions: int | None) -> None:
    """See that there are no more partitions than hold windows back.

    Args:
        rows: Of a batch.
        num_partitions: How many hold windows back; None: those with rows in the batch.

    Raises:
        RunError: There are.
    """
    highest = max((row.partition for row in rows), default=0)
    if num_partitions is not None and highest >= num_partitions:
        raise RunError(
            f"the topic has a partition {highest}, yet the query was started for "
            f"{num_partitions} partitions: start it with the topic's number of partitions"
        )


def raise_watermarks(
    watermarks_ms: dict[int, int], progress: list[dict[str, Any]], num_partitions: int | None
) -> int:
    """Note how far partitions have come, in place.

    Args:
        watermarks_ms: The watermark of each partition that was heard of.
        progress: What the tasks of a batch told.
        num_partitions: How many hold windows back; None: those with rows in the batch.

    Returns:
        The time that all partitions which hold windows back have passed.
    """
    for each in progress:
        known_ms = watermarks_ms.get(each["partition"], NO_WATERMARK_MS)
        watermarks_ms[each["partition"]] = max(known_ms, each["watermark_ms"])
    holding = (
        [each["partition"] for each in progress]
        if num_partitions is None
        else range(num_partitions)
    )
    return min((watermarks_ms.get(p, NO_WATERMARK_MS) for p in holding), default=NO_WATERMARK_MS)


def _moved(
    partials: Partials, panes: Panes, into: Panes, takes: Callable[[Int64s], Bools]
) -> Partials:
    """The rows that larger panes take, in those."""

    def move(pane: Int64s) -> Int64s:
        return into.of(panes.start_ms(pane))

    rows = np.flatnonzero(takes(partials.pane))
    cells = {name: each.where(takes(each.pane)) for name, each in partials.cells.items()}
    return Partials(
        partials.keys,
        move(partials.pane[rows]),
        partials.met[rows],
        partials.key[rows],
        partials.states[:, rows],
        {name: each._replace(pane=move(each.pane)) for name, each in cells.items()},
    )


def encode_runs(
    runs: Runs,
    keys: pa.Array,
    aggregates: Aggregates,
    number: int,
    lists: Lists,
    revision: Int64s | None = None,
) -> bytes:
    """Write runs as an Arrow blob, with the keys they use as a dictionary.

    Args:
        runs: The runs.
        keys: The key of each id.
        aggregates: What their values are of.
        number: Of the windows in the plan.
        lists: Those that values are numbers of.
        revision: How often each row came before; None: none of them did.
    """
    used = np.zeros(len(keys), dtype=bool)
    used[runs.key] = True
    code = np.cumsum(used) - 1
    columns: dict[str, Any] = {
        "start": pa.array(runs.start),
        "end": pa.array(runs.end),
        "key": pa.DictionaryArray.from_arrays(
            pa.array(code[runs.key].astype(np.int32)), keys.filter(pa.array(used))
        ),
    }
    collected = aggregates.collected
    for row, (name, values) in enumerate(zip(aggregates.names, runs.value, strict=True)):
        columns[name] = lists.array(values) if row in collected else pa.array(values)
    if revision is not None:
        columns[REVISION] = pa.array(revision)
    batch = pa.RecordBatch.from_pydict(columns)
    return to_blob(batch.replace_schema_metadata({WINDOWS: str(number)}))


def windows_number(batch: pa.RecordBatch) -> int:
    """Which windows of the plan the runs of a decoded blob are of."""
    return int(batch.schema.metadata[WINDOWS])
