"""Short-lived certificates for one test session."""

import datetime as dt
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from tests.doors import certificates

# `kubextend doctor` warns of a certificate that ends within a week.
LIFETIME = dt.timedelta(days=30)


@dataclass(frozen=True)
class KeyPair:
    cert: Path
    key: Path

    @property
    def files(self) -> dict[str, str]:
        """Both files, by their fields in a configuration."""
        return {"certFile": str(self.cert), "keyFile": str(self.key)}


class Authority(certificates.Authority):
    """A certificate authority that lives as long as its folder."""

    def __init__(self, folder: Path, name: str = "kubextend e2e") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        super().__init__(folder, name)
        self.cert = self.file

    def issue(self, name: str) -> KeyPair:
        pair = self.sign(name, "localhost", lasts=LIFETIME)
        return KeyPair(pair.cert_file, pair.key_file)


def write_signing_key(path: Path) -> Path:
    """Write the key that kube-apiserver signs service account tokens with."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    form = serialization.PrivateFormat.TraditionalOpenSSL
    plain = serialization.NoEncryption()
    path.write_bytes(key.private_bytes(serialization.Encoding.PEM, form, plain))
    return path
