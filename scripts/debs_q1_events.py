"""How many trips a second Query 1 of DEBS 2015 takes per event, reduce side: order, top ten, lines.

    python scripts/debs_q1_events.py [--trips 2000000] [--partitions 8]

Routes are drawn from the hour that ships, at the mean rate of 2013 (330 trips a minute), and dealt
to partitions at random.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import pyarrow as pa

from pipelines.punctuation import encode_watermark
from pipelines.text_input import read_chunks
from pipelines.workloads.debs_q1 import DebsQ1, TripParser
from pipelines.workloads.debs_q1_events import FrequentRoutes, InOrder, official_lines
from pipelines.workloads.fields import write_int64s

BATCH = 100_000
TRIPS_PER_MINUTE = 330


def batches(trips: int, partitions: int) -> list[list[tuple[pa.Array, pa.Array]]]:
    """New rows of each partition, batch by batch, each ended by a watermark."""
    assert DebsQ1.default_input is not None
    chunks = read_chunks(DebsQ1.default_input, lambda _line: None)
    keys = pa.concat_arrays([TripParser().parse(c).table["key"].combine_chunks() for c in chunks])
    draw = np.random.default_rng(1)
    routes = keys.take(pa.array(draw.integers(0, len(keys), trips)))
    times = np.arange(trips) * 60_000 // TRIPS_PER_MINUTE // 1000 * 1000
    values = write_int64s(times, np.arange(trips), times - 600_000)
    out = []
    for low in range(0, trips, BATCH):
        rows = np.arange(low, min(low + BATCH, trips))
        target = draw.integers(0, partitions, len(rows))
        mark = pa.array([encode_watermark(int(times[rows[-1]]))], pa.binary())
        out.append(
            [
                (
                    pa.concat_arrays([routes.take(pa.array(mine)), pa.nulls(1, pa.binary())]),
                    pa.concat_arrays([values.take(pa.array(mine)), mark]),
                )
                for mine in (rows[target == p] for p in range(partitions))
            ]
        )
    return out


def main() -> None:
    """Measure, and print one line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trips", type=int, default=2_000_000)
    parser.add_argument("--partitions", type=int, default=8)
    given = parser.parse_args()
    rows = batches(given.trips, given.partitions)
    FrequentRoutes().add(np.zeros(1, np.int64), pa.array([b"1.1-1.1"]))
    order, routes, lines, done = InOrder(given.partitions), FrequentRoutes(), 0, 0
    started, cpu = time.perf_counter(), time.process_time()
    for batch in rows:
        (times, _, pickups), names = order.take(batch)
        at, tops = routes.add(times, names)
        lines += sum(1 for _ in official_lines(routes.names, pickups[at], times[at], tops))
        done += len(times)
    seconds = time.perf_counter() - started
    cpu = time.process_time() - cpu
    print(f"{done:,} trips, {lines:,} lines, {seconds:.1f} s: {done / seconds:,.0f} trips/s;")
    print(f"{cpu:.1f} s of processor time: {done / cpu:,.0f} trips/s")


if __name__ == "__main__":
    main()
