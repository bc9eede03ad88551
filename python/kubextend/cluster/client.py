"""The connection to the Kubernetes API: credentials, and a pool of HTTP connections.

Every other module of ``kubextend.cluster`` sends its calls by ``Cluster``. ``Cluster`` sends each
call once; only after a 401 does ``Cluster`` read the credentials anew and send the call again.
Callers of ``Cluster`` decide about other retries.
"""

from __future__ import annotations

import binascii
import email.utils
import logging
import os
import re
import socket
import struct
import threading
import time
import warnings
from contextlib import suppress
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlencode, urlsplit

import orjson
import yaml
from kubernetes.client import ApiClient, ApiException, Configuration
from kubernetes.config import (
    ConfigException,
    incluster_config,
    load_incluster_config,
    load_kube_config,
)
from kubernetes.config.kube_config import KubeConfigLoader, KubeConfigMerger
from kubernetes.utils.keepalive import tcp_keepalive_socket_options
from urllib3.exceptions import InsecureRequestWarning

from kubextend import __version__
from kubextend.cluster.api_call import Call, RefusedError, TooLongError, UnreachableError
from kubextend.cluster.stream import BROKEN, READ_BYTES, Stream
from kubextend.errors import ClusterError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from urllib3 import BaseHTTPResponse

log = logging.getLogger(__name__)

