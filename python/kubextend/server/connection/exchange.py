"""One HTTP request and its answer, as an ASGI application sees them."""

import asyncio
import logging
from collections.abc import Iterable
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from starlette.types import ASGIApp, Message, Scope

from kubextend.server.connection.phases import AnswerPhase
from kubextend.server.reply import RefusedError, refuse

if TYPE_CHECKING:
    from kubextend.server.connection.http_connection import HttpConnection

__all__ = ["Exchange"]

_LOGGER = logging.getLogger(__name__)

_STATUS_LINES: Final = {
    status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus
}


class Exchange:
    """A request of a connection and its answer; ``run`` calls the ASGI application.

    Args:
        carrier: the connection.
        app: the application that answers.
        scope: the ASGI scope of the request.
        keep_alive: whether the connection stays open after the answer; also an attribute.
        expects_continue: whether the client waits for 100 Continue before it sends the body.
        is_chunked: whether the body comes in chunks, so that its length is not known.
        held_bytes: the bytes that the connection counts for the request; also an attribute.

    Attributes:
        answer: the state of the answer: not begun, begun or complete.
        body_is_complete: whether the whole body of the request has come.
    """

    __slots__ = (
        "_app",
        "_body",
        "_body_is_taken",
        "_carrier",
        "_expects_continue",
        "_head",
        "_is_chunked",
        "_news",
        "_scope",
        "_unsent_bytes",
        "answer",
        "body_is_complete",
        "held_bytes",
        "keep_alive",
    )

    def __init__(  # noqa: PLR0913  what the head says of the connection
        self,
        carrier: "HttpConnection",
        app: ASGIApp,
        scope: Scope,
        *,
        keep_alive: bool,
        expects_continue: bool = False,
        is_chunked: bool = False,
        held_bytes: int = 0,
    ) -> None:
        self._carrier = carrier
        self._app = app
        self._scope = scope
        self._expects_continue = expects_continue
        self._is_chunked = is_chunked
        self._body = bytearray()
        self._body_is_taken = False
        self._news: asyncio.Event | None = None
        self._head = b""
        self.answer = AnswerPhase.DUE
        self.body_is_complete = False
        self.keep_alive = keep_alive
        self.held_bytes = held_bytes
        # None: the answer is as long as the application makes it.
        self._unsent_bytes: int | None = 0

    @property
    def unsent_bytes(self) -> int:
        """How many bytes of the answer's Content-Length the application has not sent yet."""
        return self._unsent_bytes or 0

    @property
    def untaken_bytes(self) -> int:
        """How many bytes of the body have come and are not taken by the application yet."""
        return len(self._body)

    def add_body(self, piece: bytes) -> None:
        """Add a received piece of the request's body."""
        self._body += piece
        self._tell()

    def complete_body(self) -> None:
        """Mark the request's body as complete, so that ``receive`` reports its end."""
        self.body_is_complete = True
        self._tell()

    def take_body(self) -> bytes:
        """Return the bytes of the body that were received since the last call."""
        body = bytes(self._body)
        self._body.clear()
        self._body_is_taken = self.body_is_complete
        return body

    def withdraw(self) -> None:
        """Write nothing more of the answer, and tell the application that the client is gone."""
        self.answer = AnswerPhase.UNWANTED
        self._tell()

    async def run(self) -> None:
        """Call the application; answer 500 if it fails, or 503 if the server cancels the call.

        If the application fails after it began an answer, the connection is closed.
        """
        refused = None
        try:
            await self._app(self._scope, self.receive, self.send)
        except asyncio.CancelledError:
            # Only the end of the server cancels a request.
            refused = RefusedError(503, "kubextend is shutting down")
        except BaseException:
            # An application may raise SystemExit, and a panic of the core is a BaseException.
            _LOGGER.exception("%s %s failed", self._scope["method"], self._scope["path"])
        if self.answer is AnswerPhase.DUE:
            self.keep_alive = False
            failed = "kubextend failed internally; its log says where"
            await refuse(self.send, refused or RefusedError(500, failed))
        elif self.answer is AnswerPhase.BEGUN:
            self._carrier.abort()

    async def receive(self) -> Message:
        """Return the next ASGI message: a piece of the body, or that the client is gone."""
        self.allow_body()
        while not self._is_over and (self._body_is_taken or not self._has_body_news):
            self._carrier.read_on()
            self._news = self._news or asyncio.Event()
            await self._news.wait()
        if self._is_over:
            return {"type": "http.disconnect"}
        more_body = not self.body_is_complete
        body = self.take_body()
        self._carrier.read_on()
        return {"type": "http.request", "body": body, "more_body": more_body}

    def allow_body(self) -> None:
        """Send 100 Continue to a client that waits for it before it sends the body."""
        if self._expects_continue and self.answer is AnswerPhase.DUE:
            self._expects_continue = False
            self._carrier.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    async def send(self, message: Message) -> None:
        """Send an ASGI message of the answer, after the client read most of the earlier bytes."""
        await self._carrier.writable()
        if self.answer is AnswerPhase.UNWANTED:
            return
        if message["type"] == "http.response.start":
            self._begin(message["status"], message["headers"])
        else:
            self._write_body(message.get("body", b""), last=not message.get("more_body", False))

    def _begin(self, status: int, headers: Iterable[tuple[bytes, bytes]]) -> None:
        self._unsent_bytes = None
        fields = []
        for name, value in (*self._carrier.default_headers(), *headers):
            if name == b"connection":
                self.keep_alive = self.keep_alive and value.lower() != b"close"
                continue
            if name == b"content-length":
                self._unsent_bytes = int(value)
            fields.append(b"%b: %b\r\n" % (name, value))
        if self._unsent_bytes is None:
            # The end of such an answer is the end of the connection.
            self.keep_alive = False
        if not self.body_is_complete and (self._is_chunked or self._expects_continue):
            # Chunks that nobody takes cost as much as those that somebody takes. A client that was
            # not told to send its body may send its next request where the body is due.
            self.keep_alive = False
        if not self.keep_alive:
            fields.append(b"connection: close\r\n")
        text = b"".join(fields)
        if text.count(b"\n") != len(fields):
            message = "a header of the answer has more than one line; write it on one line"
            raise ValueError(message)
        if self._scope["method"] == "HEAD":
            self._unsent_bytes = None
        self._head = b"%b%b\r\n" % (_STATUS_LINES[status], text)
        self.answer = AnswerPhase.BEGUN

    def _write_body(self, piece: bytes | bytearray | memoryview, *, last: bool) -> None:
        if self._unsent_bytes is not None:
            self._unsent_bytes -= len(piece)
            if self._unsent_bytes < 0 or (last and self._unsent_bytes):
                message = "the answer is not as long as its Content-Length"
                raise ValueError(message)
        # The head goes out with the first piece: two system calls would cost more than the rest.
        head, self._head = self._head, b""
        pieces = [head, b"" if self._scope["method"] == "HEAD" else piece]
        if any(pieces):
            self._carrier.write(*pieces)
        if last:
            self.answer = AnswerPhase.COMPLETE
            self._tell()
            self._carrier.answered()

    @property
    def _is_over(self) -> bool:
        return self.answer is AnswerPhase.COMPLETE or self.answer is AnswerPhase.UNWANTED

    @property
    def _has_body_news(self) -> bool:
        return bool(self._body) or self.body_is_complete

    def _tell(self) -> None:
        if self._news is not None:
            self._news.set()
            self._news = None
