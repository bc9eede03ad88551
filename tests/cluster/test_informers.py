"""Informers of plugins: when they can be read, what handlers are told, and what a 404 means."""

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.doors.kube_api import Running, ScriptedApi, SkippingTime, configuration, running
from tests.doors.scripted_requests import refusing

from kubextend.errors import NotListedError
from kubextend.framework import Handle

Heard = Callable[[Any, Any], object]
Runs = Callable[..., Running]

GROUPS = "scheduling.x-k8s.io/v1alpha1/podgroups"


class Gang:
    """Gives its informer to the test, and tells ``hears`` of changes."""

    name = "Gang"
    informers = (GROUPS,)
    made: "Gang"
    hears: tuple[Heard, ...] = ()

    def __init__(self, handle: Handle) -> None:
        type(self).made = self
        self.informer = handle.informer(GROUPS)
        for each in self.hears:
            self.informer.on_change(each)

    def filter(self, *_: Any) -> None:
        raise NotImplementedError

    def names(self) -> list[str]:
        return sorted(each["metadata"]["name"] for each in self.informer.list())


class Other(Gang):
    """Another plugin with an informer of the same resource."""

    name = "Other"


@pytest.fixture
def runs(api: ScriptedApi, kubeconfig: Path) -> Iterator[Runs]:
    """Start a kubextend whose plugins tell these functions of pod groups.

    ``of_gang`` has other attributes of the plugin ``Gang``.
    """
    api.groups = {}
    with ExitStack() as stack:

        def run(*hears: Heard, **of_gang: Any) -> Running:
            plugins = {
                "Gang": type("Gang", (Gang,), {"hears": hears} | of_gang),
                "Other": type("Other", (Other,), {"hears": hears}),
            }
            enabled = {"filter": {"enabled": [{"name": name} for name in plugins]}}
            tree = configuration(kubeconfig, {"plugins": enabled})
            replica = stack.enter_context(running(tree, plugins))
            Gang.made, Other.made = plugins["Gang"].made, plugins["Other"].made  # type: ignore[attr-defined]
            return replica

        yield run


def version(found: Any) -> str:
    return "-" if found is None else f"{found['metadata']['name']} {found['spec'].get('n', '')}"


def noting(told: list[str]) -> Heard:
    return lambda before, now: told.append(f"{version(before)} > {version(now)}")


def failures(replica: Running) -> float:
    counted = replica.metric("plugin_failures_total", plugin="Gang", extension_point="Informer")
    return counted or 0.0


def test_nothing_is_read_before_the_list(api: ScriptedApi, runs: Runs, clock: SkippingTime) -> None:
    api.put_group("a")
    api.fail("list", *[refusing(503, "ServiceUnavailable")] * 8)
    replica = runs()
    informer = Gang.made.informer
    informer.add_index("name", lambda found: [found["metadata"]["name"]])
    for read in (informer.list, lambda: informer.get("ml", "a"), lambda: informer.by_index("x", 1)):
        with pytest.raises(NotListedError, match=f"{GROUPS} are not listed yet"):
            read()
    status, text = replica.ready()
    assert (status, f"{GROUPS} are not listed yet" in text) == (503, True)
    clock.until(lambda: informer.synced)
    assert Gang.made.names() == ["a"]
    assert len(informer.by_index("name", "a")) == 1
    clock.until(lambda: replica.ready()[0] == 200)
    assert replica.metric("informer_objects", resource=GROUPS) == 1


def test_a_resource_that_the_api_does_not_serve_is_tried_again_until_it_does(
    api: ScriptedApi, runs: Runs, clock: SkippingTime, caplog: pytest.LogCaptureFixture
) -> None:
    api.groups = None
    replica = runs()
    clock.pass_s(60)
    with pytest.raises(NotListedError, match=f"the API serves no {GROUPS}"):
        Gang.made.informer.list()
    assert "is its definition installed?" in replica.ready()[1]
    assert caplog.text.count("cannot be followed") == 1
    for name in ("first", "new"):
        api.groups = {}
        api.put_group(name)
        clock.pass_s(31)
        assert (Gang.made.names(), replica.ready()[0]) == ([name], 200)
        # Its definition is deleted: what was there is not read any more.
        api.groups = None
        api.end_watches()
        clock.pass_s(5)
        with pytest.raises(NotListedError, match="the API serves no"):
            Gang.made.informer.list()
        assert replica.metric("reflector_synced", resource=GROUPS) == 0


