"""TPC-H queries: TPC's answers where a window holds the whole table, the oracle's elsewhere."""

import csv
import datetime
import gzip
from decimal import Decimal
from pathlib import Path

import duckdb
import pytest
from odd_lines import CASES, item
from workload_runs import run_workload

from partitioners.errors import InputError
from pipelines.workloads import create_workload
from pipelines.workloads.base import DATA

ANSWERS = Path(__file__).parent / "data" / "tpch"
YEAR_1994_MS = 757_382_400_000


def test_q1_of_the_whole_table_is_the_answer_for_that_scale(tmp_path: Path) -> None:
    found = run_workload("tpch-q1", tmp_path, options={"whole": True}, partitioner="pkg")
    rows = found.table("* EXCLUDE (window_start, window_end, start_ms)")
    with (ANSWERS / "sf0.01_q1.csv").open() as file:
        expected = list(csv.reader(file, delimiter="|"))[1:]
    assert len(rows) == len(expected) == 4
    for row, answer in zip(rows, expected, strict=True):
        assert list(map(str, row[:6])) == answer[:6]
        # The answers' means are of summed floats, ours are the nearest doubles to the exact means.
        assert row[6:9] == pytest.approx([float(text) for text in answer[6:9]], rel=1e-14)
        assert row[9] == int(answer[9])
    assert found.comparison.exact
    assert found.comparison.windows == 1


def test_q6_of_the_whole_table_is_the_answer_for_that_scale(tmp_path: Path) -> None:
    found = run_workload("tpch-q6", tmp_path, options={"whole": True}, partitioner="key_hash")
    answer = (ANSWERS / "sf0.01_q6.csv").read_text().split()[1]
    assert found.table("revenue::VARCHAR") == [(answer,)]
    assert found.comparison.exact
    assert found.comparison.windows == 1


def test_q6_by_days_holds_the_answer_in_the_window_of_1994(tmp_path: Path) -> None:
    found = run_workload("tpch-q6", tmp_path, partitioner="shuffle", batch_records=1_000)
    answer = (ANSWERS / "sf0.01_q6.csv").read_text().split()[1]
    by_window = dict(found.table("start_ms, revenue::VARCHAR"))
    assert by_window[YEAR_1994_MS] == answer
    assert found.comparison.exact
    assert found.comparison.windows == len(by_window) > 2_800


def test_q3_of_the_whole_table_is_what_sql_says(tmp_path: Path) -> None:
    options = {"whole": True}
    found = run_workload("tpch-q3", tmp_path, options=options, partitioner="pkg", emit="top")
    assert found.comparison.exact
    with duckdb.connect() as connection:
        for table in ("customer", "orders", "lineitem"):
            connection.execute(
                f"CREATE VIEW {table} AS SELECT * FROM read_csv('{DATA}/tpch/{table}.tbl.gz', "
                "delim = '|', header = false)"
            )
        # TPC's text, with columns by number.
        expected = connection.execute(
            """
            SELECT l.column00, sum(l.column05 * (1 - l.column06)) AS revenue, o.column4, o.column7
            FROM customer c, orders o,
                 (SELECT * REPLACE (column05::DECIMAL(12, 2) AS column05,
                                    column06::DECIMAL(12, 2) AS column06) FROM lineitem) l
            WHERE c.column6 = 'BUILDING' AND c.column0 = o.column1 AND l.column00 = o.column0
              AND o.column4 < DATE '1995-03-15' AND l.column10 > DATE '1995-03-15'
            GROUP BY ALL ORDER BY revenue DESC, o.column4 LIMIT 10
            """
        ).fetchall()
    columns = "rank, l_orderkey, revenue, o_orderdate, o_shippriority"
    assert [row[1:] for row in found.table(columns)] == expected
    assert expected[0][:3] == (47_714, Decimal("267010.5894"), datetime.date(1995, 3, 11))


@pytest.mark.parametrize(
    ("name", "partitioner", "windows"),
    [("tpch-q1", "hot_fill", 2_523), ("tpch-q3", "cam", 208), ("tpch-parts", "pkg", 145)],
)
def test_sliding_windows_are_exact(
    tmp_path: Path, name: str, partitioner: str, windows: int
) -> None:
    found = run_workload(name, tmp_path, partitioner=partitioner, partitions=5, shards=3)
    assert found.comparison.differences == []
    assert found.comparison.windows == windows
    assert found.report.produced + found.report.ignored == 60_175
    assert found.report.dead == found.report.late == 0


@pytest.mark.parametrize("partitioner", ["key_hash", "pkg", "shuffle"])
@pytest.mark.parametrize("name", ["tpch-q1", "tpch-q3", "tpch-q6", "tpch-parts"])
@pytest.mark.parametrize("emit", ["all", "changed", "top"])
def test_odd_lines_are_exact(tmp_path: Path, name: str, partitioner: str, emit: str) -> None:
    lines = [line for line, _ in CASES[name]] * 2
    settings = {"batch_records": 5, "emit": emit, "lateness_ms": 10**12}
    found = run_workload(name, tmp_path, lines=lines, partitioner=partitioner, **settings)
    assert found.comparison.differences == []
    assert found.report.produced > 2
    assert len(found.dead) == 2 * sum(bool(reason) for _, reason in CASES[name])


def test_parts_come_at_the_event_rate_and_bad_lines_take_no_time(tmp_path: Path) -> None:
    lines = [item(part="1"), "bad", item(part="2", quantity="0.5"), item(part="2")]
    settings = {"window_ms": 1_000, "slide_ms": 1_000}
    found = run_workload("tpch-parts", tmp_path, lines=lines, options={"event_rate": 2}, **settings)
    assert found.table("start_ms, l_partkey, sum_qty::VARCHAR") == [
        (0, 1, "17.00"),
        (0, 2, "0.50"),
        (1_000, 2, "17.00"),
    ]


def test_options_are_checked() -> None:
    with pytest.raises(InputError, match="whole must be true or false"):
        create_workload("tpch-q1", whole=3)
    with pytest.raises(InputError, match="event_rate must be from 1"):
        create_workload("tpch-parts", event_rate=0.5)


def test_q3_refuses_tables_that_are_none(tmp_path: Path) -> None:
    bad = tmp_path / "orders.tbl.gz"
    with gzip.open(bad, "wt") as file:
        file.write("1|370|O|172799.49|1996-01-02|5-LOW|Clerk|0|note|\n1|370|O|\n")
    with pytest.raises(InputError, match=r"line 2 of .* none of the table orders: 3 columns"):
        run_workload("tpch-q3", tmp_path, options={"orders": str(bad)})
    with pytest.raises(InputError, match="cannot read the input"):
        run_workload("tpch-q3", tmp_path, options={"customer": str(tmp_path / "none.tbl")})
