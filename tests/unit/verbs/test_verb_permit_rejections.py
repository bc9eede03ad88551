"""A Permit rejection out of bind, and what the pod's next filter calls are told."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from verb_world import (
    Activator,
    Binder,
    Clock,
    Pods,
    Watched,
    full_request,
    names_request,
    node,
    pod,
    unplaced_pods,
)

from kubextend import core
from kubextend.framework.cycle_state import CycleState
from kubextend.framework.status import Status
from kubextend.profile import BindingPlugins, Profile, Profiles, WaitingPods
from kubextend.verbs.bind_answer_throttle import AnswerThrottle
from make_verbs import make_verbs

CLOSED = "the door is closed"
NAMED = "NodeNameToMetaVictims"


@dataclass
class Door:
    """A Permit plugin, and a Reserve plugin that may fail before it."""

    permits: Status = field(default_factory=lambda: Status.unschedulable(CLOSED))
    reserves: Status = field(default_factory=Status.success)
    name: str = "Door"

    def permit(self, _state: CycleState, _pod: core.Pod, _node: str) -> Status:
        return self.permits

    def reserve(self, _state: CycleState, _pod: core.Pod, _node: str) -> Status:
        return self.reserves

    def unreserve(self, _state: CycleState, _pod: core.Pod, _node: str) -> None:
        pass


@dataclass
class World:
    """One pod, one plugin, one node, and kube-scheduler's calls."""

    door: Door = field(default_factory=Door)
    clock: Clock = field(default_factory=Clock)
    activator: Activator = field(default_factory=Activator)
    binder: Binder = field(default_factory=Binder)
    throttle: AnswerThrottle = field(default_factory=AnswerThrottle)

    def __post_init__(self) -> None:
        self.unplaced = unplaced_pods(self.activator, clock=self.clock)
        profile = Profile(
            "default-scheduler",
            pre_filter=[],
            binding=BindingPlugins(reserve=[self.door], permit=[self.door]),
        )
        self.verbs = make_verbs(
            Profiles.of([profile]),
            watched=Watched().listing(node("n"), node("m")),
            binder=self.binder,
            activator=self.activator,
            unplaced=self.unplaced,
            clock=self.clock,
            throttle=self.throttle,
        )

    def filter(self) -> dict[str, Any]:
        result: dict[str, Any] = json.loads(self.verbs.filter(names_request(["n", "m"])))
        return result

    def bind(self) -> str:
        return asyncio.run(self.answer_of_bind())

    async def answer_of_bind(self) -> str:
        body = {"PodName": "pod", "PodNamespace": "ml", "PodUID": "uid-of-pod", "Node": "n"}
        answer = await self.verbs.bind(json.dumps(body).encode())
        error: str = json.loads(answer)["Error"]
        return error

    def pod(self) -> core.Pod:
        found = core.read_args(names_request([])).pod
        assert found is not None
        return found

    def remember(self) -> None:
        self.unplaced.reject_permit(self.pod(), self.door.permits)


def test_the_next_filter_call_says_what_permit_said_of_every_node() -> None:
    world = World()
    world.remember()
    answer = world.filter()
    assert answer["FailedAndUnresolvableNodes"] == {"n": CLOSED, "m": CLOSED}
    assert (answer["NodeNames"], answer["Error"]) == ([], "")


@pytest.mark.parametrize("said", [Status.unschedulable(CLOSED), Status.unresolvable(CLOSED)])
def test_no_node_is_offered_to_preemption_whatever_the_code(said: Status) -> None:
    world = World(Door(permits=said))
    world.remember()
    assert world.filter()["FailedNodes"] in (None, {})


def test_no_pod_is_evicted_for_a_pod_that_permit_rejected_a_moment_ago() -> None:
    world = World()
    candidates = {"n": {"Pods": [{"UID": "uid-of-victim"}]}}
    body = {"Pod": pod(), NAMED: candidates}

    def offered() -> list[str]:
        return [*json.loads(world.verbs.preempt(json.dumps(body).encode()))[NAMED]]

    assert offered() == ["n"]
    world.remember()
    assert offered() == []
    world.clock.now_s += 10
    assert offered() == ["n"]


def test_a_rejection_without_a_reason_gets_one() -> None:
    world = World(Door(permits=Status.unschedulable("")))
    world.remember()
    assert set(world.filter()["FailedAndUnresolvableNodes"].values()) == {
        "a Permit plugin rejected the pod"
    }


def test_in_full_mode_it_is_the_same() -> None:
    world = World()
    world.remember()
    result = json.loads(world.verbs.filter(full_request([node("n")])))
    assert result["FailedAndUnresolvableNodes"] == {"n": CLOSED}
    assert result["Nodes"]["items"] == []


