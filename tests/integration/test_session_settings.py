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


@pytest.mark.spark
@pytest.mark.parametrize(("line", "least", "most"), [("", 1900, 2048), ("=600m", 500, 600)])
def test_the_drivers_memory_may_stand_in_the_defaults(
    tmp_path: Path, line: str, least: int, most: int
) -> None:
    setting = f"spark.driver.memory{line}" if line else "# spark.driver.memory 600m"
    (tmp_path / "spark-defaults.conf").write_text(f"spark.ui.enabled false\n{setting}\n")
    ran = subprocess.run(
        [sys.executable, "-c", HEAP_MB],
        env={**os.environ, "SPARK_CONF_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    assert least <= int(ran.stdout.split("heap ")[1]) <= most
