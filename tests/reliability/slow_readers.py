"""Lets 100 clients read an answer of 40 MB at a kilobyte a second, and tells memory and time.

Who is refused because too much is in flight asks again. Another client is served meanwhile. No slow
client begins after a minute: kubextend then has 30 s until the last of them is cut off.
"""

import argparse
import contextlib
import http.client
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

from .burst_of_large_requests import IN_FLIGHT
from .clients import PATIENT_S, Client, is_readable, tell

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
    """Clients that send a large request and read the answer slowly.

    A client that is refused asks again for some seconds; none begins after these.

    Attributes:
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
        self._over = threading.Event()
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
        """Read a kilobyte a second, until the answer ends or all is over."""
        with self._lock:
            self.found["answers"] += 1
        while line.recv(1024) and not self._over.wait(1.0):
            pass

    def end(self) -> None:
        """Let all clients leave."""
        self._over.set()


def read_slowly(port: int, count: int, for_s: float, parent: Connection) -> None:
    """Be all of the slow readers, and tell the parent what came of them."""
    slow = SlowReaders(port, for_s)
    parent.send(len(slow.body))
    clients = [threading.Thread(target=slow.read_slowly) for _ in range(count)]
    for client in clients:
        client.start()
    parent.recv()
    slow.end()
    for client in clients:
        client.join()
    parent.send(slow.found)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=60.0)
    options = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder, Workbench(Path(folder)) as bench:
        server = Served(bench, _CONFIG)
        mine, theirs = context.Pipe()
        given = (server.port, options.clients, options.seconds, theirs)
        process = context.Process(target=read_slowly, args=given)
        process.start()
        theirs.close()
        body_bytes = mine.recv()
        server.forget_worst()
        good, failed, requests, freed_after_s = Client(server.port), 0, 0, 0.0
        end = time.monotonic() + options.seconds
        while time.monotonic() < end or server.count("kubextend_requests_in_flight_bytes"):
            failed += good.post("/filter", _SMALL)[0] != http.client.OK
            requests += 1
            time.sleep(0.05)
            freed_after_s = time.monotonic() - end
        mine.send("enough")
        found = mine.recv()
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
            "freed_after_s": freed_after_s,
            "memory_mb": worst / MB,
            "memory_of_limit": worst / IN_FLIGHT,
        }
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
