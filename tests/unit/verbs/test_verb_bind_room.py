"""The ledger of assumed pods through a bind: what is given back, and what other pods hear of it."""

import asyncio
import json
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from verb_world import (
    Activator,
    Binder,
    Clock,
    Pods,
    Watched,
    names_request,
    node,
    pod,
    watch_event,
)

from kubextend import core
from kubextend.errors import ClusterError
from kubextend.framework.cycle_state import CycleState
from kubextend.framework.plugin import PreFilterResult, Rejection
from kubextend.framework.status import Status
from kubextend.profile import BindingPlugins, PluginLimits, Profile, Profiles
from kubextend.server.api_threads import ApiThreads
from make_verbs import make_verbs
from skipping_loop import run, skip


@dataclass
class World:
    """Two pods, one node, and what kube-scheduler asks."""

    profile: dict[str, Any]
    pods: Pods = field(default_factory=Pods)
    clock: Clock = field(default_factory=Clock)
    activator: Activator = field(default_factory=Activator)
    binder: Any = field(default_factory=Binder)
    nodes: Sequence[str] = ("n",)
    joined: dict[str, Any] = field(default_factory=dict)
    other_profiles: Sequence[Profile] = ()

    def __post_init__(self) -> None:
        for name in ("one", "two"):
            self.pods.store.apply(watch_event("ADDED", pod(name)))
        self.limits = PluginLimits(self.clock)
        profile = Profile("default-scheduler", pods=self.pods.store.snapshot, **self.profile)
        self.verbs = make_verbs(
            Profiles.of([profile, *self.other_profiles]),
            watched=Watched().listing(*map(node, self.nodes)),
            pods=self.pods,
            binder=self.binder,
            activator=self.activator,
            limits=self.limits,
            in_thread=ApiThreads().wait_for,
            clock=self.clock,
            **({"http_timeout_s": 600.0} | self.joined),
        )

    def filter(self, name: str) -> Any:
        return json.loads(self.verbs.filter(names_request(["n"], of=pod(name))))

    async def bind(self, name: str, to: str = "n", arrived_s: float | None = None) -> str:
        fields = {"PodName": name, "PodNamespace": "ml", "PodUID": f"uid-of-{name}", "Node": to}
        began_s = time.monotonic() if arrived_s is None else arrived_s
        answer = await self.verbs.bind.answer(json.dumps(fields).encode(), began_s)
        error: str = json.loads(answer.body)["Error"]
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
        go.wait(60)
        came_back.set()
        return []

    async def scenario() -> None:
        bind = asyncio.create_task(world.bind("one"))
        assert await asyncio.to_thread(looking.wait, 60)
        bind.cancel()
        with pytest.raises(asyncio.CancelledError):
            await bind
        go.set()
        assert await asyncio.to_thread(came_back.wait, 60)
        # The thread that looked has come to its end once it serves again.
        await world.limits.within_async(60, list)

    world = World({"filter": [Looks(look)], "counts_pods": True})
    world.limits._verb_threads._most = 1
    asyncio.run(scenario())
    assert world.pods.assumed() == []
    assert world.binder.bound == []


def one_pod_a_node(world: Callable[[], World]) -> Callable[[], Sequence[Rejection]]:
    """What a filter says of a node that has room for one."""

    def look() -> Sequence[Rejection]:
        full = core.Mask([bool(world().pods.assumed())])
        return [Rejection(full, Status.unschedulable("the node is full"))]

    return look


def test_two_pods_whose_binds_come_together_do_not_both_take_room_for_one() -> None:
    looking, go = threading.Event(), threading.Event()
    judge = one_pod_a_node(lambda: world)

    def look() -> Sequence[Rejection]:
        if not looking.is_set():
            looking.set()
            assert go.wait(60)
        return judge()

    async def scenario() -> list[str]:
        first = asyncio.create_task(world.bind("one"))
        assert await asyncio.to_thread(looking.wait, 60)
        second = asyncio.create_task(world.bind("two"))
        await asyncio.sleep(0)
        # What the second has begun by now is over when this is, as there is one more thread.
        await world.limits.within_async(60, list)
        go.set()
        return await asyncio.gather(first, second)

    filters = Looks(judge)
    world = World({"filter": [filters], "counts_pods": True})
    world.limits._verb_threads._most = 2
    assert [world.filter(name)["NodeNames"] for name in ("one", "two")] == [["n"], ["n"]]
    filters.look = look
    assert asyncio.run(scenario()) == ["", "the node is full"]
    assert [name for _, name, _, _ in world.binder.bound] == ["one"]
    assert world.pods.assumed() == ["one"]


