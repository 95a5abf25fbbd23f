"""Looks at the machine and says what a run would trip over, and what to do about it."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import socket
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from partitioners.errors import KeyspreadError

GIB = 1 << 30
LEAST_MEMORY_BYTES = 3 * GIB  # the broker, Spark's JVM and two Python workers on a small input
LEAST_DISK_BYTES = 2 * GIB
DEFAULT_BROKER_PORT = 9092
# What a run imports, with the releases it is known to work with.
NEEDED = {
    "pyspark": "==4.2.0",
    "pandas": ">=2.2,<3",
    "pyarrow": ">=21",
    "polars": ">=1.30",
    "duckdb": ">=1.4",
    "confluent-kafka": ">=2.11",
    "numba": ">=0.62",
    "protobuf": ">=5",
    "googleapis-common-protos": ">=1.65",
}


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at."""

    name: str
    ok: bool
    found: str
    mend: str = ""


def examine(runs_dir: Path) -> list[Finding]:
    """Look at everything a run needs.

    Args:
        runs_dir: Where runs would be kept.

    Returns:
        One finding for each thing; `mend` says what to do where it is not `ok`.
    """
    return [
        _python(),
        *(_package(name, wanted) for name, wanted in NEEDED.items()),
        _java(),
        _memory(),
        _processors(),
        _disk("disk for runs", runs_dir.absolute()),
        _disk("disk for temporary files", Path(tempfile.gettempdir())),
        _cache(),
        _host_name(),
        _port(),
        _spark_home(),
    ]


def _python() -> Finding:
    version = platform.python_version()
    return Finding(
        "Python",
        sys.version_info >= (3, 11),
        f"{version} ({sys.executable})",
        "install Python 3.11 or later",
    )


def _package(name: str, wanted: str) -> Finding:
    try:
        version = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return Finding(name, False, "missing", "run `pip install 'keyspread[spark]'`")
    return Finding(
        name,
        _satisfies(version, wanted),
        version,
        f"run `pip install '{name}{wanted}'`",
    )


def _satisfies(version: str, wanted: str) -> bool:
    """Compare releases by their leading numbers.

    Example:
        >>> _satisfies("2.3.1", ">=2.2,<3"), _satisfies("3.0.0", ">=2.2,<3")
        (True, False)
    """
    have = _numbers(version)
    checks: dict[str, Callable[[tuple[int, ...]], bool]] = {
        "==": lambda bound: have == bound,
        ">=": lambda bound: have >= bound,
        "<": lambda bound: have < bound,
    }
    return all(
        next(
            check(_numbers(part.removeprefix(sign)))
            for sign, check in checks.items()
            if part.startswith(sign)
        )
        for part in wanted.split(",")
    )


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:3] if part.isdigit())


def _java() -> Finding:
    from pipelines.java import find_java

    try:
        java = find_java()
    except KeyspreadError as error:
        return Finding("Java", False, "none that fits", str(error))
    return Finding("Java", True, f"{java.version} ({java.executable})")


def _memory() -> Finding:
    import psutil

    available = psutil.virtual_memory().available
    return Finding(
        "memory",
        available >= LEAST_MEMORY_BYTES,
        f"{available / GIB:.1f} GiB available",
        f"free some: a run needs {LEAST_MEMORY_BYTES // GIB} GiB",
    )


def _processors() -> Finding:
    count = os.cpu_count() or 1
    return Finding("processors", True, f"{count}")


def _disk(name: str, path: Path) -> Finding:
    place = next(folder for folder in (path, *path.parents) if folder.exists())
    if not place.is_dir() or not os.access(place, os.W_OK):
        return Finding(
            name,
            False,
            f"{path} cannot be written",
            "name another folder with --runs-dir or TMPDIR",
        )
    free = shutil.disk_usage(place).free
    return Finding(
        name,
        free >= LEAST_DISK_BYTES,
        f"{free / GIB:.1f} GiB free on {place}",
        f"free some: {LEAST_DISK_BYTES // GIB} GiB are a safe measure",
    )


def _cache() -> Finding:
    from pipelines.jars import KAFKA_VERSION, SCALA_VERSION, complete_jars
    from pipelines.places import keyspread_home

    folder = keyspread_home() / "jars" / f"kafka_{SCALA_VERSION}-{KAFKA_VERSION}"
    cached = complete_jars(folder)
    found = (
        f"cached in {folder}" if cached else "not cached yet: the first run fetches them (43 MB)"
    )
    return Finding("Kafka jars", True, found)


def _host_name() -> Finding:
    name = socket.gethostname()
    try:
        address = socket.gethostbyname(name)
    except OSError:
        return Finding(
            "host name", False, f"{name} has no address", f'add "127.0.1.1 {name}" to /etc/hosts'
        )
    return Finding("host name", True, f"{name} is {address}")


def _port() -> Finding:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", DEFAULT_BROKER_PORT))
        except OSError:
            # No fault: runs take any free port, only `broker start` wants this one.
            return Finding(
                f"port {DEFAULT_BROKER_PORT}",
                True,
                "in use; start a broker of your own with `keyspread broker start --port N`",
            )
    return Finding(f"port {DEFAULT_BROKER_PORT}", True, "free")


def _spark_home() -> Finding:
    home = os.environ.get("SPARK_HOME")
    if not home:
        return Finding("SPARK_HOME", True, "not set: PySpark's own Spark is used")
    jars = sorted(Path(home).glob("jars/spark-core_*.jar"))
    version = jars[0].stem.rpartition("-")[2] if jars else "none"
    wanted = NEEDED["pyspark"].removeprefix("==")
    return Finding(
        "SPARK_HOME",
        version == wanted,
        f"{home} holds Spark {version}",
        f"unset SPARK_HOME, or point it at a Spark {wanted}",
    )
