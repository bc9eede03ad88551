"""The guard in bind: when it looks, what it prevents, and what a refusal leaves behind.

tests/property/test_property_guard.py has what the guard says of nodes and pods of all kinds.
"""

import asyncio
import json
import threading
from dataclasses import dataclass, field
from typing import Any

import pytest
from verb_world import Binder, Clock, Leader, Pods, Watched, counted, pod, watch_event

from kubextend import core
from kubextend.framework.status import Status
from kubextend.metrics import Metrics
from kubextend.profile import BindingPlugins, Profile, Profiles
from kubextend.testing.stand_ins import ListedNodes, ListedPods
from kubextend.verbs.bind_room_check import Guard
from make_verbs import make_verbs
from skipping_loop import AT_MOST_S, run, until

NO_ROOM = "the node has no room left for the pod: Insufficient cpu"


def wanting(name: str, cpu: str = "1", **spec: Any) -> dict[str, Any]:
    made = pod(name)
    made["spec"] = {"containers": [{"resources": {"requests": {"cpu": cpu}}}], **spec}
    return made


def node_with(name: str, cpu: str, pods: str = "10") -> dict[str, Any]:
    return {
        "metadata": {"name": name, "uid": f"uid-of-{name}"},
        "status": {"allocatable": {"cpu": cpu, "pods": pods}},
    }


@dataclass
class Steps:
    """Plugins whose steps wait until the test opens them, and that note what was called."""

    binds: bool = False
    reached: list[str] = field(default_factory=list)
    open: set[str] = field(default_factory=set)
    name: str = "Steps"

    async def reserve(self, *_: Any) -> None:
        await self._step("reserve")

    async def pre_bind(self, *_: Any) -> None:
        await self._step("pre_bind")

    async def bind(self, *_: Any) -> Status:
        self.reached.append("bind")
        return Status.success() if self.binds else Status.skip()

    async def unreserve(self, *_: Any) -> None:
        self.reached.append("unreserve")

    async def _step(self, step: str) -> None:
        self.reached.append(step)
        while step not in self.open:  # noqa: ASYNC110  the test opens it
            await asyncio.sleep(0)


@dataclass
class World:
    """A node of one core, and two pods that want a core each."""

    plugin: Steps | None = None
    pods: Pods = field(default_factory=lambda: Pods().showing(wanting("one"), wanting("two")))
    nodes: Watched = field(default_factory=lambda: Watched().listing(node_with("n", "1")))
    binder: Binder = field(default_factory=Binder)
    joined: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        plugins = [] if self.plugin is None else [self.plugin]
        points = dict.fromkeys(("reserve", "pre_bind", "bind"), plugins)
        profile = Profile("default-scheduler", binding=BindingPlugins(**points))  # type: ignore[arg-type]
        given = {"watched": self.nodes, "pods": self.pods, "binder": self.binder, "clock": Clock()}
        self.verbs = make_verbs(
            Profiles.of([profile]), **(given | {"guards_resources": True} | self.joined)
        )

    async def bind(self, name: str, node: str = "n") -> str:
        fields = {"PodName": name, "PodNamespace": "ml", "PodUID": f"uid-of-{name}", "Node": node}
        error: str = json.loads(await self.verbs.bind(json.dumps(fields).encode()))["Error"]
        return error

    def fill(self) -> None:
        """Show the pod of another scheduler on the node."""
        self.pods.showing(wanting("foreign", schedulerName="other", nodeName="n"))

    def assumed(self) -> list[str]:
        return [each.name for each, _ in self.pods.store.assumed()]

    def refusals(self) -> float:
        return counted(self.verbs, "kubextend_guard_refusals_total")


@pytest.mark.parametrize("with_plugins", [False, True])
def test_of_two_pods_that_come_together_one_gets_room_for_one(with_plugins: bool) -> None:
    plugin = Steps(open={"reserve", "pre_bind"}) if with_plugins else None
    world = World(plugin)

    async def scenario() -> list[str]:
        return await asyncio.gather(world.bind("one"), world.bind("two"))

    said = dict(zip(("one", "two"), run(scenario()), strict=True))
    # With plugins, threads decide which of the pods comes first.
    first = min(said, key=said.__getitem__)
    assert sorted(said.values()) == ["", NO_ROOM]
    assert [name for _, name, *_ in world.binder.bound] == [first]
    assert world.assumed() == [first]
    assert world.refusals() == 1


def test_a_pod_that_only_looks_for_room_keeps_none_from_the_pod_that_has_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    posting, looking, posted = threading.Event(), threading.Event(), threading.Event()
    why_not = Guard.why_not

    class Slow(Binder):
        def bind(self, *names: str, **options: Any) -> None:
            posting.set()
            assert looking.wait(AT_MOST_S)
            try:
                super().bind(*names, **options)
            finally:
                posted.set()

    def look(guard: Guard, uid: str, node: str) -> str:
        if uid == "uid-of-two":
            looking.set()
            # Without a lock the other pod's thread looks now, and is refused.
            posted.wait(0.2)
        return why_not(guard, uid, node)

    async def scenario() -> tuple[str, str]:
        first = asyncio.create_task(world.bind("one"))
        assert await asyncio.to_thread(posting.wait, AT_MOST_S)
        second = await world.bind("two")
        return await first, second

    monkeypatch.setattr(Guard, "why_not", look)
    world = World(binder=Slow())
    assert run(scenario()) == ("", NO_ROOM)


