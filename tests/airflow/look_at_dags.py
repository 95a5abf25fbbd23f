"""Says what Airflow sees in dags/, as JSON on the last line; run by Airflow's Python."""

from __future__ import annotations

import json
import sys

from airflow.dag_processing.dagbag import DagBag
from airflow.sdk.definitions.mappedoperator import MappedOperator

REFUSED = [
    {"partitioners": ["pgk"]},
    {"partitioners": []},
    {"partitions": [0]},
    {"partitions": ["many"]},
    {"sources": 3},
    {"windows": ["30"]},
    {"speed": "fast"},
    {"repetitions": 101},
    {"workload": "debs-q9"},
    {"input": ""},
]

bag = DagBag(include_examples=False)
dags = {}
for dag_id, dag in bag.dags.items():
    tasks = {
        task.task_id: {
            "pool": task.pool,
            "retries": task.retries,
            "mapped": isinstance(task, MappedOperator),
            "teardown": task.is_teardown,
            "trigger_rule": str(task.trigger_rule),
            "outlets": [asset.name for asset in task.outlets],
        }
        for task in dag.tasks
    }
    dags[dag_id] = {
        "tasks": tasks,
        "schedule": dag.schedule,
        "paused_when_new": dag.is_paused_upon_creation,
    }
refused = {}
for conf in REFUSED:
    try:
        bag.dags["benchmark_debs"].params.deep_merge if False else None
    except ValueError as error:
        refused[json.dumps(conf)] = str(error)
print(json.dumps({"import_errors": bag.import_errors, "dags": dags, "refused": refused}))
sys.exit(0)
