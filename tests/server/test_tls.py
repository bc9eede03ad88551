"""TLS: who is let in, who hears why not, and what the names in certificates allow."""

import json
import signal
import ssl
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from tests.doors.certificates import Authority, Pair
from tests.doors.extender import HOLDING, Extender, binding, pod, request
from tests.doors.sockets import Connection, Served, eventually, port_of, posted, replica, serve

from kubextend.testing import Bindings

pytestmark = pytest.mark.slow

REFUSALS = (ssl.SSLError, ConnectionError, EOFError)
TOKEN = "s3cret-and-long-enough"
EMAIL, URI = "ops@example.com", "https://ops.example"
FAILED = "kubextend_tls_handshakes_failed_total"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ca"), "ca")


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("stranger"), "stranger")


@pytest.fixture(scope="module")
def pair(authority: Authority) -> Pair:
    return authority.sign("server")


def tls(pair: Pair, client_ca: Path | None = None) -> dict[str, Any]:
    """Return the section ``server`` with a certificate, and a CA that clients need one of."""
    files = {"certFile": pair.cert_file, "keyFile": pair.key_file, "clientCAFile": client_ca}
    return {"tls": {name: str(file) for name, file in files.items() if file is not None}}


def client(authority: Authority, pair: Pair | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=authority.file)
    if pair is not None:
        context.load_cert_chain(pair.cert_file, pair.key_file)
    return context


def filters(served: Served, context: ssl.SSLContext) -> bool:
    with Connection(served.url, context) as connection:
        return connection.post("/filter", request("filter")).status == 200


@pytest.fixture
def guarded(authority: Authority, pair: Pair) -> Extender:
    """An extender whose clients need a certificate."""
    return Extender(server=tls(pair, authority.file))


def calls(extender: Extender) -> float:
    return extender.counted("kubextend_verb_requests_total", verb="filter", result="ok")


def test_a_tls_server_is_served_by_https_and_http_1_1(authority: Authority, pair: Pair) -> None:
    context = client(authority)
    context.set_alpn_protocols(["h2", "http/1.1"])
    with serve(Extender(server=tls(pair))) as served:
        assert served.url == f"https://127.0.0.1:{port_of(served.url)}"
        with Connection(served.url, context) as connection:
            assert isinstance(connection.socket, ssl.SSLSocket)
            assert connection.socket.selected_alpn_protocol() == "http/1.1"
            for _ in range(3):
                assert connection.post("/filter", request("filter")).status == 200


def test_tls_older_than_1_2_is_refused(authority: Authority, pair: Pair) -> None:
    old = client(authority)
    old.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        old.minimum_version = ssl.TLSVersion.TLSv1_1
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        old.maximum_version = ssl.TLSVersion.TLSv1_1
    with (
        serve(Extender(server=tls(pair))) as served,
        pytest.raises((ssl.SSLError, ConnectionError)),
    ):
        Connection(served.url, old)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize(
    "refusal",
    [
        ("none", "the client showed no certificate, which server.tls.clientCAFile asks for"),
        ("unknown", "unable to get local issuer certificate"),
        ("for-servers", "unsuitable certificate purpose"),
        ("late", "certificate has expired"),
    ],
)
def test_clients_without_a_good_certificate_run_no_verb(
    version: ssl.TLSVersion,
    refusal: tuple[str, str],
    guarded: Extender,
    authority: Authority,
    stranger: Authority,
    caplog: pytest.LogCaptureFixture,
) -> None:
    shown, said = refusal
    pairs = {
        "unknown": stranger.sign("unknown"),
        "for-servers": authority.sign("for-servers", for_clients=False),
        "late": authority.sign("late", lasts=timedelta(days=-1)),
    }
    context = client(authority, pairs.get(shown))
    context.minimum_version = context.maximum_version = version
    with serve(guarded) as served:
        with pytest.raises(REFUSALS):
            filters(served, context)
        # A client may notice the end of its connection before the server says why.
        eventually(lambda: guarded.counted(FAILED) == 1 and said in caplog.text)
        assert calls(guarded) == 0
        assert filters(served, client(authority, authority.sign("scheduler")))
    refused = "the client's certificate is not of server.tls.clientCAFile"
    assert (refused in caplog.messages[0]) == (shown != "none")
    assert "Traceback" not in caplog.text


def test_plain_http_on_the_tls_port_runs_no_verb(
    guarded: Extender, caplog: pytest.LogCaptureFixture
) -> None:
    with serve(guarded) as served:
        with pytest.raises((ConnectionError, EOFError)), Connection(served.url) as connection:
            connection.post("/filter", request("filter"))
        eventually(lambda: "failed: http request" in caplog.text)
    assert (calls(guarded), guarded.counted(FAILED)) == (0, 1)
    assert "Traceback" not in caplog.text


