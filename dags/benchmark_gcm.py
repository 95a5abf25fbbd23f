"""Airflow DAG: the Google cluster trace of 2011, with several partitioners.

Without parameters: CPU per scheduling class on the rows that ship, four partitioners, 4 and 8
partitions. `keyspread data prepare gcm` makes an `input` of the official files.
"""

from __future__ import annotations

from keyspread_dags.factory import benchmark_dag
from keyspread_dags.form import WORKLOADS, form

dag = benchmark_dag(
    "benchmark_gcm",
    title="Google's cluster trace: CPU by scheduling class and by job, both skewed.",
    form=form(WORKLOADS["gcm"]),
    schedule="0 3 * * 1",
)
