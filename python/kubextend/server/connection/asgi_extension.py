"""Extends ASGI: an application can read large bodies into a buffer, and see client certificates."""

from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from starlette.types import Scope

__all__ = ["CONNECTION", "Connection", "connection_of"]

CONNECTION: Final = "kubextend.connection"
"""The key of the ``Connection`` in the scope of a request."""


class Connection(Protocol):
    """The connection of a request that the application is answering."""

    async def fill(self, buffer: memoryview, on_received: Callable[[int], None]) -> None:
        """Fill the buffer with the body of the request, read without the HTTP parser.

        To be awaited at most once for a request, and before ``receive``.

        Args:
            buffer: as long as the body.
            on_received: called after each read with the number of body bytes received so far.

        Raises: ClientDisconnect: the client went away before the end of the body.
        """

    def peer_certificate(self) -> Mapping[str, Any] | None:
        """Return the client's certificate as ``ssl.SSLSocket.getpeercert`` does.

        The mapping is empty where no client CA vouches for the certificate.
        """


def connection_of(scope: Scope) -> Connection | None:
    """Return the connection of a request; None where another server received the request."""
    connection: Connection | None = scope.get(CONNECTION)
    return connection
