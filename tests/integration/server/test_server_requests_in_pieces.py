"""Requests that come in pieces, behind one another, or not to their end."""

import time

import pytest
from live_server import (
    NODES,
    Connection,
    eventually,
    head,
    is_listening,
    node,
    read_by_now,
    request,
    running,
    serving,
    some_verbs,
)

from kubextend.server import Deadlines, Limits
from kubextend.verbs import Verbs

# Long enough that the server has read the first piece alone.
PAUSE_S = 0.04


def calls(verbs: Verbs, verb: str = "filter", result: str = "ok") -> float:
    labels = {"verb": verb, "result": result}
    return verbs.metrics.registry.get_sample_value("kubextend_verb_requests_total", labels) or 0.0


def request_bytes(verb: str, body: bytes, **headers: str) -> bytes:
    return head("POST", f"/{verb}", **{"Content-Length": str(len(body))} | headers) + body


def large_body() -> bytes:
    big = node("big", rdma="true")
    big["metadata"]["annotations"] = {"a": "x" * 200_000}
    return request("filter", nodes=[*NODES, big])


def test_a_request_cut_at_any_byte_is_answered_alike() -> None:
    verbs = some_verbs(brief=True)
    whole = request_bytes("filter", request("filter"))
    with serving(verbs) as url, Connection(url) as connection:
        connection.send(whole)
        answer = connection.answer().body
        for cut in range(1, len(whole)):
            connection.send(whole[:cut])
            if cut % 40 == 0:
                time.sleep(PAUSE_S)
            connection.send(whole[cut:])
            assert connection.answer().body == answer
    assert calls(verbs) == len(whole)


def test_requests_behind_one_another_are_answered_in_order() -> None:
    verbs = some_verbs(brief=True)
    small, bind, large = request("filter"), request("bind"), large_body()
    stream = [
        request_bytes("filter", small),
        request_bytes("bind", bind),
        request_bytes("filter", small),
        request_bytes("prioritize", request("prioritize")),
        request_bytes("filter", large),
        request_bytes("filter", small),
        request_bytes("filter", small, Expect="nothing"),
        request_bytes("nowhere", small),
        request_bytes("filter?trace=1", small),
        request_bytes("preempt", request("preempt")),
    ]
    with serving(verbs) as url, Connection(url) as connection:
        alone = []
        for sent in stream:
            connection.send(sent)
            alone.append(connection.answer())
        assert [answer.status for answer in alone] == [200] * 7 + [404] + [200] * 2
        for size in (1_000_000, 1001, 93):
            whole = b"".join(stream)
            connection.send(*(whole[at : at + size] for at in range(0, len(whole), size)))
            together = [connection.answer() for _ in stream]
            assert [answer.body for answer in together] == [answer.body for answer in alone]


@pytest.mark.parametrize("brief", [False, True], ids=["in a thread", "on the loop"])
def test_what_cannot_be_read_is_refused_and_counted_once(brief: bool) -> None:
    verbs = some_verbs(brief=brief)
    with serving(verbs) as url, Connection(url) as connection:
        answer = connection.post("/filter", b"{")
        assert answer.status == 400
        assert answer.error.startswith("byte 1")
    assert calls(verbs, result="bad_request") == 1
    refused = {"status": "400"}
    name = "kubextend_requests_refused_total"
    assert verbs.metrics.registry.get_sample_value(name, refused) == 1
    for name in ("kubextend_verb_duration_seconds_count", "kubextend_request_body_bytes_count"):
        assert verbs.metrics.registry.get_sample_value(name, {"verb": "filter"}) == 1


def test_a_small_limit_on_bodies_holds() -> None:
    body = request("filter")
    limits = Limits(len(body))
    with serving(some_verbs(brief=True), limits=limits) as url, Connection(url) as connection:
        assert connection.post("/filter", body).status == 200
        assert connection.post("/filter", body + b" ").status == 413


@pytest.mark.parametrize("pause_s", [0.0, PAUSE_S])
def test_a_client_that_leaves_with_half_a_body_has_no_verb_run(
    pause_s: float, caplog: pytest.LogCaptureFixture
) -> None:
    verbs = some_verbs(brief=True)
    sent = request_bytes("filter", request("filter"))
    with serving(verbs) as url:
        for cut in range(len(sent) - 30, len(sent), 3):
            with Connection(url) as connection:
                connection.send(sent[:cut])
                time.sleep(pause_s)
        with Connection(url) as connection:
            assert connection.get("/livez").status == 200
    assert calls(verbs) == 0
    assert caplog.text == ""


def test_half_a_body_is_not_waited_for_for_ever() -> None:
    deadlines = Deadlines(body_s=0.3)
    body = request("filter")
    with serving(some_verbs(brief=True), deadlines=deadlines) as url, Connection(url) as connection:
        # In one piece: however late the rest of two would be, this one is not.
        connection.send(request_bytes("filter", body))
        assert connection.answer().status == 200
        connection.send(request_bytes("filter", body)[:-1])
        assert connection.answer().status == 408
        assert connection.is_closed()


def test_half_a_body_is_in_flight_when_the_end_comes() -> None:
    sent = request_bytes("filter", request("filter"))
    with running(some_verbs(brief=True)) as (url, service), Connection(url) as connection:
        assert connection.get("/livez").status == 200
        connection.send(sent[:-1])
        read_by_now(url)
        service.stop()
        eventually(lambda: not is_listening(url))
        connection.send(sent[-1:])
        answer = connection.answer()
        assert (answer.status, answer.headers["connection"]) == (200, "close")
        assert connection.is_closed()


def test_who_asks_and_never_reads_is_answered_no_further() -> None:
    verbs = some_verbs(brief=True)
    many = [node(f"node-{number}", rdma="true") for number in range(400)]
    sent = request_bytes("filter", request("filter", nodes=many))
    with serving(verbs, deadlines=Deadlines(answer_s=0.3)) as url:
        with Connection(url) as connection:
            connection.send_until_hung_up(sent)
        assert calls(verbs) < 1000
        with Connection(url) as connection:
            assert connection.get("/livez").status == 200
