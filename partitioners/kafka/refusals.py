"""Why servers do not answer a client: a refused login, an unknown authority, the wrong protocol.

librdkafka goes on trying and in the end says only that nobody answered in time. What it heard from
the servers meanwhile goes to `error_cb`, and that they hung up goes to its log.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from time import monotonic
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from partitioners.errors import InputError
from partitioners.kafka.settings import admin_settings

_HEARING_S = 3.0
_LOG_LEVEL_INFO = 6
# A server that only restarts refuses the connections that follow, and does not hang up on each.
_HUNG_UP, _HUNG_UP_TIMES = "Disconnected", 3


def raise_if_refused(config: Mapping[str, Any], hearing_s: float = _HEARING_S) -> None:
    """Ask the servers once more, and raise what they refuse the client for, if they do.

    Args:
        config: Settings of a client that got no answer.
        hearing_s: How long to listen; a refusal comes within milliseconds.

    Raises:
        InputError: They refuse it.
    """
    heard: list[KafkaError] = []
    hung_up: list[logging.LogRecord] = []
    logger = logging.Logger("librdkafka", logging.INFO)
    logger.addHandler(_Keeper(hung_up))
    settings: dict[str, Any] = {"error_cb": heard.append, "log_level": _LOG_LEVEL_INFO}
    client = AdminClient({**admin_settings(config), **settings}, logger=logger)
    servers = config["bootstrap.servers"]
    deadline = monotonic() + hearing_s
    while monotonic() < deadline:
        try:
            client.list_topics(timeout=hearing_s / 6)
        except KafkaException:
            client.poll(0)  # calls `error_cb`
        else:
            return
        for error in heard:
            if (sentence := _sentence(error, servers)) is not None:
                raise InputError(sentence)
    if len(hung_up) >= _HUNG_UP_TIMES:
        raise InputError(
            f"the Kafka servers {servers} hang up: set security.protocol to what that port speaks, "
            "such as SASL_SSL"
        )


class _Keeper(logging.Handler):
    """Keeps the log lines of servers that hung up."""

    def __init__(self, lines: list[logging.LogRecord]) -> None:
        super().__init__()
        self._lines = lines

    def emit(self, record: logging.LogRecord) -> None:
        """See `logging.Handler`."""
        if _HUNG_UP in record.getMessage():
            self._lines.append(record)


def _sentence(error: KafkaError, servers: str) -> str | None:
    said = error.str()
    # Before it stands the address, behind it the state of the connection.
    reason = said.partition(": ")[2].rpartition(" (after ")[0] or said
    if error.code() == KafkaError._AUTHENTICATION:
        return (
            f"the Kafka servers {servers} refuse the login ({reason}): check sasl.mechanisms, "
            "sasl.username and sasl.password"
        )
    if error.code() == KafkaError._SSL:
        return (
            f"no TLS connection to the Kafka servers {servers} ({reason}): name the authority that "
            "signed their certificate with ssl.ca.location, and the host as the certificate does"
        )
    return None
