"""Hands records to a librdkafka client, and waits for room in its queue."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from time import monotonic
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from partitioners.errors import InputError, RunError
from partitioners.kafka.columns import Column, grouped_blocks
from partitioners.kafka.routes import Route

DeliveryCallback: TypeAlias = Callable[[KafkaError | None, Message], None]
Headers: TypeAlias = dict[str, str | bytes | None] | list[tuple[str, str | bytes | None]] | None

FULL_QUEUE_POLL_S = 0.05


def queue_one(
    client: Producer,
    topic: str,
    value: bytes | str | None,
    key: bytes | str | None,
    partition: int,
    report: DeliveryCallback | None,
    timestamp: int,
    headers: Headers,
    error: BufferError | KafkaException | None = None,
    deadline_s: float | None = None,
) -> bool:
    """Queue a record, waiting for room; `error` is what a first try met.

    Returns:
        False where there was no room until `deadline_s`.
    """
    while True:
        if isinstance(error, KafkaException):
            raise refusal(topic, error.args[0]) from error
        if error is not None:
            if deadline_s is not None and monotonic() >= deadline_s:
                return False
            client.poll(FULL_QUEUE_POLL_S)
        try:
            client.produce(topic, value, key, partition, report, report, timestamp, headers)
        except (BufferError, KafkaException) as refused:
            error = refused
        else:
            return True


def queue_rows(
    client: Producer,
    route: Route,
    keys: Column,
    values: Column,
    partitions: npt.NDArray[np.int32],
    report: DeliveryCallback | None,
    headers: Sequence[Headers] | None,
    timestamps: Iterable[int] | None,
) -> None:
    """Queue rows one by one, in their order, with what the client's batch call does not take.

    Raises:
        InputError: Columns are not equally long, or a record is refused.
        RunError: A record is refused.
    """
    num_records = len(partitions)
    row_headers = [None] * num_records if headers is None else list(headers)
    row_times = [0] * num_records if timestamps is None else [int(time) for time in timestamps]
    if len(row_headers) != num_records or len(row_times) != num_records:
        raise InputError(
            f"there are {num_records} keys, {len(row_headers)} headers and {len(row_times)} "
            "timestamps: give one of each per key"
        )
    # One group per block, in the order of the rows: every row as if of partition 0.
    together = grouped_blocks(keys, values, np.zeros_like(partitions), 1)
    row = 0
    for _, block_keys, block_values in together:
        for key, value in zip(block_keys, block_values, strict=True):
            partition = int(partitions[row])
            queue_one(
                client,
                route.topic,
                value,
                key,
                partition,
                report,
                row_times[row],
                row_headers[row],
            )
            route.produced[partition] += 1
            row += 1
        client.poll(0)


def queue_group(
    client: Producer,
    route: Route,
    partition: int,
    messages: list[dict[str, Any]],
    report: DeliveryCallback | None,
    queue_records: int,
) -> None:
    """Queue records of one partition; whatever finds no room is queued again, in its order.

    librdkafka refuses all that follows a record it had no room for, so the refused are the
    tail. Each refusal costs about as much as a success: room is waited for beforehand.
    """
    begin = 0
    while begin < len(messages):
        end = begin + _room(client, queue_records, len(messages) - begin)
        part = messages if end - begin == len(messages) else messages[begin:end]
        queued = client.produce_batch(route.topic, part, partition=partition, on_delivery=report)
        route.produced[partition] += queued
        if queued < len(part):
            refused = [message for message in part if "_error" in message]
            errors = [message.pop("_error") for message in refused]
            for error in errors:
                if error.code() != KafkaError._QUEUE_FULL:
                    raise refusal(route.topic, error)
            client.poll(FULL_QUEUE_POLL_S)  # full by bytes, which we do not count
        begin += queued


def _room(client: Producer, queue_records: int, num_wanted: int) -> int:
    # A quarter of the queue at a time: waiting for single places would call for each record.
    enough = min(num_wanted, max(1, queue_records // 4))
    while (room := queue_records - len(client)) < enough:
        client.poll(FULL_QUEUE_POLL_S)
    return min(room, num_wanted)


def refusal(topic: str, error: KafkaError) -> InputError | RunError:
    """Say why the client refuses a record."""
    if error.code() == KafkaError.MSG_SIZE_TOO_LARGE:
        return InputError(
            f'a record for topic "{topic}" is larger than the client sends: set '
            '"message.max.bytes" in its settings (and the topic\'s max.message.bytes) higher, or '
            "make it smaller"
        )
    return RunError(f'the client refuses a record for topic "{topic}": {error.str()}')
