import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest
import uvicorn
import uvloop
from cryptography.hazmat.primitives import serialization
from live_server import (
    PATIENT_S,
    Connection,
    eventually,
    port_of,
    request,
    serving,
    some_verbs,
)
from server_certificates import Authority, Pair

from kubextend.errors import KubextendError
from kubextend.server import TlsFiles, http_service
from kubextend.server.connection import handshakes
from kubextend.verbs import Verbs
from kubextend.why import Server


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ca"), "ca")


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("stranger"), "stranger")


@pytest.fixture(scope="module")
def server_pair(authority: Authority) -> Pair:
    return authority.sign("server")


@pytest.fixture
def guarded_verbs() -> Verbs:
    return some_verbs()


@pytest.fixture
def guarded(
    guarded_verbs: Verbs,
    authority: Authority,
    server_pair: Pair,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[str]:
    """A server that wants client certificates, and says once in its life what it says at times."""
    monkeypatch.setattr(http_service, "_SAID_AGAIN_S", float("inf"))
    tls = TlsFiles(server_pair.cert_file, server_pair.key_file, authority.file)
    with serving(guarded_verbs, tls=tls) as url:
        yield url


def client(authority: Authority, pair: Pair | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=authority.file)
    if pair is not None:
        context.load_cert_chain(pair.cert_file, pair.key_file)
    return context


def ended(silent: socket.socket) -> None:
    """Raise ConnectionError once the server has closed a connection."""
    if silent.recv(1) == b"":
        raise ConnectionAbortedError


def refused_connections(verbs: Verbs) -> float:
    name = "kubextend_connections_refused_total"
    return verbs.metrics.registry.get_sample_value(name, {"listener": "verbs"}) or 0


def calls(verbs: Verbs) -> float:
    labels = {"verb": "filter", "result": "ok"}
    return verbs.metrics.registry.get_sample_value("kubextend_verb_requests_total", labels) or 0


def test_https_answers_and_says_so_in_its_url(authority: Authority, server_pair: Pair) -> None:
    tls = TlsFiles(server_pair.cert_file, server_pair.key_file)
    with serving(some_verbs(), tls=tls) as url:
        assert url == f"https://127.0.0.1:{port_of(url)}"
        with Connection(url, tls=client(authority)) as connection:
            answers = [connection.post("/filter", request("filter")) for _ in range(3)]
            assert [answer.status for answer in answers] == [200, 200, 200]
            large = request("filter", nodes=[{"metadata": {"name": "x" * 3_000_000}}])
            assert connection.post("/filter", large).status == 200


def test_a_client_with_a_certificate_of_the_ca_is_served(
    guarded: str, authority: Authority
) -> None:
    context = client(authority, authority.sign("scheduler"))
    with Connection(guarded, tls=context) as connection:
        assert connection.post("/filter", request("filter")).status == 200


def test_clients_without_a_good_certificate_run_no_verb(
    guarded: str,
    guarded_verbs: Verbs,
    authority: Authority,
    stranger: Authority,
    caplog: pytest.LogCaptureFixture,
) -> None:
    for pair in (
        None,
        stranger.sign("other-ca"),
        authority.sign("expired", lasts=timedelta(days=-1)),
    ):
        with (
            pytest.raises((ssl.SSLError, ConnectionError, EOFError)),
            Connection(guarded, tls=client(authority, pair)) as connection,
        ):
            connection.post("/filter", request("filter"))
    # A client may notice the end of its connection before the server says why.
    eventually(lambda: failed_handshakes(guarded_verbs) == 3)
    assert calls(guarded_verbs) == 0
    assert "Traceback" not in caplog.text
    [said] = caplog.messages
    assert said.startswith(
        "a TLS handshake on the verbs failed: the client showed no certificate, which "
        "server.tls.clientCAFile asks for"
    )


@pytest.mark.parametrize("loop", [uvloop.new_event_loop, asyncio.new_event_loop])
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_client_whose_certificate_is_refused_hears_and_the_log_has_why(
    loop: Callable[[], asyncio.AbstractEventLoop],
    version: ssl.TLSVersion,
    authority: Authority,
    stranger: Authority,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(uvicorn.Config, "get_loop_factory", lambda _: loop)
    monkeypatch.setattr(http_service, "_SAID_AGAIN_S", 0.0)
    monkeypatch.setattr(handshakes, "_LAST_WORDS_S", PATIENT_S)
    pair = authority.sign("server")
    tls = TlsFiles(pair.cert_file, pair.key_file, authority.file)
    missing = "HANDSHAKE_FAILURE" if version == ssl.TLSVersion.TLSv1_2 else "CERTIFICATE_REQUIRED"
    for shown, alert, said in (
        (None, missing, "the client showed no certificate"),
        (stranger.sign("unknown"), "UNKNOWN_CA", "unable to get local issuer certificate"),
        (
            authority.sign("for-servers", for_clients=False),
            "UNSUPPORTED_CERTIFICATE",
            "unsuitable certificate purpose",
        ),
        (
            authority.sign("late", lasts=timedelta(days=-1)),
            "CERTIFICATE_EXPIRED",
            "certificate has expired",
        ),
    ):
        context = client(authority, shown)
        context.minimum_version = context.maximum_version = version
        with serving(some_verbs(), tls=tls) as url:
            with pytest.raises(ssl.SSLError) as heard:
                send_a_long_head(url, context)
            eventually(lambda said=said: said in caplog.text)
        assert alert in str(heard.value.reason)
        refused = "the client's certificate is not of server.tls.clientCAFile"
        assert (refused in caplog.messages[-1]) == (shown is not None)
        caplog.clear()


def send_a_long_head(url: str, context: ssl.SSLContext) -> None:
    """Send more than a server reads before it refuses a client, and read the answer."""
    with Connection(url, tls=context) as connection:
        connection.send(b"GET /livez HTTP/1.1\r\nHost: kubextend\r\nX: ", b"x" * 100_000)
        connection.socket.recv(1)


def failed_handshakes(verbs: Verbs) -> float | None:
    return verbs.metrics.registry.get_sample_value("kubextend_tls_handshakes_failed_total")


def test_plain_http_on_the_tls_port_runs_no_verb(
    guarded: str, guarded_verbs: Verbs, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises((ConnectionError, EOFError)), Connection(guarded) as connection:
        connection.post("/filter", request("filter"))
    eventually(lambda: "failed: http request" in caplog.text)
    assert calls(guarded_verbs) == 0
    assert "Traceback" not in caplog.text
    assert failed_handshakes(guarded_verbs) == 1


def test_tls_older_than_1_2_is_refused(authority: Authority, server_pair: Pair) -> None:
    context = TlsFiles(server_pair.cert_file, server_pair.key_file).context()
    assert context.minimum_version == ssl.TLSVersion.TLSv1_2
    tls = TlsFiles(server_pair.cert_file, server_pair.key_file)
    old = client(authority)
    old.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        old.minimum_version = ssl.TLSVersion.TLSv1_1
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        old.maximum_version = ssl.TLSVersion.TLSv1_1
    with (
        serving(some_verbs(), tls=tls) as url,
        pytest.raises((ssl.SSLError, ConnectionError)),
    ):
        Connection(url, tls=old)


def test_a_client_that_is_served_hears_http_1_1(authority: Authority, server_pair: Pair) -> None:
    context = client(authority)
    context.set_alpn_protocols(["h2", "http/1.1"])
    tls = TlsFiles(server_pair.cert_file, server_pair.key_file)
    with serving(some_verbs(), tls=tls) as url, Connection(url, tls=context) as connection:
        assert isinstance(connection.socket, ssl.SSLSocket)
        assert connection.socket.selected_alpn_protocol() == "http/1.1"


def test_files_that_are_no_good_are_named(
    tmp_path: Path, server_pair: Pair, authority: Authority
) -> None:
    other = authority.sign("other")
    garbage = tmp_path / "garbage.pem"
    garbage.write_text("-----BEGIN CERTIFICATE-----\n")
    absent = tmp_path / "absent.pem"
    for files, named in (
        (TlsFiles(absent, server_pair.key_file), absent),
        (TlsFiles(garbage, server_pair.key_file), garbage),
        (TlsFiles(server_pair.cert_file, other.key_file), other.key_file),
        (TlsFiles(server_pair.cert_file, server_pair.key_file, absent), absent),
        (TlsFiles(server_pair.cert_file, server_pair.key_file, garbage), garbage),
    ):
        with pytest.raises(KubextendError, match=named.name):
            files.context()


def test_an_encrypted_key_is_named_and_nobody_is_asked_for_its_password(
    tmp_path: Path, server_pair: Pair
) -> None:
    key = serialization.load_pem_private_key(server_pair.key_file.read_bytes(), password=None)
    encrypted = tmp_path / "encrypted.key"
    encrypted.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"secret"),
        )
    )
    with pytest.raises(KubextendError, match=r"encrypted\.key is encrypted"):
        TlsFiles(server_pair.cert_file, encrypted).context()


