"""Airflow DAG: the taxi trips of the DEBS 2015 Grand Challenge, with several partitioners.

Without parameters: the most frequent routes on the hour of trips that ships, four partitioners,
4 and 8 partitions. `keyspread data prepare debs` makes an `input` of the official file.
"""

from __future__ import annotations

from keyspread_dags.factory import benchmark_dag
from keyspread_dags.form import WORKLOADS, form

dag = benchmark_dag(
    "benchmark_debs",
    title="Taxi trips of DEBS 2015: routes, profitable cells, fares and distances.",
    form=form(WORKLOADS["debs"]),
    schedule="0 2 * * 1",
)
