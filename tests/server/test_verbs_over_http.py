"""The verbs as kube-scheduler calls them: paths, answers, refusals, and failures of plugins."""

import http
import json
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.routing import Mount
from tests.doors.extender import (
    IN_CORE,
    IN_PYTHON,
    NO_RDMA,
    NOBODY,
    NODES,
    VERBS,
    Call,
    Extender,
    binding,
    in_memory,
    names_of,
    node,
    pod,
    profile,
    request,
    until,
)

from kubextend.testing import Bindings

DATA = Path(__file__).parents[1] / "data"
LIMIT = 1000
REFUSED = "kubextend_requests_refused_total"
IN_FLIGHT = "kubextend_requests_in_flight_bytes"
CALLS = "kubextend_verb_requests_total"


def made(profiled: dict[str, Any] = IN_CORE, **sections: Any) -> Extender:
    """Return an extender that binds, and that has seen the nodes of ``request``."""
    extender = Extender(binder=sections.pop("binder", Bindings()), profiles=[profiled], **sections)
    extender.ask("/filter", request("filter"))
    return extender


@pytest.fixture(scope="module", params=[IN_PYTHON, IN_CORE], ids=["in a thread", "on the loop"])
def extender(request: pytest.FixtureRequest) -> Extender:
    return made(request.param)


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_answers_on_its_path(extender: Extender, verb: str) -> None:
    answer = extender.ask(f"/{verb}", request(verb))
    assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
    assert int(answer.headers["content-length"]) == len(answer.body)
    told = answer.json
    if verb == "filter":
        assert told["Nodes"].pop("items") == NODES[:1]
        told.pop("Nodes")
    victims = {"good": {"Pods": [{"UID": "v"}], "NumPDBViolations": 0}}
    failed = {"FailedNodes": None, "FailedAndUnresolvableNodes": {"plain": NO_RDMA}}
    assert (
        told
        == {
            "filter": {"NodeNames": None, "Error": "", **failed},
            "prioritize": [{"Host": "good", "Score": 10}, {"Host": "plain", "Score": 0}],
            "preempt": {"NodeNameToMetaVictims": victims},
            "bind": {"Error": ""},
        }[verb]
    )


@pytest.mark.parametrize(
    ("path", "prefix"), [("/", ""), ("/v1", "/v1"), ("/v1/", "/v1"), ("/a/b", "/a/b")]
)
def test_the_verbs_are_under_the_configured_path(path: str, prefix: str) -> None:
    extender = made(server={"path": path})
    assert extender.ask(f"{prefix}/filter", request("filter")).status == 200
    assert extender.ask("/nowhere/filter", request("filter")).status == 404
    assert extender.ask("/livez").status == 200


def test_only_the_verbs_of_the_configuration_are_served() -> None:
    scores = profile(*IN_CORE["pluginConfig"], score=["LabelMatch"])
    for served, extender in (
        ({"filter", "preempt"}, Extender(profiles=[profile(filter=["NeedsRdma"])])),
        ({"prioritize"}, Extender(profiles=[scores])),
        ({"prioritize", "bind"}, Extender(binder=Bindings(), profiles=[scores])),
    ):
        found = {verb for verb in VERBS if extender.ask(f"/{verb}", request(verb)).status == 200}
        assert found == served
        assert extender.counted(REFUSED, status="404") == len({*VERBS} - served)


@in_memory
async def test_an_application_works_below_a_path_of_another() -> None:
    outer = Starlette(routes=[Mount("/below", Extender(server={"path": "/v1"}).asgi)])
    for path, status in (("/below/v1/filter", 200), ("/v1/filter", 404)):
        assert (await Call(outer, path, request("filter")).answer()).status == status


