#!/usr/bin/env bash
# Runs tests/containers against the Docker engine of this machine.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf 'test-containers: %s\n' "$*" >&2; }
docker info >/dev/null 2>&1 \
    || { say "no Docker engine answers: start one (infra/local-images/build.sh brings one on Debian)"; exit 2; }

# testcontainers lives beside .venv: what a user of Keyspread installs does without it.
folder=.venv-containers
wanted=$(cat tests/containers/requirements.lock requirements.lock | sha256sum)
if [ "$(cat $folder/.keyspread 2>/dev/null)" != "$wanted" ]; then
    rm -rf $folder
    .venv/bin/uv pip install --quiet --require-hashes --target $folder -r tests/containers/requirements.lock
    printf '%s\n' "$wanted" > $folder/.keyspread
fi
# BuildKit as Debian's engine has it faults in its cache, and takes the engine with it.
case $(docker version --format '{{.Server.Version}}') in 20.*) export DOCKER_BUILDKIT=0 ;; esac
# Each test removes its own containers; the helper that would do it is one more image to pull.
export TESTCONTAINERS_RYUK_DISABLED=true PYTHONPATH=$PWD/$folder
exec .venv/bin/python -m pytest -m containers --override-ini timeout=1200 tests/containers "$@"
