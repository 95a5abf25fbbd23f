"""The streams of `keyspread bench workloads`, and its comparison of results."""

from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from pipelines.benchmark.workload_streams import (
    Grows,
    RepeatedInput,
    TextGcmQ2,
    TextTpchQ1,
    TextValues,
)
from pipelines.benchmark.workloads import _cases, results_equal
from pipelines.text_input import InputLines
from pipelines.workloads.base import RECORDS
from pipelines.workloads.gcm import GcmQ2
from pipelines.workloads.tpch import TpchQ1


@pytest.mark.parametrize(
    ("workload", "grows"), [(TextGcmQ2(), "in time"), (TextTpchQ1(), "in density")]
)
def test_a_repeated_input_has_its_records_as_often_in_order(
    workload: TextValues, grows: Grows
) -> None:
    lines = InputLines((str(workload.default_input),), "auto", lambda _line: None)
    parser = workload.parser()
    once = pa.concat_tables([parser.parse(chunk).table for chunk in lines])
    chunks = list(RepeatedInput(workload, grows).chunks(2 * len(once)))
    table = pa.concat_tables(chunks).combine_chunks()
    assert table.schema == RECORDS
    keys, values = (pa.concat_arrays(table[name].chunks) for name in ("key", "value"))
    decoded = workload.decode(keys, values)
    assert decoded.good is None
    assert (np.diff(decoded.timestamp_ms) >= 0).all()
    assert decoded.timestamp_ms.tolist() == table["timestamp_ms"].to_pylist()
    assert sorted(keys.to_pylist()) == sorted(2 * once["key"].to_pylist())
    # The same values as the workload's own records have.
    plain = GcmQ2() if isinstance(workload, GcmQ2) else TpchQ1()
    own = plain.decode(*(pa.concat_arrays(once[name].chunks) for name in ("key", "value")))
    for name, column in decoded.columns.items():
        assert column.sum() == 2 * own.columns[name].sum()


def test_results_are_equal_up_to_the_last_window_of_the_other_side(tmp_path: Path) -> None:
    form = _cases()["wordcount"].form
    times = pl.Series([0, 1000, 2000]).cast(pl.Datetime("ms", "UTC"))
    ours = pl.DataFrame({"window_start": times, "word": ["a", "b", "a"], "count": [1, 2, 3]})
    ours = ours.with_columns(window_end=pl.col("window_start") + pl.duration(seconds=1))
    folder = tmp_path / "ours"
    folder.mkdir()
    ours.write_parquet(folder / "part.parquet")
    other = tmp_path / "other.parquet"

    def compared(frame: pl.DataFrame) -> bool | None:
        frame.with_columns(pl.col("window_start", "window_end").dt.replace_time_zone(None)).select(
            "count", "word", "window_end", "window_start"
        ).write_parquet(other)
        return results_equal(str(folder), [f"file://{other}"], form)

    assert compared(ours[:2]) is True
    assert compared(ours[1:2]) is False
    assert compared(ours[:2].with_columns(count=pl.col("count") + 1)) is False
    assert compared(ours[:2].with_columns(word=pl.lit("a"))) is False
    assert results_equal(str(folder), [], form) is None
