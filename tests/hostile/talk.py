"""Starts the server for hostile clients, and holds one conversation with it over a raw socket."""

import contextlib
import json
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from .conversations import GOOD, Conversation

ROOT = Path(__file__).parents[2]
PATIENT_S = 60.0


class WrongError(AssertionError):
    """Raised when the server does not answer as the conversation expects."""


@dataclass
class Server:
    """The server for hostile clients, in a process of its own.

    Attributes:
        process: The process.
        port: The port of the listener with the default deadlines for clients.
        hasty_port: The port of the listener that gives clients half a second.
        tls: The TLS context that clients need; None: plain HTTP.
    """

    process: subprocess.Popen[str]
    port: int
    hasty_port: int
    tls: ssl.SSLContext | None

    @classmethod
    @contextlib.contextmanager
    def running(cls, certificates: Path | None = None) -> Iterator[Self]:
        """Run a server until the block ends; yield the server once it listens."""
        folder = [] if certificates is None else [str(certificates)]
        tls = None
        if certificates is not None:
            tls = ssl.create_default_context(cafile=certificates / "tls.crt")
        with subprocess.Popen(
            [sys.executable, "-m", "tests.hostile.server", *folder],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            try:
                yield cls(process, *json.loads(process.stdout.readline()), tls)
            finally:
                process.stdin.close()
                process.wait(PATIENT_S)

    def resident_bytes(self) -> int:
        """Return the resident memory of the server's process in bytes."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        line = next(line for line in status.splitlines() if line.startswith("VmRSS"))
        return int(line.split()[1]) * 1024


class Line:
    """One connection to the server, on which raw bytes are sent and read."""

    def __init__(self, server: Server, *, hasty: bool = False) -> None:
        port = server.hasty_port if hasty else server.port
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENT_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if server.tls is not None:
            self.socket = server.tls.wrap_socket(self.socket, server_hostname="127.0.0.1")
        self._read = self.socket.makefile("rb")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._read.close()
        self.socket.close()

    def send(self, pieces: tuple[bytes, ...]) -> None:
        """Send pieces, as far as the server takes them: it may have closed the connection."""
        with contextlib.suppress(OSError):
            for piece in pieces:
                self.socket.sendall(piece)

    def answer(self) -> tuple[int, bytes] | None:
        """Return status and body of the next answer, read by its Content-Length; None: cut off."""
        try:
            line = self._read.readline()
            if not line:
                return None
            lengths = []
            while (field := self._read.readline()) not in {b"\r\n", b""}:
                name, _, value = field.partition(b":")
                if name.lower() == b"content-length":
                    lengths.append(int(value))
            if not line.startswith(b"HTTP/1.1 ") or len(lengths) != 1:
                message = f"no answer begins like this: {line[:100]!r}"
                raise WrongError(message)
            body = self._read.read(lengths[0])
        except ConnectionError:
            return None
        if len(body) < lengths[0]:
            return None
        return int(line.split()[1]), body

    def is_silent(self) -> bool:
        """Return whether no byte can be read now and the server has not closed the connection."""
        self.socket.settimeout(0)
        try:
            # Over TLS what is there need not be an answer.
            self.socket.recv(1)
        except (BlockingIOError, ssl.SSLWantReadError):
            return True
        finally:
            self.socket.settimeout(PATIENT_S)
        return False


def hold(server: Server, said: Conversation, other: Line) -> None:
    """Hold a conversation; check its answers, and that another connection is served meanwhile.

    Args:
        server: The server.
        said: The conversation.
        other: Another connection, on which requests are sent in between and afterwards.

    Raises: WrongError: the server did not answer as expected.
    """
    with Line(server, hasty=said.hasty) as line:
        line.send(said.sent)
        if said.half_closed:
            line.socket.shutdown(socket.SHUT_WR)
        if said.held:
            _served(other)
            if not line.is_silent():
                message = "there is an answer before that which is held"
                raise WrongError(message)
            other.send((b"GET /release/%b HTTP/1.1\r\nHost: x\r\n\r\n" % said.held.encode(),))
            _expect(other.answer(), 200)
        for status in said.statuses:
            answer = line.answer()
            if answer is None and said.may_be_cut:
                break
            _expect(answer, status)
        if not said.ends:
            line.send((GOOD,))
            _expect(line.answer(), 200, b"ok")
        elif (more := line.answer()) is not None:
            message = f"answered once more: {more[0]} {more[1][:100]!r}"
            raise WrongError(message)
    _served(other)


def _served(other: Line) -> None:
    other.send((GOOD,))
    _expect(other.answer(), 200, b"ok")


def _expect(answer: tuple[int, bytes] | None, status: int, body: bytes | None = None) -> None:
    if answer is None:
        message = f"the server hung up instead of answering {status}"
        raise WrongError(message)
    if answer[0] != status or (body is not None and answer[1] != body):
        message = f"answered {answer[0]} {answer[1][:100]!r}, not {status}"
        raise WrongError(message)
