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

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from kubextend.errors import KubextendError
from kubextend.metrics import Family, Metrics
from kubextend.server.connection.asgi_extension import connection_of
from kubextend.server.reply import REFUSED, RefusedError, refuse, reply

__all__ = ["Access", "CheckedEndpoint", "TokenFile", "refuse_caller"]

_LOGGER = logging.getLogger(__name__)

_MOST_FILE_BYTES: Final = 64 * 1024
# 16 random letters and digits hold 95 bits.
_LEAST_TOKEN_CHARS: Final = 16
_LOGINS_REFUSED: Final = Family(
    "kubextend_logins_refused",
    "Callers of the pages for people whose token or certificate was refused, by status.",
    ("status",),
)
_CHALLENGE: Final = ((b"www-authenticate", b"Bearer"),)

_Answering: TypeAlias = Callable[[str, Scope, Receive], Awaitable[bytes]]


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
        if complaint := _complaint(content, lines):
            message = f"token file {self._path} {complaint}"
            raise KubextendError(message)
        return [line for line in lines if line]


def _complaint(content: bytes, lines: list[bytes]) -> str:
    """Return why a token file is not valid, without showing a token; empty: the file is valid."""
    if len(content) > _MOST_FILE_BYTES:
        return f"is larger than {_MOST_FILE_BYTES} bytes"
    if not any(lines):
        return "holds no token"
    for number, line in enumerate(lines, 1):
        if line.startswith(b"#"):
            return f"has a comment in line {number}: write one token a line and nothing else"
        if line and len(line) < _LEAST_TOKEN_CHARS:
            return (
                f"has a token of {len(line)} characters in line {number}: "
                f"use at least {_LEAST_TOKEN_CHARS}, such as `openssl rand -hex 32` writes"
            )
    return ""


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

    async def caller(self, scope: Scope, metrics: Metrics) -> str:
        """Return who sent a request, for the log: a certificate's name, or "a bearer token".

        Args:
            scope: the ASGI scope of the request.
            metrics: counts a caller who is refused.

        Raises: RefusedError: 401 if a token is missing or wrong, 403 if no name of the client's
            certificate is allowed.
        """
        try:
            return await self._allowed(scope)
        except RefusedError as refused:
            metrics.counter(_LOGINS_REFUSED, str(refused.status)).inc()
            raise

    async def _allowed(self, scope: Scope) -> str:
        names = _certificate_names(scope)
        if known := names & self.names:
            return min(known)
        token = _bearer_token(scope)
        if self.tokens is not None and token is not None:
            if await asyncio.to_thread(self.tokens.holds, token):
                return "a bearer token"
            raise RefusedError(401, "Authorization: this bearer token is not known")
        if self.tokens is not None and not names:
            raise RefusedError(401, "Authorization: a bearer token is needed")
        shown = f"the names {', '.join(sorted(names))}" if names else "no name"
        message = f"the client's certificate has {shown}, none of {self.setting}.allowedNames"
        raise RefusedError(403, message)


class CheckedEndpoint:
    """The ASGI application of an endpoint that checks its caller first, and answers JSON.

    Args:
        access: decides who may call.
        metrics: counts refusals.
        answer: returns the body of the answer, from the caller, the ASGI request of the scope, and
            the function that receives the body of the request; may raise RefusedError.
    """

    def __init__(self, access: Access, metrics: Metrics, answer: _Answering) -> None:
        self._access = access
        self._metrics = metrics
        self._answer = answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the ASGI request of ``scope``."""
        try:
            who = await self._access.caller(scope, self._metrics)
            body = await self._answer(who, scope, receive)
        except ClientDisconnect:
            return
        except RefusedError as refused:
            await refuse_caller(send, refused, self._metrics)
        else:
            await reply(send, 200, body)


async def refuse_caller(send: Send, refused: RefusedError, metrics: Metrics) -> None:
    """Send a refusal to a person or a program that is not kube-scheduler, and count the refusal.

    Status 401 asks for a bearer token, as HTTP demands (RFC 9110, section 15.5.2).
    """
    metrics.counter(REFUSED, str(refused.status)).inc()
    await refuse(send, refused, _CHALLENGE if refused.status == 401 else ())  # noqa: PLR2004  Unauthorized


def _bearer_token(scope: Scope) -> bytes | None:
    scheme, _, token = Headers(scope=scope).get("authorization", "").partition(" ")
    return token.strip().encode("latin-1") if scheme.lower() == "bearer" else None


def _certificate_names(scope: Scope) -> frozenset[str]:
    """Return the common and DNS names in a client's certificate; empty if none is trusted."""
    connection = connection_of(scope)
    return frozenset(_names((connection and connection.peer_certificate()) or {}))


def _names(certificate: Mapping[str, Any]) -> Iterator[str]:
    for attributes in certificate.get("subject", ()):
        yield from (value for key, value in attributes if key == "commonName")
    yield from (value for key, value in certificate.get("subjectAltName", ()) if key == "DNS")
