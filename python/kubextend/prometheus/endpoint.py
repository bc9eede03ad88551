"""Sends instant queries to Prometheus over HTTP, with limits on time and bytes.

The module uses ``http.client``, and shuts the socket down when the time for a query is up: with a
read timeout alone, a server that sends a byte now and then would hold the thread for ever. urllib3
does not fit, because urllib3 hides the socket. The module follows no redirects and uses no proxies
of the environment, so that the module queries only the configured address.
"""

import http.client
import json
import socket
import ssl
import threading
import time
from pathlib import Path
from typing import Final
from urllib.parse import urlencode, urlsplit

from kubextend.errors import KubextendError

__all__ = ["MAX_ANSWER_BYTES", "Endpoint", "PrometheusError"]

MAX_ANSWER_BYTES: Final = 16 << 20
"""The most bytes of a response of Prometheus, enough for 150,000 nodes: a series of ``sum by
(node)`` takes about 100 bytes."""

_PIECE_BYTES = 64 << 10
_COMPLAINT_BYTES = 4 << 10
_COMPLAINT_CHARACTERS = 200
_LONGEST_TOKEN = 64 << 10


class PrometheusError(KubextendError):
    """Prometheus could not be reached, refused a query, or sent an invalid response."""


class Endpoint:
    """Sends instant queries to one Prometheus server.

    One thread at a time may call ``query``; any thread may call ``interrupt``.

    Args:
        address: the URL of the server, with the path below which ``/api/v1/query`` is, if any.
        bearer_token_file: a file with a bearer token for the Authorization header; read for every
            query. None: no token.
        ca_file: a file with CA certificates for https; None: the system's CAs.
        max_answer_bytes: the most bytes of a response's body; a longer body is an error.
    """

    def __init__(
        self,
        address: str,
        *,
        bearer_token_file: str | None = None,
        ca_file: str | None = None,
        max_answer_bytes: int = MAX_ANSWER_BYTES,
    ) -> None:
        self._url = urlsplit(address)
        self._bearer_token_file = bearer_token_file
        self._ca_file = ca_file
        self._max_answer_bytes = max_answer_bytes
        self._tls: ssl.SSLContext | None = None
        self._call: _Call | None = None

    def query(self, promql: str, timeout_s: float) -> bytes:
        """Send an instant query, and return the body of the successful response. Blocks.

        Args:
            promql: the query in PromQL.
            timeout_s: the most seconds for the whole response.

        Raises: PrometheusError: there was no successful response in time; the message says why, and
        contains no secret.
        """
        try:
            call = _Call(self._connection(timeout_s))
            self._call = call
            path = self._path(promql, timeout_s)
            return call.get(path, self._headers(), timeout_s, self._max_answer_bytes)
        except (OSError, http.client.HTTPException, ValueError) as error:
            # After a failure read the authority again: it may have been replaced together with the
            # certificate.
            self._tls = None
            message = f"{type(error).__name__}: {error}"
            raise PrometheusError(message) from error
        finally:
            self._call = None

    def interrupt(self) -> None:
        """Make a ``query`` that is under way on another thread fail immediately."""
        if (call := self._call) is not None:
            call.interrupt()

    def _connection(self, timeout_s: float) -> http.client.HTTPConnection:
        host = self._url.hostname or ""
        if self._url.scheme == "http":
            return http.client.HTTPConnection(host, self._url.port, timeout=timeout_s)
        if self._tls is None:
            self._tls = ssl.create_default_context(cafile=self._ca_file)
        return http.client.HTTPSConnection(
            host, self._url.port, timeout=timeout_s, context=self._tls
        )

    def _path(self, promql: str, timeout_s: float) -> str:
        # GET, because roles that may only read are often denied POST.
        asked = urlencode({"query": promql, "timeout": f"{timeout_s:g}s"})
        return f"{self._url.path.rstrip('/')}/api/v1/query?{asked}"

    def _headers(self) -> dict[str, str]:
        headers = {"Accept": "application/json", "Connection": "close"}
        if self._bearer_token_file is not None:
            headers["Authorization"] = f"Bearer {_token(self._bearer_token_file)}"
        return headers


class _Call:
    """An HTTP request to Prometheus and its response, which any thread may end by ``interrupt``."""

    def __init__(self, connection: http.client.HTTPConnection) -> None:
        self._connection = connection
        self._socket: socket.socket | None = None
        self._cut = False

    def get(self, path: str, headers: dict[str, str], timeout_s: float, max_bytes: int) -> bytes:
        began = time.monotonic()
        timer = threading.Timer(timeout_s, self.interrupt)
        timer.daemon = True
        timer.start()
        try:
            # No socket exists before the connection does, so connect separately.
            self._connection.connect()
            # Keep the socket: the connection drops it where the server says that it will close.
            self._socket = self._connection.sock
            body = self._answer(path, headers, max_bytes)
        except (OSError, http.client.HTTPException, ValueError, PrometheusError) as error:
            if self._cut or isinstance(error, TimeoutError):
                raise self._too_late(began) from error
            raise
        finally:
            timer.cancel()
            self._connection.close()
        if self._cut:
            raise self._too_late(began)
        return body

    def interrupt(self) -> None:
        self._cut = True
        connected = self._socket or self._connection.sock
        if connected is not None:
            try:
                # The ``shutdown`` of a TLS socket would take the TLS object from under the reading
                # thread.
                socket.socket.shutdown(connected, socket.SHUT_RDWR)
            except OSError:
                return

    def _answer(self, path: str, headers: dict[str, str], max_bytes: int) -> bytes:
        if self._cut:
            return b""
        self._connection.request("GET", path, headers=headers)
        with self._connection.getresponse() as response:
            if response.status != http.HTTPStatus.OK:
                raise PrometheusError(_refusal(response.status, response.read(_COMPLAINT_BYTES)))
            return _read(response, max_bytes)

    def _too_late(self, began: float) -> PrometheusError:
        return PrometheusError(f"no whole answer within {time.monotonic() - began:.1f} s")


def _read(response: http.client.HTTPResponse, max_bytes: int) -> bytes:
    too_long = PrometheusError(f"the answer is longer than {max_bytes} bytes")
    if (response.length or 0) > max_bytes:
        raise too_long
    pieces: list[bytes] = []
    left = max_bytes
    while piece := response.read(_PIECE_BYTES):
        left -= len(piece)
        if left < 0:
            raise too_long
        pieces.append(piece)
    if response.length:
        message = f"the answer was cut off {response.length} bytes before its end"
        raise PrometheusError(message)
    return b"".join(pieces)


def _refusal(status: int, body: bytes) -> str:
    """Return the HTTP status and the error in the body of a refused query, as one text."""
    try:
        complaint = str(json.loads(body)["error"])
    except (ValueError, TypeError, LookupError, RecursionError):
        return f"HTTP {status}"
    return f"HTTP {status}: {complaint[:_COMPLAINT_CHARACTERS]}"


def _token(file: str) -> str:
    token = Path(file).read_bytes()[:_LONGEST_TOKEN].decode("ascii", "replace").strip()
    # http.client would quote an invalid token in its error.
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        message = f"{file} holds no token"
        raise PrometheusError(message)
    return token
