"""200 binds that Permit holds at once, on a whole kubextend of its own: what each of them costs."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPResponse
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scripted_api import ScriptedApi

PODS = 200
# What is made once, for the first pods of all, is not theirs.
FIRST_PODS = 20
# About 3 KB of them are the record that `kubextend why` reads.
MOST_KB_A_POD = 30
MOST_THREADS = 100
PATIENCE_S = 60.0

KUBEXTEND = (sys.executable, "-c", "from kubextend.cli import main; main()")
PLUGIN = """
from kubextend.framework.status import Status

class Holds:
    name = "Holds"

    def permit(self, state, pod, node_name):
        return Status.wait(), 600.0
"""
CONFIGURATION = """
apiVersion: kubextend.dev/v1alpha1
kind: ExtenderConfiguration
outOfTree: ["holds:Holds"]
server: {{port: {port}, waitingPods: {{tokenFile: {folder}/token}}}}
cluster: {{kubeconfig: {kubeconfig}}}
extender: {{permitMaxWait: 10m}}
profiles:
- plugins:
    filter: {{enabled: [{{name: HighCommPodFilter}}]}}
    permit: {{enabled: [{{name: Holds}}]}}
"""
# As Go's client sends it.
BIND_HEAD = (
    "POST /bind HTTP/1.1\r\nHost: 127.0.0.1:8888\r\n"
    "User-Agent: kube-scheduler/v1.36.3 (linux/amd64) kubernetes/4d1b2a7/scheduler\r\n"
    "Content-Length: {length}\r\nContent-Type: application/json\r\nAccept-Encoding: gzip\r\n\r\n"
)


@dataclass
class Server:
    """A kubextend process whose only Permit plugin holds every pod, and the binds that it holds."""

    process: subprocess.Popen[str]
    port: int
    http: httpx.Client
    binds: list[socket.socket] = field(default_factory=list)

    def until_ready(self) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while self.http.get("/readyz").status_code != 200:
            assert time.monotonic() < deadline
            time.sleep(0.05)

    def bind(self, pod: dict[str, Any]) -> None:
        """Filter, and then bind on a connection of its own, whose answer is yet to come."""
        asked = {"Pod": pod, "Nodes": None, "NodeNames": ["n1"]}
        assert self.http.post("/filter", json=asked).json()["NodeNames"] == ["n1"]
        metadata = pod["metadata"]
        body = {
            "PodName": metadata["name"],
            "PodNamespace": metadata["namespace"],
            "PodUID": metadata["uid"],
            "Node": "n1",
        }
        data = json.dumps(body)
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE_S)
        connection.sendall((BIND_HEAD.format(length=len(data)) + data).encode())
        self.binds.append(connection)

    def waiting(self) -> list[str]:
        answer = self.http.get(
            "/waiting-pods", headers={"authorization": "Bearer s3cret-and-long-enough"}
        )
        return [item["uid"] for item in answer.json()["items"]]

    def allow(self, uid: str) -> int:
        headers = {"authorization": "Bearer s3cret-and-long-enough"}
        return self.http.post(f"/waiting-pods/{uid}/allow", headers=headers).status_code

    def until_waiting(self, count: int) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while len(self.waiting()) < count:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        # What only led there has had time to end.
        time.sleep(1)

    def of_process(self, line: str) -> int:
        """A number of the process, such as its threads or its resident memory in KB."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        found = next(each for each in status.splitlines() if each.startswith(f"{line}:"))
        return int(found.split()[1])


def answer_on(connection: socket.socket) -> bytes:
    """The body of the next answer, of which the first read may bring the head alone."""
    with HTTPResponse(connection) as response:
        response.begin()
        return response.read()


@contextmanager
def serving(folder: Path, kubeconfig: Path) -> Iterator[Server]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    (folder / "holds.py").write_text(PLUGIN)
    (folder / "token").write_text("s3cret-and-long-enough")
    configuration = folder / "kubextend.yaml"
    configuration.write_text(CONFIGURATION.format(port=port, folder=folder, kubeconfig=kubeconfig))
    paths = [str(folder), *filter(None, [os.environ.get("PYTHONPATH")])]
    process = subprocess.Popen(
        [*KUBEXTEND, "serve", "--config", str(configuration)],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline().startswith("listening on ")
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE_S) as client:
            server = Server(process, port, client)
            yield server
            for connection in server.binds:
                connection.close()
    finally:
        process.kill()
        process.communicate()


@pytest.fixture
def server(api: ScriptedApi, kubeconfig: Path, tmp_path: Path) -> Iterator[Server]:
    api.put_node("n1")
    for number in range(FIRST_PODS + PODS):
        api.put_pod(f"pod-{number}", f"uid-{number}")
    with serving(tmp_path, kubeconfig) as server:
        # The watched node and pods are in the memory from here on.
        server.until_ready()
        yield server


def test_200_waiting_binds_hold_no_thread_each_and_less_than_30_kb(
    server: Server, api: ScriptedApi
) -> None:
    pods = list(api.pods.values())
    for pod in pods[:FIRST_PODS]:
        server.bind(pod)
    server.until_waiting(FIRST_PODS)
    before_kb = server.of_process("VmRSS")
    for pod in pods[FIRST_PODS:]:
        server.bind(pod)
    server.until_waiting(FIRST_PODS + PODS)
    kb_a_pod = (server.of_process("VmRSS") - before_kb) / PODS
    assert server.of_process("Threads") < MOST_THREADS
    assert kb_a_pod < MOST_KB_A_POD
    assert api.counts["bind"] == 0
    held = f"kubextend_waiting_pods {FIRST_PODS + PODS}.0"
    assert held in server.http.get("/metrics").text.splitlines()
    assert {server.allow(uid) for uid in server.waiting()} == {200}
    assert {answer_on(connection) for connection in server.binds} == {b'{"Error":""}'}
    assert api.counts["bind"] == FIRST_PODS + PODS
