"""Runs to rows: what a reducer hands on becomes one row per window and key, for each sink.

Sinks get the rows a row group at a time; the runs of a batch are never expanded as a whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from pipelines.blobs import Int64s, from_blob, numbers
from pipelines.lists import Collect
from pipelines.panes import Windows
from pipelines.query import Query
from pipelines.reduce import REVISION, windows_number
from pipelines.ring import Runs
from pipelines.sinks.base import Part, Shape, Sink
from pipelines.top import concat_runs, top_of_windows

ROWS_PER_GROUP = 1 << 20
_TIMESTAMP = pa.timestamp("ms", tz="UTC")


class Decoded(NamedTuple):
    """Runs as they came from a reducer.

    Attributes:
        windows: Of which windows; None: sessions.
        runs: Their values; of those that are lists, places in `lists`.
        keys: The key of each id.
        lists: By row of the values.
        revision: How often each came before; None: none of them did.
    """

    windows: Windows | None
    runs: Runs
    keys: pa.Array
    lists: Mapping[int, pa.ListArray]
    revision: Int64s | None = None


@dataclass(frozen=True)
class ResultWriter:
    """Turns the runs of one query into rows and hands them to its sinks.

    Args:
        sinks: Where the rows go.
        workload: Names and finishes the columns.
        windows: The windows; none: sessions.
        emit: `all`, `changed` or `top`.
        k: Size of a window's top.
        updates: Whether rows may come again, with a revision number.
    """

    sinks: tuple[Sink, ...]
    workload: Query
    windows: tuple[Windows, ...]
    emit: str
    k: int
    updates: bool = False

    @property
    def schema(self) -> pa.Schema:
        """The columns of the results."""
        rank = [pa.field("rank", pa.int32())] if self.emit == "top" else []
        revision = [pa.field("revision", pa.int64())] if self.updates else []
        return pa.schema(
            [
                pa.field("window_start", _TIMESTAMP),
                pa.field("window_end", _TIMESTAMP),
                *revision,
                *rank,
                *self.workload.key_fields,
                *self.workload.value_fields,
            ]
        )

    @property
    def shape(self) -> Shape:
        """The columns, and those that tell rows apart."""
        keys = [field.name for field in self.workload.key_fields]
        which = ["rank"] if self.emit == "top" else [*keys, *self.workload.identity_fields]
        return Shape(self.workload.name, self.schema, ("window_start", "window_end", *which))

    @property
    def at_workers(self) -> ResultWriter:
        """The part that writes where a shard's runs are; tops are merged on the driver."""
        by_shard = () if self.emit == "top" else self.sinks
        return replace(self, sinks=tuple(sink for sink in by_shard if not sink.on_driver))

    @property
    def on_driver(self) -> ResultWriter:
        """The part that writes on the driver."""
        elsewhere = self.at_workers.sinks
        return replace(self, sinks=tuple(sink for sink in self.sinks if sink not in elsewhere))

    def write_shard(self, blobs: Iterable[bytes], batch_id: int, shard: int) -> int:
        """Write the runs of one shard and batch; returns the number of rows."""
        part = Part(batch_id, f"shard-{shard:04d}")
        if len(self.sinks) != 1:
            blobs = list(blobs)
        rows = [
            sink.write(
                (table for blob in blobs for table in self._expand(self.decode(blob))),
                self.shape,
                part,
            )
            for sink in self.sinks
        ]
        return max(rows, default=0)

    def write_top(self, blobs: Iterable[bytes], batch_id: int) -> int:
        """Merge the tops of the shards, which close the same windows in the same batch."""
        by_windows: dict[Windows | None, list[Decoded]] = {}
        for blob in blobs:
            decoded = self.decode(blob)
            by_windows.setdefault(decoded.windows, []).append(decoded)
        if not by_windows:
            return 0
        merged = [self._merge(each) for each in by_windows.values()]
        part = Part(batch_id, "top")
        rows = [
            sink.write((table for top in merged for table in self._expand(top)), self.shape, part)
            for sink in self.sinks
        ]
        return max(rows, default=0)

    def _merge(self, decoded: list[Decoded]) -> Decoded:
        aggregates = self.workload.aggregates
        keys = pa.concat_arrays([each.keys for each in decoded])
        lists = {
            row: pa.concat_arrays([each.lists[row] for each in decoded])
            for row in aggregates.collected
        }
        parts, num_keys, num_lists = [], 0, 0
        for each in decoded:
            value = each.runs.value
            value[list(lists)] += num_lists
            parts.append(each.runs._replace(key=each.runs.key + num_keys, value=value))
            num_keys += len(each.keys)
            num_lists += len(each.runs.key)
        top = top_of_windows(concat_runs(parts), keys, aggregates, self.k)
        return Decoded(decoded[0].windows, top, keys, lists)

    def decode(self, blob: bytes) -> Decoded:
        """Read a blob of runs."""
        batch = from_blob(blob)
        coded = batch.column("key")
        start, end = numbers(batch.column("start")), numbers(batch.column("end"))
        aggregates = self.workload.aggregates
        lists = {row: batch.column(aggregates.names[row]) for row in aggregates.collected}
        place = np.arange(batch.num_rows)
        value = np.stack(
            [
                place if row in lists else numbers(batch.column(name))
                for row, name in enumerate(aggregates.names)
            ]
        )
        key = coded.indices.to_numpy().astype(np.int64)
        runs = Runs(start, end, key, value, np.ones(len(start), dtype=bool))
        revision = numbers(batch.column(REVISION)) if REVISION in batch.schema.names else None
        number = windows_number(batch)
        windows = None if number < 0 else self.windows[number]
        return Decoded(windows, runs, coded.dictionary, lists, revision)

    def _expand(self, decoded: Decoded) -> Iterator[pa.Table]:
        """One row per window and key, a row group at a time.

        A session is a row with its bounds, not a run of windows.
        """
        windows, runs, keys, lists, revision = decoded
        if self.emit == "changed":
            runs = runs._replace(end=runs.start + 1)
        values = self._values(runs.value, lists)
        if self.updates:
            none = np.zeros(len(runs.start), dtype=np.int64)
            values.append(pa.array(none if revision is None else revision))
        finished = self.workload.finish_keys(keys)
        if windows is None:
            for low in range(0, len(runs.start), ROWS_PER_GROUP):
                which = np.arange(low, min(low + ROWS_PER_GROUP, len(runs.start)))
                key = runs.key[which].astype(np.int32)
                yield self._rows(runs.start[which], runs.end[which], key, finished, values, which)
            return
        lengths = runs.end - runs.start
        ends = np.cumsum(lengths)
        first = runs.start - (ends - lengths)
        low = 0
        while low < len(lengths):
            done = int(ends[low - 1]) if low else 0
            # At least one run, however long: a run is never longer than a window has slides.
            high = max(low + 1, int(np.searchsorted(ends, done + ROWS_PER_GROUP, side="right")))
            which = np.repeat(np.arange(low, high), lengths[low:high])
            start = (np.arange(done, done + len(which)) + first[which]) * windows.slide_ms
            end = start + windows.size_ms
            yield self._rows(start, end, runs.key[which].astype(np.int32), finished, values, which)
            low = high

    def _values(self, states: Int64s, lists: Mapping[int, pa.ListArray]) -> list[pa.Array]:
        """The value columns."""
        values = self.workload.finish_values(states)
        names = [field.name for field in self.workload.value_fields]
        for row, each in self.workload.aggregates.collected.items():
            if each.name in names:
                assert isinstance(each, Collect)
                at = names.index(each.name)
                found = lists[row].take(pa.array(states[row]))
                values[at] = each.finish_lists(found, states[0], values[at].type)
        return values

    def _rows(
        self,
        start: Any,
        end: Any,
        key: Any,
        finished: list[pa.Array],
        values: list[pa.Array],
        which: Any,
    ) -> pa.Table:
        index = pa.array(which)
        columns = [pa.array(start).view(_TIMESTAMP), pa.array(end).view(_TIMESTAMP)]
        if self.updates:
            *values, revision = values
            columns.append(revision.take(index))
        if self.emit == "top":
            begins = np.flatnonzero(np.append(True, start[1:] != start[:-1]))
            lengths = np.diff(np.append(begins, len(start)))
            rank = np.arange(len(start)) - np.repeat(begins, lengths) + 1
            columns.append(pa.array(rank.astype(np.int32)))
        columns += [_coded(key, each) for each in finished]
        columns += [each.take(index) for each in values]
        return pa.table(columns, names=self.schema.names)


def _coded(key: Any, names: pa.Array) -> pa.DictionaryArray:
    """A key column; Parquet wants a null in the indices, not in the dictionary."""
    if not names.null_count:
        return pa.DictionaryArray.from_arrays(pa.array(key), names)
    valid = names.is_valid().to_numpy(zero_copy_only=False)
    code = (np.cumsum(valid) - 1).astype(np.int32)
    return pa.DictionaryArray.from_arrays(pa.array(code[key], mask=~valid[key]), names.drop_null())
