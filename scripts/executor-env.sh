#!/usr/bin/env bash
# Packs Keyspread and what it needs for Spark's executors: dist/keyspread-env.tar.gz, an environment
# that runs wherever it is unpacked, with the Python of that machine (the same version, same path).
# Another folder than dist is its argument.
set -euo pipefail
into=$(realpath -m "${1:-$(dirname "$0")/../dist}")
cd "$(dirname "$0")/.."
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
uv=$PWD/.venv/bin/uv
base=$(.venv/bin/python -c 'import sys; print(sys._base_executable)')
"$uv" venv --quiet --relocatable --python "$base" "$scratch/env"
"$uv" pip install --quiet --require-hashes --python "$scratch/env" -r infra/images/requirements.lock
"$uv" build --quiet --wheel --no-build-isolation --python .venv/bin/python --out-dir "$scratch/wheels" .
"$uv" pip install --quiet --no-deps --python "$scratch/env" "$scratch"/wheels/*.whl
# Executors have Spark's jars of their own.
rm -rf "$scratch"/env/lib/python3.*/site-packages/pyspark/jars
mkdir -p "$into"
tar -C "$scratch/env" -czf "$into/keyspread-env.tar.gz" .
ls -lh "$into/keyspread-env.tar.gz" | awk '{print $9 ": " $5}'
