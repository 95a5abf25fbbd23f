"""Puts the figures of a run together: what was sent, what came out, how it compares."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from partitioners.metrics import imbalance
from pipelines.benchmark.cell import Cell
from pipelines.benchmark.hot_keys import name_hot_keys
from pipelines.benchmark.latency import (
    QUANTILES,
    latency_curve_ms,
    latency_quantiles_ms,
    window_latencies_ms,
)
from pipelines.benchmark.prepare import RunConfig
from pipelines.benchmark.replay import ReplayReport
from pipelines.benchmark.verify import Comparison
from pipelines.key_names import readable
from pipelines.workloads.base import Workload

if TYPE_CHECKING:
    from pipelines.summary import QuerySummary


def collect(
    config: RunConfig,
    workload: Workload,
    report: ReplayReport,
    summary: QuerySummary,
    comparison: Comparison,
    *,
    largest_lag: Mapping[int, int],
    ended_s: float,
    total_seconds: float,
) -> Cell:
    """Make the cell of a run.

    Args:
        config: The run.
        workload: Its workload, which names the keys.
        report: What the replay did.
        summary: What the query did.
        comparison: What the oracle says.
        largest_lag: Of each topic partition, how far the query was behind at most.
        ended_s: When the commit of the last batch was seen (`time.monotonic`).
        total_seconds: Wall time of the run, comparison included.
    """
    # Of several kinds of windows the latency is that of the first.
    first = summary.window_size_ms == config.window_ms
    ends = (summary.window_start_ms[first] + config.window_ms).tolist()
    emitted_ms = summary.emitted_ms[first].astype(np.float64).tolist()
    in_sink_ms = dict(zip(ends, emitted_ms, strict=True))
    latencies_ms = window_latencies_ms(report.schedule, in_sink_ms)
    return Cell(
        run_id=config.run_id,
        workload=config.workload,
        partitioner=config.partitioner,
        partitions=config.partitions,
        sources=config.sources,
        shards=config.shards,
        config=config.public(),
        read=report.read,
        produced=report.produced,
        delivered=report.delivered,
        ignored=report.ignored,
        dead=report.dead,
        on_time=summary.on_time,
        late=summary.late,
        skipped=report.skipped,
        exact=comparison.exact,
        windows_compared=comparison.windows,
        differences=comparison.differences,
        imbalance=round(float(imbalance(report.records_per_partition)), 6),
        replication_factor=round(report.spread.replication_factor, 6),
        fragmentation=round(report.spread.fragmentation, 6),
        records_per_partition=report.records_per_partition.tolist(),
        partial_rows=summary.partial_rows,
        load_over_time=report.load.as_json(),
        hot_keys=name_hot_keys(workload, report.keys.hottest(), report.produced),
        delivered_per_s=round(report.delivered_per_s, 1),
        produce_seconds=round(report.seconds, 3),
        consume_seconds=round(report.seconds_until(ended_s), 3),
        total_seconds=round(total_seconds, 3),
        latency_ms=latency_quantiles_ms(latencies_ms),
        latency_curve_ms=latency_curve_ms(latencies_ms),
        publish_delay_ms=report.delays.quantiles_ms(QUANTILES),
        combine_seconds_per_partition=_dense(summary.combine_seconds, config.partitions),
        reduce_seconds_per_shard=_dense(summary.reduce_seconds, config.shards),
        state_rows=summary.state_rows,
        state_bytes=summary.state_bytes,
        state_calls=summary.state_calls,
        largest_lag_per_partition=[largest_lag.get(p, 0) for p in range(config.partitions)],
        last_window=_last_window(config, summary, comparison),
    )


def _dense(by_number: Mapping[int, float], size: int) -> list[float]:
    return [round(by_number.get(number, 0.0), 4) for number in range(size)]


def _last_window(
    config: RunConfig, summary: QuerySummary, comparison: Comparison
) -> dict[str, Any]:
    if comparison.last_top is not None and config.emit != "changed":
        start_ms, rows = comparison.last_top
    elif summary.last_window_start_ms is not None:
        start_ms, rows = summary.last_window_start_ms, summary.last_top
    else:
        return {}
    return {
        "window_start": event_time_text(start_ms),
        "window_end": event_time_text(start_ms + config.window_ms),
        "rows": [{name: _plain(value) for name, value in row.items()} for row in rows],
    }


def event_time_text(milliseconds: int) -> str:
    """Write an event time for reading; beyond the year 9999, as the number it is."""
    try:
        moment = datetime.fromtimestamp(milliseconds / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return f"{milliseconds} ms"
    return moment.strftime("%Y-%m-%d %H:%M:%S")


def _plain(value: object) -> object:
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%d %H:%M:%S")
    return readable(value)
