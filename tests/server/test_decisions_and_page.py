"""Decisions over HTTP, and the page that shows them: who may read, and that nobody may change."""

import functools
import json
import re
import threading
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator, FormatChecker
from tests.doors.extender import (
    HOLDING,
    NO_RDMA,
    PATIENT_S,
    Answer,
    Extender,
    in_memory,
    pod,
    profile,
    request,
    until,
    wrong_field,
)

from kubextend import Status
from kubextend.testing import Bindings

READER, DECIDER = "reads-what-was-decided", "decides-on-waiting-pods"
SCHEMA = Path(__file__).parents[2] / "docs/decisions.schema.json"
TIMES = FormatChecker(())
TIMES.checks("date-time", raises=ValueError)(
    lambda time: time is None or datetime.fromisoformat(time).tzinfo is not None
)
PATHS = ("/decisions?pod=ml/a", "/decisions/u-a/nodes", "/plugins", "/overview")
PAGE = {"/ui/": "text/html", "/ui/page.css": "text/css", "/ui/page.js": "text/javascript"}


@functools.cache
def strict_schema() -> Draft202012Validator:
    """Return the published schema, which allows no other field here."""
    schema = json.loads(SCHEMA.read_text())
    Draft202012Validator.check_schema(schema)
    for each in schema["$defs"].values():
        each["additionalProperties"] = False
    return Draft202012Validator(schema, format_checker=TIMES)


class Unblocks:
    """Rejects every node, and says what a pod lacks once the test lets it."""

    name = "Unblocks"

    def __init__(self, *_: object) -> None:
        self.asked = 0
        self.go_on = threading.Event()

    def filter(self, *_: object) -> Status:
        return Status.unschedulable("closed")

    def unblock(self, *_: object) -> str:
        self.asked += 1
        assert self.go_on.wait(PATIENT_S)
        return "an open door"


class World:
    """An extender of which one token reads decisions, and another decides on waiting pods."""

    def __init__(self, folder: Path, **server: Any) -> None:
        for token in (READER, DECIDER):
            (folder / token).write_text(token)
        sections = {
            "waitingPods": {"tokenFile": str(folder / DECIDER)},
            "decisions": {"tokenFile": str(folder / READER), "page": True},
        }
        self.extender = Extender(binder=Bindings(), profiles=[HOLDING], server=sections | server)

    def get(self, path: str, token: str = READER) -> Answer:
        bearer = {"Authorization": f"Bearer {token}"} if token else {}
        return self.extender.ask(path, **bearer)

    def json(self, path: str) -> Any:
        """Return an answer that is as the published schema says, and has no other field."""
        answer = self.get(path)
        assert answer.status == 200, answer.body
        strict_schema().validate(answer.json)
        if answer.json["kind"] == "PodDecisions":
            assert wrong_field({"decisions": answer.json}) == ""
        return answer.json

    def filter(self, name: str, **spec: object) -> None:
        asked = pod(name) | {"spec": spec}
        assert self.extender.ask("/filter", request("filter", asked)).status == 200


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_a_reader_hears_what_was_decided_by_name_and_by_uid(world: World) -> None:
    world.filter("a")
    by_name, by_uid = world.json("/decisions?pod=ml/a"), world.json("/decisions?pod=u-a")
    assert by_name["attempts"] == by_uid["attempts"]
    (group,) = by_name["attempts"][0]["calls"][0]["nodes"]["rejected"]
    assert (group["plugin"], group["examples"]) == ("LabelMatch", ["plain"])
    unknown = world.json("/decisions?pod=ml/nobody")
    assert unknown["attempts"] == []
    assert list(unknown["kubextend"]["profiles"]) == ["default-scheduler"]


def test_the_nodes_of_a_pod_are_found_by_reason_plugin_and_name(world: World) -> None:
    world.filter("a")
    items = world.json("/decisions/u-a/nodes")["items"]
    assert [(each["node"], each["reason"]) for each in items] == [("good", ""), ("plain", NO_RDMA)]
    for query in (f"reason={NO_RDMA.replace(' ', '%20')}", "plugin=LabelMatch", "node=plain"):
        found = world.json(f"/decisions/u-a/nodes?{query}")["items"]
        assert [each["node"] for each in found] == ["plain"]


def test_the_overview_has_the_server_and_pods_and_plugins_are_told_with_their_calls(
    world: World,
) -> None:
    world.filter("a")
    plugins = {each["name"]: each for each in world.json("/plugins")["items"]}
    (point,) = plugins["LabelMatch"]["extensionPoints"]
    assert (point["extensionPoint"], point["calls"]) == ("Filter", 1)
    world.filter("b", schedulingGroup={"podGroupName": "trains"})
    world.filter("a")
    found = world.json("/overview")
    assert (found["kind"], found["queue"], found["waiting"]["total"]) == ("Overview", None, 0)
    assert found["kubextend"]["configurationSha256"] == world.extender.config.sha256
    assert [pod["name"] for pod in found["pods"]["items"]] == ["a", "b"]
    assert [pod["podGroup"] for pod in found["pods"]["items"]] == [None, "trains"]
    assert found["pods"]["items"][0]["at"].endswith("Z")
    assert world.json("/decisions?pod=ml/b")["pod"]["podGroup"] == "trains"


