"""Airflow DAG: TPC-H's Q1, Q3, Q6 and parts over sliding windows, with several partitioners.

Without parameters: Q1 on the data that ships (scale 0.01), four partitioners, 4 and 8 partitions.
Another `scale` generates the data first, once.
"""

from __future__ import annotations

from keyspread_dags.factory import benchmark_dag
from keyspread_dags.form import WORKLOADS, form

dag = benchmark_dag(
    "benchmark_tpch",
    title="TPC-H over sliding windows: which partitioner pays where.",
    form=form(WORKLOADS["tpch"], with_scale=True),
    schedule="0 1 * * 1",
)
