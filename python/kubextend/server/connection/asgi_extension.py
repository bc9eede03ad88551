"""What the server knows of a request's connection beyond what ASGI tells an application."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Protocol

from starlette.types import Scope

__all__ = ["CONNECTION", "Connection", "connection_of", "peer_names"]

CONNECTION: Final = "kubextend.connection"
"""In the scope of a request that our own server received: its ``Connection``."""


class Connection(Protocol):
    """One client, and the request of it that is being answered.

    Attributes:
        when_gone: called when it goes away; None: nobody wants to know.
    """

    when_gone: Callable[[], object] | None

    async def fill(self, buffer: memoryview) -> None:
        """The buffer holds the body of the request, read past the parser.

        To be awaited before anything is received, and at most once.

        Args:
            buffer: as long as the body.

        Raises: ClientDisconnect: the client went away before the end of it.
        """

    def peer_certificate(self) -> Mapping[str, Any] | None:
        """As ``ssl.SSLSocket.getpeercert`` has it: empty where no client CA vouches for it."""


def connection_of(scope: Scope) -> Connection | None:
    """The connection of a request; None where another server received it."""
    connection: Connection | None = scope.get(CONNECTION)
    return connection


def peer_names(scope: Scope) -> frozenset[str]:
    """Common names and DNS names in the certificate that the client has shown.

    Empty where it has shown none, or none that a client CA vouches for.
    """
    connection = connection_of(scope)
    return frozenset(_names((connection and connection.peer_certificate()) or {}))


def _names(certificate: Mapping[str, Any]) -> Iterator[str]:
    for attributes in certificate.get("subject", ()):
        yield from (value for key, value in attributes if key == "commonName")
    yield from (value for key, value in certificate.get("subjectAltName", ()) if key == "DNS")
