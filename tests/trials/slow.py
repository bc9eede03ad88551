"""Clients that are slow or silent, while another client is timed before, meanwhile and after."""

import contextlib
import http.client
import random
import selectors
import socket
import threading
import time
from argparse import Namespace
from collections import Counter, defaultdict, deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
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
_IN_HEAD: Final = HEAD + b"X-Slow: "
_IN_BODY: Final = HEAD + b"Content-Length: 100000\r\n\r\n"
# The clients of a crowd send in this many groups, one after the other within each second.
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
class Member:
    """A client of a crowd: what it sends at first, and each second; since when it is connected."""

    port: int
    first: bytes = b""
    beat: bytes = b""
    line: socket.socket = field(default_factory=socket.socket)
    since: float = 0.0


class Crowd:
    """Clients that connect again after they are hung up on, at most ``again`` of them a second.

    Attributes:
        closed: by what clients sent at first, the seconds after which they were hung up on.
    """

    def __init__(self, members: list[Member], again: int) -> None:
        self._members = members
        self._again = again
        self._waiting = selectors.DefaultSelector()
        self._due = deque(members)
        self.closed: defaultdict[bytes, list[float]] = defaultdict(list)
        self._connect(len(members))

    def second(self) -> None:
        """Let each client send its bytes within a second, and connect some again."""
        for group in range(_GROUPS):
            end = time.monotonic() + 1 / _GROUPS
            for member in self._members[group::_GROUPS]:
                # What has been hung up on is looked at below.
                with contextlib.suppress(OSError):
                    member.line.send(member.beat)
            while (left_s := end - time.monotonic()) > 0:
                for key, _ in self._waiting.select(left_s):
                    self._hear(key.data)
        self._connect(min(self._again, len(self._due)))

    def _hear(self, member: Member) -> None:
        with contextlib.suppress(OSError):
            if member.line.recv(1 << 16):
                # The refusal comes before the end of the connection.
                return
        self.closed[member.first].append(time.monotonic() - member.since)
        self._waiting.unregister(member.line)
        member.line.close()
        self._due.append(member)

    def _connect(self, count: int) -> None:
        for _ in range(count):
            member = self._due.popleft()
            try:
                member.line = socket.create_connection(("127.0.0.1", member.port), timeout=60.0)
                member.line.sendall(member.first)
            except OSError:
                self._due.append(member)
            else:
                member.since = time.monotonic()
                member.line.setblocking(False)
                self._waiting.register(member.line, selectors.EVENT_READ, member)


def crowd(kinds: list[tuple[int, int, bytes, bytes]], metrics: int, parent: Connection) -> None:
    """Be a crowd until the parent says something; tell when clients were hung up on.

    Args:
        kinds: how many clients, their port, and what they send at first and each second.
        metrics: a port on which /metrics is read all the time; 0: none.
        parent: the pipe to the parent.
    """
    over = threading.Event()

    def read_metrics() -> None:
        client = Client(metrics)
        while not over.is_set():
            # Where all places are taken, the reader is one of those that are hung up on.
            with contextlib.suppress(OSError, http.client.HTTPException):
                client.get("/metrics")

    members = [Member(*said) for count, *said in kinds for _ in range(count)]
    random.Random(0).shuffle(members)
    slow = Crowd(members, _AGAIN_A_SECOND)
    with ThreadPoolExecutor(_METRICS_READERS) as readers:
        for _ in range(_METRICS_READERS if metrics else 0):
            readers.submit(read_metrics)
        parent.send("all are connected")
        while not parent.poll():
            slow.second()
        over.set()
    parent.send(dict(slow.closed))


@trial(clients=(1000, 100), seconds=(45.0, 12.0))
def slow_clients(options: Namespace, report: Report) -> None:
    """Clients send a byte a second, half of them in a head and half in a body."""
    with serving({}) as server:
        client, body = Client(server.port), filter_body(small_nodes())
        measure = partial(timed, client, "/filter", body)
        half = options.clients // 2
        kinds = [(half, server.port, first, b"x") for first in (_IN_HEAD, _IN_BODY)]
        closed = _meanwhile(report, server, measure, options.seconds, crowd, kinds, 0)
    report.say(f"hung up on: {[len(closed.get(each, [])) for each in (_IN_HEAD, _IN_BODY)]}")
    report.tell(slow_clients=2 * half)
    report.tell(head_closed_s=max(closed.get(_IN_HEAD, []), default=0.0))
    report.tell(body_closed_s=max(closed.get(_IN_BODY, []), default=0.0))


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
        kinds = [(count, port, b"", b"") for port, count in ports.items()]
        given = (kinds, server.health_port)
        closed = _meanwhile(report, server, measure, options.seconds, crowd, *given)
    report.tell(idle_connections=options.verbs + options.health)
    report.tell(hung_up_on=sum(map(len, closed.values())))


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