def test_a_handshake_that_does_not_end_is_cut_off(
    authority: Authority, server_pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_service, "_HANDSHAKE_S", 2.0)
    tls = TlsFiles(server_pair.cert_file, server_pair.key_file)
    with serving(some_verbs(), tls=tls) as url:
        # Half of the minute that event loops give.
        with socket.create_connection(("127.0.0.1", port_of(url)), timeout=30) as silent:
            assert silent.recv(1) == b""
        with Connection(url, tls=client(authority)) as connection:
            assert connection.get("/livez").status == 200


def test_the_oldest_of_512_handshakes_gives_way_to_a_new_client(
    authority: Authority, server_pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_service, "_HANDSHAKE_S", 600.0)
    verbs = some_verbs()
    tls = TlsFiles(server_pair.cert_file, server_pair.key_file)
    with serving(verbs, tls=tls) as url, contextlib.ExitStack() as stack:
        silent = [
            stack.enter_context(socket.create_connection(("127.0.0.1", port_of(url)), 30))
            for _ in range(512)
        ]
        # A handshake that is over leaves its place to the next.
        for _ in range(2):
            with Connection(url, tls=client(authority)) as connection:
                assert connection.get("/livez").status == 200
        with pytest.raises(ConnectionError):
            ended(silent[0])
        silent[1].setblocking(False)
        with pytest.raises(BlockingIOError):
            silent[1].recv(1)
    assert refused_connections(verbs) == 1