@pytest.mark.parametrize(
    ("path", "status", "error"),
    [
        ("/decisions", 400, "pod: Required value: namespace/name, or a UID"),
        ("/decisions/u/nodes?color=red", 400, "color: unknown; known: reason, plugin, node"),
        ("/decisions/u-x/nodes", 404, "there is no record of a pod of UID u-x"),
    ],
)
def test_a_question_that_cannot_be_answered_is_refused(
    world: World, path: str, status: int, error: str
) -> None:
    answer = world.get(path)
    assert (answer.status, answer.error) == (status, error)


def test_readers_who_are_refused_leave_their_turn_to_others(world: World) -> None:
    for _ in range(3):
        assert world.get("/decisions").status == 400
        assert world.get("/decisions/u-x/nodes").status == 404
    assert world.get("/overview").status == 200


@pytest.mark.parametrize("path", PATHS)
def test_without_a_readers_token_nothing_is_told(path: str, world: World) -> None:
    world.filter("a")
    for number, token in enumerate(("", "no-token-of-anybody", DECIDER), 1):
        answer = world.get(path, token)
        assert (answer.status, answer.headers["www-authenticate"]) == (401, "Bearer")
        assert b"u-a" not in answer.body
        assert world.extender.counted("kubextend_logins_refused_total", status="401") == number


def test_a_reader_decides_nothing(world: World) -> None:
    assert world.get("/waiting-pods").status == 401
    bearer = {"Authorization": f"Bearer {READER}"}
    assert world.extender.ask("/waiting-pods/u-a/allow", b"{}", **bearer).status == 401


@in_memory
async def test_a_third_reader_is_asked_to_come_again(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(READER)
    extender = Extender(
        Unblocks,
        profiles=[profile(filter=["Unblocks"])],
        server={"decisions": {"tokenFile": str(tmp_path / "token")}},
        extender={"httpTimeout": "90s"},
    )
    await extender.begin("/filter", request("filter", pod("a"))).answer()
    plugin, bearer = extender.plugin("Unblocks"), {"Authorization": f"Bearer {READER}"}
    path = "/decisions?pod=ml/a"
    readers = [extender.begin(path, **bearer) for _ in range(2)]
    await until(lambda: plugin.asked == 2)
    third = await extender.begin(path, **bearer).answer()
    assert (third.status, third.error) == (
        503,
        "other readers are being answered: ask again in a second",
    )
    plugin.go_on.set()
    assert [(await each.answer()).status for each in readers] == [200, 200]
    last = await extender.begin(path, **bearer).answer()
    assert (last.status, b"an open door" in last.body) == (200, True)


@pytest.mark.parametrize("file", PAGE)
def test_each_file_of_the_page_forbids_all_that_is_not_of_this_server(
    file: str, world: World
) -> None:
    answer = world.get(file, token="")
    assert answer.status == 200
    headers = dict(answer.headers)
    policy = headers.pop("content-security-policy").split(";")
    assert dict(part.strip().split(" ", 1) for part in policy) == {
        "default-src": "'none'",
        "script-src": "'self'",
        "style-src": "'self'",
        "connect-src": "'self'",
        "img-src": "data:",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
        "require-trusted-types-for": "'script'",
        "trusted-types": "'none'",
    }
    assert headers.items() >= {
        ("content-type", f"{PAGE[file]}; charset=utf-8"),
        ("cache-control", "no-store"),
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
    }
    text = answer.text
    assert not re.search(r"\w+://", text)
    markup = "innerHTML|outerHTML|insertAdjacentHTML|document.write|eval|Function\\("
    assert not re.search(f"{markup}|DOMParser|setHTML|localStorage|sessionStorage|cookie", text)
    assert not re.search(r"<[^>]*\s(on\w+|style)=", text)


def test_without_a_token_the_files_tell_nothing_of_pods(world: World) -> None:
    before = [world.get(file, token="").body for file in PAGE]
    world.filter("secret-pod")
    assert [world.get(file, token="").body for file in PAGE] == before


def test_the_page_and_the_readers_are_where_the_configuration_says(tmp_path: Path) -> None:
    below = World(tmp_path, path="/v1")
    statuses = {path: below.get(path).status for path in ("/v1/ui/", "/v1/overview", "/ui/")}
    assert statuses == {"/v1/ui/": 200, "/v1/overview": 200, "/ui/": 404}
    assert below.extender.ask("/v1/ui/", b"{}").status == 405
    without_page = World(tmp_path, decisions={"tokenFile": str(tmp_path / READER)})
    assert without_page.get("/overview").status == 200
    assert without_page.get("/ui/").status == 404
    closed = World(tmp_path, decisions={})
    assert {closed.get(path).status for path in (*PATHS, *PAGE)} == {404}
