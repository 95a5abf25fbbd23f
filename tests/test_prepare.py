"""Run folders: written whole, without secrets, found again, and locked while in use."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from partitioners.errors import InputError, RunError
from pipelines.benchmark.ending import ending_in_order
from pipelines.benchmark.prepare import (
    RunConfig,
    find_run,
    make_run_folder,
    new_run_id,
    results_folder,
)
from pipelines.benchmark.site import DiskWatch
from pipelines.commands.options import kafka_settings
from pipelines.interrupt import Interrupted, stoppable
from pipelines.run_lock import RunLock

SECRETS = {"sasl.password": "hunter2", "ssl.key.password": "hunter2", "sasl.jaas.config": "hunter2"}


def config(**changes: object) -> RunConfig:
    fixed = {"run_id": "r1", "workload": "wordcount", "inputs": ("a.txt",)}
    return RunConfig(**{**fixed, "partitioner": "pkg", "partitions": 4, **changes})  # type: ignore[arg-type]


def test_a_configuration_comes_back_without_its_secrets(tmp_path: Path) -> None:
    run = config(kafka={"security.protocol": "SASL_SSL", **SECRETS}, options={"d": 3})
    folder = make_run_folder(tmp_path, run)
    assert RunConfig.read(folder) == config(
        kafka={"security.protocol": "SASL_SSL"}, options={"d": 3}
    )
    assert "hunter2" not in (folder / "config.json").read_text()
    assert find_run(tmp_path, "r1") == find_run(tmp_path, str(folder)) == folder


def test_a_damaged_configuration_says_so(tmp_path: Path) -> None:
    folder = make_run_folder(tmp_path, config())
    (folder / "config.json").write_text('{"run_id": "r1"')
    with pytest.raises(InputError, match=r"config\.json is damaged or of another version"):
        RunConfig.read(folder)


def test_a_run_that_is_not_there_is_named_with_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there are no runs yet"):
        find_run(tmp_path, "r2")
    make_run_folder(tmp_path, config(run_id="20250101-101010-abcd"))
    with pytest.raises(InputError, match='did you mean "20250101-101010-abcd"'):
        find_run(tmp_path, "20250101-101010-abce")
    for digits in range(10):
        make_run_folder(tmp_path, config(run_id=f"20250101-101010-000{digits}"))
    with pytest.raises(InputError, match=r'mean "20250101-101010-abcd"\? Known: .* and 8 more$'):
        find_run(tmp_path, "20250101-101010-abcc")


def test_run_ids_differ() -> None:
    assert len({new_run_id() for _ in range(50)}) > 45


def test_results_go_into_an_empty_folder(tmp_path: Path) -> None:
    new = tmp_path / "new" / "deep"
    with results_folder(new):
        (new / "part").touch()
    with (
        pytest.raises(InputError, match="is not empty: name a new folder with --results"),
        results_folder(new),
    ):
        pass
    with results_folder(new, resumed=True):
        assert [path.name for path in new.iterdir()] == ["part"]
    for path in (new / "part", new / "part" / "sub"):
        with (
            pytest.raises(InputError, match="/part is a file, not a folder: name another folder"),
            results_folder(path),
        ):
            pass


def test_results_of_two_runs_do_not_go_into_one_folder(tmp_path: Path) -> None:
    """Not even while it is empty; and who is refused, or fails, removes nobody's folder."""
    shared = tmp_path / "shared"
    with results_folder(shared):
        with (
            pytest.raises(InputError, match=r"another run writes to .*/shared: wait for it"),
            results_folder(shared),
        ):
            pass
        assert shared.is_dir()
    mine = tmp_path / "mine"
    for path, stays in ((shared, True), (mine, False)):
        with pytest.raises(RunError), results_folder(path):
            raise RunError("failed")
        assert path.exists() == stays


def test_a_lock_on_a_folder_that_was_removed_holds_nothing(tmp_path: Path) -> None:
    """Many take the folder, fail and remove it at once: never two are in it."""
    shared, inside, met = tmp_path / "shared", [0], []

    def take(number: int) -> None:
        for _ in range(50):
            with contextlib.suppress(InputError, RunError), results_folder(shared):
                inside[0] += 1
                met.append(inside[0])
                inside[0] -= 1
                raise RunError(f"{number} failed")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(take, range(4)))
    assert set(met) == {1}


