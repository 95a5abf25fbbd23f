"""Task events of the Google cluster trace of 2011: CPU requested by scheduling class and by job.

`task_events/part-*.csv.gz` as published: 13 columns without a header, times in microseconds. Times
0 and 2^63 - 1 stand for "before the trace" and "after it": these events have no time, and are
ignored. So are events that state no CPU request, as SQL's sum and mean ignore nulls. An event
without a scheduling class has the null key.

Holistic (Katsipoulakis, Labrinidis, Chrysanthis; VLDB 2017), section 5: Query 1, every second the
total over 60 s by scheduling class; Query 2, every second the mean over 45 min by job.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import polars as pl
import pyarrow as pa

from pipelines.aggregates import Aggregates, Mean, Sum
from pipelines.workloads.base import DATA
from pipelines.workloads.delimited import (
    END_MS,
    Column,
    DelimitedWorkload,
    Layout,
    decimal,
    integer,
    mean_sql,
)

if TYPE_CHECKING:
    import duckdb

AFTER_TRACE_US = 2**63 - 1
# Requests have four significant digits, and none is below a millionth of a machine.
CPU_PLACES = 9

_SQL_CPU = "[+-]?[0-9]{1,6}([.][0-9]{1,9})?|[0-9]([.][0-9]{1,9})?[eE]-0?[1-9]"
_SMALL = r"^(\d)(?:\.(\d{1,9}))?[eE]-0?([1-9])$"


def _microseconds(text: pl.Expr) -> pl.Expr:
    time = text.cast(pl.Int64, strict=False)
    known = (time < END_MS * 1000) | (time == AFTER_TRACE_US)
    return pl.when(text.str.contains(r"^\d{1,19}$") & known).then(time)


def _cpu(text: pl.Expr) -> pl.Expr:
    """Read 0.0625 or 1.907e-06 as an integer of `CPU_PLACES` places; null if it has more."""
    groups = text.str.extract_groups(_SMALL)
    whole, fraction, exponent = (groups.struct.field(str(number)) for number in (1, 2, 3))
    fraction = fraction.fill_null("")
    digits = (whole + fraction).cast(pl.Int64, strict=False)
    surplus = fraction.str.len_chars().cast(pl.Int64) + exponent.cast(pl.Int64) - CPU_PLACES
    power = pl.lit(10, dtype=pl.Int64).pow(surplus.abs())
    larger, smaller = digits * power, digits // power
    is_exact = (surplus <= 0) | (smaller * power == digits)
    small = pl.when(is_exact).then(pl.when(surplus <= 0).then(larger).otherwise(smaller))
    return pl.coalesce(decimal(CPU_PLACES, 6)(text), small)


class TaskEvents(DelimitedWorkload):
    """What both queries share: the lines, and the key column they group by."""

    # data
    default_input: ClassVar[Path | None] = DATA / "gcm_task_events.csv.gz"
    default_slide_ms = 1_000

    # parse
    layout: ClassVar[Layout] = Layout(
        13,
        {
            "time_us": Column(
                0, _microseconds, "time is no number of microseconds before the year 33658"
            ),
            "job_id": Column(2, integer, "job ID is no integer of at most 18 digits"),
            "scheduling_class": Column(7, integer, "scheduling class is no integer", optional=True),
            "cpu": Column(
                9, _cpu, f"CPU request is no decimal of at most {CPU_PLACES} places", optional=True
            ),
        },
    )
    carried: ClassVar[tuple[str, ...]] = ("cpu",)

    def select(self, lines: pl.DataFrame, lines_before: int) -> pl.DataFrame:  # noqa: ARG002
        """See `DelimitedWorkload`."""
        time = pl.col("time_us")
        timed = (time != 0) & (time != AFTER_TRACE_US)
        return lines.filter(timed & pl.col("cpu").is_not_null()).select(
            timestamp_ms=time // 1000,
            key=pl.col(self.key_fields[0].name).cast(pl.String),
            cpu="cpu",
        )

    # oracle
    def oracle_records(
        self,
        connection: duckdb.DuckDBPyConnection,  # noqa: ARG002 - plain SQL needs no functions
        lines: str,
    ) -> str:
        """See `Workload`."""
        return f"""
            WITH split AS (
                SELECT line_number, string_split(line, ',') AS f FROM {lines}
            ), typed AS (
                SELECT line_number, f, len(f) AS width, TRY_CAST(f[1] AS HUGEINT) AS us,
                       TRY_CAST(f[10] AS DECIMAL(38, 20)) AS exact
                FROM split
            ), valid AS (
                SELECT *, exact::DECIMAL(18, {CPU_PLACES}) AS cpu FROM typed
                WHERE width = 13 AND regexp_full_match(f[1], '[0-9]{{1,19}}')
                  AND (us < 1000000000000000000 OR us = 9223372036854775807)
                  AND regexp_full_match(f[3], '-?[0-9]{{1,18}}')
                  AND regexp_full_match(f[8], '(-?[0-9]{{1,18}})?')
                  AND regexp_full_match(f[10], '{_SQL_CPU}')
            )
            SELECT row_number() OVER (ORDER BY line_number) - 1 AS record_index,
                   (us // 1000)::BIGINT AS timestamp_ms, f[3]::BIGINT AS job_id,
                   nullif(f[8], '')::BIGINT AS scheduling_class, cpu
            FROM valid
            WHERE us <> 0 AND us <> 9223372036854775807 AND exact = cpu
        """

    def oracle_order(self) -> str:
        """See `Workload`; keys of equal count in the order of their digits."""
        return f"count(*) DESC, {self.key_fields[0].name}::VARCHAR NULLS FIRST"


class GcmQ1(TaskEvents):
    """Total CPU requested by each scheduling class in the last minute."""

    # data
    name: ClassVar[str] = "gcm-q1"
    default_window_ms = 60_000

    # query
    key_fields: ClassVar[tuple[pa.Field, ...]] = (pa.field("scheduling_class", pa.int64()),)
    value_fields: ClassVar[tuple[pa.Field, ...]] = (
        pa.field("total_cpu", pa.decimal128(38, CPU_PLACES)),
        pa.field("count", pa.int64()),
    )
    aggregates: Aggregates = Aggregates(Sum("total_cpu", "cpu"))

    # oracle
    def oracle_values(self) -> dict[str, str]:
        """See `Workload`."""
        return {"total_cpu": "sum(cpu)", "count": "count(*)"}


class GcmQ2(TaskEvents):
    """Mean CPU requested by each job in the last 45 minutes."""

    # data
    name: ClassVar[str] = "gcm-q2"
    default_window_ms = 2_700_000

    # query
    key_fields: ClassVar[tuple[pa.Field, ...]] = (pa.field("job_id", pa.int64()),)
    value_fields: ClassVar[tuple[pa.Field, ...]] = (
        pa.field("mean_cpu", pa.float64()),
        pa.field("count", pa.int64()),
    )
    aggregates: Aggregates = Aggregates(Mean("mean_cpu", "cpu", scale=10**CPU_PLACES))

    # oracle
    def oracle_values(self) -> dict[str, str]:
        """See `Workload`."""
        return {"mean_cpu": mean_sql("cpu", CPU_PLACES), "count": "count(*)"}

    def oracle_gone(self) -> dict[str, object]:
        """See `Workload`."""
        return {"mean_cpu": None, "count": 0}