class OnePod:
    name = "OnePod"
    needs_pods = True

    def filter(self, _state: object, _pod: core.Pod, node: core.NodeInfo) -> Status | None:
        return Status.unschedulable("the node is full") if node.pods else None


def test_of_two_pods_that_are_nominated_to_room_for_one_the_first_to_be_bound_has_it() -> None:
    world = World({"filter": [OnePod()], "counts_pods": True})
    for name in ("one", "two"):
        assert world.filter(name)["NodeNames"] == ["n"]
    # kube-scheduler assumed both, and says so of both before their Bindings are written.
    for name in ("one", "two"):
        shown = pod(name) | {"status": {"nominatedNodeName": "n"}}
        world.pods.store.apply(watch_event("MODIFIED", shown))
    said = [asyncio.run(world.bind(name)) for name in ("two", "one")]
    assert said == ["", "the node is full"]
    assert [name for _, name, _, _ in world.binder.bound] == ["two"]


def test_a_pod_of_a_profile_that_counts_no_pods_is_bound_while_filters_of_another_look() -> None:
    looking, go = threading.Event(), threading.Event()

    def look() -> Sequence[Rejection]:
        looking.set()
        assert go.wait(300)
        return []

    async def scenario() -> None:
        looks = asyncio.create_task(world.bind("one"))
        assert await asyncio.to_thread(looking.wait, 60)
        try:
            async with asyncio.timeout(60):
                assert await world.bind("quick") == ""
            assert not looks.done()
        finally:
            go.set()
        assert await looks == ""

    quick = Profile("quick", binding=BindingPlugins(reserve=[Yields()]))
    profile = {"filter": [Looks(look)], "counts_pods": True}
    world = World(profile, other_profiles=[quick])
    world.pods.store.apply(watch_event("ADDED", pod("quick", scheduler="quick")))
    asyncio.run(scenario())
    assert [name for _, name, _, _ in world.binder.bound] == ["quick", "one"]
    assert set(world.pods.assumed()) == {"quick", "one"}


def test_a_pod_whose_binding_the_api_refuses_leaves_its_room_to_the_next() -> None:
    world = World({"filter": [Looks(one_pod_a_node(lambda: world))], "counts_pods": True})
    world.binder.error = ClusterError("no")
    assert asyncio.run(world.bind("one")) == "no"
    assert world.pods.assumed() == []
    world.binder.error = None
    assert asyncio.run(world.bind("two")) == ""
    assert world.pods.assumed() == ["two"]


def test_a_filter_that_hangs_in_the_second_look_does_not_use_up_the_minutes_of_a_bind() -> None:
    looking, go = threading.Event(), threading.Event()

    def look() -> Sequence[Rejection]:
        looking.set()
        assert go.wait(300)
        return []

    async def scenario() -> str:
        bind = asyncio.create_task(world.bind("one"))
        assert await asyncio.to_thread(looking.wait, 60)
        await skip(4)
        assert not bind.done()
        await skip(1)
        return await bind

    seconds = {"http_timeout_s": 5.0, "bind_timeout_s": 600.0}
    world = World({"filter": [Looks(look)], "counts_pods": True}, joined=seconds)
    try:
        assert run(scenario()) == 'Filter plugin "Looks" failed'
    finally:
        go.set()
    assert world.binder.bound == []
    assert world.pods.assumed() == []


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
        world = World(
            {"filter": [plugin], "counts_pods": True}, pods, joined={"pod_reader": reader}
        )
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

    def bind(self, *names: str, **_: Any) -> None:
        self.nodes.append(names[-1])
        if len(self.nodes) > 1:
            message = "bound already"
            raise ClusterError(message)
        self.asked.set()
        assert self.go.wait(60)


@pytest.mark.parametrize("point", ["filter", "reserve", "permit"])
def test_a_pod_that_is_deleted_before_permit_holds_it_is_neither_held_nor_counted(
    point: str,
) -> None:
    """The deletion finds no wait to end, and the pod must not complete its gang in Permit."""

    class Deletes(Holds):
        def filter_nodes(self, *_: Any) -> Sequence[Rejection]:
            self.delete("filter")
            return []

        async def reserve(self, *args: Any) -> None:
            asked.append("reserve")
            self.delete("reserve")
            await super().reserve(*args)

        async def permit(self, *args: Any) -> tuple[Status, float]:
            asked.append("permit")
            self.delete("permit")
            return await super().permit(*args)

        def delete(self, at: str) -> None:
            if at == point and is_binding:
                world.pods.store.apply(watch_event("DELETED", pod("one")))
                assert not world.verbs.waiting_pods.send_back("uid-of-one", "the pod is deleted")
                world.verbs.forget("uid-of-one")

    plugin, asked, is_binding = Deletes(), list[str](), False
    plugin.go.set()
    binding = BindingPlugins(reserve=[plugin], permit=[plugin])
    world = World({"filter": [plugin], "counts_pods": True, "binding": binding})
    assert world.filter("one")["NodeNames"] == ["n"]
    is_binding = True
    assert asyncio.run(world.bind("one")) == "the pod is deleted"
    assert asked == {"filter": [], "reserve": ["reserve"], "permit": ["reserve", "permit"]}[point]
    assert len(world.verbs.waiting_pods) == 0
    assert (world.pods.assumed(), world.binder.bound, plugin.reserved) == ([], [], 0)


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
        assert await asyncio.to_thread(api.asked.wait, 60)
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


