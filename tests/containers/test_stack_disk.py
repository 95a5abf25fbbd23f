"""Kafka's disk in the stack fills in mid-cell: with room made, the cell ends exact."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.containers.compose_stack import WORDCOUNT, Stack
from tests.containers.versions import ROOT, image
from tests.containers.waiting import wait_until

pytestmark = pytest.mark.containers

# In memory, and as small as that: a volume that stays as long as the service `disk` runs.
SMALL_DISK = {"type": "tmpfs", "device": "tmpfs", "o": "size=192m,mode=1777"}
DISK = {
    "image": image("DEBIAN"),
    "command": ["sleep", "infinity"],
    "init": True,
    "volumes": ["kafka-data:/disk"],
}
CHANGES = {
    "services": {"disk": DISK, "kafka": {"depends_on": ["disk"]}},
    "volumes": {"kafka-data": {"driver_opts": SMALL_DISK}},
}


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    folder = tmp_path_factory.mktemp("stack")
    changes = folder / "changes.json"
    changes.write_text(json.dumps(CHANGES))
    files = {"COMPOSE_FILE": f"{ROOT / 'docker-compose.yml'}:{changes}"}
    running = Stack(folder, "keyspread-disk-test", files)
    try:
        running.compose("up", "-d", "--build", "--wait", "--wait-timeout", "600")
        yield running
    finally:
        running.compose("down", "--volumes", "--timeout", "20", check=False)


def in_disk(stack: Stack, *command: str) -> None:
    stack.compose("exec", "-T", "disk", *command, check=False)


def test_a_full_disk_in_mid_cell(stack: Stack) -> None:
    run, grid = stack.in_mid_cell()
    in_disk(stack, "dd", "if=/dev/zero", "of=/disk/ballast", "bs=64k")
    wait_until(lambda: stack.states()["kafka"] != "healthy", "the end of the broker", 120, every=1)
    in_disk(stack, "rm", "/disk/ballast")
    wait_until(lambda: stack.states()["kafka"] == "healthy", "the broker back", 240, every=1)
    assert stack.wait_for(WORDCOUNT, run) == "success"
    (cell,) = stack.cells(grid)
    assert cell["exact"], cell["differences"]
    assert cell["produced"] == cell["delivered"] > 0
    assert stack.task(WORDCOUNT, run, "cell")["try_number"] == 1
