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
executor)
    # What Spark asks of an image on Kubernetes; the variables are its own.
    mapfile -t options < <(env | sed -n 's/^SPARK_JAVA_OPT_[0-9]*=//p')
    exec java "${options[@]}" -Xms"$SPARK_EXECUTOR_MEMORY" -Xmx"$SPARK_EXECUTOR_MEMORY" \
        -cp "${SPARK_CLASSPATH:-}:/opt/keyspread/spark/jars/*" \
        org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
        --driver-url "$SPARK_DRIVER_URL" --executor-id "$SPARK_EXECUTOR_ID" \
        --cores "$SPARK_EXECUTOR_CORES" --app-id "$SPARK_APPLICATION_ID" \
        --hostname "$SPARK_EXECUTOR_POD_IP" --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" \
        --podName "$SPARK_EXECUTOR_POD_NAME"
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
