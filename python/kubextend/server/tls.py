"""TLS of a listener: the server's certificate, and clients' certificates if a client CA is set.

When certificate files are replaced, new connections use the new certificates, and open connections
keep the old.
"""

import contextlib
import logging
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast
from weakref import WeakSet

from kubextend.errors import KubextendError
from kubextend.metrics import Family, Metrics, ScrapedGauge

__all__ = ["RenewedTls", "TlsFiles", "client_context"]

_LOGGER = logging.getLogger(__name__)
_HANDSHAKES = logging.getLogger(f"{__name__}.handshakes")

# Each takes 100 KB, for up to a minute.
_MOST_HANDSHAKES: Final = 512

_FAILED_HANDSHAKES: Final = Family("kubextend_tls_handshakes_failed", "TLS handshakes that failed.")
_RELOADS: Final = Family(
    "kubextend_certificate_reloads", "Reloads of changed TLS files: ok, error.", ("result",)
)
_NOT_AFTER: Final[ScrapedGauge[float]] = ScrapedGauge(
    "kubextend_certificate_not_after_seconds",
    "When the server's certificate ends, in seconds of Unix time.",
    lambda not_after_s: not_after_s,
)


class _ServerSide(ssl.SSLObject):
    """The server's side of a TLS connection, which tells its context how a handshake ends."""

    def do_handshake(self) -> None:
        """Go on with the handshake."""
        context = cast("_ServerContext", self.context)
        try:
            super().do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError, ssl.SSLSyscallError):
            raise
        except ssl.SSLError as error:
            context.on_failed(_why_failed(error))
            raise
        context.under_way.discard(self)


class _ServerContext(ssl.SSLContext):
    """A TLS context for servers, for TLS 1.2 or newer and HTTP/1.1.

    Attributes:
        on_failed: called with the reason of each handshake that fails.
        newest: makes new connections in place of this context; None: this context does.
        under_way: the connections whose handshake is not complete.
    """

    sslobject_class = _ServerSide
    on_failed: Callable[[str], object] = staticmethod(lambda _why: None)
    newest: "_ServerContext | None" = None
    under_way: WeakSet[ssl.SSLObject]

    def wrap_bio(self, *args: Any, **named: Any) -> ssl.SSLObject:
        """Return the server's side of a new connection.

        Raises: ConnectionAbortedError: 512 handshakes are under way; uvloop closes the connection.
        """
        context = self.newest or self
        if len(context.under_way) >= _MOST_HANDSHAKES:
            self.on_failed(why := f"{_MOST_HANDSHAKES} others are under way")
            raise ConnectionAbortedError(why)
        context.under_way.add(side := super(_ServerContext, context).wrap_bio(*args, **named))
        return side


def _why_failed(error: ssl.SSLError) -> str:
    """Return why a handshake failed at the server, from OpenSSL's error."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return (
            "the client's certificate is not of server.tls.clientCAFile, or is for servers only, "
            f"or has expired: {error.verify_message}"
        )
    if error.reason == "PEER_DID_NOT_RETURN_A_CERTIFICATE":
        return "the client showed no certificate, which server.tls.clientCAFile asks for"
    return (error.reason or "unknown").replace("_", " ").lower()


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """The PEM files of a listener: certificate, key and client CA.

    Attributes:
        cert_file: the server's certificate and the chain above it.
        key_file: the private key of the server's certificate.
        client_ca_file: clients need a certificate of this CA; None: any client may connect.
    """

    cert_file: Path
    key_file: Path
    client_ca_file: Path | None = None

    @property
    def paths(self) -> list[Path]:
        """The paths of the certificate, key and CA files that the configuration names."""
        return [self.cert_file, self.key_file, *filter(None, [self.client_ca_file])]

    def contents(self) -> list[bytes | str]:
        """Return the content of each file, or why the file cannot be read."""
        contents: list[bytes | str] = []
        for path in self.paths:
            try:
                contents.append(path.read_bytes())
            except OSError as error:
                contents.append(str(error))
        return contents

    def context(self) -> _ServerContext:
        """Return a TLS context of these files.

        Raises: KubextendError: a file cannot be read, or does not hold what it should.
        """
        context = _ServerContext(ssl.PROTOCOL_TLS_SERVER)
        context.under_way = WeakSet()
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        _load_pair(context, self.cert_file, self.key_file)
        if self.client_ca_file is not None:
            _trust(context, self.client_ca_file, "client CA")
            context.verify_mode = ssl.CERT_REQUIRED
        return context

    def not_after_s(self) -> float:
        """Return when the server's certificate, which is valid now, expires: seconds of Unix time.

        Raises: KubextendError: a file cannot be read or does not hold what it should, or the
            certificate has expired, is not valid yet, or is not for servers.
        """
        try:
            certificate = _shake_hands(self.context(), client_context(self.cert_file))
        except ssl.SSLCertVerificationError as error:
            message = f"TLS certificate {self.cert_file}: {error.verify_message}"
            raise KubextendError(message) from error
        return ssl.cert_time_to_seconds(certificate["notAfter"])

    def refusal_by(self, client: ssl.SSLContext, name: str | None = None) -> str:
        """Return why a client refuses the server's certificate; "" if the client accepts it.

        Args:
            client: the TLS context of the client.
            name: the name or IP address by which the client calls the server, which has to be in
                the certificate's subjectAltName, as for clients in Go; None: any name.

        Raises: KubextendError: a file cannot be read, or does not hold what it should.
        """
        try:
            _shake_hands(self.context(), client, name)
        except ssl.SSLCertVerificationError as error:
            return error.verify_message
        return ""

    def refusal_of(self, client: ssl.SSLContext) -> str:
        """Return why the server would refuse a client's certificate, or "".

        Raises: KubextendError: a file cannot be read, or does not hold what it should.
        """
        try:
            _shake_hands(self.context(), client, looks_at_client=True)
        except ssl.SSLError as error:
            return _why_failed(error)
        return ""


def client_context(
    ca_file: Path | None = None, cert_file: Path | None = None, key_file: Path | None = None
) -> ssl.SSLContext:
    """Return the TLS context of a client, which does not look at common names.

    Args:
        ca_file: certificates that the client trusts; each is enough by itself, as for Go. None: the
            client trusts every server.
        cert_file: the client's certificate and the chain above it; None: the client has none.
        key_file: the private key of the client's certificate.

    Raises: KubextendError: a file cannot be read, or does not hold what it should.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.hostname_checks_common_name = context.check_hostname = False
    context.verify_flags |= ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN
    if ca_file is None:
        context.verify_mode = ssl.CERT_NONE
    else:
        _trust(context, ca_file, "CA")
    if cert_file is not None and key_file is not None:
        _load_pair(context, cert_file, key_file)
    return context


