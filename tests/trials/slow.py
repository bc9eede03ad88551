"""Clients that are slow or silent, while another client is timed before, meanwhile and after."""

import contextlib
import http.client
import selectors
import socket
import threading
import time
from argparse import Namespace
from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from statistics import mean
from typing import Any, Final

from .clients import (
    HEAD,
    PATIENT_S,
    Client,
    Tally,
    Times,
    descriptors,
    elsewhere,
    filter_body,
    send_filter,
    small_nodes,
    timed,
)
from .harness import Report, trial
from .served import MB, Served, serving

_WARM_S: Final = 3.0
_BODY: Final = HEAD + b"Content-Length: 100000\r\n\r\n"
# Slow clients send in this many groups, one after the other within each second.
_GROUPS: Final = 50
_METRICS_READERS: Final = 8
# How many of those that were hung up on connect again in a second.
_AGAIN_A_SECOND: Final = 200
_IN_FLIGHT: Final = 1 << 30


def _meanwhile(
    report: Report,
    server: Served,
    measure: Callable[[float], Times],
    seconds: float,
    work: Callable[..., None],
    *given: object,
) -> Any:
    """Measure a client before, while and after other clients do their work.

    Args:
        report: gets the figures of the client.
        server: the server.
        measure: times requests for some seconds.
        seconds: how long the others work; before and afterwards, half of that is measured.
        work: what the others do, as ``elsewhere`` has it, until something is sent to them.
        given: what the work gets.

    Returns: what the others say in the end.
    """
    measure(_WARM_S)
    before = measure(seconds / 2)
    with elsewhere(work, *given) as others:
        meanwhile = measure(seconds)
        open_files = descriptors(server.program.pid)
        others.send("enough")
        found = others.recv()
    after = measure(seconds / 2)
    report.say(f"p99 {before.p99_ms:.1f} ms, {meanwhile.p99_ms:.1f} ms, {after.p99_ms:.1f} ms")
    report.tell(requests=len(meanwhile.took_s), open_descriptors=open_files)
    report.tell(failed=before.failed + meanwhile.failed + after.failed)
    alone_ms = mean([before.p99_ms, after.p99_ms])
    report.tell(p99_ms=meanwhile.p99_ms, p99_ratio=meanwhile.p99_ms / alone_ms)
    return found


@dataclass
class Slow:
    """A slow client: its connection, and since when its deadline runs."""

    in_body: bool
    line: socket.socket = field(init=False)
    since: float = field(init=False)

    def connect(self, port: int) -> None:
        """Open the connection and send the first bytes."""
        self.line = socket.create_connection(("127.0.0.1", port), timeout=60.0)
        self.line.sendall(_BODY if self.in_body else HEAD + b"X-Slow: ")
        self.since = time.monotonic()
        self.line.setblocking(False)


class Trickle:
    """Slow clients that each send a byte a second and connect again when they are hung up on.

    Attributes:
        closed: the seconds after which clients were hung up on, in a head and in a body.
    """

    def __init__(self, port: int, count: int) -> None:
        self._port = port
        self._waiting = selectors.DefaultSelector()
        self._clients = [Slow(in_body=number % 2 == 1) for number in range(count)]
        self.closed: dict[bool, list[float]] = {False: [], True: []}
        for client in self._clients:
            self._connect(client)

    def second(self) -> None:
        """Send a byte of each client within a second."""
        for group in range(_GROUPS):
            end = time.monotonic() + 1 / _GROUPS
            for client in self._clients[group::_GROUPS]:
                # What has been hung up on is looked at below.
                with contextlib.suppress(OSError):
                    client.line.send(b"x")
            while (left_s := end - time.monotonic()) > 0:
                for key, _ in self._waiting.select(left_s):
                    self._again(key.data)

    def _again(self, client: Slow) -> None:
        """Note when a client was hung up on, and let it connect again."""
        with contextlib.suppress(OSError):
            if client.line.recv(1 << 16):
                # The refusal comes before the end of the connection.
                return
        self.closed[client.in_body].append(time.monotonic() - client.since)
        self._waiting.unregister(client.line)
        client.line.close()
        self._connect(client)

    def _connect(self, client: Slow) -> None:
        client.connect(self._port)
        self._waiting.register(client.line, selectors.EVENT_READ, client)


def trickle(port: int, count: int, parent: Connection) -> None:
    """Be the slow clients until the parent says something; tell when each was hung up on."""
    slow = Trickle(port, count)
    parent.send("all are connected")
    while not parent.poll():
        slow.second()
    parent.send(slow.closed)


@trial(clients=(1000, 100), seconds=(45.0, 12.0))
def slow_clients(options: Namespace, report: Report) -> None:
    """Clients send a byte a second, half of them in a head and half in a body."""
    with serving({}) as server:
        client, body = Client(server.port), filter_body(small_nodes())
        closed = _meanwhile(
            report,
            server,
            lambda for_s: timed(client, "/filter", body, for_s),
            options.seconds,
            trickle,
            *(server.port, options.clients),
        )
    report.say(f"hung up on: {len(closed[False])} in a head, {len(closed[True])} in a body")
    heads, bodies = (max(closed[in_body], default=0.0) for in_body in (False, True))
    report.tell(slow_clients=options.clients, head_closed_s=heads, body_closed_s=bodies)


