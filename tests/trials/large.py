"""Large requests: many at once, 100,000 names, and 15,000 whole nodes."""

import http.client
import json
import os
import socket
import statistics
import time
from argparse import Namespace
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

from .clients import PATIENT_S, Client, Tally, elsewhere, filter_body, percentile, send_filter
from .harness import Report, trial
from .served import MB, Served, scripted_api, serving

RDMA: Final = "node.kubernetes.io/rdma-enabled"
_PROGRAMS: Final = 2
_PAUSE_S: Final = 0.5
_GIVES_UP_S: Final = 600.0
_LEAST_PRIORITY: Final = 19
_IN_FLIGHT: Final = 1 << 30
_WHOLE_NODES: Final = {"nodeCacheCapable": False, "httpTimeout": "30s"}


def fitting(count: int) -> list[str]:
    """Return the names of the nodes that have the label that the pod needs: two of five."""
    return [f"node-{number}" for number in range(count) if number % 5 < 2]


def body(count: int) -> bytes:
    """Return a request about nodes of 16 KB each."""
    images = [{"names": [f"registry.example/{at:03}@sha256:{at:064}"] * 2} for at in range(80)]
    names, fit = (f"node-{number}" for number in range(count)), {*fitting(count)}
    nodes = [
        {
            "metadata": {"name": name, "labels": {RDMA: str(name in fit).lower()}},
            "status": {"images": images},
        }
        for name in names
    ]
    return filter_body(nodes, labels={"high-comm": "true"})


def kept(answer: bytes) -> list[str]:
    """Return the names of the nodes that an answer about whole nodes keeps."""
    return [node["metadata"]["name"] for node in json.loads(answer)["Nodes"]["items"]]


class Burst:
    """Sends one request from many threads at once until each has its answer."""

    def __init__(self, port: int, request: bytes, expected: bytes) -> None:
        self._port = port
        self._request = request
        self._expected = expected
        self.found = Tally()

    def send(self, _: int) -> None:
        """Send the request until it is answered with another status than 503."""
        deadline = time.monotonic() + _GIVES_UP_S
        while time.monotonic() < deadline:
            status, answer = self._asked()
            if status == http.client.OK and answer == self._expected:
                self.found.note("right")
                return
            if status == http.client.OK and not json.loads(answer)["Error"]:
                self.found.note("wrong")
                return
            # kube-scheduler tries again after an Error, such as that it took too long, too.
            self.found.note("refused" if status == http.client.SERVICE_UNAVAILABLE else "errors")
            time.sleep(_PAUSE_S)

    def _asked(self) -> tuple[int, bytes]:
        """Send the request once, and return the answer; 503 where the server hung up."""
        try:
            with socket.create_connection(("127.0.0.1", self._port), timeout=PATIENT_S) as line:
                send_filter(line, self._request)
                answer = http.client.HTTPResponse(line)
                answer.begin()
                return answer.status, answer.read()
        except (ConnectionError, http.client.RemoteDisconnected):
            return http.client.SERVICE_UNAVAILABLE, b""


def send_at_once(port: int, nodes: int, count: int, parent: Connection) -> None:
    """Be one of the programs that send at once; tell the parent what came of the requests."""
    # On a cluster, kube-scheduler has processors of its own.
    os.nice(_LEAST_PRIORITY)
    request = body(nodes)
    expected = Client(port).post("/filter", request)[1]
    if kept(expected) != fitting(nodes):
        raise AssertionError(kept(expected)[:10])
    sending = Burst(port, request, expected)
    parent.send("is ready")
    parent.recv()
    with ThreadPoolExecutor(count) as clients:
        list(clients.map(sending.send, range(count)))
    parent.send(Counter(sending.found))


