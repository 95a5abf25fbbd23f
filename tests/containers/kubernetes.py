"""As much of Kubernetes as a run asks for: pods are containers on this machine's own network.

Spark's driver speaks to its API server; this one starts what it is asked to as `docker run` does,
with the image, the arguments, the variables and the volumes of the pod.
"""

from __future__ import annotations

import json
import subprocess
import threading
import uuid
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

# Of this machine: the API server's, and of each pod one further on. Executors of one address would
# look for each other's files, as those of one machine may.
ADDRESSES = "127.0.0.{}"

Json = dict[str, Any]


class Kubernetes:
    """An API server and its pods, as a context manager; in the end all of them are gone.

    Args:
        folder: For the files of config maps.
        claims: The folder of each persistent volume claim.
    """

    def __init__(self, folder: Path, claims: Mapping[str, Path]) -> None:
        self._folder = folder
        self._claims = claims
        self._maps: dict[str, Path] = {}
        self._over = threading.Event()
        self.pods: dict[str, Json] = {}
        self.logs: dict[str, str] = {}
        owner = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                address = urlsplit(self.path)
                if "watch=" in address.query:
                    self._watch()
                    return
                name = address.path.rpartition("/pods")[2].strip("/")
                if not name:
                    self._answer(200, owner.listed(address.query))
                elif name in owner.pods:
                    self._answer(200, owner.pods[name])
                else:
                    self._answer(404, {"kind": "Status", "apiVersion": "v1", "code": 404})

            def do_POST(self) -> None:
                made = json.loads(self._body())
                (owner.start if made["kind"] == "Pod" else owner.keep)(made)
                self._answer(201, made)

            def do_PATCH(self) -> None:
                self._body()
                self._answer(200, owner.pods[self.path.rpartition("/")[2].partition("?")[0]])

            def do_DELETE(self) -> None:
                self._body()
                if "/pods" in self.path:
                    owner.remove_executors()
                self._answer(200, {"kind": "Status", "apiVersion": "v1", "status": "Success"})

            def log_message(self, *_words: Any) -> None:
                pass

            def _watch(self) -> None:
                """Nothing ever changes here: whoever watches hears so by asking again."""
                if self.headers.get("Upgrade"):
                    # So a client is told that watching goes by plain HTTP.
                    self._answer(200, {})
                    return
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.end_headers()
                owner._over.wait()

            def _body(self) -> bytes:
                return self.rfile.read(int(self.headers.get("Content-Length") or 0))

            def _answer(self, code: int, what: Json) -> None:
                body = json.dumps(what).encode()
                self.send_response(code)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        self._server = ThreadingHTTPServer((ADDRESSES.format(1), 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._over.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(30)
        self._remove(list(self.pods))

    @property
    def master(self) -> str:
        """The address, as Spark takes it."""
        return f"k8s://http://{ADDRESSES.format(1)}:{self._server.server_address[1]}"

    def keep(self, config_map: Json) -> None:
        """Make a config map: a folder with a file for each entry."""
        folder = self._folder / f"map-{len(self._maps)}"
        folder.mkdir()
        for name, text in config_map.get("data", {}).items():
            (folder / name).write_text(text)
        self._maps[config_map["metadata"]["name"]] = folder

    def start(self, pod: Json) -> None:
        """Run a pod's only container."""
        name = pod["metadata"]["name"]
        pod["metadata"] |= {"uid": str(uuid.uuid4()), "resourceVersion": "1"}
        ready = {"type": "Ready", "status": "True"}
        address = ADDRESSES.format(2 + len(self.pods))
        pod["status"] = {"phase": "Running", "podIP": address, "conditions": [ready]}
        (container,) = pod["spec"]["containers"]
        fields = {"status.podIP": address, "metadata.name": name}
        told: dict[str, str] = {}
        for each in container.get("env", ()):
            value = each.get("value", "")
            if "valueFrom" in each:
                value = fields[each["valueFrom"]["fieldRef"]["fieldPath"]]
            for known, text in told.items():
                value = value.replace(f"$({known})", text)
            told[each["name"]] = value
        command = ["docker", "run", "--detach", "--name", name, "--network", "host"]
        for variable, value in told.items():
            command += ["--env", f"{variable}={value}"]
        volumes = {each["name"]: each for each in pod["spec"].get("volumes", ())}
        for mount in container.get("volumeMounts", ()):
            command += self._mounted(volumes[mount["name"]], mount["mountPath"])
        self.pods[name] = pod
        subprocess.run(
            [*command, container["image"], *container["args"]], check=True, capture_output=True
        )

    def wait(self, name: str) -> tuple[int, str, str]:
        """Wait for a pod's end; gives exit code, stdout, stderr."""
        code = subprocess.run(
            ["docker", "wait", name], check=True, capture_output=True, text=True, timeout=900
        ).stdout
        said = subprocess.run(["docker", "logs", name], check=True, capture_output=True, text=True)
        return int(code), said.stdout, said.stderr

    def listed(self, query: str = "") -> Json:
        """The pods that a client asks for: one by its name, or those that Spark has labelled."""
        (name,) = parse_qs(query).get("fieldSelector", ["metadata.name="])
        wanted = name.removeprefix("metadata.name=")
        pods = [self.pods[wanted]] if wanted in self.pods else self._executors()
        for pod in pods:
            pod["status"]["phase"] = self._phase(pod["metadata"]["name"])
        metadata = {"resourceVersion": "1"}
        return {"kind": "PodList", "apiVersion": "v1", "metadata": metadata, "items": pods}

    def remove_executors(self) -> None:
        """Remove them, as Spark asks for in the end."""
        self._remove([pod["metadata"]["name"] for pod in self._executors()])

    def _executors(self) -> list[Json]:
        return [pod for pod in self.pods.values() if "labels" in pod["metadata"]]

    def _phase(self, name: str) -> str:
        state = ["docker", "inspect", "--format", "{{.State.Running}} {{.State.ExitCode}}", name]
        ran = subprocess.run(state, capture_output=True, text=True, check=False)
        phases = {"false 0": "Succeeded", "true 0": "Running"}
        return phases.get(ran.stdout.strip(), "Failed")

    def _mounted(self, volume: Json, path: str) -> list[str]:
        if "configMap" in volume:
            return ["--volume", f"{self._maps[volume['configMap']['name']]}:{path}:ro"]
        if "persistentVolumeClaim" in volume:
            folder = self._claims[volume["persistentVolumeClaim"]["claimName"]]
            return ["--volume", f"{folder}:{path}"]
        assert "emptyDir" in volume, volume
        folder = self._folder / f"empty-{uuid.uuid4()}"
        folder.mkdir()
        folder.chmod(0o777)
        return ["--volume", f"{folder}:{path}"]

    def _remove(self, names: list[str]) -> None:
        for name in names:
            said = subprocess.run(["docker", "logs", name], capture_output=True, text=True)
            self.logs[name] = said.stdout + said.stderr
            subprocess.run(["docker", "rm", "--force", name], capture_output=True, check=False)
            del self.pods[name]
