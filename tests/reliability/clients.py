"""Connections to a server under test, and the figures that its answers give."""

import http.client
import json
import os
import select
import socket
import ssl
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from tests.e2e.workbench import say

PATIENT_S: Final = 120.0
_JSON: Final = {"Content-Type": "application/json"}


class Client:
    """A connection that is kept alive between requests, and made anew after an error.

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
        try:
            if self._is_hung_up():
                self._connection.close()
            if self._connection.sock is None:
                self._connection.connect()
                self._connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._connection.request(method, path, body, _JSON)
            answer = self._connection.getresponse()
            return answer.status, answer.read()
        except BaseException:
            self._connection.close()
            raise

    def _is_hung_up(self) -> bool:
        """Return whether the server has closed the connection, on which nothing is awaited."""
        return bool(self._connection.sock and is_readable(self._connection.sock))


def is_readable(connection: socket.socket) -> bool:
    """Return whether bytes, or the end of the connection, can be read now."""
    looking = select.poll()
    looking.register(connection, select.POLLIN)
    return bool(looking.poll(0))


def timed(client: Client, path: str, body: bytes, for_s: float) -> tuple[list[float], int]:
    """Send a request over and over; return the seconds of each, and how many were not 200."""
    took, failed = [], 0
    end = time.perf_counter() + for_s
    while (start := time.perf_counter()) < end:
        try:
            failed += client.post(path, body)[0] != http.HTTPStatus.OK
        except (OSError, http.client.HTTPException):
            failed += 1
        took.append(time.perf_counter() - start)
    return took, failed


def percentile(values: Sequence[float], percent: float) -> float:
    """Return the value that this percentage of the values does not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


def descriptors(pid: int) -> int:
    """Return how many files and connections a process has open."""
    return len(os.listdir(f"/proc/{pid}/fd"))  # noqa: PTH208  not a folder of files


def threads(pid: int) -> int:
    """Return how many threads a process has."""
    return int(_status(pid, "Threads"))


def resident_bytes(pid: int) -> int:
    """Return the resident memory of a process in bytes."""
    return int(_status(pid, "VmRSS")) * 1024


def _status(pid: int, field: str) -> str:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(line for line in lines if line.startswith(f"{field}:")).split()[1]


def tell(figures: Mapping[str, float]) -> None:
    """Print figures as the last line of a program, where the report reads them."""
    say(json.dumps({name: round(value, 3) for name, value in figures.items()}))