def test_settings_of_a_file_give_way_to_options(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("# a comment\n\nacks = all\nlinger.ms=5\nsasl.password=a=b\n")
    assert kafka_settings(file, ["linger.ms=50"]) == {
        "acks": "all",
        "linger.ms": "50",
        "sasl.password": "a=b",
    }
    file.write_text("acks\n")
    with pytest.raises(InputError, match=r'line 1 of .* is not key=value: "acks"'):
        kafka_settings(file, None)


HOLDER = """
import subprocess, sys, time
from pathlib import Path
from pipelines.run_lock import RunLock
with RunLock(Path(sys.argv[1])) as lock:
    child = subprocess.Popen(["sleep", "600"])
    lock.note(__import__("os").getpid(), child.pid)
    print(child.pid, flush=True)
    time.sleep(600)
"""


def test_a_live_run_is_not_started_twice_and_a_killed_one_is_free(tmp_path: Path) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    child = psutil.Process(int(holder.stdout.readline()))
    with pytest.raises(InputError, match=rf"is live \(process {holder.pid}\)"), RunLock(tmp_path):
        pass
    holder.kill()
    holder.wait()
    holder.stdout.close()
    assert child.is_running()
    child.terminate()  # as the broker and the JVM do when they notice
    with RunLock(tmp_path):
        # The processes it left behind are waited for, so nothing of theirs gets in the way.
        assert not child.is_running()
    assert (tmp_path / "run.lock").read_text() == ""


@pytest.fixture
def sleeper() -> Iterator[Callable[[], subprocess.Popen[bytes]]]:
    """Starts processes that do nothing, and ends them."""
    started: list[subprocess.Popen[bytes]] = []

    def start() -> subprocess.Popen[bytes]:
        started.append(subprocess.Popen(["sleep", "600"]))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()


def test_processes_left_behind_are_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sleeper: Callable[[], subprocess.Popen[bytes]]
) -> None:
    monkeypatch.setattr("pipelines.run_lock.LEFT_BEHIND_SECONDS", 0.2)
    left, other = sleeper(), sleeper()
    started = {str(left.pid): psutil.Process(left.pid).create_time(), str(other.pid): 1.0}
    (tmp_path / "run.lock").write_text(json.dumps(started))
    with RunLock(tmp_path):
        assert not psutil.pid_exists(left.pid) or left.wait(10) is not None
        # The same number, but another process: it stays.
        assert psutil.pid_exists(other.pid)
        assert psutil.Process(other.pid).status() != psutil.STATUS_ZOMBIE


def test_a_stop_signal_ends_the_block_and_its_children(
    sleeper: Callable[[], subprocess.Popen[bytes]],
) -> None:
    handler = signal.getsignal(signal.SIGTERM)
    before = sleeper()
    children: list[subprocess.Popen[bytes]] = []

    def interrupted() -> None:
        with stoppable():
            children.append(sleeper())
            os.kill(os.getpid(), signal.SIGTERM)
            children[0].wait(20)

    with pytest.raises(Interrupted) as stopped:
        interrupted()
    assert stopped.value.exit_code == 143
    assert not psutil.pid_exists(children[0].pid)
    assert before.poll() is None
    assert signal.getsignal(signal.SIGTERM) is handler


def test_what_fails_while_a_stop_is_cleaned_up_does_not_hide_it() -> None:
    def interrupted() -> None:
        with stoppable():
            try:
                os.kill(os.getpid(), signal.SIGTERM)
            finally:
                raise ConnectionRefusedError("the JVM had the same signal, and is gone")

    with pytest.raises(Interrupted, match="stopped by SIGTERM"):
        interrupted()
    with pytest.raises(ConnectionRefusedError), stoppable():
        raise ConnectionRefusedError("nobody asked to stop")


def test_a_nearly_full_disk_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    DiskWatch(tmp_path).check()
    monkeypatch.setattr("pipelines.benchmark.site.LEAST_FREE_BYTES", 1 << 60)
    with pytest.raises(InputError, match="so the run was stopped while nothing is lost"):
        DiskWatch(tmp_path).check()


def test_several_windows_stay_in_the_configuration_and_one_leaves_it_as_it_was(
    tmp_path: Path,
) -> None:
    one = config(window_ms=30_000, slide_ms=10_000)
    assert "more_windows" not in one.public()
    several = config(
        window_ms=30_000, slide_ms=10_000, more_windows=((60_000, 10_000), (90_000, 90_000))
    )
    several.write(tmp_path)
    assert RunConfig.read(tmp_path) == several
    assert [(each.window_ms, each.slide_ms) for each in several.of_each_window()] == [
        (30_000, 10_000),
        (60_000, 10_000),
        (90_000, 90_000),
    ]


def test_how_a_run_that_was_stopped_can_go_on(tmp_path: Path) -> None:
    def ended(name: str, *parts: str, resumed: bool = False) -> tuple[str, bool]:
        folder = tmp_path / name
        for part in parts:
            (folder / part).mkdir(parents=True)
        with pytest.raises(Interrupted) as stopped, ending_in_order(folder, resumed=resumed):
            raise Interrupted(signal.SIGTERM)
        return str(stopped.value), folder.exists()

    assert ended("new", "broker") == ("stopped by SIGTERM", False)
    resume = "stopped by SIGTERM; go on with `keyspread run --resume "
    assert ended("begun", "checkpoint") == (f"{resume}{tmp_path}/begun`", True)
    assert ended("before", "broker", resumed=True) == (f"{resume}{tmp_path}/before`", True)
    report = f"stopped by SIGTERM; its figures are kept: `keyspread report {tmp_path}/done`"
    assert ended("done", "checkpoint", "cells") == (report, True)