def test_a_reader_without_a_certificate_is_told_that_one_may_be_needed(
    guarded: str, authority: Authority, stranger: Authority
) -> None:
    with pytest.raises(KubextendError, match="give --cert-file and --key-file"):
        Server(guarded, authority.file).get("/decisions", {})
    pair = stranger.sign("reader")
    shown = Server(guarded, authority.file, str(pair.cert_file), str(pair.key_file))
    with pytest.raises(KubextendError) as refused:
        shown.get("/decisions", {})
    assert "--cert-file" not in str(refused.value)
    with pytest.raises(KubextendError) as unknown:
        Server(guarded, stranger.file).get("/decisions", {})
    assert "--cert-file" not in str(unknown.value)


def test_a_certificate_is_checked_by_the_name_that_is_given(
    guarded_verbs: Verbs, authority: Authority
) -> None:
    pair = authority.sign("named", "kubextend.example")
    with serving(guarded_verbs, tls=TlsFiles(pair.cert_file, pair.key_file)) as url:
        # The certificate names the address and kubextend.example.
        other = url.replace("127.0.0.1", "localhost")
        for name, words in (
            (None, "certificate is not valid for 'localhost'"),
            ("other.example", "certificate is not valid for 'other.example'"),
            ("kubextend.example", "status 404"),
        ):
            with pytest.raises(KubextendError, match=words):
                Server(other, str(authority.file), server_name=name).get("/decisions", {})


def test_a_reader_who_asks_kubextend_without_tls_by_https_is_told_so(
    guarded_verbs: Verbs, authority: Authority
) -> None:
    with serving(guarded_verbs) as url:
        server = Server(url.replace("http:", "https:"), str(authority.file))
        with pytest.raises(KubextendError, match="answers without TLS"):
            server.get("/decisions", {})
