"""Finding a Java that fits, among programs that answer as real ones do."""

from __future__ import annotations

from pathlib import Path

import pytest

from partitioners.errors import InputError
from pipelines import java
from pipelines.java import find_java, parse_major


def make_java(home: Path, version: str, *, vector: bool = True) -> Path:
    """Write a program that answers `-version` as that Java would."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    refuse = "" if vector else '[ "$1" = --add-modules ] && { echo "not found" >&2; exit 1; }\n'
    program.write_text(f"#!/bin/sh\n{refuse}echo 'openjdk version \"{version}\" 2025' >&2\n")
    program.chmod(0o755)
    return program


@pytest.fixture
def only_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine whose only folder for Java is a temporary one."""
    monkeypatch.setattr(java, "_USUAL_HOMES", (f"{tmp_path}/usual/*",))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", f"{tmp_path}/path/bin:/bin")
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "usual").mkdir()
    # /bin may hold a java of the machine: hide it, and nothing else the scripts need.
    monkeypatch.setattr(java.shutil, "which", lambda name: _which(tmp_path / "path/bin" / name))
    return tmp_path


def _which(program: Path) -> str | None:
    return str(program) if program.exists() else None


@pytest.mark.parametrize(
    ("text", "major"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('openjdk version "21" 2023-09-19 LTS', 21),
        ('java version "1.8.0_402"', 8),
        ('openjdk version "24-ea" 2025-03-18', 24),
        ("bash: java: command not found", None),
    ],
)
def test_versions_are_read(text: str, major: int | None) -> None:
    assert parse_major(text) == major


def test_this_machine_has_one() -> None:
    found = find_java()
    assert found.version in (17, 21)
    assert found.has_vector_module
    assert (found.home / "bin" / "java").samefile(found.executable)


def test_java_home_comes_first_then_path_then_the_usual_folders(
    only_here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = make_java(only_here / "usual" / "java-21", "21.0.4")
    assert find_java().executable == usual
    on_path = make_java(only_here / "path", "17.0.1")
    assert find_java().executable == on_path
    at_home = make_java(only_here / "home", "21.0.1")
    monkeypatch.setenv("JAVA_HOME", str(only_here / "home"))
    assert find_java().executable == at_home


def test_a_wrong_java_home_is_passed_over(only_here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_java(only_here / "home", "11.0.2")
    monkeypatch.setenv("JAVA_HOME", str(only_here / "home"))
    right = make_java(only_here / "usual" / "java-17", "17.0.15")
    assert find_java().executable == right


def test_none_at_all_names_the_command(only_here: Path) -> None:
    with pytest.raises(InputError, match=r"found none: .*apt-get install openjdk-17-jre-headless"):
        find_java()


@pytest.mark.parametrize("version", ["1.8.0_402", "11.0.2", "24.0.1"])
def test_a_wrong_one_is_named(only_here: Path, version: str) -> None:
    program = make_java(only_here / "usual" / "wrong", version)
    major = parse_major(f'version "{version}"')
    with pytest.raises(InputError, match=f"found only Java {major} at {program}: install one"):
        find_java()


def test_one_without_the_vector_module_is_named(only_here: Path) -> None:
    make_java(only_here / "usual" / "cut", "17.0.1", vector=False)
    with pytest.raises(InputError, match=r"Java 17 without the module jdk\.incubator\.vector"):
        find_java()


@pytest.mark.parametrize(
    ("script", "mode", "said"),
    [
        ("echo hello", 0o755, r"whose `-version` says hello \(exit code 0\)"),
        ("echo no room for the heap >&2; exit 1", 0o755, r"no room for the heap \(exit code 1\)"),
        ("exit 3", 0o755, r"says nothing \(exit code 3\)"),
        ("echo hello", 0o644, r"which does not run \(Permission denied\)"),
        ("sleep 60", 0o755, r"gave no version within 0\.4 s"),
    ],
)
def test_one_that_does_not_run_is_named_with_its_words(
    only_here: Path, monkeypatch: pytest.MonkeyPatch, script: str, mode: int, said: str
) -> None:
    monkeypatch.setattr(java, "ANSWER_SECONDS", 0.4 if "sleep" in script else 60.0)
    program = make_java(only_here / "usual" / "broken", "17.0.1")
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(mode)
    with pytest.raises(InputError, match=f"found only {program}, .*{said}: install one"):
        find_java()
