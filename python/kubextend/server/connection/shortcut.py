"""A way for small requests that takes no task, no scope and no event: parsed, answered, written.

Most of what kube-scheduler asks in names mode is answered by the core in less time than an ASGI
server needs to hand it over. A request takes the shortcut when it is plain, its verb never waits,
and nothing else is going on; any other goes the long way, with whatever was parsed of it.
"""

import asyncio  # noqa: TC003  at runtime it is loaded anyway
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any, Final, NamedTuple, TypeAlias

from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from kubextend.server.connection.protocol import BoundedProtocol
from kubextend.verbs.answer import Body

__all__ = ["MOST_SHORTCUT_BYTES", "ShortAnswer", "Shortcut", "ShortcutProtocol"]

# Larger bodies seldom come in one read, and count as in flight until they are answered.
MOST_SHORTCUT_BYTES: Final = 64 * 1024
# A client sends the head and the body by two or three writes, one right after the other.
_REST_COMES_IN_S: Final = 0.02
_JSON: Final = b"application/json"
_MAKE_IT_LONG: Final = frozenset(
    {b"connection", b"content-encoding", b"expect", b"transfer-encoding", b"upgrade"}
)


class ShortAnswer(NamedTuple):
    """What is written at once: a status and JSON."""

    status: HTTPStatus
    body: Body


Shortcut: TypeAlias = Callable[[bytes], ShortAnswer]
"""Answers a body on the event loop; raises nothing."""


class ShortcutProtocol(BoundedProtocol):
    """Answers small requests of some paths by itself.

    Args:
        args: uvicorn's.
        shortcuts: by path, what answers a POST.
        kwargs: those of the protocol without shortcuts.
    """

    __slots__ = ("_piece", "_rest", "_shortcut", "_shortcuts")

    def __init__(self, *args: Any, shortcuts: Mapping[bytes, Shortcut], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._shortcuts = shortcuts
        self._shortcut: Shortcut | None = None
        self._piece = b""
        self._rest: asyncio.TimerHandle | None = None

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing is answered any more."""
        self._shortcut = None
        super().connection_lost(exc)

    def shutdown(self) -> None:
        """A request that is half there is one that is in flight."""
        self._take_the_long_way()
        super().shutdown()

    def data_received(self, data: bytes) -> None:
        """The bytes are parsed, and answered where that needs no application."""
        super().data_received(data)
        if self._shortcut is not None and self._rest is None:
            self._rest = self.loop.call_later(_REST_COMES_IN_S, self._take_the_long_way)

    def on_headers_complete(self) -> None:
        """The head is whole, and says which way the request goes."""
        shortcut = self._shortcuts.get(self.url)
        if shortcut is not None and self._is_plain() and self._is_free():
            self._head_is_whole()
            self._shortcut = shortcut
            self._piece = b""
        else:
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """A piece of the body."""
        if self._shortcut is None:
            super().on_body(body)
        else:
            self._piece = self._piece + body if self._piece else body

    def on_message_complete(self) -> None:
        """The body is whole."""
        shortcut = self._shortcut
        if shortcut is None:
            super().on_message_complete()
            return
        self._shortcut = None
        self._stop_waiting_for_the_rest()
        self._body_came()
        self._write(shortcut(self._piece))

    def _is_plain(self) -> bool:
        """Whether there is nothing to it but a JSON body that is small."""
        headers = dict(self.headers)
        length = headers.get(b"content-length")
        return (
            length is not None
            and int(length) <= MOST_SHORTCUT_BYTES
            and headers.get(b"content-type") == _JSON
            and _MAKE_IT_LONG.isdisjoint(headers)
            and self.parser.get_method() == b"POST"
            and self.parser.get_http_version() == "1.1"
        )

    def _is_free(self) -> bool:
        """Whether an answer written now is the next one that the client expects, and read."""
        return (
            (self.cycle is None or self.cycle.response_complete)
            and not self.flow.write_paused
            and not self._ending()
        )

    def _take_the_long_way(self) -> None:
        if self._shortcut is None:
            return
        self._shortcut = None
        self._stop_waiting_for_the_rest()
        super().on_headers_complete()
        if self._piece:
            super().on_body(self._piece)
        self._wait_for_the_rest()

    def _stop_waiting_for_the_rest(self) -> None:
        if self._rest is not None:
            self._rest.cancel()
            self._rest = None

    def _write(self, answer: ShortAnswer) -> None:
        self.server_state.total_requests += 1
        head = [STATUS_LINE[answer.status]]
        for name, value in self.server_state.default_headers:
            head += (name, b": ", value, b"\r\n")
        head.append(
            b"content-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(answer.body)
        )
        body = answer.body if isinstance(answer.body, bytes) else memoryview(answer.body)
        self.transport.writelines([b"".join(head), body])
