"""What key forwarding could save: the parts of the reducer's addition of changes, timed.

One shard gets the changes of a batch: 1M records of Zipf(1.4) over 10,000 keys and 30 panes, dealt
to 8 partitions by `dalton`; every partial enters a window and leaves another. Prints milliseconds
of processor time, the best of ten. See docs/decisions/0010-key-forwarding.md.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from partitioners import create
from partitioners.streams import zipf
from pipelines.lookup import differs, order_of

NUM_RECORDS, NUM_PANES, PARTITIONS, WINDOW_PANES = 1_000_000, 30, 8, 10
STATE_COLUMNS = 3  # a count, and a sum of two halves


def best_ms(part: Callable[[], object]) -> float:
    """The least processor time of ten calls, ms."""
    found = []
    for _ in range(10):
        started = time.process_time()
        part()
        found.append(time.process_time() - started)
    return 1e3 * min(found)


def main() -> None:
    """Print the table."""
    stream = zipf(NUM_RECORDS, 10_000, 1.4)
    partition = create("dalton", PARTITIONS).partition_batch(stream.keys, stream.timestamps_ms)
    pane = np.arange(NUM_RECORDS) * NUM_PANES // NUM_RECORDS
    cells = (pane * PARTITIONS + partition) * 10_000 + stream.ids
    partial, counts = np.unique(cells, return_counts=True)
    key, pane = partial % 10_000, partial // 10_000 // PARTITIONS
    key = np.concatenate([key, key])
    window = np.concatenate([pane - WINDOW_PANES + 1, pane + 1])
    delta = np.tile(np.concatenate([counts, -counts]), (STATE_COLUMNS, 1))
    order = order_of(key, window)
    at = np.flatnonzero(differs(key[order], window[order]))
    moved = delta[:, order]
    alone = np.diff(np.append(at, len(order))) == 1
    parts = {
        "order the changes": lambda: order_of(key, window),
        "copy the rows": lambda: [row[order] for row in delta],
        "add up": lambda: [np.add.reduceat(row, at) for row in moved],
    }
    print(f"{len(order):,} changes, {alone.mean():.0%} of {len(at):,} sums are of one change")
    for name, part in parts.items():
        print(f"{name:20} {best_ms(part):6.1f} ms")


if __name__ == "__main__":
    main()
