"""Says what Airflow sees in dags/, as JSON on the last line; run by Airflow's Python.

    python look_at_dags.py [TRIGGERS]

Triggers are a JSON list of pairs, a DAG and its parameters; for each it says why it is refused,
or null where it is not.
"""

from __future__ import annotations

import copy
import json
import os
import sys
from pathlib import Path

from airflow.dag_processing.dagbag import BundleDagBag
from airflow.sdk.definitions.mappedoperator import MappedOperator

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
        "params": sorted(dag.params),
        "schedule": dag.schedule,
        "paused_when_new": dag.is_paused_upon_creation,
    }
refused: list[str | None] = []
for dag_id, conf in json.loads(sys.argv[1]) if sys.argv[1:] else []:
    params = copy.deepcopy(bag.dags[dag_id].params)
    try:
        params.update(conf)
        params.validate()
        refused.append(None)
    except ValueError as error:
        refused.append(str(error))
print(json.dumps({"import_errors": bag.import_errors, "dags": dags, "refused": refused}))
