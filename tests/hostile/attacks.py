"""Attacks by clients that try to fill the server's memory with requests."""

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from typing import Final

from .conversations import BODY, GOOD
from .talk import Line, Server

_MB: Final = 1024 * 1024
_SENDS_FOR_S: Final = 1.0
_HEAD: Final = b"POST /filter HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n%b\r\n\r\n"
_CHUNKED: Final = _HEAD % b"Transfer-Encoding: chunked"


def _sent(before: bytes, piece: bytes, most_bytes: int = 10 * _MB) -> Callable[..., object]:
    """Return an attack: one connection that sends a piece over and over, and stays open."""

    @contextlib.contextmanager
    def attack(server: Server) -> Iterator[None]:
        with Line(server) as line:
            # The server need not read it all.
            line.socket.settimeout(_SENDS_FOR_S)
            line.send((before, *[piece] * (most_bytes // len(piece))))
            yield

    return attack


def _many(count: int, *pieces: bytes) -> Callable[..., object]:
    """Return an attack: ``count`` connections that each send the same bytes and stay open."""

    @contextlib.contextmanager
    def attack(server: Server) -> Iterator[None]:
        with ExitStack() as stack:
            for _ in range(count):
                stack.enter_context(Line(server)).send(pieces)
            yield

    return attack


ATTACKS: Final[dict[str, Callable[[Server], AbstractContextManager[None]]]] = {
    "trailers": _sent(_CHUNKED + b"0\r\n", b"a:b\r\n" * 20_000),
    "trailers of what is not served": _sent(
        b"POST /livez HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n",
        b"a:b\r\n" * 20_000,
    ),
    "one trailer": _sent(_CHUNKED + b"0\r\na: ", b"x" * 100_000),
    "an extension": _sent(_CHUNKED + b"1;", b"x" * 100_000),
    "fields": _sent(b"GET /livez HTTP/1.1\r\n", b"a:b\r\n" * 20_000),
    "empty lines": _sent(b"", b"\r\n" * 50_000),
    "requests behind one that is held": _sent(
        b"GET /hold/never HTTP/1.1\r\nHost: x\r\n\r\n", GOOD * 2_000
    ),
    "large answers that nobody reads": _sent(
        b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n" * 99, GOOD, 0
    ),
    "a body that is not wanted": _sent(
        (_HEAD % b"Content-Length: 99999999").replace(b"json", b"text"), b"x" * 100_000
    ),
    "bodies that do not end": _many(20, _HEAD % b"Content-Length: 4000000", BODY, b"x" * 1_000_000),
    "connections": _many(200, b"GET /livez HT"),
}