@pytest.mark.parametrize(
    ("method", "path", "status", "allow"),
    [
        ("GET", "/filter", 405, "POST"),
        ("DELETE", "/prioritize", 405, "POST"),
        ("POST", "/metrics", 405, "GET, HEAD"),
        ("POST", "/", 404, None),
        ("POST", "/filter/", 404, None),
        ("POST", "//filter", 404, None),
        ("POST", "/filter/x", 404, None),
        ("GET", "/favicon.ico", 404, None),
    ],
)
def test_wrong_methods_and_paths_are_refused_and_never_redirected(
    extender: Extender, method: str, path: str, status: int, allow: str | None
) -> None:
    before = extender.counted(REFUSED, status=str(status))
    answer = extender.ask(path, b"{}", method=method)
    assert (answer.status, answer.headers.get("allow")) == (status, allow)
    assert "location" not in answer.headers
    assert path in answer.error
    assert http.HTTPStatus(status).phrase in answer.error
    assert extender.counted(REFUSED, status=str(status)) == before + 1


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Content_Type": "application/json; charset=utf-8"}, 200),
        ({"Content_Type": 'Application/JSON;charset="UTF-8"'}, 200),
        ({"Content_Type": "application/json" + ";a" * 120}, 200),
        ({"Content_Encoding": "identity"}, 200),
        ({"Content_Type": "application/json" + ";a" * 30_000}, 415),
        ({"Content_Type": "application/json; charset=utf-16"}, 415),
        ({"Content_Type": "application/jsonx"}, 415),
        ({"Content_Type": ";"}, 415),
        ({"Content_Type": ""}, 415),
        ({"Content_Encoding": "gzip"}, 415),
        ({"Content_Encoding": "deflate, gzip"}, 415),
    ],
)
def test_only_plain_json_is_read(extender: Extender, headers: dict[str, str], status: int) -> None:
    answer = extender.ask("/filter", request("filter"), **headers)
    assert answer.status == status
    if status != 200:
        assert next(iter(headers)).replace("_", "-") in answer.error


UNREADABLE = [b"", b"x", b"{", b'{"Pod":', b"[1]", b'"\xff"', b"{}garbage", b"[" * 100_000]
WRONG_TYPE = {
    "filter": b'{"Pod":3}',
    "prioritize": b'{"Pod":{},"NodeNames":[1]}',
    "preempt": b'{"NodeNameToVictims":3}',
    "bind": b'{"PodName":1}',
}


@pytest.mark.parametrize("verb", VERBS)
@in_memory
async def test_what_is_not_json_gets_one_line_that_says_where_and_what(
    extender: Extender, verb: str
) -> None:
    """preempt answers that no pod may go: kube-scheduler ignores a status, and would evict pods."""
    before = extender.counted(CALLS, verb=verb, result="bad_request")
    for body in [*UNREADABLE, WRONG_TYPE[verb]]:
        answer = await extender.begin(f"/{verb}", body, method="POST").answer()
        if verb == "preempt":
            assert (answer.status, answer.body) == (200, NOBODY)
        else:
            assert (answer.status, answer.error[:5]) == (400, "byte ")
            assert "\n" not in answer.error
    counted = extender.counted(CALLS, verb=verb, result="bad_request") - before
    assert counted == len(UNREADABLE) + 1


@pytest.mark.parametrize("verb", VERBS)
@in_memory
async def test_a_request_cut_at_every_byte_is_refused(extender: Extender, verb: str) -> None:
    body = request(verb)
    refused = (200, NOBODY[:9]) if verb == "preempt" else (400, b'{"Error":')
    for cut in range(len(body)):
        answer = await extender.begin(f"/{verb}", body[:cut], method="POST").answer()
        assert (answer.status, answer.body[:9]) == refused
    assert (await extender.begin(f"/{verb}", body).answer()).status == 200


def test_nothing_is_kept_of_a_body_that_is_refused(extender: Extender) -> None:
    body = request("filter", nodes=[node("half-read", rdma="true")])
    assert extender.ask("/filter", body[:-1]).status == 400
    asked = request("preempt").replace(b'"good"', b'"half-read"')
    assert b"half-read" not in extender.ask("/preempt", asked).body


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("position", ["whole", "skipped", "read"])
@in_memory
async def test_every_file_of_the_json_suite_is_served_or_refused(
    extender: Extender, verb: str, position: str
) -> None:
    read = {"filter": "NodeNames", "prioritize": "Nodes", "preempt": "Pod", "bind": "PodName"}
    field = "Unknown" if position == "skipped" else read[verb]
    files = sorted((DATA / "jsontestsuite").glob("*.json"))
    assert len(files) > 300
    wrong = []
    for file in files:
        body = file.read_bytes()
        if position != "whole":
            fields = json.loads(request(verb))
            fields.pop(field, None)
            body = b'{"%b":%b,%b' % (field.encode(), body, json.dumps(fields).encode()[1:])
        answer = await extender.begin(f"/{verb}", body, method="POST").answer()
        allowed = {"y": {200, 400}, "n": {400}, "i": {200, 400}}[file.name[0]]
        if file.name[0] == "y" and position == "skipped":
            allowed = {200}
        if verb == "preempt":
            allowed = {200} if answer.body == NOBODY or 200 in allowed else set()
        if answer.status not in allowed:
            wrong.append((file.name, answer.status))
    assert wrong == []


