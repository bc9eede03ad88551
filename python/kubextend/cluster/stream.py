"""Reads the response of a watch as it arrives, and splits it into lines."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from urllib3.exceptions import HTTPError

from kubextend.cluster.api_call import UnreachableError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from urllib3 import BaseHTTPResponse

    from kubextend.cluster.api_call import Call

READ_BYTES = 1 << 16
LINE_LIMIT_BYTES = 64 << 20
"""The most bytes of a watch's line: many times etcd's largest object, so no event is longer."""

BROKEN = (HTTPError, OSError)
"""The errors that reading an HTTP response may raise."""


class Stream:
    """The open response of one watch, read as batches of complete lines until the API ends it."""

    def __init__(self, response: BaseHTTPResponse, call: Call) -> None:
        self._response = response
        self._call = call

    def batches(self) -> Iterator[list[bytes]]:
        """Yield the complete lines of each read from the socket, without their line ends.

        The method drops an incomplete line at the end of the response: the next watch brings that
        event again.

        Raises:
            UnreachableError: the connection broke, was silent for too long, or sent a line of more
                than 64 MiB.
        """
        parts: list[bytes] = []
        held = 0
        for data in self._reads():
            parts.append(data)
            held += len(data)
            if held > LINE_LIMIT_BYTES:
                raise UnreachableError(self._call, f"a line of more than {LINE_LIMIT_BYTES} bytes")
            if b"\n" not in data:
                continue
            lines = b"".join(parts).split(b"\n")
            rest = lines.pop()
            parts = [rest] if rest else []
            held = len(rest)
            yield lines

    def _reads(self) -> Iterator[bytes]:
        response = self._response
        try:
            if response.chunked:
                yield from response.stream(READ_BYTES, decode_content=False)
            else:
                while data := response.read1(READ_BYTES, decode_content=False):
                    yield data
        except BROKEN as error:
            raise UnreachableError(self._call, error) from error

    def shut(self) -> None:
        """Shut the connection down from any thread, which ends a read that waits in ``batches``."""
        with suppress(ValueError, RuntimeError, OSError):
            self._response.shutdown()

    def close(self) -> None:
        """Close the connection. Only the thread that reads the stream may call this method."""
        with suppress(*BROKEN):
            self._response.close()
