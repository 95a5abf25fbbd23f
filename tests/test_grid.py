"""Grids without their runs: plans, folders, verdicts, and what is refused at once."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from partitioners.errors import InputError
from partitioners.stream_names import parse_named
from pipelines.benchmark.grid.folder import GridFolder, find_grid, make_grid_folder
from pipelines.benchmark.grid.plan import Axes, GridPlan, make_plan
from pipelines.benchmark.grid.steps import open_numbers, problems
from pipelines.benchmark.parts import shipped_config
from pipelines.cli import main
from pipelines.panes import Windows
from pipelines.run_lock import RunLock

Keyspread = Callable[..., tuple[int, str, str]]
BASE = shipped_config("grid", "debs-q1", "key_hash", 8)
AXES = Axes(
    partitioners=[parse_named("key_hash"), parse_named("pkg:d=3")],
    partitions=[4, 8],
    sources=[1, 2],
    windows=[Windows.parse("30 min/1 min"), Windows.parse("10 min")],
    repetitions=2,
)


@pytest.fixture
def keyspread(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Keyspread:
    """Run a command in this process, with runs in `tmp_path` by way of the environment."""
    monkeypatch.setenv("KEYSPREAD_RUNS_DIR", str(tmp_path / "runs"))
    monkeypatch.setenv("KEYSPREAD_HOME", str(tmp_path / "home"))

    def run(*args: object) -> tuple[int, str, str]:
        capfd.readouterr()
        with pytest.raises(SystemExit) as left:
            main([str(arg) for arg in args])
        out, err = capfd.readouterr()
        return int(left.value.code or 0), out, err

    return run


@pytest.fixture
def grid(tmp_path: Path) -> GridFolder:
    """A planned grid of two cells."""
    axes = Axes(partitioners=[parse_named("key_hash"), parse_named("pkg")])
    return make_grid_folder(tmp_path / "runs", make_plan("g1", BASE, axes))


def test_cells_are_the_product_and_each_repetition_runs_all_before_the_next() -> None:
    plan = make_plan("g1", BASE, AXES)
    assert [cell.number for cell in plan.cells] == list(range(1, 33))
    assert [cell.repetition for cell in plan.cells] == [1] * 16 + [2] * 16
    combinations = [
        (c.partitioner, c.options.get("d"), c.partitions, c.sources, c.window_ms, c.slide_ms)
        for c in (cell.config for cell in plan.cells)
    ]
    assert combinations[:16] == combinations[16:]
    assert len(set(combinations)) == 16
    assert {c.config.topic for c in plan.cells} == {f"debs-q1-g1-{n}" for n in range(1, 33)}
    assert plan.cell(2).label == (
        "debs-q1 pkg:d=3, 4 partitions, windows 30 min/1 min, repetition 1"
    )
    assert "2 sources, windows 10 min/10 min" in plan.cell(15).label


def test_a_plan_comes_back_from_json_without_its_secrets() -> None:
    base = replace(BASE, kafka={"sasl.username": "me", "sasl.password": "secret"})
    plan = make_plan("g1", base, AXES)
    text = plan.to_json()
    assert "secret" not in text
    again = GridPlan.from_json(text)
    assert again.to_json() == text
    assert again.cell(5).config == replace(plan.cell(5).config, kafka={"sasl.username": "me"})


@pytest.mark.parametrize(
    ("grid_id", "changes", "sentence"),
    [
        ("a b", {}, '"a b" is no id of a grid'),
        ("-a", {}, "the first a letter or digit"),
        ("../up", {}, "is no id of a grid"),
        ("g", {"repetitions": 0}, "--repetitions must be 1 to 100, not 0"),
        ("g", {"partitions": [8, 4, 8]}, "--partitions 8 is there twice"),
        ("g", {"partitioners": [parse_named("pkg")] * 2}, "--partitioner pkg is there twice"),
        ("g", {"partitioners": [parse_named("pgk")]}, 'did you mean "pkg"?'),
        ("g", {"partitioners": [parse_named("pkg:e=1")]}, 'no option "e"'),
        ("g", {"partitions": [0]}, "--partitions must be 1 to 10,000, not 0"),
        ("g", {"sources": list(range(1, 252))}, "cells are more than 1,000"),
        ("g", {"windows": [Windows.parse("1 min/7 s")]}, "does not divide --window-ms"),
    ],
)
def test_a_plan_that_cannot_work_is_refused(
    grid_id: str, changes: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(InputError) as refused:
        make_plan(grid_id, BASE, replace(AXES, **changes))
    assert sentence in str(refused.value)


def test_a_grid_is_found_by_id_and_folder_and_planned_again_only_alike(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    plan = make_plan("g1", BASE, AXES)
    made = make_grid_folder(runs, plan)
    assert make_grid_folder(runs, plan).path == made.path
    assert find_grid(runs, "g1").plan.to_json() == plan.to_json()
    assert find_grid(runs, str(made.path)).path == made.path
    with pytest.raises(InputError, match="there already, with other settings: name another --id"):
        make_grid_folder(runs, make_plan("g1", BASE, replace(AXES, repetitions=1)))
    with pytest.raises(InputError, match=r'no grid "g2" in .*did you mean "g1"'):
        find_grid(runs, "g2")
    (made.path / "grid.json").write_text("{}")
    with pytest.raises(InputError, match="is damaged or of another version"):
        find_grid(runs, "g1")


def test_check_names_what_failed_and_what_was_not_run(
    keyspread: Keyspread, grid: GridFolder
) -> None:
    grid.keep_failure(grid.plan.cell(2), "the query failed: why", grid.path / "no.log")
    assert open_numbers(grid) == [1, 2]
    code, out, err = keyspread("grid", "check", "g1")
    assert (code, err) == (1, "")
    assert "cell 1 (debs-q1 key_hash, 8 partitions" in out
    assert "was not run" in out
    assert "failed: the query failed: why" in out
    assert out.endswith("0 of 2 cells are exact\n")
    code, out, _ = keyspread("grid", "check", "g1", "--json")
    assert code == 1
    found = json.loads(out)
    assert [problem["number"] for problem in found["problems"]] == [1, 2]
    grid.forget(2)
    assert [problem.reason for problem in problems(grid)] == ["was not run"] * 2


def test_clean_is_for_grids_at_rest_and_leaves_what_is_worth_keeping(
    keyspread: Keyspread, grid: GridFolder
) -> None:
    grid.keep_failure(grid.plan.cell(1), "why", grid.path / "no.log")
    work = grid.work_path(1)
    work.mkdir(parents=True)
    with RunLock(work):
        code, _, err = keyspread("grid", "clean", "g1")
        assert code == 2
        assert "is live" in err
    assert keyspread("grid", "clean", "g1")[:2] == (0, "0 topics removed\n")
    assert keyspread("grid", "clean", "g1")[0] == 0
    assert {path.name for path in grid.path.iterdir()} == {"grid.json", "failures"}


def test_the_previous_grid_has_the_same_cells_and_was_run(
    keyspread: Keyspread, tmp_path: Path
) -> None:
    def planned(name: str, age_s: int, *, run: bool = True, **changes: Any) -> None:
        plan = make_plan(name, replace(BASE, bootstrap=f"{name}:9092", **changes), Axes())
        folder = make_grid_folder(tmp_path / "runs", plan)
        os.utime(folder.path / "grid.json", (age_s, age_s))
        if run:
            folder.keep_failure(plan.cell(1), "why", folder.path / "no.log")

    planned("oldest", 1)
    assert keyspread("grid", "previous", "oldest")[1] == "oldest is the first of its kind\n"
    planned("older", 2)
    planned("other", 3, shards=3)
    planned("planned-only", 4, run=False)
    planned("this", 5)
    planned("newer", 6)
    code, out, _ = keyspread("grid", "previous", "this", "--json")
    assert (code, json.loads(out)) == (0, {"grid": "this", "previous": "older"})


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        ("plan", "name a workload, such as `keyspread grid plan debs-q1`"),
        ("run debs-q9", 'unknown workload "debs-q9": did you mean "debs-q'),
        ("plan debs-q1 --partitioner pgk", 'did you mean "pkg"?'),
        ("plan debs-q1 --windows 30", '"30" is no duration'),
        ("plan debs-q1 --rate 5 --speedup 5", "exclude each other"),
        ("plan debs-q1 --resume g1", "`keyspread grid run --resume GRID`"),
        ("plan debs-q1 --input nowhere.csv", "nowhere.csv: No such file or directory"),
        ("run --resume nobody", 'no grid "nobody"'),
        ("cell nobody 1", "`keyspread grid plan` makes one"),
        ("check nobody", 'no grid "nobody"'),
        ("report nobody", 'no grid "nobody"'),
        ("clean nobody", 'no grid "nobody"'),
        ("topics nobody", 'no grid "nobody"'),
    ],
)
def test_what_is_asked_for_wrongly(
    keyspread: Keyspread, tmp_path: Path, args: str, sentence: str
) -> None:
    code, out, err = keyspread("grid", *args.split())
    assert (code, out) == (2, "")
    assert sentence in err
    assert err.count("\n") == 1
    assert not (tmp_path / "runs").exists()


def test_a_cell_that_is_not_there_and_servers_that_do_not_answer(
    keyspread: Keyspread, grid: GridFolder
) -> None:
    assert "has the cells 1 to 2, not 3" in keyspread("grid", "cell", "g1", 3)[2]
    code, out, err = keyspread("grid", "cell", "g1", 2, "--bootstrap", "127.0.0.1:1", "--json")
    assert code == 2
    message = json.loads(out)["error"]["message"]
    assert "nobody listens at the Kafka servers 127.0.0.1:1" in message
    assert message in err
    failure = grid.read_failure(2)
    assert failure is not None
    assert failure["reason"] == message
    assert failure["label"] == grid.plan.cell(2).label


def test_lists_by_commas_and_options_again_are_the_same(
    keyspread: Keyspread, tmp_path: Path
) -> None:
    labels = []
    for given in (
        "--partitioner key_hash,pkg:d=3 --partitions 4,8 --sources 1,2 --windows 30min/1min,1min",
        "--partitioner key_hash --partitioner pkg:d=3 --partitions 4 --partitions 8 --sources 1 "
        "--sources 2 --windows 30min/1min --windows 1min",
    ):
        folder = tmp_path / str(len(labels))
        code, out, _ = keyspread(
            "grid", "plan", "debs-q1", *given.split(), "--json", "--runs-dir", folder
        )
        assert code == 0
        labels.append([cell["label"] for cell in json.loads(out)["cells"]])
    assert labels[0] == labels[1]
    assert len(labels[0]) == 16


def test_plan_says_what_the_cells_are(keyspread: Keyspread, tmp_path: Path) -> None:
    two = ("--partitioner", "pkg", "--partitioner", "pkg:d=3")
    code, out, err = keyspread("grid", "plan", "debs-q1", *two, "--id", "mine", "--json")
    assert code == 0, err
    assert json.loads(out) == {
        "grid": "mine",
        "folder": str(tmp_path / "runs" / "mine"),
        "cells": [
            {
                "number": number,
                "label": f"debs-q1 {name}, 8 partitions, windows 30 min/1 min, repetition 1",
            }
            for number, name in ((1, "pkg"), (2, "pkg:d=3"))
        ],
    }
    code, out, _ = keyspread("grid", "plan", "debs-q1", *two, "--id", "mine")
    assert code == 0
    assert out.startswith("grid mine: 2 cells")
