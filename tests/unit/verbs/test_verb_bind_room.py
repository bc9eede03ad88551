"""The ledger of assumed pods through a bind: what is given back, and what other pods hear of it."""

import asyncio
import json
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from verb_world import Activator, Binder, Clock, Watched, names_request, node, pod, watch_event

from kubextend import core
from kubextend.errors import ClusterError
from kubextend.framework.plugin import Rejection
from kubextend.framework.status import Status
from kubextend.profile import BindingPlugins, PluginLimits, Profile, Profiles
from kubextend.server.workers import Workers
from kubextend.verbs import Verbs


@dataclass
class Pods:
    """A pod source that is fed by hand."""

    synced: bool = True
    store: core.PodStore = field(default_factory=core.PodStore)

    def assumed(self) -> list[str]:
        return [each.name for each, _ in self.store.assumed()]


@dataclass
class World:
    """Two pods, one node, and what kube-scheduler asks."""

    profile: dict[str, Any]
    pods: Pods = field(default_factory=Pods)
    clock: Clock = field(default_factory=Clock)
    activator: Activator = field(default_factory=Activator)
    binder: Any = field(default_factory=Binder)
    nodes: Sequence[str] = ("n",)
    pod_reader: Any = None

    def __post_init__(self) -> None:
        for name in ("one", "two"):
            self.pods.store.apply(watch_event("ADDED", pod(name)))
        self.limits = PluginLimits(self.clock)
        profile = Profile("default-scheduler", pods=self.pods.store.snapshot, **self.profile)
        self.verbs = Verbs(
            Profiles.of([profile]),
            request_store=core.NodeStore(),
            watched=Watched().listing(*map(node, self.nodes)),
            pods=self.pods,
            pod_reader=self.pod_reader,
            binder=self.binder,
            activator=self.activator,
            limits=self.limits,
            in_thread=Workers().wait_for,
            clock=self.clock,
        )

    def filter(self, name: str) -> Any:
        return json.loads(self.verbs.filter(names_request(["n"], of=pod(name))))

    async def bind(self, name: str, to: str = "n") -> str:
        fields = {"PodName": name, "PodNamespace": "ml", "PodUID": f"uid-of-{name}", "Node": to}
        error: str = json.loads(await self.verbs.bind(json.dumps(fields).encode()))["Error"]
        return error

    async def holds_one(self) -> None:
        while not len(self.verbs.waiting_pods):  # noqa: ASYNC110  nothing tells when it does
            await asyncio.sleep(0)


@dataclass
class Looks:
    """A filter that does what it is told to."""

    look: Callable[[], Sequence[Rejection]] = list
    name: str = "Looks"

    def filter_nodes(self, *_: Any) -> Sequence[Rejection]:
        return self.look()


def test_a_request_that_is_withdrawn_while_filters_look_again_leaves_nothing_assumed() -> None:
    looking, go, came_back = threading.Event(), threading.Event(), threading.Event()

    def look() -> Sequence[Rejection]:
        looking.set()
        go.wait(10)
        came_back.set()
        return []

    async def scenario() -> None:
        bind = asyncio.create_task(world.bind("one"))
        assert await asyncio.to_thread(looking.wait, 10)
        bind.cancel()
        with pytest.raises(asyncio.CancelledError):
            await bind
        go.set()
        assert await asyncio.to_thread(came_back.wait, 10)
        # The thread that looked has come to its end once it serves again.
        await world.limits.within_async(10, list)

    world = World({"filter": [Looks(look)], "counts_pods": True})
    world.limits._verb_threads._most = 1
    asyncio.run(scenario())
    assert world.pods.assumed() == []
    assert world.binder.bound == []


class ReadsTolerations:
    name = "ReadsTolerations"

    def __init__(self) -> None:
        self.read: list[object] = []

    def filter_nodes(self, _state: object, pod: core.Pod, _nodes: object) -> Sequence[Rejection]:
        self.read.append(pod.tolerations)
        return []


class Reader:
    """The API, which has pods whole."""

    def get(self, namespace: str, name: str) -> core.Pod | None:
        assert namespace == "ml"
        return core.PodStore().apply(watch_event("ADDED", large(name))).pod


def large(name: str) -> dict[str, Any]:
    shown = pod(name)
    shown["spec"]["tolerations"] = [{"key": "k" * 500}]
    return shown


def test_a_pod_that_is_kept_without_its_tolerations_is_read_whole_before_it_is_bound() -> None:
    plugin = ReadsTolerations()
    errors = []
    for reader in (Reader(), None):
        pods = Pods(store=core.PodStore(max_pod_bytes=100))
        world = World({"filter": [plugin], "counts_pods": True}, pods, pod_reader=reader)
        pods.store.apply(watch_event("MODIFIED", large("one")))
        errors.append(asyncio.run(world.bind("one")))
        assert bool(world.binder.bound) is (reader is not None)
    assert errors == ["", 'Filter plugin "ReadsTolerations" failed']
    assert plugin.read == [[("k" * 500, "", "", "")]]