@pytest.mark.parametrize("with_plugins", [False, True])
def test_a_node_that_another_scheduler_has_filled_takes_no_pod(with_plugins: bool) -> None:
    world = World(Steps() if with_plugins else None)
    world.fill()
    assert run(world.bind("one")) == NO_ROOM
    assert (world.binder.bound, world.assumed()) == ([], [])
    assert world.plugin is None or world.plugin.reached == []


@pytest.mark.parametrize(
    ("step", "reached"),
    [
        ("reserve", ["reserve", "unreserve"]),
        ("pre_bind", ["reserve", "pre_bind", "unreserve"]),
    ],
)
def test_a_node_that_is_filled_during_the_binding_cycle_takes_no_pod(
    step: str, reached: list[str]
) -> None:
    plugin = Steps(binds=True, open={"reserve", "pre_bind"} - {step})
    world = World(plugin)

    async def scenario() -> str:
        bind = asyncio.create_task(world.bind("one"))
        await until(lambda: step in plugin.reached)
        world.fill()
        plugin.open.add(step)
        return await bind

    assert run(scenario()) == NO_ROOM
    assert plugin.reached == reached
    assert world.assumed() == []
    assert world.refusals() == 1


def test_a_pod_passes_once_there_is_room_again() -> None:
    world = World()
    world.fill()
    assert run(world.bind("one")) == NO_ROOM
    world.pods.store.apply(watch_event("DELETED", wanting("foreign", nodeName="n")))
    assert run(world.bind("one")) == ""


def test_without_the_guard_the_pod_is_bound_to_the_full_node() -> None:
    world = World(joined={"guards_resources": False})
    world.fill()
    assert run(world.bind("one")) == ""


@pytest.mark.parametrize(
    ("unsynced", "node", "why"),
    [
        ("nodes", "n", "kubextend is not ready: nodes and pods are not listed yet"),
        ("pods", "n", "kubextend is not ready: nodes and pods are not listed yet"),
        ("", "m", "the node is not among those that kubextend watches"),
    ],
)
def test_what_is_not_known_binds_no_pod(unsynced: str, node: str, why: str) -> None:
    world = World()
    if unsynced:
        getattr(world, unsynced).synced = False
    assert run(world.bind("one", node)) == why
    assert world.binder.bound == []
    assert world.refusals() == 1


def test_a_pod_that_nobody_knows_is_not_bound() -> None:
    world = World()
    assert run(world.bind("three")) == "there is no pod ml/three of this UID"
    assert world.binder.bound == []


def test_without_watched_pods_nothing_is_bound() -> None:
    world = World(joined={"pods": None})
    assert "no access to the Kubernetes API" in run(world.bind("one"))
    assert world.binder.bound == []


def guard_of(pods: core.PodStore) -> Guard:
    nodes = Watched().listing(node_with("n", "1"))
    return Guard(ListedNodes(nodes.store), ListedPods(pods), Metrics())


def test_a_pod_that_is_no_longer_assumed_on_the_node_is_not_bound() -> None:
    world = World()
    guard = guard_of(world.pods.store)
    assert guard.why_not("uid-of-one", "n") == "the pod was deleted, or is bound to another node"


def test_a_pod_that_is_kept_without_its_requests_is_not_bound() -> None:
    pods = core.PodStore(max_pod_bytes=1000)
    requests = {"cpu": "1", **{f"example.com/resource-{number}": "1" for number in range(200)}}
    large = wanting("large", nodeName="n")
    large["spec"]["containers"][0]["resources"]["requests"] = requests
    pods.apply(watch_event("ADDED", large))
    assert guard_of(pods).why_not("uid-of-large", "n") == (
        "the pod is too large to see whether it fits"
    )


def test_the_log_says_what_is_missing(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    world.fill()
    run(world.bind("one"))
    (line,) = [
        each.getMessage() for each in caplog.records if each.name.endswith(".bind_room_check")
    ]
    assert line == (
        "the guard binds no pod ml/one of scheduler default-scheduler to node n: "
        "cpu: 1000 wanted, 0 of 1000 free"
    )


@pytest.mark.parametrize("with_plugins", [False, True])
def test_only_the_leader_counts_pods_for_the_guard(with_plugins: bool) -> None:
    leader = Leader(leads=False)
    plugin = Steps(open={"reserve", "pre_bind"}) if with_plugins else None
    world = World(plugin, joined={"leader": leader})
    assert "does not lead" in run(world.bind("one"))
    assert (world.binder.bound, world.assumed()) == ([], [])
    leader.wins()
    leader.fresh = False
    assert "does not lead" in run(world.bind("one"))
    leader.fresh = True
    assert run(world.bind("one")) == ""
