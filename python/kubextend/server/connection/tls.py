"""TLS of a listener: the server's certificate, and clients' certificates if a client CA is set.

When certificate files are replaced, new connections use the new certificates, and open connections
keep the old.
"""

import asyncio
import contextlib
import hashlib
import logging
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

from kubextend.errors import KubextendError

__all__ = ["ClientTlsFiles", "HandshakeError", "TlsFiles", "TlsReloader"]

_LOGGER = logging.getLogger(__name__)

_HINTS: Final = {
    "KEY_VALUES_MISMATCH": "; the key is that of another certificate",
    "unsuitable certificate purpose": "; its extendedKeyUsage has to name serverAuth",
}
"""OpenSSL's error -> the end of a sentence that says what is wrong with the certificate files."""


class HandshakeError(ssl.SSLError):
    """A handshake failed at the server.

    Attributes:
        why: what was wrong, for the server's log.
        alert: the bytes that say so to the client; empty if TLS has no words for it. Event loops
            close the connection and do not send them.
    """

    def __init__(self, why: str, alert: bytes) -> None:
        super().__init__(why)
        self.why = why
        self.alert = alert


class _ServerSide(ssl.SSLObject):
    """The server's side of a TLS connection, whose errors of handshakes have the alert."""

    outgoing: ssl.MemoryBIO

    def do_handshake(self) -> None:
        """Go on with the handshake.

        Raises: HandshakeError: the handshake failed.
        """
        try:
            super().do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError, ssl.SSLSyscallError):
            raise
        except ssl.SSLError as error:
            raise HandshakeError(_why_failed(error), self.outgoing.read()) from error


class _ServerContext(ssl.SSLContext):
    """A TLS context for servers."""

    sslobject_class = _ServerSide

    def wrap_bio(
        self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, *args: Any, **named: Any
    ) -> ssl.SSLObject:
        """Return the server's side of a new connection."""
        side = cast("_ServerSide", super().wrap_bio(incoming, outgoing, *args, **named))
        side.outgoing = outgoing
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
    def paths(self) -> tuple[Path, ...]:
        """The paths of the certificate, key and CA files that the configuration names."""
        given = (self.cert_file, self.key_file, self.client_ca_file)
        return tuple(path for path in given if path is not None)

    def context(self) -> ssl.SSLContext:
        """Return a TLS context of these files, for TLS 1.2 or newer and HTTP/1.1.

        Raises: KubextendError: a file cannot be read, or does not hold what it should.
        """
        context = self._own_context()
        if self.client_ca_file is not None:
            self._require_client_certificates(context, self.client_ca_file)
        return context

    def check(self) -> None:
        """Check that a listener can use the files today.

        Raises: KubextendError: a file cannot be read or does not hold what it should, or the
            certificate is not valid now or not for servers.
        """
        self.context()
        self.not_after_s()

    def not_after_s(self) -> float:
        """Return when the server's certificate, which is valid now, expires: seconds of Unix time.

        Raises: KubextendError: the certificate has expired, is not valid yet, or not for servers.
        """
        try:
            certificate = self._accepted_certificate(None)
        except ssl.SSLCertVerificationError as error:
            hint = _HINTS.get(error.verify_message, "")
            message = f"TLS certificate {self.cert_file}: {error.verify_message}{hint}"
            raise KubextendError(message) from error
        return ssl.cert_time_to_seconds(certificate["notAfter"])

    def refusal_by_name(self, name: str) -> str:
        """Return why a client that calls the server by a name refuses the certificate.

        Return "" if the client accepts the certificate.

        The name or IP address has to be in the certificate's subjectAltName, as for clients in Go.

        Raises: KubextendError: a file cannot be read, or does not hold what it should.
        """
        try:
            self._accepted_certificate(name)
        except ssl.SSLCertVerificationError as error:
            return error.verify_message
        return ""

    def refusal_by_ca(self, ca_file: Path) -> str:
        """Return why a client that trusts a CA alone refuses the certificate.

        Return "" if the client accepts the certificate.

        Raises: KubextendError: a file cannot be read, or does not hold what it should.
        """
        client = ClientTlsFiles(ca_file).context()
        client.check_hostname = False
        try:
            _shake_hands(self._own_context(), client, None)
        except ssl.SSLCertVerificationError as error:
            return error.verify_message
        return ""

    def refusal_of(self, cert_file: Path, key_file: Path) -> str:
        """Return why the server would refuse a client with a certificate, or "".

        Raises: KubextendError: a file cannot be read, or does not hold what it should.
        """
        client = ClientTlsFiles(None, cert_file, key_file).context()
        client.check_hostname = False
        # Whether the client accepts the server is another question.
        client.verify_mode = ssl.CERT_NONE
        try:
            _shake_hands(self.context(), client, None)
        except HandshakeError as error:
            return error.why
        return ""

    def _accepted_certificate(self, name: str | None) -> Any:
        """Return the server's certificate, once a client that trusts it alone accepted it.

        The client and its handshake with the server exist only in memory.

        Raises: ssl.SSLCertVerificationError: a client that calls the server by ``name``, or by any
            name if ``name`` is None, refuses the certificate.
        """
        client = ClientTlsFiles(self.cert_file).context()
        client.check_hostname = name is not None
        return _shake_hands(self._own_context(), client, name)

    def fingerprint(self) -> bytes:
        """Return a digest of the contents of all certificate files.

        Raises: KubextendError: a file cannot be read.
        """
        digest = hashlib.sha256()
        for path in self.paths:
            try:
                digest.update(hashlib.sha256(path.read_bytes()).digest())
            except OSError as error:
                message = f"TLS file {path}: {error.strerror or error}"
                raise KubextendError(message) from error
        return digest.digest()

    def _own_context(self) -> ssl.SSLContext:
        context = _ServerContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        _load_pair(context, self.cert_file, self.key_file)
        return context

    @staticmethod
    def _require_client_certificates(context: ssl.SSLContext, ca_file: Path) -> None:
        try:
            context.load_verify_locations(ca_file)
        except OSError as error:
            message = f"TLS client CA {ca_file}: {error}"
            raise KubextendError(message) from error
        context.verify_mode = ssl.CERT_REQUIRED