class Yields:
    """Lets the event loop see whose time is over."""

    name = "Yields"

    async def reserve(self, *_: Any) -> None:
        await asyncio.sleep(0)

    async def unreserve(self, *_: Any) -> None:
        pass


@pytest.mark.parametrize(("minutes_ago", "binds"), [(0, ["one"]), (11, [])])
def test_the_time_of_a_bind_is_counted_from_when_it_came(
    minutes_ago: float, binds: list[str]
) -> None:
    binding = BindingPlugins(reserve=[Yields()])
    world = World({"binding": binding}, joined={"bind_timeout_s": 600.0})
    error = asyncio.run(world.bind("one", arrived_s=time.monotonic() - 60 * minutes_ago))
    assert bool(error) is not bool(binds)
    assert [name for _, name, _, _ in world.binder.bound] == binds


def test_a_client_that_leaves_while_a_newer_request_takes_over_ends_its_own_request() -> None:
    async def scenario() -> None:
        plugin = Holds()
        world = World({"binding": BindingPlugins(reserve=[plugin], permit=[plugin])})
        older = asyncio.create_task(world.bind("one"))
        await world.holds_one()
        newer = asyncio.create_task(world.bind("one"))
        await plugin.last.wait()
        older.cancel()
        plugin.go.set()
        with pytest.raises(asyncio.CancelledError):
            await older
        await world.holds_one()
        assert plugin.reserved == 1
        world.verbs.waiting_pods.reject("uid-of-one", "", "enough")
        assert await newer == "enough"

    asyncio.run(scenario())


class Prepares(Looks):
    asked = 0

    def pre_filter(self, *_: Any) -> None:
        self.asked += 1


def test_a_bind_leaves_nothing_of_its_attempt_to_the_next_one() -> None:
    plugin = Prepares()
    binding = BindingPlugins(reserve=[Yields()])
    world = World({"pre_filter": [plugin], "filter": [plugin], "binding": binding})
    world.binder.error = ClusterError("no")
    world.filter("one")
    assert asyncio.run(world.bind("one")) == "no"
    assert plugin.asked == 1
    assert asyncio.run(world.bind("one")) == "no"
    assert plugin.asked == 2


@pytest.mark.parametrize(("timeout_s", "left_s"), [(600.0, 525.0), (40.0, -35.0), (None, None)])
def test_the_binding_may_take_what_is_left_of_the_time(
    timeout_s: float | None, left_s: float | None
) -> None:
    world = World({}, joined={"bind_timeout_s": timeout_s})
    asyncio.run(world.bind("one", arrived_s=time.monotonic() - 60))
    if left_s is None or left_s < 0:
        assert world.binder.timeouts_s == ([None] if left_s is None else [])
    else:
        (given_s,) = world.binder.timeouts_s
        # 600 s, less 60 that have passed and 15 for what comes after; the call itself takes some.
        assert left_s - 60 < given_s <= left_s


class Breaks:
    """The API of whoever binds raises."""

    def __init__(self, error: BaseException) -> None:
        self._error = error

    def bind(self, *_: Any, **__: Any) -> None:
        raise self._error


def a_second_profile(world: World, pods: Pods) -> World:
    """Its verbs bind the pods of ``default-scheduler`` with a plugin, of ``plain`` without any."""
    counting = Profile("default-scheduler", pods=pods.store.snapshot, counts_pods=True)
    world.verbs = make_verbs(
        Profiles.of([counting, Profile("plain")], pass_through=["passed-through"]),
        watched=Watched().listing(node("n")),
        pods=pods,
        binder=world.binder,
        activator=world.activator,
        in_thread=ApiThreads().wait_for,
    )
    return world


@pytest.mark.parametrize("scheduler", ["plain", "passed-through"])
def test_a_pod_without_plugins_counts_on_its_node_from_its_binding_on(scheduler: str) -> None:
    pods = Pods()
    pods.store.apply(watch_event("ADDED", pod("one", scheduler=scheduler)))
    world = a_second_profile(World({}), pods)
    assert asyncio.run(world.bind("one")) == ""
    assert pods.assumed() == ["one"]


