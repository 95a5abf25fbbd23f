"""`keyspread report`: pages, comparisons and exit codes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from pipelines.cli import main
from tests.cells import make_cell

Report = Callable[..., tuple[int, str, str]]


@pytest.fixture
def report(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Report:
    def run(*args: str) -> tuple[int, str, str]:
        capfd.readouterr()
        with pytest.raises(SystemExit) as left:
            main(["report", *args, "--runs-dir", str(tmp_path)])
        out, err = capfd.readouterr()
        return int(left.value.code or 0), out, err

    return run


@pytest.fixture(autouse=True)
def runs(tmp_path: Path) -> None:
    """`fast` and `slow` with three repetitions, `wrong` and `once` with one."""
    for name, rates, exact in (
        ("fast", (1_000.0, 1_001.0, 1_002.0), True),
        ("slow", (500.0, 501.0, 502.0), True),
        ("wrong", (1_000.0,), False),
        ("once", (10.0,), True),
    ):
        cells = tmp_path / name / "cells"
        cells.mkdir(parents=True)
        (tmp_path / name / "config.json").write_text("{}")
        for number, rate in enumerate(rates, 1):
            cell = make_cell(
                run_id=name,
                delivered_per_s=rate,
                repetition=number,
                exact=exact,
                differences=[] if exact else ["word secret: 1, not 2"],
                hot_keys=[{"key": "secret", "share": 0.4, "num_partitions": 1}],
            )
            (cells / f"{number}.json").write_text(cell.to_json())


def test_a_page_is_written_and_named(report: Report, tmp_path: Path) -> None:
    code, out, _ = report("fast", "--html")
    page = tmp_path / "fast" / "report.html"
    assert code == 0
    assert f"report: {page}" in out
    assert "All 3 cells are exact" in page.read_text(encoding="utf-8")
    code, out, _ = report("fast", "--html", "--json", "--redact")
    values = json.loads(out)
    assert (values["report"], len(values["cells"])) == (str(page), 3)
    assert "secret" not in page.read_text(encoding="utf-8") + out


@pytest.mark.parametrize(
    ("before", "after", "code", "said"),
    [
        ("fast", "slow", 1, "Regression: wordcount, 2 partitions, key_hash: records/s -50"),
        ("slow", "fast", 0, "nothing is slower"),
        ("fast", "once", 0, "no bound can be given"),
        ("fast", "wrong", 1, "no longer exact"),
        ("wrong", "wrong", 0, "Nothing lost its exactness"),
    ],
)
def test_a_regression_fails_where_asked_for(
    report: Report, tmp_path: Path, before: str, after: str, code: int, said: str
) -> None:
    left, out, _ = report("--compare", before, after, "--fail-on-regression")
    assert left == code
    assert said in " ".join(out.split())
    left, out, _ = report("--compare", before, after, "--json", "--html", "--fail-on-regression")
    values = json.loads(out)
    assert (left, values["regression"]) == (code, bool(code))
    assert said in values["sentence"]
    page = Path(values["report"])
    assert page == tmp_path / after / f"compared-with-{before}.html"
    assert before in page.read_text(encoding="utf-8")


def test_a_regression_that_nobody_asked_about_is_no_failure(report: Report) -> None:
    assert report("--compare", "fast", "slow")[0] == 0


def test_a_comparison_names_no_key_where_it_must_not(report: Report) -> None:
    assert "secret" in report("--compare", "fast", "wrong")[1]
    assert "secret" not in report("--compare", "fast", "wrong", "--redact")[1]


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["fast", "slow"], "one run is shown at a time, not 2: name one, or say --compare"),
        (["--compare", "fast"], "--compare needs two runs, not 1"),
        (["--compare", "fast", "slow", "once"], "--compare needs two runs, not 3"),
        (["fast", "--fail-on-regression"], "--fail-on-regression goes with --compare RUN RUN"),
        (["fsat"], 'did you mean "fast"?'),
        (["--compare", "fast", "slow", "--tolerance", "-1"], "--tolerance must be 0 or more"),
        ([], "`keyspread report` needs RUN"),
    ],
)
def test_bad_input_is_one_sentence(report: Report, args: list[str], said: str) -> None:
    code, out, err = report(*args)
    assert code == 2
    assert out == ""
    assert said in err
    assert err.count("\n") == 1
