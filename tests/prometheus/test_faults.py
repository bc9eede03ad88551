import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.doors import fake_prometheus as fake
from tests.doors.fake_prometheus import FakePrometheus

from kubextend.prometheus import Endpoint, NodeLabel, PrometheusError, Query, Source

pytestmark = pytest.mark.slow

TIMEOUT_S = 0.3
"""Of those queries alone that are to take longer."""
PATIENCE_S = 60.0
MAX_BYTES = 1 << 20


@pytest.fixture
def server() -> Iterator[tuple[FakePrometheus, str]]:
    with fake.running() as started:
        yield started


def source_at(address: str, interval_s: float = 0.02, **credentials: str) -> Source:
    query = Query(address, "up", NodeLabel("instance"), interval_s, PATIENCE_S, **credentials)
    return Source(query, Endpoint(address, max_answer_bytes=MAX_BYTES, **credentials))


def fails_by_its_timeout(source: Source) -> bool:
    """The fault goes on for as long as the test waits, so only the timeout can end it."""
    source.query = replace(source.query, timeout_s=TIMEOUT_S)
    failed = not source.refresh()
    source.query = replace(source.query, timeout_s=PATIENCE_S)
    return failed


def eventually(holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, "did not come true in time"
        time.sleep(0.005)


@pytest.mark.parametrize("fault", [fake.good, fake.chunked, fake.slow])
def test_a_good_answer_is_read_however_it_comes(
    server: tuple[FakePrometheus, str], fault: fake.Fault
) -> None:
    server[0].fault = fault
    source = source_at(f"{server[1]}/prefix")
    assert source.refresh()
    latest = source.latest(60)
    assert latest is not None
    assert latest.by_node == {"a": 7.0}
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


@pytest.mark.parametrize(
    ("fault", "complaint"), [pytest.param(*case, id=case[0].__name__) for case in FAULTS]
)
def test_a_fault_costs_the_timeout_at_most_and_leaves_the_last_good_values(
    server: tuple[FakePrometheus, str],
    fault: fake.Fault,
    complaint: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    source = source_at(server[1])
    assert source.refresh()
    server[0].fault = fault
    threads = threading.active_count()
    assert fails_by_its_timeout(source) if fault in LATE else not source.refresh()
    [record] = caplog.records
    [_, said] = record.getMessage().split(": ", 1)
    with pytest.raises(PrometheusError, match=complaint):
        raise PrometheusError(said)
    latest = source.latest(60)
    assert latest is not None
    assert latest.by_node == {"a": 7.0}
    server[0].fault = fake.good
    assert source.refresh()
    # One thread of the server's for each request it still is busy with.
    eventually(lambda: threading.active_count() <= threads + 1)


@pytest.mark.parametrize("fault", [fake.silent, fake.trickling_headers, fake.trickling_body])
def test_reading_values_never_waits_for_a_refresh_that_is_stuck(
    server: tuple[FakePrometheus, str],
    fault: fake.Fault,
    caplog: pytest.LogCaptureFixture,
) -> None:
    source = source_at(server[1])
    assert source.refresh()
    server[0].fault = fault
    source.start()
    try:
        eventually(lambda: len(server[0].seen) > 1)
        for _ in range(200):
            assert source.latest(PATIENCE_S * 2) is not None
        assert len(server[0].seen) == 2
        assert source.refreshes == {"ok": 1, "failed": 0}
    finally:
        source.stop()
    # The stop ends the query.
    eventually(lambda: source.refreshes["failed"])
    assert source.refreshes == {"ok": 1, "failed": 1}
    assert "no whole answer within" in caplog.text


def test_nobody_there_is_a_failure_and_values_come_when_somebody_is() -> None:
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = held.getsockname()[1]
    source = source_at(f"http://127.0.0.1:{port}")
    source.start()
    try:
        eventually(lambda: source.refreshes["failed"] >= 2)
        assert source.latest(60) is None
    finally:
        source.stop()


def test_a_host_that_has_no_address_is_a_failure() -> None:
    source = source_at("http://prometheus.invalid:9090")
    assert not source.refresh()
    assert source.refreshes["failed"] == 1


def test_a_certificate_of_an_unknown_authority_is_refused_until_it_is_known(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    known = fake.certificate_for("127.0.0.1", tmp_path)
    ca_file = tmp_path / "ca.pem"
    ca_file.write_bytes(fake.certificate_for("localhost", tmp_path).read_bytes())
    with fake.running(known) as (server, address):
        source = source_at(address, ca_file=str(ca_file))
        assert not source.refresh()
        assert "CERTIFICATE_VERIFY_FAILED" in caplog.text
        assert server.seen == []
        ca_file.write_bytes(known.read_bytes())
        assert source.refresh()


@pytest.mark.parametrize("ca", [None, "/nowhere/ca.pem"])
def test_the_systems_authorities_do_not_vouch_for_a_certificate_of_our_own(
    tmp_path: Path, ca: str | None
) -> None:
    with fake.running(fake.certificate_for("127.0.0.1", tmp_path)) as (server, address):
        source = source_at(address, **({} if ca is None else {"ca_file": ca}))
        assert not source.refresh()
        assert server.seen == []


def test_a_certificate_for_another_name_is_refused(tmp_path: Path) -> None:
    other = fake.certificate_for("localhost", tmp_path)
    with fake.running(other) as (server, address):
        assert not source_at(address, ca_file=str(other)).refresh()
        assert server.seen == []


def test_plain_http_behind_https_is_a_failure(server: tuple[FakePrometheus, str]) -> None:
    assert not source_at(server[1].replace("http:", "https:")).refresh()


@pytest.mark.parametrize("fault", [fake.silent, fake.trickling_body, fake.trickling_last_body])
def test_over_tls_the_time_is_bounded_as_well(
    tmp_path: Path, fault: fake.Fault, caplog: pytest.LogCaptureFixture
) -> None:
    certificate = fake.certificate_for("127.0.0.1", tmp_path)
    with fake.running(certificate) as (server, address):
        source = source_at(address, ca_file=str(certificate))
        assert source.refresh()
        server.fault = fault
        assert fails_by_its_timeout(source)
        assert "no whole answer within" in caplog.text


def test_a_token_is_read_again_for_every_query_and_never_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    certificate = fake.certificate_for("127.0.0.1", tmp_path)
    token = tmp_path / "token"
    with fake.running(certificate) as (server, address):
        source = source_at(address, ca_file=str(certificate), bearer_token_file=str(token))
        assert not source.refresh()
        for content, good in [("first\n", True), ("second", True), ("thi\nrd", False), ("", False)]:
            token.write_text(content)
            assert source.refresh() is good
    sent = [headers["Authorization"] for _, headers in server.seen]
    assert sent == ["Bearer first", "Bearer second"]
    assert not {"first", "second", "thi"} & set(caplog.text.replace("'", " ").split())
