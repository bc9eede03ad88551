"""Extenders as servers on a loopback port, and clients that send any bytes.

``serve`` runs an ``Extender`` on a thread, and ``replica`` runs ``kubextend serve`` as a process.
``Line`` is a connection in memory, on an event loop whose time a test skips.
"""

import asyncio
import contextlib
import json
import os
import queue
import random
import re
import select
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import uvicorn
from tests.doors.extender import PATIENT_S, Answer, Extender, profile, sections_of, until
from uvicorn.server import ServerState

from kubextend.server import connection, request_body
from kubextend.server.connection import Connection as ServerConnection
from kubextend.server.connection import ConnectionSettings
from kubextend.server.service import Listener, Service
from kubextend.server.tls import TlsFiles

SERVE = [sys.executable, "-c", "from kubextend.cli import main; main()", "serve"]
KEEP_ALIVE_S = 120
# What uvloop reads at once.
READ_BYTES = 256 * 1024


# Servers.


@dataclass(frozen=True)
class Served:
    """A server: its URL, and what ends it; a second call of ``stop`` cuts requests off."""

    url: str
    stop: Callable[[], None]


@contextlib.contextmanager
def serve(
    extender: Extender,
    *,
    deadline_s: float | None = None,
    sends_away: Callable[[], bool] = lambda: False,
    **listening: Any,
) -> Iterator[Served]:
    """Serve on a free loopback port, on a thread, until the block ends at the latest.

    Args:
        extender: what is served, with the certificates of its configuration.
        deadline_s: how long a client may take to send a head or a body, or to read an answer, of
            all servers of this process; None: as long as in production.
        sends_away: whether each answer is to end its connection.
        listening: fields of ``Listener``.
    """
    server = extender.config.server
    if server.tls.cert_file is not None:
        files = (server.tls.cert_file, server.tls.key_file, server.tls.client_ca_file)
        listening["tls"] = TlsFiles(*(each and Path(each) for each in files))
    announced: queue.Queue[str] = queue.Queue()
    service = Service(
        [Listener(extender.asgi, "127.0.0.1", 0, **listening)],
        extender.app.health,
        lambda urls: announced.put(urls[0]),
        extender.app.metrics,
        sends_away=sends_away,
    )
    thread = threading.Thread(target=service.run)
    thread.start()
    try:
        with _deadlines(deadline_s):
            yield Served(announced.get(timeout=PATIENT_S), service.stop)
    finally:
        service.stop()
        service.stop()
        thread.join(timeout=PATIENT_S)
        assert not thread.is_alive()


@contextlib.contextmanager
def _deadlines(seconds: float | None) -> Iterator[None]:
    """Give clients so many seconds; None: as many as in production."""
    names = [(connection, "_HEAD_S"), (connection, "_READ_S"), (request_body, "_BODY_S")]
    before = [getattr(module, name) for module, name in names]
    for module, name in names if seconds is not None else ():
        setattr(module, name, seconds)
    try:
        yield
    finally:
        for (module, name), value in zip(names, before, strict=True):
            setattr(module, name, value)


# Clients of servers.