def test_of_handshakes_without_end_the_newest_is_closed(
    guarded: Extender, authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    trusted = client(authority, authority.sign("scheduler"))
    with serve(guarded) as served, ExitStack() as stack:
        for _ in range(520):
            stack.enter_context(Connection(served.url))
        eventually(lambda: guarded.counted(FAILED) == 8)
        assert "a TLS handshake failed: 512 others are under way" in caplog.text
        with pytest.raises(REFUSALS):
            filters(served, trusted)
        stack.close()

        def is_let_in() -> bool:
            try:
                return filters(served, trusted)
            except REFUSALS:
                return False

        eventually(is_let_in)
    assert "Traceback" not in caplog.text


def test_failed_handshakes_and_requests_that_are_no_http_write_few_lines(
    pair: Pair, tmp_path: Path
) -> None:
    for server, said in ((tls(pair), "a TLS handshake failed"), ({}, "Invalid HTTP request")):
        begun_s = time.monotonic()
        with replica(tmp_path, server=server) as served:
            for _ in range(200):
                with Connection(served.url) as connection:
                    connection.send(b"garbage\r\n\r\n")
                    connection.is_closed()
            served.signal(signal.SIGINT)
            lines = served.end().count(said)
        assert 0 < lines <= 10 * (time.monotonic() - begun_s + 1) < 200


@pytest.fixture(scope="module")
def by_name(authority: Authority, pair: Pair, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """An extender that is served, whose people have a certificate or a token."""
    token = tmp_path_factory.mktemp("tokens") / "token"
    token.write_text(TOKEN)
    names = ["ops", "ops.example", EMAIL, URI, "127.0.0.1"]
    deciders = {"allowedNames": names, "tokenFile": str(token)}
    readers = {"allowedNames": ["reader"], "page": True}
    people = {"waitingPods": deciders, "decisions": readers}
    extender = Extender(
        binder=Bindings(), profiles=[HOLDING], server=tls(pair, authority.file) | people
    )
    with serve(extender) as served:
        yield extender, served


By = tuple[Extender, Served]


@contextmanager
def held(by: By, authority: Authority) -> Iterator[Connection]:
    """Hold a pod with the certificate of kube-scheduler, until its connection ends."""
    extender, served = by
    scheduler = client(authority, authority.sign("system:kube-scheduler"))
    with Connection(served.url, scheduler) as connection:
        connection.post("/filter", request("filter", pod("a")))
        connection.send(posted("/bind", json.dumps(binding("a")).encode()))
        eventually(lambda: extender.waiting() == ["u-a"])
        yield connection
    eventually(lambda: extender.waiting() == [])


@pytest.mark.parametrize(
    ("names", "status"),
    [
        (("ops",), 200),
        (("somebody", "ops.example"), 200),
        (("somebody", "elsewhere", "ops"), 200),
        (("system:kube-scheduler",), 403),
        (("OPS",), 403),
        (("ops2", "ops.example.org"), 403),
        (("*.example",), 403),
    ],
)
def test_only_a_listed_name_of_a_certificate_decides_on_waiting_pods(
    names: tuple[str, ...], status: int, by_name: By, authority: Authority
) -> None:
    extender, served = by_name
    context = client(authority, authority.sign(*names))
    with held(by_name, authority) as bind, Connection(served.url, context) as connection:
        assert connection.get("/waiting-pods").status == status
        allowed = connection.post("/waiting-pods/u-a/allow", b"")
        assert allowed.status == status
        if status == 200:
            assert bind.answer().body == b'{"Error":""}'
        else:
            assert extender.waiting() == ["u-a"]
            assert allowed.error.endswith("none of server.waitingPods.allowedNames")


def test_only_common_and_dns_names_count_and_no_address_of_a_certificate(
    by_name: By, authority: Authority
) -> None:
    others = [x509.RFC822Name(EMAIL), x509.UniformResourceIdentifier(URI)]
    context = client(authority, authority.sign("somebody", others=others))
    with Connection(by_name[1].url, context) as connection:
        answer = connection.get("/waiting-pods")
    assert answer.status == 403
    assert "has the names somebody, none of" in answer.error


def test_a_token_helps_whose_name_is_not_listed_and_a_wrong_one_does_not(
    by_name: By, authority: Authority
) -> None:
    _, served = by_name
    context = client(authority, authority.sign("somebody"))
    with Connection(served.url, context) as connection:
        for token, status in ((TOKEN, 200), ("wrong", 401)):
            bearer = {"Authorization": f"Bearer {token}"}
            assert connection.get("/waiting-pods", **bearer).status == status
    with pytest.raises(REFUSALS), Connection(served.url, client(authority)) as connection:
        connection.get("/waiting-pods", Authorization=f"Bearer {TOKEN}")


def test_where_only_certificates_count_nobody_else_gets_a_file(
    by_name: By, authority: Authority
) -> None:
    _, served = by_name
    for name, status in (("reader", 200), ("ops", 403)):
        with Connection(served.url, client(authority, authority.sign(name))) as connection:
            for path in ("/ui/", "/ui/page.css", "/ui/page.js", "/overview"):
                answer = connection.get(path)
                assert answer.status == status
                if status == 403:
                    assert answer.error.endswith("none of server.decisions.allowedNames")
