"""Makes certificate authorities and signed certificates for tests, as PEM files."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID


@dataclass(frozen=True)
class Pair:
    """A certificate file and its key file."""

    cert_file: Path
    key_file: Path


class Authority:
    """A certificate authority, whose own certificate is the PEM file ``file``."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._name = name
        self._key = ec.generate_private_key(ec.SECP256R1())
        built = _builder(name, name, self._key.public_key(), timedelta(days=1))
        constraints = x509.BasicConstraints(ca=True, path_length=None)
        built = built.add_extension(constraints, critical=True)
        self.file = folder / f"{name}.pem"
        self.file.write_bytes(_pem(built.sign(self._key, hashes.SHA256())))

    def sign(
        self,
        name: str,
        *dns_names: str,
        lasts: timedelta = timedelta(days=1),
        for_servers: bool = True,
        for_clients: bool = True,
        others: Sequence[x509.GeneralName] = (),
    ) -> Pair:
        """Sign a certificate for 127.0.0.1 and ``others``; ``lasts`` may be negative."""
        key = ec.generate_private_key(ec.SECP256R1())
        usages = [ExtendedKeyUsageOID.CLIENT_AUTH] * for_clients
        usages += [ExtendedKeyUsageOID.SERVER_AUTH] * for_servers
        loopback = x509.IPAddress(ip_address("127.0.0.1"))
        names = [loopback, *map(x509.DNSName, dns_names), *others]
        certificate = (
            _builder(name, self._name, key.public_key(), lasts)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        pair = Pair(self._folder / f"{name}.crt", self._folder / f"{name}.key")
        pair.cert_file.write_bytes(_pem(certificate))
        pair.key_file.write_bytes(_private(key))
        return pair


def _builder(
    name: str, issuer: str, key: ec.EllipticCurvePublicKey, lasts: timedelta
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(_named(name))
        .issuer_name(_named(issuer))
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=2))
        .not_valid_after(now + lasts)
    )


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _private(key: ec.EllipticCurvePrivateKey) -> bytes:
    plain = serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
