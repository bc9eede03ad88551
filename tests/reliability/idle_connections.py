"""Opens idle connections beyond what each port takes, and reads /metrics without a pause.

Another client is timed before, meanwhile and after, over one connection that stays open and over a
new connection for each request.
"""

import argparse
import contextlib
import http.client
import json
import multiprocessing
import selectors
import socket
import sys
import tempfile
import threading
import time
from collections import deque
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import mean
from typing import Final

from tests.e2e.workbench import Workbench, say
from tests.hostile.memory import Served

from .clients import Client, descriptors, percentile, tell, timed
from .slow_clients import CONFIG, nodes

_READERS: Final = 8
# How many of those that were hung up on connect again in a second.
_AGAIN_A_SECOND: Final = 200


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
    """Be idle, and read metrics, until the parent says something; tell what came of it."""
    over = threading.Event()
    readers = [
        threading.Thread(target=_read_metrics, args=(metrics_port, over)) for _ in range(_READERS)
    ]
    idlers = Idlers(ports)
    for reader in readers:
        reader.start()
    parent.send("all are there")
    while not parent.poll():
        idlers.second()
    over.set()
    for reader in readers:
        reader.join()
    parent.send(idlers.hung_up)


def _read_metrics(port: int, over: threading.Event) -> None:
    client = Client(port)
    while not over.is_set():
        # Where all places are taken, the reader is one of those that are hung up on.
        with contextlib.suppress(OSError, http.client.HTTPException):
            client.get("/metrics")


def _timed_both(port: int, kept: Client, body: bytes, for_s: float) -> tuple[list[float], int]:
    """Time a client that keeps its connection and one that makes a new one for each request."""
    took, failed = timed(kept, "/filter", body, for_s / 2)
    end = time.monotonic() + for_s / 2
    while time.monotonic() < end:
        client = Client(port)
        more, wrong = timed(client, "/filter", body, 0.001)
        client.close()
        took += more[:1]
        failed += wrong
    return took, failed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--verbs", type=int, default=6000, help="idle on the port of the verbs")
    parser.add_argument("--health", type=int, default=500, help="idle on the health port")
    parser.add_argument("--seconds", type=float, default=40.0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, Workbench(Path(folder)) as bench:
        server = Served(bench, CONFIG)
        body = json.dumps(
            {"Pod": {"metadata": {"name": "p", "uid": "u"}}, "Nodes": {"items": nodes()}}
        ).encode()
        kept = Client(server.port)
        timed(kept, "/filter", body, 3.0)
        before, failed = _timed_both(server.port, kept, body, options.seconds / 2)
        context = multiprocessing.get_context("spawn")
        mine, theirs = context.Pipe()
        ports = {server.port: options.verbs, server.health_port: options.health}
        process = context.Process(target=idle, args=(ports, server.health_port, theirs))
        process.start()
        theirs.close()
        mine.recv()
        meanwhile, refused = _timed_both(server.port, kept, body, options.seconds)
        open_files = descriptors(server.program.pid)
        mine.send("enough")
        hung_up = mine.recv()
        process.join()
        after, failed_after = _timed_both(server.port, kept, body, options.seconds / 2)
    p99s_ms = [percentile(each, 99) * 1e3 for each in (before, meanwhile, after)]
    say(f"p99 before, meanwhile and after: {p99s_ms} ms")
    tell(
        {
            "idle_connections": options.verbs + options.health,
            "hung_up_on": hung_up,
            "open_descriptors": open_files,
            "requests": len(meanwhile),
            "refused": failed + refused + failed_after,
            "p99_ms": p99s_ms[1],
            "p99_ratio": p99s_ms[1] / mean([p99s_ms[0], p99s_ms[2]]),
        }
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
