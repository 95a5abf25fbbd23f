"""The end of a batch on the driver, as other threads see it."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import pytest
from pyspark.sql import DataFrame

from pipelines.batch_sink import BatchSink
from pipelines.panes import Windows
from pipelines.punctuation import END_MS
from pipelines.sinks import ParquetSink, ResultWriter
from pipelines.summary import QuerySummary
from pipelines.workloads import KeyedSum

LAST = {
    "rows": 0,
    "on_time": 5,
    "late": 0,
    "partial_rows": 0,
    "state_calls": 1,
    "total_seconds": 0.1,
    "sink_seconds": 0.1,
    "live_keys": 0,
    "windows": [[]],
    "top": [],
    "partitions": [
        {"partition": 0, "dead": 0, "records": 5, "seconds": 0.1, "watermark_ms": END_MS}
    ],
}


class Batch:
    """A frame of Spark's whose one shard has heard the end of the one topic partition."""

    def mapInArrow(self, *_: Any) -> Batch:  # noqa: N802 - Spark's name
        return self

    def collect(self) -> list[dict[str, Any]]:
        return [{"shard": 0, "summary": json.dumps(LAST), "runs": None}]


def test_the_end_is_not_told_before_the_number_of_its_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A query was stopped before Spark had committed its last batch, where its end was heard while
    # the number was still that of the batch before.
    writer = ResultWriter((ParquetSink(tmp_path),), KeyedSum(), (Windows(10, 10),), "all", 1, False)
    sink = BatchSink(writer, tmp_path, None)
    assert sink.end_batch(1) is None
    added, go_on = threading.Event(), threading.Event()
    add = QuerySummary.add

    def slow_add(summary: QuerySummary, *args: Any) -> None:
        add(summary, *args)
        added.set()
        assert go_on.wait(10)

    monkeypatch.setattr(QuerySummary, "add", slow_add)
    with ThreadPoolExecutor() as threads:
        writing = threads.submit(sink, cast(DataFrame, Batch()), 0)
        assert added.wait(10)
        told = threads.submit(sink.end_batch, 1)
        with pytest.raises(TimeoutError):
            told.result(0.2)
        go_on.set()
        writing.result(10)
        assert told.result(10) == 0
    assert sink.end_batch(2) is None
