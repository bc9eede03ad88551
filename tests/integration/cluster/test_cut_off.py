"""Signals while the Kubernetes API does not answer a Binding."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from typing import TYPE_CHECKING

import httpx
import pytest
from cluster_world import Held, eventually

if TYPE_CHECKING:
    from pathlib import Path

    from scripted_api import ScriptedApi

KUBEXTEND = (sys.executable, "-c", "from kubextend.cli import main; main()")
# The API would be waited for longer than this.
AT_MOST_S = 15
CONFIGURATION = """
apiVersion: kubextend.dev/v1alpha1
kind: ExtenderConfiguration
server: {{port: {port}, drainDelay: {drain_delay}}}
cluster: {{kubeconfig: {kubeconfig}}}
extender: {{bind: true}}
profiles: [{{plugins: {{filter: {{enabled: [{{name: HighCommPodFilter}}]}}}}}}]
"""
BIND = {"PodName": "pod", "PodNamespace": "default", "PodUID": "uid-pod", "Node": "n1"}


# (how long it drains, the signals, each after the one before it has been heard)
CUTS = [("0s", 2), ("20s", 3)]


@pytest.mark.parametrize(("drain_delay", "signals"), CUTS)
def test_who_cuts_off_does_not_wait_for_a_binding_and_the_log_names_its_pod(
    api: ScriptedApi, kubeconfig: Path, tmp_path: Path, drain_delay: str, signals: int
) -> None:
    api.put_node("n1")
    api.put_pod("pod", "uid-pod")
    held = Held()
    api.fail("bind", held)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    configuration = tmp_path / "kubextend.yaml"
    configuration.write_text(
        CONFIGURATION.format(port=port, kubeconfig=kubeconfig, drain_delay=drain_delay)
    )
    process = subprocess.Popen(
        [*KUBEXTEND, "serve", "--config", str(configuration)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ,
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline().startswith("listening on ")
        url = f"http://127.0.0.1:{port}"

        def status(path: str) -> int:
            try:
                return httpx.get(f"{url}{path}", trust_env=False).status_code
            except httpx.TransportError:
                return 0

        eventually(lambda: status("/readyz") == 200)
        body = json.dumps(BIND)
        head = f"POST /bind HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n"
        with socket.create_connection(("127.0.0.1", port)) as connection:
            connection.sendall(f"{head}Content-Type: application/json\r\n\r\n{body}".encode())
            eventually(lambda: api.counts["bind"] == 1)
            for heard in ["/readyz", "/livez"][2 - (signals - 1) :]:
                process.send_signal(signal.SIGTERM)
                eventually(lambda path=heard: status(path) != 200)  # type: ignore[misc]
            assert process.poll() is None
            process.send_signal(signal.SIGTERM)
            _, log = process.communicate(timeout=AT_MOST_S)
        assert "asked to bind pod default/pod to node n1: whether it is bound is not known" in log
        assert process.returncode == 1
    finally:
        held.go_on.set()
        process.kill()
        process.communicate()
