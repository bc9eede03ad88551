"""Checks who may call beside kube-scheduler: by client certificate or bearer token.

One ``Access`` is for people who decide on waiting pods, another for people who read decisions.
"""

import asyncio
import hmac
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from kubextend.errors import KubextendError
from kubextend.metrics import Family, Metrics
from kubextend.server.connection import connection_of

__all__ = ["Access", "TokenFile", "checked"]

_LOGGER = logging.getLogger(__name__)

_MOST_FILE_BYTES: Final = 64 * 1024
# 16 random letters and digits hold 95 bits.
_LEAST_TOKEN_CHARS: Final = 16
_LOGINS_REFUSED: Final = Family(
    "kubextend_logins_refused", "Refused tokens and certificates of people.", ("status",)
)
# Status 401 asks for a bearer token, as HTTP demands (RFC 9110, section 15.5.2).
_CHALLENGE: Final = {"WWW-Authenticate": "Bearer"}

_Answering: TypeAlias = Callable[[str, Request], Awaitable[Response]]


class TokenFile:
    """A file of accepted bearer tokens, one on each line.

    While a token is replaced, the file may hold the old and the new token.

    kubextend reads the file for each token that it checks, so that a change takes effect
    immediately. No token is accepted while the file is not valid.

    Args:
        path: the path of the file.

    Raises: KubextendError: the file cannot be read, or holds anything but tokens.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._in_trouble = False
        self._tokens()

    def holds(self, token: bytes) -> bool:
        """Return whether the token file holds a token; the time taken reveals no part of a token.

        The call blocks while it reads the file.
        """
        try:
            tokens = self._tokens()
        except KubextendError as error:
            if not self._in_trouble:
                _LOGGER.warning("no bearer token is accepted: %s", error)
            self._in_trouble = True
            return False
        self._in_trouble = False
        return any(hmac.compare_digest(token, known) for known in tokens)

    def _tokens(self) -> list[bytes]:
        try:
            with self._path.open("rb") as file:
                content = file.read(_MOST_FILE_BYTES + 1)
        except OSError as error:
            message = f"token file {self._path} cannot be read: {error.strerror or error}"
            raise KubextendError(message) from error
        lines = [line.strip() for line in content.splitlines()]
        for complaint in _complaints(content, lines):
            message = f"token file {self._path} {complaint}"
            raise KubextendError(message)
        return [line for line in lines if line]


def _complaints(content: bytes, lines: list[bytes]) -> Iterator[str]:
    """Yield why a token file is not valid, without showing a token."""
    if len(content) > _MOST_FILE_BYTES:
        yield f"is larger than {_MOST_FILE_BYTES} bytes"
    if not any(lines):
        yield "holds no token"
    at_least = f"use at least {_LEAST_TOKEN_CHARS}, such as `openssl rand -hex 32` writes"
    for number, line in enumerate(lines, 1):
        if line.startswith(b"#"):
            yield f"has a comment in line {number}: write one token a line and nothing else"
        if line and len(line) < _LEAST_TOKEN_CHARS:
            yield f"has a token of {len(line)} characters in line {number}: {at_least}"


@dataclass(frozen=True, slots=True)
class Access:
    """Checks that a client has a certificate with an allowed name, or an accepted bearer token.

    Attributes:
        names: allowed common names and DNS names of client certificates.
        tokens: allowed bearer tokens; None: no token is accepted.
        setting: the section of the configuration that allows the names.
    """

    names: frozenset[str] = frozenset()
    tokens: TokenFile | None = None
    setting: str = "server.waitingPods"

    async def caller(self, request: Request, metrics: Metrics) -> str:
        """Return who sent a request, for the log: a certificate's name, or "a bearer token".

        Args:
            request: the request.
            metrics: counts a caller who is refused.

        Raises: HTTPException: 401 if a token is missing or wrong, 403 if no name of the client's
            certificate is allowed.
        """
        names = _certificate_names(request)
        if known := names & self.names:
            return min(known)
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if self.tokens is not None and scheme.lower() == "bearer":
            if await asyncio.to_thread(self.tokens.holds, token.strip().encode("latin-1")):
                return "a bearer token"
            refused = (401, "Authorization: this bearer token is not known", _CHALLENGE)
        elif self.tokens is not None and not names:
            refused = (401, "Authorization: a bearer token is needed", _CHALLENGE)
        else:
            shown = f"the names {', '.join(sorted(names))}" if names else "no name"
            allowed = f"{self.setting}.allowedNames"
            refused = (403, f"the client's certificate has {shown}, none of {allowed}", {})
        metrics.counter(_LOGINS_REFUSED, str(refused[0])).inc()
        raise HTTPException(*refused)


def checked(
    access: Access, metrics: Metrics, answer: _Answering
) -> Callable[[Request], Awaitable[Response]]:
    """Return the endpoint that answers callers who are allowed.

    Args:
        access: decides who may call.
        metrics: counts refusals.
        answer: returns the response, from the caller and the request; may raise HTTPException.
    """

    async def endpoint(request: Request) -> Response:
        who = await access.caller(request, metrics)
        return await answer(who, request)

    return endpoint


def _certificate_names(request: Request) -> frozenset[str]:
    """Return the common and DNS names in a client's certificate; empty if none is trusted."""
    connection = connection_of(request.scope)
    shown = None if connection is None else connection.transport.get_extra_info("peercert")
    return frozenset(_names(shown or {}))


def _names(certificate: Mapping[str, Any]) -> Iterator[str]:
    for attributes in certificate.get("subject", ()):
        yield from (value for key, value in attributes if key == "commonName")
    yield from (value for key, value in certificate.get("subjectAltName", ()) if key == "DNS")
