"""The only broker's disk fills while records are produced and consumed: room made, none is lost."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from testcontainers.core.container import DockerContainer

from tests.containers.kafka_cluster import KafkaCluster
from tests.containers.traffic import Traffic
from tests.containers.versions import image
from tests.containers.waiting import wait_until

pytestmark = [pytest.mark.containers, pytest.mark.spark]

DISK = "size=192m,mode=1777"


class SmallDisk(DockerContainer):
    """A volume in memory that is there, with its data, as long as this container runs."""

    def __init__(self) -> None:
        super().__init__(image("DEBIAN"))
        client = self.get_docker_client().client
        options = {"type": "tmpfs", "device": "tmpfs", "o": DISK}
        self.volume = client.volumes.create(driver="local", driver_opts=options)
        self.with_command("sleep infinity")
        self.with_volume_mapping(self.volume.name, "/disk", "rw")

    def fill(self) -> None:
        """Leave no room."""
        self.exec(["dd", "if=/dev/zero", "of=/disk/ballast", "bs=64k"])

    def make_room(self) -> None:
        """Undo that."""
        self.exec(["rm", "/disk/ballast"])


@pytest.fixture
def disk() -> Iterator[SmallDisk]:
    small = SmallDisk()
    try:
        with small:
            yield small
    finally:
        small.volume.remove(force=True)


def test_a_full_disk_is_waited_for(disk: SmallDisk, spark: SparkSession, tmp_path: Path) -> None:
    with KafkaCluster(1, disk=disk.volume.name) as cluster:
        with Traffic(cluster.bootstrap, "full", spark, tmp_path) as traffic:
            traffic.wait_for_more()
            disk.fill()
            wait_until(lambda: not cluster.runs(1), "the end of the broker")
            disk.make_room()
            cluster.start(1)
            cluster.wait_until_whole()
            traffic.wait_for_more()
        traffic.check()
