"""Correlation clustering: the compiled algorithms against loops, and windows against the oracle."""

import gzip
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from odd_lines import CASES
from workload_runs import run_workload

from partitioners.errors import InputError, RunError
from pipelines.datasets.synthetic import PEOPLE_STREAM, prepare_synthetic
from pipelines.workloads import create_workload
from pipelines.workloads.clustering import (
    Clusters,
    naive_greedy,
    naive_result,
    naive_vote,
)

NAIVE = {"vote": naive_vote, "greedy": naive_greedy}


def person(codes: list[int]) -> int:
    out = 0
    for code in codes:
        out = out << 15 | code
    return out


@pytest.mark.parametrize("algorithm", ["vote", "greedy"])
@pytest.mark.parametrize("least_equal", [1, 2, 3, 4])
def test_clusters_are_those_of_plain_loops(algorithm: str, least_equal: int) -> None:
    differing = set()
    for seed in range(30):
        draw = np.random.default_rng(seed)
        # Few codes, so that who is alike is seldom transitive, and records repeat.
        people = sorted(draw.integers(0, 3, (draw.integers(0, 26), 4)).tolist())
        values = np.array([person(codes) for codes in people], dtype=np.int64)
        wanted = naive_result(people, least_equal, NAIVE[algorithm])
        aggregate = Clusters("c", "person", algorithm=algorithm, least_equal=least_equal)
        assert list(aggregate.compute(values)) == wanted
        differing.add(tuple(wanted))
    assert len(differing) > 5


def test_the_two_algorithms_are_two() -> None:
    people = sorted(np.random.default_rng(0).integers(0, 3, (25, 4)).tolist())
    results = [naive_result(people, 2, cluster) for cluster in NAIVE.values()]
    assert results[0] != results[1]


@pytest.mark.parametrize("partitioner", ["key_hash", "pkg", "dalton"])
@pytest.mark.parametrize("emit", ["all", "changed", "top"])
def test_odd_lines_are_exact(tmp_path: Path, partitioner: str, emit: str) -> None:
    lines = [line for line, _ in CASES["clustering"]]
    settings = {"batch_records": 3, "emit": emit, "punctuation_records": 1}
    found = run_workload("clustering", tmp_path, lines=lines, partitioner=partitioner, **settings)
    assert found.comparison.differences == []
    assert found.report.late == 1
    assert len(found.dead) == sum(bool(reason) for _, reason in CASES["clustering"])


@pytest.mark.parametrize(
    ("algorithm", "partitions", "shards", "batch_records"),
    [("vote", 1, 5, 50), ("vote", 8, 2, 700), ("greedy", 3, 1, 100_000)],
)
def test_people_are_exact_cut_anyhow(
    tmp_path: Path, algorithm: str, partitions: int, shards: int, batch_records: int
) -> None:
    shipped = create_workload("clustering").default_input
    assert shipped is not None
    with gzip.open(shipped, "rt") as file:
        lines = file.read().splitlines()[:600]
    found = run_workload(
        "clustering",
        tmp_path,
        lines=lines,
        partitioner="shuffle",
        partitions=partitions,
        shards=shards,
        batch_records=batch_records,
        options={"algorithm": algorithm, "least_equal": 2},
    )
    assert found.comparison.differences == []
    assert found.report.produced == 600
    assert found.comparison.windows > 15


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(InputError, match='did you mean "greedy"'):
        create_workload("clustering", algorithm="greedi")
    with pytest.raises(InputError, match="least_equal must be from 1 to 4"):
        create_workload("clustering", least_equal=5)
    with pytest.raises(RunError, match=r"20,001 records in one window.*shorter window"):
        Clusters("c", "person").compute(np.zeros(20_001, dtype=np.int64))


def test_synthetic_people_have_the_papers_skew(tmp_path: Path) -> None:
    folder = prepare_synthetic(PEOPLE_STREAM, 20_000, tmp_path / "out", lines="people")
    with gzip.open(folder.path / "part-00000.csv.gz", "rt") as file:
        rows = [line.rstrip("\n").split(",") for line in file]
    assert Counter(row[1] for row in rows).most_common(1)[0][1] / len(rows) == pytest.approx(
        0.3845, abs=0.02
    )
    assert all(len(row) == 6 for row in rows)
    parsed = [[int(code) for code in row[2:]] for row in rows]
    assert all(0 <= code < 32768 for codes in parsed for code in codes)
    again = prepare_synthetic(PEOPLE_STREAM, 20_000, tmp_path / "again", lines="people")
    assert again.files == folder.files
    with pytest.raises(InputError, match='did you mean "people"'):
        prepare_synthetic(PEOPLE_STREAM, 10, tmp_path / "bad", lines="peopel")
