"""Zstandard and Parquet inputs, names that lie, files that change, and odd event times."""

import datetime
import gzip
import os
import random
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from odd_lines import item, taxi
from workload_runs import run_workload

from partitioners.errors import InputError
from pipelines.packed_inputs import TPCH_COLUMNS
from pipelines.text_input import BLOCK_BYTES, MAX_LINE_BYTES, RejectedLine, check_input, read_chunks


def lines_of(path: Path) -> list[str]:
    return [line for chunk in read_chunks(path, pytest.fail) for line in chunk.lines]


@pytest.mark.parametrize("num_frames", [1, 3])
def test_zstd_frames_are_one_text(tmp_path: Path, num_frames: int) -> None:
    lines = [f"{i},{random.Random(i).random()}" for i in range(100_000)]
    assert len("\n".join(lines)) > 2 * BLOCK_BYTES
    cut = -(-len(lines) // num_frames)
    parts = ["".join(f"{line}\n" for line in lines[i : i + cut]) for i in range(0, len(lines), cut)]
    path = tmp_path / "in.zst"
    path.write_bytes(b"".join(zstandard.compress(part.encode()) for part in parts))
    check_input(path)
    assert lines_of(path) == lines
    consumed: list[int] = []
    for _ in read_chunks(path, pytest.fail, on_bytes=consumed.append):
        pass
    assert consumed == sorted(consumed)
    assert consumed[-1] <= path.stat().st_size


@pytest.mark.parametrize(
    ("content", "name", "reason"),
    [
        (zstandard.compress(random.Random(1).randbytes(90_000))[:-9], "a.zst", "is truncated"),
        (zstandard.compress(b"abc" * 999)[:9] + bytes(50), "a.zst", "is damaged after"),
        (zstandard.compress(b""), "a.zst", "is empty"),
        (b"plain text\n", "a.zst", "is named .zst, yet does not begin as one"),
        (b"plain text\n", "a.csv.gz", "is named .gz, yet .* rename it without .gz"),
        (gzip.compress(b"x\n", mtime=0), "a.parquet", "is named .parquet"),
        (b"PAR1 and no table PAR1", "a.parquet", "the Parquet input .* is damaged"),
    ],
)
def test_what_is_no_input_is_refused(
    tmp_path: Path, content: bytes, name: str, reason: str
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(InputError, match=reason):
        check_input(path)


def lineitem(names: list[str], rows: int = 3) -> pa.Table:
    cells = {
        "l_orderkey": pa.array(range(1, rows + 1), pa.int64()),
        "l_partkey": pa.array([7] * rows, pa.int64()),
        "l_quantity": pa.array([Decimal("17.00")] * rows, pa.decimal128(15, 2)),
        "l_extendedprice": pa.array([Decimal("24710.35")] * rows, pa.decimal128(15, 2)),
        "l_discount": pa.array([Decimal("0.06")] * rows, pa.decimal128(15, 2)),
        "l_tax": pa.array([Decimal("0.02")] * rows, pa.decimal128(15, 2)),
        "l_returnflag": pa.array(["N"] * rows),
        "l_linestatus": pa.array(["O"] * rows, pa.string_view()),
        "l_shipdate": pa.array([datetime.date(1994, 3, 13)] * rows),
    }
    return pa.table({name: cells.get(name, pa.array(["x"] * rows)) for name in names})


def test_a_parquet_table_is_read_by_the_names_of_its_columns(tmp_path: Path) -> None:
    names = [f"l_{name}" for name in TPCH_COLUMNS["l_"].split()]
    paths = [tmp_path / "ordered.parquet", tmp_path / "turned.parquet"]
    pq.write_table(lineitem(names), paths[0])
    pq.write_table(lineitem(names[::-1]), paths[1])
    assert lines_of(paths[0]) == lines_of(paths[1])
    assert lines_of(paths[0])[0].startswith("1|7|x|x|17.00|24710.35|0.06|0.02|N|O|1994-03-13|")
    found = run_workload("tpch-q6", tmp_path, inputs=paths)
    assert found.comparison.differences == []
    assert found.report.produced == 6
    pq.write_table(lineitem([name for name in names if name != "l_shipdate"]), paths[0])
    with pytest.raises(InputError, match=r"has no column l_shipdate .*in any order"):
        check_input(paths[0])


def test_other_parquet_files_are_columns_with_commas(tmp_path: Path) -> None:
    path = tmp_path / "in.parquet"
    columns = {"ts": [1, 2, 3], "key": ["a", None, "c"], "x": [5, -5, 0]}
    pq.write_table(pa.table(columns), path)
    assert lines_of(path) == ["1,a,5", "2,,-5", "3,c,0"]
    found = run_workload("keyed-sum", tmp_path, inputs=[path, path])
    assert found.comparison.differences == []
    assert found.report.produced == 6
    pq.write_table(pa.table({"ts": [1], "key": ["a\nb"], "x": [1]}), path)
    with pytest.raises(InputError, match="line breaks"):
        check_input(path)
    pq.write_table(pa.table({"ts": [1], "key": [["a"]], "x": [1]}), path)
    with pytest.raises(InputError, match=r"column key .* is list"):
        check_input(path)


def test_many_files_of_all_kinds_are_one_stream(tmp_path: Path) -> None:
    texts = [f"{i * 1000},k{i % 3},{i}\n".encode() for i in range(9)]
    paths = [tmp_path / "a.csv", tmp_path / "b.csv.gz", tmp_path / "c.csv.zst"]
    paths[0].write_bytes(b"".join(texts[:3]))
    paths[1].write_bytes(gzip.compress(b"".join(texts[3:6]), mtime=0))
    paths[2].write_bytes(zstandard.compress(b"".join(texts[6:])))
    found = run_workload("keyed-sum", tmp_path, inputs=paths, window_ms=9000, slide_ms=9000)
    assert found.comparison.differences == []
    assert found.table("key::VARCHAR, count, sum::INT") == [
        ("k0", 3, 9),
        ("k1", 3, 12),
        ("k2", 3, 15),
    ]


def test_a_file_that_changes_while_being_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    path.write_text("1,a,1\n" * 10)
    chunks = read_chunks(path, pytest.fail, lines_per_chunk=2)
    next(chunks)
    with path.open("a") as file:
        file.write("2,b,2\n")
    with pytest.raises(InputError, match=r"in.csv changed while it was being read"):
        list(chunks)
    chunks = read_chunks(path, pytest.fail, lines_per_chunk=2)
    next(chunks)
    # Of the same size, and a moment later.
    path.write_text("3,c,3\n" * 11)
    os.utime(path, ns=(0, 1))
    with pytest.raises(InputError, match="changed while it was being read"):
        list(chunks)


def test_a_line_of_50_mb_is_rejected_and_the_next_is_read(tmp_path: Path) -> None:
    path = tmp_path / "in.txt"
    path.write_bytes(b"first\n" + b"a" * 50_000_000 + b"\nlast\n")
    rejected: list[RejectedLine] = []
    found = [line for chunk in read_chunks(path, rejected.append) for line in chunk.lines]
    assert found == ["first", "last"]
    assert [line.line_number for line in rejected] == [2]
    assert rejected[0].reason.startswith(f"longer than {MAX_LINE_BYTES:,} bytes (50,000,000)")
    assert len(rejected[0].text) == 100


HOUR = 3_600_000
ODD_STREAMS = {
    "one record": ["5,a,1"],
    "one timestamp": [f"7000,k{i % 3},{i}" for i in range(500)],
    "empty windows": ["0,a,1", f"{1000 * HOUR},a,2", f"{-1000 * HOUR},b,3"],
    "times go back hours": [f"{(i % 7) * HOUR},k{i % 2},1" for i in range(300)],
    "huge and negative values": [
        f"{i},a,{x}" for i, x in enumerate([10**18 - 1, 1 - 10**18] + [10**18 - 1] * 98)
    ],
    "not a number": ["1,a,NaN", "NaN,a,1", "1,a,inf", "1,a,1e3", "2,a,2"],
    "far apart": ["-999999999999999,a,1", "999999999999999,a,1"],
}


@pytest.mark.parametrize("name", sorted(ODD_STREAMS))
@pytest.mark.parametrize("batch_records", [1, 1000])
def test_odd_streams_are_exact(tmp_path: Path, name: str, batch_records: int) -> None:
    lines = ODD_STREAMS[name]
    found = run_workload(
        "keyed-sum",
        tmp_path,
        lines=lines,
        batch_records=batch_records if len(lines) < 200 else 100 * batch_records,
        window_ms=60_000,
        slide_ms=60_000,
        punctuation_records=1,
    )
    assert found.comparison.differences == []
    assert found.report.produced + found.report.dead == len(lines)
    assert (found.report.late > 0) == (name in ("times go back hours", "empty windows"))
    assert found.report.dead == (4 if name == "not a number" else 0)


def test_the_hour_that_comes_twice_is_twice_as_full(tmp_path: Path) -> None:
    # 3 November 2013, 01:30 in New York: before and after the clocks went back.
    twice = [taxi("M1", "2013-11-03 01:30:00", fare="2")] * 2
    spring = [taxi("M1", f"2013-03-10 0{hour}:00:00", fare="1") for hour in (1, 2, 3)]
    settings = {"window_ms": HOUR, "slide_ms": HOUR}
    found = run_workload("debs-fare", tmp_path, lines=[*spring, *twice], **settings)
    assert found.comparison.differences == []
    assert found.table("window_start::VARCHAR, count") == [
        ("2013-03-10 01:00:00+00", 1),
        ("2013-03-10 02:00:00+00", 1),
        ("2013-03-10 03:00:00+00", 1),
        ("2013-11-03 01:00:00+00", 2),
    ]


def test_a_line_with_columns_in_another_order_is_named(tmp_path: Path) -> None:
    columns = item().split("|")
    columns[4], columns[10] = columns[10], columns[4]
    found = run_workload("tpch-q6", tmp_path, lines=[item(shipped="1994-03-13"), "|".join(columns)])
    assert [letter["reason"].split(" ")[0] for letter in found.dead] == ["l_quantity"]
