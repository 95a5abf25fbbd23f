"""Kafka in containers, told by the official image's variables: as many nodes as a test wants."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from testcontainers.core.container import DockerContainer
from testcontainers.core.network import Network

from tests.containers.versions import image
from tests.containers.waiting import wait_until

CLUSTER_ID = "a2V5c3ByZWFkLXRlc3RzMQ"
HOST_PORT, ADMIN_PORT = 29092, 29093


def free_ports(number: int) -> list[int]:
    """Find ports of this machine that nobody has."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(number)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [int(each.getsockname()[1]) for each in sockets]


class KafkaNode(DockerContainer):
    """A broker that is also a controller. Its ports stay when it is killed and started again.

    Args:
        node_id: Its number, from 1.
        num_nodes: How many nodes the cluster has.
        network: Where they see each other.
        protocol: Of the listener for this machine, such as SASL_SSL.
        environment: Further variables of the image.
        secrets: Folder that is /etc/kafka/secrets inside.
        disk: Volume for its data; None: one of its own.
    """

    def __init__(
        self,
        node_id: int,
        num_nodes: int,
        network: Network,
        protocol: str = "PLAINTEXT",
        environment: Mapping[str, str] | None = None,
        secrets: Path | None = None,
        disk: str | None = None,
    ) -> None:
        super().__init__(image("KAFKA"), mem_limit="832m", hostname=f"kafka-{node_id}")
        self.with_network(network).with_network_aliases(f"kafka-{node_id}")
        self.port, self.admin_port = free_ports(2)
        # Of this machine alone: testcontainers itself would open them to everybody.
        self.ports[f"{HOST_PORT}/tcp"] = ("127.0.0.1", self.port)  # type: ignore[assignment]
        self.ports[f"{ADMIN_PORT}/tcp"] = ("127.0.0.1", self.admin_port)  # type: ignore[assignment]
        if secrets is not None:
            self.with_volume_mapping(str(secrets), "/etc/kafka/secrets", "ro")
        if disk is not None:
            self.with_volume_mapping(disk, "/var/lib/kafka/data", "rw")
        voters = ",".join(f"{i}@kafka-{i}:9093" for i in range(1, num_nodes + 1))
        copies, in_sync = str(num_nodes), str(max(1, num_nodes - 1))
        protocols = {"CONTROLLER": "PLAINTEXT", "INSIDE": "PLAINTEXT", "ADMIN": "PLAINTEXT"}
        protocols["HOST"] = protocol
        self.env |= {
            "CLUSTER_ID": CLUSTER_ID,
            "KAFKA_HEAP_OPTS": "-Xms128m -Xmx384m",
            "KAFKA_NODE_ID": str(node_id),
            "KAFKA_PROCESS_ROLES": "broker,controller",
            "KAFKA_CONTROLLER_QUORUM_VOTERS": voters,
            "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
            "KAFKA_INTER_BROKER_LISTENER_NAME": "INSIDE",
            "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": ",".join(
                f"{name}:{spoken}" for name, spoken in protocols.items()
            ),
            "KAFKA_LISTENERS": f"INSIDE://:9092,CONTROLLER://:9093,"
            f"HOST://:{HOST_PORT},ADMIN://:{ADMIN_PORT}",
            "KAFKA_ADVERTISED_LISTENERS": f"INSIDE://kafka-{node_id}:9092,"
            f"HOST://127.0.0.1:{self.port},ADMIN://127.0.0.1:{self.admin_port}",
            "KAFKA_LOG_DIRS": "/var/lib/kafka/data",
            "KAFKA_AUTO_CREATE_TOPICS_ENABLE": "false",
            "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
            "KAFKA_DEFAULT_REPLICATION_FACTOR": copies,
            "KAFKA_MIN_INSYNC_REPLICAS": in_sync,
            "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": copies,
            "KAFKA_OFFSETS_TOPIC_NUM_PARTITIONS": "4",
            "KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR": copies,
            "KAFKA_TRANSACTION_STATE_LOG_MIN_ISR": in_sync,
            "KAFKA_LOG_RETENTION_MS": "-1",
            "KAFKA_LOG_MESSAGE_TIMESTAMP_AFTER_MAX_MS": str(2**63 - 1),
            **(environment or {}),
        }

    @property
    def log(self) -> str:
        """What it has said lately."""
        return self.get_wrapped_container().logs(tail=30).decode(errors="replace")


