import asyncio
import http
from collections.abc import Sequence
from unittest.mock import Mock

import pytest
from live_server import VERBS, Connection, head, read_by_now, request, serving, some_verbs
from starlette.types import ASGIApp, Message

from kubextend.server import Health, Limits, application
from kubextend.server.connection import body_reader
from kubextend.verbs import Verbs

SMALL = 1000


def refusals(verbs: Verbs, status: int) -> float:
    name = "kubextend_requests_refused_total"
    return verbs.metrics.registry.get_sample_value(name, {"status": str(status)}) or 0.0


NOT_SERVED = [
    ("GET", "/filter", 405, "POST"),
    ("PUT", "/bind", 405, "POST"),
    ("DELETE", "/prioritize", 405, "POST"),
    ("POST", "/livez", 405, "GET, HEAD"),
    ("POST", "/metrics", 405, "GET, HEAD"),
    ("POST", "/", 404, None),
    ("POST", "/filter/", 404, None),
    ("POST", "//filter", 404, None),
    ("POST", "/Filter", 404, None),
    ("POST", "/filter/x", 404, None),
    ("GET", "/favicon.ico", 404, None),
]


@pytest.mark.parametrize(("method", "path", "status", "allow"), NOT_SERVED)
def test_wrong_methods_and_paths_are_refused_and_never_redirected(
    url: str, method: str, path: str, status: int, allow: str | None
) -> None:
    with Connection(url) as connection:
        connection.send(head(method, path, **{"Content-Length": "2"}), b"{}")
        answer = connection.answer()
        assert answer.status == status
        assert answer.headers.get("allow") == allow
        assert "location" not in answer.headers
        assert path in answer.error
        assert http.HTTPStatus(status).phrase in answer.error
        assert connection.get("/livez").status == 200


def statuses_of(app: ASGIApp, paths: Sequence[str]) -> list[int]:
    """What a POST to each path is answered with, one after the other."""
    statuses: list[int] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b"{}", "more_body": False}

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    async def post() -> None:
        for path in paths:
            scope = {"type": "http", "method": "POST", "path": path, "headers": []}
            await app({**scope, "query_string": b"", "root_path": ""}, receive, send)

    asyncio.run(post())
    return statuses


def test_the_first_call_of_each_verb_that_is_not_served_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    app = application(some_verbs(served=["prioritize"]), Health(), path="/v1")
    called = ["/v1/filter", "/v1/bind", "/v1/filter", "/v1/other", "/filter", "/v1/bind"]
    assert statuses_of(app, called) == [404] * len(called)
    logged = [record.getMessage().split()[0] for record in caplog.records]
    assert logged == ["/v1/filter", "/v1/bind"]


CONTENT = [
    ({}, 200),
    ({"Content-Type": "application/json; charset=utf-8"}, 200),
    ({"Content-Type": 'Application/JSON;charset="UTF-8"'}, 200),
    ({"Content-Encoding": "identity"}, 200),
    ({"Content-Type": "application/json; charset=utf-16"}, 415),
    ({"Content-Type": "application/x-www-form-urlencoded"}, 415),
    ({"Content-Type": "text/json"}, 415),
    ({"Content-Type": "application/jsonx"}, 415),
    ({"Content-Type": ";"}, 415),
    ({"Content-Type": ""}, 415),
    ({"Content-Encoding": "gzip"}, 415),
    ({"Content-Encoding": "deflate, gzip"}, 415),
]


@pytest.mark.parametrize(("headers", "status"), CONTENT)
def test_only_plain_json_is_read(url: str, headers: dict[str, str], status: int) -> None:
    with Connection(url) as connection:
        answer = connection.post("/filter", request("filter"), **headers)
        assert answer.status == status
        if status != 200:
            assert next(iter(headers)) in answer.error
        assert connection.post("/filter", request("filter")).status == 200


UNREADABLE = [b"", b"x", b"{", b'{"Pod":', b"[1]", b'"\xff"', b"{}garbage", b"[" * 100_000]


# kube-scheduler ignores a status of preempt, and would evict pods that nobody has judged.
REFUSING = [verb for verb in VERBS if verb != "preempt"]
NOBODY = b'{"NodeNameToMetaVictims":{}}'


