"""Airflow DAG: the main job every night, compared with the night before.

It fails where a result is no longer exact, or something is slower than its repetitions vary.
"""

from __future__ import annotations

from keyspread_dags.factory import benchmark_dag
from keyspread_dags.form import WORKLOADS, form

dag = benchmark_dag(
    "benchmark_nightly_compare",
    title="Taxi routes every night: exact as the night before, and no slower.",
    form=form(
        WORKLOADS["debs"], partitioners=("key_hash", "hot_fill"), partitions=(8,), repetitions=3
    ),
    schedule="0 0 * * *",
    compare=True,
)
