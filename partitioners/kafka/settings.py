"""Checks a producer's librdkafka settings and adds the defaults that lose and double nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from partitioners.errors import InputError

_PARTITIONER_SETTINGS = ("partitioner", "partitioner_cb", "partitioner_callback")
# Settings that librdkafka refuses beside idempotence; who sets one has chosen against it.
_AGAINST_IDEMPOTENCE: dict[str, tuple[str, ...]] = {
    "acks": ("0", "1"),
    "request.required.acks": ("0", "1"),
    "retries": ("0",),
    "message.send.max.retries": ("0",),
    "queuing.strategy": ("lifo",),
}
_IN_FLIGHT = ("max.in.flight", "max.in.flight.requests.per.connection")
_MAX_IN_FLIGHT_IDEMPOTENT = 5
# Only a producer has a use for these; an admin client warns about them or refuses them.
_PRODUCER_ONLY = (
    "on_delivery",
    "delivery.report.only.error",
    "statistics.interval.ms",
    "stats_cb",
    "transactional.id",
    "enable.idempotence",
)

_LOGIN = ("sasl.username", "sasl.password", "sasl.mechanism", "sasl.mechanisms")


def producer_settings(config: Mapping[str, Any]) -> dict[str, Any]:
    """Check the settings and fill in `enable.idempotence` and `compression.type`.

    Args:
        config: What the user gave; anything librdkafka knows passes through.

    Returns:
        A new dict.

    Raises:
        InputError: There is no `bootstrap.servers`, a partitioner stands in the settings, or a
            login that would not be used.

    Example:
        >>> producer_settings({"bootstrap.servers": "b:9092", "acks": 1})["compression.type"]
        'lz4'
    """
    for name in _PARTITIONER_SETTINGS:
        if name in config:
            raise InputError(
                f'"{name}" in the settings would not be used: give the partitioner by topic, as in '
                'PartitionedProducer(settings, {"clicks": "pkg"})'
            )
    if not (config.get("bootstrap.servers") or config.get("metadata.broker.list")):
        raise InputError('the settings lack "bootstrap.servers": name a broker as host:port')
    check_login(config)
    settings = dict(config)
    if "enable.idempotence" not in settings and not _chosen_against_idempotence(settings):
        settings["enable.idempotence"] = True
    if "compression.type" not in settings and "compression.codec" not in settings:
        settings["compression.type"] = "lz4"
    return settings


def check_login(config: Mapping[str, Any]) -> None:
    """See that a login is used where one is given: without SASL librdkafka says nothing of it.

    Raises:
        InputError: It would not be.

    Example:
        >>> check_login({"security.protocol": "SASL_SSL", "sasl.username": "producer"})
    """
    named = [name for name in config if name in _LOGIN and config[name] is not None]
    protocol = config.get("security.protocol")
    if named and not str(protocol).upper().startswith("SASL_"):
        raise InputError(
            f'"{named[0]}" would not be used where security.protocol is {protocol or "plaintext"}: '
            "set it to SASL_SSL, or to SASL_PLAINTEXT on a network that you trust"
        )


def admin_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Give what an admin client of the same cluster needs (addresses, SASL, TLS).

    Args:
        settings: A producer's settings.
    """
    return {name: value for name, value in settings.items() if name not in _PRODUCER_ONLY}


def _chosen_against_idempotence(settings: Mapping[str, Any]) -> bool:
    if any(str(settings.get(name)) in values for name, values in _AGAINST_IDEMPOTENCE.items()):
        return True
    return any(int(settings.get(name, 0)) > _MAX_IN_FLIGHT_IDEMPOTENT for name in _IN_FLIGHT)
