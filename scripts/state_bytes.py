"""What a finer slide costs: state bytes of a sum, and combines of an aggregate without `deduct`.

    python scripts/state_bytes.py [--records 300000] [--size "30 min"] [--slides "1 min" "1 s" ..]

One hour of Zipf(1.4) keys, 10,000 of them, through combiner and reducer in this one process, in one
shard and batches of a sixth of the stream. Bytes are those of the state store after the batch after
which they are most. Combines are elements of `combine` in the reducer, for each partial it got.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from pipelines.aggregates import Sum
from pipelines.benchmark.aggregates import CountedMax, DictStore, stages_of, zipf_batches
from pipelines.panes import Windows

SLIDES = ("30 min", "5 min", "1 min", "10 s", "1 s")


@dataclass(frozen=True)
class SlideCost:
    """What one slide costs.

    Attributes:
        partials: Rows from the combiner, a pane and a key each.
        peak_bytes: State bytes of `sum`.
        combines_per_partial: Elements combined by the reducer, by partials.
    """

    partials: int
    peak_bytes: int
    combines_per_partial: float


def slide_cost(batches: Sequence[pa.RecordBatch], windows: Windows) -> SlideCost:
    """Run a stream twice: a sum for the bytes, a counted maximum for the combines."""
    counted = CountedMax("most")
    partials = peak = combines = 0
    for aggregate in (Sum("total", "x"), counted):
        combiner, reducer = stages_of(aggregate, windows)
        store = DictStore()
        for batch in batches:
            rows = list(combiner.run([batch]))
            counted.combined.clear()
            reducer.process(store, rows)
            if aggregate is counted:
                combines += sum(counted.combined)
            else:
                partials += json.loads(rows[0].progress)["partial_rows"]
                peak = max(peak, store.num_bytes)
    return SlideCost(partials, peak, combines / partials)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=300_000)
    parser.add_argument("--size", default="30 min")
    parser.add_argument("--slides", nargs="*", default=SLIDES)
    given = parser.parse_args()
    batches = zipf_batches(given.records, -(-given.records // 6))
    print("| slide | size / slide | partials | peak state bytes | combines a partial |")
    print("|---|---|---|---|---|")
    for slide in given.slides:
        windows = Windows.of(given.size, slide)
        cost = slide_cost(batches, windows)
        print(
            f"| {slide} | {windows.size_ms // windows.slide_ms:,} | {cost.partials:,} "
            f"| {cost.peak_bytes:,} | {cost.combines_per_partial:.1f} |"
        )


if __name__ == "__main__":
    main()