class Connection:
    """One TCP or TLS connection to a server, on which a test sends any bytes."""

    def __init__(self, url: str, tls: ssl.SSLContext | None = None) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port_of(url)), timeout=PATIENT_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls is not None:
            try:
                self.socket = tls.wrap_socket(self.socket, server_hostname="127.0.0.1")
            except BaseException:
                self.socket.close()
                raise
        self._read = self.socket.makefile("rb")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._read.close()
        self.socket.close()

    def send(self, *pieces: bytes) -> None:
        for piece in pieces:
            self.socket.sendall(piece)

    def post(self, path: str, body: bytes, **headers: str) -> Answer:
        self.send(head("POST", path, **{"Content-Length": str(len(body))} | headers), body)
        return self.answer()

    def get(self, path: str, **headers: str) -> Answer:
        self.send(head("GET", path, **headers))
        return self.answer()

    def answer(self) -> Answer:
        """Read the next answer, by its Content-Length alone; raise EOFError if there is none."""
        status_line = self._read.readline()
        if not status_line:
            raise EOFError
        headers: dict[str, str] = {}
        while (line := self._read.readline()) not in {b"\r\n", b""}:
            name, _, value = line.decode().partition(":")
            assert name.lower() not in headers
            headers[name.lower()] = value.strip()
        body = self._read.read(int(headers.get("content-length", 0)))
        return Answer(int(status_line.split()[1]), body, headers)

    def begun(self) -> None:
        """Wait for the first byte of an answer, and leave it unread."""
        assert self._read.peek(1)

    def is_answered(self) -> bool:
        """Return whether bytes can be read now, or the server has closed the connection."""
        return bool(select.select([self.socket], [], [], 0)[0])

    def is_closed(self) -> bool:
        """Wait for the next byte; return whether the server closed the connection instead."""
        try:
            return self._read.read(1) == b""
        except ConnectionResetError:
            return True


def head(method: str, path: str, **headers: str) -> bytes:
    """Return the head of a request; in names of headers ``_`` stands for ``-``."""
    fields = {"Host": "x", "Content-Type": "application/json"}
    fields |= {key.replace("_", "-"): value for key, value in headers.items()}
    lines = [f"{method} {path} HTTP/1.1", *(f"{key}: {value}" for key, value in fields.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def posted(path: str, body: bytes, **headers: str) -> bytes:
    """Return the bytes of a POST."""
    return head("POST", path, Content_Length=str(len(body)), **headers) + body


def port_of(url: str) -> int:
    found = re.search(r":(\d+)", url)
    assert found is not None
    return int(found[1])


def eventually(holds: Callable[[], object]) -> None:
    """Wait until ``holds`` returns true; fail after 60 s."""
    deadline = time.monotonic() + PATIENT_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def read_by_now(url: str, tls: ssl.SSLContext | None = None) -> None:
    """Wait until the server has read what was sent before, by serving a later connection."""
    with Connection(url, tls) as later:
        later.get("/livez")


def is_listening(url: str) -> bool:
    """Return whether the server accepts new connections."""
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port_of(url))) == 0


# Processes.


@dataclass
class Replica:
    """A process of ``kubextend serve``, and the URL that it printed."""

    process: "subprocess.Popen[str]"
    url: str

    def status(self, path: str) -> int:
        """Return the status of a GET on a new connection; 0 where nobody listens."""
        try:
            with Connection(self.url) as connection:
                return connection.get(path).status
        except (OSError, EOFError):
            return 0

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def end(self, *, fails: bool = False) -> str:
        """Wait until the process has ended with 0, and return its stderr.

        Args:
            fails: whether something fails whose traceback is logged.
        """
        stdout, stderr = self.process.communicate(timeout=PATIENT_S)
        assert (self.process.returncode, stdout) == (0, "")
        assert ("Traceback" in stderr) == fails
        return stderr


def free_port() -> int:
    """Return a port that nobody listens on, and that no outgoing connection gets meanwhile."""
    while True:
        port = random.SystemRandom().randrange(20_000, 32_000)
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


