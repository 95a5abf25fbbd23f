"""Every registered partitioner is measured, or excluded with a reason; the table has real rows."""

from __future__ import annotations

import json

import pytest

from partitioners import PARTITIONERS
from partitioners.errors import InputError
from pipelines.benchmark.partitioners import EXCLUDED, run_partitioner_bench


def test_every_name_is_in_the_matrix_or_excluded_with_a_reason():
    measured = {row.name for row in run_partitioner_bench(num_records=2000, repetitions=1)}
    assert measured | set(EXCLUDED) == set(PARTITIONERS)
    assert not measured & set(EXCLUDED)
    assert all(EXCLUDED.values())


def test_rows_are_json_and_the_known_order_of_balance_holds():
    rows = run_partitioner_bench(
        ["shuffle", "pkg", "key_hash"], ["zipf", "one_hot"], num_records=50_000, repetitions=1
    )
    assert [row.stream for row in rows] == ["zipf"] * 3 + ["one_hot"] * 3
    for shuffle, pkg, key_hash in (rows[:3], rows[3:]):
        assert shuffle.imbalance <= pkg.imbalance <= key_hash.imbalance
        assert key_hash.replication_factor == 1.0 <= pkg.replication_factor <= 2.0
    assert json.loads(json.dumps([row.as_json() for row in rows]))[0]["name"] == "shuffle"


def test_keys_of_a_file_are_a_stream_too(tmp_path):
    path = tmp_path / "keys.txt"
    path.write_text("a\nb\na\n", encoding="utf-8")
    (row,) = run_partitioner_bench(["pkg"], input_path=path, num_partitions=2, repetitions=1)
    assert (row.stream, row.num_records) == ("keys.txt", 3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"names": ["pgk"]}, 'did you mean "pkg"'),
        ({"streams": ["zip"]}, 'did you mean "zipf"'),
        ({"num_records": 0}, "at least 1 record"),
        ({"num_partitions": 0}, "num_partitions"),
    ],
)
def test_what_cannot_be_measured_is_refused(arguments, message):
    with pytest.raises(InputError, match=message):
        run_partitioner_bench(**arguments)
