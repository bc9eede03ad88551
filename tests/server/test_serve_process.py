"""``kubextend serve`` as a process: signals, drain, the health port, and rollouts."""

import ctypes
import fcntl
import json
import resource
import signal
import socket
import struct
import sys
import termios
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.doors.extender import (
    HOLDING,
    NODES,
    PATIENT_S,
    Extender,
    names_of,
    node,
    profile,
    request,
)
from tests.doors.sockets import (
    Connection,
    Replica,
    eventually,
    free_port,
    is_listening,
    posted,
    read_by_now,
    replica,
    serve,
)
from tests.doors.wire import Binder

from kubextend.cli import main
from kubextend.testing import Bindings

pytestmark = pytest.mark.slow

LARGE = request("filter", nodes=[*NODES, node("big", 40_000_000)])
SMALL = request("filter")
TOKEN = "s3cret-and-long-enough"
# Of the Linux kernel; Python has no name for it.
SO_ATTACH_FILTER = 26


def begun(served: Replica, stack: ExitStack, path: str = "/filter") -> Connection:
    """Begin a request that is in flight until the rest of its body comes."""
    connection = stack.enter_context(Connection(served.url))
    connection.send(posted(path, LARGE)[: 1000 - len(LARGE)])
    read_by_now(served.url)
    return connection


def ends_well(connection: Connection) -> None:
    """Send the rest of a request, and expect its answer and the end of the connection."""
    connection.send(LARGE[1000:])
    answer = connection.answer()
    assert (answer.status, answer.headers["connection"]) == (200, "close")
    assert connection.is_closed()


def test_a_signal_ends_it_with_zero_and_a_hangup_does_not(tmp_path: Path) -> None:
    with replica(tmp_path) as served, Connection(served.url) as connection:
        for _ in range(3):
            served.signal(signal.SIGHUP)
            assert connection.post("/filter", SMALL).status == 200
        served.signal(signal.SIGTERM)
        assert "SIGHUP: the certificates are read again" in served.end()


NEVER_STARTS = """
class NeverStarts:
    name = "NeverStarts"

    def start(self):
        while True:
            pass

    def filter(self, state, pod, node):
        return None
"""


def test_while_a_plugin_does_not_start_it_is_not_ready_and_a_signal_ends_it(tmp_path: Path) -> None:
    (tmp_path / "never_starts.py").write_text(NEVER_STARTS)
    sections: dict[str, Any] = {"outOfTree": ["never_starts:NeverStarts"]}
    sections["profiles"] = [profile(filter=["NeverStarts"])]
    with replica(tmp_path, **sections) as served, Connection(served.url) as connection:
        eventually(lambda: "has not started yet" in connection.get("/readyz").text)
        assert connection.get("/livez").status == 200
        why = "kubextend is not ready: not started yet: NeverStarts"
        assert why in connection.post("/filter", SMALL).error
        served.signal(signal.SIGTERM)
        served.end()


