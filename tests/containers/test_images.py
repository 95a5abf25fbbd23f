"""The images: built on the pinned Debian alone, and whole, so that nothing is fetched later."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.containers.compose_stack import Stack
from tests.containers.versions import ROOT

pytestmark = pytest.mark.containers

SPARK, AIRFLOW = "keyspread-spark:local", "keyspread-airflow:local"
PYTHON = "/opt/keyspread/.venv/bin/python"
JARS = "from pipelines.jars import connector_jars; print(*connector_jars(), sep='\\n')"
REACH = "import urllib.request as u; u.urlopen('https://repo1.maven.org', timeout=5)"
# As a driver does: Spark's own JVM, its Python workers, the connector's classes.
SESSION = """
from pipelines.jars import add_connector
from pipelines.session import spark_session
session = spark_session(master="local[1]")
add_connector(session)
print(session.range(7).count())
"""
# A driver's Java, which notes where its classes are from.
CLASSES = """
import os, pathlib
os.environ["JDK_JAVA_OPTIONS"] = "-Xlog:class+load:file=/tmp/classes-%p"
from pipelines.session import spark_session
spark_session(master="local[1]").range(7).collect()
for notes in pathlib.Path("/tmp").glob("classes-*"):
    text = notes.read_text()
    if "spark.scheduler.DAGScheduler " in text:
        print(text.count("shared objects file (top)"), text.count(".jar\\n"))
"""


@pytest.fixture(scope="module", autouse=True)
def built(tmp_path_factory: pytest.TempPathFactory) -> None:
    Stack(tmp_path_factory.mktemp("stack")).compose("build")


def without_network(image: str, *command: str) -> subprocess.CompletedProcess[str]:
    """Run a command in a new container; its first word takes the place of the entry point."""
    program, *arguments = command
    alone = ["docker", "run", "--rm", "--network", "none", "--entrypoint", program]
    return subprocess.run(
        [*alone, image, *arguments], capture_output=True, text=True, check=False, timeout=300
    )


def test_no_network_is_reached_from_there() -> None:
    assert "URLError" in without_network(SPARK, PYTHON, "-c", REACH).stderr


@pytest.mark.parametrize("image", [SPARK, AIRFLOW])
def test_the_connector_is_in_the_image(image: str) -> None:
    ran = without_network(image, PYTHON, "-c", JARS)
    assert ran.returncode == 0, ran.stderr
    jars = [Path(line) for line in ran.stdout.splitlines()]
    assert any(jar.name.startswith("spark-sql-kafka-0-10_") for jar in jars)
    assert all(jar.is_relative_to("/opt/keyspread/home/jars") for jar in jars)


def test_spark_starts_with_the_connector_and_no_network() -> None:
    ran = without_network(SPARK, PYTHON, "-c", SESSION)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.split() == ["7"]


@pytest.mark.parametrize("image", [SPARK, AIRFLOW])
def test_sparks_classes_are_mapped_from_the_archive(image: str) -> None:
    ran = without_network(image, PYTHON, "-c", CLASSES)
    assert ran.returncode == 0, ran.stderr
    mapped, loaded = map(int, ran.stdout.split())
    assert mapped > 2 * loaded > 0


def test_airflow_is_in_the_image() -> None:
    ran = without_network(AIRFLOW, "airflow", "version")
    assert ran.returncode == 0, ran.stderr
    lock = (ROOT / "requirements-airflow.lock").read_text()
    assert f"apache-airflow=={ran.stdout.split()[-1]} " in lock


def test_the_start_script_passes_other_commands_on() -> None:
    ran = without_network(SPARK, "start", "keyspread", "--help")
    assert ran.returncode == 0, ran.stderr
    assert "Usage: keyspread" in ran.stdout


def test_a_build_without_the_pin_says_what_is_missing() -> None:
    with (ROOT / "infra" / "images" / "Dockerfile").open() as file:
        # The file alone, without a context: it goes no further than its first FROM.
        ran = subprocess.run(
            ["docker", "build", "--target", "base", "-"],
            stdin=file,
            capture_output=True,
            text=True,
            check=False,
        )
    assert ran.returncode != 0
    assert "DEBIAN_IMAGE" in ran.stderr