class Reserves:
    name = "Reserves"

    def __init__(self) -> None:
        self.reserved = 0
        self.last = asyncio.Event()
        self.go = asyncio.Event()

    async def reserve(self, *_: Any) -> None:
        self.reserved += 1

    async def unreserve(self, *_: Any) -> None:
        self.last.set()
        await self.go.wait()
        self.reserved -= 1

    async def post_bind(self, *_: Any) -> None:
        self.last.set()
        await self.go.wait()


class Holds(Reserves):
    async def permit(self, *_: Any) -> tuple[Status, float]:
        return Status.wait(), 60.0


def test_a_bound_pod_stays_assumed_though_its_request_is_withdrawn_in_post_bind() -> None:
    async def scenario() -> None:
        plugin = Reserves()
        binding = BindingPlugins(reserve=[plugin], post_bind=[plugin])
        world = World({"binding": binding})
        bind = asyncio.create_task(world.bind("one"))
        await plugin.last.wait()
        bind.cancel()
        plugin.go.set()
        with pytest.raises(asyncio.CancelledError):
            await bind
        assert [name for _, name, _, _ in world.binder.bound] == ["one"]
        assert plugin.reserved == 1
        assert world.pods.assumed() == ["one"]

    asyncio.run(scenario())


class SlowBinder:
    """The API takes the first Binding after a while, and refuses any other."""

    def __init__(self) -> None:
        self.asked, self.go = threading.Event(), threading.Event()
        self.nodes: list[str] = []

    def bind(self, *names: str) -> None:
        self.nodes.append(names[-1])
        if len(self.nodes) > 1:
            message = "bound already"
            raise ClusterError(message)
        self.asked.set()
        assert self.go.wait(20)


AFTERWARDS = {"n": "", "m": "the pod is bound to node n, not to m"}


@pytest.mark.parametrize(("newer", "said"), AFTERWARDS.items())
def test_a_newer_request_reserves_nothing_for_a_pod_that_an_older_one_binds_after_all(
    newer: str, said: str
) -> None:
    async def scenario() -> None:
        plugin, api = Reserves(), SlowBinder()
        binding = BindingPlugins(reserve=[plugin])
        world = World({"binding": binding}, binder=api, nodes=["n", "m"])
        older = asyncio.create_task(world.bind("one"))
        assert await asyncio.to_thread(api.asked.wait, 20)
        asked_again = asyncio.create_task(world.bind("one", newer))
        while not older.cancelling():  # noqa: ASYNC110  nothing tells when it is
            await asyncio.sleep(0)
        plugin.go.set()
        api.go.set()
        assert await older == ""
        assert await asked_again == said
        assert plugin.reserved == 1
        assert api.nodes == ["n"]
        assert [node for _, node in world.pods.store.assumed()] == ["n"]

    asyncio.run(scenario())


def test_a_filter_that_may_be_ignored_is_left_out_of_the_second_look_too() -> None:
    def breaks() -> Sequence[Rejection]:
        raise RuntimeError

    world = World({"filter": [Looks(breaks)], "counts_pods": True, "ignored": frozenset({"Looks"})})
    assert world.filter("one")["NodeNames"] == ["n"]
    assert asyncio.run(world.bind("one")) == ""


def test_a_pod_that_was_rejected_for_what_another_reserved_is_woken_when_that_is_given_up() -> None:
    async def scenario() -> None:
        plugin = Holds()

        def look() -> Sequence[Rejection]:
            status = Status.unschedulable("somebody has it")
            return [Rejection(core.Mask([plugin.reserved > 0]), status)]

        binding = BindingPlugins(reserve=[plugin], permit=[plugin])
        world = World({"filter": [Looks(look)], "binding": binding})
        bind = asyncio.create_task(world.bind("one"))
        await world.holds_one()
        # kube-scheduler lets go of a pod that is deleted, and asks about the next one.
        world.verbs.waiting_pods.reject("uid-of-one", "", "the pod is deleted")
        await plugin.last.wait()
        assert "n" in world.filter("two")["FailedNodes"]
        world.verbs.wake_due()
        assert world.activator.woken == []
        plugin.go.set()
        assert await bind == "the pod is deleted"
        world.verbs.wake_due()
        assert world.activator.woken == ["two"]

    asyncio.run(scenario())


def test_a_pod_that_is_held_does_not_keep_its_plugin_from_others_as_a_probe() -> None:
    class Gate(Looks):
        async def permit(self, *_: Any) -> tuple[Status, float]:
            return Status.wait(), 60.0

    async def scenario() -> None:
        gate = Gate()
        world = World({"filter": [gate], "binding": BindingPlugins(permit=[gate])})
        world.limits.breakers.hung("Looks")
        assert world.filter("two")["Error"]
        world.clock.now_s += 31
        bind = asyncio.create_task(world.bind("one"))
        await world.holds_one()
        assert world.filter("two")["NodeNames"] == ["n"]
        world.verbs.waiting_pods.reject("uid-of-one", "", "enough")
        await bind

    asyncio.run(scenario())
