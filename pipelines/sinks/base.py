"""What a sink is: takes the rows of a batch, part by part, and says what it promises of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import polars as pl
import pyarrow as pa

from partitioners.errors import InputError


@dataclass(frozen=True)
class Shape:
    """The rows of a query's results.

    Attributes:
        name: Of the query.
        schema: The columns.
        identity: Names of the columns that tell one row from another: window and key, or window
            and rank. A batch that is done again, after a kill before Spark's commit, gives the same
            rows again, each with its identity.
    """

    name: str
    schema: pa.Schema
    identity: tuple[str, ...]


@dataclass(frozen=True)
class Part:
    """What one writer writes of one batch.

    Attributes:
        batch_id: Spark's number of the batch; the same when it is done again.
        name: The shard, such as "shard-0001", or "top".
    """

    batch_id: int
    name: str


class Sink(ABC):
    """Where results go. All but those on the driver are pickled to Spark's Python workers.

    A batch is `write` for each part, in any order and process, and then `commit` on the driver.
    Where anything of it fails or is killed, the whole batch is done again with the same rows: a
    sink for which that makes no difference is exact.

    Attributes:
        guarantee: What a reader may rely on, in a sentence.
        on_driver: Whether `write` wants to be called in the driver's process.
        keeps: Whether what was written outlives the process, so that a checkpoint may go with it.
    """

    guarantee: ClassVar[str]
    on_driver: ClassVar[bool] = False
    keeps: ClassVar[bool] = True

    def open(self, shape: Shape) -> None:  # noqa: B027 - most need nothing
        """See, on the driver and before the query starts, that rows can be taken.

        Raises:
            InputError: They cannot.
        """

    @abstractmethod
    def write(self, tables: Iterable[pa.Table], shape: Shape, part: Part) -> int:
        """Write a part; returns the number of rows.

        Args:
            tables: Rows; key columns may be dictionaries of the schema's types.
            shape: What they look like.
            part: Which part of which batch they are.

        Raises:
            RunError: They could not be written.
        """

    def commit(self, batch_id: int) -> None:  # noqa: B027 - most need nothing
        """Hear that all parts of a batch are written; on the driver."""

    def read(self) -> pl.DataFrame:
        """The rows written so far.

        Raises:
            InputError: This sink is not read back.
        """
        raise InputError(
            f"{type(self).__name__} is not read back here: ask where it writes to, or add a second "
            "sink, such as a folder"
        )


def plain(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Rows with the very types of the schema, dictionaries of key columns replaced."""
    return pa.table(
        [column.cast(field.type) for column, field in zip(table.columns, schema, strict=True)],
        schema=schema,
    )
