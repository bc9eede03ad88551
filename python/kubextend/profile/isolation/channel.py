"""Sends and receives messages of several byte parts over a socket between two processes."""

import socket
import struct
from collections.abc import Sequence
from typing import Final

__all__ = ["Channel", "MessageTooLongError"]

# The largest message that a broken child can make us accept. The largest message of a sound child
# is some 50 MB: 50,000 whole nodes for a child that has just started.
MOST_BYTES: Final = 1 << 30

_COUNT: Final = struct.Struct("<I")


class MessageTooLongError(ValueError):
    """A message is longer than ``MOST_BYTES``, 1 GiB, which no end of a channel accepts."""

    def __init__(self) -> None:
        super().__init__(f"a message of more than {MOST_BYTES} bytes")


class Channel:
    """One end of a socket that carries messages.

    ``send`` and ``receive`` raise OSError or EOFError if the process at the other end is gone.
    """

    def __init__(self, end: socket.socket) -> None:
        self._end = end

    def send(self, parts: Sequence[bytes]) -> None:
        """Send byte parts to the other process as one message.

        Raises: MessageTooLongError: the message is too long; nothing is sent.
        """
        lengths = struct.pack(f"<{len(parts) + 1}I", len(parts), *map(len, parts))
        size = len(lengths) + sum(map(len, parts))
        if size > MOST_BYTES:
            raise MessageTooLongError
        self._end.sendall(b"".join((_COUNT.pack(size), lengths, *parts)))

    def receive(self) -> list[bytes]:
        """Wait for the next message from the other process, and return its byte parts.

        Raises: ValueError: the bytes are no message; later messages cannot be received either.
        """
        (size,) = _COUNT.unpack(self._read(_COUNT.size))
        if size > MOST_BYTES:
            raise MessageTooLongError
        body = self._read(size)
        try:
            (count,) = _COUNT.unpack_from(body)
            lengths = struct.unpack_from(f"<{count}I", body, _COUNT.size)
        except struct.error as error:
            raise ValueError(str(error)) from error
        at = _COUNT.size * (count + 1)
        if at + sum(lengths) != size:
            message = "the lengths of a message's parts do not add up to its own"
            raise ValueError(message)
        parts = []
        for length in lengths:
            parts.append(bytes(body[at : at + length]))
            at += length
        return parts

    def shut_down(self) -> None:
        """Shut the socket down, which ends ``receive`` calls that wait. Any thread may call."""
        try:
            self._end.shutdown(socket.SHUT_RDWR)
        except OSError:
            # The other end has shut down first.
            return

    def close(self) -> None:
        """Close this end's socket."""
        self._end.close()

    def _read(self, size: int) -> memoryview:
        read = memoryview(bytearray(size))
        at = 0
        while at < size:
            count = self._end.recv_into(read[at:])
            if not count:
                raise EOFError
            at += count
        return read
