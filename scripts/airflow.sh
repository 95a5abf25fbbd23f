#!/usr/bin/env bash
# Makes .venv-airflow: Airflow in an environment of its own, for the DAGs of dags/. It holds no PySpark and
# nothing of the project: tasks call the command `keyspread` of .venv. Quick when nothing changed.
set -euo pipefail
cd "$(dirname "$0")/.."

stamp=.venv-airflow/.keyspread-setup
wanted=$(cat requirements-airflow.lock scripts/airflow.sh | sha256sum; .venv/bin/python -V; pwd)
if [ "$(cat "$stamp" 2>/dev/null)" = "$wanted" ]; then exit 0; fi

printf '%s\n' "airflow: installing the pinned packages into .venv-airflow (about 200 MB, once)" >&2
rm -rf .venv-airflow
"$(.venv/bin/python -c 'import sys; print(sys._base_executable)')" -m venv --without-pip .venv-airflow
export UV_PYTHON=$PWD/.venv-airflow/bin/python UV_LINK_MODE=${UV_LINK_MODE:-copy}
# Every part of Airflow is a process of its own: without bytecode each compiles it all when it starts.
export UV_COMPILE_BYTECODE=1
.venv/bin/uv pip install --quiet --require-hashes -r requirements-airflow.lock
printf '%s\n' "$wanted" > "$stamp"
