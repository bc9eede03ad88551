"""What people met: other ASGI servers, changed configurations, pods whose scheduler nobody knows."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import pytest

# For what is to happen in the end, however busy the machine is.
PATIENT_S = 60
JSON = {"content-type": "application/json"}

APPLICATION = '''
import sys
from pathlib import Path

from kubextend import app, discovery
from kubextend.framework import Status


class Sunny:
    """Keeps the nodes with the label ``sunny``, and notes when it is started and stopped."""

    name = "Sunny"

    def start(self):
        self._note("started")

    def stop(self):
        self._note("stopped")

    def _note(self, what):
        with Path("diary").open("a") as diary:
            diary.write(f"{what}\\n")

    def filter(self, state, pod, node):
        if "sunny" not in node.labels:
            return Status.unschedulable("node lies in the shade")


def factory():
    return app.create_app(discovery.load("kubextend.yaml", {"Sunny": Sunny}))


application = factory()

if __name__ == "__main__":
    import uvicorn

    uvicorn.run(application, fd=int(sys.argv[1]))
'''
SERVERS = {
    "uvicorn.run": "program.py {fd}",
    "uvicorn": "-m uvicorn program:application --fd {fd}",
    "uvicorn --factory": "-m uvicorn --factory program:factory --fd {fd}",
    "hypercorn": "-m hypercorn program:application --bind fd://{fd}",
}


def configuration(*profiles: dict[str, object], **sections: object) -> dict[str, object]:
    kind = {"apiVersion": "kubextend.dev/v1alpha1", "kind": "ExtenderConfiguration"}
    return {**kind, **sections, "profiles": profiles}


@contextmanager
def served_by(arguments: str, folder: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A server of the application in a folder, and its URL, where it accepts once it is ready."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        fd, port = listening.fileno(), listening.getsockname()[1]
        process = subprocess.Popen(
            [sys.executable, *arguments.format(fd=fd).split()],
            cwd=folder,
            pass_fds=[fd],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "PYTHONPATH": str(folder)},
            # hypercorn serves from a process of its own.
            start_new_session=True,
        )
    # Only the server listens now, so that a client hears if the server ends.
    try:
        yield process, f"http://127.0.0.1:{port}"
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


@pytest.mark.parametrize("server", SERVERS)
def test_any_asgi_server_serves_the_application(server: str, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(APPLICATION)
    sunny = {"plugins": {"filter": {"enabled": [{"name": "Sunny"}]}}}
    (tmp_path / "kubextend.yaml").write_text(json.dumps(configuration(sunny)))
    nodes = [{"metadata": {"name": name, "labels": {name: ""}}} for name in ("sunny", "dark")]
    pod = {"metadata": {"name": "p", "namespace": "ml", "uid": "u"}, "spec": {}}
    asked = {"Pod": pod, "Nodes": {"items": nodes}, "NodeNames": None}
    with (
        served_by(SERVERS[server], tmp_path) as (process, url),
        httpx.Client(base_url=url, timeout=PATIENT_S) as client,
    ):
        assert client.get("/livez").status_code == 200
        assert client.get("/metrics").status_code == 200
        filtered = client.post("/filter", content=json.dumps(asked), headers=JSON)
        assert filtered.status_code == 200
        assert filtered.json()["FailedNodes"] == {"dark": "node lies in the shade"}
        assert client.post("/bind", content=b"{}", headers=JSON).status_code == 404
        process.send_signal(signal.SIGTERM)
        said, _ = process.communicate(timeout=PATIENT_S)
    assert (tmp_path / "diary").read_text() == "started\nstopped\n", said
    assert "Traceback" not in said
