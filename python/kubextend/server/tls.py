"""TLS of a listener: its own certificate, and that of its clients where a CA is given."""

import ssl
from dataclasses import dataclass
from pathlib import Path

from kubextend.errors import KubextendError

__all__ = ["TlsFiles"]


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """PEM files.

    Attributes:
        cert_file: the server's certificate and the chain above it.
        key_file: its key.
        client_ca_file: clients need a certificate of this CA; None lets any client in.
    """

    cert_file: Path
    key_file: Path
    client_ca_file: Path | None = None

    def context(self) -> ssl.SSLContext:
        """What these files make: TLS 1.2 or newer, HTTP/1.1.

        Raises: KubextendError: a file cannot be read, or is not what it should be.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        try:
            context.load_cert_chain(self.cert_file, self.key_file, self._refuse_password)
        except OSError as error:
            message = f"TLS certificate {self.cert_file} with key {self.key_file}: {error}"
            raise KubextendError(message) from error
        if self.client_ca_file is not None:
            self._require_client_certificates(context, self.client_ca_file)
        return context

    def _refuse_password(self) -> str:
        """Without this OpenSSL would ask for a password on the terminal, and wait."""
        message = f"TLS key {self.key_file} is encrypted; kubextend needs it without a password"
        raise KubextendError(message)

    @staticmethod
    def _require_client_certificates(context: ssl.SSLContext, ca_file: Path) -> None:
        try:
            context.load_verify_locations(ca_file)
        except OSError as error:
            message = f"TLS client CA {ca_file}: {error}"
            raise KubextendError(message) from error
        context.verify_mode = ssl.CERT_REQUIRED
