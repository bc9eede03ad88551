"""Connections to a server under test, and the figures that its answers and its process give."""

import contextlib
import http.client
import json
import multiprocessing
import os
import select
import socket
import ssl
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

PATIENT_S: Final = 120.0
HEAD: Final = b"POST /filter HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
_PIECE: Final = 1 << 20
_JSON: Final = {"Content-Type": "application/json"}


class Client:
    """A connection that is kept between requests, and opened again after an error.

    As Go's client does, a request goes over a new connection where the server has closed the old.

    Args:
        port: the port on loopback.
        tls: what the client trusts; None: plain HTTP.
    """

    def __init__(self, port: int, tls: ssl.SSLContext | None = None) -> None:
        host = "127.0.0.1"
        self._connection = (
            http.client.HTTPConnection(host, port, timeout=PATIENT_S)
            if tls is None
            else http.client.HTTPSConnection(host, port, timeout=PATIENT_S, context=tls)
        )

    @property
    def is_open(self) -> bool:
        """Whether the last answer left the connection open."""
        return self._connection.sock is not None

    @property
    def certificate(self) -> bytes | None:
        """The certificate of the server in DER, while the connection is open."""
        return self._connection.sock.getpeercert(binary_form=True)

    def post(self, path: str, body: bytes) -> tuple[int, bytes]:
        """Send a body, and return the status and the body of the answer.

        Raises: OSError, http.client.HTTPException: the server gave no whole answer.
        """
        return self._asked("POST", path, body)

    def get(self, path: str) -> tuple[int, bytes]:
        """Return the status and the body of what is at a path; raises as ``post`` does."""
        return self._asked("GET", path, None)

    def close(self) -> None:
        self._connection.close()

    def _asked(self, method: str, path: str, body: bytes | None) -> tuple[int, bytes]:
        line = self._connection
        try:
            if line.sock and is_readable(line.sock):
                # The server has hung up: no answer is awaited.
                line.close()
            if line.sock is None:
                line.connect()
                line.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            line.request(method, path, body, _JSON)
            answer = line.getresponse()
            return answer.status, answer.read()
        except BaseException:
            line.close()
            raise


class ThreadClients(threading.local):
    """A connection to a port for each thread that asks for one."""

    def __init__(self, port: int) -> None:
        self.client = Client(port)


class Tally(Counter[str]):
    """Counts events of many threads."""

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()

    def note(self, what: str, happened: bool = True) -> None:
        with self._lock:
            self[what] += happened


def is_readable(connection: socket.socket) -> bool:
    """Return whether bytes, or the end of the connection, can be read now."""
    looking = select.poll()
    looking.register(connection, select.POLLIN)
    return bool(looking.poll(0))


def send_filter(line: socket.socket, body: bytes) -> None:
    """Send a filter request; stop where an answer comes before the whole body is sent.

    A refusal may come so early, as kube-scheduler's client notices.
    """
    line.sendall(HEAD + b"Content-Length: %d\r\n\r\n" % len(body))
    for at in range(0, len(body), _PIECE):
        if is_readable(line):
            return
        line.sendall(body[at : at + _PIECE])


def filter_body(nodes: Sequence[Mapping[str, Any]], scheduler: str = "", **metadata: Any) -> bytes:
    """Return a filter request about whole nodes, for a pod of this metadata and scheduler name."""
    pod: dict[str, Any] = {"metadata": {"name": "p", "uid": "u", **metadata}}
    if scheduler:
        pod["spec"] = {"schedulerName": scheduler}
    return json.dumps({"Pod": pod, "Nodes": {"items": nodes}, "NodeNames": None}).encode()


def small_nodes(count: int = 500) -> list[dict[str, Any]]:
    return [{"metadata": {"name": f"node-{at}", "labels": {"a": "b"}}} for at in range(count)]


@dataclass
class Times:
    """How long requests took, in seconds, and how many were not answered with 200."""

    took_s: list[float]
    failed: int = 0

    @property
    def p99_ms(self) -> float:
        return percentile(self.took_s, 99) * 1e3


def timed(client: Client, path: str, body: bytes, for_s: float) -> Times:
    """Send a request over and over for some seconds, but at least once."""
    times = Times([])
    end = time.perf_counter() + for_s
    while (start := time.perf_counter()) < end or not times.took_s:
        try:
            times.failed += client.post(path, body)[0] != http.HTTPStatus.OK
        except (OSError, http.client.HTTPException):
            times.failed += 1
        times.took_s.append(time.perf_counter() - start)
    return times


def percentile(values: Sequence[float], percent: float) -> float:
    """Return the value that this percentage of the values does not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


@contextlib.contextmanager
def elsewhere(work: Callable[..., object], *given: object) -> Iterator[Connection]:
    """Run work in a process of its own, and yield the other end of a pipe once the work is ready.

    ``work`` gets ``given`` and its end of the pipe, over which it first says that it is ready.
    """
    context = multiprocessing.get_context("spawn")
    mine, theirs = context.Pipe()
    process = context.Process(target=work, args=(*given, theirs), daemon=True)
    process.start()
    theirs.close()
    mine.recv()
    yield mine
    process.join()


def descriptors(pid: int) -> int:
    """Return how many files and connections a process has open."""
    return len(os.listdir(f"/proc/{pid}/fd"))  # noqa: PTH208  not a folder of files


def threads(pid: int) -> int:
    """Return how many threads a process has."""
    return int(_status(pid, "Threads"))


def memory_bytes(pid: int, field: str = "VmRSS") -> int:
    """Return the resident memory of a process in bytes, or another field of /proc/PID/status."""
    return int(_status(pid, field)) * 1024


def _status(pid: int, field: str) -> str:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(line for line in lines if line.startswith(f"{field}:")).split()[1]
