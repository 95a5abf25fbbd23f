"""The topics of a producer: looked up at the broker, opened, and looked after."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from time import monotonic
from typing import Any

from confluent_kafka import Producer

from partitioners.errors import InputError, RunError, nearest
from partitioners.kafka.refusals import raise_if_refused
from partitioners.kafka.routes import Batches, OnPartitionChange, PartitionerSpec, Route
from partitioners.kafka.topics import count_partitions, ensure_topic, is_compacted

log = logging.getLogger(__name__)

# A refresh must not hold the stream up while the broker is away; it is tried again later.
_REFRESH_TIMEOUT_S = 2.0


@dataclass(frozen=True, slots=True)
class RouteTable:
    """What a producer was told of its topics; the arguments are `PartitionedProducer`'s."""

    settings: Mapping[str, Any]
    specs: Mapping[str, PartitionerSpec]
    create_topics_with: int | None
    allow_compacted: bool
    on_partition_change: OnPartitionChange
    metadata_refresh_s: float
    metadata_timeout_s: float
    batches: Batches

    def open(self, topic: str, client: Producer) -> Route:
        """Look a topic up, make it if that is wanted, and fit its partitioner to it.

        Raises:
            InputError: It has no partitioner here, does not exist, or must not be split.
            RunError: No broker answered.
        """
        if topic not in self.specs:
            raise InputError(
                f'no partitioner was given for topic "{topic}"; {nearest(topic, self.specs)}'
            )
        try:
            num_partitions = count_partitions(client, topic, self.metadata_timeout_s)
        except RunError:
            raise_if_refused(self.settings)
            raise
        if num_partitions is None:
            if self.create_topics_with is None:
                raise InputError(
                    f'there is no topic "{topic}": create it, or give create_topics_with=8 to have '
                    "it made with 8 partitions"
                )
            ensure_topic(self.settings, topic, self.create_topics_with)
            num_partitions = self.create_topics_with
        route = Route(topic, self.specs[topic], num_partitions, self.batches)
        if route.partitioner.traits.splits_keys and not self.allow_compacted:
            self._refuse_compacted(topic, route.partitioner.name)
        route.next_check_s = monotonic() + self.metadata_refresh_s
        return route

    def refresh(self, route: Route, client: Producer) -> None:
        """Ask for the partition count of a topic, and follow it as was wanted.

        Raises:
            InputError: It changed, and that is not allowed.
        """
        route.next_check_s = monotonic() + self.metadata_refresh_s
        try:
            num_partitions = count_partitions(client, route.topic, _REFRESH_TIMEOUT_S)
        except RunError as error:
            log.info("partition count of %s not refreshed: %s", route.topic, error)
            return
        if num_partitions is not None:
            route.resize(num_partitions, self.on_partition_change)

    def _refuse_compacted(self, topic: str, name: str) -> None:
        compacted = is_compacted(self.settings, topic)
        if compacted is None:
            log.info("the broker does not say whether topic %s is compacted", topic)
        elif compacted:
            raise InputError(
                f'topic "{topic}" is compacted, and {name} splits keys, so that a last record of a '
                "key would stay in each of its partitions: use key_hash, or give "
                "allow_compacted=True"
            )