def test_another_pod_is_not_rejected_with_it() -> None:
    world = World()
    world.remember()
    result = json.loads(world.verbs.filter(names_request(["n"], pod("other"))))
    assert result["NodeNames"] == ["n"]


# (what ends it, how, whether the pod is woken)
ENDS: list[tuple[str, Callable[[World], object], list[str]]] = [
    ("the plugin activates the pod", lambda world: world.unplaced.activate([world.pod()]), ["pod"]),
    (
        "the plugin activates what a generator yields",
        lambda world: world.unplaced.activate(each for each in [world.pod()]),
        ["pod"],
    ),
    ("it is over", lambda world: _after(world, 10), ["pod"]),
    ("the pod is gone", lambda world: world.unplaced.forget("uid-of-pod"), []),
]


# What is changed in the pod: (key of the part, its new value).
CHANGED = [
    ("metadata", {"labels": {"door": "open"}}),
    ("metadata", {"annotations": {"door": "open"}}),
    ("metadata", {"generation": 2}),
    ("spec", {"tolerations": [{"key": "door", "operator": "Exists"}]}),
    ("spec", {"containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]}),
]
# What kube-scheduler does not compare: it does not try the pod again for such a change.
NOT_COMPARED = [
    ("metadata", {"resourceVersion": "2"}),
    ("metadata", {"managedFields": [{"manager": "door"}]}),
    ("status", {"conditions": [{"type": "PodScheduled", "reason": "Unschedulable"}]}),
]


@pytest.mark.parametrize(
    ("part", "value", "tried"),
    [(*change, True) for change in CHANGED] + [(*same, False) for same in NOT_COMPARED],
)
def test_a_pod_that_changes_is_tried_again(part: str, value: dict[str, Any], tried: bool) -> None:
    world = World()
    world.remember()
    changed: dict[str, Any] = pod()
    changed[part] = {**changed.get(part, {}), **value}
    result = json.loads(world.verbs.filter(names_request(["n", "m"], changed)))
    assert bool(result["NodeNames"]) is tried
    # Evictions for a changed pod may help it.
    body = {"Pod": changed, NAMED: {"n": {"Pods": [{"UID": "uid-of-victim"}]}}}
    assert bool(json.loads(world.verbs.preempt(json.dumps(body).encode()))[NAMED]) is tried
    # The pod that was tried anew is not woken for the rejection before.
    _after(world, 10)
    assert world.activator.woken == ([] if tried else ["pod"])


def test_a_pod_that_is_rejected_after_each_change_waits_longer_each_time() -> None:
    """A pod that somebody changes all the time is asked about no more often than it changes."""
    world = World()
    world.remember()
    changed = core.read_args(names_request([], {**pod(), "spec": {"tolerations": [{}]}})).pod
    assert changed is not None
    assert world.unplaced.why_not_tried(changed) is None
    world.unplaced.begin(changed)
    world.unplaced.reject_permit(changed, world.door.permits)
    world.clock.now_s += 19
    assert world.unplaced.why_not_tried(changed) == world.door.permits
    world.clock.now_s += 1
    assert world.unplaced.why_not_tried(changed) is None


def _after(world: World, seconds: float) -> None:
    world.clock.now_s += seconds
    world.verbs.wake_due()


@pytest.mark.parametrize(("what", "end", "woken"), ENDS)
def test_what_ends_it(what: str, end: Callable[[World], object], woken: list[str]) -> None:
    del what
    world = World()
    world.remember()
    _after(world, 9.9)
    assert world.filter()["NodeNames"] == []
    end(world)
    assert world.filter()["NodeNames"] == ["n", "m"]
    assert world.activator.woken == woken
    _after(world, 1000)
    assert world.activator.woken == woken


def test_a_rejection_that_comes_again_lasts_twice_as_long_up_to_five_minutes() -> None:
    world = World()
    lasted = []
    for _ in range(7):
        world.remember()
        began_s = world.clock.now_s
        while not world.filter()["NodeNames"]:
            world.clock.now_s += 10
        lasted.append(world.clock.now_s - began_s)
    assert lasted == [10, 20, 40, 80, 160, 300, 300]
    world.clock.now_s += 301
    world.remember()
    _after(world, 10)
    assert world.filter()["NodeNames"] == ["n", "m"]


def test_a_rejection_within_five_minutes_after_the_last_one_ended_is_one_that_comes_again() -> None:
    world = World()
    world.remember()
    world.clock.now_s += 10 + 299
    world.remember()
    world.clock.now_s += 19
    assert world.filter()["NodeNames"] == []
    world.clock.now_s += 1
    assert world.filter()["NodeNames"] == ["n", "m"]


def test_nobody_is_woken_for_a_replica_that_decides_no_more() -> None:
    activator = Activator()
    rejected = unplaced_pods(activator, room_for=2)
    for name in ("first", "second", "third"):
        asked = core.read_args(names_request([], pod(name))).pod
        assert asked is not None
        rejected.reject_permit(asked, Status.unschedulable(CLOSED))
    # The first was forgotten for another, and is to be woken at the next turn.
    rejected.forget_all()
    rejected.wake_due()
    assert activator.woken == []


def test_the_rejections_remembered_are_bounded_and_the_first_goes() -> None:
    rejected = unplaced_pods(room_for=2)
    pods = []
    for name in ("first", "second", "third"):
        asked = core.read_args(names_request([], pod(name))).pod
        assert asked is not None
        rejected.reject_permit(asked, Status.unschedulable(CLOSED))
        pods.append(asked)
    assert len(rejected) == 2
    said = [rejected.why_not_tried(each) for each in pods]
    assert said == [None, *[Status.unschedulable(CLOSED)] * 2]


# (how the binding cycle ends, the plugin, whether the next filter call rejects)
CYCLES = [
    ("Permit rejects", Door(), True),
    ("Permit says that it never can", Door(permits=Status.unresolvable(CLOSED)), True),
    ("Reserve rejects", Door(reserves=Status.unschedulable("no")), False),
    ("Permit fails", Door(permits=Status.error("broken")), False),
    ("the pod is bound", Door(permits=Status.success()), False),
]


@pytest.mark.parametrize(("how", "door", "rejects"), CYCLES)
def test_of_a_binding_cycle_only_a_rejection_by_permit_is_remembered(
    how: str, door: Door, rejects: bool
) -> None:
    world = World(door)
    # filter begins the attempt that tells bind which pod it is.
    attempt = world.unplaced.begin(world.pod())
    assert attempt.pod.uid == "uid-of-pod"
    assert bool(world.bind()) is (how != "the pod is bound")
    assert (world.filter()["NodeNames"] == []) is rejects


def test_rejections_of_large_pods_take_no_room_from_other_namespaces() -> None:
    rejected = unplaced_pods(room_for=20)
    small = core.read_args(names_request([], pod("small", namespace="other"))).pod
    assert small is not None
    rejected.reject_permit(small, Status.unschedulable(CLOSED))
    for number in range(20):
        asked = pod(f"large-{number}")
        asked["metadata"]["annotations"] = {"a": "x" * 30_000}
        large = core.read_args(names_request([], asked)).pod
        assert large is not None
        rejected.reject_permit(large, Status.unschedulable(CLOSED))
    assert len(rejected) == 4
    assert rejected.why_not_tried(small) is not None


def test_a_bound_pod_is_forgotten() -> None:
    world = World(Door(permits=Status.success()))
    world.remember()
    world.unplaced.begin(world.pod())
    assert world.bind() == ""
    assert len(world.unplaced) == 0


def test_one_that_is_forgotten_for_another_is_woken_as_its_time_is_never_over() -> None:
    activator = Activator()
    rejected = unplaced_pods(activator, room_for=1)
    for name in ("parked", "next"):
        asked = core.read_args(names_request([], of=pod(name))).pod
        assert asked is not None
        rejected.reject_permit(asked, Status.unschedulable(CLOSED))
    for _ in range(2):
        rejected.wake_due()
        assert activator.woken == ["parked"]


def test_a_pod_that_is_rejected_after_each_activation_waits_twice_as_long_each_time() -> None:
    now_s = 0.0
    rejected = unplaced_pods(clock=lambda: now_s)
    asked = core.read_args(names_request([], pod("p"))).pod
    assert asked is not None
    closed = Status.unschedulable(CLOSED)
    for hold_s in (10, 20, 40):
        rejected.begin(asked)
        rejected.take(asked.uid)
        rejected.reject_permit(asked, closed)
        now_s += hold_s - 1
        assert rejected.why_not_tried(asked) == closed
        rejected.activate([asked])
        assert rejected.why_not_tried(asked) is None


@dataclass
class Held:
    """A Permit plugin that holds each pod, and rejects it as soon as it is held."""

    waiting_pods: WaitingPods
    name: str = "Held"

    def __post_init__(self) -> None:
        self.waiting_pods.tell(lambda waiting: waiting.reject(self.name, CLOSED))

    def permit(self, _state: CycleState, _pod: core.Pod, _node: str) -> tuple[Status, float]:
        return Status.wait(), 60.0


class Recording(AnswerThrottle):
    """Notes how long answers have to wait; those that do wait until the test lets them go."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self.waits_s: list[float] = []
        self.over = asyncio.Event()

    async def wait(self, seconds: float) -> None:
        self.waits_s.append(seconds)
        if seconds:
            await self.over.wait()


@dataclass
class Throttled:
    """Attempts for one pod of a namespace whose answers wait for ten seconds just now.

    Attributes:
        room: how many pods Permit may hold.
        timeout_s: kube-scheduler's timeout for bind; None: none.
        pods: the watched pods; None: pods are not watched.
    """

    room: int = 100
    timeout_s: float | None = None
    pods: Pods | None = None

    def __post_init__(self) -> None:
        self.clock, self.activator = Clock(), Activator()
        self.throttle = Recording(self.clock)
        self.unplaced = unplaced_pods(self.activator, clock=self.clock)
        waiting_pods = WaitingPods(max_pods=self.room)
        profile = Profile(
            "default-scheduler",
            pre_filter=[],
            binding=BindingPlugins(permit=[Held(waiting_pods)]),
        )
        self.verbs = make_verbs(
            Profiles.of([profile]),
            watched=Watched().listing(node("n"), node("m")),
            binder=Binder(),
            activator=self.activator,
            unplaced=self.unplaced,
            clock=self.clock,
            throttle=self.throttle,
            waiting_pods=waiting_pods,
            bind_timeout_s=self.timeout_s,
            pods=self.pods,
        )
        for _ in range(420):
            self.throttle.delay_s("ml")

    async def bind(self) -> str:
        self.unplaced.begin(self.pod())
        body = {"PodName": "pod", "PodNamespace": "ml", "PodUID": "uid-of-pod", "Node": "n"}
        error: str = json.loads(await self.verbs.bind(json.dumps(body).encode()))["Error"]
        return error

    async def until_waiting(self, answer: asyncio.Task[str]) -> None:
        """Return once the answer waits; it must not leave before."""
        while not self.throttle.waits_s:
            assert not answer.done(), answer.result()
            await asyncio.sleep(0)

    def pod(self) -> core.Pod:
        found = core.read_args(names_request([])).pod
        assert found is not None
        return found

    def rejects(self) -> bool:
        answer = json.loads(self.verbs.filter(names_request(["n", "m"])))
        return bool(answer["FailedAndUnresolvableNodes"])


def test_the_answer_about_a_held_pod_waits_for_those_of_its_namespace() -> None:
    async def run() -> None:
        world = Throttled()
        answer = asyncio.create_task(world.bind())
        await world.until_waiting(answer)
        assert world.throttle.waits_s == [pytest.approx(10.025)]
        world.throttle.over.set()
        assert await answer == CLOSED

    asyncio.run(run())


def test_what_permit_said_counts_before_it_is_told_and_for_as_long_after() -> None:
    async def run() -> None:
        world = Throttled()
        answer = asyncio.create_task(world.bind())
        await world.until_waiting(answer)
        assert world.rejects()
        # The answer leaves after ten seconds, and the rejection holds for ten more.
        world.clock.now_s += 19
        assert world.rejects()
        world.clock.now_s += 2
        assert not world.rejects()
        answer.cancel()
        await asyncio.wait([answer])
        assert not world.rejects()

    asyncio.run(run())


def test_a_plugin_that_activates_the_pod_while_its_answer_waits_is_heard() -> None:
    async def run() -> None:
        world = Throttled()
        answer = asyncio.create_task(world.bind())
        await world.until_waiting(answer)
        world.unplaced.activate([world.pod()])
        world.throttle.over.set()
        assert await answer == CLOSED
        assert not world.rejects()

    asyncio.run(run())


def test_the_answer_about_a_pod_for_which_permit_has_no_room_does_not_wait() -> None:
    world = Throttled(room=0)
    world.throttle.over.set()
    assert "0 pods wait already" in asyncio.run(world.bind())
    assert world.throttle.waits_s == [0.0]


def test_the_answer_about_a_pod_that_permit_rejects_at_once_does_not_wait() -> None:
    throttle = Recording(Clock())
    for _ in range(420):
        throttle.delay_s("ml")
    throttle.over.set()
    world = World(throttle=throttle)
    world.unplaced.begin(world.pod())
    assert world.bind() == CLOSED
    assert throttle.waits_s == [0.0]


def test_no_answer_waits_beyond_its_request() -> None:
    # An hour, of which the last five seconds are kept for the answer, however slow the machine is.
    world = Throttled(timeout_s=3600.0)
    world.throttle.delay_s = lambda _namespace: 10_000.0  # type: ignore[method-assign]
    world.throttle.over.set()
    assert asyncio.run(world.bind()) == CLOSED
    (wait_s,) = world.throttle.waits_s
    assert 0.0 <= wait_s <= 3595.0


def test_of_a_pod_that_was_deleted_nothing_is_remembered_and_nobody_waits() -> None:
    world = Throttled(pods=Pods())
    world.throttle.over.set()
    assert asyncio.run(world.bind()) == CLOSED
    assert not any(world.throttle.waits_s)
    assert not world.rejects()
