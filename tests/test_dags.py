"""The parts of the DAGs that know no Airflow; `make test-airflow` tries the DAGs themselves."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import psutil
import pytest

from partitioners import PARTITIONERS
from pipelines.benchmark.grid.folder import find_grid
from pipelines.cli import main
from pipelines.workloads import WORKLOADS
from tests.integration.programs import ROOT

DAGS = ROOT / "dags"
sys.path.insert(0, str(DAGS))

from keyspread_dags import command, form  # noqa: E402
from keyspread_dags.process import Call, Outcome  # noqa: E402


def test_the_form_knows_every_partitioner_and_workload_of_its_data() -> None:
    assert set(PARTITIONERS) == set(form.PARTITIONERS)
    known = {name for names in form.WORKLOADS.values() for name in names}
    # Those that no DAG offers have data of their own, or none.
    assert set(WORKLOADS) - known == {"clustering", "keyed-sum"}
    assert known <= set(WORKLOADS)


@pytest.mark.parametrize("group", form.WORKLOADS)
def test_what_the_form_says_is_what_is_planned(
    group: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KEYSPREAD_RUNS_DIR", str(tmp_path))
    params = {name: field["default"] for name, field in form.form(form.WORKLOADS[group]).items()}
    params |= {"partitioners": ["pkg:d=3"], "partitions": [2], "sources": [3], "shards": 1}
    params |= {"windows": ["1 h/30 min"], "speed": "1.5x", "repetitions": 2}
    with pytest.raises(SystemExit) as left:
        main(command.plan_call("g", params, None))
    out, err = capfd.readouterr()
    assert left.value.code == 0, err
    assert [cell["number"] for cell in json.loads(out)["cells"]] == [1, 2]
    config = find_grid(tmp_path, "g").plan.cell(2).config
    assert config.workload == form.WORKLOADS[group][0]
    assert (config.partitioner, config.options) == ("pkg", {"d": 3})
    assert (config.partitions, config.sources, config.shards) == (2, 3, 1)
    assert (config.window_ms, config.slide_ms) == (3_600_000, 1_800_000)
    assert (config.pace, config.pace_value) == ("speedup", 1.5)


@pytest.mark.parametrize(
    ("speed", "option"), [("max", []), ("60x", ["--speedup=60"]), ("5000/s", ["--rate=5000"])]
)
def test_speeds(speed: str, option: list[str]) -> None:
    call = command.plan_call("g", {"workload": "debs-q1", "speed": speed}, None)
    assert call == ["grid", "plan", "debs-q1", "--id=g", "--json", *option]


@pytest.mark.parametrize(
    ("field", "good", "bad"),
    [
        ("partitioners", ["pkg", "d_choices:d=5:tie=last"], ["pgk", "pkg:", "pkg:d", "pkg d=3"]),
        ("windows", ["30 min/1 min", "45min/1s", "1.5 h"], ["30", "30 min/", "1 min / 1 s", ""]),
    ],
)
def test_patterns_of_lists(field: str, good: list[str], bad: list[str]) -> None:
    pattern = form.form(["debs-q1"])[field]["items"]["pattern"]
    assert [text for text in good if not re.search(pattern, text)] == []
    assert [text for text in bad if re.search(pattern, text)] == []


def test_pattern_of_speed() -> None:
    pattern = form.form(["debs-q1"])["speed"]["pattern"]
    good, bad = ["max", "60x", "2.5x", "5000/s"], ["", "fast", "0x", "-1x", "60", "x60", "5/s/s"]
    assert [text for text in good if not re.search(pattern, text)] == []
    assert [text for text in bad if re.search(pattern, text)] == []


def test_a_scale_is_generated_once_in_a_folder_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KEYSPREAD_RUNS_DIR", str(tmp_path))
    folder = f"{tmp_path}/data/tpch-0.1"
    making = ["data", "prepare", "tpch", "--scale=0.1", "--json", f"--out={folder}"]
    assert command.data_call({"scale": 0.1, "input": None}) == (making, folder)
    assert command.data_call({"scale": 0.1, "input": "/mine"}) == ([], "/mine")
    assert command.data_call({"input": None}) == ([], None)


def test_grid_ids_are_names_of_topics_and_no_two_runs_share_one() -> None:
    runs = ["manual__2026-11-28T10:00:00+00:00", "manual__2026-11-28T10-00-00-00-00", "x" * 250]
    ids = [command.grid_id("benchmark_debs", run) for run in runs]
    assert ids == [command.grid_id("benchmark_debs", run) for run in runs]
    assert len(set(ids)) == 3
    assert all(re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9-]{0,119}", each) for each in ids)


def call(program: str, log: list[str] | None = None, stop_s: int = 1) -> Call:
    lines = [] if log is None else log
    return Call([sys.executable, "-c", program], Path.cwd(), lines.append, stop_s)


def test_a_call_gives_exit_code_object_and_log() -> None:
    log: list[str] = []
    program = "import sys; print('a\\nb', file=sys.stderr); print('{\"grid\": 1}'); sys.exit(3)"
    assert call(program, log).run() == Outcome(3, {"grid": 1})
    assert log == ["a", "b"]
    assert call("print('no object')").run() == Outcome(0, {})
    failed = call('print(\'{"error": {"message": "why", "exit_code": 2}}\')').run()
    assert failed.reason == "why"


# Has a child that ignores SIGTERM; by itself neither ends.
STUBBORN_CHILD = (
    "import os, signal, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
    " print('child', os.getpid(), file=sys.stderr, flush=True); time.sleep(600)"
)
STUBBORN = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {STUBBORN_CHILD!r}])"


def running(log: list[str], process: Call) -> tuple[threading.Thread, list[Outcome]]:
    """Run a call in a thread, and wait until its child is there."""
    outcomes: list[Outcome] = []
    thread = threading.Thread(target=lambda: outcomes.append(process.run()))
    thread.start()
    waiting = threading.Event()
    while not log:
        waiting.wait(0.05)
    return thread, outcomes


def test_a_stop_ends_the_whole_group() -> None:
    log: list[str] = []
    process = call(STUBBORN, log)
    thread, outcomes = running(log, process)
    child = psutil.Process(int(log[0].split()[1]))
    process.stop()
    thread.join(20)
    assert [outcome.exit_code for outcome in outcomes] == [-signal.SIGKILL]
    assert "stopped or killed" in outcomes[0].reason
    psutil.wait_procs([child], timeout=20)
    assert not child.is_running()
    process.stop()  # once more does nothing


def test_what_does_not_end_when_asked_to_is_killed() -> None:
    log: list[str] = []
    process = call(STUBBORN_CHILD, log)
    thread, outcomes = running(log, process)
    process.stop()
    thread.join(20)
    assert [outcome.exit_code for outcome in outcomes] == [-signal.SIGKILL]


def test_a_call_ends_with_its_task_even_if_that_is_killed() -> None:
    """Not even kill -9 of the task leaves the command behind; the command has time to clean up."""
    task = (
        f"import sys; sys.path.insert(0, {str(DAGS)!r})\n"
        "from pathlib import Path\n"
        "from keyspread_dags.process import Call\n"
        f"program = {STUBBORN!r}\n"
        "log = lambda line: print(line, flush=True)\n"
        "Call([sys.executable, '-c', program], Path('.'), log, 1).run()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", task], stdout=subprocess.PIPE, text=True
    ) as killed:
        assert killed.stdout is not None
        command_process = psutil.Process(int(killed.stdout.readline().split()[1]))
        os.kill(killed.pid, signal.SIGKILL)
    psutil.wait_procs([command_process], timeout=20)
    assert not command_process.is_running()


def test_the_program_called_is_named_or_that_of_the_checkout(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("KEYSPREAD_BIN", "/opt/bin/keyspread")
    assert command.program() == "/opt/bin/keyspread"
    monkeypatch.delenv("KEYSPREAD_BIN")
    found: Any = Path(command.program())
    assert found == ROOT / ".venv" / "bin" / "keyspread" or found.name == "keyspread"
