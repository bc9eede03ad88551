"""Holds odd conversations with a server over raw sockets, and tells the memory that attacks take.

An attack is one client, or several, that try to fill the memory of the server with requests.
"""

import contextlib
import json
import os
import socket
import ssl
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from typing import Final, TypeAlias

from tests.doors.extender import Answer
from tests.doors.sockets import Connection
from tests.e2e.certificates import Authority
from tests.e2e.workbench import until

from .clients import HEAD, memory_bytes
from .conversations import BODY, GOOD, Conversation, conversations, get
from .harness import Report, trial
from .served import ROOT, workbench

PATIENT_S: Final = 60.0
_TALKERS: Final = 8
_MB: Final = 1024 * 1024
# How many bytes of freed memory the allocator may keep.
MOST_KEPT_BYTES: Final = 60 * _MB
_SENDS_FOR_S: Final = 1.0
_CHUNKED: Final = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
_PROBE: Final = _CHUNKED.replace(b"filter", b"livez") + b"0\r\n"


class WrongError(AssertionError):
    """Raised when a server does not answer as is expected."""


@dataclass(frozen=True)
class RawServer:
    """The server for hostile clients, in a process of its own.

    Attributes:
        pid: the process.
        urls: the listener with the default deadlines for clients, and one with half a second.
        tls: the TLS context that clients need; None: plain HTTP.
    """

    pid: int
    urls: tuple[str, str]
    tls: ssl.SSLContext | None


@contextlib.contextmanager
def raw_server(*, tls: bool) -> Iterator[RawServer]:
    """Run a server for hostile clients until the block ends, with TLS or without."""
    with workbench() as bench:
        told, trusting = bench.folder / "urls", None
        command = [sys.executable, "-m", "tests.trials.raw_server", str(told)]
        if tls:
            authority = Authority(bench.folder)
            authority.issue("tls")
            trusting = ssl.create_default_context(cafile=authority.cert)
            command.append(str(bench.folder))
        paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = {"PYTHONPATH": os.pathsep.join(paths)}
        program = bench.start("raw-server", *command, environment=environment)
        until(told.exists, "the server listens", program=program)
        yield RawServer(program.pid, json.loads(told.read_text()), trusting)


class Line(Connection):
    """A connection to a server that may close it at any time."""

    def __init__(self, server: RawServer, *, hasty: bool = False) -> None:
        super().__init__(server.urls[hasty], server.tls)

    def send(self, *pieces: bytes) -> None:
        """Send pieces, as far as the server takes them."""
        with contextlib.suppress(OSError):
            super().send(*pieces)

    def next(self) -> Answer | None:
        """Return the next answer; None: it was cut off."""
        with contextlib.suppress(EOFError, ConnectionError):
            answer = self.answer()
            if len(answer.body) == int(answer.headers["content-length"]):
                return answer
        return None

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


def hold(server: RawServer, said: Conversation, other: Line) -> None:
    """Hold a conversation; check its answers, and that another connection is served meanwhile.

    Raises: WrongError: the server did not answer as expected.
    """
    with Line(server, hasty=said.hasty) as line:
        line.send(*said.sent)
        if said.half_closed:
            line.socket.shutdown(socket.SHUT_WR)
        if said.held:
            _served(other)
            _require(line.is_silent(), "there is an answer before that which is held")
            other.send(get(f"/release/{said.held}".encode()))
            _expect(other.next(), 200)
        for status in said.statuses:
            answer = line.next()
            if answer is None and said.may_be_cut:
                break
            _expect(answer, status)
        if not said.ends:
            line.send(GOOD)
            _expect(line.next(), 200, b"ok")
        else:
            more = line.next()
            _require(more is None, f"answered once more: {str(more)[:100]}")
    _served(other)


def _served(other: Line) -> None:
    other.send(GOOD)
    _expect(other.next(), 200, b"ok")


def _expect(answer: Answer | None, status: int, body: bytes | None = None) -> None:
    right = answer is not None and answer.status == status and body in {None, answer.body}
    _require(right, f"answered {str(answer)[:100]}, not {status}")


