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

__all__ = ["RenewedTls", "TlsFiles"]

_LOGGER = logging.getLogger(__name__)
_HANDSHAKES = logging.getLogger(f"{__name__}.handshakes")

# Each takes 100 KB, for up to a minute.
_MOST_HANDSHAKES: Final = 512

_FAILED_HANDSHAKES: Final = Family("kubextend_tls_handshakes_failed", "TLS handshakes that failed.")
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

    def content(self) -> bytes:
        """Return the content of the files, or why one of them cannot be read."""
        try:
            return b"".join(path.read_bytes() for path in self.paths)
        except OSError as error:
            return str(error).encode()

    def context(self) -> _ServerContext:
        """Return a TLS context of these files.

        Raises: KubextendError: a file cannot be read, or does not hold what it should.
        """
        context = _ServerContext(ssl.PROTOCOL_TLS_SERVER)
        context.under_way = WeakSet()
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        try:
            # Without a password OpenSSL asks for one at the terminal if the key is encrypted.
            context.load_cert_chain(self.cert_file, self.key_file, password="")
        except OSError as error:
            message = (
                f"TLS certificate {self.cert_file} with key {self.key_file}: {error}; certFile has"
                " to hold, as PEM, a certificate and the chain above it, and keyFile the"
                " certificate's private key, not encrypted"
            )
            raise KubextendError(message) from error
        if self.client_ca_file is not None:
            context.verify_mode = ssl.CERT_REQUIRED
            try:
                context.load_verify_locations(self.client_ca_file)
            except OSError as error:
                message = f"TLS client CA {self.client_ca_file}: {error}"
                raise KubextendError(message) from error
        return context

    def not_after_s(self) -> float:
        """Return when the server's certificate, which is valid now, expires: seconds of Unix time.

        A client looks at the certificate, in a handshake in memory.

        Raises: KubextendError: a file cannot be read or does not hold what it should, or the
            certificate has expired, is not valid yet, or is not for servers.
        """
        server, client = self.context(), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        server.verify_mode, client.check_hostname = ssl.CERT_NONE, False
        client.verify_flags |= ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN
        client.load_verify_locations(self.cert_file)
        to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
        asking = client.wrap_bio(to_client, to_server)
        answering = server.wrap_bio(to_server, to_client, server_side=True)
        try:
            for side in 3 * (asking, answering):
                with contextlib.suppress(ssl.SSLWantReadError):
                    side.do_handshake()
        except ssl.SSLCertVerificationError as error:
            message = f"TLS certificate {self.cert_file}: {error.verify_message}"
            raise KubextendError(message) from error
        return ssl.cert_time_to_seconds(str((asking.getpeercert() or {})["notAfter"]))


class RenewedTls:
    """The TLS context of a listener, which makes connections by the newest good files.

    Args:
        files: the paths of the certificate files.
        metrics: counts failed handshakes, and tells when the certificate ends.

    Attributes:
        context: the listener's context.

    Raises: KubextendError: a file cannot be read or does not hold what it should, or the
        certificate has expired.
    """

    def __init__(self, files: TlsFiles, metrics: Metrics) -> None:
        self._files = files
        self._failed = metrics.counter(_FAILED_HANDSHAKES)
        self._seen = files.content()
        self._not_after_s = files.not_after_s()
        metrics.scrape([_NOT_AFTER], lambda: self._not_after_s)
        self.context = files.context()
        self.context.on_failed = self._note_failed

    def look(self) -> None:
        """Use the certificates in the files for new connections, if they are changed and valid.

        A certificate and its key may be replaced one after the other, so for a moment the two may
        not fit each other. Each changed pair is reported once.
        """
        seen = self._files.content()
        if seen == self._seen:
            return
        self._seen = seen
        try:
            not_after_s, newest = self._files.not_after_s(), self._files.context()
        except (KubextendError, OSError) as error:
            _LOGGER.error("the old TLS certificate stays in use: %s", error)  # noqa: TRY400  expected
            return
        newest.on_failed = self._note_failed
        # Another context has other sessions: nobody resumes one that a withdrawn CA let in.
        self.context.newest, self._not_after_s = newest, not_after_s
        _LOGGER.info("TLS certificate %s was loaded again", self._files.cert_file)

    def _note_failed(self, why: str) -> None:
        self._failed.inc()
        _HANDSHAKES.warning("a TLS handshake failed: %s; kube-scheduler's log has its side", why)
