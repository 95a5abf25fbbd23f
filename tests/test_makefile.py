"""What `make clean` does to the stack, in a folder of its own and with a `docker` of its own."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

MAKEFILE = Path(__file__).parent.parent / "Makefile"


def clean(folder: Path, engine_answers: bool) -> tuple[str, list[str]]:
    """Run it; gives what it said and the calls of `docker`."""
    (folder / "Makefile").write_bytes(MAKEFILE.read_bytes())
    (folder / "runs").mkdir()
    calls = folder / "calls"
    docker = folder / "bin" / "docker"
    docker.parent.mkdir()
    docker.write_text(
        f'#!/bin/sh\necho "$COMPOSE_PROFILES $*" >> {calls}\n'
        f"[ $1 != info ] || exit {0 if engine_answers else 1}\n"
    )
    docker.chmod(0o755)
    # Without what a `make test` around this one hands down.
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    ran = subprocess.run(
        ["make", "clean"],
        cwd=folder,
        env={**kept, "PATH": f"{docker.parent}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert not (folder / "runs").exists()
    return ran.stdout + ran.stderr, calls.read_text().splitlines() if calls.exists() else []


def test_clean_removes_the_stack_with_its_data(tmp_path: Path) -> None:
    (tmp_path / ".env").touch()
    said, calls = clean(tmp_path, engine_answers=True)
    assert said == ""
    assert calls[-1] == "* compose down --volumes --remove-orphans"
    assert (tmp_path / ".env").exists()


@pytest.mark.parametrize(
    ("has_env", "reason"), [(False, "there is no .env"), (True, "no Docker engine answers")]
)
def test_clean_says_that_the_data_of_the_stack_stays(
    tmp_path: Path, has_env: bool, reason: str
) -> None:
    if has_env:
        (tmp_path / ".env").touch()
    said, calls = clean(tmp_path, engine_answers=False)
    assert said.startswith(f"clean: {reason}: ")
    assert said.count("\n") == 1
    assert not any("compose" in call for call in calls)
