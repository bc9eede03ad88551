"""Carries out the TLS handshakes of a listener, and limits how many are under way.

Event loops carry out handshakes too, but tell nobody of a connection before its handshake is over.
Clients that never shake hands could then keep out all others.
"""

import asyncio
import contextlib
import socket
from collections.abc import Callable
from typing import Final, cast

from kubextend.server.connection.tls import HandshakeError, TlsReloader

__all__ = ["MOST_HANDSHAKES", "Handshakes"]

MOST_HANDSHAKES: Final = 512
_LAST_WORDS_S: Final = 1.0
_READ_BYTES: Final = 64 * 1024
_MOST_READS: Final = 16


class Handshakes:
    """The TLS handshakes under way on a listener; the oldest gives way if there are too many.

    Args:
        tls: has the TLS context for new connections.
        within_s: how many seconds a handshake may take.
        on_full: called when a handshake is ended because too many are under way.
        on_failed: called when a handshake fails, with the reason.
        most: how many handshakes may be under way.
    """

    def __init__(
        self,
        tls: TlsReloader,
        within_s: float,
        *,
        on_full: Callable[[], object] = lambda: None,
        on_failed: Callable[[str], object] = lambda _: None,
        most: int = MOST_HANDSHAKES,
    ) -> None:
        self._tls = tls
        self._within_s = within_s
        self._on_full = on_full
        self._on_failed = on_failed
        self._most = most
        # The oldest comes first.
        self._under_way: dict[asyncio.Task[None], None] = {}

    def before(self, made: Callable[[], asyncio.Protocol]) -> asyncio.Protocol:
        """Return the protocol of an accepted connection, which shakes hands first.

        Args:
            made: makes the protocol for the time after the handshake.
        """
        return _Accepted(lambda accepted: self._begin(accepted, made))

    def _begin(self, accepted: socket.socket, made: Callable[[], asyncio.Protocol]) -> None:
        if len(self._under_way) >= self._most:
            oldest = next(iter(self._under_way))
            del self._under_way[oldest]
            oldest.cancel()
            self._on_full()
        task = asyncio.get_running_loop().create_task(self._shake_hands(accepted, made))
        self._under_way[task] = None
        task.add_done_callback(lambda ended: self._under_way.pop(ended, None))

    async def _shake_hands(
        self, accepted: socket.socket, made: Callable[[], asyncio.Protocol]
    ) -> None:
        try:
            # The event loop closes the socket of a failed handshake before it says so.
            own = accepted.dup()
        except OSError:
            # No descriptor is left.
            accepted.close()
            return
        with own:
            try:
                await asyncio.get_running_loop().connect_accepted_socket(
                    made, accepted, ssl=self._tls.context, ssl_handshake_timeout=self._within_s
                )
            except HandshakeError as error:
                self._on_failed(error.why)
                await _refuse(own, error.alert)
            except OSError:
                # The client went away, or took too long.
                pass


async def _refuse(client: socket.socket, alert: bytes) -> None:
    """Send an alert to a client, and read what the client still sends.

    A socket that is closed with unread bytes takes the alert from the client again.
    """
    loop = asyncio.get_running_loop()
    client.setblocking(False)
    with contextlib.suppress(OSError):
        async with asyncio.timeout(_LAST_WORDS_S):
            await loop.sock_sendall(client, alert)
            client.shutdown(socket.SHUT_WR)
            for _ in range(_MOST_READS):
                if not await loop.sock_recv(client, _READ_BYTES):
                    break


class _Accepted(asyncio.Protocol):
    """Takes the socket of an accepted connection from the event loop before a byte is read.

    Args:
        on_socket: called with the socket, which is the callee's to close.
    """

    def __init__(self, on_socket: Callable[[socket.socket], None]) -> None:
        self._on_socket = on_socket

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Hand over the socket; the transport, which would read the first bytes, ends here."""
        given = transport.get_extra_info("socket")
        try:
            own = socket.fromfd(given.fileno(), given.family, given.type)
        except OSError:
            # No descriptor is left.
            own = None
        cast("asyncio.Transport", transport).abort()
        if own is not None:
            self._on_socket(own)
