"""The stack of docker-compose.yml under a name and ports of its own, and Airflow's REST of it."""

from __future__ import annotations

import json
import os
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from confluent_kafka.admin import AdminClient

from tests.airflow.rest import AirflowRest, grid_id
from tests.containers.kafka_cluster import free_ports
from tests.containers.versions import ROOT
from tests.containers.waiting import wait_until

WORDCOUNT = "benchmark_wordcount"
PORTS = ("AIRFLOW", "KAFKA", "KAFKA_2", "KAFKA_3", "SPARK", "REPORTS", "PROMETHEUS")


class Stack(AirflowRest):
    """The stack.

    Args:
        folder: Keeps its passwords.
        project: Its name in Docker.
        environment: Of `docker compose`, such as profiles.
    """

    def __init__(
        self,
        folder: Path,
        project: str = "keyspread-test",
        environment: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.project = project
        self._environment = {**os.environ, "COMPOSE_PROFILES": "", **environment}
        self.env_file = folder / "stack.env"
        subprocess.run(
            [ROOT / "infra" / "secrets.sh", self.env_file], check=True, capture_output=True
        )
        self.ports = dict(zip(PORTS, free_ports(len(PORTS)), strict=True))
        with self.env_file.open("a") as file:
            file.writelines(f"{name}_PORT={port}\n" for name, port in self.ports.items())
        lines = self.env_file.read_text().splitlines()
        password = dict(line.split("=", 1) for line in lines)["AIRFLOW_PASSWORD"]
        super().__init__(f"http://127.0.0.1:{self.ports['AIRFLOW']}", password)

    def compose(
        self, *args: str, check: bool = True, seconds: float | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Call `docker compose`; longer than so many seconds is an error."""
        ran = subprocess.run(
            ["docker", "compose", "-p", self.project, "--env-file", self.env_file, *args],
            cwd=ROOT,
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=seconds,
        )
        assert ran.returncode == 0 or not check, f"{args}: {ran.stderr[-3000:]}"
        return ran

    def states(self) -> dict[str, str]:
        """Each service's health."""
        lines = self.compose("ps", "--format", "json").stdout.splitlines()
        found = [json.loads(line) for line in lines if line.strip()]
        return {each["Service"]: each["Health"] or each["State"] for each in found}

    def spark_applications(self) -> list[str]:
        """Ids of the programs that Spark's master knows as running."""
        url = f"http://127.0.0.1:{self.ports['SPARK']}/json/"
        with urllib.request.urlopen(url, timeout=30) as answer:
            return [each["id"] for each in json.load(answer)["activeapps"]]

    def executors(self, worker: str) -> list[str]:
        """Ids of the programs that have an executor on a worker, one for each executor."""
        program = "import urllib.request as u; print(u.urlopen('http://127.0.0.1:8081/json/').read().decode())"
        asked = ("python3", "-c", program)
        found = json.loads(self.compose("exec", "-T", worker, *asked).stdout)
        return [each["appid"] for each in found["executors"]]

    def users(self, service: str) -> set[int]:
        """Real, effective, saved and file user of a service's first process."""
        status = self.compose("exec", "-T", service, "cat", "/proc/1/status").stdout
        (line,) = (line for line in status.splitlines() if line.startswith("Uid:"))
        return set(map(int, line.split()[1:]))

    def processes(self, service: str) -> str:
        """Command lines of what runs in a container."""
        return self.compose("top", service).stdout

    def num_mapping(self, service: str, file: str) -> int:
        """How many processes of a container have mapped a file into their memory."""
        # Those of other users, and those that end meanwhile, are errors to it.
        look = f"grep -ls {file} /proc/[0-9]*/maps || true"
        listed = self.compose("exec", "-T", service, "sh", "-c", look)
        return len(listed.stdout.split())

    def changed(self, service: str) -> list[str]:
        """Files of a container that are not as its image has them; volumes are left out."""
        (container,) = self.compose("ps", "-q", service).stdout.split()
        ran = subprocess.run(
            ["docker", "diff", container], capture_output=True, text=True, check=True
        )
        return [line.split(" ", 1)[1] for line in ran.stdout.splitlines()]

    def prometheus(self, path: str, parameters: Mapping[str, str] = MappingProxyType({})) -> Any:
        """Ask Prometheus; an answer that is no success is an error."""
        query = urllib.parse.urlencode(parameters)
        url = f"http://127.0.0.1:{self.ports['PROMETHEUS']}/api/v1/{path}?{query}"
        try:
            with urllib.request.urlopen(url, timeout=30) as answer:
                said = json.load(answer)
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{parameters}: {error.read().decode()}") from error
        assert said["status"] == "success", (parameters, said)
        return said["data"]

    def values(self, expression: str) -> list[Any]:
        """The series of an expression in Prometheus, each with its value of now."""
        return list(self.prometheus("query", {"query": expression})["result"])

    def topics(self) -> list[str]:
        """Topics that runs have left."""
        client = AdminClient({"bootstrap.servers": f"127.0.0.1:{self.ports['KAFKA']}"})
        return [name for name in client.list_topics(timeout=30).topics if name[0] != "_"]

    def report(self, path: str) -> str:
        """Read a file of the runs, as a browser does."""
        url = f"http://127.0.0.1:{self.ports['REPORTS']}/{path}"
        with urllib.request.urlopen(url, timeout=60) as answer:
            return str(answer.read().decode())

    def cells(self, grid: str) -> list[dict[str, Any]]:
        """The cells of a grid that are done."""
        plan = json.loads(self.report(f"{grid}/grid.json"))
        return [
            json.loads(self.report(f"{grid}/cells/{number}.json"))
            for number in range(1, len(plan["cells"]) + 1)
        ]

    def in_mid_cell(self) -> tuple[str, str]:
        """Begin a run of words; gives its id and its grid when its cell has done a batch."""
        run = self.trigger(WORDCOUNT, partitioners=["pkg"], partitions=[4], speed="4000/s")
        grid = grid_id(WORDCOUNT, run)
        commits = f"{grid}/work/1/checkpoint/commits/[0-9]*"
        wait_until(lambda: len(self.in_runs(commits)) >= 1, "a first batch", 300, every=1)
        return run, grid

    def in_runs(self, pattern: str) -> list[str]:
        """Files of the runs that fit a shell pattern."""
        listed = self.compose(
            "exec", "-T", "reports", "sh", "-c", f"ls -d /runs/{pattern}", check=False
        )
        return listed.stdout.split()
