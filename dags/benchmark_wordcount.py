"""Airflow DAG: the words of a text, with several partitioners.

Without parameters: the novel that ships, four partitioners, 4 and 8 partitions. Any text is an
`input`.
"""

from __future__ import annotations

from keyspread_dags.factory import benchmark_dag
from keyspread_dags.form import WORKLOADS, form

dag = benchmark_dag(
    "benchmark_wordcount",
    title="Words of a text: Zipf's law, with the hottest word at five percent.",
    form=form(WORKLOADS["wordcount"]),
    schedule="0 4 * * 1",
)
