"""Certificates that change while the server runs, as a mounted Secret or a file does."""

import logging
import os
import shutil
import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography import x509
from tests.doors.certificates import Authority, Pair
from tests.doors.extender import Extender, request
from tests.doors.sockets import Connection, Served, eventually, serve

pytestmark = pytest.mark.slow

LOOK_S = 0.05
RELOADS = "kubextend_certificate_reloads_total"


class Mounted:
    """A folder as the kubelet mounts a Secret: files behind a link that is swapped at once."""

    def __init__(self, folder: Path, authority: Authority) -> None:
        self._folder = folder
        self._ca_file = authority.file
        self._version = 0
        names = {"certFile": "tls.crt", "keyFile": "tls.key", "clientCAFile": "ca.crt"}
        self.section = {"tls": {field: str(folder / name) for field, name in names.items()}}
        for file in names.values():
            (folder / file).symlink_to(Path("..data") / file)

    def swap(self, pair: Pair, ca_file: Path | None = None) -> None:
        """Exchange all three files from one moment to the next."""
        self._version += 1
        version = self._folder / f"..{self._version}"
        version.mkdir()
        shutil.copy(pair.cert_file, version / "tls.crt")
        shutil.copy(pair.key_file, version / "tls.key")
        shutil.copy(ca_file or self._ca_file, version / "ca.crt")
        link = self._folder / "..data_tmp"
        link.symlink_to(version.name)
        os.replace(link, self._folder / "..data")  # noqa: PTH105  as the kubelet does it


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path, "ca")


@pytest.fixture
def mounted(tmp_path: Path, authority: Authority) -> Mounted:
    folder = tmp_path / "mounted"
    folder.mkdir()
    made = Mounted(folder, authority)
    made.swap(authority.sign("first"))
    return made


@contextmanager
def serving(mounted: Mounted) -> Iterator[tuple[Extender, Served]]:
    """Serve with the files, which the server looks at twenty times a second."""
    extender = Extender(server=mounted.section)
    with serve(extender, tls_look_s=LOOK_S) as served:
        yield extender, served


def client(authority: Authority, pair: Pair) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=authority.file)
    context.load_cert_chain(pair.cert_file, pair.key_file)
    return context


def shown(served: Served, tls: ssl.SSLContext) -> str:
    """Return the name in the certificate that a new connection is shown."""
    with Connection(served.url, tls=tls) as connection:
        assert connection.post("/filter", request("filter")).status == 200
        assert isinstance(connection.socket, ssl.SSLSocket)
        certificate = connection.socket.getpeercert(binary_form=True)
    assert certificate is not None
    subject = x509.load_der_x509_certificate(certificate).subject
    return subject.rfc4514_string().removeprefix("CN=")


def test_a_new_pair_is_live_and_open_connections_go_on(
    mounted: Mounted, authority: Authority
) -> None:
    tls = client(authority, authority.sign("scheduler"))
    with serving(mounted) as (extender, served), Connection(served.url, tls=tls) as kept:
        assert kept.get("/livez").status == 200
        assert shown(served, tls) == "first"
        for name in ("second", "third"):
            mounted.swap(authority.sign(name))
            eventually(lambda name=name: shown(served, tls) == name)
            assert kept.post("/filter", request("filter")).status == 200
    assert extender.counted(RELOADS, result="ok") == 2
    assert extender.counted(RELOADS, result="error") == 0


def replace(file: Path, content: bytes) -> None:
    """Give a file another content from one moment to the next."""
    other = file.with_suffix(".tmp")
    other.write_bytes(content)
    other.replace(file)


@pytest.mark.parametrize("bad", ["key first", "certificate first", "garbage", "gone", "expired"])
def test_files_that_are_no_good_leave_the_old_pair_until_they_are(
    mounted: Mounted, authority: Authority, bad: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The failure is counted and logged once, however long it lasts."""
    tls = client(authority, authority.sign("scheduler"))
    new, expired = authority.sign("new"), authority.sign("late", lasts=timedelta(days=-1))
    cert_file, key_file = (Path(mounted.section["tls"][each]) for each in ("certFile", "keyFile"))
    with serving(mounted) as (extender, served):
        match bad:
            case "key first":
                replace(key_file, new.key_file.read_bytes())
            case "certificate first":
                replace(cert_file, new.cert_file.read_bytes())
            case "garbage":
                replace(cert_file, b"-----BEGIN CERTIFICATE-----\n")
            case "gone":
                key_file.unlink()
            case "expired":
                mounted.swap(expired)
        eventually(lambda: extender.counted(RELOADS, result="error"))
        assert shown(served, tls) == "first"
        mounted.swap(new)
        replace(key_file, new.key_file.read_bytes())
        replace(cert_file, new.cert_file.read_bytes())
        eventually(lambda: shown(served, tls) == "new")
    errors = [record.message for record in caplog.records if record.levelno == logging.ERROR]
    assert "stays in use" in errors[0]
    assert len(errors) == len(set(errors))
    assert "PRIVATE KEY" not in caplog.text
    if bad == "expired":
        assert "certificate has expired" in errors[0]


@pytest.mark.parametrize("pair", ["second", "first"], ids=["with the pair", "alone"])
def test_another_ca_for_clients_is_taken_over(
    mounted: Mounted, authority: Authority, tmp_path: Path, pair: str
) -> None:
    """Nobody whom only the withdrawn CA has signed is let in any more."""
    folder = tmp_path / "other"
    folder.mkdir()
    other = Authority(folder, "other")
    first = authority.sign("first")
    mounted.swap(first)
    old, new = (client(authority, signed.sign("scheduler")) for signed in (authority, other))
    with serving(mounted) as (extender, served):
        assert shown(served, old) == "first"
        mounted.swap(first if pair == "first" else authority.sign(pair), other.file)
        eventually(lambda: extender.counted(RELOADS, result="ok"))
        assert shown(served, new) == pair
        with pytest.raises((ssl.SSLError, ConnectionError, EOFError)):
            shown(served, old)


def test_a_failed_handshake_is_counted_and_logged_after_a_renewal_too(
    mounted: Mounted, authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    without = ssl.create_default_context(cafile=authority.file)
    with serving(mounted) as (extender, served):
        mounted.swap(authority.sign("second"))
        eventually(lambda: extender.counted(RELOADS, result="ok"))
        with pytest.raises((ssl.SSLError, ConnectionError, EOFError)):
            shown(served, without)
        eventually(lambda: extender.counted("kubextend_tls_handshakes_failed_total") == 1)
        eventually(lambda: "the client showed no certificate" in caplog.text)


def test_metrics_say_when_the_certificate_ends(mounted: Mounted, authority: Authority) -> None:
    def days() -> float:
        ends_s = extender.counted("kubextend_certificate_not_after_seconds")
        return round((ends_s - time.time()) / 86_400)

    with serving(mounted) as (extender, _):
        assert days() == 1
        mounted.swap(authority.sign("longer", lasts=timedelta(days=9)))
        eventually(lambda: days() == 9)
        mounted.swap(authority.sign("ended", lasts=timedelta(minutes=-1)))
        eventually(lambda: extender.counted(RELOADS, result="error"))
        assert days() == 9
