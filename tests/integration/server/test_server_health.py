import pytest
from live_server import Connection, head, request, serving, some_verbs
from starlette.requests import Request

from kubextend.server import Health, HealthCheck


def test_alive_and_ready_from_the_start_where_nothing_is_waited_for(url: str) -> None:
    with Connection(url) as connection:
        for path in ("/livez", "/readyz"):
            answer = connection.get(path)
            assert (answer.status, answer.body) == (200, b"ok")
            assert answer.headers["content-type"].startswith("text/plain")


def test_verbose_lists_every_check_as_kubernetes_components_do(url: str) -> None:
    with Connection(url) as connection:
        assert connection.get("/readyz?verbose").body.decode() == (
            "[+]ping ok\n[+]shutdown ok\nreadyz check passed\n"
        )
        assert connection.get("/livez?verbose=1").body == b"[+]ping ok\nlivez check passed\n"


def test_a_check_that_fails_is_named_with_its_reason_and_leaves_us_alive() -> None:
    reason = ["the nodes are not listed yet"]
    health = Health([HealthCheck("node-sync", lambda: reason[0])])
    with serving(some_verbs(), health=health) as url, Connection(url) as connection:
        for query in ("", "?verbose"):
            answer = connection.get(f"/readyz{query}")
            assert answer.status == 503
            assert answer.body.decode() == (
                "[+]ping ok\n[-]node-sync failed: the nodes are not listed yet\n"
                "[+]shutdown ok\nreadyz check failed\n"
            )
        assert connection.get("/livez").status == 200
        assert connection.post("/filter", request("filter")).status == 200
        reason[0] = ""
        assert connection.get("/readyz").status == 200


def test_what_is_stuck_is_neither_alive_nor_ready() -> None:
    health = Health(alive=[HealthCheck("plugins", lambda: "2 threads are stuck")])
    for report, text in (
        (health.livez, "livez check failed"),
        (health.readyz, "[+]shutdown ok\nreadyz check failed"),
    ):
        lines = f"[+]ping ok\n[-]plugins failed: 2 threads are stuck\n{text}\n"
        assert report(verbose=False) == (503, lines)


def test_not_ready_from_the_moment_of_shutting_down_but_alive() -> None:
    health = Health()
    with serving(some_verbs(), health=health) as url, Connection(url) as connection:
        health.shut_down()
        answer = connection.get("/readyz")
        assert answer.status == 503
        assert b"[-]shutdown failed: kubextend is shutting down\n" in answer.body
        assert connection.get("/livez").status == 200


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/metrics"])
def test_a_head_request_is_answered_without_a_body(url: str, path: str) -> None:
    with Connection(url) as connection:
        connection.send(f"HEAD {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        status_line = connection.socket.recv(17)
        assert status_line == b"HTTP/1.1 200 OK\r\n"


@pytest.mark.parametrize(
    ("query", "lines"),
    [("verbose", 2), ("verbose=1", 2), ("a&verbose", 2), ("a=verbosely", 1), ("a&" * 9000, 1)],
)
def test_of_a_query_no_more_is_parsed_than_people_write(
    url: str, query: str, lines: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Request, "query_params", property(lambda _self: 1 / 0))
    with Connection(url) as connection:
        answer = connection.get(f"/livez?{query}")
    assert (answer.status, len(answer.body.splitlines())) == (200, lines)


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("path", ["/livez", "/readyz", "/metrics"])
@pytest.mark.parametrize(("size", "is_large"), [(4096, False), (4097, True)])
def test_a_body_that_is_larger_than_any_probe_needs_is_not_read(
    url: str, method: str, path: str, size: int, is_large: bool
) -> None:
    with Connection(url) as connection:
        # Nothing of the body: a server that reads and drops it would keep the connection.
        connection.send(head(method, path, **{"Content-Length": str(size)}))
        answer = connection.answer()
        if is_large:
            assert (answer.status, answer.headers["connection"]) == (413, "close")
            assert "larger than 4096 bytes" in answer.error
            assert connection.is_closed()
        else:
            assert answer.status == (200 if method == "GET" else 405)
            connection.send(b"x" * size)
            assert connection.get("/livez").status == 200


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("path", ["/livez", "/readyz", "/metrics"])
def test_a_body_in_chunks_is_refused_before_it_comes(url: str, method: str, path: str) -> None:
    with Connection(url) as connection:
        connection.send(head(method, path, **{"Transfer-Encoding": "chunked"}))
        answer = connection.answer()
        assert (answer.status, answer.headers["connection"]) == (413, "close")
        assert "send none" in answer.error
        assert connection.is_closed()
