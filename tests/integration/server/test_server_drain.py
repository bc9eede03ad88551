"""SIGTERM: not ready at once, yet it serves until nobody comes any more."""

import asyncio
import contextlib
import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from http.client import HTTPConnection, RemoteDisconnected
from operator import ge
from pathlib import Path

import pytest
from live_server import (
    NODES,
    PATIENT_S,
    Connection,
    eventually,
    head,
    is_listening,
    node,
    read_by_now,
    request,
    running,
    some_verbs,
)
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from kubextend.server import Ending

SERVE = [sys.executable, "-c", "from kubextend.cli import main; main()", "serve"]


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
    """A port that nobody listens on, and that no outgoing connection is given meanwhile."""
    while True:
        port = random.SystemRandom().randrange(20_000, 32_000)
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
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


def large_body() -> bytes:
    big = node("big", rdma="true")
    big["metadata"]["annotations"] = {"a": "x" * 40_000_000}
    return request("filter", nodes=[*NODES, big])


def begun(connection: Connection, body: bytes) -> None:
    """A request is in flight until the rest of its body comes, from the thousandth byte on."""
    length = {"Content-Length": str(len(body))}
    connection.send(head("POST", "/filter", **length), body[:1000])


def test_it_is_not_ready_at_once_and_serves_on_until_it_is_told_again(tmp_path: Path) -> None:
    body = large_body()
    with (
        replica(tmp_path, "10s") as served,
        Connection(served.url) as early,
        Connection(served.url) as kept,
    ):
        assert kept.get("/readyz").status == 200
        begun(early, body)
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
        served.process.send_signal(signal.SIGTERM)
        eventually(lambda: served.status("/livez") == 0)
        # What was in flight by then is answered to its end.
        assert served.process.poll() is None
        early.send(body[1000:])
        assert early.answer().status == 200
        assert served.end_code() == 0


def test_it_ends_by_itself_when_the_delay_is_over_and_not_before(tmp_path: Path) -> None:
    body = large_body()
    with replica(tmp_path, "400ms") as served, Connection(served.url) as early:
        begun(early, body)
        read_by_now(served.url)
        began_s = time.monotonic()
        served.process.send_signal(signal.SIGTERM)
        eventually(lambda: not is_listening(served.url))
        assert time.monotonic() - began_s >= 0.4
        assert served.process.poll() is None
        early.send(body[1000:])
        assert early.answer().status == 200
        assert served.end_code() == 0


@pytest.mark.parametrize("signals", [[signal.SIGINT], [signal.SIGTERM, signal.SIGTERM]])
def test_nobody_at_a_terminal_waits_for_the_delay(
    tmp_path: Path, signals: list[signal.Signals]
) -> None:
    delay_s = 20
    with replica(tmp_path, f"{delay_s}s") as served:
        began_s = time.monotonic()
        for number in signals:
            served.process.send_signal(number)
            eventually(lambda: served.status("/readyz") != 200)
        assert served.end_code() == 0
        assert time.monotonic() - began_s < delay_s


def test_a_replica_that_does_not_lead_sends_its_clients_away_with_its_next_answer() -> None:
    leads = threading.Event()
    leads.set()
    options = {"ending": Ending(sends_away=lambda: not leads.is_set())}
    with running(some_verbs(), service_options=options) as (url, _), Connection(url) as kept:
        assert "connection" not in kept.post("/filter", request("filter")).headers
        leads.clear()
        assert kept.post("/filter", request("filter")).headers["connection"] == "close"
        assert kept.is_closed()
        leads.set()
        with Connection(url) as later:
            assert "connection" not in later.post("/filter", request("filter")).headers


DELAY_S = 0.05


def test_the_end_of_the_delay_cuts_nothing_off_where_the_end_was_told_before_it() -> None:
    over = threading.Event()

    async def end(_request: Request) -> Response:
        service.drain()
        service.stop()
        # On the same loop: by then the delay is over, and what it does is done.
        asyncio.get_running_loop().call_later(10 * DELAY_S, over.set)
        return Response()

    body = large_body()
    with (
        running(
            some_verbs(),
            more_routes=[Route("/end", end)],
            service_options={"ending": Ending(DELAY_S)},
        ) as (url, service),
        Connection(url) as early,
        Connection(url) as connection,
    ):
        begun(early, body)
        read_by_now(url)
        assert connection.get("/end").status == 200
        eventually(lambda: over.is_set() or early.is_answered())
        early.send(body[1000:])
        assert early.answer().status == 200


@pytest.mark.parametrize("drain_s", [0.0, 5.0, 20.0])
def test_delay_and_grace_together_end_before_kubernetes_kills(drain_s: float) -> None:
    killed_after_s = 30
    with running(some_verbs(), service_options={"ending": Ending(drain_s)}) as (_, service):
        grace_s = service._servers[0].config.timeout_graceful_shutdown
    assert grace_s is not None
    assert grace_s >= 1
    assert drain_s + grace_s < killed_after_s


class Clients:
    """Clients as a Service's: each request goes to a replica that was ready a moment ago.

    Attributes:
        done: how many requests of each were answered.
    """

    def __init__(self, number: int) -> None:
        self.endpoints: list[Replica] = []
        self.done = [0] * number
        self.failed: list[str] = []
        self.over = threading.Event()

    def run(self, number: int) -> None:
        connection: HTTPConnection | None = None
        body = request("filter")
        while not self.over.wait(0.005):
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
            self.done[number] += 1
            if answer.status != 200:
                self.failed.append(str(answer.status))
            if answer.will_close:
                connection.close()
                connection = None
        if connection is not None:
            connection.close()

    def each_has_asked_again(self, times: int) -> None:
        """Each client has had so many answers since this was called."""
        enough = [done + times for done in self.done]
        eventually(lambda: all(map(ge, self.done, enough)) or self.failed)


def test_a_rollout_of_two_replicas_fails_no_request(tmp_path: Path) -> None:
    clients = Clients(4)
    asking = [threading.Thread(target=clients.run, args=(number,)) for number in range(4)]
    with contextlib.ExitStack() as replicas:
        old = [replicas.enter_context(replica(tmp_path, "20s")) for _ in range(2)]
        clients.endpoints = list(old)
        for thread in asking:
            thread.start()
        try:
            for leaving in old:
                fresh = replicas.enter_context(replica(tmp_path, "20s"))
                clients.endpoints = [*clients.endpoints, fresh]
                leaving.process.send_signal(signal.SIGTERM)
                eventually(lambda leaving=leaving: leaving.status("/readyz") == 503)
                # The endpoints of a Service follow only after a while.
                clients.each_has_asked_again(20)
                clients.endpoints = [one for one in clients.endpoints if one is not leaving]
                # Nobody has chosen it and not asked it yet, or keeps a connection to it.
                clients.each_has_asked_again(2)
                leaving.process.send_signal(signal.SIGTERM)
                assert leaving.end_code() == 0
        finally:
            clients.over.set()
            for thread in asking:
                thread.join()
    assert clients.failed == []
