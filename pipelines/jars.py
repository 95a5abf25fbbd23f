"""Fetches Kafka and Spark's Kafka connector once, through the Ivy that ships inside PySpark."""

from __future__ import annotations

import contextlib
import fcntl
import importlib.metadata
import importlib.util
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from partitioners.errors import RunError
from pipelines.child_environment import child_environment
from pipelines.java import find_java
from pipelines.places import keyspread_home, storage_error

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KAFKA_VERSION = "4.4.0"
SCALA_VERSION = "2.13"
FETCH_TIMEOUT_S = 900
_MANIFEST = "complete.json"
_LOGGING_ARTIFACTS = ("slf4j-api", "log4j-slf4j2-impl", "log4j-api", "log4j-core")


def kafka_jars() -> list[Path]:
    """Give the jars of the Kafka broker, fetched if the cache lacks them (43 MB, 40 s).

    Raises:
        InputError: There is no fitting Java, or the cache cannot be written.
        RunError: The jars could not be fetched.
    """
    return fetch_jars("org.apache.kafka", f"kafka_{SCALA_VERSION}", KAFKA_VERSION)


def broker_classpath() -> list[Path]:
    """Give what the broker's JVM loads: Kafka's jars, with PySpark's logging before them.

    Kafka's own dependencies name a logging interface but no implementation, so that the broker
    would write nothing, not even why it ends. PySpark has one.

    Raises:
        InputError: There is no fitting Java, or the cache cannot be written.
        RunError: The jars could not be fetched.
    """
    jars = {_artifact(jar.name): jar for jar in _pyspark_jars_dir().glob("*.jar")}
    logging = [jars[name] for name in _LOGGING_ARTIFACTS if name in jars]
    return [
        *logging,
        *(jar for jar in kafka_jars() if _artifact(jar.name) not in _LOGGING_ARTIFACTS),
    ]


def connector_jars() -> list[Path]:
    """Give Spark's own Kafka connector for the installed PySpark; see `add_connector`.

    Jars that PySpark already has are left out: a second Hadoop client would only be copied around.

    Raises:
        InputError: There is no fitting Java, or the cache cannot be written.
        RunError: The jars could not be fetched.
    """
    version = _pyspark_version()
    shipped = {_artifact(jar.name) for jar in _pyspark_jars_dir().glob("*.jar")}
    jars = fetch_jars("org.apache.spark", f"spark-sql-kafka-0-10_{SCALA_VERSION}", version)
    return [jar for jar in jars if _artifact(jar.name) not in shipped]


def add_connector(session: SparkSession) -> None:
    """Let a session read and write `format("kafka")`, which runs of Keyspread have no need of.

    Args:
        session: Of any kind; others of the same Spark may see the connector too.

    Raises:
        InputError: There is no fitting Java, or the cache cannot be written.
        RunError: The jars could not be fetched.
    """
    for jar in connector_jars():
        session.sql(f"ADD JAR '{jar}'")


def fetch_jars(organisation: str, module: str, version: str) -> list[Path]:
    """Give a module with all it depends on, from the cache or from the network.

    Several processes may ask at once: one fetches, the others wait for it. A folder that is
    not complete (a killed fetch, a deleted or cut file) is fetched anew.

    Args:
        organisation: The group, such as `org.apache.kafka`.
        module: The artifact, such as `kafka_2.13`.
        version: Its version.

    Returns:
        The jars, sorted by name.

    Raises:
        InputError: There is no fitting Java, or the cache cannot be written.
        RunError: The jars could not be fetched, or the disk is full.
    """
    home = keyspread_home() / "jars"
    folder = home / f"{module}-{version}"
    if (jars := complete_jars(folder)) is not None:
        return jars
    try:
        home.mkdir(parents=True, exist_ok=True)
        with _locked(home / f"{module}-{version}.lock"):
            if (jars := complete_jars(folder)) is not None:
                return jars
            with tempfile.TemporaryDirectory(dir=home, prefix=f".{module}-") as scratch:
                fetched = _retrieve(Path(scratch), organisation, module, version)
                shutil.rmtree(folder, ignore_errors=True)
                fetched.rename(folder)
    except OSError as error:
        raise storage_error(error, home) from error
    jars = complete_jars(folder)
    if jars is None:
        raise RunError(f"the jars in {folder} changed while they were fetched: start again")
    return jars


