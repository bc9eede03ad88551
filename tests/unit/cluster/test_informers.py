"""Informers of plugins: when they can be read, what handlers are told, and what a 404 means."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Any, cast

import pytest

from kubextend.cluster import Informers, RefusedError, UnreachableError
from kubextend.cluster.api_call import Call
from kubextend.errors import NotListedError, PluginError
from kubextend.framework.informer import KubeObject, Owner, Resource
from kubextend.metrics import Metrics
from kubextend.profile.plugin_failures import PluginFailures

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kubextend.cluster.client import Cluster

GROUPS = Resource.of("scheduling.x-k8s.io/v1alpha1/podgroups")
OWNER = Owner("Gang", "ml")
CALL = Call("GET", GROUPS.path, 1.0)
SOON_S = 60.0


def group(name: str, version: int = 1) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "ml", "uid": name, "resourceVersion": str(version)}
    return {"apiVersion": "x/v1", "kind": "PodGroup", "metadata": metadata}


def listing(*names: str) -> bytes:
    items = [group(name) for name in names]
    metadata = {"resourceVersion": "9"}
    return json.dumps({"kind": "PodGroupList", "metadata": metadata, "items": items}).encode()


def line(kind: str, found: dict[str, Any]) -> bytes:
    return json.dumps({"type": kind, "object": found}).encode()


def refused(status: int) -> RefusedError:
    return RefusedError(CALL, status, "no")


class Script:
    """Answers lists and watches in turn: bytes are a list, a list of lines is a watch."""

    host = "scripted"

    def __init__(self, *steps: object) -> None:
        self._steps = list(steps)
        self.calls: list[Call] = []

    def request(self, call: Call) -> bytes:
        return cast("bytes", self._next(call))

    def stream(self, call: Call) -> Watch:
        return Watch(cast("list[bytes]", self._next(call)))

    def _next(self, call: Call) -> object:
        self.calls.append(call)
        step = self._steps.pop(0)
        if isinstance(step, BaseException):
            raise step
        return step


class Watch:
    def __init__(self, lines: list[bytes]) -> None:
        self._lines = lines

    def batches(self) -> Iterator[list[bytes]]:
        yield self._lines

    def shut(self) -> None: ...
    def close(self) -> None: ...


class World:
    """The informer of pod groups on a scripted API; the test takes each step of the reflector."""

    def __init__(self, *steps: object) -> None:
        self.script = Script(*steps)
        self.failures: list[PluginError] = []
        self.starting: set[str] = set()
        self.informers = Informers(
            cast("Cluster", self.script),
            [GROUPS],
            lambda: None,
            self.failures.append,
            lambda: self.starting,
        )
        self.informer = self.informers.of(GROUPS, OWNER)
        self._followed = next(iter(self.informers))

    def step(self, times: int = 1) -> None:
        for _ in range(times):
            self._followed._reflector._attempt()  # type: ignore[union-attr]

    def names(self) -> list[str]:
        return sorted(each["metadata"]["name"] for each in self.informer.list())

    def why_not(self) -> str:
        return self.informers.why_not_synced([str(GROUPS)])


def test_nothing_is_read_before_the_list() -> None:
    world = World(listing("a"))
    world.informer.add_index("name", lambda found: [found["metadata"]["name"]])
    for read in (
        lambda: world.informer.get("ml", "a"),
        world.informer.list,
        lambda: world.informer.by_index("name", "a"),
    ):
        with pytest.raises(NotListedError, match=f"{GROUPS} are not listed yet"):
            read()
    assert world.why_not() == f"{GROUPS} are not listed yet"
    world.step()
    assert world.informer.synced
    assert world.why_not() == ""
    assert world.names() == ["a"]
    assert len(world.informer.by_index("name", "a")) == 1
    assert world.informers.why_not_synced(["unknown"]) == "unknown"


def test_a_resource_that_the_api_does_not_serve_is_tried_again_until_it_does(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World(refused(404), refused(404), listing("a"))
    world.step(2)
    assert not world.informer.synced
    assert world.why_not() == f"the API serves no {GROUPS}"
    assert "is its definition installed?" in caplog.text
    assert caplog.text.count("cannot be followed") == 1
    assert "is its definition installed?" in str(world.informers.last_error())
    world.step()
    assert (world.names(), world.why_not()) == (["a"], "")


def test_a_resource_that_is_gone_is_not_read_any_more_and_listed_anew() -> None:
    world = World(listing("ghost"), refused(404), refused(404), listing("new"))
    world.step()
    assert world.names() == ["ghost"]
    world.step()
    with pytest.raises(NotListedError, match="the API serves no"):
        world.informer.list()
    world.step(2)
    assert world.names() == ["new"]
    assert ["watch" in call.query for call in world.script.calls] == [False, True, False, False]


@pytest.mark.parametrize("error", [refused(503), refused(403), UnreachableError(CALL, "away")])
def test_what_was_listed_can_be_read_while_the_api_is_away(error: Exception) -> None:
    world = World(listing("a"), error, error)
    world.step(3)
    assert (world.names(), world.informer.synced) == (["a"], True)


def test_two_plugins_share_the_objects_and_not_the_indexes() -> None:
    world = World(listing("a", "b"))
    world.step()
    other = world.informers.of(GROUPS, Owner("Gang", "other"))
    world.informer.add_index("x", lambda found: [found["metadata"]["name"]])
    other.add_index("x", lambda _found: ["all"])
    assert len(world.informer.by_index("x", "a")) == 1
    assert len(other.by_index("x", "all")) == 2
    assert other.get("ml", "a") is world.informer.get("ml", "a")


def change(before: KubeObject | None, now: KubeObject | None) -> tuple[str, str]:
    def version(found: KubeObject | None) -> str:
        if found is None:
            return "-"
        return found["metadata"]["name"] + found["metadata"]["resourceVersion"]

    return version(before), version(now)


def test_a_handler_is_told_of_each_object_once_and_of_each_change() -> None:
    watch = [line("MODIFIED", group("a", 2)), line("ADDED", group("c"))]
    world = World(listing("a", "b"), watch, [line("DELETED", group("b"))], listing("a", "c"))
    told: list[tuple[str, str]] = []

    def heard(before: KubeObject | None, now: KubeObject | None) -> None:
        told.append(change(before, now))

    def after(steps: int) -> list[tuple[str, str]]:
        told.clear()
        world.step(steps)
        world.informers.call_handlers()
        return sorted(told)

    world.informer.on_change(heard)
    # A start that failed registers again.
    world.informer.on_change(heard)
    assert after(1) == [("-", "a1"), ("-", "b1")]
    assert after(1) == [("-", "c1"), ("a1", "a2")]
    assert after(1) == [("b1", "-")]
    assert after(0) == []


def test_a_slow_handler_gets_the_last_state_and_costs_nothing_for_what_came_and_went() -> None:
    churn = [line(kind, group(f"x{n}")) for n in range(50) for kind in ("ADDED", "DELETED")]
    updates = [line("MODIFIED", group("a", version)) for version in range(2, 50)]
    world = World(listing("a"), churn + updates)
    told: list[tuple[str, str]] = []
    world.informer.on_change(lambda before, now: told.append(change(before, now)))
    world.step()
    world.informers.call_handlers()
    world.step()
    (handler,) = next(iter(world.informers))._handlers.values()
    assert list(handler._pending) == [("ml", "a")]
    world.informers.call_handlers()
    assert told == [("-", "a1"), ("a1", "a49")]


def test_an_object_that_is_gone_while_the_handler_runs_is_told_as_gone() -> None:
    world = World(listing("a"), [line("DELETED", group("a"))])
    told: list[tuple[str, str]] = []

    def heard(before: KubeObject | None, now: KubeObject | None) -> None:
        told.append(change(before, now))
        if len(told) == 1:
            world.step()

    world.informer.on_change(heard)
    world.step()
    world.informers.call_handlers()
    assert told == [("-", "a1"), ("a1", "-")]


def test_what_a_plugin_raises_is_reported_with_its_names_and_the_rest_goes_on() -> None:
    world = World(listing("a", "b"))
    told: list[str] = []

    def heard(_before: KubeObject | None, now: KubeObject | None) -> None:
        assert now is not None
        told.append(now["metadata"]["name"])
        message = "boom"
        raise ValueError(message)

    world.informer.on_change(heard)
    world.informer.add_index("x", lambda found: [found["spec"]])
    world.step()
    world.informers.call_handlers()
    assert sorted(told) == ["a", "b"]
    assert [(error.plugin, error.profile) for error in world.failures] == [("Gang", "ml")] * 4
    assert [error.message for error in world.failures[::2]] == [
        f"the index x of {GROUPS}: KeyError: 'spec'",
        f"the handler of changes of {GROUPS}: ValueError: boom",
    ]


def test_failures_about_objects_flood_no_log_and_all_count(
    caplog: pytest.LogCaptureFixture,
) -> None:
    metrics = Metrics()
    failures = PluginFailures(metrics, clock=lambda: 0.0)
    for _ in range(1000):
        failures.note(PluginError("Gang", "Informer", "boom"), "an object is passed over")
    assert len(caplog.records) == 1
    counted = 'kubextend_plugin_failures_total{extension_point="Informer",plugin="Gang"} 1000.0'
    assert counted in metrics.render()[0].decode()


def test_handlers_run_on_threads_of_their_own_and_end() -> None:
    world = World(listing("a"))
    world.step()
    threads: list[threading.Thread] = []
    called = [threading.Event(), threading.Event()]

    def heard(which: int) -> None:
        threads.append(threading.current_thread())
        called[which].set()

    world.informer.on_change(lambda _before, _now: heard(0))
    followed = next(iter(world.informers))
    followed._reflector = None
    world.informers.start()
    # Registered late, as by a start.
    world.informer.on_change(lambda _before, _now: heard(1))
    for event in called:
        assert event.wait(SOON_S)
    world.informers.stop()
    assert len({thread.ident for thread in threads} | {threading.get_ident()}) == 3
    for thread in threads:
        thread.join(SOON_S)
        assert not thread.is_alive()


def test_a_handler_is_called_only_once_its_plugin_has_started() -> None:
    world = World(listing("a"))
    world.starting.add(OWNER.plugin)
    world.step()
    told: list[str] = []
    called = threading.Event()

    def heard(_before: KubeObject | None, now: KubeObject | None) -> None:
        told.append(f"{now and now['metadata']['name']} while {world.starting} starts")
        called.set()

    followed = next(iter(world.informers))
    followed._reflector = None
    world.informer.on_change(heard)
    world.informers.start()
    world.informers.of(GROUPS, OWNER).on_change(lambda *_: None)
    # Another plugin's start says nothing about this one.
    world.informers.plugin_started()
    assert [handler._thread.ident for handler in followed._handlers.values()] == [None, None]
    world.starting.clear()
    world.informers.plugin_started()
    world.informers.plugin_started()
    assert called.wait(SOON_S)
    world.informers.stop()
    assert told == ["a while set() starts"]


def test_an_async_handler_is_a_failure() -> None:
    async def heard(_before: KubeObject | None, _now: KubeObject | None) -> None: ...

    world = World(listing("a"))
    world.informer.on_change(heard)
    world.step()
    world.informers.call_handlers()
    [failure] = world.failures
    assert "answered a coroutine where None is expected" in failure.message
