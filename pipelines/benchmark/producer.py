"""Measures our batches beside the bare client's, in one process on one broker, in turns."""

from __future__ import annotations

import statistics
import uuid
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from time import perf_counter
from typing import Any

import numpy as np
import pyarrow as pa
from confluent_kafka import Producer
from rich.console import Console
from rich.table import Table

from partitioners.errors import InputError, RunError
from partitioners.kafka import PartitionedProducer, ensure_topic
from partitioners.kafka.settings import producer_settings
from pipelines.consoles import stdout_console
from pipelines.topics import OWN_BROKER, client_settings, require_answer

NUM_KEYS = 10_000
ZIPF_EXPONENT = 1.4
# What a program hands over at a time: to us, and as dicts to the bare client.
BATCH_RECORDS = 100_000
BARE_BATCH_RECORDS = 10_000


@dataclass(frozen=True)
class ProducerRate:
    """One way to produce.

    Attributes:
        way: Client and call.
        delivered_per_s: Records acknowledged by the broker per second: median of the rounds.
        ratio: That, over the bare client's `produce_batch`: median of the rounds' ratios.
    """

    way: str
    delivered_per_s: float
    ratio: float


def run_producer_bench(
    bootstrap: str,
    *,
    num_records: int = 1_000_000,
    num_partitions: int = 8,
    partitioner: str = "pkg",
    rounds: int = 3,
    config: Mapping[str, Any] | None = None,
) -> list[ProducerRate]:
    """Produce the same records in each way, in turns, and compare.

    The bare client gets the same settings (idempotent, lz4), the same records in their order, as
    dicts built from the same sequences, with librdkafka's own partitioner; it waits for room as
    ours does. Clocks run from the first record to the last acknowledgement. Each round compares
    within itself, so that a machine that slows down between rounds does not favour one way.

    Args:
        bootstrap: A broker; topics with random names are made on it.
        num_records: Records in each round.
        num_partitions: Partitions of each topic.
        partitioner: Ours.
        rounds: How often; one round more warms up.
        config: Further settings of librdkafka.

    Returns:
        A rate for each way; the bare client's `produce_batch` first, with ratio 1.

    Raises:
        InputError: A number is out of range, or no broker answers.
        RunError: Not all records were delivered.
    """
    if num_records < 1 or rounds < 1:
        raise InputError("num_records and rounds must be at least 1: ask for more")
    client = client_settings(bootstrap, config or {})
    require_answer(client, OWN_BROKER)
    settings = producer_settings(client)
    keys, values = sample_records(num_records)
    arrow_keys, arrow_values = pa.array(keys, pa.binary()), pa.array(values, pa.binary())
    # Long enough for the code to be compiled and the broker's JVM to have met this work.
    few = min(num_records, BATCH_RECORDS)
    ours = f"ours, {partitioner}"
    ways: dict[str, Callable[[str, int], None]] = {
        "bare produce_batch": lambda topic, n: _bare_batch(settings, topic, keys[:n], values[:n]),
        "bare produce": lambda topic, n: _bare_single(settings, topic, keys[:n], values[:n]),
        f"{ours}: produce_batch, sequences": lambda topic, n: _our_batch(
            settings, topic, partitioner, keys[:n], values[:n]
        ),
        f"{ours}: produce_batch, Arrow": lambda topic, n: _our_batch(
            settings, topic, partitioner, arrow_keys[:n], arrow_values[:n]
        ),
        f"{ours}: produce": lambda topic, n: _our_single(
            settings, topic, partitioner, keys[:n], values[:n]
        ),
    }
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    for round_number in range(rounds + 1):
        # Every other round the other way round: who comes first finds the broker as it was left.
        for way, send in list(ways.items())[:: -1 if round_number % 2 else 1]:
            topic = f"bench-producer-{uuid.uuid4().hex[:12]}"
            ensure_topic(settings, topic, num_partitions)
            begin = perf_counter()
            send(topic, num_records if round_number else few)
            if round_number:
                seconds[way].append(perf_counter() - begin)
    base = seconds["bare produce_batch"]
    return [
        ProducerRate(
            way,
            num_records / statistics.median(times),
            statistics.median(bare / own for bare, own in zip(base, times, strict=True)),
        )
        for way, times in seconds.items()
    ]


