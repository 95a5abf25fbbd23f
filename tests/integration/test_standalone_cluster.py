"""A run on a Spark cluster whose executors have working directories of their own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest

from partitioners.errors import InputError
from pipelines.session import spark_session
from tests.integration.programs import Program, keyed_lines, run_json
from tests.integration.spark_cluster import running_cluster


@pytest.fixture
def master(tmp_path: Path) -> Iterator[str]:
    """A master and a worker on this machine."""
    with running_cluster(tmp_path) as address:
        yield address


@pytest.mark.broker
@pytest.mark.spark
def test_results_of_a_relative_folder_are_where_the_command_was_given(
    master: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As where Hadoop is set up, whose file system holds no runs (and here does not even answer).
    settings = tmp_path / "conf" / "spark-defaults.conf"
    settings.parent.mkdir()
    settings.write_text("spark.hadoop.fs.defaultFS hdfs://127.0.0.1:1\n")
    monkeypatch.setenv("SPARK_CONF_DIR", str(settings.parent))
    keyed_lines(tmp_path / "in.csv", 2_000)
    asked = ["--input", "in.csv", "--master", master, "--runs-dir", "runs", "--partitions", "2"]
    assert run_json("run", "keyed-sum", *asked, cwd=tmp_path)["exact"]
    assert list(tmp_path.glob("runs/*/results/*.parquet"))
    assert not list(tmp_path.glob("work/**/*.parquet"))


@pytest.mark.spark
def test_executors_with_another_version_of_a_package_are_refused(tmp_path: Path) -> None:
    # As an executor sees one that was installed there before: the first on its path counts.
    older = tmp_path / "installed" / "polars-1.2.3.dist-info"
    older.mkdir(parents=True)
    (older / "METADATA").write_text("Metadata-Version: 2.1\nName: polars\nVersion: 1.2.3\n")
    path = os.pathsep.join([str(older.parent), os.environ.get("PYTHONPATH", "")])
    with running_cluster(tmp_path, python_path=path) as master:
        program = Program("run", "wordcount", "--master", master, "--runs-dir", tmp_path / "runs")
        code, out, err = program.finish()
    assert (code, out) == (2, "")
    said = err.strip().splitlines()[-1]
    here = metadata.version("polars")
    assert f" has polars 1.2.3 (here {here}): ship the driver's environment" in said
    assert "`make executor-env`" in said
    assert "Traceback" not in err
    assert program.survivors() == []
    assert not list(tmp_path.glob("runs/*/results/*.parquet"))


def test_a_python_that_only_executors_have_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYSPARK_PYTHON", "./environment/bin/python")
    with pytest.raises(InputError, match=r"not there: .* tar -xzf ARCHIVE -C environment"):
        spark_session("spark://127.0.0.1:7077")
