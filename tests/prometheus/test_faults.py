import re
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.doors import fake_prometheus as fake
from tests.doors.answering import closed_port
from tests.doors.certificates import Authority
from tests.doors.fake_prometheus import FakePrometheus
from tests.doors.sockets import eventually

from kubextend.prometheus import Endpoint, NodeLabel, Query, Source

pytestmark = pytest.mark.slow

# Of those queries alone that are to take longer.
TIMEOUT_S = 0.3
PATIENCE_S = 60.0
MAX_BYTES = 1 << 20


Server = tuple[FakePrometheus, str]


@pytest.fixture
def server() -> Iterator[Server]:
    with fake.running() as started:
        yield started


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path, "ca")


def source_at(address: str, interval_s: float = 0.02, **credentials: str) -> Source:
    query = Query(address, "up", NodeLabel("instance"), interval_s, PATIENCE_S, **credentials)
    return Source(query, Endpoint(address, max_answer_bytes=MAX_BYTES, **credentials))


def fails_by_its_timeout(source: Source) -> bool:
    """The fault goes on for as long as the test waits, so only the timeout can end it."""
    source.query = replace(source.query, timeout_s=TIMEOUT_S)
    failed = not source.refresh()
    source.query = replace(source.query, timeout_s=PATIENCE_S)
    return failed


def is_of_server(thread: threading.Thread) -> bool:
    return "process_request" in thread.name


def values(source: Source) -> object:
    latest = source.latest(PATIENCE_S * 2)
    return latest and latest.by_node


@pytest.mark.parametrize("fault", [fake.good, fake.chunked, fake.slow])
def test_a_good_answer_is_read_however_it_comes(server: Server, fault: fake.Fault) -> None:
    server[0].fault = fault
    source = source_at(f"{server[1]}/prefix")
    assert source.refresh()
    assert values(source) == {"a": 7.0}
    [(path, headers)] = server[0].seen
    assert path == "/prefix/api/v1/query?query=up&timeout=60s"
    assert "Authorization" not in headers


LATE = [fake.silent, fake.trickling_headers, fake.trickling_body, fake.trickling_last_body]
FAULTS = [
    *((fault, "no whole answer within") for fault in LATE),
    (fake.cut_off, "cut off 20 bytes before its end"),
    (fake.refused, "HTTP 400: parse error: no such thing"),
    (fake.unavailable, "HTTP 503$"),
    (fake.forbidden, "HTTP 403$"),
    (fake.redirected, "HTTP 302$"),
    (fake.page, "no JSON"),
    (fake.empty, "no JSON"),
    (fake.announced_huge, "longer than 1048576 bytes"),
    (fake.endless, "longer than 1048576 bytes"),
    (fake.endless_chunks, "longer than 1048576 bytes"),
    (fake.endless_headers, "too long|more than 100 headers|LineTooLong"),
    (fake.no_http, "BadStatusLine"),
    (fake.gone, "RemoteDisconnected|closed connection"),
]


@pytest.mark.parametrize(("fault", "complaint"), FAULTS)
def test_a_fault_costs_the_timeout_at_most_and_leaves_the_last_good_values(
    server: Server, fault: fake.Fault, complaint: str, caplog: pytest.LogCaptureFixture
) -> None:
    source = source_at(server[1])
    assert source.refresh()
    server[0].fault = fault
    before = {*threading.enumerate()}
    assert fails_by_its_timeout(source) if fault in LATE else not source.refresh()
    [said] = caplog.messages
    assert re.search(complaint, said)
    assert values(source) == {"a": 7.0}
    server[0].fault = fake.good
    assert source.refresh()
    # Nothing is left but the server's threads, for the requests that it still is busy with.
    eventually(lambda: all(map(is_of_server, {*threading.enumerate()} - before)))


@pytest.mark.parametrize("fault", [fake.silent, fake.trickling_body])
def test_reading_values_never_waits_for_a_refresh_that_is_stuck(
    server: Server, fault: fake.Fault, caplog: pytest.LogCaptureFixture
) -> None:
    source = source_at(server[1])
    assert source.refresh()
    server[0].fault = fault
    source.start()
    try:
        eventually(lambda: len(server[0].seen) > 1)
        for _ in range(200):
            assert values(source)
        assert len(server[0].seen) == 2
        assert source.refreshes == {"ok": 1, "failed": 0}
    finally:
        source.stop()
    # The stop ends the query.
    eventually(lambda: source.refreshes["failed"])
    assert source.refreshes == {"ok": 1, "failed": 1}
    assert "no whole answer within" in caplog.text


def test_a_server_that_is_not_there_is_a_failure() -> None:
    with closed_port() as nobody:
        source = source_at(f"http://{nobody}")
    source.start()
    try:
        eventually(lambda: source.refreshes["failed"] >= 2)
        assert values(source) is None
    finally:
        source.stop()
    nowhere = source_at("http://prometheus.invalid:9090")
    assert not nowhere.refresh()
    assert nowhere.refreshes["failed"] == 1


def test_a_certificate_of_an_unknown_authority_is_refused_until_it_is_known(
    authority: Authority, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    known = authority.file.read_bytes()
    authority.file.write_bytes(Authority(tmp_path, "other").file.read_bytes())
    with fake.running(authority.sign("server")) as (server, address):
        source = source_at(address, ca_file=str(authority.file))
        assert not source.refresh()
        assert "CERTIFICATE_VERIFY_FAILED" in caplog.text
        assert server.seen == []
        authority.file.write_bytes(known)
        assert source.refresh()


@pytest.mark.parametrize(
    ("host", "ca_file", "said"),
    [
        ("127.0.0.1", None, "CERTIFICATE_VERIFY_FAILED"),
        ("127.0.0.1", "/nowhere/ca.pem", "No such file"),
        ("localhost", "ca.pem", "CERTIFICATE_VERIFY_FAILED"),
    ],
)
def test_a_certificate_that_nobody_vouches_for_or_of_another_name_is_refused(
    host: str,
    ca_file: str | None,
    said: str,
    authority: Authority,
    caplog: pytest.LogCaptureFixture,
) -> None:
    given = {} if ca_file is None else {"ca_file": str(authority.file.parent / ca_file)}
    with fake.running(authority.sign("server")) as (server, address):
        assert not source_at(address.replace("127.0.0.1", host), **given).refresh()
        assert server.seen == []
    assert said in caplog.text


def test_plain_http_behind_https_is_a_failure(server: Server) -> None:
    assert not source_at(server[1].replace("http:", "https:")).refresh()


@pytest.mark.parametrize("fault", [fake.silent, fake.trickling_body])
def test_over_tls_the_time_is_bounded_as_well(
    authority: Authority, fault: fake.Fault, caplog: pytest.LogCaptureFixture
) -> None:
    with fake.running(authority.sign("server")) as (server, address):
        source = source_at(address, ca_file=str(authority.file))
        assert source.refresh()
        server.fault = fault
        assert fails_by_its_timeout(source)
        assert "no whole answer within" in caplog.text


def test_a_token_is_read_again_for_every_query_and_never_logged(
    authority: Authority, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    token = tmp_path / "token"
    with fake.running(authority.sign("server")) as (server, address):
        source = source_at(address, ca_file=str(authority.file), bearer_token_file=str(token))
        assert not source.refresh()
        for content, good in [("first\n", True), ("second", True), ("thi\nrd", False), ("", False)]:
            token.write_text(content)
            assert source.refresh() is good
    sent = [headers["Authorization"] for _, headers in server.seen]
    assert sent == ["Bearer first", "Bearer second"]
    assert not {"first", "second", "thi"} & set(caplog.text.replace("'", " ").split())
