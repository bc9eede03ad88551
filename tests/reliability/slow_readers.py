"""Lets 100 clients read an answer of 40 MB at a kilobyte a second, and tells memory and time.

Who is refused because too much is in flight asks again. Another client is served meanwhile.
"""

import argparse
import contextlib
import json
import multiprocessing
import socket
import sys
import tempfile
import threading
import time
from collections import Counter
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

from tests.e2e.workbench import Workbench, say
from tests.hostile.memory import MB, Served

from .burst_of_large_requests import IN_FLIGHT, is_readable
from .clients import PATIENT_S, Client, tell

_NODES: Final = 2500
_PIECE: Final = 1 << 20
_CONFIG: Final[dict[str, Any]] = {
    "server": {"maxInFlightBytes": IN_FLIGHT},
    "extender": {"nodeCacheCapable": False, "httpTimeout": "30s"},
    "profiles": [{"plugins": {"filter": {"enabled": [{"name": "HighCommPodFilter"}]}}}],
}
_SMALL: Final = json.dumps(
    {
        "Pod": {"metadata": {"name": "p", "uid": "u"}},
        "Nodes": {"items": [{"metadata": {"name": "n"}}]},
    }
).encode()


class SlowReaders:
    """Clients that send a large request and read the answer slowly, until a time or their end.

    Attributes:
        closed_after_s: the seconds from the first byte of an answer to the end of the connection.
        body: the request.
        found: how many answers were begun, and how many requests were refused.
    """

    def __init__(self, port: int, for_s: float) -> None:
        self._port = port
        self._end = time.monotonic() + for_s
        node = {"status": {"images": [{"names": ["x" * 160]}] * 90}}
        nodes = [{"metadata": {"name": f"n-{at}"}, **node} for at in range(_NODES)]
        pod = {"metadata": {"name": "p", "uid": "u"}}
        self.body = json.dumps({"Pod": pod, "Nodes": {"items": nodes}}).encode()
        self._lock = threading.Lock()
        self.closed_after_s: list[float] = []
        self.found: Counter[str] = Counter()

    def read_slowly(self) -> None:
        """Ask until an answer comes, and read it slowly."""
        while time.monotonic() < self._end:
            with contextlib.suppress(OSError), self._connected() as line:
                self._send(line)
                if line.recv(12) == b"HTTP/1.1 200":
                    self._trickle(line)
                    return
            with self._lock:
                self.found["refused"] += 1
            time.sleep(1.0)

    def _connected(self) -> socket.socket:
        line = socket.socket()
        line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        line.settimeout(PATIENT_S)
        line.connect(("127.0.0.1", self._port))
        return line

    def _send(self, line: socket.socket) -> None:
        head = b"POST /filter HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        line.sendall(head + b"Content-Length: %d\r\n\r\n" % len(self.body))
        for at in range(0, len(self.body), _PIECE):
            if is_readable(line):
                return
            line.sendall(self.body[at : at + _PIECE])

    def _trickle(self, line: socket.socket) -> None:
        start = time.monotonic()
        with self._lock:
            self.found["answers"] += 1
        with contextlib.suppress(ConnectionError):
            while time.monotonic() < self._end and line.recv(1024):
                time.sleep(1.0)
        with self._lock:
            self.closed_after_s.append(time.monotonic() - start)


def read_slowly(port: int, count: int, for_s: float, parent: Connection) -> None:
    """Be all of the slow readers, and tell the parent what came of them."""
    slow = SlowReaders(port, for_s)
    parent.send(len(slow.body))
    clients = [threading.Thread(target=slow.read_slowly) for _ in range(count)]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    parent.send((slow.closed_after_s, slow.found))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=90.0)
    options = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder, Workbench(Path(folder)) as bench:
        server = Served(bench, _CONFIG)
        mine, theirs = context.Pipe()
        given = (server.port, options.clients, options.seconds, theirs)
        process = context.Process(target=read_slowly, args=given)
        process.start()
        body_bytes = mine.recv()
        server.forget_worst()
        good, failed, requests = Client(server.port), 0, 0
        while not mine.poll():
            failed += good.post("/filter", _SMALL)[0] != 200
            requests += 1
            time.sleep(0.05)
        closed_after_s, found = mine.recv()
        process.join()
        worst = server.worst_bytes()
    say(f"a body has {body_bytes} bytes; {dict(found)}")
    tell(
        {
            "slow_readers": options.clients,
            "answers_begun": found["answers"],
            "refused_at_first": found["refused"],
            "requests_of_others": requests,
            "failed": failed,
            "closed_after_s": max(closed_after_s),
            "memory_mb": worst / MB,
            "memory_of_limit": worst / IN_FLIGHT,
        }
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
