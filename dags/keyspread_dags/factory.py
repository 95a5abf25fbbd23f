"""Makes the benchmark DAGs: all have the same tasks, and differ in what they run.

    prepare -> topics -> cell [one task for each] -> verify -> clean
                                                  -> report ->

A cell that fails stops no other and is red; `verify` names it and makes the run red; report and
clean are teardowns, so that they come in any case, also after a run was stopped.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.sdk import DAG, Asset, Param

from keyspread_dags.step import CellStep, CompareStep, GridStep, PrepareStep

# A pool with one slot: no two steps of any benchmark share the machine.
POOL = "keyspread"
RETRY_DELAY = timedelta(seconds=10)
# The first Monday that a schedule counts from.
START = datetime(2026, 1, 5, tzinfo=UTC)


def benchmark_dag(
    dag_id: str,
    *,
    title: str,
    form: Mapping[str, Mapping[str, Any]],
    schedule: str,
    compare: bool = False,
) -> DAG:
    """Make a benchmark DAG.

    Args:
        dag_id: Its name.
        title: What it measures, in a sentence.
        form: Its parameters, from `keyspread_dags.form`.
        schedule: When it runs by itself, if KEYSPREAD_SCHEDULES is `on`.
        compare: Compare with the run before, and fail where something is worse.

    Returns:
        The DAG.
    """
    with DAG(
        dag_id=dag_id,
        description=title,
        doc_md=f"{title}\n\n{__doc__}",
        schedule=schedule if os.environ.get("KEYSPREAD_SCHEDULES") == "on" else None,
        start_date=START,
        catchup=False,
        is_paused_upon_creation=False,
        params={name: Param(**field) for name, field in form.items()},
        tags=["keyspread", "benchmark"],
        default_args={
            "pool": POOL,
            "retries": 0,
            "retry_delay": RETRY_DELAY,
            # What ends a run goes before what begins another.
            "weight_rule": "upstream",
        },
    ) as dag:
        prepare = PrepareStep(task_id="prepare")
        topics = GridStep(task_id="topics", step="topics")
        cells = CellStep.partial(
            task_id="cell", retries=1, map_index_template="{{ task.title }}"
        ).expand_kwargs(prepare.output)
        verify = GridStep(task_id="verify", step="check", trigger_rule="all_done")
        report = GridStep(task_id="report", step="report", asset=Asset(f"{dag_id}_results"))
        clean = GridStep(task_id="clean", step="clean")
        prepare >> topics >> cells >> verify
        last = verify
        if compare:
            last = CompareStep(task_id="compare")
            verify >> last
        # Beside `verify`, not after it: Airflow gives a run the state of its last tasks alone, and
        # whatever comes before a teardown that counts is none of these.
        cells >> report.as_teardown(setups=prepare, on_failure_fail_dagrun=True)
        [last, report] >> clean.as_teardown(setups=prepare)
    return dag
