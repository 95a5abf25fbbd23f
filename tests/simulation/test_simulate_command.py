"""`keyspread simulate`: what it prints and writes, and bad input in one sentence."""

from __future__ import annotations

import json

import pytest

from pipelines.cli import main

FAST = ["--records", "5000", "--window-ms", "1000", "--jobs", "1"]


@pytest.fixture
def keyspread(capfd):
    """Run `keyspread simulate` in this process; gives exit code, stdout, stderr."""

    def run(*args):
        capfd.readouterr()
        with pytest.raises(SystemExit) as left:
            main(["simulate", *map(str, args)])
        out, err = capfd.readouterr()
        return int(left.value.code or 0), out, err

    return run


def test_every_combination_is_a_cell(keyspread):
    code, out, err = keyspread(
        "--partitioners", "key_hash,pkg:d=3", "--stream", "zipf,uniform:num_keys=50",
        "--partitions", "4,8", "--sources", "1,2", "--json", "-", *FAST,
    )  # fmt: skip
    assert (code, err) == (0, "")
    cells = json.loads(out)["cells"]
    names = {(c["stream"], c["partitioner"], c["num_partitions"], c["num_sources"]) for c in cells}
    assert len(cells) == len(names) == 16
    assert ("uniform:num_keys=50", "pkg:d=3", 8, 2) in names
    # One reducer to eight partitions, at least one; prices as asked for by default.
    assert all(cell["bottleneck"] in ("combine", "reduce") for cell in cells)


def test_table_json_file_and_page(keyspread, tmp_path):
    page, figures = tmp_path / "page.html", tmp_path / "cells.json"
    code, out, _ = keyspread(
        "--partitioners", "pkg", "--stream", "words", "--html", page, "--json", figures, *FAST
    )
    assert code == 0
    assert "words" in out
    assert "pkg" in out
    assert page.read_text().startswith("<!doctype html>")
    (cell,) = json.loads(figures.read_text())["cells"]
    assert (cell["stream"], cell["num_records"]) == ("words", 5_000)


def test_processes_print_the_same(keyspread):
    args = ["--partitioners", "pkg,dalton", "--sources", "2", "--json", "-", *FAST[:-2]]
    alone, together = (keyspread(*args, "--jobs", jobs) for jobs in (1, 2))
    assert alone == together
    assert alone[0] == 0


def test_a_file_is_a_stream(keyspread, tmp_path):
    path = tmp_path / "keys.txt"
    path.write_text("a\nb\na\n")
    code, out, _ = keyspread("--input", path, "--partitioners", "pkg", "--json", "-", *FAST)
    assert code == 0
    (cell,) = json.loads(out)["cells"]
    assert (cell["stream"], cell["num_records"], cell["num_keys"]) == ("keys.txt", 3, 2)


def test_shipped_taxis_and_routes_have_the_times_of_their_trips(keyspread):
    code, out, _ = keyspread(
        "--partitioners", "key_hash", "--stream", "taxis,routes", "--window-ms", 1_800_000,
        "--json", "-", "--jobs", 1,
    )  # fmt: skip
    assert code == 0
    taxis, routes = json.loads(out)["cells"]
    assert taxis["num_records"] == 10_799
    assert routes["num_records"] == 10_799 - 185  # trips outside the grid are no routes
    assert len(routes["over_time"]["end_ms"]) >= 1


def test_balance_is_written_as_a_table_per_number_of_partitions_and_sources(keyspread, tmp_path):
    page, figures = tmp_path / "balance.md", tmp_path / "cells.json"
    code, _, _ = keyspread(
        "--partitioners", "key_hash,shuffle", "--stream", "zipf,uniform", "--partitions", "4,8",
        "--sources", 2, "--markdown", page, "--json", figures, *FAST,
    )  # fmt: skip
    assert code == 0
    lines = page.read_text().splitlines()
    assert [line for line in lines if line.startswith("n =")] == [
        "n = 4, sources: 2",
        "n = 8, sources: 2",
    ]
    assert lines.count("| stream | key_hash | shuffle |") == 2
    cell = json.loads(figures.read_text())["cells"][0]
    assert cell["partitioner"] == "key_hash"
    written = next(line for line in lines if line.startswith(f"| {cell['stream']} |"))
    assert written.split("|")[2].split(" / ")[0].strip() == f"{cell['imbalance']:.3f}"


def test_a_paper_prints_its_tables_and_writes_the_page(keyspread, tmp_path):
    page = tmp_path / "reproduction.md"
    code, out, _ = keyspread(
        "--paper", "enorm", "--scale", "0.002", "--jobs", 1, "--markdown", page
    )
    assert code == 0
    assert "86" in out
    text = page.read_text()
    assert "--paper enorm --scale 0.002" in text
    assert "## enorm" in text


WRONG = [
    (["--partitioners", "pgk"], 'no partitioner is called "pgk"; did you mean "pkg"?'),
    (["--partitioners", "pkg:dd=2"], 'pkg has no option "dd"'),
    (["--partitioners", "pkg:d"], '"d" in "pkg:d" is not option=value'),
    (["--partitioners", "pkg:d=0"], "d must be a whole number from"),
    (["--stream", "zipff"], 'no stream is called "zipff"; did you mean "zipf"?'),
    (["--stream", "wrods"], 'did you mean "words"?'),
    (["--stream", "words:d=1"], "words is data as it is and takes no options"),
    (["--stream", "zipf:exponent=-1"], "exponent of zipf must be from 0"),
    (["--partitions", "0"], "--partitions must be whole numbers of 1 or more, not 0"),
    (["--partitions", "a"], "--partitions must be whole numbers of 1 or more, not a"),
    (["--partitions", ","], "--partitions names no number"),
    (["--partitions", "70000"], "num_partitions must be a whole number from 1 to"),
    (["--sources", "0"], "--sources must be whole numbers of 1 or more"),
    (["--sources", "20000"], "sources must be from 1 to 10,000"),
    (["--window-ms", "0"], "window_ms must be 1 or more, not 0"),
    (["--slide-ms", "7"], "slide_ms must divide window_ms 60000, not 7"),
    (["--jobs", "0"], "jobs must be from 1 to 1,000, not 0"),
    (["--record-us", "-1"], "record_us must be from 0"),
    (["--input", "missing.txt"], "missing.txt"),
    (["--input", "missing.txt", "--stream", "zipf"], "--stream and --input exclude each other"),
    (["--paper", "dalten"], 'no paper is called "dalten"; did you mean "dalton"?'),
    (["--paper", "pkg", "--stream", "zipf"], "--paper runs what the paper ran"),
    (["--paper", "pkg", "--scale", "0"], "--scale must be above 0 and 1 at most, not 0"),
    (["--paper", "pkg", "--scale", "nan"], "--scale must be above 0"),
    (["--scale", "0.5"], "--scale goes with --paper"),
]


@pytest.mark.parametrize(("args", "message"), WRONG, ids=lambda value: " ".join(value)[:40])
def test_bad_input_is_one_sentence(keyspread, args, message):
    code, out, err = keyspread(*args)
    assert code == 2
    assert out == ""
    assert message in err
    assert err.count("\n") == 1


def test_bad_input_with_json_is_json(keyspread):
    code, out, _ = keyspread("--partitioners", "pgk", "--json", "-")
    assert code == 2
    assert json.loads(out)["error"]["exit_code"] == 2


def test_a_file_that_cannot_be_written_is_told(keyspread, tmp_path):
    code, _, err = keyspread(
        "--partitioners", "shuffle", "--json", tmp_path / "no" / "x.json", *FAST
    )
    assert code == 2
    assert "cannot read or write" in err
