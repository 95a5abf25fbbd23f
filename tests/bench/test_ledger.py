"""Every registered partitioner is measured, or excluded with a reason; the table has real rows."""

from __future__ import annotations

import json

import pytest

from partitioners import PARTITIONERS
from partitioners.errors import InputError
from partitioners.stream_names import parse_stream
from pipelines.benchmark.partitioners import EXCLUDED, run_partitioner_bench


def _streams(num_records, *names):
    return [parse_stream(name, num_records, 1) for name in names]


def test_every_name_is_in_the_matrix_or_excluded_with_a_reason():
    measured = {
        row.name for row in run_partitioner_bench(None, _streams(2000, "zipf"), repetitions=1)
    }
    assert measured | set(EXCLUDED) == set(PARTITIONERS)
    assert not measured & set(EXCLUDED)
    assert all(EXCLUDED.values())


def test_rows_are_json_and_the_known_order_of_balance_holds():
    streams = _streams(50_000, "zipf", "one_hot")
    rows = run_partitioner_bench(["shuffle", "pkg", "key_hash"], streams, repetitions=1)
    assert [row.stream for row in rows] == ["zipf"] * 3 + ["one_hot"] * 3
    for shuffle, pkg, key_hash in (rows[:3], rows[3:]):
        assert shuffle.imbalance <= pkg.imbalance <= key_hash.imbalance
        assert key_hash.replication_factor == 1.0 <= pkg.replication_factor <= 2.0
    assert json.loads(json.dumps([row.as_json() for row in rows]))[0]["name"] == "shuffle"


def test_options_come_with_the_name():
    whole, split = run_partitioner_bench(
        ["pkg:d=1", "pkg:d=16"], _streams(20_000, "zipf"), repetitions=1
    )
    assert (whole.name, split.name) == ("pkg:d=1", "pkg:d=16")
    assert whole.replication_factor == 1.0
    assert split.imbalance < 0.01 < whole.imbalance
    assert whole.published is None  # its figures are of other options, and of a million records


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"partitioners": ["pgk"]}, 'did you mean "pkg"'),
        ({"partitioners": ["pkg:e=1"]}, "no option"),
        ({"repetitions": 0}, "repetitions"),
        ({"num_partitions": 0}, "num_partitions"),
    ],
)
def test_what_cannot_be_measured_is_refused(arguments, message):
    with pytest.raises(InputError, match=message):
        run_partitioner_bench(**arguments)
