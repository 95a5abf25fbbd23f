"""Fetching jars with the real Ivy, from a small Maven repository on disk."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pyspark
import pytest

from partitioners.errors import InputError, RunError
from pipelines.jars import complete_jars, connector_jars, fetch_jars, kafka_jars

ARTIFACTS = ("top", "below")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and a repository with a module `top` that depends on `below`."""
    repository = tmp_path / "repository"
    for name in ARTIFACTS:
        folder = repository / "org" / "example" / name / "1.0"
        folder.mkdir(parents=True)
        with zipfile.ZipFile(folder / f"{name}-1.0.jar", "w") as jar:
            jar.writestr("content", name * 100)
        needs = (
            "<dependencies><dependency><groupId>org.example</groupId><artifactId>below</artifactId>"
            "<version>1.0</version></dependency></dependencies>"
            if name == "top"
            else ""
        )
        (folder / f"{name}-1.0.pom").write_text(
            "<project><modelVersion>4.0.0</modelVersion><groupId>org.example</groupId>"
            f"<artifactId>{name}</artifactId><version>1.0</version>{needs}</project>"
        )
    settings = tmp_path / "ivysettings.xml"
    settings.write_text(
        '<ivysettings><settings defaultResolver="disk"/><resolvers>'
        f'<ibiblio name="disk" m2compatible="true" root="{repository.as_uri()}/"/>'
        "</resolvers></ivysettings>"
    )
    monkeypatch.setenv("KEYSPREAD_IVY_SETTINGS", str(settings))
    monkeypatch.setenv("KEYSPREAD_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def names(jars: list[Path]) -> list[str]:
    return [jar.name for jar in jars]


def test_a_module_comes_with_what_it_needs_once(home: Path) -> None:
    jars = fetch_jars("org.example", "top", "1.0")
    assert names(jars) == ["below-1.0.jar", "top-1.0.jar"]
    before = [jar.stat().st_ino for jar in jars]
    assert [jar.stat().st_ino for jar in fetch_jars("org.example", "top", "1.0")] == before
    left = {path.name for path in (home / "jars").iterdir()}
    assert left == {"top-1.0", "top-1.0.lock"}  # no scratch folder stays


@pytest.mark.parametrize(
    "damage", ["deleted", "cut", "no manifest", "bad manifest", "killed early"]
)
def test_a_damaged_cache_heals(home: Path, damage: str) -> None:
    jars = fetch_jars("org.example", "top", "1.0")
    folder = jars[0].parent
    if damage == "deleted":
        jars[0].unlink()
    elif damage == "cut":
        jars[1].write_bytes(jars[1].read_bytes()[:50])
    elif damage == "no manifest":
        (folder / "complete.json").unlink()
    elif damage == "bad manifest":
        (folder / "complete.json").write_text('{"below-1.0.jar": ')
    else:
        for path in folder.iterdir():
            path.unlink()
    assert complete_jars(folder) is None
    healed = fetch_jars("org.example", "top", "1.0")
    assert names(healed) == names(jars)
    assert all(zipfile.is_zipfile(jar) for jar in healed)


def test_two_processes_at_once_get_the_same(home: Path) -> None:
    program = (
        "from pipelines.jars import fetch_jars\n"
        "print([jar.stat().st_ino for jar in fetch_jars('org.example', 'top', '1.0')])\n"
    )
    both = [
        subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    answers = [process.communicate(timeout=120)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert answers[0] == answers[1]


def test_a_missing_dependency_leaves_nothing_half_done(home: Path) -> None:
    (home.parent / "repository/org/example/below/1.0/below-1.0.jar").unlink()
    (home.parent / "repository/org/example/below/1.0/below-1.0.pom").unlink()
    with pytest.raises(RunError, match=r"could not fetch org\.example:top:1\.0 \(.*below"):
        fetch_jars("org.example", "top", "1.0")
    assert complete_jars(home / "jars" / "top-1.0") is None


def test_no_network_says_what_to_do(home: Path) -> None:
    settings = home.parent / "ivysettings.xml"
    settings.write_text(
        '<ivysettings><settings defaultResolver="gone"/><resolvers>'
        '<ibiblio name="gone" m2compatible="true" root="http://127.0.0.1:9/"/>'
        "</resolvers></ivysettings>"
    )
    with pytest.raises(RunError, match=r"Connection refused.*check the network and HTTPS_PROXY"):
        fetch_jars("org.example", "top", "1.0")


def test_a_cache_that_cannot_be_a_folder(home: Path) -> None:
    home.write_text("a file")
    with pytest.raises(InputError, match="is not a folder"):
        fetch_jars("org.example", "top", "1.0")


def test_the_real_ones_are_complete() -> None:
    assert "kafka_2.13-4.4.0.jar" in names(kafka_jars())
    connector = names(connector_jars())
    assert f"spark-sql-kafka-0-10_2.13-{pyspark.__version__}.jar" in connector
    assert not [name for name in connector if name.startswith("hadoop")]  # PySpark has it
