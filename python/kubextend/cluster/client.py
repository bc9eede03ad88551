"""The connection to the Kubernetes API: credentials in use, and a pool of HTTP connections.

Every other module of ``kubextend.cluster`` sends its calls by ``Cluster``. ``Cluster`` sends each
call once; only if the API does not accept the credentials does ``Cluster`` read them again and
send the call again. Callers of ``Cluster`` decide about other retries.
"""

from __future__ import annotations

import logging
import os
import socket
import struct
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import orjson
from kubernetes.client import ApiClient, ApiException
from kubernetes.config import incluster_config
from kubernetes.utils.keepalive import tcp_keepalive_socket_options
from urllib3.exceptions import HTTPError, InvalidHeader
from urllib3.util import Retry

from kubextend import __version__
from kubextend.cluster.api_call import (
    NOT_FOUND,
    UNAUTHORIZED,
    Call,
    NoCredentialsError,
    RefusedError,
    UnreachableError,
)
from kubextend.cluster.credentials import of_kubeconfig, of_service_account

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kubernetes.client import Configuration
    from urllib3 import BaseHTTPResponse

    from kubextend.cluster.credentials import Access

log = logging.getLogger(__name__)

CONNECT_TIMEOUT_S = 5.0
POOL_SIZE = 256
"""How many idle connections to the Kubernetes API are kept: as many as binds run at a time. A bind
that finds no idle connection opens a new TLS connection."""
RENEWAL_WAIT_S = 2.0
"""The most seconds for which a call waits for other credentials, to be sent again with them. Nobody
looks meanwhile whether it should still be sent."""
PAUSES_S = (0.0, 1.0, 2.0, 4.0, 8.0)
"""The least seconds until the credentials are read again, after ever more attempts in a row from
which nothing new came."""
DROPS_UNSENT = (socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
"""Makes the system reset a connection that is closed, and send nothing of it again. Without this
option, the system goes on for minutes: a Binding that was given up while the network was cut would
reach kube-apiserver when another replica has long given the pod's place away. Source: socket(7)."""
RETRY_AFTER_LIMIT_S = 120.0
MOST_SENTENCE_CHARS = 200

ERRORS_FROM = 300

READ_BYTES = 1 << 16
BROKEN = (HTTPError, OSError)
"""The errors that reading an HTTP response may raise."""
_NO_ANSWER = (*BROKEN, ApiException, ValueError)


def connect(kubeconfig: str | None = None, context: str | None = None) -> Cluster:
    """Read a kubeconfig or the pod's service account, and return a connection to the API."""
    if kubeconfig is None and context is None and _in_a_pod():
        return Cluster(of_service_account)
    path = kubeconfig or os.environ.get("KUBECONFIG") or "~/.kube/config"
    return Cluster(partial(of_kubeconfig, path, context))


def _in_a_pod() -> bool:
    return (
        bool(os.environ.get(incluster_config.SERVICE_HOST_ENV_NAME))
        and Path(incluster_config.SERVICE_TOKEN_FILENAME).is_file()
    )


class Cluster:
    """The connection to one Kubernetes API, with credentials. Any thread may use it.

    Credentials are read again before they end, after the API did not accept them, and while none
    came out. The old ones stay in use until others come out. No call goes out without credentials
    if some are configured.

    Args:
        load: reads the credentials.
    """

    def __init__(self, load: Callable[[], Access]) -> None:
        self._load = load
        self._lock = threading.Lock()
        self._renewal = threading.Thread()
        self._failures = 0
        access = load()
        self._session = _Session(access, self._give_token)
        self._pace(access, is_better=True)

    @property
    def host(self) -> str:
        """The URL of kube-apiserver, for log lines."""
        return self._session.host

    @property
    def api_client(self) -> ApiClient:
        """The official ``kubernetes`` client with the current credentials, for plugins."""
        return self._session.api_client

    def request(self, call: Call) -> bytes:
        """Send a call to the Kubernetes API; return the body of a successful response. Blocks.

        Raises:
            RefusedError: the API answered with a status of 300 or more.
            UnreachableError: no complete response came, or there are no credentials.
        """
        response = self._open(call)
        try:
            return response.read()
        except BROKEN as error:
            raise UnreachableError(call, error) from error
        finally:
            response.close()

    def read(self, call: Call) -> bytes | None:
        """Return the body of the response as ``request`` does; None if there is no such object."""
        try:
            return self.request(call)
        except RefusedError as error:
            if error.status == NOT_FOUND:
                return None
            raise

    def stream(self, call: Call) -> Stream:
        """Send a call whose response has no end, such as a watch; return the open response.

        Raises:
            RefusedError: the API answered with a status of 300 or more.
            UnreachableError: no response came, or there are no credentials.
        """
        return Stream(self._open(call), call)

    def _open(self, call: Call) -> BaseHTTPResponse:
        session = self._usable()
        try:
            return session.open(call)
        except RefusedError as error:
            if error.status != UNAUTHORIZED:
                raise
            session.is_refused = True
            self._renew_after(self._rest_until, session, min(call.timeout_s, RENEWAL_WAIT_S))
            if self._session is session:
                raise
        return self._session.open(call)

    def _usable(self) -> _Session:
        """Return the session to send a call with, and renew it if it is time.

        Raises: NoCredentialsError: some are configured, and none have come out yet.
        """
        session = self._session
        self._renew_after(self._due_at, session, 0.0)
        if session.access.missing:
            raise NoCredentialsError(session.trouble)
        return session

    def _renew_after(self, earliest: float, stale: _Session, wait_s: float) -> None:
        """Read credentials again, unless it is too early; wait until they are there, or time is up.

        A thread of its own reads them: the exec plugin of a kubeconfig may hang.
        """
        with self._lock:
            is_time = self._session is stale and time.monotonic() >= earliest
            if is_time and not self._renewal.is_alive():
                name = "kubextend-credentials"
                self._renewal = threading.Thread(target=self._renew, name=name, daemon=True)
                self._renewal.start()
            renewal = self._renewal
        if renewal.is_alive():
            renewal.join(wait_s)

    def _renew(self) -> None:
        """Read the credentials again, and use them from now on if they came out."""
        session = self._session
        try:
            access = self._load()
        except Exception as error:  # noqa: BLE001  the kubeconfig may hold anything by now
            access = replace(session.access, missing=str(error), lasts_s=0.0)
        if access.missing and access.missing != session.trouble:
            log.warning("credentials cannot be renewed, trying again: %s", access.missing)
        is_new = access.key != session.access.key
        if not access.missing and (is_new or session.is_refused):
            self._session = _Session(access, self._give_token)
        session.trouble = access.missing
        self._pace(access, is_better=is_new and (session.is_accepted or not session.is_refused))

    def _pace(self, access: Access, *, is_better: bool) -> None:
        """Decide when the credentials are read again: ever later while no good ones come out."""
        self._failures = 0 if is_better and access.lasts_s > 0 else self._failures + 1
        self._rest_until = time.monotonic() + PAUSES_S[min(self._failures, len(PAUSES_S) - 1)]
        self._due_at = max(self._rest_until, time.monotonic() + access.lasts_s)

    def _give_token(self, configuration: Configuration) -> None:
        """Give the present token to a client that a plugin keeps; that client calls this."""
        configuration.api_key = self._usable().access.configuration.api_key


@dataclass(frozen=True, slots=True)
class Stream:
    """The open response of one watch, read line by line until the API ends it."""

    response: BaseHTTPResponse
    call: Call

    def lines(self) -> Iterator[bytes]:
        """Yield the lines of the response as they come, without their ends; no empty ones.

        The method drops an incomplete line at the end of the response: the next watch brings that
        event again.

        Raises:
            UnreachableError: the connection broke, or was silent for too long.
        """
        rest = b""
        while data := self._read():
            *lines, rest = (rest + data).split(b"\n")
            yield from filter(None, lines)

    def _read(self) -> bytes:
        try:
            return self.response.read1(READ_BYTES, decode_content=False)
        except BROKEN as error:
            raise UnreachableError(self.call, error) from error

    def shut(self) -> None:
        """Shut the connection down from any thread, which ends a read that waits in ``lines``."""
        with suppress(ValueError, RuntimeError, OSError):
            self.response.shutdown()

    def close(self) -> None:
        """Close the connection. Only the thread that reads the stream may call this method."""
        with suppress(*BROKEN):
            self.response.close()


class _Session:
    """The official Kubernetes client and its connections, for one set of credentials.

    Attributes:
        access: the credentials.
        trouble: why no others could be read; "" if they could.
        is_accepted: whether a call with the credentials succeeded.
        is_refused: whether the API did not accept the credentials.
    """

    def __init__(self, access: Access, refresh: Callable[[Configuration], None]) -> None:
        configuration = access.configuration
        configuration.retries = False
        configuration.connection_pool_maxsize = POOL_SIZE
        configuration.socket_options = [*tcp_keepalive_socket_options(), DROPS_UNSENT]
        configuration.refresh_api_key_hook = refresh  # type: ignore[assignment]
        if access.missing:
            # With a token of its own, the official client asks for the present one.
            configuration.api_key = {"BearerToken": ""}
        self.host = configuration.host
        self.access = access
        self.api_client = ApiClient(configuration)
        self.trouble = access.missing
        self.is_accepted = False
        self.is_refused = False

    def open(self, call: Call) -> BaseHTTPResponse:
        """Send a call, and return the open response.

        Raises:
            RefusedError: the API answered with a status of 300 or more.
            UnreachableError: no response came.
        """
        response = self._send(call)
        if response.status < ERRORS_FROM:
            self.is_accepted = True
            return response
        refused = _refusal(call, response)
        if refused.status == UNAUTHORIZED:
            said = filter(None, (self.access.refusal, self.trouble))
            raise RefusedError(call, UNAUTHORIZED, "; ".join(said))
        raise refused

    def _send(self, call: Call) -> BaseHTTPResponse:
        query = f"?{urlencode(call.query)}" if call.query else ""
        headers = {
            "Accept": call.accept,
            "Content-Type": call.content_type,
            "User-Agent": f"kubextend/{__version__}",
        }
        if token := self.access.configuration.api_key.get("BearerToken"):
            headers["Authorization"] = " ".join(token.split())
        try:
            response: BaseHTTPResponse = self.api_client.call_api(
                call.method,
                f"{self.host}{call.path}{query}",
                headers,
                call.body,
                _request_timeout=(min(CONNECT_TIMEOUT_S, call.timeout_s), call.timeout_s),
            ).response
        except _NO_ANSWER as error:
            raise UnreachableError(call, getattr(error, "reason", None) or error) from error
        return response


def _refusal(call: Call, response: BaseHTTPResponse) -> RefusedError:
    try:
        body = response.read()
    except BROKEN:
        body = b""
    finally:
        response.close()
    reason = _status_message(body) or _sentence(body) or response.reason or "no reason given"
    return RefusedError(call, response.status, reason, _retry_after_s(response))


def _status_message(body: bytes) -> str:
    """Return the field ``message`` of a Kubernetes Status; "" if the body is no Status."""
    with suppress(orjson.JSONDecodeError):
        status = orjson.loads(body)
        if isinstance(status, dict):
            return str(status.get("message") or "")
    return ""


def _sentence(body: bytes) -> str:
    """Return a response's body if it is one printable line of up to 200 characters; else "".

    Go servers answer plain HTTP on a TLS port with such a line, which helps the operator.
    """
    text = body.decode(errors="replace").strip()
    short = len(text) <= MOST_SENTENCE_CHARS and text.isprintable()
    return text if short and text[:1].isalpha() else ""


def _retry_after_s(response: BaseHTTPResponse) -> float | None:
    """Return the seconds of a Retry-After header, from 0 to 120; None without a valid header."""
    with suppress(InvalidHeader, ValueError):
        if (asked_s := Retry().get_retry_after(response)) is not None:
            return min(asked_s, RETRY_AFTER_LIMIT_S)
    return None
