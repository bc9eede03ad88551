"""Checks of the running kubextend: as kube-scheduler reaches it, by its URL and certificates."""

import http.client
import os
import re
import ssl
import time
from collections.abc import Iterator
from typing import Final
from urllib.parse import urlsplit

from kubextend.doctor.examined import Examined
from kubextend.doctor.finding import Problem, error, skipped, warning
from kubextend.errors import KubextendError

__all__ = ["certificate_end", "reachable", "ready", "verbs_served"]

_TIMEOUT_S: Final = 5.0
_WARN_S: Final = 7 * 86_400.0
_MOST_BYTES: Final = 16 * 1024 * 1024
# kubextend makes such a line at its start, for each verb that it serves.
_SERVED: Final = re.compile(
    r'^kubextend_verb_requests_total\{result="unknown_scheduler",verb="(\w+)"\}', re.MULTILINE
)

_RESTART: Final = (
    "restart kubextend with this configuration; if it runs with --with-admission, give the doctor "
    "the same option"
)
_RESTART_COMPILED: Final = "restart kubextend with this configuration and --with-admission"


class _UnreachableError(KubextendError):
    """kubextend did not answer, or cannot be asked; the text says why."""


def reachable(examined: Examined) -> Iterator[Problem]:
    """Call kubextend at the URL that kube-scheduler calls, with the same TLS files."""
    if missing := _missing_files(examined):
        message = f"{missing} cannot be read here"
        yield skipped(message, "run the doctor where kube-scheduler runs")
        return
    try:
        _get(examined, "/livez")
    except _UnreachableError as why:
        yield error(str(why), _hint(examined, why))


def certificate_end(examined: Examined) -> Iterator[Problem]:
    """Look when the certificate ends that kubextend shows."""
    if urlsplit(examined.config.url_prefix).scheme != "https":
        return
    _need_files(examined)
    connection = _connected(examined)
    assert isinstance(connection.sock, ssl.SSLSocket)  # noqa: S101  for the type checker
    certificate = connection.sock.getpeercert() or {}
    connection.close()
    ends = str(certificate["notAfter"])
    if ssl.cert_time_to_seconds(ends) - time.time() < _WARN_S:
        message = f"kubextend's certificate ends on {ends}"
        yield warning(message, "renew it; kubextend loads the new files within 10 s")


def ready(examined: Examined) -> Iterator[Problem]:
    """Look which conditions of readiness fail."""
    _status, text = _answer(examined, "/readyz?verbose")
    for line in text.splitlines():
        if line.startswith("[-]"):
            name, _, why = line.removeprefix("[-]").partition(" failed: ")
            yield error(f"kubextend is not ready: {name}: {why}", "look at kubextend's log")


def verbs_served(examined: Examined) -> Iterator[Problem]:
    """Look whether kubextend serves each verb that the configuration needs, and no other."""
    # A request for a verb would count as one of kube-scheduler's that kubextend refuses.
    _status, text = _answer(examined, "/metrics")
    if "kubextend_configuration_info{" not in text:
        return
    served = set(_SERVED.findall(text))
    for verb in ("filter", "prioritize", "preempt", "bind"):
        if (verb in served) != (verb in examined.config.verbs):
            said = "serves" if verb in served else "does not serve"
            message = f"the kubextend that runs {said} {verb}, other than the configuration says"
            hint = _RESTART if examined.rules is None else _RESTART_COMPILED
            yield error(message, hint)


def _answer(examined: Examined, path: str) -> tuple[int, str]:
    """Ask the running kubextend for a path, and return the status and the text.

    Raises: _UnreachableError: nobody answers, or a TLS file is not on this machine.
    """
    _need_files(examined)
    return _get(examined, path)


def _need_files(examined: Examined) -> None:
    """Raise _UnreachableError if a TLS file of kube-scheduler cannot be read on this machine."""
    if missing := _missing_files(examined):
        message = f"{missing} cannot be read here"
        raise _UnreachableError(message)


def _get(examined: Examined, path: str) -> tuple[int, str]:
    connection = _connected(examined)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, response.read(_MOST_BYTES).decode(errors="replace")
    except (OSError, http.client.HTTPException) as why:
        message = f"no answer: {_sentence(why)}"
        raise _UnreachableError(message) from why
    finally:
        connection.close()


def _connected(examined: Examined) -> http.client.HTTPConnection:
    """Return a connection to kubextend, with TLS if the URL asks for it.

    Raises: _UnreachableError: there is no connection, or the handshake failed.
    """
    url, tls = urlsplit(examined.config.url_prefix), examined.config.extender.tls_config
    host = url.hostname or ""
    port = url.port or (443 if url.scheme == "https" else 80)
    connection = http.client.HTTPConnection(host, port, timeout=_TIMEOUT_S)
    try:
        connection.connect()
        if url.scheme == "https":
            context = ssl.create_default_context(cafile=tls.ca_file)
            if tls.cert_file and tls.key_file:
                context.load_cert_chain(tls.cert_file, tls.key_file)
            name = tls.server_name or host
            connection.sock = context.wrap_socket(connection.sock, server_hostname=name)
    except OSError as why:
        connection.close()
        message = f"no answer: {_sentence(why)}"
        raise _UnreachableError(message) from why
    return connection


def _missing_files(examined: Examined) -> str:
    """Return a TLS file of kube-scheduler that cannot be read on this machine; "" if none."""
    tls = examined.config.extender.tls_config
    if urlsplit(examined.config.url_prefix).scheme != "https":
        return ""
    files = [file for file in (tls.ca_file, tls.cert_file, tls.key_file) if file]
    return next((file for file in files if not os.access(file, os.R_OK)), "")


def _sentence(why: Exception) -> str:
    if isinstance(why, ssl.SSLCertVerificationError):
        return f"the certificate is refused: {why.verify_message}"
    if isinstance(why, ssl.SSLError):
        return f"the TLS handshake failed: {why.reason or why}"
    return getattr(why, "strerror", None) or str(why) or type(why).__name__


def _hint(examined: Examined, why: _UnreachableError) -> str:
    url = examined.config.url_prefix
    if isinstance(why.__cause__, ssl.SSLError):
        return (
            "look at extender.tlsConfig and server.tls: CA, names, and the client's certificate, "
            "which has to be of server.tls.clientCAFile"
        )
    if isinstance(why.__cause__, (ConnectionResetError, http.client.BadStatusLine)):
        scheme = "https" if url.startswith("http:") else "http"
        return (
            f"a server answered {url} by closing the connection: does it speak {scheme}, or does "
            "its server.tls.clientCAFile not know the client's certificate of extender.tlsConfig?"
        )
    return f"start kubextend, or set extender.urlPrefix: now it is {url}"
