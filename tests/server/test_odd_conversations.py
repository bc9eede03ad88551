"""Odd requests with the answers that are expected, by RFC 9112 and by the limits of the server.

A request that cannot be read is refused at once, and ends the connection.
"""

import asyncio
import contextlib
import re
import ssl
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import pytest
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from tests.doors.certificates import Authority
from tests.doors.extender import Answer, Extender, request
from tests.doors.sockets import Connection, eventually, serve

pytestmark = pytest.mark.slow

BODY: Final = request("filter", nodes=[])
LIMIT: Final = 4 * 1024 * 1024
IN_FLIGHT: Final = "kubextend_requests_in_flight_bytes"
# More than one read of the server's and its limit together.
ENDLESS: Final = 400_000


def get(path: bytes, version: bytes = b"1.1") -> bytes:
    return b"GET %b HTTP/%b\r\nHost: x\r\n\r\n" % (path, version)


def head(*fields: bytes, line: bytes = b"POST /filter HTTP/1.1") -> bytes:
    json_type = b"Content-Type: application/json"
    return b"\r\n".join([line, b"Host: x", json_type, *fields, b"", b""])


def chunked(rest: bytes, *fields: bytes) -> bytes:
    return head(b"Transfer-Encoding: chunked", *fields) + rest


GOOD: Final = get(b"/livez")
LENGTH: Final = b"Content-Length: %d" % len(BODY)
CHUNK: Final = b"%x\r\n%b\r\n" % (len(BODY), BODY)
BY_BYTE: Final = b"".join(b"1\r\n%c\r\n" % byte for byte in BODY)
UPGRADE: Final = (b"Connection: Upgrade", b"Upgrade: h2c")
# Valid requests, which any server has to answer without closing the connection.
FINE: Final = {
    "get": GOOD,
    "plain": head(LENGTH) + BODY,
    "names in any case": head(LENGTH.lower()) + BODY,
    "a query": head(LENGTH, line=b"POST /filter?x=y HTTP/1.1") + BODY,
    "a chunk": chunked(CHUNK + b"0\r\n\r\n"),
    "chunks of a byte": chunked(BY_BYTE + b"0\r\n\r\n"),
    "trailers": chunked(CHUNK + b"0\r\na: b\r\nc: d\r\n\r\n"),
    "an extension": chunked(b"%x;a=b;c\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY)),
    "a size in capitals": chunked(b"%X\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY)),
    "empty lines before": b"\r\n" * 20 + GOOD,
    "100 fields": head(LENGTH, *[b"X-%d: y" % number for number in range(100)]) + BODY,
    "a long field": head(LENGTH, b"X: " + b"y" * 30_000) + BODY,
    "a wish to upgrade that no connection field names": head(LENGTH, b"Upgrade: h2c") + BODY,
}
# Valid requests that are refused while the connection stays open.
REFUSED: Final = {
    "nothing there": (get(b"/nothing"), 404),
    "nothing there, with trailers": (
        head(b"Transfer-Encoding: chunked", line=b"POST /nothing HTTP/1.1")
        + b"5\r\nabcde\r\n0\r\na: b\r\n\r\n",
        404,
    ),
    "no JSON": (head(b"Content-Length: 1") + b"{", 400),
    "no body": (head(b"Content-Length: 0"), 400),
    "chunks of another coding": (head(b"Transfer-Encoding: gzip, chunked") + b"0\r\n\r\n", 400),
    "another encoding": (head(LENGTH, b"Content-Encoding: gzip") + BODY, 415),
}
# Requests after which nothing is read. The protocol of the bytes behind an upgrade is unknown.
LAST: Final = {
    "garbage": (b"garbage\r\n\r\n", 400),
    "binary": (bytes(range(128, 256)), 400),
    "a TLS hello": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(32), 400),
    "another version": (get(b"/livez", b"9.9"), 400),
    "a blank in a name": (head(b"Content Length: 0"), 400),
    "a blank before a colon": (head(b"Transfer-Encoding : chunked") + b"0\r\n\r\n", 400),
    "a NUL in a value": (head(b"X: a\0b", LENGTH) + BODY, 400),
    "a length below nothing": (head(b"Content-Length: -1"), 400),
    "a length with a sign": (head(b"Content-Length: +2") + b"{}", 400),
    "a length in words": (head(b"Content-Length: two") + b"{}", 400),
    "a length beyond 64 bits": (head(b"Content-Length: 99999999999999999999"), 400),
    "two lengths": (head(b"Content-Length: 2", b"Content-Length: 3") + b"{}", 400),
    "a length and chunks": (chunked(CHUNK + b"0\r\n\r\n", b"Content-Length: 5"), 400),
    "chunks and a length": (
        head(b"Content-Length: 5", b"Transfer-Encoding: chunked") + b"0\r\n\r\n",
        400,
    ),
    "chunks and then another coding": (
        head(b"Transfer-Encoding: chunked, identity") + b"0\r\n\r\n",
        400,
    ),
    "another coding": (head(b"Transfer-Encoding: gzip") + b"0\r\n\r\n", 400),
    "trailers that look like framing": (chunked(CHUNK + b"0\r\ncontent-length: 7\r\n\r\n"), 400),
    "a head without end": (b"GET / HTTP/1.1\r\nX: " + b"x" * ENDLESS, 400),
    "a name without end": (b"GET / HTTP/1.1\r\n" + b"x" * ENDLESS, 400),
    "a path without end": (b"GET /" + b"x" * ENDLESS, 400),
    "a long head": (b"GET / HTTP/1.1\r\nX: " + b"x" * 70_000 + b"\r\n\r\n", 400),
    "many fields": (b"GET / HTTP/1.1\r\n" + b"a:\r\n" * 1000 + b"\r\n", 400),
    "fields without end": (b"GET / HTTP/1.1\r\n" + b"a:b\r\n" * ENDLESS, 400),
    "empty lines without end": (b"\r\n" * ENDLESS, 400),
    "a size in words": (chunked(b"zz\r\n"), 400),
    "a size beyond 64 bits": (chunked(b"1" * 17 + b"\r\n"), 400),
    "a chunk that goes on": (chunked(b"1\r\nabc\r\n0\r\n\r\n"), 400),
    "an extension without end": (chunked(b"1;" + b"x" * ENDLESS), 400),
    "trailers without end": (chunked(b"0\r\n" + b"a:b\r\n" * ENDLESS), 400),
    "a trailer without end": (chunked(b"0\r\na: " + b"b" * ENDLESS), 400),
    "a trailer of nothing": (chunked(b"0\r\n\0: b\r\n\r\n"), 400),
    "extensions without end": (chunked((b"1;" + b"x" * 5000 + b"\r\nx\r\n") * 80), 400),
    "an upgrade": (head(*UPGRADE, line=b"GET /livez HTTP/1.1"), 400),
    "an upgrade to websocket": (
        head(UPGRADE[0], b"Upgrade: websocket", line=b"GET /livez HTTP/1.1"),
        400,
    ),
    "an upgrade among others": (
        head(b"Connection: keep-alive, Upgrade", UPGRADE[1], line=b"GET /livez HTTP/1.1"),
        400,
    ),
    "an upgrade with a body": (head(*UPGRADE, LENGTH) + BODY, 400),
    "an upgrade with chunks": (chunked(CHUNK + b"0\r\n\r\n", *UPGRADE), 400),
    "HTTP/0.9": (b"GET /livez\r\n\r\n", 200),
    "HTTP/1.0": (get(b"/livez", b"1.0"), 200),
    "HTTP/1.0 without a host": (b"GET /livez HTTP/1.0\r\n\r\n", 200),
    "the client's last": (b"GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 200),
}
CONVERSATIONS: Final = [
    *((name, sent, 200, False) for name, sent in FINE.items()),
    *((name, sent, status, False) for name, (sent, status) in REFUSED.items()),
    *((name, sent, status, True) for name, (sent, status) in LAST.items()),
]


@dataclass
class Server:
    """A server that answers ``/hold`` after ``/release``, and ``/large`` with 8 MB."""

    extender: Extender
    url: str
    tls: ssl.SSLContext | None

    def connect(self) -> Connection:
        return Connection(self.url, self.tls)


def delays(extender: Extender) -> None:
    going: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)

    async def hold(asked: Request) -> Response:
        await going[asked.path_params["key"]].wait()
        return Response("{}")

    async def release(asked: Request) -> Response:
        going[asked.path_params["key"]].set()
        return Response("{}")

    async def large(_: Request) -> Response:
        return Response("x" * 2 * LIMIT)

    delayed = {"/hold/{key}": hold, "/release/{key}": release, "/large": large}
    extender.asgi.router.routes.extend(Route(path, answer) for path, answer in delayed.items())


@pytest.fixture(scope="module", params=["plain", "tls"])
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    limits: dict[str, Any] = {"maxBodyBytes": LIMIT, "maxInFlightBytes": 4 * LIMIT}
    trusting = None
    if request.param == "tls":
        authority = Authority(tmp_path_factory.mktemp("tls"), "ca")
        pair = authority.sign("server")
        limits |= {"tls": {"certFile": str(pair.cert_file), "keyFile": str(pair.key_file)}}
        trusting = ssl.create_default_context(cafile=authority.file)
    extender = Extender(server=limits)
    delays(extender)
    with serve(extender) as served:
        yield Server(extender, served.url, trusting)


def next_answer(line: Connection) -> Answer | None:
    """Return the next answer; None: it was cut off."""
    with contextlib.suppress(EOFError, ConnectionError):
        answer = line.answer()
        if len(answer.body) == int(answer.headers["content-length"]):
            return answer
    return None


@pytest.mark.parametrize(
    "before",
    [b"", GOOD, get(b"/large")],
    ids=["alone", "behind an answer", "behind a large answer that nobody has read"],
)
@pytest.mark.parametrize(
    ("name", "sent", "status", "ends"), CONVERSATIONS, ids=[row[0] for row in CONVERSATIONS]
)
def test_odd_conversations_are_answered_or_end_and_keep_nothing(
    server: Server, name: str, sent: bytes, status: int, ends: bool, before: bytes
) -> None:
    """A request behind one that ends the connection is never answered."""
    del name
    # Nothing may follow a head or body without end, which it would end.
    smuggled = GOOD if ends and len(sent) < ENDLESS else b""
    with server.connect() as line, server.connect() as other:
        if before:
            line.send(before)
            line.begun()
        with contextlib.suppress(OSError):
            line.send(sent, smuggled)
        for expected in [200, status] if before else [status]:
            answer = next_answer(line)
            if before and ends and (answer is None or answer.status == 400):
                # TCP drops what the client has not read where the server closes on unread bytes.
                break
            assert answer is not None
            assert answer.status == expected
        if ends:
            assert next_answer(line) is None
        else:
            assert line.get("/livez").body == b"ok"
        assert other.get("/livez").body == b"ok"
    eventually(lambda: server.extender.counted(IN_FLIGHT) == 0)


@pytest.mark.parametrize(
    ("name", "sent"),
    [(name, sent) for name, sent, _, _ in CONVERSATIONS],
    ids=[row[0] for row in CONVERSATIONS],
)
def test_a_request_that_does_not_wait_for_an_answer_ends_its_connection(
    server: Server, name: str, sent: bytes
) -> None:
    key = re.sub(r"\W", "-", name)
    with server.connect() as line, server.connect() as other:
        line.send(get(b"/hold/%b" % key.encode()))
        assert other.get("/livez").status == 200
        with contextlib.suppress(OSError):
            line.send(sent)
        answer = next_answer(line)
        assert answer is None or answer.status == 400
        assert next_answer(line) is None
        assert other.get(f"/release/{key}").status == 200
    eventually(lambda: server.extender.counted(IN_FLIGHT) == 0)
