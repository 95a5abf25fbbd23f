"""Finds the Java that the broker and Spark run on: 17 or 21, with Spark's vector module."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from partitioners.errors import InputError
from pipelines.child_environment import child_environment

# Kafka 4 and Spark 4 need 17. From 24 on Hadoop fails, for `Subject.getSubject` is gone; the
# releases between 17, 21 and 24 get no more security fixes.
SUPPORTED_JAVA = (17, 21)
MEND = (
    "install one with `sudo apt-get install openjdk-17-jre-headless` "
    "(or set JAVA_HOME to a Java 17 or 21)"
)
# A machine under load may take long to start it.
ANSWER_SECONDS = 60.0
WORDS_SHOWN = 200
_USUAL_HOMES = (
    "/usr/lib/jvm/*",
    "/usr/java/*",
    "/opt/java/*",
    "/opt/jdk*",
    "/Library/Java/JavaVirtualMachines/*/Contents/Home",
)


@dataclass(frozen=True)
class Java:
    """One Java on this machine."""

    executable: Path
    version: int
    has_vector_module: bool

    @property
    def home(self) -> Path:
        """What `JAVA_HOME` has to be for Spark to use this Java."""
        return self.executable.parent.parent

    @property
    def fits(self) -> bool:
        """Whether the broker and Spark both run on it."""
        return self.version in SUPPORTED_JAVA and self.has_vector_module


def parse_major(text: str) -> int | None:
    """Read the major version from what `java -version` prints.

    Example:
        >>> parse_major('openjdk version "17.0.15"'), parse_major('java version "1.8.0_4"')
        (17, 8)
    """
    found = re.search(r'version "(?:1\.)?(\d+)', text)
    return int(found.group(1)) if found else None


def inspect_java(executable: Path) -> Java:
    """Ask a Java for its version.

    Args:
        executable: The program to ask.

    Raises:
        InputError: It does not run, or is none; the text gives its own words.
    """
    # Spark adds this module on its command line, and a cut-down runtime without it dies at once.
    for extra, has_module in ((["--add-modules", "jdk.incubator.vector"], True), ([], False)):
        try:
            asked = subprocess.run(
                [str(executable), *extra, "-version"],
                capture_output=True,
                text=True,
                errors="replace",
                timeout=ANSWER_SECONDS,
                check=False,
                env=child_environment(),
            )
        except OSError as error:
            raise InputError(f"{executable}, which does not run ({error.strerror})") from error
        except subprocess.TimeoutExpired as error:
            raise InputError(
                f"{executable}, which gave no version within {ANSWER_SECONDS:g} s"
            ) from error
        said = asked.stderr + asked.stdout
        version = parse_major(said)
        if asked.returncode == 0 and version is not None:
            return Java(executable.resolve(), version, has_module)
    words = " ".join(said.split())[:WORDS_SHOWN] or "nothing"
    raise InputError(f"{executable}, whose `-version` says {words} (exit code {asked.returncode})")


def _candidates() -> Iterator[Path]:
    if home := os.environ.get("JAVA_HOME"):
        yield Path(home) / "bin" / "java"
    if on_path := shutil.which("java"):
        yield Path(on_path)
    for pattern in _USUAL_HOMES:
        root = Path(pattern.split("*", maxsplit=1)[0]).parent if "*" in pattern else Path("/")
        for home_dir in sorted(root.glob(str(Path(pattern).relative_to(root)))):
            yield home_dir / "bin" / "java"
    for home_dir in sorted((Path.home() / ".sdkman/candidates/java").glob("*")):
        yield home_dir / "bin" / "java"


def find_java() -> Java:
    """Find a Java 17 or 21: `JAVA_HOME` first, then `PATH`, then the usual folders.

    Returns:
        The first Java that fits.

    Raises:
        InputError: There is none; the text says which were found and what to install.
    """
    unfit: dict[Path, str] = {}
    for candidate in _candidates():
        executable = candidate.resolve()
        if executable in unfit or not executable.is_file():
            continue
        try:
            java = inspect_java(executable)
        except InputError as error:
            unfit[executable] = str(error)
            continue
        if java.fits:
            return java
        lacks = " without the module jdk.incubator.vector"
        unfit[executable] = (
            f"Java {java.version}{lacks if java.version in SUPPORTED_JAVA else ''} at {executable}"
        )
    found = f"found only {', '.join(unfit.values())}" if unfit else "found none"
    raise InputError(f"Kafka and Spark need Java 17 or 21, and this machine has {found}: {MEND}")
