#!/usr/bin/env bash
# Makes the database on an empty data folder, with a server that listens on its socket alone.
set -euo pipefail
user=${POSTGRES_USER:-postgres}
if [ "${1:-}" = postgres ] && [ ! -s "$PGDATA/PG_VERSION" ]; then
    : "${POSTGRES_PASSWORD:?set POSTGRES_PASSWORD}"
    initdb --username="$user" --pwfile=<(printf '%s\n' "$POSTGRES_PASSWORD") \
        --auth-local=trust --auth-host=scram-sha-256 --encoding=UTF8
    echo 'host all all all scram-sha-256' >> "$PGDATA/pg_hba.conf"
    pg_ctl --wait -o "-c listen_addresses=''" start
    if [ "${POSTGRES_DB:-$user}" != postgres ]; then
        createdb --username="$user" --maintenance-db=postgres "${POSTGRES_DB:-$user}"
    fi
    pg_ctl --wait --mode=fast stop
fi
set -- "$@" -c listen_addresses='*'
exec "$@"
