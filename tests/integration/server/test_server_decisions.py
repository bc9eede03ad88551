"""Decisions over HTTP: who may read them, and that reading changes nothing."""

import contextlib
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator, FormatChecker
from live_server import Answer, Connection, NeedsRdma, node, serving

from kubextend.decisions import DecisionReader, ServerFacts
from kubextend.decisions.captured_facts import wrong_field
from kubextend.profile import Profile, Profiles
from kubextend.server import Access, TokenFile, decision_routes, waiting_pod_routes
from kubextend.verbs import Verbs
from kubextend.verbs.filter_outside_request import filter_anew
from make_verbs import make_verbs

READER, DECIDER = "reads-what-was-decided", "decides-on-waiting-pods"
SCHEMA = Path(__file__).parents[3] / "docs/decisions.schema.json"
TIMES = FormatChecker(())
TIMES.checks("date-time", raises=ValueError)(
    lambda time: time is None or datetime.fromisoformat(time).tzinfo is not None
)
PATHS = ("/decisions?pod=ml/a", "/decisions/u-a/nodes", "/plugins", "/overview")


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


@dataclass
class World:
    """A server of which one token reads decisions and another decides on waiting pods."""

    url: str
    verbs: Verbs
    reader: DecisionReader

    def get(self, path: str, token: str = READER) -> Answer:
        with Connection(self.url) as connection:
            return connection.get(path, **(bearer(token) if token else {}))

    def json(self, path: str) -> Any:
        answer = self.get(path)
        assert answer.status == 200, answer.body
        return checked(answer.body)

    def filter(self, name: str, **spec: object) -> None:
        asked = {"metadata": {"name": name, "namespace": "ml", "uid": f"u-{name}"}, "spec": spec}
        nodes = [node("n", rdma="false"), node("m", rdma="true")]
        body = json.dumps({"Pod": asked, "Nodes": {"items": nodes}}).encode()
        with Connection(self.url) as connection:
            assert connection.post("/filter", body).status == 200


def checked(body: bytes) -> Any:
    """Return an answer that is as the published schema says, and has no field beside."""
    answer = json.loads(body)
    schema = json.loads(SCHEMA.read_text())
    Draft202012Validator.check_schema(schema)
    for each in schema["$defs"].values():
        each["additionalProperties"] = False
    Draft202012Validator(schema, format_checker=TIMES).validate(answer)
    if answer["kind"] == "PodDecisions":
        assert wrong_field({"decisions": answer}) == ""
    return answer


@contextlib.contextmanager
def made(folder: Path) -> Iterator[World]:
    accesses = []
    for token in (READER, DECIDER):
        file = folder / token
        file.write_text(token)
        accesses.append(Access(tokens=TokenFile(file)))
    verbs = make_verbs(Profiles.of([Profile("default-scheduler", filter=[NeedsRdma()])]))
    facts = ServerFacts(verbs.profiles, ["filter"], dict, verbs.limits.breakers.health)
    reader = DecisionReader(
        verbs.decisions, verbs.waiting_pods, facts, filter_anew, lambda ask: ask()
    )
    routes = [
        *decision_routes(reader, accesses[0], verbs.metrics),
        *waiting_pod_routes(verbs.waiting_pods, accesses[1], verbs.metrics),
    ]
    with serving(verbs, more_routes=routes) as url:
        yield World(url, verbs, reader)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with made(tmp_path) as world:
        yield world


def test_a_reader_is_told_what_was_decided_by_name_and_by_uid(world: World) -> None:
    world.filter("a")
    by_name, by_uid = world.json("/decisions?pod=ml/a"), world.json("/decisions?pod=u-a")
    assert by_name["kind"] == "PodDecisions"
    assert by_name["attempts"] == by_uid["attempts"]
    (group,) = by_name["attempts"][0]["calls"][0]["nodes"]["rejected"]
    assert (group["plugin"], group["examples"]) == (NeedsRdma.name, ["n"])


