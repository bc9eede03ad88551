"""A stream: an answer of the Kubernetes API without an end, cut into lines as it comes."""

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
"""Many times the largest object of etcd: a longer line is no watch event."""

BROKEN = (HTTPError, OSError)
"""The errors of reading an answer."""


class Stream:
    """One open watch: whole lines, in batches, until the API ends it."""

    def __init__(self, response: BaseHTTPResponse, call: Call) -> None:
        self._response = response
        self._call = call

    def batches(self) -> Iterator[list[bytes]]:
        """Yield lines without their ends, as many at once as one read brought.

        A last line that was cut off is dropped: the API sends it again.

        Raises:
            UnreachableError: the connection broke, or was silent for too long.
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
        """End the stream from another thread; the reader learns that at once."""
        with suppress(ValueError, RuntimeError, OSError):
            self._response.shutdown()

    def close(self) -> None:
        """Close the connection; only the thread that reads may call."""
        with suppress(*BROKEN):
            self._response.close()
