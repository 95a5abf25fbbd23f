"""Correlation clustering of people within a post code: Dalton's quadratic workload.

Dalton (Zapridou, Mytilinis, Ailamaki; PVLDB 2022), section 5: records of a voter registry, by post
code, up to 38.45 % of them in one; windows of 60 s. There, combiners cluster by VOTE and reducers
by a greedy algorithm. What a combiner clusters by itself depends on which records it got, so a
result would depend on the partitioner. Here combiners collect a pane's records, and the reducer
clusters each window of a post code, by one of the two: a function of the records alone.

Lines are `ts,post_code,given,family,year,street`: milliseconds, a text, and four codes from 0 to
32767. People are alike if at least three of the four are equal. `correlation` has the algorithms.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import polars as pl
import pyarrow as pa

from partitioners.errors import InputError, RunError, nearest
from pipelines.aggregates import Aggregates, OfWindow
from pipelines.workloads.base import DATA, Int64s
from pipelines.workloads.delimited import (
    END_MS,
    Column,
    DelimitedWorkload,
    Layout,
    integer,
)

if TYPE_CHECKING:
    import duckdb

ATTRIBUTES = ("given", "family", "year", "street")
ALGORITHMS = ("vote", "greedy")
# Their pairs take a second, and the greedy algorithm's weights 1.6 GB.
MOST_RECORDS = 20_000
_CODE_BITS = 15
_CODES = 1 << _CODE_BITS


def _time(text: pl.Expr) -> pl.Expr:
    value = integer(text)
    return pl.when(value.abs() < END_MS).then(value)


def _code(text: pl.Expr) -> pl.Expr:
    value = integer(text)
    return pl.when(value.is_between(0, _CODES - 1)).then(value)


def _present(text: pl.Expr) -> pl.Expr:
    return pl.when(text != "").then(text)


@dataclass(frozen=True)
class Clusters(OfWindow):
    """Number of clusters and disagreements.

    Attributes:
        algorithm: `vote` or `greedy`.
        least_equal: Equal attributes of people who are alike.
    """

    algorithm: str = "vote"
    least_equal: int = 3
    columns: ClassVar[tuple[str, ...]] = ("", "disagreements")
    neutral: ClassVar[tuple[int, ...]] = (0, 0)

    def compute(self, values: Int64s) -> Sequence[int]:
        """See `OfWindow`."""
        from pipelines.workloads import correlation

        if len(values) > MOST_RECORDS:
            raise RunError(
                f"a post code has {len(values):,} records in one window, and clustering compares "
                f"each with each: choose a shorter window, for at most {MOST_RECORDS:,}"
            )
        clusters = np.empty(len(values), dtype=np.int64)
        algorithm = correlation.vote if self.algorithm == "vote" else correlation.greedy
        algorithm(values, self.least_equal, clusters)
        wrong = correlation.disagreements(values, self.least_equal, clusters)
        return len(np.unique(clusters)), int(wrong)


class Clustering(DelimitedWorkload):
    """Clusters of people within each post code.

    Args:
        algorithm: `vote` or `greedy`.
        least_equal: How many of the four attributes are equal where people are alike, 1 to 4.
    """

    # data
    name: ClassVar[str] = "clustering"
    default_input: ClassVar[Path | None] = DATA / "people.csv.gz"
    default_window_ms = 60_000
    default_slide_ms = 10_000

    def __init__(self, algorithm: str = "vote", least_equal: int = 3) -> None:
        if algorithm not in ALGORITHMS:
            raise InputError(f'unknown algorithm "{algorithm}": {nearest(algorithm, ALGORITHMS)}')
        if not 1 <= least_equal <= len(ATTRIBUTES):
            raise InputError(f"least_equal must be from 1 to 4, not {least_equal}")
        self.algorithm, self.least_equal = algorithm, least_equal
        self.aggregates = Aggregates(
            Clusters("clusters", "person", algorithm=algorithm, least_equal=least_equal)
        )

    # parse
    layout: ClassVar[Layout] = Layout(
        6,
        {
            "timestamp_ms": Column(0, _time, "ts is no time in milliseconds up to the year 33658"),
            "key": Column(1, _present, "post code is empty"),
            **{
                name: Column(2 + i, _code, f"{name} is no code from 0 to {_CODES - 1}")
                for i, name in enumerate(ATTRIBUTES)
            },
        },
    )
    carried: ClassVar[tuple[str, ...]] = ("person",)

    def select(self, lines: pl.DataFrame, lines_before: int) -> pl.DataFrame:  # noqa: ARG002
        """See `DelimitedWorkload`."""
        person = pl.lit(0, pl.Int64)
        for name in ATTRIBUTES:
            person = person * _CODES + pl.col(name)
        return lines.select("timestamp_ms", "key", person=person)

    # query
    key_fields: ClassVar[tuple[pa.Field, ...]] = (pa.field("post_code", pa.string()),)
    value_fields: ClassVar[tuple[pa.Field, ...]] = (
        pa.field("count", pa.int64()),
        pa.field("clusters", pa.int64()),
        pa.field("disagreements", pa.int64()),
    )

    def finish_values(self, states: Int64s) -> list[pa.Array]:
        """See `Workload`."""
        return [pa.array(row) for row in states]

    # oracle
    def oracle_records(self, connection: duckdb.DuckDBPyConnection, lines: str) -> str:
        """See `Workload`."""
        cluster = naive_vote if self.algorithm == "vote" else naive_greedy
        known: dict[tuple[tuple[int, ...], ...], list[int]] = {}

        def clustered(people: list[list[int]]) -> list[int]:
            who = tuple(tuple(person) for person in people)
            if who not in known:
                known[who] = naive_result(who, self.least_equal, cluster)
            return known[who]

        connection.create_function("clustered", clustered, ["BIGINT[][]"], "BIGINT[]")
        codes = " AND ".join(f"f[{i}].regexp_full_match('[0-9]{{1,18}}')" for i in range(3, 7))
        small = " AND ".join(f"f[{i}]::BIGINT < {_CODES}" for i in range(3, 7))
        return f"""
            WITH split AS (
                SELECT line_number, string_split(line, ',') AS f FROM {lines}
            ), valid AS MATERIALIZED (
                SELECT * FROM split WHERE len(f) = 6 AND f[2] <> '' AND {codes}
                  AND f[1].regexp_full_match('-?[0-9]{{1,18}}')
            )
            SELECT row_number() OVER (ORDER BY line_number) - 1 AS record_index,
                   f[1]::BIGINT AS timestamp_ms, f[2] AS post_code,
                   [f[i]::BIGINT FOR i IN [3, 4, 5, 6]] AS person
            FROM valid WHERE {small} AND abs(f[1]::BIGINT) < {END_MS}
        """

    def oracle_values(self) -> dict[str, str]:
        """See `Workload`."""
        found = "clustered(list(person ORDER BY person))"
        return {
            "count": "count(*)",
            "clusters": f"{found}[1]",
            "disagreements": f"{found}[2]",
        }


# The oracle's own, in plain loops: it shares nothing with `correlation`.
People = Sequence[Sequence[int]]
Pairs = dict[tuple[int, int], int]


def naive_result(
    people: People, least_equal: int, cluster: Callable[[int, Pairs], list[list[int]]]
) -> list[int]:
    """Number of clusters, and of disagreements.

    Example:
        >>> naive_result([(1, 1, 1, 1), (1, 1, 1, 2), (5, 6, 7, 8)], 3, naive_vote)
        [2, 0]
    """
    sign: Pairs = {}
    for i, one in enumerate(people):
        for j, other in enumerate(people):
            equal = sum(a == b for a, b in zip(one, other, strict=True))
            sign[i, j] = 1 if equal >= least_equal else -1
    clusters = cluster(len(people), sign)
    home = {person: i for i, members in enumerate(clusters) for person in members}
    wrong = sum(
        (sign[i, j] > 0) != (home[i] == home[j]) for i in range(len(people)) for j in range(i)
    )
    return [len(clusters), wrong]


def naive_vote(num_people: int, sign: Pairs) -> list[list[int]]:
    """Each person to the cluster that votes for them most."""
    clusters: list[list[int]] = []
    for person in range(num_people):
        votes = [sum(sign[person, other] for other in members) for members in clusters]
        if votes and max(votes) > 0:
            clusters[votes.index(max(votes))].append(person)
        else:
            clusters.append([person])
    return clusters


def naive_greedy(num_people: int, sign: Pairs) -> list[list[int]]:
    """Merge the two clusters that gain most, until none gains."""
    clusters = [[person] for person in range(num_people)]
    net = {(i, j): sign[i, j] for i in range(num_people) for j in range(i + 1, num_people)}
    while net and max(net.values()) > 0:
        # The first of the best: keys are in order of both places.
        most = max(net.values())
        i, j = min(pair for pair, weight in net.items() if weight == most)
        clusters[i] += clusters[j]
        clusters[j] = []
        net = {pair: weight for pair, weight in net.items() if j not in pair}
        for other in range(num_people):
            pair = (min(i, other), max(i, other))
            if pair in net:
                net[pair] = sum(sign[a, b] for a in clusters[i] for b in clusters[other])
    return [members for members in clusters if members]
