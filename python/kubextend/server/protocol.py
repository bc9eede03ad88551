"""uvicorn's HTTP/1.1 protocol, with bounds on what it reads without an application's leave."""

from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

__all__ = ["BoundedProtocol"]

_MOST_HEAD_BYTES = 64 * 1024
_MOST_DROPPED_BYTES = 16 * 1024 * 1024
_HEAD_TOO_LARGE = b"""{"Error":"the request's head is larger than 65536 bytes"}"""


class BoundedProtocol(HttpToolsProtocol):
    """Refuses heads without end, and hangs up on bodies that go on after their refusal."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._in_head = False
        self._head_bytes = 0
        self._dropped_bytes = 0

    def data_received(self, data: bytes) -> None:
        """The bytes are parsed; a head that is still not whole and too large ends it all."""
        super().data_received(data)
        if self._in_head:
            self._head_bytes += len(data)
            if self._head_bytes > _MOST_HEAD_BYTES:
                self._refuse_head()

    def on_message_begin(self) -> None:
        """A request line has begun."""
        self._in_head = True
        self._head_bytes = self._dropped_bytes = 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """The head is whole."""
        self._in_head = False
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """A piece of the body: dropped once the request is answered, but not for ever.

        Hanging up at once could take the refusal from the client along with the connection.
        """
        if self.cycle.response_complete:
            self._dropped_bytes += len(body)
            if self._dropped_bytes > _MOST_DROPPED_BYTES:
                self.transport.close()
            return
        super().on_body(body)

    def _refuse_head(self) -> None:
        self._in_head = False
        self.transport.write(
            b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
            b"content-type: application/json\r\n"
            b"content-length: %d\r\n"
            b"connection: close\r\n\r\n%b" % (len(_HEAD_TOO_LARGE), _HEAD_TOO_LARGE)
        )
        self.transport.close()
