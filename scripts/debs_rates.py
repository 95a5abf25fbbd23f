"""How many trips a second DEBS 2015 takes: combine and reduce, from record bytes to rows.

    python scripts/debs_rates.py [q1-per-event | q1 | q2] [--trips 1000000] [--partitions 8]

The hour that ships, over and over, parsed beforehand, through the engine's combiner and reducer in
this one process: Kafka, Spark and sinks are left out, as in `keyspread bench aggregates`. Times are
shifted by an hour and a half for every repetition, so windows of 30 minutes run empty in between.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
import pyarrow as pa

from pipelines.benchmark.aggregates import DictStore
from pipelines.combine import Combiner
from pipelines.events import EventReducer, PerEvent
from pipelines.panes import Windows
from pipelines.plan import WindowPlan
from pipelines.punctuation import END_MS, encode_watermark
from pipelines.reduce import ShardReducer
from pipelines.text_input import read_chunks
from pipelines.workloads import create_workload
from pipelines.workloads.base import Workload
from pipelines.workloads.fields import read_int64s, write_int64s

BATCH = 250_000
SHIFT_MS = 5_400_000
FORMS: dict[str, tuple[str, dict[str, Any], int]] = {
    "q1-per-event": ("debs-q1", {"per_event": True}, 3),
    "q1": ("debs-q1", {}, 2),
    "q2": ("debs-q2", {}, 5),
}
TRIPS_PER_HOUR = 10_614


def records(workload: Workload, width: int, repetitions: int) -> pa.Table:
    """Records of so many hours, one after the other."""
    assert workload.default_input is not None
    parser = workload.parser()
    chunks = list(read_chunks(workload.default_input, lambda _line: None))
    table = pa.concat_tables([parser.parse(chunk).table for chunk in chunks]).combine_chunks()
    columns, _ = read_int64s(pa.concat_arrays(table["value"].chunks), width)
    hours, numbers = [], int(columns[-1].max()) + 1
    for i in range(repetitions):
        moved = list(columns)
        moved[0] = columns[0] + i * SHIFT_MS
        if workload.name == "debs-q1":
            moved[1] = columns[1] + i * numbers
        if width == 3:
            moved[2] = columns[2] + i * SHIFT_MS
        hours.append(
            pa.table({"time": moved[0], "key": table["key"], "value": write_int64s(*moved)})
        )
    return pa.concat_tables(hours).combine_chunks()


def main() -> None:
    """Measure, and print one line for each form."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("forms", nargs="*", default=list(FORMS))
    parser.add_argument("--trips", type=int, default=1_000_000)
    parser.add_argument("--partitions", type=int, default=8)
    given = parser.parse_args()
    for form in given.forms:
        name, options, width = FORMS[form]
        workload = create_workload(name, **options)
        repetitions = -(-given.trips // TRIPS_PER_HOUR)
        table = records(workload, width, repetitions)
        # One pass to compile and load what is compiled.
        run(workload, table.slice(0, 30_000), given.partitions)
        cpu = time.process_time()
        combine, reduce_, rows = run(workload, table, given.partitions)
        cpu = time.process_time() - cpu
        trips, seconds = repetitions * TRIPS_PER_HOUR, combine + reduce_
        print(
            f"{form}: {trips:,} trips, {len(table):,} records, {rows:,} rows of results before "
            f"windows are written out; combine {combine:.2f} s + reduce {reduce_:.2f} s: "
            f"{trips / seconds:,.0f} trips/s, {trips / cpu:,.0f} per second of processor time "
            "(dealing the records to partitions included)"
        )


def run(workload: Workload, table: pa.Table, partitions: int) -> tuple[float, float, int]:
    """Seconds of combiners and reducer, and runs that came out."""
    reducer: Any
    plan: Any
    if workload.per_event:
        plan = PerEvent(workload.default_window_ms)
        reducer = EventReducer(workload.aggregates, plan, partitions)
    else:
        windows = Windows(workload.default_window_ms, workload.default_slide_ms)
        plan = WindowPlan.of(windows, workload.aggregates)
        reducer = ShardReducer(workload.aggregates, plan, partitions, "top", 10)
    combiner, store = Combiner(workload, plan, 1), DictStore()
    targets = np.random.default_rng(1).integers(0, partitions, len(table))
    combine = reduce_ = 0.0
    blobs = 0
    for low in range(0, len(table), BATCH):
        part = table.slice(low, BATCH)
        end = low + BATCH >= len(table)
        mark = END_MS if end else int(part["time"][-1].as_py()) // 60_000 * 60_000
        batches = []
        for partition in range(partitions):
            mine = pa.array(np.flatnonzero(targets[low : low + BATCH] == partition))
            keys, values = (
                pa.concat_arrays(part[column].take(mine).chunks) for column in ("key", "value")
            )
            tail = pa.array([encode_watermark(mark)], pa.binary())
            columns = {
                "key": pa.concat_arrays([keys, pa.nulls(1, pa.binary())]),
                "value": pa.concat_arrays([values, tail]),
                "partition": pa.array(np.full(len(keys) + 1, partition, np.int32)),
            }
            batches.append(pa.RecordBatch.from_pydict(columns))
        started = time.perf_counter()
        rows = [row for batch in batches for row in combiner.run([batch])]
        combined = time.perf_counter()
        output = reducer.process(store, rows)
        reduce_ += time.perf_counter() - combined
        combine += combined - started
        blobs += sum(pa.ipc.open_stream(blob).read_all().num_rows for blob in output.blobs)
    return combine, reduce_, blobs


if __name__ == "__main__":
    main()