@trial(requests=(64, 8), nodes=(5000, 200))
def burst(options: Namespace, report: Report) -> None:
    """Two programs send filter requests of 82 MB at once, while /livez is timed."""
    config = {"server": {"maxInFlightBytes": _IN_FLIGHT}, "extender": _WHOLE_NODES}
    given = (options.nodes, options.requests // _PROGRAMS)
    with serving(config) as server, ExitStack() as stack:
        programs = [
            stack.enter_context(elsewhere(send_at_once, server.port, *given))
            for _ in range(_PROGRAMS)
        ]
        server.forget_worst()
        for program in programs:
            program.send("go")
        start = time.monotonic()
        livez_ms, waited_ms = _livez_until(server, programs)
        took_s, worst = time.monotonic() - start, server.worst_bytes()
        found = sum((program.recv() for program in programs), Counter())
    report.tell(requests=options.requests, wrong=found["wrong"], took_s=took_s)
    report.tell(lost=options.requests - found["right"] - found["wrong"])
    report.tell(refused_at_first=found["refused"], errors_at_first=found["errors"])
    report.tell(livez_p50_ms=percentile(livez_ms, 50), livez_worst_ms=max(livez_ms))
    report.tell(waited_for_a_processor_ms=waited_ms[livez_ms.index(max(livez_ms))])
    report.tell(memory_mb=worst / MB, memory_of_limit=worst / _IN_FLIGHT)


def _livez_until(server: Served, programs: list[Connection]) -> tuple[list[float], list[float]]:
    """Ask for /livez until all programs have said something.

    Returns: the milliseconds until each answer, and for how many of these the main thread of the
        server could run and had no processor.
    """
    client = Client(server.health_port)
    took_ms: list[float] = []
    waited_ms: list[float] = []
    while not (took_ms and all(program.poll() for program in programs)):
        before_ms, start = _waited_ms(server.program.pid), time.perf_counter()
        if client.get("/livez")[0] != http.client.OK:
            raise AssertionError
        took_ms.append((time.perf_counter() - start) * 1e3)
        waited_ms.append(_waited_ms(server.program.pid) - before_ms)
        time.sleep(0.005)
    return took_ms, waited_ms


def _waited_ms(pid: int) -> float:
    # Source: kernel documentation, scheduler/sched-stats, /proc/PID/schedstat
    return int(Path(f"/proc/{pid}/task/{pid}/schedstat").read_text().split()[1]) / 1e6


@trial(names=(100_000, 2000), nodes=(15_000, 200), times=(10, 2))
def large_requests(options: Namespace, report: Report) -> None:
    """Requests bring 100,000 names, and 15,000 whole nodes."""
    wrong = _names(options.names, options.times, report)
    wrong += _whole(options.nodes, options.times, report)
    report.tell(wrong=wrong)


def _names(count: int, times: int, report: Report) -> int:
    """Send requests with many names, which are known; return how many answers were wrong."""
    asked = [f"node-{number}" for number in range(count)]
    pod: dict[str, Any] = {"metadata": {"name": "p", "uid": "u"}}
    request = json.dumps({"Pod": pod, "NodeNames": asked}).encode()
    took_ms, wrong = [], 0
    config = {"extender": {"nodeCacheCapable": True}}
    with scripted_api(asked) as api, serving(config, api) as server:
        server.until_nodes(count)
        client = Client(server.port)
        for _ in range(times):
            start = time.perf_counter()
            _, answer = client.post("/filter", request)
            took_ms.append((time.perf_counter() - start) * 1e3)
            wrong += json.loads(answer)["NodeNames"] != asked
    report.tell(names_p50_ms=statistics.median(took_ms))
    return wrong


def _whole(count: int, times: int, report: Report) -> int:
    """Send requests with many whole nodes; return how many answers were wrong."""
    request = body(count)
    wrong = 0
    with serving({"extender": _WHOLE_NODES}) as server:
        client = Client(server.port)
        server.forget_worst()
        for _ in range(times):
            wrong += kept(client.post("/filter", request)[1]) != fitting(count)
        worst = server.worst_bytes()
    report.tell(body_mb=len(request) / MB, memory_mb=worst / MB)
    report.tell(memory_over_bodies_mb=(worst - 3.2 * len(request)) / MB)
    return wrong
