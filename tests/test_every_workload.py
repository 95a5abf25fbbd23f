"""Every workload, cut anyhow, through every partitioner, gives what its oracle gives."""

from __future__ import annotations

import gzip
from functools import cache
from itertools import compress
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from workload_runs import run_workload

from partitioners import PARTITIONERS
from pipelines.text_input import LineChunk
from pipelines.workloads import WORKLOADS, create_workload

ALL = 10**6
FEW = 8


class Cut(NamedTuple):
    """Into what a stream is cut, and of how many lines it is made."""

    batch_records: int
    partitions: int
    shards: int
    num_lines: int


CUTS = (Cut(1, 1, 5, FEW), Cut(1_000, 3, 2, 1_010), Cut(ALL, 8, 1, 200))
WORDS_PER_LINE = 12
SETTINGS: dict[str, dict[str, Any]] = {
    # A word a second, so that windows of seconds close between few words.
    "wordcount": {"options": {"event_rate": 1}},
    "wordcount-topk": {"options": {"event_rate": 1}},
    # Fewer windows of many records, to be quick.
    "gcm-q2": {"slide_ms": 10_000},
    "clustering": {"slide_ms": 30_000},
}
CASES = [
    (name, cut, sorted(PARTITIONERS)[(len(CUTS) * i + j) % len(PARTITIONERS)])
    for i, name in enumerate(WORKLOADS)
    for j, cut in enumerate(CUTS)
]


@cache
def shipped_lines(name: str) -> list[str]:
    """What a workload ships, or a stream for the one that ships none."""
    shipped = create_workload(name).default_input
    if shipped is None:
        return [f"{i * 977},key-{i * i % 13},{i % 90 - 45}" for i in range(5_000)]
    with gzip.open(shipped, "rt", encoding="cp1252") as file:
        lines = [line for line in file.read().splitlines() if line]
    if name == "tpch-q3":
        # Few lines are of orders that the query asks for; keys are date|order|priority.
        keys = create_workload(name).parser().parse(LineChunk("", 1, lines)).table["key"]
        orders = {str(int(key.split(b"|")[1])) for key in keys.to_pylist()}
        fields = [line.split("|") for line in lines]
        asked = [each[0] in orders and each[10] > "1995-03-15" for each in fields]
        lines = list(compress(lines, asked))
    elif name == "tpch-q6":
        fields = [line.split("|") for line in lines]
        asked = [each[6] in ("0.05", "0.06", "0.07") and float(each[4]) < 24 for each in fields]
        lines = list(compress(lines, asked))
    return lines


def some_lines(name: str, num_lines: int) -> list[str]:
    """Few lines are from all over what is shipped, so that windows close between them."""
    lines = shipped_lines(name)
    if name.startswith("wordcount"):
        num_lines = -(-num_lines // WORDS_PER_LINE)
    step = len(lines) // num_lines if num_lines <= FEW else 1
    return lines[::step][:num_lines]


def test_every_partitioner_takes_part() -> None:
    assert {partitioner for _, _, partitioner in CASES} == set(PARTITIONERS)


@pytest.mark.parametrize(("name", "cut", "partitioner"), CASES)
def test_every_workload_is_exact_cut_anyhow(
    tmp_path: Path, name: str, cut: Cut, partitioner: str
) -> None:
    found = run_workload(
        name,
        tmp_path,
        lines=some_lines(name, cut.num_lines),
        partitioner=partitioner,
        partitions=cut.partitions,
        shards=cut.shards,
        batch_records=cut.batch_records,
        **SETTINGS.get(name, {}),
    )
    assert found.comparison.differences == []
    assert found.comparison.windows > 0
    assert found.report.produced > 0
    assert found.report.late == 0


@pytest.mark.parametrize("name", WORKLOADS)
def test_every_workload_is_exact_with_a_partition_held_back(tmp_path: Path, name: str) -> None:
    found = run_workload(
        name,
        tmp_path,
        lines=some_lines(name, 200),
        partitioner="shuffle",
        batch_records=90,
        held_back=1,
        **SETTINGS.get(name, {}),
    )
    assert found.comparison.differences == []
    assert found.comparison.windows > 0
    assert found.report.late == 0