def test_two_plugins_share_the_objects_and_not_the_indexes_and_read_them_while_the_api_is_away(
    api: ScriptedApi, runs: Runs, clock: SkippingTime
) -> None:
    for name in ("a", "b"):
        api.put_group(name)
    runs()
    clock.pass_s(1)
    mine, other = Gang.made.informer, Other.made.informer
    mine.add_index("x", lambda found: [found["metadata"]["name"]])
    other.add_index("x", lambda _: ["all"])
    api.down()
    clock.pass_s(600)
    assert (len(mine.by_index("x", "a")), mine.synced) == (1, True)
    assert len(other.by_index("x", "all")) == 2
    assert other.get("ml", "a") is mine.get("ml", "a")
    assert sum("podgroups" in path for path in api.paths("list")) == 1


def test_a_handler_is_told_of_each_object_once_and_of_each_change(
    api: ScriptedApi, runs: Runs, clock: SkippingTime
) -> None:
    told: list[str] = []
    api.put_group("a", n=1)
    api.put_group("b")
    hears = noting(told)
    # A start that failed registers again.
    runs(hears, hears)
    clock.pass_s(1)
    assert sorted(told) == sorted(["- > a 1", "- > b "] * 2)
    told.clear()
    api.put_group("a", n=2)
    api.put_group("c")
    clock.pass_s(1)
    api.delete_group("b")
    clock.pass_s(1)
    assert sorted({*told}) == ["- > c ", "a 1 > a 2", "b  > -"]
    # A list after a break tells what is new only.
    told.clear()
    with api.changed:
        api.put_group("c", n=1)
        api.compact()
        api.end_watches()
    clock.pass_s(5)
    assert {*told} == {"c  > c 1"}


def test_a_slow_handler_gets_the_last_state_and_nothing_of_what_came_and_went(
    api: ScriptedApi, runs: Runs, clock: SkippingTime
) -> None:
    told: list[str] = []
    go_on = threading.Event()

    def slow(before: Any, now: Any) -> None:
        noting(told)(before, now)
        go_on.wait()

    api.put_group("a", n=1)
    runs(slow)
    clock.pass_s(1)
    for number in range(2, 50):
        api.put_group("a", n=number)
        api.put_group(f"x{number}")
        api.delete_group(f"x{number}")
    clock.pass_s(1)
    go_on.set()
    clock.pass_s(1)
    assert sorted(told) == sorted(["- > a 1", "a 1 > a 49"] * 2)


def test_what_a_plugin_raises_is_counted_and_logged_once_and_the_rest_goes_on(
    api: ScriptedApi, runs: Runs, clock: SkippingTime, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[str] = []

    def raises(before: Any, now: Any) -> None:
        noting(told)(before, now)
        message = "boom"
        raise ValueError(message)

    for number in range(100):
        api.put_group(f"g{number}")
    replica = runs(raises)
    clock.pass_s(1)
    assert len({*told}) == 100
    assert failures(replica) == 100
    said = [message for message in caplog.messages if "ValueError: boom" in message]
    assert len(said) <= 2
    assert f"the handler of changes of {GROUPS}" in said[0]
    Gang.made.informer.add_index("x", lambda found: [found["nothing"]])
    assert failures(replica) == 200


def test_an_async_handler_is_a_failure(
    api: ScriptedApi, runs: Runs, clock: SkippingTime, caplog: pytest.LogCaptureFixture
) -> None:
    async def hears(_before: Any, _now: Any) -> None: ...

    api.put_group("a")
    replica = runs(hears)
    clock.pass_s(1)
    assert failures(replica) == 1
    assert "answered a coroutine where None is expected" in caplog.text


def test_a_handler_waits_for_the_start_of_its_plugin_and_has_a_thread_of_its_own(
    api: ScriptedApi, runs: Runs, clock: SkippingTime
) -> None:
    told: list[str] = []
    other_heard = threading.Event()

    def start(_: Gang) -> None:
        other_heard.wait()
        told.append("started")

    api.put_group("a")
    hears = (lambda _, now: told.append(version(now)),)
    runs(lambda *_: other_heard.set(), hears=hears, start=start)
    clock.pass_s(1)
    assert told == ["started", "a "]
