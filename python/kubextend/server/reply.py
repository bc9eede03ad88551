"""Answers on the wire: always a Content-Length, never a redirect, errors on one line of JSON."""

from collections.abc import Iterable

import orjson
from starlette.datastructures import Headers
from starlette.types import Scope, Send

__all__ = ["RefusedError", "refuse", "reply"]

_Header = tuple[bytes, bytes]

JSON = b"application/json"


class RefusedError(Exception):
    """A request that no verb will see.

    Attributes:
        status: the HTTP status.
        message: one line that says where and what.
        unread: the body was not read to its end.
    """

    def __init__(self, status: int, message: str, *, unread: bool = True) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.unread = unread


async def reply(send: Send, status: int, body: bytes, headers: Iterable[_Header] = ()) -> None:
    """A JSON answer has been handed to the server in one piece.

    A chunked answer, or bytes behind its end, would cost kube-scheduler a new connection each time.
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
    await send({"type": "http.response.body", "body": body})


async def refuse(
    scope: Scope, send: Send, refused: RefusedError, headers: Iterable[_Header] = ()
) -> None:
    """The refusal has been handed to the server as ``{"Error": message}``."""
    body = orjson.dumps({"Error": refused.message.encode(errors="replace").decode()})
    await reply(send, refused.status, body, (*headers, *_closing(scope, refused)))


def _closing(scope: Scope, refused: RefusedError) -> Iterable[_Header]:
    """A client that waits for 100 Continue may send its next request where a body is due."""
    if refused.unread and "expect" in Headers(scope=scope):
        return ((b"connection", b"close"),)
    return ()
