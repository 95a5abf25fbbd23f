"""infra/kubernetes as it stands, before an API server of ours: the image is driver and executor."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.containers.kafka_cluster import free_ports
from tests.containers.kubernetes import Kubernetes
from tests.containers.versions import ROOT, image
from tests.integration.programs import keyed_lines

pytestmark = [pytest.mark.containers, pytest.mark.broker, pytest.mark.spark]

INFRA = ROOT / "infra" / "kubernetes"
RUN = (INFRA / "run.yaml").read_text()
DRIVER = "keyspread-driver"
NUM_RECORDS = 5_000


@pytest.fixture(scope="module", autouse=True)
def our_image() -> Iterator[str]:
    """The image under the name that docs/operations.md pushes it by."""
    (name,) = set(re.findall(r"image: (\S+)", RUN))
    dockerfile = ("--file", ROOT / "infra" / "images" / "Dockerfile", "--target", "spark")
    pinned = ("--build-arg", f"DEBIAN_IMAGE={image('DEBIAN')}")
    subprocess.run(
        ["docker", "build", "--quiet", *dockerfile, *pinned, "--tag", name, ROOT],
        check=True,
        capture_output=True,
    )
    yield name
    subprocess.run(["docker", "rmi", "--no-prune", name], check=True, capture_output=True)


def test_a_run_whose_executors_are_pods(our_image: str, bootstrap: str, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    runs.mkdir()
    runs.chmod(0o777)
    keyed_lines(runs / "in.csv", NUM_RECORDS)
    with Kubernetes(tmp_path, {"runs": runs}) as kubernetes:
        settings = (INFRA / "spark-defaults.conf").read_text()
        # This API server tells of its pods to who asks.
        settings += "spark.kubernetes.executor.apiPollingInterval 1s\n"
        conf = {"spark-defaults.conf": settings}
        kubernetes.keep({"metadata": {"name": "spark"}, "data": conf})
        kubernetes.start(driver_pod(our_image, bootstrap, kubernetes.master))
        code, out, err = kubernetes.wait(DRIVER)
        executors = [name for name in kubernetes.logs if name != DRIVER]
    said = {name: kubernetes.logs[name] for name in executors}
    assert code == 0, f"{err}\n{said}"
    cell = json.loads(out)
    assert cell["exact"], cell["differences"]
    assert cell["produced"] == cell["delivered"] == NUM_RECORDS
    # Spark itself has removed them, and each had tasks.
    assert len(executors) == 2
    assert all("Finished task" in text for text in said.values()), said


def driver_pod(our_image: str, bootstrap: str, master: str) -> dict[str, object]:
    """The pod of run.yaml, with a workload, servers and a master of this test."""
    (words,) = re.findall(r"args: \[(.*)\]", RUN)
    args = [word.strip().strip('"') for word in words.split(",")]
    for option, value in (("--bootstrap", bootstrap), ("--master", master)):
        args[args.index(option) + 1] = value
    args[args.index("wordcount")] = "keyed-sum"
    (submit,) = re.findall(r'name: PYSPARK_SUBMIT_ARGS\n\s+value: "(.*)"', RUN)
    environment = [
        {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        {"name": "PYSPARK_SUBMIT_ARGS", "value": submit},
        {"name": "SPARK_CONF_DIR", "value": "/conf"},
    ]
    container = {
        "image": our_image,
        "args": [*args, "--input", "/runs/in.csv"],
        "env": environment,
        "volumeMounts": [
            {"name": "conf", "mountPath": "/conf"},
            {"name": "runs", "mountPath": "/runs"},
        ],
    }
    volumes = [
        {"name": "conf", "configMap": {"name": "spark"}},
        {"name": "runs", "persistentVolumeClaim": {"claimName": "runs"}},
    ]
    spec = {"containers": [container], "volumes": volumes}
    metadata = {"name": DRIVER, "namespace": "keyspread"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def test_an_executor_without_its_driver_names_the_address(our_image: str) -> None:
    nobody = f"127.0.0.1:{free_ports(1)[0]}"
    told = {
        "SPARK_DRIVER_URL": f"spark://CoarseGrainedScheduler@{nobody}",
        "SPARK_EXECUTOR_ID": "1",
        "SPARK_EXECUTOR_CORES": "1",
        "SPARK_EXECUTOR_MEMORY": "256m",
        "SPARK_APPLICATION_ID": "spark-of-a-test",
        "SPARK_EXECUTOR_POD_IP": "127.0.0.1",
        "SPARK_EXECUTOR_POD_NAME": "keyspread-exec-1",
        "SPARK_RESOURCE_PROFILE_ID": "0",
        "SPARK_JAVA_OPT_0": "-Dspark.driver.port=1",
        "SPARK_JAVA_OPT_1": "-Dof.a.test=two words",
    }
    variables = [word for name, value in told.items() for word in ("--env", f"{name}={value}")]
    ran = subprocess.run(
        ["docker", "run", "--rm", *variables, our_image, "executor"],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ran.returncode != 0
    said = ran.stdout + ran.stderr
    assert f"Failed to connect to /{nobody}" in said, said[-3000:]