@dataclass(frozen=True, slots=True)
class ClientTlsFiles:
    """The PEM files of a client: the CA of the server, and the client's own certificate and key.

    Attributes:
        ca_file: certificates that the client trusts; each is enough by itself, as for Go.
        cert_file: the client's certificate and the chain above it; None: the client has none.
        key_file: the private key of the client's certificate.
    """

    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None

    def context(self) -> ssl.SSLContext:
        """Return a TLS context of these files, which does not look at common names.

        Raises: KubextendError: a file cannot be read, or does not hold what it should.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.hostname_checks_common_name = False
        context.verify_flags |= ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN
        if self.ca_file is not None:
            try:
                context.load_verify_locations(self.ca_file)
            except OSError as error:
                message = f"TLS CA {self.ca_file}: {error}"
                raise KubextendError(message) from error
        if self.cert_file is not None and self.key_file is not None:
            _load_pair(context, self.cert_file, self.key_file)
        return context


class TlsReloader:
    """Keeps the TLS context of a listener up to date with the certificate files.

    Args:
        files: the paths of the certificate files.
        on_reload: called whenever the files have changed, with whether they are valid.

    Attributes:
        context: the TLS context for new connections.
        not_after_s: when the certificate expires, in seconds of Unix time.

    Raises: KubextendError: a file cannot be read or does not hold what it should, or the
        certificate has expired.
    """

    def __init__(self, files: TlsFiles, on_reload: Callable[[bool], None]) -> None:
        self._files = files
        self._on_reload = on_reload
        self._seen: bytes | str = files.fingerprint()
        self.context = files.context()
        self.not_after_s = files.not_after_s()

    async def watch(self, every_s: float) -> None:
        """Call ``look`` every ``every_s`` seconds, until cancelled."""
        while True:
            await asyncio.sleep(every_s)
            await asyncio.to_thread(self.look)

    def look(self) -> None:
        """Use the certificates in the files for new connections, if they are changed and valid.

        A certificate and its key may be replaced one after the other, so for a moment the two may
        not fit each other. Each changed pair is reported once, by ``on_reload``.
        """
        try:
            seen: bytes | str = self._files.fingerprint()
        except KubextendError as error:
            seen = str(error)
        if seen == self._seen:
            return
        self._seen = seen
        try:
            self._files.fingerprint()
            context = self._files.context()
            not_after_s = self._files.not_after_s()
        except (KubextendError, OSError) as error:
            _LOGGER.error("the old TLS certificate stays in use: %s", error)  # noqa: TRY400  expected
            self._on_reload(False)
            return
        self.context = context
        self.not_after_s = not_after_s
        _LOGGER.info("TLS certificate %s was loaded again", self._files.cert_file)
        self._on_reload(True)


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
        hint = _HINTS.get(getattr(error, "reason", None) or "", "") or _missing(cert_file, key_file)
        message = f"TLS certificate {cert_file} with key {key_file}: {error}{hint}"
        raise KubextendError(message) from error


def _missing(cert_file: Path, key_file: Path) -> str:
    """Return which file of a pair lacks what it has to hold, as the end of a sentence; or ""."""
    for file, pem, what in (
        (cert_file, b"CERTIFICATE-----", "certificate, which certFile"),
        (key_file, b"PRIVATE KEY-----", "private key, which keyFile"),
    ):
        with contextlib.suppress(OSError):
            if pem not in file.read_bytes():
                return f"; {file} has no {what} has to hold as PEM"
    return ""


def _shake_hands(server: ssl.SSLContext, client: ssl.SSLContext, name: str | None) -> Any:
    """Return the server's certificate as a client sees it after a TLS handshake in memory.

    Args:
        server: the server's TLS context.
        client: the client's TLS context.
        name: the name or IP address by which the client calls the server; None: no name.

    Raises:
        ssl.SSLCertVerificationError: the client does not accept the certificate.
        HandshakeError: the server does not accept the client's.
    """
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    answering = server.wrap_bio(to_server, to_client, server_side=True)
    asking = client.wrap_bio(to_client, to_server, server_hostname=name)
    while True:
        try:
            asking.do_handshake()
        except ssl.SSLWantReadError:
            pass
        else:
            # In TLS 1.3 the server looks at the client's certificate now.
            answering.do_handshake()
            return asking.getpeercert()
        try:
            answering.do_handshake()
        except ssl.SSLWantReadError:
            continue
