import json

import pytest
from live_server import (
    NO_RDMA,
    NODES,
    VERBS,
    Connection,
    DiesError,
    pod,
    request,
    serving,
    some_verbs,
)

from kubextend.server import Health, Listener, application
from kubextend.verbs import Verbs

EXPECTED = {
    "filter": {
        "Nodes": {"metadata": {}, "items": [NODES[0]]},
        "NodeNames": None,
        "FailedAndUnresolvableNodes": {"plain": NO_RDMA},
        "Error": "",
    },
    "prioritize": [{"Host": "good", "Score": 10}, {"Host": "plain", "Score": 0}],
    "preempt": {"NodeNameToMetaVictims": {"good": {"Pods": [{"UID": "v"}], "NumPDBViolations": 0}}},
    "bind": {"Error": ""},
}


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_answers_on_its_path(url: str, verb: str) -> None:
    with Connection(url) as connection:
        answer = connection.post(f"/{verb}", request(verb))
    assert answer.status == 200
    given = json.loads(answer.body)
    if verb == "filter":
        assert not given.pop("FailedNodes")
        assert given["Nodes"].pop("items") == [NODES[0]]
        expected = {**EXPECTED["filter"]} | {"Nodes": given["Nodes"]}  # type: ignore[dict-item]
        assert given == expected
    else:
        assert given == EXPECTED[verb]


@pytest.mark.parametrize("verb", VERBS)
def test_an_answer_has_a_length_and_a_type_and_the_connection_stays(url: str, verb: str) -> None:
    with Connection(url) as connection:
        answers = [connection.post(f"/{verb}", request(verb)) for _ in range(20)]
        # What comes next is the answer to what is asked next: nothing was left behind the others.
        assert connection.get("/livez").body == b"ok"
    for answer in answers:
        assert answer.status == 200
        assert answer.headers["content-type"] == "application/json"
        assert int(answer.headers["content-length"]) == len(answer.body)
        assert "transfer-encoding" not in answer.headers
        assert "connection" not in answer.headers
        assert answer.body == answers[0].body


def test_a_connection_outlives_the_ninety_seconds_of_the_schedulers_own_pool() -> None:
    with serving(some_verbs(), keep_alive_s=1) as url, Connection(url) as connection:
        assert connection.get("/livez").status == 200
        assert connection.is_closed()
    # The default is checked by its number: a test cannot wait for it.
    verbs = some_verbs()
    assert Listener(application(verbs, Health()), "127.0.0.1", 0).keep_alive_s > 90


@pytest.mark.parametrize(
    ("path", "prefix"), [("/", ""), ("/v1", "/v1"), ("/v1/", "/v1"), ("/a/b", "/a/b")]
)
def test_the_verbs_are_under_the_configured_path(path: str, prefix: str) -> None:
    with serving(some_verbs(), path=path) as url, Connection(url) as connection:
        assert connection.post(f"{prefix}/filter", request("filter")).status == 200
        assert connection.post("/nowhere/filter", request("filter")).status == 404
        assert connection.get("/livez").status == 200


