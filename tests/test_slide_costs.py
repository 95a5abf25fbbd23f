"""What a finer slide may cost: no state bytes of its own, and a bounded number of combines."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from pipelines.aggregates import Aggregate, Max, Sum
from pipelines.benchmark.aggregates import CountedMax, DictStore, stages_of, zipf_batches
from pipelines.panes import Windows
from pipelines.punctuation import encode_watermark

SLIDES = ("1 min", "10 s", "1 s", "100 ms")
MOST_COMBINES = 10


def rounds_of_keys(num_keys: int, num_rounds: int, round_ms: int) -> list[pa.RecordBatch]:
    """Each key once a round, so that panes up to a round hold one record of a key at most."""
    batches = []
    for first in range(0, num_rounds * num_keys, 5 * num_keys):
        number = np.arange(first, first + 5 * num_keys)
        times = (number * round_ms // num_keys).tolist()
        keys = [b"key-%d" % key for key in (number % num_keys).tolist()]
        values = [b"%d,-,%d" % (time, time % 97) for time in times]
        rows = {
            "key": pa.array([*keys, None], pa.binary()),
            "value": pa.array([*values, encode_watermark(times[-1])], pa.binary()),
            "partition": pa.array(np.zeros(len(times) + 1, np.int32)),
        }
        batches.append(pa.RecordBatch.from_pydict(rows))
    return batches


@pytest.mark.parametrize("aggregate", [Sum("total", "x"), Max("most", "x")])
def test_state_bytes_follow_partials_and_not_the_number_of_windows(aggregate: Aggregate) -> None:
    batches = rounds_of_keys(num_keys=200, num_rounds=45, round_ms=60_000)
    peaks, partials = [], set()
    for slide in SLIDES:
        combiner, reducer = stages_of(aggregate, Windows.of("30 min", slide), "changed")
        store = DictStore()
        peak = num_partials = 0
        for batch in batches:
            rows = list(combiner.run([batch]))
            num_partials += reducer.process(store, rows).summary["partial_rows"]
            peak = max(peak, store.num_bytes)
        peaks.append(peak)
        partials.add(num_partials)
    assert partials == {9_000}, "each record is a pane and key of its own at every slide"
    # 30 to 18,000 windows overlap.
    assert max(peaks) < 1.1 * min(peaks)


@pytest.mark.parametrize("slide", ["30 min", "5 min", "1 min", "10 s", "1 s"])
def test_combines_for_each_partial_do_not_grow_with_the_number_of_windows(slide: str) -> None:
    counted = CountedMax("most")
    combiner, reducer = stages_of(counted, Windows.of("30 min", slide))
    store = DictStore()
    partials = combines = 0
    for batch in zipf_batches(30_000, 5_000):
        rows = list(combiner.run([batch]))
        counted.combined.clear()
        partials += reducer.process(store, rows).summary["partial_rows"]
        combines += sum(counted.combined)
    assert partials > 3_000
    assert partials < combines < MOST_COMBINES * partials
