from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any, cast

import pytest
from urllib3.exceptions import ProtocolError, ReadTimeoutError

from kubextend.cluster import UnreachableError
from kubextend.cluster import stream as stream_module
from kubextend.cluster.api_call import Call
from kubextend.cluster.client import retry_after_s
from kubextend.cluster.stream import Stream

if TYPE_CHECKING:
    from collections.abc import Iterator

    from urllib3 import BaseHTTPResponse

CALL = Call("GET", "/api/v1/nodes", 1.0)


class Answer:
    """A response that comes in the pieces it is given."""

    def __init__(self, *pieces: bytes | Exception, chunked: bool = True) -> None:
        self.chunked = chunked
        self._pieces = list(pieces)

    def stream(self, _: int, *, decode_content: bool) -> Iterator[bytes]:
        assert not decode_content
        while self._pieces:
            yield self.read1(0, decode_content=decode_content)

    def read1(self, _: int, *, decode_content: bool) -> bytes:
        assert not decode_content
        piece = self._pieces.pop(0) if self._pieces else b""
        if isinstance(piece, Exception):
            raise piece
        return piece


def stream_of(*pieces: bytes | Exception, chunked: bool = True) -> Stream:
    return Stream(cast("BaseHTTPResponse", Answer(*pieces, chunked=chunked)), CALL)


def lines_of(stream: Stream) -> list[bytes]:
    return [line for batch in stream.batches() for line in batch]


@pytest.mark.parametrize("chunked", [True, False])
def test_lines_come_whole_wherever_they_are_cut(chunked: bool) -> None:
    text = b'{"a":1}\n{"b":"' + b"x" * 20 + b'"}\n\n{"c":3}\n'
    expected = text.split(b"\n")[:-1]
    for size in range(1, len(text) + 1):
        pieces = [text[at : at + size] for at in range(0, len(text), size)]
        assert lines_of(stream_of(*pieces, chunked=chunked)) == expected


@pytest.mark.parametrize(
    ("pieces", "batches"),
    [
        ([], []),
        ([b"a\nb\nc\n"], [[b"a", b"b", b"c"]]),
        ([b"a\nb", b"c\n"], [[b"a"], [b"bc"]]),
        ([b"a\nno end"], [[b"a"]]),
        ([b"no end at all"], []),
    ],
)
def test_a_batch_is_what_one_read_completed(
    pieces: list[bytes], batches: list[list[bytes]]
) -> None:
    assert list(stream_of(*pieces).batches()) == batches


@pytest.mark.parametrize(
    "failure",
    [
        ReadTimeoutError(cast("Any", None), "", "Read timed out."),
        ProtocolError("Connection broken"),
        ConnectionResetError(104, "reset"),
    ],
)
def test_a_broken_stream_gives_what_came_and_then_says_so(failure: Exception) -> None:
    batches = stream_of(b"a\n", failure).batches()
    assert next(batches) == [b"a"]
    with pytest.raises(UnreachableError, match="GET /api/v1/nodes"):
        next(batches)


def test_a_line_without_an_end_is_not_collected_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stream_module, "LINE_LIMIT_BYTES", 10)
    with pytest.raises(UnreachableError, match="more than 10 bytes"):
        lines_of(stream_of(*[b"xxx"] * 4))
    with pytest.raises(UnreachableError, match="more than 10 bytes"):
        lines_of(stream_of(b"a\nxxx", *[b"xxx"] * 3))


def test_a_stream_of_short_lines_may_be_as_long_as_it_likes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stream_module, "LINE_LIMIT_BYTES", 10)
    assert lines_of(stream_of(*[b"x\nxx", b"x\n"] * 50)) == [b"x", b"xxx"] * 50


def test_shutting_a_stream_that_has_ended_is_harmless() -> None:
    class Ended(Answer):
        def shutdown(self) -> None:
            raise ValueError

        def close(self) -> None:
            raise socket.timeout  # noqa: UP041 - the name that urllib3's layers raise

    stream = Stream(cast("BaseHTTPResponse", Ended()), CALL)
    stream.shut()
    stream.close()


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        (None, None),
        ("", None),
        ("soon", None),
        ("0", 0.0),
        ("7", 7.0),
        ("-1", 0.0),
        ("86400", 120.0),
        ("1.5", None),
        ("Sat, 01 Jan 2000 00:00:30 GMT", 30.0),
        ("Fri, 31 Dec 1999 23:59:00 GMT", 0.0),
    ],
)
def test_retry_after_is_read_in_both_forms(header: str | None, seconds: float | None) -> None:
    headers = {} if header is None else {"Retry-After": header}
    assert retry_after_s(headers, now=946_684_800.0) == seconds