def complete_jars(folder: Path) -> list[Path] | None:
    """Give the jars of a fetched folder, or None if one is missing or cut short.

    Args:
        folder: A folder that `fetch_jars` may have made.
    """
    try:
        sizes: dict[str, int] = json.loads((folder / _MANIFEST).read_text(encoding="utf-8"))
        if not sizes or any((folder / name).stat().st_size != sizes[name] for name in sizes):
            return None
    except (OSError, ValueError):
        return None
    return [folder / name for name in sorted(sizes)]


def _retrieve(scratch: Path, organisation: str, module: str, version: str) -> Path:
    """Run Ivy into a scratch folder; the manifest is written last and makes it complete."""
    into = scratch / "jars"
    into.mkdir()
    command = [
        str(find_java().executable),
        *_proxy_options(),
        # A cache of its own: one in the home folder may hold half a file of somebody's fetch.
        f"-Divy.default.ivy.user.dir={scratch / 'ivy'}",
        "-jar",
        str(_ivy_jar()),
        *(["-settings", named] if (named := os.environ.get("KEYSPREAD_IVY_SETTINGS")) else []),
        "-dependency",
        organisation,
        module,
        version,
        "-confs",
        "default",
        "-retrieve",
        f"{into}/[artifact]-[revision](-[classifier]).[ext]",
    ]
    name = f"{organisation}:{module}:{version}"
    try:
        ran = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=FETCH_TIMEOUT_S,
            check=False,
            cwd=scratch,
            env=child_environment(),
        )
    except subprocess.TimeoutExpired:
        raise _fetch_error(name, f"no end after {FETCH_TIMEOUT_S} s") from None
    output = ran.stdout + ran.stderr
    if "No space left on device" in output:
        raise OSError(28, "No space left on device")
    jars = sorted(into.glob("*.jar"))
    # Ivy says so when a dependency of a dependency is missing, but may end with 0 all the same.
    unresolved = ran.returncode != 0 or "UNRESOLVED DEPENDENCIES" in output or "[FAILED" in output
    if unresolved or not (into / f"{module}-{version}.jar").is_file():
        raise _fetch_error(name, _reason(output))
    manifest = {jar.name: jar.stat().st_size for jar in jars}
    (into / _MANIFEST).write_text(json.dumps(manifest, indent=1), encoding="utf-8")
    return into


def _fetch_error(name: str, reason: str) -> RunError:
    return RunError(
        f"could not fetch {name} ({reason}): check the network and HTTPS_PROXY, or name a mirror "
        "in an Ivy settings file with KEYSPREAD_IVY_SETTINGS, then start again"
    )


def _reason(output: str) -> str:
    for pattern in (
        r"Server access error at url (\S+ \([^)]*\))",
        r":: (\S+: not found)",
        r"((?:java\.net\.)?\w*(?:UnknownHost|Connect|NoRouteToHost|Timeout)\w*Exception[^\n]*)",
        r"\[FAILED\s*\] ([^\n]*)",
    ):
        if found := re.search(pattern, output):
            return found.group(1).strip()
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return lines[-1] if lines else "Ivy said nothing"


def _proxy_options() -> list[str]:
    """Hand the proxy of the environment to Java, which does not read it by itself."""
    options = []
    for scheme in ("http", "https"):
        url = os.environ.get(f"{scheme}_proxy") or os.environ.get(f"{scheme.upper()}_PROXY")
        proxy = urlsplit(url) if url else None
        if proxy is not None and proxy.hostname:
            options += [
                f"-D{scheme}.proxyHost={proxy.hostname}",
                f"-D{scheme}.proxyPort={proxy.port or 80}",
            ]
    return options


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _artifact(jar_name: str) -> str:
    """Cut the version off: `slf4j-api-2.0.17.jar` is the artifact `slf4j-api`."""
    return re.sub(r"-\d[^-]*(-\d[^-]*)?\.jar$", "", jar_name)


def _pyspark_version() -> str:
    return importlib.metadata.version("pyspark")


def _pyspark_jars_dir() -> Path:
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise RunError("PySpark is not installed: run `pip install 'keyspread[spark]'`")
    return Path(spec.origin).parent / "jars"


def _ivy_jar() -> Path:
    found = sorted(_pyspark_jars_dir().glob("ivy-*.jar"))
    if not found:
        raise RunError("PySpark came without its Ivy jar: reinstall it with `pip install pyspark`")
    return found[-1]
