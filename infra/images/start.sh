#!/bin/bash
# Starts one part of the stack: `start spark-master`, or any other command as it is.
set -euo pipefail

spark_class() {
    export SPARK_DAEMON_MEMORY=${SPARK_DAEMON_MEMORY:-192m}
    exec /opt/keyspread/spark/bin/spark-class "$@"
}

case ${1:-} in
spark-master)
    spark_class org.apache.spark.deploy.master.Master --host "$HOSTNAME" --port 7077 --webui-port 8080
    ;;
spark-worker)
    # What applications leave behind goes half an hour after their end.
    export SPARK_WORKER_OPTS="-Dspark.worker.cleanup.enabled=true -Dspark.worker.cleanup.appDataTtl=1800"
    spark_class org.apache.spark.deploy.worker.Worker --host "$HOSTNAME" --webui-port 8081 \
        --work-dir /tmp/spark-work spark://spark-master:7077
    ;;
reports)
    exec python3 -m http.server --directory /runs 8088
    ;;
airflow-api-server)
    umask 077
    python3 -c 'import json, os; print(json.dumps({"admin": os.environ["AIRFLOW_PASSWORD"]}))' \
        > "$AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE"
    unset AIRFLOW_PASSWORD
    umask 022
    airflow db migrate
    # Cells never share the machine.
    airflow pools set keyspread 1 "one step of any benchmark at a time"
    exec airflow api-server --host 0.0.0.0 --port 8080
    ;;
airflow-scheduler | airflow-dag-processor | airflow-triggerer)
    exec airflow "${1#airflow-}"
    ;;
*)
    exec "$@"
    ;;
esac