@contextlib.contextmanager
def replica(folder: Path, **sections: Any) -> Iterator[Replica]:
    """Run ``kubextend serve`` on a free port, with these sections and the modules of a folder."""
    port = free_port()
    sections["server"] = {"port": port} | sections.get("server", {})
    default = {"profiles": [profile(filter=["HighCommPodFilter"])]}
    file = folder / f"{port}.yaml"
    file.write_text(json.dumps(sections_of(**default | sections)))
    process = subprocess.Popen(
        [*SERVE, "--config", str(file)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONWARNINGS": "error", "PYTHONPATH": str(folder)},
    )
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        found = re.fullmatch(r"listening on (https?://127\.0\.0\.1:\d+/\S*)\n", line)
        assert found is not None, line + process.communicate()[1]
        yield Replica(process, found[1])
    finally:
        process.kill()
        process.communicate()


# A connection in memory.


class Line(asyncio.Transport):
    """A connection of an extender in memory, on the running loop, and the client at its other end.

    Args:
        extender: answers the client.
        reads: whether the client reads what the server writes at once, or by ``read``.

    Attributes:
        received: the bytes that the client has read.
        closed: whether the connection is over.
    """

    def __init__(self, extender: Extender, *, reads: bool = True) -> None:
        super().__init__()
        self.received = b""
        self.closed = False
        self._reads = reads
        self._unread, self._unsent = b"", memoryview(b"")
        self._closing = self._paused = self._stuck = False
        self._high, self._low = 64 * 1024, 16 * 1024
        config = uvicorn.Config(
            extender.asgi,
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            timeout_keep_alive=KEEP_ALIVE_S,
        )
        config.load()
        self._protocol: asyncio.BaseProtocol = ServerConnection(
            ConnectionSettings(1, lambda: False),
            config=config,
            server_state=ServerState(),
            app_state={},
        )
        self._protocol.connection_made(self)

    async def send(self, data: bytes) -> None:
        """Send bytes, which the server reads when it wants to."""
        self._unsent = memoryview(bytes(self._unsent) + data)
        self._hand_over()
        await _settled()

    async def read(self, most: int) -> None:
        """Read at most so many of the bytes that the server has written."""
        self.received += self._unread[:most]
        self._unread = self._unread[most:]
        if self._stuck and len(self._unread) <= self._low:
            self._stuck = False
            self._protocol.resume_writing()
        self._end_if_read()
        await _settled()

    async def answered(self, start: bytes) -> None:
        """Wait until the client has read an answer that starts so."""
        await until(lambda: self.received)
        assert self.received.startswith(start)

    async def begun(self) -> None:
        """Wait until the server has written some of an answer that nobody reads."""
        await until(lambda: self._unread)

    def write(self, data: Any) -> None:
        self._unread += bytes(data)
        if self._reads:
            self.received, self._unread = self.received + self._unread, b""
        elif len(self._unread) > self._high and not self._stuck:
            self._stuck = True
            self._protocol.pause_writing()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = 64 * 1024 if high is None else high
        self._low = self._high // 4 if low is None else low

    def get_write_buffer_size(self) -> int:
        return len(self._unread)

    def close(self) -> None:
        self._closing = True
        asyncio.get_running_loop().call_soon(self._end_if_read)

    def abort(self) -> None:
        self._closing, self._unread = True, b""
        asyncio.get_running_loop().call_soon(self._end_if_read)

    def is_closing(self) -> bool:
        return self._closing

    def pause_reading(self) -> None:
        self._paused = True

    def resume_reading(self) -> None:
        self._paused = False
        asyncio.get_running_loop().call_soon(self._hand_over)

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default

    def _hand_over(self) -> None:
        while self._unsent and not (self._paused or self._closing):
            if isinstance(self._protocol, asyncio.BufferedProtocol):
                buffer = memoryview(self._protocol.get_buffer(-1))
                size = min(len(buffer), len(self._unsent))
                buffer[:size], self._unsent = self._unsent[:size], self._unsent[size:]
                self._protocol.buffer_updated(size)
            else:
                assert isinstance(self._protocol, asyncio.Protocol)
                data, self._unsent = self._unsent[:READ_BYTES], self._unsent[READ_BYTES:]
                self._protocol.data_received(bytes(data))
        if not self._unsent:
            # An empty part of what was sent would keep all of it.
            self._unsent = memoryview(b"")

    def _end_if_read(self) -> None:
        if self._closing and not self._unread and not self.closed:
            self.closed = True
            self._protocol.connection_lost(None)


async def _settled() -> None:
    """Run all tasks as far as they can go, without letting time pass."""
    for _ in range(20):
        await asyncio.sleep(0)
