"""What a user sets for Spark as for every Spark program reaches it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

HEAP_MB = """
from pipelines.session import spark_session
runtime = spark_session("local[1]").sparkContext._jvm.java.lang.Runtime.getRuntime()
print("heap", runtime.maxMemory() >> 20)
"""
# What a process finds that plans for Spark, and whether this one is left with a SPARK_HOME.
FOUND_PYSPARK = """
import os, sys, pathlib
from pyspark.sql.datasource import DataSource
from pipelines.session import spark_session

class Found(DataSource):
    @classmethod
    def name(cls):
        return "found"

    def schema(self):
        import pyspark
        return f"`{pyspark.__file__}` int"

folder = pathlib.Path(sys.argv[1])
spark = spark_session("local[1]", local_dir=folder, log_file=folder / "spark.log")
spark.dataSource.register(Found)
print(spark.read.format("found").load().columns[0], "SPARK_HOME" in os.environ)
"""


def heap_mb(folder: Path, **variables: str) -> int:
    """The driver's heap in a program that is started in a folder."""
    environment = {name: value for name, value in os.environ.items() if name != "SPARK_CONF_DIR"}
    ran = subprocess.run(
        [sys.executable, "-c", HEAP_MB],
        cwd=folder,
        env={**environment, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    return int(ran.stdout.split("heap ")[1])


@pytest.mark.spark
@pytest.mark.parametrize(("line", "least", "most"), [("", 1900, 2048), ("=600m", 500, 600)])
def test_the_drivers_memory_may_stand_in_the_defaults(
    tmp_path: Path, line: str, least: int, most: int
) -> None:
    setting = f"spark.driver.memory{line}" if line else "# spark.driver.memory 600m"
    (tmp_path / "spark-defaults.conf").write_text(f"spark.ui.enabled false\n{setting}\n")
    assert least <= heap_mb(tmp_path, SPARK_CONF_DIR=str(tmp_path)) <= most


@pytest.mark.spark
def test_defaults_that_spark_does_not_read_say_nothing(tmp_path: Path) -> None:
    (tmp_path / "spark-defaults.conf").write_text("spark.driver.memory 600m\n")
    assert 1900 <= heap_mb(tmp_path) <= 2048


@pytest.mark.spark
@pytest.mark.parametrize("own", [False, True])
def test_pyspark_is_taken_from_where_it_is_installed(tmp_path: Path, own: bool) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "SPARK_HOME"}
    installed = Path(pyspark.__file__).parent
    ran = subprocess.run(
        [sys.executable, "-c", FOUND_PYSPARK, str(tmp_path)],
        # Who names a Spark gets it, as it is.
        env={**environment, **({"SPARK_HOME": str(installed)} if own else {})},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    found, left = ran.stdout.split()
    where = installed / "python" / "lib" / "pyspark.zip" / "pyspark" if own else installed
    assert Path(found) == where / "__init__.py"
    assert left == str(own)
