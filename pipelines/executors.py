"""Whether a cluster's executors have what the driver has: Python, our own code, packages.

On one machine they are the same by nature. On a cluster they come with an archive
(`PYSPARK_SUBMIT_ARGS="--archives env.tar.gz#environment pyspark-shell"`), or were installed there
at some time, and a difference shows only later, as an error of another package, or not at all.
"""

from __future__ import annotations

import platform
import re
import socket
from collections.abc import Iterable, Iterator
from importlib import metadata

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from partitioners.errors import InputError

# What our stages compute with, and what the records between Java and Python are made of.
CHECKED = (
    "keyspread",
    "confluent-kafka",
    "numba",
    "numpy",
    "pandas",
    "polars",
    "protobuf",
    "pyarrow",
    "pyspark",
)
MEND = (
    "ship the driver's environment with PYSPARK_SUBMIT_ARGS=\"--archives keyspread-env.tar.gz"
    '#environment pyspark-shell" and PYSPARK_PYTHON=./environment/bin/python (`make executor-env` '
    "builds it)"
)
ABSENT = "absent"


def installed_versions() -> dict[str, str]:
    """Give the versions of Python and of the packages that matter; "absent" for none.

    Example:
        >>> installed_versions()["python"].count(".")
        1
    """
    found = {"python": ".".join(platform.python_version_tuple()[:2])}
    for name in CHECKED:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = ABSENT
    return found


def differences(driver: dict[str, str], executor: dict[str, str]) -> list[str]:
    """Say in what an executor differs.

    Args:
        driver: From `installed_versions`.
        executor: The same, there.

    Example:
        >>> differences({"python": "3.11", "polars": "1.35"}, {"python": "3.11", "polars": "1.30"})
        ['polars 1.30 (here 1.35)']
    """
    return [
        f"{name} {executor.get(name, ABSENT)} (here {version})"
        for name, version in driver.items()
        if executor.get(name, ABSENT) != version
    ]


def require_same_environment(spark: SparkSession) -> None:
    """See that the executors of a cluster can run what the driver sends them.

    Args:
        spark: A session; one on this machine alone needs no look.

    Raises:
        InputError: An executor has other versions, or lacks Python or the package itself.
    """
    context = spark.sparkContext
    master = str(context.master)
    if master.startswith("local"):
        return
    tasks = max(2, 2 * int(context.defaultParallelism))
    try:
        said = dict(context.parallelize(range(tasks), tasks).mapPartitions(_tell).collect())
    except (PySparkException, Py4JJavaError) as error:
        missing = _what_is_missing(str(error))
        raise InputError(f"the executors of {master} {missing}: {MEND}") from None
    driver = installed_versions()
    for host, versions in sorted(said.items()):
        if other := differences(driver, versions):
            raise InputError(f"the executor on {host} has {', '.join(other)}: {MEND}")


def _tell(_numbers: Iterable[int]) -> Iterator[tuple[str, dict[str, str]]]:
    yield socket.gethostname(), installed_versions()


def _what_is_missing(text: str) -> str:
    r"""Find in Spark's words what an executor lacks.

    Example:
        >>> _what_is_missing("...\nModuleNotFoundError: No module named 'pipelines'\n...")
        "have no Python package 'pipelines'"
        >>> _what_is_missing('...IOException: Cannot run program "/x/python": error=2, No')
        'cannot start /x/python'
    """
    if found := re.search(r"No module named '?([\w.]+)", text):
        return f"have no Python package '{found.group(1).partition('.')[0]}'"
    if found := re.search(r'Cannot run program "([^"]+)"', text):
        return f"cannot start {found.group(1)}"
    causes = [line.strip() for line in text.splitlines() if line.strip()]
    return f"cannot run Python ({causes[-1][:200] if causes else 'no reason given'})"
