"""Connections to a server under test, and the figures that its answers and its process give."""

import http.client
import json
import select
import socket
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

HEAD: Final = b"POST /filter HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
_JSON: Final = {"Content-Type": "application/json"}


class Client:
    """A connection to a port on loopback, kept between requests, and opened again after an error.

    As Go's client does, a request goes over a new connection where the server has closed the old.
    """

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120.0)

    def post(self, path: str, body: object) -> tuple[int, bytes]:
        """Send bytes, or another object as JSON; return the status and the body of the answer.

        Raises: OSError, http.client.HTTPException: the server gave no whole answer.
        """
        sent = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self._asked("POST", path, sent)

    def get(self, path: str) -> tuple[int, bytes]:
        """Return the status and the body of what is at a path; raises as ``post`` does."""
        return self._asked("GET", path, None)

    def close(self) -> None:
        self._connection.close()

    def _asked(self, method: str, path: str, body: bytes | None) -> tuple[int, bytes]:
        line = self._connection
        try:
            if line.sock and _is_readable(line.sock):
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


def _is_readable(connection: socket.socket) -> bool:
    """Return whether bytes, or the end of the connection, can be read now."""
    looking = select.poll()
    looking.register(connection, select.POLLIN)
    return bool(looking.poll(0))


def filter_body(nodes: Sequence[Mapping[str, Any]], **metadata: Any) -> bytes:
    """Return a filter request about whole nodes, for a pod of this metadata."""
    pod = {"metadata": {"name": "p", "uid": "u", **metadata}}
    return json.dumps({"Pod": pod, "Nodes": {"items": nodes}, "NodeNames": None}).encode()


def memory_bytes(pid: int, field: str = "VmRSS") -> int:
    """Return the resident memory of a process in bytes, or another field of /proc/PID/status."""
    return status_number(pid, field) * 1024


def status_number(pid: int, field: str) -> int:
    """Return a number in /proc/PID/status."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(f"{field}:")).split()[1])