@pytest.mark.parametrize("verb", REFUSING)
@pytest.mark.parametrize("body", UNREADABLE, ids=range(len(UNREADABLE)))
def test_what_is_not_json_gets_one_line_that_says_where_and_what(
    url: str, verb: str, body: bytes
) -> None:
    with Connection(url) as connection:
        answer = connection.post(f"/{verb}", body)
        assert answer.status == 400
        assert answer.error.startswith("byte ")
        assert "\n" not in answer.error
        assert answer.headers["content-type"] == "application/json"
        assert connection.post(f"/{verb}", request(verb)).status == 200


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        *((body, {}, 400) for body in UNREADABLE if len(body) <= SMALL),
        (b" " * SMALL * 2, {}, 413),
        (b"{}", {"Content-Type": "text/json"}, 415),
    ],
)
def test_a_refused_preempt_is_an_answer_that_evicts_nobody(
    body: bytes, headers: dict[str, str], status: int
) -> None:
    verbs = some_verbs()
    with serving(verbs, limits=Limits(SMALL)) as url, Connection(url) as connection:
        answer = connection.post("/preempt", body, **headers)
        assert (answer.status, answer.body) == (200, NOBODY)
        assert connection.get("/livez").status == 200
    assert refusals(verbs, status) == 1


def test_a_preempt_for_which_there_is_no_memory_evicts_nobody() -> None:
    body = request("preempt")
    full = Limits(len(body), in_flight_bytes=1)
    with serving(some_verbs(), limits=full) as url, Connection(url) as connection:
        answer = connection.post("/preempt", body)
    assert (answer.status, answer.body) == (200, NOBODY)


def test_nothing_is_kept_of_a_body_that_is_refused(verbs: Verbs, url: str) -> None:
    body = request("filter", nodes=[{"metadata": {"name": "half-read"}}])
    with Connection(url) as connection:
        assert connection.post("/filter", body[:-1]).status == 400
        sent = request("preempt").replace(b'"good"', b'"half-read"')
        assert b"half-read" not in connection.post("/preempt", sent).body
    del verbs


def test_a_length_over_the_limit_is_refused_before_the_body_comes() -> None:
    verbs = some_verbs()
    with serving(verbs, limits=Limits(SMALL)) as url, Connection(url) as connection:
        connection.send(head("POST", "/filter", **{"Content-Length": str(10**12)}))
        answer = connection.answer()
        assert answer.status == 413
        assert str(SMALL) in answer.error
    assert refusals(verbs, 413) == 1


def test_a_body_over_the_limit_may_still_be_sent_and_the_connection_goes_on() -> None:
    with serving(some_verbs(), limits=Limits(SMALL)) as url, Connection(url) as connection:
        for _ in range(3):
            assert connection.post("/filter", b" " * 1_000_000).status == 413
            assert connection.get("/livez").status == 200


def test_a_body_of_exactly_the_limit_is_read() -> None:
    body = request("filter")
    with serving(some_verbs(), limits=Limits(len(body))) as url, Connection(url) as connection:
        assert connection.post("/filter", body).status == 200
        assert connection.post("/filter", body + b" ").status == 413


def test_chunks_are_counted_while_they_come() -> None:
    verbs = some_verbs()
    with serving(verbs, limits=Limits(SMALL)) as url, Connection(url) as connection:
        connection.send(head("POST", "/filter", **{"Transfer-Encoding": "chunked"}))
        connection.send(b"1f4\r\n" + b" " * 500 + b"\r\n")
        connection.send(b"1f5\r\n" + b" " * 501 + b"\r\n")
        assert connection.answer().status == 413
        assert connection.is_closed()
    assert refusals(verbs, 413) == 1


def test_a_refused_body_without_end_is_cut_off() -> None:
    with serving(some_verbs(), limits=Limits(SMALL)) as url, Connection(url) as connection:
        connection.send(head("POST", "/filter", **{"Content-Length": str(10**12)}))
        assert connection.answer().status == 413
        with pytest.raises(OSError, match=r"reset|Broken pipe|Connection aborted"):
            connection.send(*[b" " * 1_000_000] * 1000)


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("/filter", {"Content-Length": "2000"}, 413),
        ("/filter", {"Content-Length": "20", "Content-Type": "text/plain"}, 415),
        ("/nowhere", {"Content-Length": "20"}, 404),
    ],
)
def test_a_client_that_waits_for_leave_to_send_is_refused_without_it(
    path: str, headers: dict[str, str], status: int
) -> None:
    with serving(some_verbs(), limits=Limits(SMALL)) as url, Connection(url) as connection:
        connection.send(head("POST", path, **{"Expect": "100-continue"} | headers))
        answer = connection.answer()
        assert answer.status == status
        assert answer.headers["connection"] == "close"
        assert connection.is_closed()


