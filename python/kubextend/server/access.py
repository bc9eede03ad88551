"""Checks who may call beside kube-scheduler: by client certificate or bearer token.

One ``Access`` is for people who decide on waiting pods, another for people who read decisions.
"""

import asyncio
import hmac
import logging
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import Request

from kubextend.errors import KubextendError
from kubextend.server.connection import connection_of

__all__ = ["Access", "tokens_in"]

_LOGGER = logging.getLogger(__name__)

# 16 random letters and digits hold 95 bits. A line that begins with # would be a comment.
_TOKEN: Final = re.compile(rb"[^#\s]\S{15,}")
# Status 401 asks for a bearer token, as HTTP demands (RFC 9110, section 15.5.2).
_CHALLENGE: Final = {"WWW-Authenticate": "Bearer"}


def tokens_in(file: Path) -> list[bytes]:
    """Return the accepted bearer tokens, of which the file has one on each line.

    While a token is replaced, the file may hold the old and the new token.

    Raises: KubextendError: the file cannot be read, or holds anything but tokens.
    """
    try:
        lines = [line.strip() for line in file.read_bytes().splitlines()]
    except OSError as error:
        message = f"token file {file} cannot be read: {error.strerror or error}"
        raise KubextendError(message) from error
    tokens = list(filter(None, lines))
    if not tokens or not all(map(_TOKEN.fullmatch, tokens)):
        message = (
            f"token file {file} has to hold tokens of at least 16 characters, one a line, and no"
            " comments; `openssl rand -hex 32` writes such a token"
        )
        raise KubextendError(message)
    return tokens


@dataclass(frozen=True, slots=True)
class Access:
    """Checks that a client has a certificate with an allowed name, or an accepted bearer token.

    Attributes:
        names: allowed common names and DNS names of client certificates.
        token_file: allowed bearer tokens, as ``tokens_in`` reads them. kubextend reads the file for
            each token that it checks, so that a change takes effect immediately, and accepts no
            token while the file is not valid. None: no token is accepted.
        setting: the section of the configuration that allows the names.
    """

    names: frozenset[str] = frozenset()
    token_file: Path | None = None
    setting: str = "server.waitingPods"

    async def caller(self, request: Request) -> str:
        """Return who sent a request, for the log: a certificate's name, or "a bearer token".

        Raises: HTTPException: no name of the client's certificate is allowed, and where tokens are
            accepted (401, else 403) the client has shown none of them.
        """
        names = _certificate_names(request)
        if known := names & self.names:
            return min(known)
        shown = f"the names {', '.join(sorted(names))}" if names else "no name"
        why = f"the client's certificate has {shown}, none of {self.setting}.allowedNames"
        if self.token_file is None:
            raise HTTPException(403, why)
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        given = token.strip().encode("latin-1")
        if scheme.lower() == "bearer" and await asyncio.to_thread(_holds, self.token_file, given):
            return "a bearer token"
        raise HTTPException(401, f"Authorization: no known bearer token, and {why}", _CHALLENGE)


def _holds(file: Path, token: bytes) -> bool:
    """Return whether a file holds a token; the time taken reveals no part of a token."""
    try:
        tokens = tokens_in(file)
    except KubextendError as error:
        _LOGGER.warning("no bearer token is accepted: %s", error)
        return False
    return any(hmac.compare_digest(token, known) for known in tokens)


def _certificate_names(request: Request) -> frozenset[str]:
    """Return the common and DNS names in a client's certificate; empty if none is trusted."""
    connection = connection_of(request.scope)
    shown = connection and connection.transport.get_extra_info("peercert")
    if not shown:
        return frozenset()
    fields = [field for group in shown["subject"] for field in group]
    fields += shown.get("subjectAltName", ())
    return frozenset(value for kind, value in fields if kind in {"commonName", "DNS"})
