"""SIGTERM: not ready at once, yet it serves until nobody comes any more."""

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.client import HTTPConnection, RemoteDisconnected
from pathlib import Path

import pytest
from live_server import NODES, Connection, head, node, request

SERVE = [sys.executable, "-c", "from kubextend.cli import main; main()", "serve"]
PATIENT_S = 30.0


@dataclass
class Replica:
    """A ``kubextend serve`` of its own."""

    process: "subprocess.Popen[str]"
    url: str

    @property
    def port(self) -> int:
        return int(self.url.rstrip("/").rpartition(":")[2])

    def status(self, path: str) -> int:
        """Of a GET on a new connection; 0 where nobody listens."""
        try:
            with Connection(self.url) as connection:
                return connection.get(path).status
        except (OSError, EOFError):
            return 0

    def end_code(self) -> int:
        _, stderr = self.process.communicate(timeout=PATIENT_S)
        assert "Traceback" not in stderr
        return self.process.returncode


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


@contextlib.contextmanager
def replica(tmp_path: Path, drain_delay: str) -> Iterator[Replica]:
    port = free_port()
    configured = tmp_path / f"{port}.yaml"
    configured.write_text(
        "apiVersion: kubextend.dev/v1alpha1\nkind: ExtenderConfiguration\n"
        f"server: {{port: {port}, drainDelay: {drain_delay}}}\n"
        "profiles: [{plugins: {filter: {enabled: [{name: HighCommPodFilter}]}}}]\n"
    )
    process = subprocess.Popen(
        [*SERVE, "--config", str(configured)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONWARNINGS": "error"},
    )
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        found = re.fullmatch(r"listening on (http://127\.0\.0\.1:\d+/)\n", line)
        assert found is not None, line
        yield Replica(process, found[1])
    finally:
        process.kill()
        process.communicate()


def eventually(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENT_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def large_body() -> bytes:
    big = node("big", rdma="true")
    big["metadata"]["annotations"] = {"a": "x" * 40_000_000}
    return request("filter", nodes=[*NODES, big])


def test_it_is_not_ready_at_once_and_serves_on_until_the_delay_is_over(tmp_path: Path) -> None:
    body = large_body()
    with (
        replica(tmp_path, "1500ms") as served,
        Connection(served.url) as early,
        Connection(served.url) as kept,
    ):
        assert kept.get("/readyz").status == 200
        early.send(head("POST", "/filter", **{"Content-Length": str(len(body))}), body[:1000])
        began_s = time.monotonic()
        served.process.send_signal(signal.SIGTERM)
        eventually(lambda: served.status("/readyz") == 503)
        assert served.status("/livez") == 200
        # A client that stays is served, and told to go elsewhere.
        answer = kept.post("/filter", request("filter"))
        assert (answer.status, answer.headers["connection"]) == (200, "close")
        assert kept.is_closed()
        with Connection(served.url) as late:
            assert late.post("/filter", request("filter")).status == 200
        assert served.process.poll() is None
        eventually(lambda: served.status("/livez") == 0)
        assert time.monotonic() - began_s >= 1.4
        # What was in flight by then is answered to its end.
        assert served.process.poll() is None
        early.send(body[1000:])
        assert early.answer().status == 200
        assert served.end_code() == 0


@pytest.mark.parametrize("signals", [[signal.SIGINT], [signal.SIGTERM, signal.SIGTERM]])
def test_nobody_at_a_terminal_waits_for_the_delay(
    tmp_path: Path, signals: list[signal.Signals]
) -> None:
    with replica(tmp_path, "20s") as served:
        began_s = time.monotonic()
        for number in signals:
            served.process.send_signal(number)
            time.sleep(0.3)
        assert served.end_code() == 0
        assert time.monotonic() - began_s < 15


class Clients:
    """Clients as a Service's: each request goes to a replica that was ready a moment ago."""

    def __init__(self) -> None:
        self.endpoints: list[Replica] = []
        self.done = 0
        self.failed: list[str] = []
        self.over = threading.Event()

    def run(self, number: int) -> None:
        connection: HTTPConnection | None = None
        body = request("filter")
        while not self.over.is_set():
            if connection is None:
                chosen = self.endpoints[number % len(self.endpoints)]
                connection = HTTPConnection("127.0.0.1", chosen.port, timeout=PATIENT_S)
            try:
                connection.request("POST", "/filter", body, {"Content-Type": "application/json"})
                answer = connection.getresponse()
                answer.read()
            except (OSError, RemoteDisconnected) as error:
                self.failed.append(repr(error))
                connection = None
                continue
            self.done += 1
            if answer.status != 200:
                self.failed.append(str(answer.status))
            if answer.will_close:
                connection.close()
                connection = None
        if connection is not None:
            connection.close()


def test_a_rollout_of_two_replicas_fails_no_request(tmp_path: Path) -> None:
    clients = Clients()
    asking = [threading.Thread(target=clients.run, args=(number,)) for number in range(4)]
    with contextlib.ExitStack() as replicas:
        old = [replicas.enter_context(replica(tmp_path, "1500ms")) for _ in range(2)]
        clients.endpoints = list(old)
        for thread in asking:
            thread.start()
        try:
            for leaving in old:
                fresh = replicas.enter_context(replica(tmp_path, "1500ms"))
                clients.endpoints = [*clients.endpoints, fresh]
                leaving.process.send_signal(signal.SIGTERM)
                eventually(lambda leaving=leaving: leaving.status("/readyz") == 503)
                # The endpoints of a Service follow only after a while.
                time.sleep(0.3)
                clients.endpoints = [one for one in clients.endpoints if one is not leaving]
                assert leaving.end_code() == 0
        finally:
            clients.over.set()
            for thread in asking:
                thread.join()
    assert clients.failed == []
    assert clients.done > 500
