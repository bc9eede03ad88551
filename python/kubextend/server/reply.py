"""Sends HTTP answers: JSON with a Content-Length, and refusals as ``{"Error": message}``."""

import asyncio
from collections.abc import Iterable
from typing import Final

import orjson
from starlette.types import Send

from kubextend.metrics import Family
from kubextend.verbs.answer import Body

__all__ = ["REFUSED", "RefusedError", "error_body", "refuse", "reply"]

REFUSED: Final = Family(
    "kubextend_requests_refused",
    "Requests answered with a status other than 200, by that status.",
    ("status",),
)

_Header = tuple[bytes, bytes]

JSON = b"application/json"

# A larger answer is sent in pieces: each waits until the client has read most of the piece before.
_LARGE_BYTES: Final = 256 * 1024
# TLS copies each piece, and holds up the event loop meanwhile.
_PIECE_BYTES: Final = 1024 * 1024


class RefusedError(Exception):
    """Raised to refuse a request with an HTTP status and a message.

    Attributes:
        status: the HTTP status of the refusal.
        message: says on one line what was wrong and where.
        retry_after_s: the seconds in the header Retry-After; None: no header, as to repeat the
            request is of no use.
    """

    def __init__(self, status: int, message: str, *, retry_after_s: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.retry_after_s = retry_after_s


async def reply(send: Send, status: int, body: Body, headers: Iterable[_Header] = ()) -> None:
    """Send a JSON answer; a body above 256 KiB goes out in pieces, as fast as the client reads.

    The answer has a Content-Length: a chunked answer, or a byte behind its end, would cost
    kube-scheduler a new connection.
    """
    await send(
        {
            "type": "http.response.start",
            "status": status,
            "headers": [
                (b"content-type", JSON),
                (b"content-length", b"%d" % len(body)),
                *headers,
            ],
        }
    )
    if len(body) <= _LARGE_BYTES:
        await send({"type": "http.response.body", "body": body})
    else:
        await _send_large(send, memoryview(body))


async def _send_large(send: Send, body: memoryview) -> None:
    """Send the body of a large answer in pieces of 1 MiB, without copying the body.

    After each piece, other requests have their turn.
    """
    for start in range(0, len(body), _PIECE_BYTES):
        piece = body[start : start + _PIECE_BYTES]
        await send({"type": "http.response.body", "body": piece, "more_body": True})
        # While the client reads as fast as the server writes, ``send`` never waits.
        await asyncio.sleep(0)
    await send({"type": "http.response.body", "body": b""})


async def refuse(send: Send, refused: RefusedError, headers: Iterable[_Header] = ()) -> None:
    """Send a refusal: its status, ``{"Error": message}``, and Retry-After if it has one."""
    body = error_body(refused.message)
    if refused.retry_after_s is not None:
        headers = (*headers, (b"retry-after", b"%d" % refused.retry_after_s))
    await reply(send, refused.status, body, headers)


def error_body(message: str) -> bytes:
    """Return the JSON ``{"Error": message}``, the body of a refusal."""
    return orjson.dumps({"Error": message.encode(errors="replace").decode()})
