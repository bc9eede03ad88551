"""What kubextend's server offers beyond ASGI: large bodies in a buffer, client certificates."""

from typing import TYPE_CHECKING, Final

from starlette.types import Scope

if TYPE_CHECKING:
    from kubextend.server.connection.http_connection import HttpConnection

__all__ = ["CONNECTION", "connection_of"]

CONNECTION: Final = "kubextend.connection"
"""The key under which the ASGI scope of a request has its ``HttpConnection``."""


def connection_of(scope: Scope) -> "HttpConnection | None":
    """Return the connection of a request; None if another server than kubextend's received it."""
    connection: HttpConnection | None = scope.get(CONNECTION)
    return connection
