"""Which keys a stream has most of, by name, and what hashing can do about them: nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from pipelines.key_names import percent, show_key
from pipelines.workloads.base import Workload

NUM_SHOWN = 5
# Keys kept while a stream goes by: one with a larger share than 1/KEPT is never dropped.
KEPT = 20_000
NAMED = 64  # of the keys of a chunk
_MERGE_ROWS = 400_000


@dataclass(frozen=True, slots=True)
class CountedKey:
    """A key, its records, and the partitions they are on."""

    key: bytes
    records: int
    num_partitions: int


class KeyCounts:
    """Counts keys; exact for up to `KEPT` keys, and for the hot ones among any number.

    Keys are told apart by their hashes, as the partitioners do; of more than `KEPT` the rare ones
    are dropped now and then. Only the hottest of each chunk are remembered by name: a key that is
    never among them is not hot. Null keys ask for no grouping and are to be left out.

    Example:
        >>> keys = pa.array([b"a", b"b", b"a"], pa.binary())
        >>> counts = KeyCounts()
        >>> counts.add(keys, np.array([7, 8, 7], np.uint64), np.array([0, 1, 2], np.int32))
        >>> counts.hottest(1)
        [CountedKey(key=b'a', records=2, num_partitions=2)]
    """

    def __init__(self) -> None:
        self._waiting: list[pl.DataFrame] = []
        self._num_waiting = 0
        self._names: dict[int, bytes] = {}

    def add(
        self, keys: pa.Array, key_hashes: npt.NDArray[np.uint64], partitions: npt.NDArray[np.int32]
    ) -> None:
        """Count records.

        Args:
            keys: Binary, of each record, without nulls.
            key_hashes: `uint64[n]`.
            partitions: `int32[n]`, where each went.
        """
        rows = pl.DataFrame({"hash": key_hashes, "partition": partitions}).with_row_index("row")
        counted = rows.group_by("hash", "partition").agg(
            records=pl.len().cast(pl.Int64), row=pl.first("row")
        )
        totals = _totals(counted)
        for key_hash, row in totals.head(NAMED).select("hash", "row").rows():
            if key_hash not in self._names:
                self._names[key_hash] = keys[row].as_py()
        if len(totals) > KEPT:
            # Mostly keys that came once: far from hot, and dear to carry along.
            counted = counted.join(totals.filter(pl.col("records") > 1), on="hash", how="semi")
        self._waiting.append(counted)
        self._num_waiting += len(counted)
        if self._num_waiting > _MERGE_ROWS:
            self._merge()

    def _merge(self) -> pl.DataFrame:
        together = pl.concat(self._waiting)
        together = together.group_by("hash", "partition").agg(pl.sum("records"), pl.min("row"))
        if len(together) > KEPT:
            together = together.join(_totals(together).head(KEPT), on="hash", how="semi")
        self._waiting, self._num_waiting = [together], len(together)
        kept = set(together["hash"].to_list())
        self._names = {key: name for key, name in self._names.items() if key in kept}
        return together

    def hottest(self, num_keys: int = NUM_SHOWN) -> list[CountedKey]:
        """Give the keys with most records.

        Args:
            num_keys: How many at most.
        """
        if not self._waiting:
            return []
        rows = _totals(self._merge()).head(num_keys + NAMED).rows(named=True)
        found = [
            CountedKey(self._names[row["hash"]], row["records"], row["num_partitions"])
            for row in rows
            if row["hash"] in self._names
        ]
        found.sort(key=lambda each: (-each.records, each.key))
        return found[:num_keys]


def _totals(counted: pl.DataFrame) -> pl.DataFrame:
    """Records and partitions of each key, those with most records first, ties by place."""
    return (
        counted.group_by("hash")
        .agg(pl.sum("records"), pl.min("row"), num_partitions=pl.len())
        .sort("records", "row", descending=[True, False])
    )


def name_hot_keys(
    workload: Workload, hottest: Sequence[CountedKey], num_records: int
) -> list[dict[str, Any]]:
    """Make what a cell says about the hottest keys.

    Args:
        workload: Knows how its keys are called.
        hottest: From `KeyCounts`.
        num_records: Of the stream.

    Returns:
        For each `key` (shown), `share` (of all records) and `num_partitions`.
    """
    names = key_names(workload, [each.key for each in hottest])
    return [
        {
            "key": name,
            "share": round(each.records / num_records, 6),
            "num_partitions": each.num_partitions,
        }
        for name, each in zip(names, hottest, strict=True)
    ]


def key_names(workload: Workload, keys: Sequence[bytes]) -> list[str]:
    """Name raw keys as the result columns do: `word`, or `from=3.4 to=5.6` where there are several.

    Args:
        workload: Whose keys they are.
        keys: All different.
    """
    if not keys:
        return []
    try:
        columns = workload.finish_keys(pa.array(keys, pa.binary()))
    except pa.ArrowInvalid:  # a text column, and bytes that are no text
        return [show_key(key) for key in keys]
    values = [column.to_pylist() for column in columns]
    if len(values) == 1:
        return [show_key(value) for value in values[0]]
    fields = [field.name for field in workload.key_fields]
    return [
        " ".join(f"{name}={show_key(value)}" for name, value in zip(fields, row, strict=True))
        for row in zip(*values, strict=True)
    ]


def cannot_be_hashed(hot_keys: Sequence[Mapping[str, Any]], num_partitions: int) -> str | None:
    """Say that no hash function can even the stream out, if that is so.

    Args:
        hot_keys: Dicts with `key` and `share`, the hottest first.
        num_partitions: Partitions there are.

    Returns:
        A sentence; None where no key exceeds an even share.

    Example:
        >>> cannot_be_hashed([{"key": "the", "share": 0.2}], 8)
        'hashing cannot fix it: key the alone is 20.0 % of the stream, more than 1/8'
        >>> cannot_be_hashed([{"key": "the", "share": 0.1}], 8) is None
        True
    """
    if not hot_keys or num_partitions == 1 or hot_keys[0]["share"] * num_partitions <= 1:
        return None
    top = hot_keys[0]
    return (
        f"hashing cannot fix it: key {top['key']} alone is {percent(top['share'])} of the stream, "
        f"more than 1/{num_partitions}"
    )
