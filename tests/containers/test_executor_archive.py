"""Executors that have nothing of ours but the archive of `make executor-env`.

No container is needed; it stands here because it packs and unpacks 280 MB.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.containers.versions import ROOT
from tests.integration.programs import Program, keyed_lines, run_json
from tests.integration.spark_cluster import running_cluster

pytestmark = [pytest.mark.containers, pytest.mark.broker, pytest.mark.spark]

PYTHON = "./environment/bin/python"
NUM_RECORDS = 3_000


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the archive, unpacked beside it as docs/operations.md says."""
    folder = tmp_path_factory.mktemp("driver")
    subprocess.run([ROOT / "scripts" / "executor-env.sh", folder / "dist"], check=True)
    (folder / "environment").mkdir()
    archive = folder / "dist" / "keyspread-env.tar.gz"
    subprocess.run(["tar", "-xzf", archive, "-C", folder / "environment"], check=True)
    return folder


@pytest.fixture
def master(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A cluster on which Keyspread is not to be found, asked for the archive's Python."""
    monkeypatch.setenv("PYSPARK_PYTHON", PYTHON)
    with running_cluster(tmp_path, python_path="") as address:
        yield address


def asked(driver: Path, master: str, folder: Path) -> list[object]:
    lines = keyed_lines(driver / "in.csv", NUM_RECORDS)
    run = ["run", "keyed-sum", "--input", lines, "--partitioner", "hot_fill", "--partitions", 2]
    return [*run, "--master", master, "--runs-dir", folder / "runs"]


def test_a_run_on_executors_that_have_the_archive_alone(
    driver: Path, master: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shipped = "--archives dist/keyspread-env.tar.gz#environment pyspark-shell"
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", shipped)
    cell = run_json(*asked(driver, master, tmp_path), cwd=driver)
    assert cell["exact"], cell["differences"]
    assert cell["produced"] == cell["delivered"] == NUM_RECORDS
    # Each executor has unpacked it, and has run the code in it: what was compiled lies beside it.
    executors = list(tmp_path.glob("work/app-*/*"))
    assert executors
    for each in executors:
        assert (each / PYTHON).exists()
        assert list(each.glob("environment/lib/python3.*/site-packages/pipelines/**/*.nbi"))


def test_without_the_archive_it_is_asked_for(driver: Path, master: str, tmp_path: Path) -> None:
    program = Program(*asked(driver, master, tmp_path), cwd=driver)
    code, out, err = program.finish()
    assert (code, out) == (2, "")
    assert f"cannot start {PYTHON}: ship the driver's environment" in err
    assert "`make executor-env`" in err
    assert "Traceback" not in err
