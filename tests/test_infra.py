"""What must agree in docker-compose.yml and infra/, without a Docker engine."""

from __future__ import annotations

import re
import stat
import subprocess
from pathlib import Path

from pipelines.jars import KAFKA_VERSION

ROOT = Path(__file__).parent.parent
INFRA = ROOT / "infra"
PARTS = sorted(INFRA.glob("*/compose.yml"))


def text_of_all() -> str:
    return "\n".join(path.read_text() for path in PARTS)


def pins(path: Path) -> dict[str, str]:
    """Name and version of what a lock file holds."""
    return dict(re.findall(r"^([A-Za-z0-9._-]+)==(\S+)", path.read_text(), re.MULTILINE))


def test_the_parts_are_all_included() -> None:
    included = re.findall(r"path: (\S+)", (ROOT / "docker-compose.yml").read_text())
    assert sorted(included) == [str(path.relative_to(ROOT)) for path in PARTS]


def test_versions_stand_in_one_place() -> None:
    versions = (INFRA / "versions.env").read_text()
    names = set(re.findall(r"^([A-Z]+_IMAGE)=", versions, re.MULTILINE))
    used = set(re.findall(r"\$\{([A-Z]+_IMAGE)\}", text_of_all()))
    assert used == names
    assert set(re.findall(r"image: (\S+)", text_of_all())) == {
        *(f"${{{name}}}" for name in names - {"DEBIAN_IMAGE"}),
        "keyspread-airflow:local",
        "keyspread-spark:local",
    }
    assert f"KAFKA_IMAGE=apache/kafka:{KAFKA_VERSION}\n" in versions
    pinned = re.findall(r"^[A-Z]+_(?:IMAGE|VERSION)=(\S+)", versions, re.MULTILINE)
    files = [path for path in (ROOT / "docker-compose.yml", *INFRA.rglob("*")) if path.is_file()]
    again = {(path.name, pin) for path in files for pin in pinned if pin in path.read_text("utf-8")}
    assert again == {("versions.env", pin) for pin in pinned}


def test_every_build_is_told_its_base() -> None:
    builds = re.findall(r"^    build:\n(?:      .*\n)+", text_of_all(), re.MULTILINE)
    assert len(builds) == 2
    assert all("DEBIAN_IMAGE: ${DEBIAN_IMAGE}\n" in build for build in builds)


def test_the_images_have_the_packages_that_are_tested() -> None:
    tested = pins(ROOT / "requirements.lock")
    in_images = pins(INFRA / "images" / "requirements.lock")
    assert {"pyspark", "polars", "confluent-kafka", "psycopg", "tpchgen-cli"} <= set(in_images)
    assert in_images.items() <= tested.items()
    assert "pytest" not in in_images


def test_ports_are_for_this_machine_alone() -> None:
    ports = re.findall(r"ports: \[(.+)\]", text_of_all())
    assert len(ports) >= 7
    assert all(re.fullmatch(r'"127\.0\.0\.1:\$\{\w+_PORT:-\d+\}:\d+"', port) for port in ports)


def test_every_service_says_whether_it_is_healthy_and_what_it_may_use() -> None:
    seen = 0
    for path in PARTS:
        shared, _, rest = path.read_text().partition("\nservices:\n")
        services = rest.partition("\nvolumes:\n")[0]
        for service in re.split(r"^  (?=[a-z0-9-]+:$)", services, flags=re.MULTILINE)[1:]:
            seen += 1
            known = service + (shared if "<<" in service else "")
            for word in ("healthcheck:", "mem_limit:", "cpus:", "restart:", "no-new-privileges"):
                assert word in known, (path, service.partition(":")[0], word)
    assert seen == 14


def test_secrets_are_made_once_and_kept_from_others(tmp_path: Path) -> None:
    file = tmp_path / "env"
    made = [
        subprocess.run([INFRA / "secrets.sh", file], check=True, capture_output=True, text=True)
        for _ in range(2)
    ]
    assert made[0].stdout == made[1].stdout
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    secrets = dict(line.split("=", 1) for line in file.read_text().splitlines())
    wanted = set(re.findall(r"\$\{(\w+):\?", text_of_all()))
    assert set(secrets) == wanted
    assert len(set(secrets.values())) == len(secrets)
    assert min(map(len, secrets.values())) >= 20
    ignored = (ROOT / ".gitignore").read_text().splitlines()
    assert ".env" in ignored


def test_kubernetes_takes_the_image_that_the_docs_push() -> None:
    texts = [path.read_text() for path in (INFRA / "kubernetes").iterdir()]
    texts.append((ROOT / "docs" / "operations.md").read_text())
    named = [re.findall(r"\S+/keyspread-spark:\S+", text) for text in texts]
    assert all(named)
    version = re.findall(r'^version = "(.*)"', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert {name for names in named for name in names} == {
        f"registry.example.org/keyspread-spark:{version[0]}"
    }
