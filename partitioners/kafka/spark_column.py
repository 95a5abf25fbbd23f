"""A `partition` column for Spark's Kafka sink, which sends a row where that column says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from partitioners import create
from partitioners.errors import InputError, nearest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PARTITION_COLUMN = "partition"


def with_partition(
    df: DataFrame,
    partitioner_name: str,
    num_partitions: int,
    key_column: str = "key",
    options: Mapping[str, Any] | None = None,
    *,
    timestamp_column: str | None = None,
) -> DataFrame:
    """Add the column `partition` that a partitioner chooses; works on streams too.

    Each Spark task is a source of its own: its partitioner starts with no load seen and routes
    the rows of that task. Candidates depend on key and seed alone, so tasks agree on them.

    Args:
        df: Rows with a key of binary or string.
        partitioner_name: A registered partitioner.
        num_partitions: Partitions of the topic written to.
        key_column: The column with the key.
        options: The partitioner's options.
        timestamp_column: A timestamp column with the event time, for partitioners with windows.

    Returns:
        The rows with an integer `partition` added, for `.write.format("kafka")`.

    Raises:
        InputError: The partitioner, an option or a column is unknown.

    Example:
        ```python
        with_partition(clicks, "pkg", 8).write.format("kafka").option("topic", "clicks").save()
        ```
    """
    from pyspark.sql.types import IntegerType, StructType

    settings = dict(options or {})
    create(partitioner_name, num_partitions, **settings)  # tells a wrong option here, not in a task
    for column in (key_column, *([timestamp_column] if timestamp_column else [])):
        if column not in df.columns:
            raise InputError(f'there is no column "{column}"; {nearest(column, df.columns)}')
    if PARTITION_COLUMN in df.columns:
        raise InputError(
            f'the rows have a column "{PARTITION_COLUMN}" already: drop or rename it first'
        )
    schema = StructType(list(df.schema.fields)).add(PARTITION_COLUMN, IntegerType(), False)

    def route(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        partitioner = create(partitioner_name, num_partitions, **settings)
        for batch in batches:
            times = None
            if timestamp_column is not None:
                column = batch.column(timestamp_column).cast(pa.timestamp("ms"), safe=False)
                times = column.cast(pa.int64()).to_numpy(zero_copy_only=False).astype(np.int64)
            chosen = partitioner.partition_batch(batch.column(key_column), times)
            yield pa.RecordBatch.from_arrays(
                [*batch.columns, pa.array(chosen, pa.int32())],
                names=[*batch.schema.names, PARTITION_COLUMN],
            )

    return df.mapInArrow(route, schema)
