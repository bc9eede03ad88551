"""The application in servers of others, and a configuration that changes while kubextend runs."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from tests.doors.extender import PATIENT_S, node, profile, request, sections_of
from tests.doors.sockets import Connection, Replica, eventually, free_port, replica

pytestmark = pytest.mark.slow

SUNNY, SHADE = [node("sunny", sunny=""), node("dark")], "node lies in the shade"
ASKED = request("filter", nodes=SUNNY)
APPLICATION = f"""
import sys
from pathlib import Path

from kubextend import app, discovery
from kubextend.framework import Status


class Sunny:
    name = "Sunny"

    def start(self):
        self._note("started")

    def stop(self):
        self._note("stopped")

    def _note(self, what):
        with Path("diary").open("a") as diary:
            diary.write(f"{{what}}\\n")

    def filter(self, state, pod, node):
        if "sunny" not in node.labels:
            return Status.unschedulable("{SHADE}")


def factory():
    return app.create_app(discovery.load("kubextend.yaml", {{"Sunny": Sunny}}))


application = factory()

if __name__ == "__main__":
    import uvicorn

    uvicorn.run(application, fd=int(sys.argv[1]))
"""
SERVERS = {
    "uvicorn.run": "program.py {fd}",
    "uvicorn": "-m uvicorn program:application --fd {fd}",
    "uvicorn --factory": "-m uvicorn --factory program:factory --fd {fd}",
    "hypercorn": "-m hypercorn program:application --bind fd://{fd}",
}


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
    tree = sections_of(profiles=[profile(filter=["Sunny"])])
    (tmp_path / "kubextend.yaml").write_text(json.dumps(tree))
    with served_by(SERVERS[server], tmp_path) as (process, url):
        with Connection(url) as client:
            eventually(lambda: client.get("/readyz").status == 200)
            assert client.post("/filter", ASKED).json["FailedNodes"] == {"dark": SHADE}
            assert client.post("/bind", b"{}").status == 404
        process.send_signal(signal.SIGTERM)
        said, _ = process.communicate(timeout=PATIENT_S)
    assert (tmp_path / "diary").read_text() == "started\nstopped\n", said
    assert "Traceback" not in said


def seen(served: Replica) -> tuple[dict[str, str], str]:
    """Return the rejected nodes with their reasons, and the hash of the running configuration."""
    with Connection(served.url) as client:
        answer = client.post("/filter", ASKED).json
        metrics = client.get("/metrics").text
    (found,) = re.findall(r"^kubextend_configuration_info(.*)$", metrics, re.MULTILINE)
    return answer["FailedAndUnresolvableNodes"], found


def test_an_edited_configuration_changes_nothing_before_a_restart(tmp_path: Path) -> None:
    def rejecting(reason: str) -> dict[str, object]:
        args = {"filters": [{"nodeSelector": "sunny", "reason": reason}]}
        of = profile({"name": "LabelMatch", "args": args}, filter=["LabelMatch"])
        return {"server": {"port": port}, "profiles": [of]}

    port = free_port()
    with replica(tmp_path, **rejecting("before")) as served:
        before = seen(served)
        assert before[0] == {"dark": "before"}
        (file,) = tmp_path.glob("*.yaml")
        for text in ("profiles: [", json.dumps(sections_of(**rejecting("after")))):
            # In one step, as the kubelet replaces what it has mounted.
            (tmp_path / "new").write_text(text)
            (tmp_path / "new").rename(file)
            assert seen(served) == before
    with replica(tmp_path, **rejecting("after")) as served:
        after = seen(served)
    assert after[0] == {"dark": "after"}
    assert after[1] != before[1]
