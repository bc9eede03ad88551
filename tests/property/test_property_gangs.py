"""Random schedules of a gang: none is bound in part, no group spins or sticks.

What the plugin may count is known here from outside: whose Permit was asked, whose cycle failed,
what the watch shows.
"""

import asyncio
import json
import random
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from kubextend import core
from kubextend.errors import ClusterError
from kubextend.framework.cycle_state import CycleState
from kubextend.framework.handle import Handle
from kubextend.framework.status import Status
from kubextend.plugins.coscheduling import Coscheduling, CoschedulingArgs
from kubextend.profile import BindingCycle, BindingPlugins, WaitingPods
from kubextend.profile.limits import PluginLimits
from kubextend.profile.waiting_pods import WaitingPod
from skipping_loop import run, skip

LABELS = ("scheduling.x-k8s.io/pod-group", "pod-group.scheduling.sigs.k8s.io/min-available")
STEPS = 40


@dataclass
class Pod:
    """A pod of the gang as the world outside of the plugin knows it."""

    name: str
    shown: dict[str, Any]
    task: "asyncio.Task[Status] | None" = None
    gate: "asyncio.Future[str] | None" = None
    permitted: bool = False
    failing: bool = False
    entitled: bool = False
    reserved: bool = False
    bound: bool = False
    gone: bool = False

    @property
    def counts(self) -> bool:
        return not self.gone and (self.bound or (self.permitted and not self.failing))


@dataclass
class World:
    """Other plugins, kube-apiserver, the watch, operators; each acts when the schedule says so."""

    draw: random.Random
    pods: dict[str, Pod] = field(default_factory=dict)
    partly: list[str] = field(default_factory=list)
    """Pods that were bound though the gang was never complete with them."""
    woken: list[str] = field(default_factory=list)
    now_s: float = 0.0
    kind: bool = False
    """From now on nothing fails and nothing waits."""

    name = "World"
    synced = True

    def __post_init__(self) -> None:
        self.size = self.draw.randint(2, 6)
        self.minimum = self.draw.randint(2, self.size)
        self.room = self.draw.randint(1, self.size)
        self.post_bind = self.draw.random() < 0.8
        self.store = core.PodStore()
        self.waiting = WaitingPods()
        self.limits = PluginLimits()
        handle = Handle(waiting_pods=self.waiting, pods=self, activator=self)
        self.plugin = Coscheduling(CoschedulingArgs(), handle, clock=lambda: self.now_s)

    def activate(self, pods: Any) -> None:
        self.woken += [pod.name for pod in pods]

    def add(self, name: str) -> None:
        metadata = {
            "name": name,
            "namespace": "ml",
            "uid": name,
            "labels": {LABELS[0]: "g", LABELS[1]: str(self.minimum)},
            "creationTimestamp": "2099-01-01T00:00:00Z",
        }
        pod = Pod(name, {"metadata": metadata, "spec": {}, "status": {"phase": "Pending"}})
        self.pods[name] = pod
        self.tell("ADDED", pod)

    def tell(self, event: str, pod: Pod) -> None:
        self.store.apply(json.dumps({"type": event, "object": pod.shown}).encode())

    def judge(self) -> None:
        """Whoever counts when the gang is complete may be bound, whatever happens afterwards."""
        counting = [pod for pod in self.pods.values() if pod.counts]
        if len(counting) >= self.minimum:
            for pod in counting:
                pod.entitled = True

    async def paused(self, pod: core.Pod, *ways: str) -> str:
        """What the schedule says, when it says so; the first of the ways while it is kind."""
        if self.kind or self.draw.random() < 0.5:
            return ways[0] if self.kind else self.draw.choice(ways)
        mine = self.pods[pod.uid]
        mine.gate = asyncio.get_running_loop().create_future()
        try:
            return await mine.gate
        finally:
            mine.gate = None

    async def reserve(self, _state: CycleState, pod: core.Pod, _node: str) -> Status | None:
        if await self.paused(pod, "well", "well", "refused") == "refused":
            return Status.unschedulable("refused")
        if sum(each.reserved for each in self.pods.values()) >= self.room:
            return Status.unschedulable("no room")
        self.pods[pod.uid].reserved = True
        return None

    async def unreserve(self, _state: CycleState, pod: core.Pod, _node: str) -> None:
        self.pods[pod.uid].failing = True
        await self.paused(pod, "well")
        self.pods[pod.uid].reserved = False

    async def permit(self, _state: CycleState, pod: core.Pod, _node: str) -> Status:
        """Asked after the plugin: the pod came as far as its Permit."""
        well = await self.paused(pod, "well", "well", "well", "refused") == "well"
        return Status.success() if well else Status.unschedulable("refused")

    async def bind(self, uid: str) -> None:
        pod = self.pods[uid]
        refused = await self.paused(self.read(pod), "well", "well", "refused") == "refused"
        # kube-apiserver binds no pod that is being deleted.
        if refused or pod.gone:
            message = "refused"
            raise ClusterError(message)
        pod.bound = True
        if not pod.entitled:
            self.partly.append(uid)

    def read(self, pod: Pod) -> core.Pod:
        found = core.read_args(json.dumps({"Pod": pod.shown, "NodeNames": []}).encode()).pod
        assert found is not None
        return found

    def begin(self, pod: Pod) -> None:
        if pod.task is None and not pod.bound and not pod.gone:
            of = self.read(pod)
            said = self.plugin.pre_filter(CycleState(), of, core.NodeStore().nodes())
            if said is None or said.is_success:
                pod.task = asyncio.ensure_future(self.cycle(pod, of))

    async def cycle(self, pod: Pod, of: core.Pod) -> Status:
        pod.failing = pod.permitted = pod.entitled = False
        self.store.assume(of, "n")
        try:
            plugins = BindingPlugins(
                reserve=[self.plugin, self],
                permit=[Asked(self, pod), self],
                post_bind=[self.plugin] if self.post_bind else [],
            )
            cycle = BindingCycle(
                plugins,
                CycleState(),
                of,
                "n",
                self.waiting,
                lambda: self.bind(pod.name),
                self.limits,
            )
            return await cycle.run()
        except ClusterError as error:
            return Status.error(str(error))
        finally:
            pod.task = None
            pod.permitted = False
            if pod.bound:
                pod.shown["spec"]["nodeName"] = "n"
            else:
                self.store.forget(pod.name)