class KafkaCluster:
    """Nodes on a network of their own, as a context manager; gone in the end with their data.

    Args:
        num_nodes: How many.
        node: Further arguments of each `KafkaNode`.
    """

    def __init__(self, num_nodes: int, **node: Any) -> None:
        self._num_nodes = num_nodes
        self._node = node
        self._stack = contextlib.ExitStack()
        self.nodes: dict[int, KafkaNode] = {}

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            network = stack.enter_context(Network())
            for node_id in range(1, self._num_nodes + 1):
                node = KafkaNode(node_id, self._num_nodes, network, **self._node)
                self.nodes[node_id] = stack.enter_context(node)
            self.wait_until_whole()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    @property
    def bootstrap(self) -> str:
        """Servers for clients on this machine."""
        return ",".join(f"127.0.0.1:{node.port}" for node in self.nodes.values())

    @property
    def admin_settings(self) -> dict[str, str | int]:
        """Settings of a client that may do anything."""
        servers = ",".join(f"127.0.0.1:{node.admin_port}" for node in self.nodes.values())
        return {"bootstrap.servers": servers, "log_level": 0}

    def kill(self, node_id: int) -> None:
        """End a node at once, as a power cut does."""
        self.nodes[node_id].get_wrapped_container().kill()

    def stop(self, node_id: int) -> None:
        """End a node in good order."""
        self.nodes[node_id].get_wrapped_container().stop(timeout=60)

    def start(self, node_id: int) -> None:
        """Start a node again, with its data."""
        self.nodes[node_id].get_wrapped_container().start()

    def runs(self, node_id: int) -> bool:
        """Whether a node runs."""
        container = self.nodes[node_id].get_wrapped_container()
        container.reload()
        return bool(container.status == "running")

    def leader(self, topic: str, partition: int) -> int:
        """Say which node leads a partition."""
        metadata = AdminClient(self.admin_settings).list_topics(topic, timeout=30)
        return int(metadata.topics[topic].partitions[partition].leader)

    def topics(self) -> list[str]:
        """Name the topics there are."""
        return list(AdminClient(self.admin_settings).list_topics(timeout=30).topics)

    def is_whole(self) -> bool:
        """Whether every node answers and every copy of every partition is in sync."""
        # A client of its own: one that has seen a dead node waits longer and longer.
        client = AdminClient(self.admin_settings)
        try:
            metadata = client.list_topics(timeout=5)
        except KafkaException:
            return False
        return len(metadata.brokers) == self._num_nodes and all(
            partition.leader >= 0 and len(partition.isrs) == len(partition.replicas)
            for topic in metadata.topics.values()
            for partition in topic.partitions.values()
        )

    def wait_until_whole(self) -> None:
        """Wait for that."""
        try:
            wait_until(self.is_whole, "whole")
        except AssertionError as error:
            said = "\n".join(node.log for node in self.nodes.values())
            raise AssertionError(f"the cluster never got whole:\n{said}") from error

    def each_in_turn(self) -> Iterator[int]:
        """Restart the nodes one by one; gives each that is back."""
        for node_id in self.nodes:
            self.stop(node_id)
            self.start(node_id)
            self.wait_until_whole()
            yield node_id


def settings_file(path: Path, settings: Mapping[str, object]) -> Path:
    """Write settings as `--kafka-config` reads them."""
    kept = {name: value for name, value in settings.items() if name != "bootstrap.servers"}
    path.write_text("".join(f"{name}={value}\n" for name, value in kept.items()))
    return path
