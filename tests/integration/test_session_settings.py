"""What a user sets for Spark as for every Spark program reaches it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HEAP_MB = """
from pipelines.session import spark_session
runtime = spark_session("local[1]").sparkContext._jvm.java.lang.Runtime.getRuntime()
print("heap", runtime.maxMemory() >> 20)
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
