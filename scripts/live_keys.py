"""How much memory a reducer takes that holds millions of live keys.

    python scripts/live_keys.py [--keys 2000000]

Sums over windows of 60 minutes that slide by one, in one shard: each key comes once within 45
minutes, in an order drawn at random, and then the first half million come again while all are live.
Combiner and reducer work in this one process, in batches of 500,000 records; Kafka and Spark are
left out.
"""

from __future__ import annotations

import argparse
import resource
import time

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.aggregates import Sum
from pipelines.benchmark.aggregates import HOUR_MS, DictStore, stages_of
from pipelines.panes import Windows
from pipelines.punctuation import encode_watermark

BATCH = 500_000
# Of the first `--keys` records; those after them come within the hour too, so that no key leaves.
SPAN_MS = HOUR_MS * 3 // 4


def text(numbers: npt.NDArray[np.int64]) -> pa.Array:
    """Decimal digits."""
    return pa.array(numbers).cast(pa.string())


def record_batch(ids: npt.NDArray[np.int64], times_ms: npt.NDArray[np.int64]) -> pa.RecordBatch:
    """Records `ts,-,x` of these keys, and the watermark of the last."""
    keys = pc.binary_join_element_wise("user-", text(ids), "").cast(pa.binary())
    values = pc.binary_join_element_wise(text(times_ms), "-", text(ids % 100), ",")
    mark = pa.array([encode_watermark(int(times_ms[-1]))], pa.binary())
    return pa.RecordBatch.from_pydict(
        {
            "key": pa.concat_arrays([keys, pa.nulls(1, pa.binary())]),
            "value": pa.concat_arrays([values.cast(pa.binary()), mark]),
            "partition": pa.array(np.zeros(len(ids) + 1, np.int32)),
        }
    )


def main() -> None:
    """Print a line for each batch."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keys", type=int, default=2_000_000)
    num_keys = parser.parse_args().keys
    combiner, reducer = stages_of(Sum("total", "x"), Windows.of("60 min", "1 min"), "changed")
    store = DictStore()
    order = np.random.default_rng(1).permutation(num_keys)
    for low in range(0, num_keys + BATCH, BATCH):
        number = np.arange(low, low + BATCH)
        batch = record_batch(order[number % num_keys], number * SPAN_MS // num_keys)
        started = time.process_time()
        rows = list(combiner.run([batch]))
        combined = time.process_time()
        output = reducer.process(store, rows)
        reduced = time.process_time()
        peak_gb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9
        print(
            f"{low + BATCH:,} records, {output.summary['live_keys']:,} live keys: "
            f"combine {combined - started:.2f} s, reduce {reduced - combined:.2f} s of processor "
            f"time, state {store.num_bytes / 1e6:.0f} MB, peak of the process {peak_gb:.2f} GB"
        )


if __name__ == "__main__":
    main()