@in_memory
async def test_a_body_over_the_limit_is_refused_before_it_comes() -> None:
    extender = Extender(server={"maxBodyBytes": LIMIT})
    text = {"Content_Type": "text/json"}
    for status, call in (
        (200, extender.begin("/filter", request("filter").ljust(LIMIT))),
        (413, extender.begin("/filter", request("filter").ljust(LIMIT + 1))),
        # Of these two nothing more comes than the head, and half of the chunks.
        (413, extender.begin("/filter", method="POST", Content_Length=str(10**12))),
        (413, extender.begin("/filter", b" " * 500, b" " * 501)),
    ):
        answer = await call.answer()
        assert answer.status == status
        if status == 413:
            assert "server.maxBodyBytes" in answer.error
    # A status would let kube-scheduler evict pods.
    for body, headers in ((b" " * 2 * LIMIT, {}), (b"{}", text)):
        refused = await extender.begin("/preempt", body, **headers).answer()
        assert (refused.status, refused.body) == (200, NOBODY)
    assert [extender.counted(REFUSED, status=each) for each in ("413", "415")] == [4, 1]


@in_memory
async def test_a_request_for_which_there_is_no_room_is_asked_to_come_again() -> None:
    extender = Extender(server={"maxBodyBytes": LIMIT, "maxInFlightBytes": LIMIT})
    slow, plugin = request("filter", pod(then="hang")), extender.plugin("NeedsRdma")
    held = extender.begin("/filter", slow)
    await until(lambda: plugin.asked)
    assert extender.counted(IN_FLIGHT) == len(slow)
    for pieces in ([b" " * LIMIT], [b" " * 500, b" " * 500]):
        refused = await extender.begin("/filter", *pieces).answer()
        assert (refused.status, refused.headers["retry-after"]) == (503, "1")
        assert "server.maxInFlightBytes" in refused.error
    evicting = await extender.begin("/preempt", request("preempt").ljust(LIMIT)).answer()
    assert (evicting.status, evicting.body) == (200, NOBODY)
    assert extender.counted(REFUSED, status="503") == 3
    plugin.let_go.set()
    assert names_of(await held.answer()) == ["good"]
    assert (await extender.begin("/filter", request("filter").ljust(LIMIT)).answer()).status == 200
    assert extender.counted(IN_FLIGHT) == 0


@in_memory
async def test_a_client_that_leaves_with_half_a_body_runs_no_verb(
    caplog: pytest.LogCaptureFixture,
) -> None:
    extender, body = Extender(), request("filter")
    for cut in range(1, len(body), 7):
        call = extender.begin("/filter", body[:cut], Content_Length=str(len(body)))
        call.leave()
        with pytest.raises(EOFError):
            await call.answer()
    assert extender.counted(CALLS, verb="filter", result="ok") == 0
    assert extender.counted(IN_FLIGHT) == 0
    assert caplog.text == ""


@in_memory
async def test_the_body_of_a_client_that_left_counts_as_long_as_a_plugin_holds_it() -> None:
    extender, body = Extender(), request("filter", pod(then="hang"))
    plugin, call = extender.plugin("NeedsRdma"), extender.begin("/filter", body)
    await until(lambda: plugin.asked)
    call.leave()
    with pytest.raises(EOFError):
        await call.answer()
    assert extender.counted(IN_FLIGHT) == len(body)
    plugin.let_go.set()
    await until(lambda: extender.counted(IN_FLIGHT) == 0)


HELD = profile(*IN_CORE["pluginConfig"], filter=["LabelMatch"], reserve=["Quota"], permit=["Quota"])


@pytest.mark.parametrize("end", ["allowed", "client leaves", "server is to end", "server ends"])
@in_memory
async def test_a_bind_that_waits_ends_as_it_should_on_any_server(end: str) -> None:
    bound = Bindings()
    extender = Extender(binder=bound, profiles=[HELD])
    await extender.begin("/filter", request("filter")).answer()
    call = extender.begin("/bind", json.dumps(binding()).encode())
    await extender.until_held("u-p")
    assert extender.counted(IN_FLIGHT) == 0
    steps = extender.plugin("Quota").steps
    match end:
        case "allowed":
            extender.allow("u-p")
            assert (await call.answer()).body == b'{"Error":""}'
        case "client leaves":
            call.leave()
            with pytest.raises(EOFError):
                await call.answer()
        case "server is to end":
            extender.shut_down()
            assert (await call.answer()).error == "kubextend is shutting down"
        case "server ends":
            call.cancel()
            answer = await call.answer()
            assert (answer.status, answer.error) == (503, "kubextend is shutting down")
    assert steps == ["reserve"] if end == "allowed" else ["reserve", "unreserve"]
    assert extender.waiting() == []
    assert bound.nodes == ({"u-p": "good"} if end == "allowed" else {})
