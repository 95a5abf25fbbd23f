"""A query's figures for Prometheus, read when they are asked for; the server that shows them."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Self

import numpy as np
import numpy.typing as npt
from prometheus_client import CollectorRegistry, Metric, start_http_server
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    SummaryMetricFamily,
)
from prometheus_client.registry import Collector
from py4j.protocol import Py4JError  # type: ignore[import-untyped]

from partitioners.errors import InputError
from partitioners.metrics import imbalance

if TYPE_CHECKING:
    from pipelines.engine import RunningQuery
    from pipelines.summary import QuerySummary

LOCALHOST = "127.0.0.1"
LATENCY_BUCKETS_S = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)
DueTimes = Callable[[npt.NDArray[np.int64]], npt.NDArray[np.float64]]


class QueryCollector(Collector):
    """Shows what a query did so far.

    Args:
        query: The query.
        labels: Labels with a fixed value, for all figures.
        window_ms: Size of its windows; None where there are several kinds, whose latencies are
            then not shown.
        due_ms: When the last record of each of these windows (by their ends) was due, Unix ms;
            None: at its end, as in a live topic.
    """

    def __init__(
        self,
        query: RunningQuery,
        *,
        labels: Mapping[str, str] | None = None,
        window_ms: int | None = None,
        due_ms: DueTimes | None = None,
    ) -> None:
        self._query = query
        self._names = tuple(labels or {})
        self._values = tuple((labels or {}).values())
        self._window_ms = window_ms
        self._due_ms = due_ms

    def collect(self) -> Iterator[Metric]:
        """Give the figures of now."""
        summary = self._query.summary()
        yield from self._records(summary)
        yield from self._seconds(summary)
        yield from self._state(summary)
        if self._window_ms is not None and len(summary.window_start_ms):
            yield self._latency(summary, self._window_ms)

    def _counter(self, name: str, text: str, value: float) -> Metric:
        family = CounterMetricFamily(name, text, labels=self._names)
        family.add_metric(self._values, value)
        return family

    def _gauge(self, name: str, text: str, value: float) -> Metric:
        family = GaugeMetricFamily(name, text, labels=self._names)
        family.add_metric(self._values, value)
        return family

    def _by_number(
        self,
        kind: type[CounterMetricFamily] | type[GaugeMetricFamily],
        name: str,
        text: str,
        label: str,
        values: Mapping[int, float],
    ) -> Metric:
        family = kind(name, text, labels=(*self._names, label))
        for number, value in sorted(values.items()):
            family.add_metric((*self._values, str(number)), value)
        return family

    def _records(self, summary: QuerySummary) -> Iterator[Metric]:
        per_partition = dict(summary.records_per_partition)
        yield self._by_number(
            CounterMetricFamily,
            "keyspread_records",
            "Records that are in the results, late ones included.",
            "partition",
            per_partition,
        )
        if per_partition:
            yield self._gauge(
                "keyspread_imbalance",
                "Records of the fullest partition over the mean, minus 1, since the start.",
                imbalance(list(per_partition.values())),
            )
        yield self._by_number(
            GaugeMetricFamily,
            "keyspread_lag_records",
            "Records that were in no batch yet, as of the last batch.",
            "partition",
            self._query.lag,
        )
        for name, text, value in (
            ("on_time_records", "Records that count in all their windows.", summary.on_time),
            ("late_records", "Records that missed a window.", summary.late),
            ("dead_records", "Rows of the topic that are no records.", summary.dead),
            ("partial_rows", "Rows from the combiners to the reducers.", summary.partial_rows),
            ("windows", "Windows closed, with at least one key.", summary.windows),
            ("result_rows", "Result rows written.", summary.rows),
        ):
            yield self._counter(f"keyspread_{name}", text, value)

    def _seconds(self, summary: QuerySummary) -> Iterator[Metric]:
        for name, label, text, values in (
            ("combine", "partition", "Busy time of a combiner.", summary.combine_seconds),
            ("reduce", "shard", "Busy time of a reducer.", summary.reduce_seconds),
            ("sink", "shard", "Time a shard's writer took.", summary.sink_seconds),
        ):
            yield self._by_number(
                CounterMetricFamily, f"keyspread_{name}_seconds", text, label, dict(values)
            )
        batches = SummaryMetricFamily(
            "keyspread_batch_seconds", "Duration of the batches.", labels=self._names
        )
        seconds = summary.batch_seconds
        batches.add_metric(self._values, count_value=len(seconds), sum_value=sum(seconds))
        yield batches
        yield self._gauge(
            "keyspread_last_batch_seconds",
            "Duration of the last batch with records.",
            seconds[-1] if seconds else 0.0,
        )

    def _state(self, summary: QuerySummary) -> Iterator[Metric]:
        yield self._gauge(
            "keyspread_state_bytes", "Memory of the state stores.", summary.state_bytes
        )
        yield self._gauge("keyspread_state_rows", "Live keys over all shards.", summary.state_rows)
        yield self._gauge(
            "keyspread_query_active", "1 while the query runs.", float(self._is_active())
        )

    def _is_active(self) -> bool:
        try:
            return self._query.active
        except (Py4JError, OSError):  # Spark's Java process is gone
            return False

    def _latency(self, summary: QuerySummary, window_ms: int) -> Metric:
        ends = summary.window_start_ms + window_ms
        due = ends.astype(np.float64) if self._due_ms is None else self._due_ms(ends)
        seconds = (summary.emitted_ms - due) / 1_000
        seconds = np.sort(seconds[np.isfinite(seconds)])
        below = np.searchsorted(seconds, LATENCY_BUCKETS_S, side="right").tolist()
        buckets = [
            (str(bound), float(count))
            for bound, count in zip(LATENCY_BUCKETS_S, below, strict=True)
        ]
        family = HistogramMetricFamily(
            "keyspread_window_latency_seconds",
            "From when a window's last record was due to when its results were in the sink.",
            labels=self._names,
        )
        family.add_metric(
            self._values, [*buckets, ("+Inf", float(len(seconds)))], float(seconds.sum())
        )
        return family


class MetricsServer(Collector):
    """Serves `/metrics` until it is closed; what is shown may change, as from run to run.

    Args:
        port: Where it listens; 0: any port that is free, see `port`.
        address: On which address; the machine's own by default, since metrics need no password.

    Raises:
        InputError: The port cannot be had.

    Example:
        >>> with MetricsServer(0) as server:
        ...     server.port > 0
        True
    """

    def __init__(self, port: int, address: str = LOCALHOST) -> None:
        if not 0 <= port <= 65_535:
            raise InputError(f"--metrics-port must be 0 to 65,535, not {port}")
        self._shown: tuple[Collector, ...] = ()
        self._lock = threading.Lock()
        registry = CollectorRegistry()
        registry.register(self)
        try:
            self._server, self._thread = start_http_server(port, address, registry)
        except (OSError, OverflowError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            if isinstance(error, socket.gaierror):
                raise InputError(
                    f'"{address}" is no address of this machine: give --metrics-host 127.0.0.1, '
                    "or 0.0.0.0 for all"
                ) from error
            raise InputError(
                f"cannot serve metrics on {address}:{port} ({reason}): give another "
                "--metrics-port, or 0 for any that is free"
            ) from error
        self.port: int = self._server.server_port

    def show(self, collectors: Iterable[Collector]) -> None:
        """Show these from now on, and no others.

        Args:
            collectors: Of a run, say.
        """
        with self._lock:
            self._shown = tuple(collectors)

    def collect(self) -> Iterator[Metric]:
        """Give the figures of now."""
        with self._lock:
            shown = self._shown
        for collector in shown:
            yield from collector.collect()

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


def serve_metrics(
    port: int | None, address: str = LOCALHOST
) -> AbstractContextManager[MetricsServer | None]:
    """Serve metrics while a block runs, if a port was given.

    Args:
        port: Where it listens; None: nowhere.
        address: On which address.

    Raises:
        InputError: The port cannot be had.
    """
    return nullcontext() if port is None else MetricsServer(port, address)
