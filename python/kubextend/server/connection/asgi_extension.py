"""What kubextend's server offers beyond ASGI: large bodies in a buffer, client certificates."""

from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from starlette.types import Scope

__all__ = ["CONNECTION", "Connection", "connection_of"]

CONNECTION: Final = "kubextend.connection"
"""The key under which the ASGI scope of a request has its ``Connection``."""


class Connection(Protocol):
    """The connection of a request that the application is answering."""

    async def fill(self, buffer: memoryview, on_received: Callable[[int], None]) -> None:
        """Fill the buffer with the body of the request, read without the HTTP parser.

        Await this method at most once for a request, and before the ASGI ``receive``.

        Args:
            buffer: as long as the body.
            on_received: called at first and after each read, with the number of body bytes received
                so far.

        Raises: ClientDisconnect: the client went away before the end of the body.
        """

    def peer_certificate(self) -> Mapping[str, Any] | None:
        """Return the client's certificate as ``ssl.SSLSocket.getpeercert`` does.

        The mapping is empty if the client has no certificate, or none of the configured client CA.
        """


def connection_of(scope: Scope) -> Connection | None:
    """Return the connection of a request; None if another server than kubextend's received it."""
    connection: Connection | None = scope.get(CONNECTION)
    return connection