@dataclass
class Asked:
    """The plugin's Permit, and who came as far as that."""

    world: World
    pod: Pod
    name = "Coscheduling"

    async def permit(self, state: CycleState, pod: core.Pod, node: str) -> object:
        # A cycle that is cancelled right now does not count, and is told only at the next await.
        self.pod.permitted = True
        self.world.judge()
        return await self.world.plugin.permit(state, pod, node)


def step(world: World, pod: Pod) -> None:
    """One thing that may happen to a pod at any time."""
    held = world.waiting.get(pod.name)
    match world.draw.choice(
        [*("begin", "go") * 3, "allow", "reject", "cancel", "gone", "deleting", "seen", "filter"]
    ):
        case "begin":
            world.begin(pod)
        case "go" if pod.gate is not None and not pod.gate.done():
            pod.gate.set_result(world.draw.choice(["well", "well", "well", "refused"]))
        case "allow" if held is not None and world.draw.random() < 0.3:
            pod.entitled |= held.allow("Coscheduling")
        case "reject" if held is not None:
            held.reject("operator", "no")
        case "cancel" if pod.task is not None and not pod.failing:
            pod.failing = True
            pod.task.cancel()
        case "gone" if world.draw.random() < 0.3 and not pod.gone:
            pod.gone = True
            world.tell("DELETED", pod)
            world.waiting.reject(pod.name, "watch", "the pod was deleted")
        case "deleting" if world.draw.random() < 0.3 and not pod.gone:
            pod.gone = True
            pod.shown["metadata"]["deletionTimestamp"] = "2099-01-01T00:00:00Z"
            world.tell("MODIFIED", pod)
        case "seen" if pod.bound and not pod.gone:
            world.tell("MODIFIED", pod)
        case "filter" if pod.task is None and world.draw.random() < 0.3:
            world.plugin.post_filter(CycleState(), world.read(pod), [])


async def drained(world: World) -> None:
    """Whatever was begun ends well, or by its time-out."""
    world.kind = True
    while any(pod.task for pod in world.pods.values()):
        for pod in world.pods.values():
            if pod.gate is not None and not pod.gate.done():
                pod.gate.set_result("well")
        world.now_s += 10
        await skip(10)
    world.now_s += 70
    await skip(70)


async def scenario(world: World) -> None:
    draw = world.draw
    for number in range(world.size):
        world.add(f"p{number}")
    for _ in range(STEPS):
        step(world, draw.choice(list(world.pods.values())))
        passed_s = draw.choice([0.01, 0.01, 0.01, 1.0, 4.0, 61.0])
        world.now_s += passed_s
        await (skip(passed_s) if passed_s >= 1 or draw.random() < 0.5 else asyncio.sleep(0))
    await drained(world)
    assert world.partly == []
    await nothing_is_left(world)
    await all_get_through(world)


async def nothing_is_left(world: World) -> None:
    for pod in world.pods.values():
        if pod.bound and not pod.gone:
            world.tell("MODIFIED", pod)
    await skip(70)
    world.woken.clear()
    for _ in range(20):
        world.now_s += 30
        await skip(30)
    assert len(world.woken) <= len(world.pods)
    for group in world.plugin._groups.values():
        # Without PostBind nobody tells of a pod that an operator let in.
        assert not (world.post_bind and group.waiting)
        assert group.settle_timer is None
        assert group.wake_timer is None


async def all_get_through(world: World) -> None:
    """With room for all of them, and nothing that fails."""
    world.room = 100
    for number in range(world.minimum):
        world.add(f"new{number}")
    world.now_s += 1
    pods = [pod for pod in world.pods.values() if not pod.gone]
    for pod in pods:
        world.begin(pod)
    for _ in range(20):
        await skip()
    assert [pod.name for pod in pods if not pod.bound] == []


@given(st.integers(0, 2**64))
def test_no_gang_is_bound_in_part_and_no_group_spins_or_sticks(seed: int) -> None:
    world = World(random.Random(seed))
    decide = WaitingPod._decide

    def decided(waiting: WaitingPod, status: Status) -> bool:
        first = decide(waiting, status)
        if first and not status.is_success:
            # A pod that is sent back fails from that moment on.
            world.pods[waiting.pod.uid].failing = True
        return first

    with patch.object(WaitingPod, "_decide", decided):
        run(scenario(world))