def as_json(rates: list[ProducerRate]) -> list[dict[str, Any]]:
    """Give the rates as plain values."""
    return [asdict(rate) for rate in rates]


def print_producer_bench(rates: list[ProducerRate], console: Console | None = None) -> None:
    """Print the rates as a table.

    Args:
        rates: From `run_producer_bench`.
        console: Where to; None: stdout.
    """
    table = Table("way")
    for column in ("delivered records/s", "of bare produce_batch"):
        table.add_column(column, justify="right")
    for rate in rates:
        table.add_row(rate.way, f"{rate.delivered_per_s:,.0f}", f"{rate.ratio:.0%}")
    (console or stdout_console()).print(table)


def sample_records(num_records: int) -> tuple[list[bytes], list[bytes]]:
    """Make keys of a truncated Zipf law, and `ts,key,x` lines of them; seeded."""
    weights = np.arange(1, NUM_KEYS + 1, dtype=np.float64) ** -ZIPF_EXPONENT
    ranks = np.random.default_rng(1).choice(NUM_KEYS, num_records, p=weights / weights.sum())
    keys = [b"key-%d" % rank for rank in ranks]
    return keys, [b"%d,%b,%d" % (row, key, row % 7) for row, key in enumerate(keys)]


def send_batches(producer: PartitionedProducer, topic: str, keys: Any, values: Any) -> None:
    """Hand over records (Arrow arrays or sequences) `BATCH_RECORDS` at a time."""
    for start in range(0, len(keys), BATCH_RECORDS):
        rows = slice(start, start + BATCH_RECORDS)
        producer.produce_batch(topic, keys[rows], values[rows])


def send_singly(
    producer: PartitionedProducer, topic: str, keys: list[bytes], values: list[bytes]
) -> None:
    """Hand over records one by one."""
    for key, value in zip(keys, values, strict=True):
        producer.produce(topic, value, key)


def _bare_batch(
    settings: dict[str, Any], topic: str, keys: list[bytes], values: list[bytes]
) -> None:
    client = Producer(settings)
    queue_records = int(settings.get("queue.buffering.max.messages", 100_000))
    step = min(BARE_BATCH_RECORDS, queue_records)
    for start in range(0, len(keys), step):
        stop = start + step
        messages = [
            {"key": key, "value": value}
            for key, value in zip(keys[start:stop], values[start:stop], strict=True)
        ]
        while queue_records - len(client) < len(messages):
            client.poll(0.05)
        if client.produce_batch(topic, messages) != len(messages):
            raise RunError("the bare client's queue is full by bytes: use fewer records")
        client.poll(0)
    _flush(client)


def _bare_single(
    settings: dict[str, Any], topic: str, keys: list[bytes], values: list[bytes]
) -> None:
    client = Producer(settings)
    for key, value in zip(keys, values, strict=True):
        while True:
            try:
                client.produce(topic, value, key)
            except BufferError:
                client.poll(0.05)
            else:
                break
    _flush(client)


def _flush(client: Producer) -> None:
    if left := client.flush(120):
        raise RunError(f"{left} records were not delivered within 120 s: look at the broker")


def _our_batch(
    settings: dict[str, Any], topic: str, partitioner: str, keys: Any, values: Any
) -> None:
    with PartitionedProducer(settings, {topic: partitioner}) as producer:
        send_batches(producer, topic, keys, values)


def _our_single(
    settings: dict[str, Any],
    topic: str,
    partitioner: str,
    keys: list[bytes],
    values: list[bytes],
) -> None:
    with PartitionedProducer(settings, {topic: partitioner}) as producer:
        send_singly(producer, topic, keys, values)