def test_the_pod_group_of_a_member_is_told(world: World) -> None:
    world.filter("a")
    world.filter("b", schedulingGroup={"podGroupName": "trains"})
    assert world.json("/decisions?pod=ml/a")["pod"]["podGroup"] is None
    assert world.json("/decisions?pod=ml/b")["pod"]["podGroup"] == "trains"
    latest = world.json("/overview")["pods"]["items"]
    assert [pod["podGroup"] for pod in latest] == ["trains", None]


def test_nodes_are_told_by_reason_plugin_and_name(world: World) -> None:
    world.filter("a")
    items = world.json("/decisions/u-a/nodes")["items"]
    assert [each["node"] for each in items] == ["n", "m"]
    reason = items[0]["reason"].replace(" ", "%20")
    for query in (f"reason={reason}", f"plugin={NeedsRdma.name}", "node=n"):
        found = world.json(f"/decisions/u-a/nodes?{query}")["items"]
        assert [each["node"] for each in found] == ["n"]


def test_plugins_are_told_with_their_durations(world: World) -> None:
    world.filter("a")
    (plugin,) = world.json("/plugins")["items"]
    (point,) = plugin["extensionPoints"]
    assert (point["extensionPoint"], point["calls"]) == ("Filter", 1)


def test_the_overview_has_the_pods_with_the_latest_first(world: World) -> None:
    for name in ("a", "b", "a"):
        world.filter(name)
    found = world.json("/overview")
    assert (found["kind"], found["queue"], found["waiting"]["total"]) == ("Overview", None, 0)
    assert [pod["name"] for pod in found["pods"]["items"]] == ["a", "b"]
    assert found["pods"]["items"][0]["at"].endswith("Z")


def test_of_a_pod_without_a_record_the_server_is_told(world: World) -> None:
    found = world.json("/decisions?pod=ml/nobody")
    assert found["attempts"] == []
    assert list(found["kubextend"]["profiles"]) == ["default-scheduler"]
    assert world.get("/decisions/nobody/nodes").status == 404


def test_a_question_that_cannot_be_answered_is_refused(world: World) -> None:
    assert world.get("/decisions").error == "pod: Required value: namespace/name, or a UID"
    assert world.get("/decisions/u/nodes?color=red").status == 400


@pytest.mark.parametrize("path", PATHS)
def test_without_a_readers_token_nothing_is_told(path: str, world: World) -> None:
    world.filter("a")
    for token in ("", "no-token-of-anybody", DECIDER):
        answer = world.get(path, token)
        assert answer.status == 401
        assert b"u-a" not in answer.body


@pytest.mark.parametrize("path", [*PATHS, "/waiting-pods"])
def test_refused_credentials_are_counted_on_each_page_for_people(path: str, world: World) -> None:
    answer = world.get(path, "no-token-of-anybody")
    assert (answer.status, answer.headers["www-authenticate"]) == (401, "Bearer")
    registry = world.verbs.metrics.registry
    assert registry.get_sample_value("kubextend_logins_refused_total", {"status": "401"}) == 1


def test_a_reader_decides_nothing(world: World) -> None:
    with Connection(world.url) as connection:
        assert connection.get("/waiting-pods", **bearer(READER)).status == 401
        answer = connection.post("/waiting-pods/u-a/allow", b"", **bearer(READER))
        assert answer.status == 401


def test_a_third_reader_is_asked_to_come_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, go_on = threading.Semaphore(0), threading.Event()

    def slow(_: object) -> dict[str, object]:
        asked.release()
        assert go_on.wait(60)
        return {}

    monkeypatch.setattr(DecisionReader, "plugins", slow)
    readers = [threading.Thread(target=world.get, args=("/plugins",)) for _ in range(2)]
    for each in readers:
        each.start()
    for _ in readers:
        assert asked.acquire(timeout=60)
    assert world.get("/plugins").status == 503
    go_on.set()
    for each in readers:
        each.join()
    assert world.get("/plugins").status == 200
