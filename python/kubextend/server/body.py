"""Reading a request's body within its limit."""

from email.message import Message as MimeHeader

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope

from kubextend.server.reply import RefusedError

__all__ = ["read_body"]


async def read_body(scope: Scope, receive: Receive, most_bytes: int, limit: str = "") -> bytes:
    """The whole body of a request that says that it is JSON.

    Args:
        scope: of the request.
        receive: brings the body.
        most_bytes: how long it may be.
        limit: what in the configuration says so; empty where nothing does.

    Raises:
        RefusedError: 415 for another type or a compressed body, 413 beyond the limit: at once
            where the length is declared, else as soon as that much has come.
        ClientDisconnect: the client went away.
    """
    headers = Headers(scope=scope)
    _check_type(headers)
    _check_declared_length(headers, most_bytes, limit)
    chunks: list[bytes] = []
    length = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        chunk: bytes = message.get("body", b"")
        length += len(chunk)
        if length > most_bytes:
            raise _too_large(most_bytes, limit)
        chunks.append(chunk)
        if not message.get("more_body", False):
            return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def _check_type(headers: Headers) -> None:
    encoding = headers.get("content-encoding", "identity")
    if encoding.lower() != "identity":
        message = f"Content-Encoding: {encoding!r} is not taken; send the body as it is"
        raise RefusedError(415, message)
    given = headers.get("content-type", "")
    if given == "application/json":
        return
    mime = MimeHeader()
    mime["content-type"] = given or "none/none"
    if mime.get_content_type() == "application/json" and _is_utf8(mime.get_content_charset()):
        return
    message = f"Content-Type: {given!r} is not taken; send application/json"
    raise RefusedError(415, message)


def _is_utf8(charset: str | None) -> bool:
    return charset in {None, "utf-8", "utf8"}


def _check_declared_length(headers: Headers, most_bytes: int, limit: str) -> None:
    declared = headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > most_bytes:
        raise _too_large(most_bytes, limit)


def _too_large(most_bytes: int, limit: str) -> RefusedError:
    set_by = f" ({limit})" if limit else ""
    return RefusedError(413, f"the body is larger than {most_bytes} bytes{set_by}")
