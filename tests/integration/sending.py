"""A bare client for tests that lay records into a topic themselves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from confluent_kafka import Producer


def ordered_producer(config: Mapping[str, Any]) -> Producer:
    """A producer that keeps the order of each partition.

    Without idempotence a batch that is sent again, as happens with a topic just made, may come
    after the batch that followed it, and its records are late.
    """
    return Producer({**config, "enable.idempotence": True, "queue.buffering.max.messages": 10**7})
