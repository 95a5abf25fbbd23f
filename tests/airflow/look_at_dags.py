"""Says what Airflow sees in dags/, as JSON on the last line; run by Airflow's Python."""

from __future__ import annotations

import copy
import json
import os
from pathlib import Path

from airflow.dag_processing.dagbag import BundleDagBag
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

folder = Path(os.environ["AIRFLOW__CORE__DAGS_FOLDER"])
bag = BundleDagBag(folder, bundle_path=folder, bundle_name="dags")
dags = {}
for dag_id, dag in bag.dags.items():
    tasks = {
        task.task_id: {
            "pool": task.pool,
            "retries": task.retries,
            "mapped": isinstance(task, MappedOperator),
            "teardown": task.is_teardown,
            "trigger_rule": task.trigger_rule.value,
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
    params = copy.deepcopy(bag.dags["benchmark_debs"].params)
    try:
        params.update(conf)
        params.validate()
    except ValueError as error:
        refused[json.dumps(conf)] = str(error)
seconds = {Path(stat.file).name: stat.duration.total_seconds() for stat in bag.dagbag_stats}
print(
    json.dumps(
        {
            "import_errors": bag.import_errors,
            "dags": dags,
            "refused": refused,
            "parse_seconds": seconds,
        }
    )
)
