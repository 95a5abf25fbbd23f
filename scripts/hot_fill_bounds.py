"""What `hot_fill` would reach if every source knew the true shares, beside what it reaches.

    python scripts/hot_fill_bounds.py [--partitions 64] [--streams zipf,drift] [--seed 1]

*Known*: the same plan and the same levelling, by each source on its own records alone, but the
table of keys and the loads of all partitions hold the true shares before the first record, weigh so
much that no record changes them, and are replaced at the moment when the keys of a `drift` stream
change. What is left is chance, and what sources do not know of each other. *Told*: shares are
learned, but every source is told that moment and forgets at once. *Learned*: `hot_fill` as it is.
Where few keys are hot it can be more even than the first, for its plans follow the chance of the
last windows, at the price of more homes. Each cell: mean imbalance of windows of 60,000 records
that slide by 1,000, and fragmentation. One core, a minute of its time.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from partitioners.hashing import candidates
from partitioners.hot_drift import FIRST_PLAN_RECORDS
from partitioners.hot_fill import HotFill, HotFillConfig
from partitioners.hot_plan import LEAST_TOLERANCE, UNKNOWN_SIGMAS
from partitioners.hot_state import AGE, CHECK_AT, DUE_AT, NUM_DRIFTS, TOTAL, WAYS
from partitioners.metrics import fragmentation
from partitioners.simulation import measure_windows
from partitioners.stream_names import parse_stream
from partitioners.streams import Stream

STREAMS = "zipf:exponent=0.8,zipf:exponent=1.0,zipf:exponent=1.2,zipf,zipf:exponent=1.7,"
STREAMS += "zipf:exponent=2.0,uniform,one_hot,drift:exponent=1.0,drift"
SOURCES = (1, 4, 16)
PHASES = 10  # of a drift stream
WINDOW_MS, SLIDE_MS = 60_000, 1_000  # a record is a millisecond
WEIGHT = 1e9  # records that the true shares are worth

Begin = Callable[[HotFill, npt.NDArray[np.uint64]], None]


def config_of(num_partitions: int, num_sources: int, known: bool) -> HotFillConfig:
    """Plan as far above the mean as a source does that has seen two windows."""
    config = HotFillConfig(slide_ms=SLIDE_MS)
    if not known:
        return config
    tolerance = HotFill(num_partitions, config).tolerance
    records = config.memory_windows * WINDOW_MS / num_sources / num_partitions
    tolerance = max(
        tolerance - UNKNOWN_SIGMAS / math.sqrt(records), min(tolerance, LEAST_TOLERANCE)
    )
    return HotFillConfig(
        slide_ms=SLIDE_MS, tolerance=tolerance, drift_sigmas=0.0, memory_windows=1000.0
    )


def know(hot_fill: HotFill, key_hashes: npt.NDArray[np.uint64]) -> None:
    """Replace what is remembered by the shares of a phase; the next record makes a plan of it."""
    state = hot_fill._state
    keys, counts = np.unique(key_hashes, return_counts=True)
    shares = counts / len(key_hashes)
    homes = candidates(keys, 1, hot_fill.num_partitions)[:, 0]
    loads = np.bincount(homes, shares, hot_fill.num_partitions)
    state.first_loads[:] = loads * WEIGHT
    state.numbers[TOTAL] = WEIGHT
    for array in (state.counts, state.errors, state.planned_counts, state.guest_loads):
        array[:] = 0.0
    state.num_homes[:] = 0
    buckets = state.counts.size // WAYS
    used = np.zeros(buckets, np.int64)
    for key in np.argsort(-shares)[: state.counts.size]:
        bucket = int(keys[key]) * 0x9E3779B97F4A7C15 % (1 << 64) >> 32 & (buckets - 1)
        if used[bucket] < WAYS:
            slot = bucket * WAYS + used[bucket]
            state.key_hashes[slot] = keys[key]
            state.counts[slot] = state.planned_counts[slot] = shares[key] * WEIGHT
            used[bucket] += 1
    state.moments[AGE] = int(WEIGHT)
    state.moments[[DUE_AT, CHECK_AT]] = state.moments[0] + 1


def be_told(hot_fill: HotFill, _key_hashes: npt.NDArray[np.uint64]) -> None:
    """Forget at a change, as after the test for drift; at the start there is nothing to forget."""
    state = hot_fill._state
    if state.moments[AGE] == 0:
        return
    fresh = HotFill(hot_fill.num_partitions, hot_fill.config)._state
    drifts = state.moments[NUM_DRIFTS] + 1
    kept = ("clock", "loads", "load_ring", "window_loads", "recent_loads")
    for name, array in vars(fresh).items():
        if name not in kept:
            getattr(state, name)[...] = array
    state.moments[NUM_DRIFTS] = drifts
    first_plan = int(FIRST_PLAN_RECORDS * hot_fill.num_partitions)
    state.moments[[DUE_AT, CHECK_AT]] = first_plan


def route(
    stream: Stream, num_partitions: int, num_sources: int, begin: Begin | None, num_phases: int
) -> npt.NDArray[np.int32]:
    """Deal the records to sources in turn, and call `begin` where a phase begins."""
    partitions = np.empty(len(stream.ids), np.int32)
    config = config_of(num_partitions, num_sources, begin is know)
    for source in range(num_sources):
        hot_fill = HotFill(num_partitions, config)
        for phase in np.array_split(np.arange(len(stream.ids)), num_phases):
            rows = phase[source::num_sources]
            if begin is not None:
                begin(hot_fill, stream.key_hashes[phase])
            out = np.empty(len(rows), np.int32)
            hot_fill.route(stream.key_hashes[rows], stream.timestamps_ms[rows], out)
            partitions[rows] = out
    return partitions


def main() -> None:
    """Print a row for each stream and number of sources."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--partitions", type=int, default=64)
    parser.add_argument("--streams", default=STREAMS)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    print("| stream | sources | known | told | learned |\n|---|---|---|---|---|")
    for name in options.streams.split(","):
        stream = parse_stream(name, 1_000_000, options.seed).load()
        num_phases = PHASES if name.startswith("drift") else 1
        for num_sources in SOURCES:
            cells = []
            for begin in (know, be_told, None):
                if begin is be_told and num_phases == 1:
                    cells.append("")
                    continue
                out = route(stream, options.partitions, num_sources, begin, num_phases)
                windows = measure_windows(
                    stream.ids, out, stream.timestamps_ms, options.partitions,
                    window_ms=WINDOW_MS, slide_ms=SLIDE_MS,
                )  # fmt: skip
                split = fragmentation(stream.key_hashes, out, stream.timestamps_ms, WINDOW_MS)
                cells.append(f"{windows.imbalances.mean():.3f} / {split:.3f}")
            print(f"| {name} | {num_sources} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