def test_as_many_files_may_be_open_as_the_system_allows(tmp_path: Path) -> None:
    """Each pod that Permit holds needs a connection."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    try:
        with replica(tmp_path) as served:
            now, _ = resource.prlimit(served.process.pid, resource.RLIMIT_NOFILE)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert now == (min(hard, 65_536) if hard >= 0 else 65_536)


def test_a_request_in_flight_is_answered_before_the_end(tmp_path: Path) -> None:
    """The health port answers until then."""
    server = {"path": "/v1", "healthPort": free_port()}
    with replica(tmp_path, server=server) as served, ExitStack() as stack:
        assert served.url.endswith("/v1")
        early = begun(served, stack, "/v1/filter")
        served.signal(signal.SIGTERM)
        eventually(lambda: not is_listening(served.url))
        with Connection(f"http://127.0.0.1:{server['healthPort']}") as probe:
            answer = probe.get("/readyz")
        assert (answer.status, "[-]shutdown failed" in answer.text) == (503, True)
        assert served.process.poll() is None
        ends_well(early)
        served.end()


def test_a_second_signal_does_not_wait_for_a_client_that_never_ends(tmp_path: Path) -> None:
    with replica(tmp_path) as served, ExitStack() as stack:
        begun(served, stack)
        served.signal(signal.SIGINT)
        eventually(lambda: not is_listening(served.url))
        assert served.process.poll() is None
        served.signal(signal.SIGINT)
        served.end()


def test_a_server_that_is_told_twice_hangs_up_though_a_binding_is_under_way() -> None:
    binder = Binder()
    binder.gate.clear()
    extender = Extender(binder=binder, profiles=[profile(filter=["NeedsRdma"])])
    with serve(extender) as served, Connection(served.url) as connection:
        connection.post("/filter", SMALL)
        connection.send(posted("/bind", request("bind")))
        eventually(lambda: binder.began)
        served.stop()
        served.stop()
        try:
            assert connection.is_closed()
        finally:
            binder.gate.set()


def test_waiting_pods_are_kept_off_the_health_port(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(TOKEN)
    server = {"waitingPods": {"tokenFile": str(tmp_path / "token")}, "healthPort": free_port()}
    bearer = {"Authorization": f"Bearer {TOKEN}"}
    with replica(tmp_path, server=server) as served:
        with Connection(served.url) as connection:
            assert connection.get("/waiting-pods", **bearer).json == {"items": []}
        with Connection(f"http://127.0.0.1:{server['healthPort']}") as probe:
            for path in ("/waiting-pods", "/waiting-pods/u/allow", "/filter"):
                assert probe.get(path, **bearer).status == 404
            for path in ("/livez", "/readyz", "/metrics"):
                assert probe.get(path).status == 200


def test_the_doctor_finds_what_is_served_without_a_request_that_is_refused(tmp_path: Path) -> None:
    with replica(tmp_path) as served, Connection(served.url) as connection:
        (file,) = tmp_path.glob("*.yaml")
        asked = CliRunner().invoke(main, ["doctor", "--config", str(file), "--output", "json"])
        found = json.loads(asked.stdout)
        assert "kubextend_requests_refused_total{" not in connection.get("/metrics").text
    about_server = [each for each in found if each["check"].startswith("server-")]
    assert about_server
    assert {each["verdict"] for each in about_server} == {"ok"}


def test_it_is_not_ready_at_once_and_serves_on_until_it_is_told_again(tmp_path: Path) -> None:
    with replica(tmp_path, server={"drainDelay": "20s"}) as served, ExitStack() as stack:
        kept, early = stack.enter_context(Connection(served.url)), begun(served, stack)
        assert kept.get("/readyz").status == 200
        served.signal(signal.SIGTERM)
        eventually(lambda: served.status("/readyz") != 200)
        assert served.status("/livez") == 200
        # A client that stays is served, and told to go elsewhere.
        answer = kept.post("/filter", SMALL)
        assert (answer.status, answer.headers["connection"]) == (200, "close")
        assert kept.is_closed()
        with Connection(served.url) as late:
            assert late.post("/filter", SMALL).status == 200
        assert served.process.poll() is None
        served.signal(signal.SIGTERM)
        eventually(lambda: not is_listening(served.url))
        assert served.process.poll() is None
        ends_well(early)
        served.end()


def test_it_ends_by_itself_when_the_delay_is_over_and_not_before(tmp_path: Path) -> None:
    with replica(tmp_path, server={"drainDelay": "400ms"}) as served, ExitStack() as stack:
        early = begun(served, stack)
        began_s = time.monotonic()
        served.signal(signal.SIGTERM)
        eventually(lambda: not is_listening(served.url))
        assert time.monotonic() - began_s >= 0.4
        ends_well(early)
        served.end()


@pytest.mark.parametrize("delay", ["0s", "500ms"])
def test_no_request_of_busy_clients_is_lost_when_one_of_two_replicas_ends(
    tmp_path: Path, delay: str
) -> None:
    """A client that cannot connect, or is told to go, asks the other replica, as by a Service."""
    ended, faults, answered = threading.Event(), list[Exception](), threading.Semaphore(0)
    with ExitStack() as stack:
        replicas = [
            stack.enter_context(replica(tmp_path, server={"drainDelay": delay})) for _ in range(2)
        ]

        def ask(number: int) -> None:
            while not ended.is_set():
                number += 1
                try:
                    connection = Connection(replicas[number % 2].url)
                except ConnectionRefusedError:
                    continue
                try:
                    with connection:
                        while not ended.is_set():
                            answer = connection.post("/filter", SMALL)
                            assert answer.status == 200
                            answered.release()
                            if answer.headers.get("connection") == "close":
                                break
                except Exception as fault:  # noqa: BLE001  the test tells it
                    faults.append(fault)

        clients = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
        for client in clients:
            client.start()
        for _ in range(20 * len(clients)):
            assert answered.acquire(timeout=PATIENT_S)
        replicas[0].signal(signal.SIGTERM)
        replicas[0].end()
        ended.set()
        for client in clients:
            client.join()
    assert faults == []


def test_nobody_at_a_terminal_waits_for_the_delay(tmp_path: Path) -> None:
    with replica(tmp_path, server={"drainDelay": "20s"}) as served:
        began_s = time.monotonic()
        served.signal(signal.SIGINT)
        served.end()
        assert time.monotonic() - began_s < 20


def test_a_replica_that_does_not_lead_sends_its_clients_away_with_its_next_answer() -> None:
    leads = threading.Event()
    leads.set()
    with serve(Extender(), sends_away=lambda: not leads.is_set()) as served:
        with Connection(served.url) as kept:
            assert "connection" not in kept.post("/filter", SMALL).headers
            leads.clear()
            assert kept.post("/filter", SMALL).headers["connection"] == "close"
            assert kept.is_closed()
        leads.set()
        with Connection(served.url) as later:
            assert "connection" not in later.post("/filter", SMALL).headers


def let_no_packet_in(connection: Connection) -> None:
    """Make the kernel drop what comes in, so that the machine of the client seems to be dead."""

    def unacknowledged() -> bool:
        answer = fcntl.ioctl(connection.socket, termios.TIOCOUTQ, bytes(4))
        return int.from_bytes(answer, sys.byteorder) > 0

    # A client sends again what nobody acknowledged, as no dead machine does.
    eventually(lambda: not unacknowledged())
    # One instruction of a packet filter: return 0, the number of bytes to keep.
    instruction = ctypes.create_string_buffer(struct.pack("HBBI", 0x06, 0, 0, 0))
    program = struct.pack("HL", 1, ctypes.addressof(instruction))
    connection.socket.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, program)


def test_a_pod_is_no_longer_held_for_a_kube_scheduler_whose_machine_died() -> None:
    """The dead kube-scheduler's connection stays open: no packet says that it is of no use."""
    bound = Bindings()
    extender = Extender(binder=bound, profiles=[HOLDING])
    with serve(extender) as served, Connection(served.url) as connection:
        assert names_of(connection.post("/filter", SMALL)) == ["good"]
        connection.send(posted("/bind", request("bind")))
        eventually(extender.waiting)
        let_no_packet_in(connection)
        # Another kube-scheduler may lead 15 s after the last word of this one.
        began_s = time.monotonic()
        eventually(lambda: not extender.waiting())
        assert time.monotonic() - began_s < 30
    assert bound.nodes == {}
