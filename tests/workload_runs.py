"""A workload from its lines to the oracle's verdict: real replay and stages, lists for a topic."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from streams import Engine, Row

from pipelines.benchmark.parts import make_content, make_windows, make_workload
from pipelines.benchmark.prepare import RunConfig
from pipelines.benchmark.replay import Replay, ReplayReport
from pipelines.benchmark.verify import Comparison, verify
from pipelines.dead_letters import DeadLetters
from pipelines.workloads import create_workload


@dataclass
class TopicLists:
    """Takes what a replay sends."""

    partitions: list[list[Row]]
    order: list[int] = field(default_factory=list)  # the partition of each message

    def send(self, keys: pa.Array, values: pa.Array, partitions: npt.NDArray[np.int32]) -> None:
        self.order += partitions.tolist()
        rows = zip(partitions.tolist(), keys.to_pylist(), values.to_pylist(), strict=True)
        for partition, key, value in rows:
            self.partitions[partition].append((key, value))

    def finish(self, *, stopped: bool) -> int:  # noqa: ARG002  nothing is under way here
        return len(self.order)


@dataclass
class Outcome:
    """What a run gave; its Parquet files are in `folder`."""

    comparison: Comparison
    report: ReplayReport
    folder: Path
    dead: list[dict[str, Any]]

    def table(self, columns: str = "*") -> list[tuple[Any, ...]]:
        """The rows of the results by window and key, windows in milliseconds."""
        with duckdb.connect() as connection:
            connection.execute("SET TimeZone = 'UTC'")
            return connection.execute(
                f"SELECT {columns} FROM (SELECT *, epoch_ms(window_start) AS start_ms "
                f"FROM '{self.folder}/*.parquet') ORDER BY ALL"
            ).fetchall()


def run_workload(
    name: str,
    folder: Path,
    *,
    inputs: Sequence[Path] = (),
    lines: Sequence[str] = (),
    partitioner: str = "key_hash",
    partitions: int = 3,
    shards: int = 2,
    batch_records: int = 5_000,
    held_back: int | None = None,
    options: dict[str, Any] | None = None,
    **settings: Any,
) -> Outcome:
    """Run a workload over files, given lines, or what it ships, and ask its oracle.

    A partition held back is read when all of the others has been.
    """
    workload = create_workload(name, **(options or {}))
    if lines:
        inputs = [folder / "lines.txt"]
        inputs[0].write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    elif not inputs:
        assert workload.default_input is not None
        inputs = [workload.default_input]
    settings = {
        "window_ms": workload.default_window_ms,
        "slide_ms": workload.default_slide_ms,
        **settings,
    }
    config = RunConfig(
        run_id="test",
        workload=name,
        workload_options=options or {},
        inputs=tuple(map(str, inputs)),
        partitioner=partitioner,
        partitions=partitions,
        shards=shards,
        **settings,
    )
    config.check()
    topic = TopicLists([[] for _ in range(partitions)])
    with DeadLetters(folder / "dead.jsonl") as dead:
        nothing_sent = [0] * partitions
        content = make_content(config)
        report = Replay(config, make_workload(config), content, topic, dead, nothing_sent).run()
    results = folder / "results"
    engine = Engine(
        workload, make_windows(config), results, partitions, shards, config.emit, config.top
    )
    order = np.array(topic.order)
    waits = order == held_back
    at = [0] * partitions
    for messages in (order[~waits], order[waits]):
        for low in range(0, len(messages), batch_records):
            arrived = np.bincount(messages[low : low + batch_records], minlength=partitions)
            ends = [begin + int(count) for begin, count in zip(at, arrived, strict=True)]
            parts = zip(topic.partitions, at, ends, strict=True)
            engine.batch([rows[begin:end] for rows, begin, end in parts])
            at = ends
        if held_back is not None and not at[held_back]:
            assert engine.summary.windows == 0, "no window closes before all partitions are there"
    comparison = verify(config, workload, results, report, engine.summary)
    letters = dead.path.read_text().splitlines() if dead.count else []
    return Outcome(comparison, report, results, [json.loads(line) for line in letters])
