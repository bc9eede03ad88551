"""The chosen node may go while a pod is on its way there: the pod is not bound, and sent back."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from verb_world import Activator, Binder, Pods, Watched, names_request, node, pod, watch_event

from kubextend import core
from kubextend.errors import ClusterError
from kubextend.framework.status import Status
from kubextend.profile import BindingPlugins, Profile, Profiles
from kubextend.verbs.bind_node_check import why_not_on
from make_verbs import make_verbs

DELETED = "the node was deleted"
NOT_KNOWN = "the node is not among those that kubextend watches"
CORDONED = "the node is cordoned, and the pod does not tolerate that"


@dataclass
class Steps:
    """PreFilter, Reserve, Permit, which may hold the pod, and PreBind; each does something."""

    name: str = "Steps"
    holds: bool = False
    on_pre_filter: Callable[[], object] = lambda: None
    on_reserve: Callable[[], object] = lambda: None
    on_permit: Callable[[], object] = lambda: None
    on_pre_bind: Callable[[], object] = lambda: None
    seen: list[str] = field(default_factory=list)

    def pre_filter(self, *_: Any) -> None:
        self.on_pre_filter()

    def filter(self, *_: Any) -> None:
        self.seen.append("filter")

    async def reserve(self, *_: Any) -> None:
        self.seen.append("reserve")
        self.on_reserve()

    async def unreserve(self, *_: Any) -> None:
        self.seen.append("unreserve")

    async def permit(self, *_: Any) -> tuple[Status, float] | None:
        self.on_permit()
        return (Status.wait(), 60.0) if self.holds else None

    async def pre_bind(self, *_: Any) -> None:
        self.seen.append("pre_bind")
        self.on_pre_bind()


def of_uid(name: str, uid: str) -> dict[str, Any]:
    made = node(name)
    made["metadata"]["uid"] = uid
    return made


class World:
    def __init__(self, plugin: Steps, asked: dict[str, Any] | None = None) -> None:
        self.pod = pod() if asked is None else asked
        self.plugin, self.binder, self.pods = plugin, Binder(), Pods()
        self.activator = Activator()
        self.pods.store.apply(watch_event("ADDED", self.pod))
        self.watched = Watched().listing(of_uid("n", "1"), node("other"))
        binding = BindingPlugins(reserve=[plugin], permit=[plugin], pre_bind=[plugin])
        plugins = {"pre_filter": [plugin], "filter": [plugin], "binding": binding}
        profile = Profile("default-scheduler", **plugins)
        self.verbs = make_verbs(
            Profiles.of([profile]),
            watched=self.watched,
            pods=self.pods,
            binder=self.binder,
            activator=self.activator,
        )

    def delete(self) -> None:
        """As the watch tells of it."""
        self.watched.store.apply(watch_event("DELETED", node("n")))
        self.verbs.bind.node_deleted("n")

    def recreate(self) -> None:
        self.delete()
        self.watched.store.apply(watch_event("ADDED", of_uid("n", "2")))

    def relist(self, uid: str) -> None:
        """The watch broke off, and a list shows a node of this name."""
        self.watched.listing(of_uid("n", uid), node("other"))
        self.verbs.bind.nodes_listed()

    def cordon(self) -> None:
        cordoned = of_uid("n", "1") | {"spec": {"unschedulable": True}}
        self.watched.store.apply(watch_event("MODIFIED", cordoned))

    def filter(self) -> Any:
        return json.loads(bytes(self.verbs.filter(names_request(["n", "other"], self.pod))))

    async def bind(self) -> str:
        fields = {"PodName": "pod", "PodNamespace": "ml", "PodUID": "uid-of-pod", "Node": "n"}
        answer = await self.verbs.bind(json.dumps(fields).encode())
        error: str = json.loads(bytes(answer))["Error"]
        return error

    async def held(self) -> Any:
        while (held := self.verbs.waiting_pods.get("uid-of-pod")) is None:  # noqa: ASYNC110
            await asyncio.sleep(0)
        return held


async def bind_with(world: World, while_held: Callable[[World], object]) -> str:
    """What bind answers a pod that is held meanwhile, and then allowed where it still waits."""
    bind = asyncio.create_task(world.bind())
    held = await world.held()
    while_held(world)
    held.allow("Steps")
    async with asyncio.timeout(60):
        return await bind


HAPPENS: list[tuple[Callable[[World], object], str]] = [
    (World.delete, DELETED),
    (World.recreate, DELETED),
    (lambda world: world.relist("2"), DELETED),
    (lambda world: world.watched.listing(of_uid("n", "2")), DELETED),
    (lambda world: world.relist("1"), ""),
    (World.cordon, CORDONED),
    (lambda world: world.watched.store.replace(b'{"items":[]}'), NOT_KNOWN),
    (lambda world: world.verbs.bind.node_deleted("other"), ""),
    (lambda world: world.verbs.bind.nodes_listed(), ""),
]


@pytest.mark.parametrize(("happens", "error"), HAPPENS)
def test_a_held_pod_is_bound_only_to_a_node_that_is_still_there(
    happens: Callable[[World], object], error: str
) -> None:
    world = World(Steps(holds=True))
    assert asyncio.run(bind_with(world, happens)) == error
    assert world.plugin.seen == ["reserve", "unreserve" if error else "pre_bind"]
    assert len(world.binder.bound) == (not error)
    assert bool(world.pods.store.assumed()) is not bool(error)


@pytest.mark.parametrize("told_by", ["event", "list", "list with another of its name"])
def test_a_held_pod_whose_node_goes_is_sent_back_at_once_and_tried_again(told_by: str) -> None:
    async def scenario() -> str:
        bind = asyncio.create_task(world.bind())
        await world.held()
        if told_by == "event":
            world.delete()
        elif told_by == "list":
            # The watch broke off meanwhile, and the new list lacks the node.
            world.watched.listing(node("other"))
            world.verbs.bind.nodes_listed()
        else:
            world.relist("2")
            world.relist("1")
        async with asyncio.timeout(60):
            return await bind

    world = World(Steps(holds=True))
    assert asyncio.run(scenario()) == DELETED
    assert world.plugin.seen == ["reserve", "unreserve"]
    # No Permit plugin rejected it, so the next attempt is a real one.
    there = [name for name in ("n", "other") if name in world.watched.store]
    assert world.filter()["NodeNames"] == there
    assert "filter" in world.plugin.seen


@pytest.mark.parametrize("happens", [World.delete, World.recreate])
@pytest.mark.parametrize("step", ["on_reserve", "on_permit", "on_pre_bind"])
@pytest.mark.parametrize("holds", [True, False])
def test_a_node_that_goes_in_the_middle_of_a_step_gets_no_binding(
    happens: Callable[[World], object], step: str, holds: bool
) -> None:
    plugin = Steps(holds=holds and step != "on_pre_bind")
    world = World(plugin)
    setattr(plugin, step, lambda: happens(world))
    assert asyncio.run(world.bind()) == DELETED
    assert world.binder.bound == []
    assert ("pre_bind" in plugin.seen) is (step == "on_pre_bind")
    assert plugin.seen[-1] == "unreserve"


@pytest.mark.parametrize("happens", [World.recreate, lambda world: world.relist("2")])
def test_a_node_that_is_replaced_while_pre_filter_prepares_a_lost_attempt_gets_no_binding(
    happens: Callable[[World], object],
) -> None:
    plugin = Steps()
    world = World(plugin)
    plugin.on_pre_filter = lambda: happens(world)
    assert asyncio.run(world.bind()) == DELETED
    assert world.binder.bound == []


@pytest.mark.parametrize("error", ["", "the API says no"])
def test_a_binding_is_under_way_until_the_api_has_answered(error: str) -> None:
    world = World(Steps())
    under_way = []

    def answer(*_: object, **__: object) -> None:
        under_way.append(world.verbs.bind.bindings_under_way())
        if error:
            raise ClusterError(error)

    world.binder.bind = answer  # type: ignore[method-assign]
    assert asyncio.run(world.bind()) == error
    assert under_way == [["ml/pod to node n"]]
    assert world.verbs.bind.bindings_under_way() == []


TAINT = "node.kubernetes.io/unschedulable"
TOLERATIONS: list[tuple[list[dict[str, str]], bool]] = [
    ([], False),
    ([{"operator": "Exists"}], True),
    ([{"key": TAINT, "operator": "Exists"}], True),
    ([{"key": TAINT, "operator": "Exists", "effect": "NoSchedule"}], True),
    ([{"key": TAINT, "operator": "Exists", "effect": "NoExecute"}], False),
    ([{"key": TAINT}], True),
    ([{"key": TAINT, "operator": "Equal", "value": "x"}], False),
    ([{"key": "another", "operator": "Exists"}], False),
    ([{"key": "another", "operator": "Exists"}, {"key": TAINT}], True),
]


@pytest.mark.parametrize(("tolerations", "tolerated"), TOLERATIONS)
def test_a_cordoned_node_takes_pods_that_tolerate_that(
    tolerations: list[dict[str, str]], tolerated: bool
) -> None:
    asked = pod()
    asked["spec"]["tolerations"] = tolerations
    world = World(Steps(), asked)
    world.cordon()
    assert asyncio.run(world.bind()) == ("" if tolerated else CORDONED)


def test_of_a_node_that_is_there_and_open_nothing_is_said() -> None:
    watched = Watched().listing(node("n"))
    asked = core.read_args(names_request([], pod())).pod
    assert asked is not None
    assert why_not_on(watched.store.get("n"), asked) == ""
    assert why_not_on(watched.store.get("m"), asked) == NOT_KNOWN


def test_a_node_that_is_known_only_after_the_bind_began_takes_the_pod() -> None:
    world = World(Steps())
    world.watched.store.apply(watch_event("DELETED", node("n")))
    appears = watch_event("ADDED", of_uid("n", "2"))
    world.plugin.on_reserve = lambda: world.watched.store.apply(appears)
    assert asyncio.run(world.bind()) == ""


def test_pods_that_are_sent_back_because_we_end_are_not_held_against_them() -> None:
    world = World(Steps(holds=True))
    closing = "kubextend is shutting down"
    error = asyncio.run(bind_with(world, lambda it: it.verbs.waiting_pods.close(closing)))
    assert error == closing
    assert asyncio.run(world.bind()) == closing
    assert world.filter()["NodeNames"] == ["n", "other"]


def pending(name: str, reason: str = "Unschedulable", **spec: str) -> dict[str, Any]:
    condition = {"type": "PodScheduled", "status": "False", "reason": reason}
    given = pod(name)
    return given | {"spec": spec, "status": {"conditions": [condition]}}


def test_pods_that_were_parked_before_us_are_woken_once_when_all_is_listed() -> None:
    world = World(Steps())
    for each in (
        pending("parked"),
        pending("failed", "SchedulerError"),
        pending("gated", "SchedulingGated"),
        pending("bound", nodeName="n"),
        pending("others", schedulerName="other"),
    ):
        world.pods.store.apply(watch_event("ADDED", each))
    world.pods.synced = False
    world.verbs.wake_due()
    assert world.activator.woken == []
    world.pods.synced = True
    world.watched.synced = False
    world.verbs.wake_due()
    assert world.activator.woken == []
    world.watched.synced = True
    world.verbs.wake_due()
    world.verbs.wake_due()
    assert world.activator.woken == ["parked"]