class Idlers:
    """Connections that say nothing; those that are closed are opened again, at a bounded rate."""

    def __init__(self, ports: dict[int, int]) -> None:
        self._waiting = selectors.DefaultSelector()
        self._due: deque[int] = deque()
        self.hung_up = 0
        for port, count in ports.items():
            for _ in range(count):
                self._open(port)

    def second(self) -> None:
        """Note for a second who is hung up on, and open some of these connections again."""
        end = time.monotonic() + 1.0
        while (left_s := end - time.monotonic()) > 0:
            for key, _ in self._waiting.select(left_s):
                self._waiting.unregister(key.fileobj)
                key.fileobj.close()
                self._due.append(key.data)
                self.hung_up += 1
        for _ in range(min(_AGAIN_A_SECOND, len(self._due))):
            self._open(self._due.popleft())

    def _open(self, port: int) -> None:
        try:
            line = socket.create_connection(("127.0.0.1", port), timeout=5.0)
        except OSError:
            self._due.append(port)
        else:
            self._waiting.register(line, selectors.EVENT_READ, port)


def idle(ports: dict[int, int], metrics_port: int, parent: Connection) -> None:
    """Be idle, and read metrics, until the parent says something; tell how many were closed."""
    over = threading.Event()

    def read_metrics() -> None:
        client = Client(metrics_port)
        while not over.is_set():
            # Where all places are taken, the reader is one of those that are hung up on.
            with contextlib.suppress(OSError, http.client.HTTPException):
                client.get("/metrics")

    idlers = Idlers(ports)
    with ThreadPoolExecutor(_METRICS_READERS) as readers:
        for _ in range(_METRICS_READERS):
            readers.submit(read_metrics)
        parent.send("all are there")
        while not parent.poll():
            idlers.second()
        over.set()
    parent.send(idlers.hung_up)


@trial(verbs=(6000, 500), health=(500, 100), seconds=(40.0, 4.0))
def idle_connections(options: Namespace, report: Report) -> None:
    """More connections say nothing than each port takes, and others read /metrics all the time."""
    with serving({}) as server:
        kept, body = Client(server.port), filter_body(small_nodes())

        def measure(for_s: float) -> Times:
            """Time a client that keeps its connection, and one that opens a new one each time."""
            times = timed(kept, "/filter", body, for_s / 2)
            end = time.monotonic() + for_s / 2
            while time.monotonic() < end:
                client = Client(server.port)
                more = timed(client, "/filter", body, 0.0)
                client.close()
                times = Times(times.took_s + more.took_s, times.failed + more.failed)
            return times

        ports = {server.port: options.verbs, server.health_port: options.health}
        given = (ports, server.health_port)
        hung_up = _meanwhile(report, server, measure, options.seconds, idle, *given)
    report.tell(idle_connections=options.verbs + options.health, hung_up_on=hung_up)


class SlowReaders:
    """Clients that send a request of 40 MB and read the answer slowly.

    A client that is refused asks again for some seconds; none begins after these.

    Attributes:
        found: how many answers were begun, and how many requests were refused.
    """

    def __init__(self, port: int, nodes: int, for_s: float) -> None:
        self._port = port
        self._end = time.monotonic() + for_s
        images = {"status": {"images": [{"names": ["x" * 160]}] * 90}}
        self._body = filter_body([each | images for each in small_nodes(nodes)])
        self._over = threading.Event()
        self.found = Tally()

    def read_slowly(self) -> None:
        """Ask until an answer comes, and read a kilobyte a second of it until all is over."""
        while time.monotonic() < self._end:
            with contextlib.suppress(OSError), self._connected() as line:
                send_filter(line, self._body)
                if line.recv(12) == b"HTTP/1.1 200":
                    self.found.note("answers")
                    while line.recv(1024) and not self._over.wait(1.0):
                        pass
                    return
            self.found.note("refused")
            time.sleep(1.0)

    def end(self) -> None:
        """Let all clients leave."""
        self._over.set()

    def _connected(self) -> socket.socket:
        line = socket.socket()
        line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        line.settimeout(PATIENT_S)
        line.connect(("127.0.0.1", self._port))
        return line


def read_slowly(port: int, nodes: int, count: int, for_s: float, parent: Connection) -> None:
    """Be all of the slow readers, and tell the parent what came of them."""
    slow = SlowReaders(port, nodes, for_s)
    parent.send("the request is made")
    with ThreadPoolExecutor(count) as threads:
        for _ in range(count):
            threads.submit(slow.read_slowly)
        parent.recv()
        slow.end()
    parent.send(Counter(slow.found))


@trial(clients=(100, 5), nodes=(2500, 100), seconds=(60.0, 2.0))
def slow_readers(options: Namespace, report: Report) -> None:
    """Clients read an answer of 40 MB at a kilobyte a second.

    No slow client begins after a minute: kubextend then has 30 s until the last is cut off.
    """
    config = {
        "server": {"maxInFlightBytes": _IN_FLIGHT},
        "extender": {"nodeCacheCapable": False, "httpTimeout": "30s"},
    }
    small = filter_body(small_nodes(1))
    given = (options.nodes, options.clients, options.seconds)
    with serving(config) as server, elsewhere(read_slowly, server.port, *given) as readers:
        server.forget_worst()
        good, failed, requests, freed_after_s = Client(server.port), 0, 0, 0.0
        end = time.monotonic() + options.seconds
        while time.monotonic() < end or server.count("kubextend_requests_in_flight_bytes"):
            failed += good.post("/filter", small)[0] != http.client.OK
            requests += 1
            time.sleep(0.05)
            freed_after_s = time.monotonic() - end
        readers.send("enough")
        found, worst = readers.recv(), server.worst_bytes()
    report.tell(slow_readers=options.clients, requests_of_others=requests, failed=failed)
    report.tell(answers_begun=found["answers"], refused_at_first=found["refused"])
    report.tell(freed_after_s=freed_after_s)
    report.tell(memory_mb=worst / MB, memory_of_limit=worst / _IN_FLIGHT)
