"""Lets 1,000 clients send a byte a second, and times another client before, meanwhile and after.

Half of the slow clients send a head and half send a body. Who is hung up on connects again.
"""

import argparse
import contextlib
import json
import multiprocessing
import selectors
import socket
import sys
import tempfile
import time
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import mean
from typing import Any, Final

from tests.e2e.workbench import Workbench, say
from tests.hostile.memory import Served

from .clients import Client, percentile, tell, timed

NAMES: Final = [f"node-{number}" for number in range(500)]
CONFIG: Final[dict[str, Any]] = {
    "server": {},
    "profiles": [{"plugins": {"filter": {"enabled": [{"name": "HighCommPodFilter"}]}}}],
}
_HEAD: Final = b"POST /filter HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
_BODY: Final = _HEAD + b"Content-Length: 100000\r\n\r\n"
# The slow clients send in this many groups, one after the other within each second.
_GROUPS: Final = 50


@dataclass
class Slow:
    """A slow client: its connection, and since when its deadline runs."""

    in_body: bool
    line: socket.socket = field(init=False)
    since: float = field(init=False)

    def connect(self, port: int) -> None:
        """Open the connection and send the first bytes."""
        self.line = socket.create_connection(("127.0.0.1", port), timeout=60.0)
        self.line.sendall(_BODY if self.in_body else _HEAD + b"X-Slow: ")
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
    """Be slow until the parent says something, and answer with the figures."""
    slow = Trickle(port, count)
    parent.send("all are connected")
    while not parent.poll():
        slow.second()
    parent.send(slow.closed)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=45.0, help="how long they are slow")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, Workbench(Path(folder)) as bench:
        server = Served(bench, CONFIG)
        good = Client(server.port)
        body = json.dumps(
            {"Pod": {"metadata": {"name": "p", "uid": "u"}}, "Nodes": {"items": nodes()}}
        ).encode()
        timed(good, "/filter", body, 3.0)
        before, failed = timed(good, "/filter", body, options.seconds / 3)
        context = multiprocessing.get_context("spawn")
        mine, theirs = context.Pipe()
        slow = context.Process(target=trickle, args=(server.port, options.clients, theirs))
        slow.start()
        theirs.close()
        mine.recv()
        meanwhile, failed_meanwhile = timed(good, "/filter", body, options.seconds)
        mine.send("enough")
        closed = mine.recv()
        slow.join()
        after, failed_after = timed(good, "/filter", body, options.seconds / 3)
    p99s_ms = [percentile(each, 99) * 1e3 for each in (before, meanwhile, after)]
    say(f"p99 before, meanwhile and after: {p99s_ms} ms")
    say(f"hung up on: {len(closed[False])} in a head, {len(closed[True])} in a body")
    tell(
        {
            "slow_clients": options.clients,
            "requests": len(meanwhile),
            "failed": failed + failed_meanwhile + failed_after,
            "head_closed_s": max(closed[False]),
            "body_closed_s": max(closed[True]),
            "p99_ms": p99s_ms[1],
            "p99_ratio": p99s_ms[1] / mean([p99s_ms[0], p99s_ms[2]]),
        }
    )
    return 0


def nodes() -> list[dict[str, Any]]:
    """Return 500 small nodes."""
    return [{"metadata": {"name": name, "labels": {"a": "b"}}} for name in NAMES]


if __name__ == "__main__":
    sys.exit(main())