def test_a_pod_without_plugins_that_is_not_bound_leaves_its_room_to_others() -> None:
    pods = Pods()
    pods.store.apply(watch_event("ADDED", pod("one", scheduler="plain")))
    world = a_second_profile(World({}, binder=Breaks(ClusterError("no"))), pods)
    assert asyncio.run(world.bind("one")) == "no"
    assert pods.assumed() == []


class TwoReasons:
    """Rejects nothing for one reason and the node for another."""

    name = "TwoReasons"
    full = False

    def filter_nodes(self, _state: CycleState, _pod: core.Pod, nodes: core.Nodes) -> Any:
        if not self.full:
            return []
        return [
            Rejection(nodes.nothing(), Status.unschedulable("nobody's reason")),
            Rejection(nodes.everything(), Status.unschedulable("the node is full")),
        ]


class Narrows:
    """Leaves all nodes, by name."""

    name = "Narrows"

    def pre_filter(self, _state: CycleState, _pod: core.Pod, nodes: core.Nodes) -> PreFilterResult:
        return PreFilterResult(frozenset(nodes.names))


def test_the_second_look_tells_the_reason_of_the_node_and_not_of_another() -> None:
    plugin = TwoReasons()
    world = World({"pre_filter": [Narrows()], "filter": [plugin], "counts_pods": True})
    plugin.full = True
    assert asyncio.run(world.bind("one")) == "the node is full"


def test_a_bind_whose_time_is_over_when_it_begins_posts_no_binding() -> None:
    world = World({}, joined={"bind_timeout_s": 600.0})
    assert asyncio.run(world.bind("one", arrived_s=time.monotonic() - 660))
    assert world.binder.bound == []


class CountsReserved(Holds):
    """At most how many of its pods were reserved at the same time."""

    most = 0

    async def reserve(self, *_: Any) -> None:
        self.reserved += 1
        self.most = max(self.most, self.reserved)


REPLACED = "a newer bind request for this pod took its place"


def test_of_several_newer_requests_one_after_the_other_goes_on() -> None:
    async def scenario() -> None:
        plugin = CountsReserved()
        world = World({"binding": BindingPlugins(reserve=[plugin], permit=[plugin])})
        older = asyncio.create_task(world.bind("one"))
        await world.holds_one()
        newer = [asyncio.create_task(world.bind("one")) for _ in range(2)]
        await plugin.last.wait()
        plugin.go.set()
        assert await older == REPLACED
        (replaced,), (last,) = await asyncio.wait(newer, return_when=asyncio.FIRST_COMPLETED)
        assert replaced.result() == REPLACED
        await world.holds_one()
        assert plugin.most == 1
        world.verbs.waiting_pods.reject("uid-of-one", "", "enough")
        assert await last == "enough"

    asyncio.run(scenario())


def test_a_client_that_leaves_while_it_waits_for_the_older_request_ends_no_other() -> None:
    async def scenario() -> None:
        plugin = Holds()
        world = World({"binding": BindingPlugins(reserve=[plugin], permit=[plugin])})
        older = asyncio.create_task(world.bind("one"))
        await world.holds_one()
        newer, newest = (asyncio.create_task(world.bind("one")) for _ in range(2))
        await plugin.last.wait()
        newer.cancel()
        with pytest.raises(asyncio.CancelledError):
            await newer
        plugin.go.set()
        assert await older == REPLACED
        await world.holds_one()
        world.verbs.waiting_pods.reject("uid-of-one", "", "enough")
        assert await newest == "enough"

    asyncio.run(scenario())


class Writes(Looks):
    """Its PreFilter writes down which nodes it was asked about, and its Reserve reads that."""

    reads: object = None

    def pre_filter(self, state: CycleState, _pod: core.Pod, nodes: core.Nodes) -> None:
        state.write("nodes", nodes.names)

    async def reserve(self, state: CycleState, _pod: core.Pod, _node: str) -> None:
        self.reads = state.read("nodes")

    async def unreserve(self, *_: Any) -> None:
        pass


def test_the_second_look_changes_nothing_of_what_filter_wrote_down() -> None:
    plugin = Writes()
    binding = BindingPlugins(reserve=[plugin])
    world = World(
        {"pre_filter": [plugin], "filter": [plugin], "binding": binding, "counts_pods": True},
        nodes=["n", "m"],
    )
    world.verbs.filter(names_request(["n", "m"], of=pod("one")))
    assert asyncio.run(world.bind("one")) == ""
    assert plugin.reads == ["n", "m"]
