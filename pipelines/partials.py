"""Partials: records aggregated by pane, key and watermark, on their way to the reducers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.aggregates import Aggregates
from pipelines.blobs import Int64s, from_blob, join_blobs, numbers, split_blobs, to_blob
from pipelines.lookup import differs
from pipelines.scan import fold
from pipelines.value_sets import Cells, count_cells, decode_cells, encode_cells

# Marks a partial whose records miss no window, in place of the watermark they met.
ON_TIME = -(2**63)


class Partials(NamedTuple):
    """Aggregated records: one row per pane, key and, of late records, watermark they met.

    Attributes:
        keys: Binary array of the distinct keys.
        pane: int64[n]
        met: int64[n], `ON_TIME`, or the pane of the watermark that the records met.
        key: int64[n], indices into `keys`.
        states: int64[num state columns, n].
        cells: The values of each column of which every value is needed.
    """

    keys: pa.Array
    pane: Int64s
    met: Int64s
    key: Int64s
    states: Int64s
    cells: dict[str, Cells]


def aggregate_records(
    aggregates: Aggregates,
    *,
    keys: pa.Array,
    key: Int64s,
    pane: Int64s,
    met: Int64s | None,
    columns: dict[str, Int64s],
) -> Partials:
    """Group records by pane, key and watermark met."""
    states = [state for each in aggregates.by_row for state in each.create(columns)]
    tags = np.full(len(key), ON_TIME, dtype=np.int64) if met is None else met
    ones = np.ones(len(key), dtype=np.int64)
    cells = {}
    for name in aggregates.value_columns:
        each = Cells(pane, tags, key, aggregates.cell_values(name, columns), ones)
        absent, _ = aggregates.value_rules(name)
        cells[name] = count_cells([each if absent is None else each.where(each.value != absent)])
    return Partials(keys, *_combine_rows(pane, met, key, len(keys), states, aggregates), cells)


def merge_partials(parts: list[Partials], aggregates: Aggregates) -> Partials:
    """Combine the partials of several Arrow batches: one row per pane, key and watermark met."""
    if len(parts) == 1:
        return parts[0]
    empty = np.empty(0, dtype=np.int64)
    if not parts:
        none = np.empty((len(aggregates.names), 0), dtype=np.int64)
        return Partials(pa.array([], type=pa.binary()), empty, empty, empty, none, {})
    # Arrow's own unification of dictionaries refuses a null key.
    coded = pc.dictionary_encode(pa.concat_arrays([p.keys for p in parts]), null_encoding="encode")
    code = coded.indices.to_numpy().astype(np.int64)
    before = np.cumsum([0, *(len(p.keys) for p in parts)]).tolist()
    moved = [
        part._replace(
            keys=coded.dictionary,
            key=code[part.key + shift],
            cells={
                name: cells._replace(key=code[cells.key + shift])
                for name, cells in part.cells.items()
            },
        )
        for part, shift in zip(parts, before[:-1], strict=True)
    ]
    return consolidate(concat_partials(moved), aggregates)


def concat_partials(parts: Sequence[Partials]) -> Partials:
    """Put partials of the same keys together, equal rows not combined; at least one part."""
    if len(parts) == 1:
        return parts[0]
    cells = {
        name: Cells(*(np.concatenate(c) for c in zip(*(p.cells[name] for p in parts), strict=True)))
        for name in parts[0].cells
    }
    pane, met, key = (
        np.concatenate(column)
        for column in zip(*((p.pane, p.met, p.key) for p in parts), strict=True)
    )
    states = np.concatenate([p.states for p in parts], axis=1)
    return Partials(parts[0].keys, pane, met, key, states, cells)


def consolidate(partials: Partials, aggregates: Aggregates) -> Partials:
    """Combine rows of the same pane, key and watermark met."""
    cells = {name: count_cells([each]) for name, each in partials.cells.items()}
    met = None if (partials.met == ON_TIME).all() else partials.met
    rows = _combine_rows(
        partials.pane, met, partials.key, len(partials.keys), list(partials.states), aggregates
    )
    return Partials(partials.keys, *rows, cells)


def _combine_rows(
    pane: Int64s,
    met: Int64s | None,
    key: Int64s,
    num_keys: int,
    states: Sequence[Int64s],
    aggregates: Aggregates,
) -> tuple[Int64s, Int64s, Int64s, Int64s]:
    """Combine rows of one pane, key and watermark met (None: all on time): these, and states.

    Where the pair (pane, key) fits one int64 and nothing is late, as nearly always, that is the
    only group column: Polars groups one integer twice as fast as three.
    """
    low = int(pane.min(initial=0))
    if met is None and (int(pane.max(initial=0)) - low + 1) * num_keys < 2**62:
        groups, combined = combine_groups(
            {"group": (pane - low) * num_keys + key}, states, aggregates
        )
        row_pane, row_key = np.divmod(groups["group"], max(1, num_keys))
        on_time = np.full(len(row_pane), ON_TIME, dtype=np.int64)
        return row_pane + low, on_time, row_key, combined
    tags = np.full(len(key), ON_TIME, dtype=np.int64) if met is None else met
    groups, combined = combine_groups({"pane": pane, "met": tags, "key": key}, states, aggregates)
    return groups["pane"], groups["met"], groups["key"], combined


def combine_groups(
    groups: dict[str, Int64s], states: Sequence[Int64s], aggregates: Aggregates
) -> tuple[dict[str, Int64s], Int64s]:
    """Combine the states of each group.

    Args:
        groups: Columns whose values together name a group, int64[n] each.
        states: int64[n] for each state column.
        aggregates: What the states are of.

    Returns:
        The groups' columns, and their states, int64[num state columns, num_groups].
    """
    frame = dict(groups)
    expressions: list[pl.Expr] = []
    general = []
    for each, rows in aggregates.blocks:
        if each.slides in ("values", "derived"):
            continue
        if each.by_column is None:
            general.append((each, rows))
            continue
        for row in range(rows.start, rows.stop):
            frame[f"state{row}"] = states[row]
            expressions.append(getattr(pl.col(f"state{row}"), each.by_column)())
    grouped = pl.DataFrame(frame).group_by(list(groups)).agg(expressions)
    if general:
        grouped = grouped.sort(list(groups))
    out = np.repeat(aggregates.neutral(), len(grouped), axis=1)
    for name in grouped.columns[len(groups) :]:
        out[int(name[len("state") :])] = grouped[name].to_numpy()
    if general:
        order = np.lexsort(list(reversed(list(groups.values()))))
        begins = differs(*(column[order] for column in groups.values()))
        for each, rows in general:
            block = np.stack([state[order] for state in states[rows]])
            out[rows] = fold(each.combine, block, begins)
    return {name: grouped[name].to_numpy() for name in groups}, out


def encode_partials(partials: Partials, aggregates: Aggregates) -> bytes:
    """Write partials as Arrow blobs; none at all as no bytes."""
    if not len(partials.pane):
        return b""
    columns: dict[str, Any] = {
        "pane": pa.array(partials.pane),
        "met": pa.array(partials.met),
        "key": pa.DictionaryArray.from_arrays(
            pa.array(partials.key.astype(np.int32)), partials.keys
        ),
    }
    for name, row in zip(
        aggregates.names[: aggregates.num_travelling], partials.states, strict=False
    ):
        columns[name] = pa.array(row)
    main = to_blob(pa.RecordBatch.from_pydict(columns))
    return join_blobs([main, *map(encode_cells, partials.cells.values())])


def decode_partials(blob: bytes, aggregates: Aggregates) -> Partials:
    """Read what `encode_partials` wrote."""
    main, *cells = split_blobs(blob)
    batch = from_blob(main)
    coded = batch.column("key")
    states = np.repeat(aggregates.neutral(), batch.num_rows, axis=1)
    for row in range(aggregates.num_travelling):
        states[row] = numbers(batch.column(aggregates.names[row]))
    return Partials(
        coded.dictionary,
        numbers(batch.column("pane")),
        numbers(batch.column("met")),
        coded.indices.to_numpy().astype(np.int64),
        states,
        dict(zip(aggregates.value_columns, map(decode_cells, cells), strict=True)),
    )