CONNECT_TIMEOUT_S = 5.0
POOL_SIZE = 256
"""How many idle connections to the Kubernetes API are kept: as many as binds run at a time. A bind
that finds no idle connection opens a new TLS connection."""
TOKEN_KEPT_S = 10.0
"""Seconds for which a bearer token is cached, because the official client takes 50 us to return the
token. The official client itself reads a mounted token once a minute."""
RENEWAL_INTERVAL_S = 5.0
DROPS_UNSENT = (socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
"""Makes the system reset a connection that is closed, and send nothing of it again. Without this
option, the system goes on for minutes: a Binding that was given up while the network was cut would
reach kube-apiserver when another replica has long given the pod's place away. Source: socket(7)."""
RETRY_AFTER_LIMIT_S = 120.0
MOST_SENTENCE_CHARS = 200

OK = 200
ERRORS_FROM = 300
UNAUTHORIZED = 401

_BROKEN_FILE = (
    ConfigException,
    yaml.YAMLError,
    binascii.Error,
    OSError,
    AttributeError,
    KeyError,
    TypeError,
    ValueError,
)
_NO_ANSWER = (*BROKEN, ApiException, ConfigException, ValueError)


def connect(kubeconfig: str | None = None, context: str | None = None) -> Cluster:
    """Read a kubeconfig or the pod's service account, and return a connection to the API."""
    if kubeconfig is None and context is None and _in_a_pod():
        return Cluster(_service_account)
    return Cluster(partial(_kubeconfig, kubeconfig or _default_kubeconfig(), context))


def check_kubeconfig(path: str, context: str | None = None) -> None:
    """Raise ClusterError if a kubeconfig file is not valid, or lacks the context or its cluster."""
    try:
        KubeConfigLoader(KubeConfigMerger(path).config, active_context=context)  # type: ignore[no-untyped-call]
    except _BROKEN_FILE as error:
        raise ClusterError(_broken(path, error)) from error


def _in_a_pod() -> bool:
    return (
        bool(os.environ.get(incluster_config.SERVICE_HOST_ENV_NAME))
        and Path(incluster_config.SERVICE_TOKEN_FILENAME).is_file()
    )


def _default_kubeconfig() -> str:
    return os.environ.get("KUBECONFIG") or "~/.kube/config"


def _service_account() -> Configuration:
    configuration = Configuration()
    try:
        load_incluster_config(configuration)  # type: ignore[no-untyped-call]
    except (ConfigException, OSError) as error:
        folder = Path(incluster_config.SERVICE_TOKEN_FILENAME).parent
        message = f"the pod's service account in {folder} cannot be used: {error}"
        raise ClusterError(message) from error
    return configuration


def _kubeconfig(path: str, context: str | None) -> Configuration:
    if not any(Path(part).expanduser().is_file() for part in path.split(os.pathsep) if part):
        message = (
            f"kubeconfig {path}: no such file; name one with --kubeconfig or cluster.kubeconfig,"
            " or run in a pod with a service account"
        )
        raise ClusterError(message)
    configuration = Configuration(host="")
    try:
        load_kube_config(path, context, configuration, False)  # type: ignore[no-untyped-call]
    except _BROKEN_FILE as error:
        raise ClusterError(_broken(path, error)) from error
    if not configuration.host.startswith(("http://", "https://")):
        message = f"kubeconfig {path}: the context's cluster needs `server: https://...`"
        raise ClusterError(message)
    return configuration


def _warn_of_unverified(configuration: Configuration) -> None:
    """Log once that the API's certificate is not verified, and silence urllib3's warnings."""
    if configuration.host.startswith("https://") and not configuration.verify_ssl:
        log.warning(
            "kubextend does not verify the certificate of %s, as insecure-skip-tls-verify asks;"
            " whoever answers there can read kubextend's credentials",
            configuration.host,
        )
        host = re.escape(urlsplit(configuration.host).hostname or "")
        asked = f"Unverified HTTPS request is being made to host '{host}'"
        warnings.filterwarnings("ignore", asked, InsecureRequestWarning)


def _broken(path: str, error: Exception) -> str:
    if isinstance(error, FileNotFoundError) and "temporary directory" in str(error):
        return (
            f"kubeconfig {path}: its embedded certificates need a writable temporary directory;"
            " mount one at /tmp or set TMPDIR"
        )
    text = " ".join(str(error).split()) or type(error).__name__
    return f"kubeconfig {path} cannot be used: {text}; `kubectl config view` shows what it holds"


class Cluster:
    """The connection to one Kubernetes API, with credentials. Any thread may use it.

    Args:
        load: reads the credentials; called again after the API answers 401.
        clock: returns the present time in monotonic seconds.
    """

    def __init__(
        self, load: Callable[[], Configuration], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._load = load
        self._clock = clock
        self._renewing = threading.Lock()
        self._renewed_at = float("-inf")
        configuration = load()
        _warn_of_unverified(configuration)
        self._session = _Session(configuration, clock)

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
            TooLongError: the body is longer than the call's ``most_bytes``.
            UnreachableError: no complete response came.
        """
        response = self._open(call)
        try:
            # Joining a list of pieces would hold the whole body twice.
            whole = BytesIO()
            for piece in response.stream(READ_BYTES):
                whole.write(piece)
                if call.most_bytes is not None and whole.tell() > call.most_bytes:
                    raise TooLongError(call, call.most_bytes)
            return whole.getvalue()
        except BROKEN as error:
            raise UnreachableError(call, error) from error
        finally:
            response.close()

    def stream(self, call: Call) -> Stream:
        """Send a call whose response has no end, such as a watch; return the open response.

        Raises:
            RefusedError: the API answered with a status of 300 or more.
            UnreachableError: no response came.
        """
        return Stream(self._open(call), call)

    def _open(self, call: Call) -> BaseHTTPResponse:
        session = self._session
        response = session.send(call)
        if response.status == UNAUTHORIZED and self._renew(session):
            _drop(response)
            response = self._session.send(call)
        if response.status >= ERRORS_FROM:
            raise _refusal(call, response)
        return response

    def _renew(self, stale: _Session) -> bool:
        """Read the credentials anew after a 401; return whether ``_session`` has been replaced.

        Credentials are read at most once in 5 s.
        """
        with self._renewing:
            if self._session is not stale:
                return True
            if self._clock() - self._renewed_at < RENEWAL_INTERVAL_S:
                return False
            self._renewed_at = self._clock()
            try:
                self._session = _Session(self._load(), self._clock)
            except ClusterError as error:
                log.warning("credentials were refused, and cannot be read anew: %s", error)
                return False
            return True


class _Session:
    """The official Kubernetes client and its connections, for one set of credentials."""

    def __init__(self, configuration: Configuration, clock: Callable[[], float]) -> None:
        configuration.retries = False
        configuration.connection_pool_maxsize = POOL_SIZE
        configuration.socket_options = [*tcp_keepalive_socket_options(), DROPS_UNSENT]
        self.host = configuration.host
        self._configuration = configuration
        self.api_client = ApiClient(configuration)
        self._clock = clock
        self._reading_token = threading.Lock()
        self._token: str | None = None
        self._token_until = float("-inf")

    def send(self, call: Call) -> BaseHTTPResponse:
        query = f"?{urlencode(call.query)}" if call.query else ""
        try:
            response: BaseHTTPResponse = self.api_client.call_api(
                call.method,
                f"{self.host}{call.path}{query}",
                self._headers(call),
                call.body,
                _request_timeout=(min(CONNECT_TIMEOUT_S, call.timeout_s), call.timeout_s),
            ).response
        except _NO_ANSWER as error:
            raise UnreachableError(call, getattr(error, "reason", None) or error) from error
        return response

    def _headers(self, call: Call) -> dict[str, str]:
        headers = {
            "Accept": call.accept,
            "Content-Type": call.content_type,
            "User-Agent": f"kubextend/{__version__}",
        }
        token = self._authorization()
        if token:
            headers["Authorization"] = token
        return headers

    def _authorization(self) -> str | None:
        if self._clock() < self._token_until:
            return self._token
        with self._reading_token:
            key = self._configuration.get_api_key_with_prefix("BearerToken", alias="authorization")
            self._token = key.strip() if key else None
            self._token_until = self._clock() + TOKEN_KEPT_S
            return self._token


def _drop(response: BaseHTTPResponse) -> None:
    response.drain_conn()
    response.close()


def _refusal(call: Call, response: BaseHTTPResponse) -> RefusedError:
    try:
        body = response.read()
    except BROKEN:
        body = b""
    finally:
        response.close()
    reason = _status_message(body) or _sentence(body) or response.reason or "no reason given"
    return RefusedError(call, response.status, reason, retry_after_s(response.headers))


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


def retry_after_s(headers: Mapping[str, str], now: float | None = None) -> float | None:
    """Return the seconds of a Retry-After header, from 0 to 120; None without a valid header.

    Args:
        headers: the headers of the response; the mapping must ignore the case of names.
        now: seconds since the epoch, for a header that holds a date; None means the present time.
    """
    text = headers.get("Retry-After")
    if not text:
        return None
    try:
        seconds = float(int(text))
    except ValueError:
        try:
            until = email.utils.parsedate_to_datetime(text).timestamp()
        except ValueError:
            return None
        seconds = until - (time.time() if now is None else now)
    return min(max(seconds, 0.0), RETRY_AFTER_LIMIT_S)
