#!/usr/bin/env bash
# Writes the passwords of the compose stack to .env (or another file), which git leaves alone. Those
# there are stay: the database keeps the password it was made with.
set -euo pipefail
cd "$(dirname "$0")/.."
umask 077
file=${1:-.env}
touch "$file"
chmod 600 "$file"

# 32 random bytes, in the form that Airflow's Fernet key needs and every other can have.
random() { head -c 32 /dev/urandom | base64 | tr '+/' '-_' | tr -d '\n'; }
# 20 letters and digits, to be typed.
password() { head -c 512 /dev/urandom | base64 | tr -dc 'a-zA-Z0-9' | cut -c 1-20; }

add() { grep -q "^$1=..*" "$file" || printf '%s=%s\n' "$1" "$2" >> "$file"; }
add AIRFLOW_PASSWORD "$(password)"
add AIRFLOW_FERNET_KEY "$(random)"
add AIRFLOW_JWT_SECRET "$(random)"
add AIRFLOW_SECRET_KEY "$(random)"
add POSTGRES_PASSWORD "$(password)"
add GRAFANA_PASSWORD "$(password)"
echo "$file holds the passwords; Airflow: user admin, password $(sed -n 's/^AIRFLOW_PASSWORD=//p' "$file")"
