"""Hostile conversations: tables of odd requests with the answers that are expected.

Expectations are those of RFC 9112 and of the limits that the server has: a request that cannot be
read is refused with 400 or 431 when what came before it is answered, and ends the connection.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

BODY: Final = json.dumps({"Pod": {"metadata": {"name": "p"}}, "Nodes": {"items": []}}).encode()
_TOO_LARGE: Final = 431
# More than one read of the server's and its limit together.
_ENDLESS: Final = 400_000


def get(path: bytes, version: bytes = b"1.1") -> bytes:
    return b"GET %b HTTP/%b\r\nHost: x\r\n\r\n" % (path, version)


GOOD: Final = get(b"/livez")


@dataclass(frozen=True, slots=True)
class Conversation:
    """The bytes that a client sends on a connection, and the answers that are expected.

    Attributes:
        name: Names the rows of the tables that make the conversation.
        sent: The bytes, each piece sent by a call of its own.
        statuses: The statuses of the answers, in order.
        ends: Whether the server closes the connection after the answers; else it serves the next
            request.
        held: The key of ``/hold/KEY``: the first answer is held until everything is sent. Empty: no
            answer is held.
        hasty: Whether the listener is used that waits half a second for a client.
        half_closed: Whether the client closes its sending side after the bytes.
        may_be_cut: Whether the server closes the connection with unread bytes, so that TCP may drop
            answers that the client has not read.
        tls: Whether the connection uses TLS.
    """

    name: str
    sent: tuple[bytes, ...]
    statuses: tuple[int, ...]
    ends: bool
    held: str = ""
    hasty: bool = False
    half_closed: bool = False
    may_be_cut: bool = False
    tls: bool = False


def _head(*fields: bytes, line: bytes = b"POST /filter HTTP/1.1") -> bytes:
    json_type = b"Content-Type: application/json"
    return b"\r\n".join([line, b"Host: x", json_type, *fields, b"", b""])


def _chunked(rest: bytes, *fields: bytes) -> bytes:
    return _head(b"Transfer-Encoding: chunked", *fields) + rest


def _chunks(size: int) -> bytes:
    pieces = [BODY[start : start + size] for start in range(0, len(BODY), size)]
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces)


_LENGTH: Final = b"Content-Length: %d" % len(BODY)
_CHUNK: Final = _chunks(len(BODY))
_BY_BYTE: Final = _chunks(1)

# Name, bytes: valid requests, which any server has to answer without closing the connection.
_FINE: Final = {
    "get": GOOD,
    "plain": _head(_LENGTH) + BODY,
    "names in any case": _head(_LENGTH.lower()) + BODY,
    "a query": _head(_LENGTH, line=b"POST /filter?x=y HTTP/1.1") + BODY,
    "a chunk": _chunked(_CHUNK + b"0\r\n\r\n"),
    "chunks of a byte": _chunked(_BY_BYTE + b"0\r\n\r\n"),
    "trailers": _chunked(_CHUNK + b"0\r\na: b\r\nc: d\r\n\r\n"),
    "an extension": _chunked(b"%x;a=b;c\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY)),
    "a size in capitals": _chunked(b"%X\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY)),
    "empty lines before": b"\r\n" * 20 + GOOD,
    "100 fields": _head(_LENGTH, *[b"X-%d: y" % number for number in range(100)]) + BODY,
    "a long field": _head(_LENGTH, b"X: " + b"y" * 30_000) + BODY,
    "a wish to upgrade that no connection field names": _head(_LENGTH, b"Upgrade: h2c") + BODY,
}

# Name, bytes, status: valid requests that are refused while the connection stays open.
_REFUSED: Final = {
    "nothing there": (get(b"/nothing"), 404),
    "nothing there, with trailers": (
        _head(b"Transfer-Encoding: chunked", line=b"POST /nothing HTTP/1.1")
        + b"5\r\nabcde\r\n0\r\na: b\r\n\r\n",
        404,
    ),
    "not by get": (get(b"/filter"), 405),
    "no JSON": (_head(b"Content-Length: 1") + b"{", 400),
    "no body": (_head(b"Content-Length: 0"), 400),
    "another type": (
        b"POST /filter HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\n%b\r\n\r\n%b"
        % (_LENGTH, BODY),
        415,
    ),
    "another encoding": (_head(_LENGTH, b"Content-Encoding: gzip") + BODY, 415),
}

# Name, bytes, status: requests that are refused, and after which nothing is read.
_BAD: Final = {
    "garbage": (b"garbage\r\n\r\n", 400),
    "binary": (bytes(range(128, 256)), 400),
    "a TLS hello": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(32), 400),
    "another version": (get(b"/livez", b"9.9"), 400),
    "a blank in a name": (_head(b"Content Length: 0"), 400),
    "a blank before a colon": (_head(b"Transfer-Encoding : chunked") + b"0\r\n\r\n", 400),
    "a NUL in a value": (_head(b"X: a\0b", _LENGTH) + BODY, 400),
    "a length below nothing": (_head(b"Content-Length: -1"), 400),
    "a length with a sign": (_head(b"Content-Length: +2") + b"{}", 400),
    "a length in words": (_head(b"Content-Length: two") + b"{}", 400),
    "a length beyond 64 bits": (_head(b"Content-Length: 99999999999999999999"), 400),
    "two lengths": (_head(b"Content-Length: 2", b"Content-Length: 3") + b"{}", 400),
    "a length and chunks": (_chunked(_CHUNK + b"0\r\n\r\n", b"Content-Length: 5"), 400),
    "chunks and then another coding": (
        _head(b"Transfer-Encoding: chunked, identity") + b"0\r\n\r\n",
        400,
    ),
    "chunks of another coding": (
        _head(b"Transfer-Encoding: gzip, chunked") + b"0\r\n\r\n",
        501,
    ),
    "another coding": (_head(b"Transfer-Encoding: gzip") + b"0\r\n\r\n", 501),
    "chunks and a length": (
        _head(b"Content-Length: 5", b"Transfer-Encoding: chunked") + b"0\r\n\r\n",
        400,
    ),
    "no host": (b"GET /livez HTTP/1.1\r\n\r\n", 400),
    "two hosts": (b"GET /livez HTTP/1.1\r\nHost: x\r\nhost: x\r\n\r\n", 400),
    "two hosts in HTTP/1.0": (b"GET /livez HTTP/1.0\r\nHost: x\r\nHost: y\r\n\r\n", 400),
    "a probe with a large body": (
        b"POST /livez HTTP/1.1\r\nHost: x\r\nContent-Length: 4097\r\n\r\n",
        413,
    ),
    "trailers that look like framing": (
        _chunked(_CHUNK + b"0\r\ncontent-length: 7\r\n\r\n"),
        400,
    ),
    "a head without end": (b"GET / HTTP/1.1\r\nX: " + b"x" * _ENDLESS, 431),
    "a name without end": (b"GET / HTTP/1.1\r\n" + b"x" * _ENDLESS, 431),
    "a path without end": (b"GET /" + b"x" * _ENDLESS, 431),
    "a long head": (b"GET / HTTP/1.1\r\nX: " + b"x" * 70_000 + b"\r\n\r\n", 431),
    "many fields": (b"GET / HTTP/1.1\r\n" + b"a:\r\n" * 1000 + b"\r\n", 431),
    "fields without end": (b"GET / HTTP/1.1\r\n" + b"a:b\r\n" * _ENDLESS, 431),
    "empty lines without end": (b"\r\n" * _ENDLESS, 431),
    "a size in words": (_chunked(b"zz\r\n"), 400),
    "a size beyond 64 bits": (_chunked(b"1" * 17 + b"\r\n"), 400),
    "a chunk that goes on": (_chunked(b"1\r\nabc\r\n0\r\n\r\n"), 400),
    "an extension without end": (_chunked(b"1;" + b"x" * _ENDLESS), 431),
    "trailers without end": (_chunked(b"0\r\n" + b"a:b\r\n" * _ENDLESS), 431),
    "a trailer without end": (_chunked(b"0\r\na: " + b"b" * _ENDLESS), 431),
    "a trailer of nothing": (_chunked(b"0\r\n\0: b\r\n\r\n"), 400),
    "extensions without end": (_chunked((b"1;" + b"x" * 5000 + b"\r\nx\r\n") * 80), 431),
}

# Name, fields, body, status: requests to upgrade. The parser reads no body of such a request, and
# the protocol of the bytes behind the request is unknown.
_UPGRADES: Final = {
    "h2c": ((b"Connection: Upgrade", b"Upgrade: h2c"), b"", 200),
    "websocket": ((b"Connection: Upgrade", b"Upgrade: websocket"), b"", 200),
    "among others": ((b"Connection: keep-alive, Upgrade", b"Upgrade: h2c"), b"", 200),
    "with a body": ((b"Connection: Upgrade", b"Upgrade: h2c", _LENGTH), BODY, 400),
    "with chunks": (
        (b"Connection: Upgrade", b"Upgrade: h2c", b"Transfer-Encoding: chunked"),
        _CHUNK + b"0\r\n\r\n",
        400,
    ),
}

_LAST: Final = {
    "HTTP/0.9": b"GET /livez\r\n\r\n",
    "HTTP/1.0": get(b"/livez", b"1.0"),
    "HTTP/1.0 without a host": b"GET /livez HTTP/1.0\r\n\r\n",
    "the client's last": b"GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
}

# Name, bytes, status: what a slow client has sent before it stops, and the answer's status.
_SLOW: Final = {
    "an empty line": (b"\r\n", 408),
    "a letter": (b"G", 408),
    "half a head": (b"GET /livez HTT", 408),
    "half a body": (_head(_LENGTH) + BODY[:5], 408),
    "half a large body": (_head(b"Content-Length: 1000000") + b"x" * 500_000, 408),
    "half a chunk": (_chunked(b"ff\r\nx"), 408),
    "half a trailer": (_chunked(b"0\r\na: "), 408),
}


def _rows() -> Iterator[Conversation]:
    """Yield a conversation for each row of every table of requests."""
    for name, sent in _FINE.items():
        yield Conversation(name, (sent,), (200,), ends=False)
    for name, (sent, status) in (_REFUSED | _BAD).items():
        yield Conversation(name, (sent,), (status,), ends=name in _BAD)
    for name, (fields, body, status) in _UPGRADES.items():
        line = b"POST /filter HTTP/1.1" if body else b"GET /livez HTTP/1.1"
        sent = _head(*fields, line=line) + body
        yield Conversation(f"an upgrade, {name}", (sent,), (status,), ends=True)
    for name, sent in _LAST.items():
        yield Conversation(name, (sent,), (200,), ends=True)


def conversations(*, short: bool = False) -> Iterator[Conversation]:
    """Yield all conversations: each row alone, behind others, in pieces, half-closed, over TLS.

    Args:
        short: Whether to leave out requests in pieces, and over TLS all but each row alone.
    """
    for number, row in enumerate(_rows()):
        for tls in (False, True):
            yield from _about(row, f"{number}-{tls}", tls, short)
    yield from _slow_conversations()
    for name in ("get", "plain", "a chunk", "trailers"):
        how = f"{name}, half-closed"
        yield Conversation(how, (_FINE[name],), (200,), True, half_closed=True, may_be_cut=True)


def _about(row: Conversation, key: str, tls: bool, short: bool) -> Iterator[Conversation]:
    (sent,), endless = row.sent, row.statuses == (_TOO_LARGE,)
    # A request behind one that ends the connection is never answered. Nothing may follow a head or
    # body without end, which it would end.
    smuggled = GOOD if row.ends and not endless else b""

    def made(how: str, *pieces: bytes, first: bool = False, held: str = "") -> Conversation:
        return replace(
            row,
            name=f"{row.name}{how}{' over TLS' if tls else ''}",
            sent=pieces,
            statuses=(200, *row.statuses) if first else row.statuses,
            held=held,
            may_be_cut=bool(how) and endless,
            tls=tls,
        )

    yield made("", sent + smuggled)
    if tls and short:
        return
    yield made(", behind a request in one piece", GOOD + sent + smuggled, first=True)
    hold = get(f"/hold/{key}".encode())
    yield made(", behind a held answer", hold, sent, smuggled, first=True, held=key)
    if row.ends and short:
        return
    yield made(", behind a large answer", get(b"/large"), sent + smuggled, first=True)
    if not short:
        size = max(1, len(sent) // 40)
        pieces = [sent[at : at + size] for at in range(0, len(sent), size)]
        yield made(", in pieces", *pieces, smuggled)


def _slow_conversations() -> Iterator[Conversation]:
    for name, (sent, status) in _SLOW.items():
        for tls in (False, True):
            over = " over TLS" if tls else ""
            yield Conversation(f"slow: {name}{over}", (sent,), (status,), True, hasty=True, tls=tls)
            if sent.strip():
                # In one read with the end of a request an empty line is not noticed.
                how = f"slow: {name}, behind a request{over}"
                both = (GOOD, sent), (200, status)
                yield Conversation(how, *both, True, hasty=True, tls=tls)
