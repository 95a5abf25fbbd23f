"""Programs are started with an environment of their own, whatever other threads set meanwhile."""

from __future__ import annotations

import ast
import os
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipelines.child_environment import child_environment
from pipelines.java import find_java

ROOT = Path(__file__).parent.parent
STARTERS = ("run", "Popen", "call", "check_call", "check_output")
NUM_NAMES = 5_000


@pytest.fixture
def others_set_variables() -> Iterator[None]:
    """A thread that sets variables and takes them away, as fast as it can."""
    ends = threading.Event()
    names = [f"KEYSPREAD_TEST_{number}" for number in range(NUM_NAMES)]

    def go_on() -> None:
        while not ends.is_set():
            for name in names:
                os.environ[name] = "v" * 100
            for name in names:
                del os.environ[name]

    thread = threading.Thread(target=go_on)
    thread.start()
    yield
    ends.set()
    thread.join()


@pytest.mark.usefixtures("others_set_variables")
def test_programs_start_while_others_set_variables() -> None:
    for _ in range(100):
        subprocess.run(["/bin/true"], env=child_environment(), check=True)
    assert find_java().fits


def starts_without(source: Path) -> list[str]:
    """The places of a file that start a program without an environment of its own."""
    return [
        f"{source.relative_to(ROOT)}:{node.lineno}"
        for node in ast.walk(ast.parse(source.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == "subprocess"
        and node.func.attr in STARTERS
        and "env" not in {keyword.arg for keyword in node.keywords}
    ]


def test_every_start_names_its_environment() -> None:
    sources = [
        path for part in ("partitioners", "pipelines") for path in ROOT.glob(f"{part}/**/*.py")
    ]
    assert len(sources) > 100
    assert [place for source in sources for place in starts_without(source)] == []
