#!/usr/bin/env bash
# The part of tests/containers for CI: a broker with TLS, logins and permissions. The others (three
# brokers, PostgreSQL, a full disk, the stack) take longer: `make test-containers` runs them all.
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
docker image inspect "$KAFKA_IMAGE" >/dev/null 2>&1 \
    || timeout 60 docker pull --quiet "$KAFKA_IMAGE" \
    || timeout 300 infra/local-images/build.sh images debian kafka \
    || leave_out "no image of Kafka could be pulled or built"
say "LEFT OUT for its time: tests/containers but for test_kafka_security. All: make test-containers"
scripts/test-containers.sh -k security
