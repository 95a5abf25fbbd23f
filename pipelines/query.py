"""What a query is: how records become columns, what is aggregated, which columns come out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipelines.aggregates import Aggregates

Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Decoded:
    """Raw record values as a combiner needs them.

    Attributes:
        timestamp_ms: int64[n] event times.
        columns: The columns the aggregates read, int64[n] each.
        good: bool[n], False where the value is none of this workload's; None: all good.
        keys: Binary array of n keys, where they are not those of the records.
    """

    timestamp_ms: Int64s
    columns: dict[str, Int64s] = field(default_factory=dict)
    good: npt.NDArray[np.bool_] | None = None
    keys: pa.Array | None = None


class Query(ABC):
    """A query over a keyed stream. Instances are pickled to Spark's Python workers.

    Attributes:
        name: Its name; a checkpoint is bound to it.
        key_fields: Columns of the results that hold the key.
        value_fields: Columns of the results that hold the values.
        aggregates: What to compute.
        k: How many keys the top of a window has.
        identity_fields: Value columns that tell rows of one window and key apart.
        per_event: Whether rows follow events and not windows (`events.PerEvent`).
    """

    name: ClassVar[str]
    key_fields: ClassVar[tuple[pa.Field, ...]]
    value_fields: ClassVar[tuple[pa.Field, ...]]
    aggregates: Aggregates
    k: ClassVar[int] = 10
    identity_fields: tuple[str, ...] = ()
    per_event: bool = False

    @abstractmethod
    def decode(self, keys: pa.Array, values: pa.Array) -> Decoded:
        """Read raw record values; `keys` and `values` are binary arrays of one length."""

    def valid_keys(self, keys: pa.Array) -> npt.NDArray[np.bool_] | None:
        """Which raw keys (binary, all different) are this workload's; None: all of them.

        Unless a workload knows better, keys of a text column must be UTF-8.
        """
        if not self.key_fields or not pa.types.is_string(self.key_fields[0].type):
            return None
        try:
            keys.cast(pa.string())
        except pa.ArrowInvalid:
            return np.array([key is None or _is_utf8(key) for key in keys.to_pylist()])
        return None

    def why_dead(self, keys: pa.Array, values: pa.Array) -> list[str]:
        """Why records are none of this workload's; called for those that `decode` refused only."""
        valid = self.valid_keys(keys)
        name = f"its value is no record of {self.name}"
        if valid is None:
            return [name] * len(values)
        return [name if each else "its key is none of a text column" for each in valid]

    def finish_keys(self, keys: pa.Array) -> list[pa.Array]:
        """Turn raw keys (binary, all different) into the key columns."""
        return [keys.cast(field.type) for field in self.key_fields]

    def finish_values(self, states: Int64s) -> list[pa.Array]:
        """Turn states into the value columns.

        Args:
            states: int64[num state columns, n]; a key that has left has its neutral states.
        """
        return self.aggregates.finish(states, self.value_fields)


def _is_utf8(key: bytes) -> bool:
    try:
        key.decode()
    except UnicodeDecodeError:
        return False
    return True