def _require(right: bool, message: str) -> None:
    if not right:
        raise WrongError(message)


Attack: TypeAlias = Callable[[RawServer], AbstractContextManager[None]]


def _sent(
    before: bytes, piece: bytes, most_bytes: int = 10 * _MB, *, hasty: bool = False
) -> Attack:
    """Return an attack: one connection that sends a piece over and over, and stays open."""

    @contextlib.contextmanager
    def attack(server: RawServer) -> Iterator[None]:
        with Line(server, hasty=hasty) as line:
            # The server need not read it all.
            line.socket.settimeout(_SENDS_FOR_S)
            line.send(before, *[piece] * (most_bytes // len(piece)))
            yield

    return attack


def _many(count: int, *pieces: bytes) -> Attack:
    """Return an attack: ``count`` connections that each send the same bytes and stay open."""

    @contextlib.contextmanager
    def attack(server: RawServer) -> Iterator[None]:
        with ExitStack() as stack:
            for _ in range(count):
                stack.enter_context(Line(server)).send(*pieces)
            yield

    return attack


ATTACKS: Final[dict[str, Attack]] = {
    "trailers": _sent(_CHUNKED + b"0\r\n", b"a:b\r\n" * 20_000),
    "trailers of a probe": _sent(_PROBE, b"a:b\r\n" * 20_000),
    "trailers on the listener of probes": _sent(_PROBE, b"a:b\r\n" * 20_000, hasty=True),
    "one trailer": _sent(_CHUNKED + b"0\r\na: ", b"x" * 100_000),
    "an extension": _sent(_CHUNKED + b"1;", b"x" * 100_000),
    "fields": _sent(b"GET /livez HTTP/1.1\r\n", b"a:b\r\n" * 20_000),
    "empty lines": _sent(b"", b"\r\n" * 50_000),
    "requests behind one that is held": _sent(get(b"/hold/never"), GOOD * 2_000),
    "large answers that nobody reads": _sent(get(b"/large") * 99, GOOD, 0),
    "a body that is not wanted": _sent(
        HEAD.replace(b"json", b"text") + b"Content-Length: 99999999\r\n\r\n", b"x" * 100_000
    ),
    "bodies that do not end": _many(
        20, HEAD + b"Content-Length: 4000000\r\n\r\n", BODY, b"x" * 1_000_000
    ),
    "connections": _many(200, b"GET /livez HT"),
}


def _talk(server: RawServer, said: list[Conversation], report: Report) -> None:
    """Hold conversations, eight at a time."""

    def talk(mine: list[Conversation]) -> None:
        with Line(server) as other:
            for each in mine:
                try:
                    hold(server, each, other)
                except (AssertionError, LookupError, OSError, ValueError) as error:
                    report.mistake(f"{each.name}: {type(error).__name__}: {error}")

    shares = [said[number::_TALKERS] for number in range(_TALKERS)]
    with ThreadPoolExecutor(_TALKERS) as talkers:
        list(talkers.map(talk, shares))


def _attack(server: RawServer, report: Report) -> None:
    """Make each attack, and compare what the server gains during the attack, and afterwards."""
    for name, attack in ATTACKS.items():
        before = memory_bytes(server.pid)
        with attack(server):
            during = memory_bytes(server.pid) - before
        with Line(server) as line:
            line.send(GOOD)
            line.next()
        after = memory_bytes(server.pid) - before
        said = f"{name}: {during / _MB:.0f} MB more during it, {after / _MB:.0f} after"
        report.judge(max(during, after) <= MOST_KEPT_BYTES, said)


@trial()
def hostile(options: Namespace, report: Report) -> None:
    """Hundreds of odd conversations over raw sockets, plain and over TLS, and what they leave."""
    said = list(conversations(short=options.short))
    report.tell(conversations=len(said), attacks=2 * len(ATTACKS))
    for tls in (False, True):
        with raw_server(tls=tls) as server:
            _talk(server, [each for each in said if each.tls == tls], report)
            _attack(server, report)
