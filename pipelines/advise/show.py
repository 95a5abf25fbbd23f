"""Lays out what `keyspread advise` found, as text and as one JSON object."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from partitioners.metrics import imbalance
from pipelines.advise.compare import PRESENT, Figures, Plan
from pipelines.advise.recommend import NOT_ADVISED, HolisticRule, Recommendation
from pipelines.advise.sample import Sample
from pipelines.benchmark.hot_keys import cannot_be_hashed
from pipelines.benchmark.report import partition_bars
from pipelines.key_names import percent, redact_key, show_key

NUM_HOT_KEYS = 10


@dataclass(frozen=True, slots=True)
class Advice:
    """All that is told."""

    sample: Sample
    plan: Plan
    hot_keys: list[dict[str, Any]]  # key (shown or redacted), share of all records
    present: Figures | None  # what the topic has
    figures: list[Figures]
    holistic: HolisticRule
    recommendation: Recommendation
    code: str  # empty where nothing need be done


def hottest(sample: Sample, *, redact: bool) -> list[dict[str, Any]]:
    """Name the keys with most records.

    Args:
        sample: The records.
        redact: Show hashes of them.
    """
    ids = sample.stream.ids
    counts = np.bincount(ids) if len(ids) else np.empty(0, np.int64)
    top = np.argsort(-counts, kind="stable")[:NUM_HOT_KEYS]
    name: Callable[[object], str] = redact_key if redact else show_key
    return [
        {
            "key": name(sample.stream.names[int(key)].as_py()),
            "share": float(counts[key] / sample.num_records),
        }
        for key in top.tolist()
    ]


def as_json(advice: Advice) -> dict[str, Any]:
    """Give an advice as plain values.

    Args:
        advice: It.
    """
    sample, times = advice.sample, advice.sample.stream.timestamps_ms
    load = sample.records_per_partition
    return {
        "source": sample.source,
        "records": sample.num_records,
        "null_keys": sample.num_null,
        "keys": len(sample.stream.names),
        "seconds": int(times.max() - times.min()) / 1000 if len(times) else 0.0,
        "compacted": sample.compacted,
        **asdict(advice.plan),
        "present": None
        if load is None
        else {
            "records_per_partition": load.tolist(),
            "imbalance": imbalance(load),
            "figures": None if advice.present is None else asdict(advice.present),
        },
        "hot_keys": advice.hot_keys,
        "cannot_be_hashed": cannot_be_hashed(advice.hot_keys, advice.plan.num_partitions),
        "partitioners": [
            {**asdict(row), "not_advised": NOT_ADVISED.get(row.partitioner)}
            for row in advice.figures
        ],
        "holistic_rule": asdict(advice.holistic),
        "recommendation": {**asdict(advice.recommendation), "code": advice.code},
    }


def layout(advice: Advice) -> RenderableType:
    """Lay an advice out for reading.

    Args:
        advice: It.
    """
    sample, plan = advice.sample, advice.plan
    parts: list[RenderableType] = [Text(_head(sample), style="bold")]
    if sample.records_per_partition is not None:
        load = sample.records_per_partition
        parts.append(Text(f"present load, imbalance {imbalance(load):.3f}"))
        parts.append(partition_bars(load.tolist()))
    parts.append(_hot_keys(advice.hot_keys, plan.num_partitions))
    if (sentence := cannot_be_hashed(advice.hot_keys, plan.num_partitions)) is not None:
        parts.append(Text(f" {sentence}"))
    parts.append(Text(f"what each would give on {plan.num_partitions} partitions"))
    rows = [*([] if advice.present is None else [advice.present]), *advice.figures]
    parts.append(_table(rows, advice.holistic, advice.recommendation.partitioner))
    parts.append(
        Text(
            f" work: the fullest partition and its share of merging, in records; 1 is ideal "
            f"(windows of {plan.window_ms / 1000:g} s, a merge costs as much as {_merge(plan)})",
            style="dim",
        )
    )
    chosen = advice.recommendation
    stays = chosen.partitioner == PRESENT
    do = "nothing need be done" if stays else f"use {chosen.partitioner}"
    parts.append(Text(f"{do}: {chosen.reason}", style="bold"))
    parts += [Text(f" note: {note}") for note in chosen.notes]
    if advice.code:
        parts += [Text(), Text(advice.code)]
    return Group(*parts)


def _merge(plan: Plan) -> str:
    return f"{plan.merge_cost:g} record" + ("" if plan.merge_cost == 1 else "s")


def _head(sample: Sample) -> str:
    times = sample.stream.timestamps_ms
    span = f" over {int(times.max() - times.min()) / 1000:,.1f} s" if sample.has_times else ""
    counts = f"{sample.num_records:,} records{span}, {len(sample.stream.names):,} keys"
    return f"{sample.source}: {counts}"


def _hot_keys(hot_keys: Sequence[dict[str, Any]], num_partitions: int) -> RenderableType:
    if not hot_keys:
        return Text("no keys")
    table = Table(box=None, show_header=False, padding=(0, 1))
    table.add_column(justify="left")
    table.add_column(justify="right")
    table.add_column()
    for hot in hot_keys:
        over = hot["share"] * num_partitions > 1 < num_partitions
        remark = "more than an even partition" if over else ""
        table.add_row(Text(hot["key"]), percent(hot["share"]), remark)
    return Group(Text("hot keys"), table)


def _remark(row: Figures, is_chosen: bool) -> str:
    if row.partitioner == PRESENT:
        return "<- as it is: keep it" if is_chosen else "as it is"
    return "<- recommended" if is_chosen else NOT_ADVISED.get(row.partitioner, "")


def _table(figures: Sequence[Figures], holistic: HolisticRule, chosen: str) -> Table:
    table = Table(box=None, header_style="dim", padding=(0, 1))
    table.add_column("partitioner", no_wrap=True)
    for column in ("work", "imbalance", "replicas", "partials/record", "M records/s"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("")
    for row in figures:
        is_chosen = row.partitioner == chosen
        table.add_row(
            row.partitioner,
            f"{row.work:.3f}",
            f"{row.imbalance:.3f}",
            f"{row.replication_factor:.3f}",
            f"{row.partials_per_record:.4f}",
            f"{row.records_per_s / 1e6:.1f}" if row.records_per_s else "",
            _remark(row, is_chosen),
            style="bold" if is_chosen else "",
        )
    table.add_row(
        "Holistic's rule",
        *[""] * 5,
        f"{holistic.chosen} ({holistic.keys_per_window:,.0f} keys a window, "
        f"{holistic.records_per_partition_and_window:,.0f} records per partition)",
    )
    return table
