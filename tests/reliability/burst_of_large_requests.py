"""Sends 64 filter requests with 5,000 whole nodes each at once, from two programs.

A client that is refused with 503 asks again, as kube-scheduler does. Meanwhile /livez is timed.
"""

import argparse
import http.client
import json
import multiprocessing
import os
import sys
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

from tests.e2e.workbench import Workbench, say
from tests.hostile.memory import MB, Served

from .clients import PATIENT_S, Client, is_readable, percentile, tell

RDMA: Final = "node.kubernetes.io/rdma-enabled"
IN_FLIGHT: Final = 1 << 30
NODES: Final = 5000
_PROGRAMS: Final = 2
_PIECE: Final = 1 << 20
_PAUSE_S: Final = 0.5
_GIVES_UP_S: Final = 600.0
_LEAST_PRIORITY: Final = 19
_CONFIG: Final[dict[str, Any]] = {
    "server": {"maxInFlightBytes": IN_FLIGHT},
    "extender": {"nodeCacheCapable": False, "httpTimeout": "30s"},
    "profiles": [{"plugins": {"filter": {"enabled": [{"name": "HighCommPodFilter"}]}}}],
}


def fits(number: int) -> bool:
    """Return whether the node of this number has the label that the pod needs."""
    return number % 5 < 2


def body(count: int = NODES) -> bytes:
    """Return a request about nodes of 16 KB each, two of five with the label."""
    images = [{"names": [f"registry.example/{at:03}@sha256:{at:064}"] * 2} for at in range(80)]
    nodes = [
        {
            "metadata": {"name": f"node-{number}", "labels": {RDMA: str(fits(number)).lower()}},
            "status": {"images": images},
        }
        for number in range(count)
    ]
    pod = {"metadata": {"name": "p", "uid": "u", "labels": {"high-comm": "true"}}}
    return json.dumps({"Pod": pod, "Nodes": {"items": nodes}, "NodeNames": None}).encode()


class Burst:
    """Sends one request from many threads at once until each has its answer."""

    def __init__(self, port: int, request: bytes, expected: bytes) -> None:
        self._port = port
        self._request = request
        self._expected = expected
        self._lock = threading.Lock()
        self.found: Counter[str] = Counter()

    def send(self, _: int) -> None:
        """Send the request until it is answered with another status than 503."""
        deadline = time.monotonic() + _GIVES_UP_S
        while time.monotonic() < deadline:
            status, answer = self.asked()
            if status == http.client.OK and answer == self._expected:
                self._count("right")
                return
            if status == http.client.OK and not json.loads(answer)["Error"]:
                self._count("wrong")
                return
            # kube-scheduler tries again after an Error, such as that it took too long, too.
            self._count("refused" if status == http.client.SERVICE_UNAVAILABLE else "errors")
            time.sleep(_PAUSE_S)

    def asked(self) -> tuple[int, bytes]:
        """Send the request once, and return the answer; 503 where the server hung up."""
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=PATIENT_S)
        try:
            connection.putrequest("POST", "/filter")
            connection.putheader("Content-Type", "application/json")
            connection.putheader("Content-Length", str(len(self._request)))
            connection.endheaders()
            for at in range(0, len(self._request), _PIECE):
                # A refusal may come before the body is sent, as kube-scheduler's client notices.
                if is_readable(connection.sock):
                    break
                connection.sock.sendall(self._request[at : at + _PIECE])
            answer = connection.getresponse()
            return answer.status, answer.read()
        except (ConnectionError, http.client.RemoteDisconnected):
            return http.client.SERVICE_UNAVAILABLE, b""
        finally:
            connection.close()

    def _count(self, what: str) -> None:
        with self._lock:
            self.found[what] += 1


def burst(port: int, count: int, parent: Connection) -> None:
    """Be one of the programs that send at once; tell the parent what came of the requests."""
    # On a cluster, kube-scheduler has processors of its own.
    os.nice(_LEAST_PRIORITY)
    request = body()
    expected = Burst(port, request, b"").asked()[1]
    names = [node["metadata"]["name"] for node in json.loads(expected)["Nodes"]["items"]]
    if names != [f"node-{number}" for number in range(NODES) if fits(number)]:
        raise AssertionError(names[:10])
    sending = Burst(port, request, expected)
    parent.send("is ready")
    parent.recv()
    with ThreadPoolExecutor(count) as clients:
        list(clients.map(sending.send, range(count)))
    parent.send(sending.found)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=64)
    options = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder, Workbench(Path(folder)) as bench:
        server = Served(bench, _CONFIG)
        pipes = []
        for _ in range(_PROGRAMS):
            mine, theirs = context.Pipe()
            share = options.requests // _PROGRAMS
            context.Process(target=burst, args=(server.port, share, theirs), daemon=True).start()
            theirs.close()
            mine.recv()
            pipes.append(mine)
        server.forget_worst()
        for pipe in pipes:
            pipe.send("go")
        start = time.monotonic()
        probes = _probes_until(server, pipes)
        took_s = time.monotonic() - start
        worst = server.worst_bytes()
        found = sum((pipe.recv() for pipe in pipes), Counter())
    say(f"answers: {dict(found)}")
    tell(
        {
            "requests": options.requests,
            "refused_at_first": found["refused"],
            "lost": options.requests - found["right"] - found["wrong"],
            "wrong": found["wrong"],
            "took_s": took_s,
            "errors_at_first": found["errors"],
            "livez_p50_ms": percentile([probe.took_ms for probe in probes], 50),
            "livez_worst_ms": max(probe.took_ms for probe in probes),
            "waited_for_a_processor_ms": max(probes, key=lambda probe: probe.took_ms).waited_ms,
            "loop_busy_worst_ms": max(probe.busy_ms for probe in probes),
            "memory_mb": worst / MB,
            "memory_of_limit": worst / IN_FLIGHT,
        }
    )
    return 0


@dataclass(frozen=True)
class Probe:
    """How long an answer to /livez took, and what the event loop's thread did meanwhile, in ms.

    Attributes:
        took_ms: the time until the answer.
        busy_ms: the processor time of the thread.
        waited_ms: the time for which the thread could run and had no processor.
    """

    took_ms: float
    busy_ms: float
    waited_ms: float


def _probes_until(server: Served, pipes: list[Connection]) -> list[Probe]:
    """Ask for /livez until all programs have said something."""
    client = Client(server.health_port)
    probes = []
    while not all(pipe.poll() for pipe in pipes):
        before, start = _loop_ms(server.program.pid), time.perf_counter()
        if client.get("/livez")[0] != http.client.OK:
            raise AssertionError
        took_ms = (time.perf_counter() - start) * 1e3
        after = _loop_ms(server.program.pid)
        probes.append(Probe(took_ms, after[0] - before[0], after[1] - before[1]))
        time.sleep(0.005)
    return probes


def _loop_ms(pid: int) -> tuple[float, float]:
    """Return how long the main thread of a process has run, and waited for a processor."""
    # Source: kernel documentation, scheduler/sched-stats, /proc/PID/schedstat
    ran_ns, waited_ns, _ = Path(f"/proc/{pid}/task/{pid}/schedstat").read_text().split()
    return int(ran_ns) / 1e6, int(waited_ns) / 1e6


if __name__ == "__main__":
    sys.exit(main())
