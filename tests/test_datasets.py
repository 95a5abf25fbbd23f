"""Prepared data: whole files with checksums, gone on with where a preparation was stopped."""

import gzip
import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from odd_lines import CASES, item, taxi

from partitioners.errors import InputError
from pipelines.datasets import official, synthetic, tpch
from pipelines.datasets.folder import MANIFEST, DataFolder, input_files
from pipelines.workloads.base import DATA


def lines_of(folder: Path) -> list[str]:
    return [line for path in input_files(folder) for line in gzip.open(path, "rt", newline="\n")]


def test_a_stopped_preparation_goes_on_and_gives_the_same_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(synthetic, "LINES_PER_PART", 1_000)

    def make(folder: Path, stop_after: int = 10**9) -> list[int]:
        done: list[int] = []

        def on_lines(count: int) -> None:
            done.append(count)
            if len(done) > stop_after:
                raise KeyboardInterrupt

        synthetic.prepare_synthetic("drift:num_phases=3", 3_500, folder, on_lines=on_lines)
        return done

    whole, broken = tmp_path / "whole", tmp_path / "broken"
    make(whole)
    with pytest.raises(KeyboardInterrupt):
        make(broken, stop_after=2)
    with pytest.raises(InputError, match="is not finished"):
        input_files(broken)
    assert sorted(path.name for path in broken.iterdir())[1:] == [
        "part-00000.csv.gz",
        "part-00001.csv.gz",
    ]
    kept = (broken / "part-00000.csv.gz").stat().st_mtime_ns
    # A file that is no longer what was written is made again.
    damaged = broken / "part-00001.csv.gz"
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"\0")
    assert make(broken) == [1_000, 1_000, 1_000, 500]
    assert (broken / "part-00000.csv.gz").stat().st_mtime_ns == kept
    manifests = [json.loads((folder / MANIFEST).read_text()) for folder in (whole, broken)]
    assert manifests[0] == manifests[1]
    for name, about in manifests[1]["files"].items():
        content = (broken / name).read_bytes()
        assert about["sha256"] == hashlib.sha256(content).hexdigest()
        assert content == (whole / name).read_bytes()


def test_other_settings_and_foreign_folders_are_refused(tmp_path: Path) -> None:
    DataFolder(tmp_path / "a", {"data": "x", "scale": 1})
    with pytest.raises(InputError, match=r"was made with .*1.*, not .*2.*--out"):
        DataFolder(tmp_path / "a", {"data": "x", "scale": 2})
    with pytest.raises(InputError, match="is not empty"):
        DataFolder(tmp_path, {"data": "x"})
    with pytest.raises(InputError, match="cannot write"):
        DataFolder(Path("/dev/null/x"), {})


def test_synthetic_streams_have_the_skew_asked_for(tmp_path: Path) -> None:
    stream = "top_share:num_keys=2000:fraction=0.3845"
    synthetic.prepare_synthetic(stream, 50_000, tmp_path, rate=100)
    rows = [line.rstrip("\n").split(",") for line in lines_of(tmp_path)]
    ((_, most),) = Counter(key for _, key, _ in rows).most_common(1)
    assert most / len(rows) == pytest.approx(0.3845, abs=0.01)
    assert [int(row[0]) for row in rows[:3]] == [0, 10, 20]
    assert all(0 <= int(row[2]) < 100 for row in rows)
    with pytest.raises(InputError, match="--records must be from 1"):
        synthetic.prepare_synthetic("zipf", 0, tmp_path / "none")


def test_official_files_are_kept_line_by_line_and_described(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(official, "LINES_PER_PART", 4)
    source = tmp_path / "source"
    source.mkdir()
    lines = [line for line, _ in CASES["debs-fare"]]
    (source / "a.csv").write_text("\n".join(lines[:5]) + "\n")
    late = taxi(dropoff="2013-01-01 00:01:00")
    (source / "b.csv").write_text("\n".join([*lines[5:], taxi(), late]) + "\n")
    folder = official.prepare_official("debs", source, tmp_path / "out")
    assert [line.rstrip("\n") for line in lines_of(tmp_path / "out")] == [*lines, taxi(), late]
    files = folder.files.values()
    bad = sum(bool(reason) for _, reason in CASES["debs-fare"])
    assert sum(about["bad"] for about in files) == bad
    assert sum(about["records"] for about in files) == len(lines) + 2 - bad
    assert max(about["largest_step_back_ms"] for about in files) >= 60_000
    assert "medallion is empty" in json.dumps(folder.files)


def test_official_files_of_another_kind_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no record of gcm"):
        official.prepare_official("gcm", DATA / "debs2015_first_hour.csv.gz", tmp_path / "out")
    with pytest.raises(InputError, match="no CSV files"):
        official.find_files("gcm", tmp_path / "out" / "..")


def test_lineitem_comes_by_ship_date_and_days_keep_their_order(tmp_path: Path) -> None:
    dates = ["1996-03-13", "1992-01-02", "1996-03-01", "1992-01-02", "1996-03-13"]
    lines = [item(order=str(i), shipped=date) for i, date in enumerate(dates)]

    def blocks() -> Iterator[bytes]:
        for low in range(0, len(lines), 2):
            yield "".join(f"{line}\n" for line in lines[low : low + 2]).encode()

    ordered = b"".join(tpch._by_ship_date(blocks(), tmp_path)).decode().splitlines()
    assert [line.split("|")[0] for line in ordered] == ["1", "3", "2", "0", "4"]
    assert sorted(ordered) == sorted(lines)
    assert not any(tmp_path.iterdir())


@pytest.fixture
def generator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program of that name that gives the shipped tables as the real one would."""
    script = tmp_path / "bin" / tpch.GENERATOR
    script.parent.mkdir()
    script.write_text(f'#!/bin/sh\n[ "$3" = 0.01 ] || exit 3\nzcat "{DATA}/tpch/$5.tbl.gz"\n')
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{script.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    return script


def test_tpch_tables_are_generated_once(tmp_path: Path, generator: Path) -> None:
    out = tmp_path / "out"
    counts: Counter[str] = Counter()
    tpch.prepare_tpch(0.01, out, lambda table, lines: counts.update({table: lines}))
    assert counts == {"customer": 1_500, "orders": 15_000, "lineitem": 60_175}
    assert input_files(out) == [out / "lineitem.tbl.gz"]
    with gzip.open(DATA / "tpch" / "lineitem.tbl.gz", "rt") as file:
        assert lines_of(out) == list(file)
    generator.write_text("#!/bin/sh\nexit 1\n")
    again = tpch.prepare_tpch(0.01, out)
    assert set(again.files) == {f"{table}.tbl.gz" for table in counts}


def test_a_generator_that_fails_or_is_missing_is_told(
    tmp_path: Path, generator: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from partitioners.errors import RunError

    with pytest.raises(RunError, match="exit code 3"):
        tpch.prepare_tpch(0.02, tmp_path / "out")
    with pytest.raises(InputError, match="--scale must be above 0"):
        tpch.prepare_tpch(0.0, tmp_path / "out")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match=r"pip install 'keyspread\[tpch\]'"):
        tpch.prepare_tpch(0.01, tmp_path / "other")
