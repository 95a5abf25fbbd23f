#!/usr/bin/env bash
# The part of tests/containers for CI: a broker with TLS, logins and permissions, and PostgreSQL
# killed. The others (three brokers, a full disk, the stack) take longer: `make test-containers`.
# Starts a Docker engine where none runs and Debian has one, and stops what it started.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf 'ci-containers: %s\n' "$*"; }
leave_out() {
    say "LEFT OUT, all of tests/containers: $1. With an engine and its images: make test-containers"
    exit 0
}

if ! docker info >/dev/null 2>&1; then
    timeout 180 infra/local-images/build.sh engine || leave_out "no Docker engine runs here, and none could be started"
    engine=$(cat /var/run/docker.pid)
    trap 'kill "$engine"; timeout 30 tail --pid="$engine" -f /dev/null' EXIT
fi
# shellcheck source=../infra/versions.env
. infra/versions.env
for name in kafka postgres; do
    image=${name^^}_IMAGE
    docker image inspect "${!image}" >/dev/null 2>&1 \
        || timeout 60 docker pull --quiet "${!image}" \
        || timeout 300 infra/local-images/build.sh images debian $name \
        || leave_out "no image of $name could be pulled or built"
done
say "LEFT OUT for their time: tests/containers but for security and PostgreSQL. All: make test-containers"
scripts/test-containers.sh -k "security or postgres"
