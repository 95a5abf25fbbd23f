"""Kill, Ctrl-C, a broker that goes away, a disk that fills: nothing is lost, nothing is left."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from pyspark.sql import SparkSession
from rich.console import Console

from partitioners.errors import RunError
from pipelines.benchmark.prepare import RunConfig, make_run_folder, new_run_id
from pipelines.benchmark.progress import RunProgress, progress_bars
from pipelines.benchmark.run import execute
from pipelines.benchmark.site import Site
from pipelines.broker import EmbeddedBroker
from pipelines.cli import main
from pipelines.topics import client_settings
from tests.integration.programs import Program, keyed_lines, run_json

pytestmark = [pytest.mark.broker, pytest.mark.spark]

NUM_RECORDS = 15_000
OUTAGE_SECONDS = 10.0
# Records per second: all of them would take 6 minutes, so every run is stopped on its way.
SLOW_RATE = 40
WINDOWS = ("--window-ms", 10_000, "--slide-ms", 2_000, "--punctuation-records", 200)


@pytest.fixture(scope="module")
def stream(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return keyed_lines(tmp_path_factory.mktemp("input") / "in.csv", NUM_RECORDS)


def started(stream: Path, runs: Path, *more: object, wrapper: tuple[str, ...] = ()) -> Program:
    """A run under way."""
    args = ("run", "keyed-sum", "--input", stream, "--partitioner", "pkg", "--partitions", 3)
    return Program(*args, *WINDOWS, "--runs-dir", runs, *more, wrapper=wrapper)


def the_run(runs: Path) -> Path:
    (folder,) = [path.parent for path in runs.glob("*/config.json")]
    return folder


def committed(runs: Path) -> list[Path]:
    """The commit files of the one run, in order."""
    found = [path for path in runs.glob("*/checkpoint/commits/*") if path.name.isdigit()]
    return sorted(found, key=lambda path: int(path.name))


def resumed_and_exact(runs: Path) -> None:
    """Resume at full speed, and compare every window with the oracle."""
    folder = the_run(runs)
    config = RunConfig.read(folder)
    replace(config, pace="max").write(folder)
    cell = run_json("run", "--resume", folder.name, "--runs-dir", runs)
    assert cell["exact"], cell["differences"]
    assert cell["produced"] == cell["delivered"] == NUM_RECORDS
    assert cell["on_time"] + cell["late"] == NUM_RECORDS
    # Some of it was in the topic already, and was not sent again.
    assert 0 < cell["skipped"] < NUM_RECORDS
    assert cell["windows_compared"] > NUM_RECORDS * 10 // 2_000
    assert not (folder / "broker").exists()


def test_ctrl_c_then_a_lost_commit_then_kill_9_twice_then_resume(
    stream: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    program = started(stream, tmp_path, "--rate", SLOW_RATE, "--batch-records", 5_000)
    program.wait_until(lambda: len(committed(tmp_path)) >= 2, "a second batch")
    code, out, err = program.stop(signal.SIGINT)
    assert code == 130
    assert out == ""
    folder = the_run(tmp_path)
    assert f"stopped by SIGINT; go on with `keyspread run --resume {folder}`" in err
    assert "Traceback" not in err
    assert program.survivors() == []

    last = committed(tmp_path)[-1]
    last.unlink()
    last.with_name(f".{last.name}.crc").unlink(missing_ok=True)
    resume = ("run", "--resume", folder.name, "--runs-dir", str(tmp_path))

    def refused(*more: str) -> str:
        with pytest.raises(SystemExit) as ended:
            main([*resume, *more])
        assert ended.value.code == 2
        return capfd.readouterr().err

    done = int(last.name)
    for _ in range(2):
        program = Program(*resume)
        program.wait_until(
            lambda done=done: int(committed(tmp_path)[-1].name) > done,  # type: ignore[misc]
            "a batch more",
        )
        assert f"is live (process {program.process.pid})" in refused()
        code, _, _ = program.stop(signal.SIGKILL)
        assert code == -signal.SIGKILL
        assert program.survivors() == []
        done = int(committed(tmp_path)[-1].name)

    assert "--shards" in refused("--shards", "4")
    resumed_and_exact(tmp_path)


@pytest.mark.parametrize(("num_children", "number"), [(1, signal.SIGINT), (2, signal.SIGTERM)])
def test_stopped_while_it_starts(
    stream: Path, tmp_path: Path, num_children: int, number: signal.Signals
) -> None:
    program = started(stream, tmp_path)
    program.wait_for_line("starting Spark and a Kafka broker")
    program.wait_until(lambda: len(program.family) >= num_children, "its child processes")
    code, _, err = program.stop(number)
    assert code == 128 + number
    assert err.endswith(f"keyspread: stopped by {number.name}\n")
    assert "Traceback" not in err
    assert program.survivors() == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("line", "verb", "shown"),
    [
        ("comparing with DuckDB", "run --resume", "exact: yes"),
        ("stopping Spark", "report", "exact: yes"),
    ],
)
def test_ctrl_c_when_all_is_computed(
    stream: Path, tmp_path: Path, line: str, verb: str, shown: str
) -> None:
    """What the run found is not lost: it is compared later, or shown."""
    program = started(stream, tmp_path)
    program.wait_for_line(line)
    code, _, err = program.stop(signal.SIGINT)
    assert code == 130
    assert f"`keyspread {verb} {the_run(tmp_path)}`" in err
    assert "Traceback" not in err
    assert program.survivors() == []
    then = Program(*verb.split(), the_run(tmp_path).name, "--runs-dir", tmp_path)
    code, out, err = then.finish()
    assert code == 0, err
    assert shown in out
    assert then.survivors() == []


def test_ctrl_c_in_the_demo(tmp_path: Path) -> None:
    program = Program("demo", "--runs-dir", tmp_path)
    program.wait_for_line("comparing with DuckDB")
    code, _, err = program.stop(signal.SIGINT)
    assert code == 130
    assert err.endswith("keyspread: stopped by SIGINT\n")
    assert program.survivors() == []
    assert not list(tmp_path.glob(".demo-*"))


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[EmbeddedBroker]:
    """A broker that a test may stop."""
    with EmbeddedBroker(tmp_path / "broker") as broker:
        yield broker


def test_a_broker_away_for_ten_seconds(
    own_broker: EmbeddedBroker, spark: SparkSession, stream: Path, tmp_path: Path
) -> None:
    config = RunConfig(
        run_id=new_run_id(),
        workload="keyed-sum",
        inputs=(str(stream),),
        partitioner="cam",
        partitions=3,
        window_ms=10_000,
        slide_ms=2_000,
        punctuation_records=200,
        batch_records=5_000,
        pace="rate",
        pace_value=600.0,
    )
    folder = make_run_folder(tmp_path / "runs", config)
    bootstrap = own_broker.bootstrap
    site = Site(bootstrap, client_settings(bootstrap, {}), spark, ())
    outage = threading.Thread(target=interrupt, args=(own_broker, folder))
    outage.start()
    with progress_bars(Console(quiet=True), shown=False) as bars:
        progress = RunProgress(bars, "test", stream.stat().st_size)
        cell = execute(config, folder, site, resumed=False, progress=progress)
    outage.join()
    assert cell.differences == []
    assert cell.exact
    assert cell.produced == cell.delivered == NUM_RECORDS
    # What could not be sent was late by its schedule, and says so.
    assert (cell.publish_delay_ms["max"] or 0) + (cell.latency_ms["max"] or 0) > 5_000


def test_a_broker_that_was_killed_ends_the_run(
    own_broker: EmbeddedBroker, spark: SparkSession
) -> None:
    site = Site(own_broker.bootstrap, {}, spark, (), own_broker)
    site.check_broker()
    assert own_broker.pid is not None
    process = psutil.Process(own_broker.pid)
    process.kill()
    process.wait(20)
    with pytest.raises(RunError, match=r"Kafka broker has ended: .*broker\.log"):
        site.check_broker()


def interrupt(broker: EmbeddedBroker, folder: Path) -> None:
    """Take the broker away after the first batch, while records are sent and read."""
    commits = folder / "checkpoint" / "commits"
    waiting = threading.Event()
    while not (commits.is_dir() and any(path.name.isdigit() for path in commits.iterdir())):
        waiting.wait(0.1)
    broker.stop()
    waiting.wait(OUTAGE_SECONDS)
    broker.start()


def test_a_disk_that_fills_stops_the_run_in_time(stream: Path, tmp_path: Path) -> None:
    # A small disk that only this program sees; its root directory is reached through /proc.
    disk = tmp_path / "disk"
    disk.mkdir()
    as_root = () if os.geteuid() == 0 else ("--user", "--map-root-user")
    mount = f'mount -t tmpfs -o size=300m tmpfs {disk} && exec "$@"'
    wrapper = ("unshare", "--mount", *as_root, "sh", "-c", mount, "sh")
    program = started(stream, disk / "runs", "--rate", SLOW_RATE, wrapper=wrapper)
    seen = Path(f"/proc/{program.process.pid}/root{disk}")
    program.wait_until(lambda: bool(committed(seen / "runs")), "a first batch")
    free = psutil.disk_usage(str(seen)).free
    filler = subprocess.run(
        ["fallocate", "-l", str(free - (4 << 20)), str(seen / "filler")], check=False
    )
    assert filler.returncode == 0
    code, out, err = program.finish()
    assert code == 2, err
    assert out == ""
    assert f"the disk that holds {disk}" in err
    assert "go on with `keyspread run --resume" in err
    assert "Traceback" not in err
    assert program.survivors() == []