def test_a_content_type_that_is_very_long_is_refused_unparsed(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    parser = Mock(wraps=body_reader.MimeHeader)
    monkeypatch.setattr(body_reader, "MimeHeader", parser)
    for parameters, status in ((";a" * 120, 200), (";a" * 121, 415), (";a" * 30_000, 415)):
        parser.reset_mock()
        with Connection(url) as connection:
            headers = {"Content-Type": "application/json" + parameters}
            assert connection.post("/filter", request("filter"), **headers).status == status
        assert parser.called is (status == 200)


def test_a_client_that_waits_for_leave_to_send_gets_it(url: str) -> None:
    body = request("filter")
    with Connection(url) as connection:
        length = {"Content-Length": str(len(body)), "Expect": "100-continue"}
        connection.send(head("POST", "/filter", **length))
        assert connection.socket.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.send(body)
        assert connection.answer().status == 200


def test_a_head_without_end_is_refused() -> None:
    with serving(some_verbs()) as url:
        for start in (b"POST /filter HTTP/1.1\r\nX: ", b"POST /", b"GET /livez HTTP/1.1\r\n"):
            with Connection(url) as connection:
                connection.send(start)
                with pytest.raises(OSError, match=r"reset|Broken pipe|Connection aborted"):
                    connection.send(*[b"x" * 100_000] * 1000)
            with Connection(url) as connection:
                assert connection.get("/livez").status == 200


def test_a_head_that_is_too_large_is_told_so() -> None:
    with serving(some_verbs()) as url, Connection(url) as connection:
        connection.send(b"GET /livez HTTP/1.1\r\nHost: x\r\nX: ")
        connection.send(b"x" * 60_000)
        read_by_now(url)
        connection.send(b"x" * 6_000)
        answer = connection.answer()
        assert answer.status == 431
        assert "65536" in answer.error
        assert connection.is_closed()


@pytest.mark.parametrize("extra", [b"Content-Length: 7\r\n", b"Transfer-Encoding: chunked\r\n"])
def test_two_lengths_are_refused(url: str, extra: bytes) -> None:
    with Connection(url) as connection:
        connection.send(
            b"POST /filter HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            b"Content-Length: 6\r\n" + extra + b"\r\n0\r\n\r\n{"
        )
        assert connection.answer().status == 400


def test_a_declared_length_that_is_too_short_refuses_what_follows(url: str) -> None:
    body = request("filter")
    with Connection(url) as connection:
        length = {"Content-Length": str(len(body) - 5)}
        connection.send(head("POST", "/filter", **length), body)
        assert connection.answer().status == 400


def test_a_client_that_goes_away_in_the_middle_leaves_nothing_behind(
    caplog: pytest.LogCaptureFixture,
) -> None:
    verbs = some_verbs()
    body = request("filter")
    with serving(verbs) as url:
        for cut in range(0, len(body), 7):
            with Connection(url) as connection:
                length = {"Content-Length": str(len(body))}
                connection.send(head("POST", "/filter", **length), body[:cut])
        with Connection(url) as connection:
            assert connection.post("/filter", body).status == 200
    assert caplog.text == ""
    labels = {"verb": "filter", "result": "ok"}
    seen = verbs.metrics.registry.get_sample_value("kubextend_verb_requests_total", labels)
    assert seen == 1


@pytest.mark.parametrize("verb", VERBS)
def test_a_request_cut_at_every_byte_is_refused(url: str, verb: str) -> None:
    body = request(verb)
    refused = (200, NOBODY) if verb == "preempt" else (400, b'{"Error":')
    with Connection(url) as connection:
        for cut in range(len(body)):
            answer = connection.post(f"/{verb}", body[:cut])
            assert (answer.status, answer.body[: len(refused[1])]) == refused
        assert connection.post(f"/{verb}", body).status == 200
