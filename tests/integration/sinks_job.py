"""A query of the tests as a program of its own, for `kill -9`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pipelines
from pipelines.engine import RunningQuery

SIZE_MS, SLIDE_MS = 6_000, 1_000


def start(bootstrap: str, topic: str, folder: Path, postgres: str, **more: Any) -> RunningQuery:
    """Start the query: to a folder, a topic and a table at once."""
    return pipelines.run(
        pipelines.Topic(name=topic, bootstrap=bootstrap, time="ts", decimals={"price": 2}),
        key="user",
        aggregates=[pipelines.Sum("spent", "price"), pipelines.Mean("mean", "price")],
        windows=pipelines.Windows(SIZE_MS, SLIDE_MS),
        sink=[
            folder / "results",
            pipelines.KafkaSink(f"{topic}-results", bootstrap, num_partitions=2),
            pipelines.PostgresSink(postgres, "windows"),
        ],
        dead_letters=f"{topic}-dead",
        batch_records=500,
        **more,
    )


if __name__ == "__main__":
    _, bootstrap_, topic_, folder_, postgres_ = sys.argv
    start(bootstrap_, topic_, Path(folder_), postgres_).await_end()
