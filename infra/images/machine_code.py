"""Has Numba compile what every run needs, so that no cell of a stack waits for it.

Numba keeps machine code in NUMBA_CACHE_DIR, by source file and by processor: where the images run
on another kind than they were built on, what a run needs is compiled as it would be without this.
All is done in one process, for Numba's files have no lock.
"""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from partitioners import PARTITIONERS
from pipelines.benchmark.parts import make_content, make_workload, shipped_config
from pipelines.benchmark.replay import Replay
from pipelines.dead_letters import DeadLetters
from pipelines.source.messages import Rows
from pipelines.workloads import WORKLOADS

NUM_PARTITIONS = 4
NUM_SOURCES = (1, 2)


class Nowhere:
    """A producer that delivers everything, to nobody."""

    def __init__(self) -> None:
        self._num_messages = 0

    def send(self, keys: pa.Array, values: pa.Array, partitions: npt.NDArray[np.int32]) -> None:
        """See `Sender`."""
        del keys, values
        self._num_messages += len(partitions)

    def finish(self, *, stopped: bool) -> int:
        """See `Sender`."""
        del stopped
        return self._num_messages


def replay(workload_name: str, partitioner: str, num_sources: int) -> None:
    """Do what a run does with its records before they go to Kafka."""
    config = shipped_config("compiled", workload_name, partitioner, NUM_PARTITIONS)
    config = replace(config, sources=num_sources)
    workload = make_workload(config)
    with tempfile.TemporaryDirectory() as scratch, DeadLetters(Path(scratch, "dead")) as dead:
        content = make_content(config)
        Replay(config, workload, content, Nowhere(), dead, [0] * NUM_PARTITIONS).run()


def main() -> None:
    """Compile."""
    for partitioner in PARTITIONERS:
        for num_sources in NUM_SOURCES:
            replay("wordcount", partitioner, num_sources)
    for name, workload in WORKLOADS.items():
        if workload.default_input is not None:
            replay(name, "key_hash", 1)
    # What a combiner does with the records that it has fetched: there are none.
    Rows(0, 1).add(np.empty(0, np.int64), 0)


if __name__ == "__main__":
    main()
