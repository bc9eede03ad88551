"""Certificates that change while the server runs, as a mounted Secret or a file does."""

import logging
import os
import shutil
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography import x509
from live_server import Connection, eventually, request, running, some_verbs
from server_certificates import Authority, Pair

from kubextend.errors import KubextendError
from kubextend.server import TlsFiles
from kubextend.server.connection.tls import TlsReloader
from kubextend.verbs import Verbs

LOOK_S = 0.05
SELDOM_S = 3600.0


class Mounted:
    """A folder as the kubelet mounts a Secret: files behind a link that is swapped at once."""

    def __init__(self, folder: Path, authority: Authority) -> None:
        self._folder = folder
        self._authority = authority
        self._version = 0
        self.files = TlsFiles(folder / "tls.crt", folder / "tls.key", folder / "ca.crt")
        for file in ("tls.crt", "tls.key", "ca.crt"):
            (folder / file).symlink_to(Path("..data") / file)

    def swap(self, pair: Pair, ca_file: Path | None = None) -> None:
        """All three files are others from one moment to the next."""
        self._version += 1
        version = self._folder / f"..{self._version}"
        version.mkdir()
        shutil.copy(pair.cert_file, version / "tls.crt")
        shutil.copy(pair.key_file, version / "tls.key")
        shutil.copy(ca_file or self._authority.file, version / "ca.crt")
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


Look = Callable[[], None]


@contextmanager
def serving(files: TlsFiles, verbs: Verbs) -> Iterator[tuple[str, Look]]:
    """A server, and what makes it look after its files, which it does not do by itself."""
    with running(verbs, tls=files, tls_look_s=SELDOM_S) as (url, service):
        reloader = service._servers[0].tls
        assert reloader is not None
        yield url, reloader.look


def replace(file: Path, content: bytes) -> None:
    """Another content from one moment to the next."""
    other = file.with_suffix(".tmp")
    other.write_bytes(content)
    other.replace(file)


def client(authority: Authority, pair: Pair) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=authority.file)
    context.load_cert_chain(pair.cert_file, pair.key_file)
    return context


def served(url: str, tls: ssl.SSLContext) -> str:
    """The name in the certificate that a new connection is shown."""
    with Connection(url, tls=tls) as connection:
        assert connection.post("/filter", request("filter")).status == 200
        assert isinstance(connection.socket, ssl.SSLSocket)
        shown = connection.socket.getpeercert(binary_form=True)
    assert shown is not None
    subject = x509.load_der_x509_certificate(shown).subject
    return subject.rfc4514_string().removeprefix("CN=")


def reloads(verbs: Verbs, result: str) -> float:
    name = "kubextend_certificate_reloads_total"
    return verbs.metrics.registry.get_sample_value(name, {"result": result}) or 0.0


def test_a_new_pair_is_live_and_open_connections_go_on(
    mounted: Mounted, authority: Authority
) -> None:
    verbs = some_verbs()
    tls = client(authority, authority.sign("scheduler"))
    with serving(mounted.files, verbs) as (url, look), Connection(url, tls=tls) as kept:
        assert kept.get("/livez").status == 200
        assert served(url, tls) == "first"
        for name in ("second", "third"):
            mounted.swap(authority.sign(name))
            look()
            look()
            assert served(url, tls) == name
            assert kept.post("/filter", request("filter")).status == 200
    assert (reloads(verbs, "ok"), reloads(verbs, "error")) == (2, 0)


def test_a_server_looks_after_its_files_by_itself(mounted: Mounted, authority: Authority) -> None:
    tls = client(authority, authority.sign("scheduler"))
    with running(some_verbs(), tls=mounted.files, tls_look_s=LOOK_S) as (url, _):
        for name in ("second", "third"):
            mounted.swap(authority.sign(name))
            eventually(lambda name=name: served(url, tls) == name)


def test_while_pairs_are_swapped_no_request_fails(mounted: Mounted, authority: Authority) -> None:
    tls = client(authority, authority.sign("scheduler"))
    over = threading.Event()
    seen: list[str] = []

    def ask() -> None:
        while not over.is_set():
            seen.append(served(url, tls))

    with serving(mounted.files, some_verbs()) as (url, look), ThreadPoolExecutor(1) as asking:
        asked = asking.submit(ask)
        for number in range(10):
            mounted.swap(authority.sign(f"pair-{number}"))
            look()
            eventually(lambda number=number: asked.done() or f"pair-{number}" in seen)
        over.set()
        asked.result()
    assert seen[-1] == "pair-9"


