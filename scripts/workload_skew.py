"""The skew of each workload's keys on the data that ships, and what partitioners make of it.

    python scripts/workload_skew.py [WORKLOAD ...]

Prints a Markdown table: records, distinct keys, share of the top key; then, over eight partitions,
the imbalance and the fragmentation (partitions a key is on, within a window) of some partitioners.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from partitioners.metrics import imbalance
from pipelines.benchmark.parts import make_content, shipped_config
from pipelines.benchmark.replay import Replay
from pipelines.dead_letters import DeadLetters
from pipelines.punctuation import find_watermarks
from pipelines.workloads import WORKLOADS, create_workload

PARTITIONS = 8
NAMES = ("key_hash", "cam", "pkg", "w_choices", "dalton", "hot_fill")


class Nowhere:
    """Counts what a replay sends, by key."""

    def __init__(self) -> None:
        self.sent = 0
        self.keys: Counter[bytes | None] = Counter()

    def send(self, keys: pa.Array, values: pa.Array, partitions: npt.NDArray[np.int32]) -> None:
        """Count messages."""
        self.sent += len(partitions)
        records = find_watermarks(keys, values).positions
        kept = np.delete(np.arange(len(keys)), records)
        counted = pc.value_counts(keys.take(pa.array(kept)))
        self.keys.update(dict(zip(*(c.to_pylist() for c in counted.flatten()), strict=True)))

    def finish(self, *, stopped: bool) -> int:  # noqa: ARG002
        """Messages sent."""
        return self.sent


def main() -> None:
    """Print the table."""
    shipped = [name for name, kind in WORKLOADS.items() if kind.default_input]
    print(f"| workload | records | keys | top key | {' | '.join(NAMES)} |")
    print(f"|{'---|' * (4 + len(NAMES))}")
    for name in sys.argv[1:] or shipped:
        cells: list[str] = []
        first: list[str] = []
        for partitioner in NAMES:
            config = shipped_config("skew", name, partitioner, PARTITIONS)
            with (
                tempfile.TemporaryDirectory() as folder,
                DeadLetters(Path(folder) / "dead.jsonl") as dead,
            ):
                content = make_content(config)
                sent = [0] * PARTITIONS
                workload = create_workload(name)
                sender = Nowhere()
                report = Replay(config, workload, content, sender, dead, sent).run()
            uneven = float(imbalance(report.records_per_partition))
            cells.append(f"{uneven:.2f} / {report.spread.fragmentation:.2f}")
            top = max(sender.keys.values()) / report.produced
            first = [f"{report.produced:,}", f"{len(sender.keys):,}", f"{top:.2%}"]
        print(f"| `{name}` | {' | '.join([*first, *cells])} |", flush=True)


if __name__ == "__main__":
    main()