class RenewedTls:
    """The TLS context of a listener, which makes connections by the newest good files.

    Args:
        files: the paths of the certificate files.
        metrics: counts reloads and failed handshakes.

    Attributes:
        context: the listener's context.

    Raises: KubextendError: a file cannot be read or does not hold what it should, or the
        certificate has expired.
    """

    def __init__(self, files: TlsFiles, metrics: Metrics) -> None:
        self._files = files
        self._failed = metrics.counter(_FAILED_HANDSHAKES)
        # A rate of a counter that is not there before its first event does not show that event.
        self._loaded, self._not_loaded = (metrics.counter(_RELOADS, r) for r in ("ok", "error"))
        self._seen = files.contents()
        self._not_after_s = files.not_after_s()
        metrics.scrape([_NOT_AFTER], lambda: self._not_after_s)
        self.context = files.context()
        self.context.on_failed = self._note_failed

    def look(self) -> None:
        """Use the certificates in the files for new connections, if they are changed and valid.

        A certificate and its key may be replaced one after the other, so for a moment the two may
        not fit each other. Each changed pair is reported once.
        """
        seen = self._files.contents()
        if seen == self._seen:
            return
        self._seen = seen
        try:
            not_after_s, newest = self._files.not_after_s(), self._files.context()
        except (KubextendError, OSError) as error:
            _LOGGER.error("the old TLS certificate stays in use: %s", error)  # noqa: TRY400  expected
            self._not_loaded.inc()
            return
        newest.on_failed = self._note_failed
        # Another context has other sessions: nobody resumes one that a withdrawn CA let in.
        self.context.newest, self._not_after_s = newest, not_after_s
        _LOGGER.info("TLS certificate %s was loaded again", self._files.cert_file)
        self._loaded.inc()

    def _note_failed(self, why: str) -> None:
        self._failed.inc()
        _HANDSHAKES.warning("a TLS handshake failed: %s; kube-scheduler's log has its side", why)


def _trust(context: ssl.SSLContext, ca_file: Path, what: str) -> None:
    """Make a TLS context trust a CA; raise KubextendError if the file holds none."""
    try:
        context.load_verify_locations(ca_file)
    except OSError as error:
        message = f"TLS {what} {ca_file}: {error}"
        raise KubextendError(message) from error


def _load_pair(context: ssl.SSLContext, cert_file: Path, key_file: Path) -> None:
    """Make a TLS context show a certificate.

    Raises: KubextendError: a file cannot be read, or does not hold what it should.
    """

    def refuse_password() -> str:
        """Raise KubextendError for an encrypted key, because OpenSSL would ask for a password."""
        message = f"TLS key {key_file} is encrypted; it has to be without a password"
        raise KubextendError(message)

    try:
        context.load_cert_chain(cert_file, key_file, refuse_password)
    except OSError as error:
        message = (
            f"TLS certificate {cert_file} with key {key_file}: {error}; certFile has to hold, as"
            " PEM, a certificate and the chain above it, and keyFile the certificate's private key"
        )
        raise KubextendError(message) from error


def _shake_hands(
    server: ssl.SSLContext,
    client: ssl.SSLContext,
    name: str | None = None,
    *,
    looks_at_client: bool = False,
) -> Any:
    """Return the server's certificate as a client sees it after a TLS handshake in memory.

    Args:
        server: the server's TLS context.
        client: the client's TLS context.
        name: the name or IP address by which the client calls the server; None: no name.
        looks_at_client: whether the server looks at the client's certificate.

    Raises:
        ssl.SSLCertVerificationError: the client does not accept the certificate.
        ssl.SSLError: the server does not accept the client's.
    """
    if not looks_at_client:
        server.verify_mode = ssl.CERT_NONE
    client.check_hostname = name is not None
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    answering = server.wrap_bio(to_server, to_client, server_side=True)
    asking = client.wrap_bio(to_client, to_server, server_hostname=name)
    while True:
        try:
            asking.do_handshake()
        except ssl.SSLWantReadError:
            with contextlib.suppress(ssl.SSLWantReadError):
                answering.do_handshake()
        else:
            # In TLS 1.3 the server looks at the client's certificate now.
            answering.do_handshake()
            return asking.getpeercert()