@pytest.mark.parametrize("pieces", [1, 7, 400])
def test_a_body_may_come_in_any_pieces(url: str, pieces: int) -> None:
    body = request("filter")
    size = -(-len(body) // pieces)
    with Connection(url) as connection:
        whole = connection.post("/filter", body)
        for chunked in (False, True):
            length = {"Transfer-Encoding": "chunked"}
            length = length if chunked else {"Content-Length": str(len(body))}
            connection.send(
                b"POST /filter HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            )
            connection.send(*(f"{key}: {value}\r\n".encode() for key, value in length.items()))
            connection.send(b"\r\n")
            for start in range(0, len(body), size):
                piece = body[start : start + size]
                connection.send(b"%x\r\n%b\r\n" % (len(piece), piece) if chunked else piece)
            connection.send(b"0\r\n\r\n" if chunked else b"")
            assert connection.answer().body == whole.body


def test_a_large_body_runs_on_a_thread_and_is_answered_all_the_same(url: str) -> None:
    padding = {"metadata": {"name": "big", "annotations": {"a": "x" * 3_000_000}}}
    with Connection(url) as connection:
        answer = connection.post("/filter", request("filter", nodes=[*NODES, padding]))
    assert answer.status == 200
    given = json.loads(answer.body)
    assert [kept["metadata"]["name"] for kept in given["Nodes"]["items"]] == ["good"]


def test_requests_sent_before_the_last_answer_are_answered_in_order(url: str) -> None:
    with Connection(url) as connection:
        alone = [connection.post(f"/{verb}", request(verb)).body for verb in VERBS]
        for verb in VERBS:
            body = request(verb)
            connection.send(
                f"POST /{verb} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                f"Content-Length: {len(body)}\r\n\r\n".encode()
                + body
            )
        assert [connection.answer().body for _ in VERBS] == alone


FAILURES = ["raise", "die", "exit"]


@pytest.mark.parametrize("then", FAILURES)
def test_a_filter_that_fails_in_whatever_way_is_an_error_and_the_server_lives(
    url: str, then: str
) -> None:
    with Connection(url) as connection:
        answer = connection.post("/filter", request("filter", pod(then=then)))
        assert answer.status == 200
        assert answer.error
        assert "0x7f3a" not in answer.error
        assert connection.post("/filter", request("filter")).status == 200


@pytest.mark.parametrize("ignorable", [False, True])
def test_a_failure_of_kubextend_itself_places_no_pod(
    monkeypatch: pytest.MonkeyPatch, *, ignorable: bool
) -> None:
    def dies(_body: object) -> None:
        raise DiesError

    verbs = some_verbs(ignorable=ignorable)
    monkeypatch.setattr(verbs.filter, "at_once", dies)
    with serving(verbs) as url, Connection(url) as connection:
        answer = connection.post("/filter", request("filter"))
    # An Error that is ignored would place the pod anywhere.
    assert bool(answer.error) is not ignorable
    assert json.loads(answer.body)["Nodes"] is None
    assert json.loads(answer.body)["NodeNames"] is None


@pytest.mark.parametrize("then", FAILURES)
def test_a_filter_that_fails_evicts_nobody(url: str, then: str) -> None:
    with Connection(url) as connection:
        answer = connection.post("/preempt", request("preempt", pod(then=then)))
    assert (answer.status, answer.body) == (200, b'{"NodeNameToMetaVictims":{}}')


def test_preempt_abstains_by_a_status_that_is_not_200() -> None:
    """kube-scheduler goes on with its own candidates where the entry is ignorable."""
    verbs = some_verbs(preempt_groups=True)
    elsewhere = {"metadata": {"uid": "v"}, "spec": {"nodeName": "plain"}}
    body = {"Pod": pod(), "NodeNameToVictims": {"good": {"Pods": [elsewhere]}}}
    with serving(verbs) as url, Connection(url) as connection:
        connection.post("/filter", request("filter"))
        answer = connection.post("/preempt", json.dumps(body).encode())
        assert connection.get("/livez").status == 200
    assert answer.status == 501
    assert "on other nodes" in answer.error
    assert answer.headers["content-type"] == "application/json"
    name, labels = "kubextend_requests_refused_total", {"status": "501"}
    assert verbs.metrics.registry.get_sample_value(name, labels) == 1


@pytest.mark.parametrize("then", FAILURES)
def test_a_score_plugin_that_fails_adds_nothing(url: str, then: str) -> None:
    with Connection(url) as connection:
        answer = connection.post("/prioritize", request("prioritize", pod(then=then)))
    assert (answer.status, answer.body) == (200, b"[]")


@pytest.mark.parametrize("then", FAILURES)
def test_a_filter_that_fails_rejects_every_node_where_errors_are_ignored(then: str) -> None:
    with serving(some_verbs(ignorable=True)) as url, Connection(url) as connection:
        answer = connection.post("/filter", request("filter", pod(then=then)))
    given = json.loads(answer.body)
    assert given["Error"] == ""
    assert set(given["FailedAndUnresolvableNodes"]) == {"good", "plain"}


def test_a_binder_that_dies_is_an_error_and_never_a_success(url: str) -> None:
    body = request("bind").replace(b'"p"', b'"dies"')
    with Connection(url) as connection:
        answer = connection.post("/bind", body)
    assert answer.status == 200
    assert answer.error


def test_the_metrics_tell_of_all_this(url: str, verbs: Verbs) -> None:
    del verbs
    with Connection(url) as connection:
        connection.post("/filter", request("filter"))
        text = connection.get("/metrics").body.decode()
    for line in (
        'kubextend_verb_requests_total{result="ok",verb="filter"}',
        'kubextend_verb_duration_seconds_bucket{le="0.001",verb="filter"}',
        'kubextend_verb_duration_seconds_bucket{le="16.384",verb="filter"}',
        'kubextend_verb_nodes_count{verb="filter"}',
        'kubextend_request_body_bytes_count{verb="filter"}',
        "process_resident_memory_bytes",
    ):
        assert line in text
