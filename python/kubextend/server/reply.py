"""HTTP answers: JSON that is bytes already, and refusals as ``{"Error": message}``."""

import asyncio
from http import HTTPStatus
from typing import Final

import orjson
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import Scope, Send

from kubextend.metrics import Family
from kubextend.server.connection import connection_of
from kubextend.verbs.answer import Body

__all__ = ["REFUSED", "json_response", "refusal", "send_json"]

REFUSED: Final = Family(
    "kubextend_requests_refused", "Requests answered with a status other than 200.", ("status",)
)
# A larger answer is sent in pieces, as fast as the client reads. TLS copies each piece, and holds
# up the event loop meanwhile.
_PIECE_BYTES: Final = 256 * 1024


async def send_json(scope: Scope, send: Send, status: int, body: Body) -> None:
    """Send a JSON answer, with a Content-Length; between pieces of 256 KiB others have their turn.

    A chunked answer, or a byte behind its end, would cost kube-scheduler a new connection.
    """
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    if len(body) > _PIECE_BYTES:
        pieces, connection = memoryview(body), connection_of(scope)
        for at in range(0, len(body) - 1, _PIECE_BYTES):
            piece = pieces[at : min(at + _PIECE_BYTES, len(body) - 1)]
            await send({"type": "http.response.body", "body": piece, "more_body": True})
            # While the client reads as fast as the server writes, ``send`` never waits.
            await asyncio.sleep(0)
            if connection is not None and connection.cycle.disconnected:
                return
        # Who has all of an answer may ask again, so that the last byte has to end it.
        body = bytes(pieces[-1:])
    await send({"type": "http.response.body", "body": body})


def json_response(answer: object, status: int = 200, option: int = 0) -> Response:
    """Return a response of JSON, with times in UTC."""
    body = orjson.dumps(answer, default=str, option=orjson.OPT_UTC_Z | option)
    return Response(body, status, media_type="application/json")


def refusal(scope: Scope, error: HTTPException) -> Response:
    """Return the answer to a request that is refused, with what Starlette's own refusals lack."""
    message = error.detail
    if message == HTTPStatus(error.status_code).phrase:
        message = f"{scope['method']} {scope['path']}: {message}"
    error_text = message.encode(errors="replace").decode()
    response = json_response({"Error": error_text}, error.status_code)
    for name, value in (error.headers or {}).items():
        response.headers[name] = ", ".join(sorted(value.split(", ")))
    return response
