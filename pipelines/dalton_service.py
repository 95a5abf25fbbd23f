"""The Q-table reducer of `dalton` as a program: one for each group of producers."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from confluent_kafka.admin import AdminClient

from partitioners.dalton import GlobalTable, QTableReducer, ReducerConfig, run_reducer
from partitioners.errors import InputError
from partitioners.kafka.dalton_channel import KafkaReducerChannel
from partitioners.kafka.settings import admin_settings
from partitioners.kafka.topics import count_partitions
from pipelines.interrupt import Interrupted
from pipelines.topics import client_settings, find_servers, require_answer


@dataclass(frozen=True)
class RoundStatus:
    """What is told of a round."""

    round: int
    agents: int
    hot_keys: int
    load: float
    interval_ms: int


def serve_group(
    group: str,
    *,
    topic: str | None,
    num_partitions: int | None,
    bootstrap: str | None,
    kafka: Mapping[str, Any],
    config: ReducerConfig,
    on_ready: Callable[[int], None],
    on_round: Callable[[RoundStatus], None],
    on_warning: Callable[[str], None],
) -> int:
    """Serve a group of producers until a stop signal.

    Args:
        group: The producers that learn together.
        topic: The topic they write to: says the number of partitions.
        num_partitions: Or the number itself.
        bootstrap: Servers; None: the broker that `keyspread broker start` started.
        kafka: More settings of librdkafka.
        config: Options of the reducer.
        on_ready: Called with the number of partitions when messages are listened to.
        on_round: Called after each round.
        on_warning: Called with each warning of the channel, once per reason.

    Returns:
        Rounds closed.

    Raises:
        InputError: No broker, topic or number was given, or they contradict.
        RunError: The broker does not answer.
    """
    settings = client_settings(find_servers(bootstrap), kafka)
    require_answer(settings)
    num_partitions = _partitions(settings, topic, num_partitions)
    stop = threading.Event()
    rounds = [0]

    def note(table: GlobalTable) -> None:
        rounds[0] += 1
        on_round(
            RoundStatus(
                round=table.round_number,
                agents=table.num_agents,
                hot_keys=len(table.keys),
                load=table.load,
                interval_ms=table.interval_ms,
            )
        )

    with _warnings_to(on_warning):
        channel = KafkaReducerChannel(settings, group, num_partitions)
        reducer = QTableReducer(
            num_partitions, config, clock=_clock_ms, epoch_ms=time.time_ns() // 1_000_000
        )
        try:
            on_ready(num_partitions)
            run_reducer(channel, reducer, clock=_clock_ms, stop=stop, on_round=note)
        except Interrupted:  # the way a service is ended
            pass
        finally:
            channel.close()
    return rounds[0]


def _partitions(settings: Mapping[str, Any], topic: str | None, asked: int | None) -> int:
    if topic is None:
        if asked is None or asked < 1:
            raise InputError(
                "give --topic, whose partitions are counted, or --partitions 1 or more"
            )
        return asked
    found = count_partitions(AdminClient(admin_settings(settings)), topic)
    if found is None:
        raise InputError(f'there is no topic "{topic}": create it, or give --partitions instead')
    if asked is not None and asked != found:
        raise InputError(
            f'topic "{topic}" has {found} partitions, not {asked}: leave --partitions out'
        )
    return found


def _clock_ms() -> int:
    return time.monotonic_ns() // 1_000_000


@contextmanager
def _warnings_to(on_warning: Callable[[str], None]) -> Iterator[None]:
    class Teller(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            on_warning(record.getMessage())

    logger = logging.getLogger("partitioners.kafka.dalton_channel")
    teller = Teller(logging.WARNING)
    logger.addHandler(teller)
    propagates, logger.propagate = logger.propagate, False
    try:
        yield
    finally:
        logger.removeHandler(teller)
        logger.propagate = propagates
