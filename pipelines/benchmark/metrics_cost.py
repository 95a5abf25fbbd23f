"""Measures what metrics cost a producer: the same records with and without them, in turns."""

from __future__ import annotations

import threading
import urllib.request
import uuid
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from time import perf_counter, process_time
from typing import Any

from rich.console import Console
from rich.table import Table

from partitioners.errors import InputError
from partitioners.kafka import PartitionedProducer, ProducerCollector, ensure_topic
from partitioners.kafka.settings import producer_settings
from pipelines.benchmark.noise import Change, relative_change
from pipelines.benchmark.producer import sample_records, send_batches, send_singly
from pipelines.metrics import MetricsServer
from pipelines.topics import OWN_BROKER, client_settings, require_answer

# Far more often than Prometheus asks (15 to 60 s), so that the cost shows.
SCRAPE_EVERY_S = 1.0
READS = 200


@dataclass(frozen=True)
class MetricsCost:
    """What metrics cost one way to produce.

    Attributes:
        way: Which call.
        plain_per_s: Delivered records per second without metrics, mean of the rounds.
        rate: Change of the rate with metrics, with bounds over the rounds.
        processor: Change of the processor seconds of the whole process, likewise.
        scrapes: How often the metrics were read, in all rounds.
        read_processor_ms: Processor time of one read, that of the reader included.
    """

    way: str
    plain_per_s: float
    rate: Change
    processor: Change
    scrapes: int
    read_processor_ms: float


def run_metrics_bench(
    bootstrap: str,
    *,
    num_records: int = 1_000_000,
    num_partitions: int = 8,
    partitioner: str = "hot_fill",
    rounds: int = 5,
    config: Mapping[str, Any] | None = None,
    on_round: Callable[[], None] = lambda: None,
) -> list[MetricsCost]:
    """Produce the same records with metrics read every second and without any, in turns.

    Args:
        bootstrap: A broker; topics with random names are made on it.
        num_records: Records in each round.
        num_partitions: Partitions of each topic.
        partitioner: Which.
        rounds: How often, 2 or more; one round more warms up.
        config: Further settings of librdkafka.
        on_round: Called after each round.

    Returns:
        A cost for `produce` and for `produce_batch`.

    Raises:
        InputError: A number is out of range, or no broker answers.
        RunError: Not all records were delivered.
    """
    if num_records < 1 or rounds < 2:
        raise InputError("num_records must be at least 1, and rounds 2: ask for more")
    client = client_settings(bootstrap, config or {})
    require_answer(client, OWN_BROKER)
    settings = producer_settings(client)
    keys, values = sample_records(num_records)
    ways = {
        "produce": partial(send_singly, keys=keys, values=values),
        "produce_batch": partial(send_batches, keys=keys, values=values),
    }
    found: dict[tuple[str, bool], list[tuple[float, float]]] = {}
    scrapes = dict.fromkeys(ways, 0)
    read_ms = dict.fromkeys(ways, 0.0)
    for number in range(rounds + 1):
        # Every other round the other way round: who comes first finds the broker as it was left.
        for observed in (False, True) if number % 2 else (True, False):
            for way, send in ways.items():
                topic = f"bench-metrics-{uuid.uuid4().hex[:12]}"
                ensure_topic(settings, topic, num_partitions)
                producer = PartitionedProducer(settings, {topic: partitioner})
                seconds, count = _timed(producer, topic, send, observed=observed)
                if observed and number == rounds:
                    read_ms[way] = _read_processor_ms(producer)
                if number:
                    found.setdefault((way, observed), []).append(seconds)
                    scrapes[way] += count
        on_round()
    return [_cost(way, num_records, found, scrapes[way], read_ms[way]) for way in ways]


def _read_processor_ms(producer: PartitionedProducer) -> float:
    """Processor time of a read alone: beside a producer it would drown in the noise."""
    with MetricsServer(0) as server:
        server.show([ProducerCollector(producer)])

        def read_often() -> None:
            for _ in range(READS):
                _read(server)

        _, processor_s = _measured(read_often)
    return processor_s * 1_000 / READS


def _read(server: MetricsServer) -> None:
    with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/metrics") as answer:
        answer.read()


def _timed(
    producer: PartitionedProducer,
    topic: str,
    send: Callable[[PartitionedProducer, str], None],
    *,
    observed: bool,
) -> tuple[tuple[float, float], int]:
    """Wall and processor seconds of one round, and how often metrics were read in it."""
    if not observed:
        return _measured(lambda: _sent(producer, topic, send)), 0
    done = threading.Event()
    count = 0
    with MetricsServer(0) as server:
        server.show([ProducerCollector(producer)])

        def scrape() -> None:
            nonlocal count
            while not done.wait(SCRAPE_EVERY_S):
                _read(server)
                count += 1

        reader = threading.Thread(target=scrape, name="scrape")
        reader.start()
        try:
            seconds = _measured(lambda: _sent(producer, topic, send))
        finally:
            done.set()
            reader.join()
    return seconds, count


def _sent(
    producer: PartitionedProducer, topic: str, send: Callable[[PartitionedProducer, str], None]
) -> None:
    with producer:
        send(producer, topic)


def _measured(work: Callable[[], None]) -> tuple[float, float]:
    begin, begin_processor = perf_counter(), process_time()
    work()
    return perf_counter() - begin, process_time() - begin_processor


def _cost(
    way: str,
    num_records: int,
    found: Mapping[tuple[str, bool], list[tuple[float, float]]],
    scrapes: int,
    read_ms: float,
) -> MetricsCost:
    plain, observed = found[way, False], found[way, True]
    rates, rates_observed = (
        [num_records / wall for wall, _ in seconds] for seconds in (plain, observed)
    )
    busy, busy_observed = ([seconds for _, seconds in each] for each in (plain, observed))
    rate = relative_change(rates, rates_observed)
    processor = relative_change(busy, busy_observed)
    assert rate is not None
    assert processor is not None
    return MetricsCost(way, sum(rates) / len(rates), rate, processor, scrapes, read_ms)


def as_json(costs: list[MetricsCost]) -> list[dict[str, Any]]:
    """Give the costs as plain values."""
    return [asdict(cost) for cost in costs]


def print_metrics_bench(costs: list[MetricsCost], console: Console) -> None:
    """Print the costs as a table.

    Args:
        costs: From `run_metrics_bench`.
        console: Where to.
    """
    table = Table("way")
    for column in (
        "records/s without",
        "rate with metrics",
        "processor time",
        "scrapes",
        "one read",
    ):
        table.add_column(column, justify="right")
    for cost in costs:
        table.add_row(
            cost.way,
            f"{cost.plain_per_s:,.0f}",
            _text(cost.rate),
            _text(cost.processor),
            str(cost.scrapes),
            f"{cost.read_processor_ms:.1f} ms",
        )
    console.print(table)


def _text(change: Change) -> str:
    low, high = change.low, change.high
    bounds = "" if low is None or high is None else f" [{low:+.1%}, {high:+.1%}]"
    return f"{change.estimate:+.1%}{bounds}"
