"""Streams of workloads as large as asked for, made of the data that ships, with values as text.

A topic's values are the decimal integers that the workload's parser found, with commas between
(event time first), so that Spark's SQL can read the topic that we read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from pipelines.text_input import InputLines
from pipelines.workloads.base import RECORDS, Decoded, Workload
from pipelines.workloads.fields import read_int64s, read_integers, write_int64s
from pipelines.workloads.gcm import GcmQ2
from pipelines.workloads.tpch import TpchQ1
from pipelines.workloads.wordcount import WordCount

Int64s = npt.NDArray[np.int64]
Grows = Literal["in time", "in density"]
RECORDS_PER_CHUNK = 250_000


class TextValues(Workload):
    """A workload whose values are text; comes before the workload in the order of bases.

    Attributes:
        width: Integers of a value.
    """

    width: ClassVar[int]

    def decode(self, keys: pa.Array, values: pa.Array) -> Decoded:
        """See `Query`."""
        columns, good = read_integers(values, self.width)
        decoded = super().decode(keys, write_int64s(*columns))  # type: ignore[safe-super]
        return Decoded(decoded.timestamp_ms, decoded.columns, good)


class TextGcmQ2(TextValues, GcmQ2):
    """`gcm-q2` of text."""

    width: ClassVar[int] = 2


class TextTpchQ1(TextValues, TpchQ1):
    """`tpch-q1` of text."""

    width: ClassVar[int] = 5


class TextWordCount(TextValues, WordCount):
    """`wordcount` of text."""

    width: ClassVar[int] = 1


@dataclass(frozen=True)
class RepeatedInput:
    """The data that ships with a workload, over and over.

    Attributes:
        workload: Whose.
        grows: "in time": the repetitions follow each other; "in density": at the same time, each
            record as often as there are repetitions.
    """

    workload: TextValues
    grows: Grows

    def chunks(self, num_records: int) -> Iterator[pa.Table]:
        """Records in the order of event time, of schema `RECORDS`, so many in all."""
        keys, columns = self._records()
        times = columns[0]
        size = len(times)
        span = int(times[-1] - times[0]) + 1
        repetitions = -(-num_records // size)
        for low in range(0, num_records, RECORDS_PER_CHUNK):
            place = np.arange(low, min(low + RECORDS_PER_CHUNK, num_records))
            if self.grows == "in time":
                row, shift = place % size, place // size * span
            else:
                row, shift = place // repetitions, np.zeros(len(place), dtype=np.int64)
            timestamps = times[row] + shift
            numbers = [timestamps, *(column[row] for column in columns[1:])]
            text = pl.DataFrame([pl.Series(str(i), each) for i, each in enumerate(numbers)]).select(
                pl.concat_str(pl.all(), separator=",")
            )
            values = text.to_series().to_arrow().cast(pa.binary())
            yield pa.table([timestamps, keys.take(pa.array(row)), values], schema=RECORDS)

    def _records(self) -> tuple[pa.Array, list[Int64s]]:
        """All records of the input in the order of their event times: keys and columns."""
        parser = self.workload.parser()
        lines = InputLines(
            (str(self.workload.default_input),), self.workload.default_encoding, lambda _line: None
        )
        table = pa.concat_tables([parser.parse(chunk).table for chunk in lines]).combine_chunks()
        columns, _ = read_int64s(_whole(table["value"]), self.workload.width)
        order = np.argsort(columns[0], kind="stable")
        return _whole(table["key"]).take(pa.array(order)), [each[order] for each in columns]


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return pa.concat_arrays(column.chunks)