@pytest.mark.parametrize("bad", ["key first", "certificate first", "garbage", "empty", "gone"])
def test_files_that_are_no_good_leave_the_old_pair_until_they_are(
    tmp_path: Path, authority: Authority, bad: str, caplog: pytest.LogCaptureFixture
) -> None:
    verbs = some_verbs()
    tls = client(authority, authority.sign("scheduler"))
    old, new = authority.sign("old"), authority.sign("new")
    files = TlsFiles(tmp_path / "tls.crt", tmp_path / "tls.key", authority.file)
    shutil.copy(old.cert_file, files.cert_file)
    shutil.copy(old.key_file, files.key_file)
    with serving(files, verbs) as (url, look):
        match bad:
            case "key first":
                replace(files.key_file, new.key_file.read_bytes())
            case "certificate first":
                replace(files.cert_file, new.cert_file.read_bytes())
            case "garbage":
                replace(files.cert_file, b"-----BEGIN CERTIFICATE-----\n")
            case "empty":
                replace(files.key_file, b"")
            case "gone":
                files.key_file.unlink()
        # Told once, however long it lasts.
        for _ in range(3):
            look()
            assert reloads(verbs, "error") == 1
        assert served(url, tls) == "old"
        replace(files.key_file, new.key_file.read_bytes())
        replace(files.cert_file, new.cert_file.read_bytes())
        look()
        assert served(url, tls) == "new"
    (error,) = (record for record in caplog.records if record.levelno == logging.ERROR)
    assert "stays in use" in error.message
    assert "PRIVATE KEY" not in caplog.text


def test_a_pair_that_has_expired_does_not_replace_one_that_has_not(
    mounted: Mounted, authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    verbs = some_verbs()
    tls = client(authority, authority.sign("scheduler"))
    with serving(mounted.files, verbs) as (url, look):
        mounted.swap(authority.sign("expired", lasts=timedelta(days=-1)))
        look()
        assert reloads(verbs, "error") == 1
        assert served(url, tls) == "first"
    assert "certificate has expired" in caplog.text


@pytest.mark.parametrize("pair", ["second", "first"], ids=["with the pair", "alone"])
def test_another_ca_for_clients_is_taken_over(
    mounted: Mounted, authority: Authority, tmp_path: Path, pair: str
) -> None:
    folder = tmp_path / "other"
    folder.mkdir()
    other = Authority(folder, "other")
    first = authority.sign("first")
    mounted.swap(first)
    verbs = some_verbs()
    old, new = (client(authority, signed.sign("scheduler")) for signed in (authority, other))
    with serving(mounted.files, verbs) as (url, look):
        assert served(url, old) == "first"
        # Nobody that the withdrawn one has signed is let in any more.
        mounted.swap(first if pair == "first" else authority.sign(pair), other.file)
        look()
        assert reloads(verbs, "ok") == 1
        assert served(url, new) == pair
        with pytest.raises((ssl.SSLError, ConnectionError, EOFError)):
            served(url, old)


def test_a_certificate_that_has_ended_is_refused_at_the_start(authority: Authority) -> None:
    ended = authority.sign("ended", lasts=timedelta(minutes=-1))
    with pytest.raises(KubextendError, match=f"{ended.cert_file}: certificate has expired"):
        TlsReloader(TlsFiles(ended.cert_file, ended.key_file), lambda _loaded: None)


def test_what_openssl_refuses_comes_with_what_would_be_right(authority: Authority) -> None:
    own, other = authority.sign("own"), authority.sign("other")
    with pytest.raises(KubextendError, match="; the key is that of another certificate"):
        TlsFiles(own.cert_file, other.key_file).check()
    of_client = authority.sign("of-client", for_servers=False)
    with pytest.raises(KubextendError, match="; its extendedKeyUsage has to name serverAuth"):
        TlsFiles(of_client.cert_file, of_client.key_file).check()


def test_metrics_say_when_the_certificate_ends(mounted: Mounted, authority: Authority) -> None:
    verbs = some_verbs()

    def days() -> float:
        name = "kubextend_certificate_not_after_seconds"
        ends_s = verbs.metrics.registry.get_sample_value(name) or 0.0
        return (ends_s - time.time()) / 86_400

    with serving(mounted.files, verbs) as (_, look):
        assert days() == pytest.approx(1, abs=0.1)
        mounted.swap(authority.sign("longer", lasts=timedelta(days=9)))
        look()
        assert days() == pytest.approx(9, abs=0.1)
        mounted.swap(authority.sign("ended", lasts=timedelta(minutes=-1)))
        look()
        assert days() == pytest.approx(9, abs=0.1)
