"""The first stage: raw records of one topic partition to partials by pane and key.

One task reads one topic partition in offset order, so it can apply the late rule itself: each
record meets the watermark that stands at its place in the partition. A record that misses a window
is grouped apart, with the pane of the watermark that it met. What the partition had promised in
earlier batches is the reducer's to know.

A shard is sent one row per task and batch: the progress as JSON, the partials as an Arrow blob with
its keys in a dictionary, so a key's bytes cross the exchange once per shard, not once per pane.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from partitioners.errors import RunError
from pipelines.aggregates import TIMESTAMP
from pipelines.blobs import Int64s
from pipelines.dead_letter_topic import DeadLetterTopic, Letters
from pipelines.partials import (
    ON_TIME,
    Partials,
    aggregate_records,
    encode_partials,
    merge_partials,
)
from pipelines.punctuation import NO_WATERMARK_MS, find_watermarks
from pipelines.query import Decoded, Query
from pipelines.shards import shard_of_keys
from pipelines.value_sets import Cells

if TYPE_CHECKING:
    from pipelines.events import PerEvent
    from pipelines.plan import WindowPlan
    from pipelines.sessions import Sessions


class ShardRow(NamedTuple):
    """What one task sends to one shard in one batch."""

    shard: int
    partition: int
    progress: str
    partials: bytes


@dataclass
class Progress:
    """What a task tells every shard about its topic partition."""

    partition: int = -1
    watermark_ms: int = NO_WATERMARK_MS
    records: int = 0
    dead: int = 0
    partial_rows: int = 0
    seconds: float = 0.0

    def to_json(self) -> str:
        """One JSON object."""
        return json.dumps(vars(self))


@dataclass(frozen=True)
class Combiner:
    """Combines the rows of one task.

    Args:
        workload: Decodes records and says what to aggregate.
        plan: Of the windows.
        num_shards: Number of reducers.
        watermark_lag_ms: None: the watermark comes from watermark records alone. A number: it is
            also the largest event time so far minus this.
        max_future_ms: A record of an event time further ahead of its batch's time is dead.
        dead_letters: Where dead records go; None: they are counted.
        update_ms: How long after its end a window still takes records.
    """

    workload: Query
    plan: WindowPlan | Sessions | PerEvent
    num_shards: int
    watermark_lag_ms: int | None = None
    max_future_ms: int | None = None
    dead_letters: DeadLetterTopic | None = None
    update_ms: int = 0

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[ShardRow]:
        """Combine Arrow batches (key, value, partition) of one topic partition, in offset order.

        Where dead records go somewhere there is a column `offset`, and where there is a bound on
        event times a column `now` (milliseconds), the batch's time, which stays when it is done
        again.

        Yields:
            A row for every shard, or none where there were no rows.

        Raises:
            RunError: Rows of more than one topic partition, or dead records could not be sent.
        """
        progress = Progress()
        parts: list[Partials] = []
        letters: list[Letters] = []
        for batch in batches:
            if not batch.num_rows:
                continue
            started = time.perf_counter()
            _check_partition(batch.column("partition"), progress)
            part = self._combine(batch, progress, letters)
            if part is not None:
                parts.append(part)
            progress.seconds += time.perf_counter() - started
        if progress.partition < 0:
            return
        if letters and self.dead_letters is not None:
            self.dead_letters.send(progress.partition, letters)
        started = time.perf_counter()
        total = merge_partials(parts, self.workload.aggregates)
        rows = list(self._by_shard(total))
        progress.partial_rows = len(total.pane)
        progress.seconds += time.perf_counter() - started
        for shard, blob in rows:
            yield ShardRow(shard, progress.partition, progress.to_json(), blob)

    def _combine(
        self, batch: pa.RecordBatch, progress: Progress, letters: list[Letters]
    ) -> Partials | None:
        keys, values = batch.column("key"), batch.column("value")
        marks = find_watermarks(keys, values)
        at = np.arange(len(keys))
        if len(marks.positions):
            at = np.delete(at, marks.positions)
            keys, values = keys.take(pa.array(at)), values.take(pa.array(at))
        decoded = self.workload.decode(keys, values)
        raw_keys = keys
        keys = keys if decoded.keys is None else decoded.keys
        coded = pc.dictionary_encode(keys, null_encoding="encode")
        key = coded.indices.to_numpy().astype(np.int64)
        good = decoded.good
        valid = self.workload.valid_keys(coded.dictionary)
        if valid is not None:
            good = valid[key] if good is None else good & valid[key]
        latest_ms = self._latest_ms(batch)
        if latest_ms is not None and len(at) and int(decoded.timestamp_ms.max()) > latest_ms:
            there = decoded.timestamp_ms <= latest_ms
            good = there if good is None else good & there
        if good is not None:
            dead = np.flatnonzero(~good)
            progress.dead += len(dead)
            if len(dead) and self.dead_letters is not None:
                chosen = pa.array(dead)
                ahead = None if latest_ms is None else decoded.timestamp_ms[dead] > latest_ms
                letters.append(
                    Letters(
                        batch.column("offset").to_numpy()[at[dead]],
                        raw_keys.take(chosen),
                        values.take(chosen),
                        self._reasons(keys.take(chosen), values.take(chosen), ahead),
                    )
                )
            key, at = key[good], at[good]
            decoded = _keep_good(decoded, good)
        progress.records += len(at)
        met = self._met(at, decoded.timestamp_ms, marks.positions, marks.values_ms, progress)
        if not len(at):
            return None
        return aggregate_records(
            self.workload.aggregates,
            keys=coded.dictionary,
            key=key,
            pane=self.plan.panes.of(decoded.timestamp_ms),
            met=met,
            columns={TIMESTAMP: decoded.timestamp_ms, **decoded.columns},
        )

    def _latest_ms(self, batch: pa.RecordBatch) -> int | None:
        """The latest event time that a record may have."""
        if self.max_future_ms is None:
            return None
        return int(batch.column("now")[0].as_py()) + self.max_future_ms

    def _reasons(
        self, keys: pa.Array, values: pa.Array, ahead: npt.NDArray[np.bool_] | None
    ) -> list[str]:
        """Why records are dead; `ahead` says which have an event time that is too late."""
        reasons = self.workload.why_dead(keys, values)
        if ahead is None:
            return reasons
        late = f"its time is more than {self.max_future_ms} ms ahead of the clock"
        return [late if each else reason for each, reason in zip(ahead, reasons, strict=True)]

    def _met(
        self,
        at: npt.NDArray[np.int64],
        timestamps: Int64s,
        mark_positions: Int64s,
        mark_values: Int64s,
        progress: Progress,
    ) -> Int64s | None:
        """The pane of the watermark that each late record met; None if no record is late."""
        before = progress.watermark_ms
        risen = np.maximum.accumulate(np.concatenate([np.array([before]), mark_values]))
        progress.watermark_ms = int(risen[-1])
        watermarks = risen[np.searchsorted(mark_positions, at)]
        if self.watermark_lag_ms is not None and len(at):
            lagged = np.maximum.accumulate(timestamps) - self.watermark_lag_ms
            watermarks = np.maximum(watermarks, lagged)
            progress.watermark_ms = max(progress.watermark_ms, int(lagged[-1]))
        watermarks = watermarks - self.update_ms
        if not len(at) or int(watermarks.max()) <= int(timestamps.min()):
            return None
        late = self.plan.late(timestamps, watermarks)
        return np.where(late, self.plan.panes.of(watermarks), ON_TIME) if late.any() else None

    def _by_shard(self, partials: Partials) -> Iterator[tuple[int, bytes]]:
        shards = shard_of_keys(partials.keys, self.num_shards)
        by_shard = np.argsort(shards, kind="stable")
        keys = partials.keys.take(pa.array(by_shard))
        new_code = np.empty(len(by_shard), dtype=np.int64)
        new_code[by_shard] = np.arange(len(by_shard))
        key_edges = np.searchsorted(shards[by_shard], np.arange(self.num_shards + 1))
        row_shard = shards[partials.key]
        cell_shard = {name: shards[cells.key] for name, cells in partials.cells.items()}
        for shard in range(self.num_shards):
            rows = np.flatnonzero(row_shard == shard)
            first, end = int(key_edges[shard]), int(key_edges[shard + 1])
            code = new_code - first
            yield (
                shard,
                encode_partials(
                    Partials(
                        keys[first:end],
                        partials.pane[rows],
                        partials.met[rows],
                        code[partials.key[rows]],
                        partials.states[:, rows],
                        {
                            name: _renumber(cells.where(cell_shard[name] == shard), code)
                            for name, cells in partials.cells.items()
                        },
                    ),
                    self.workload.aggregates,
                ),
            )


def _renumber(cells: Cells, code: npt.NDArray[np.int64]) -> Cells:
    return cells._replace(key=code[cells.key])


def _check_partition(partitions: pa.Array, progress: Progress) -> None:
    found = pc.min_max(partitions).as_py()
    expected = found["min"] if progress.partition < 0 else progress.partition
    first, last = min(found["min"], expected), max(found["max"], expected)
    if first != last:
        raise RunError(
            f"one combine task got rows of topic partitions {first} and {last}: give it one "
            "partition's"
        )
    progress.partition = int(expected)


def _keep_good(decoded: Decoded, good: npt.NDArray[np.bool_]) -> Decoded:
    columns = {name: column[good] for name, column in decoded.columns.items()}
    return Decoded(decoded.timestamp_ms[good], columns)
