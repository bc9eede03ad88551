"""Gangs: who is rejected, held, let in and sent back."""

import asyncio
import itertools
import json
import sys
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import ValidationError

from kubextend import config, core, testing
from kubextend.framework.cycle_state import CycleState
from kubextend.framework.handle import ClusterPorts, Handle
from kubextend.framework.status import Code, Status
from kubextend.plugins import IN_TREE
from kubextend.plugins.coscheduling import Coscheduling, CoschedulingArgs
from kubextend.profile import BindingCycle, BindingPlugins, WaitingPods
from kubextend.profile.time_limited_calls import PluginLimits
from skipping_loop import run, skip, until

GROUP = "scheduling.x-k8s.io/pod-group"
MINIMUM = "pod-group.scheduling.sigs.k8s.io/min-available"
QUEUE = "kubextend.dev/queue"

TOO_FEW = "pod group has fewer pods than its minimum"
DENIED = "pod group was rejected a moment ago"
NO_NUMBER = "pod of a pod group does not say how many pods are the minimum"
GIVEN_UP = "pod group was rejected because of another of its pods"

Json = dict[str, Any]


def pod(
    name: str,
    *,
    group: str | None = "g",
    minimum: str | None = "3",
    namespace: str = "ml",
    node: str | None = None,
    **metadata: Any,
) -> Json:
    labels = {} if group is None else {GROUP: group}
    labels |= {} if minimum is None else {MINIMUM: minimum}
    return {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": name,
            "labels": labels,
            "creationTimestamp": "2099-01-01T00:00:00Z",
            **metadata,
        },
        "spec": {} if node is None else {"nodeName": node},
        "status": {"phase": "Pending"},
    }


def parked(name: str, **more: Any) -> Json:
    """A pod that kube-scheduler called unschedulable."""
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    return pod(name, **more) | {"status": {"phase": "Pending", "conditions": [condition]}}


def unlabelled(name: str, namespace: str = "ml") -> Json:
    """A pod with more labels than are kept."""
    labels = {f"k{number}": "v" for number in range(5000)}
    return pod(name, namespace=namespace, labels=labels)


def read(shown: Json) -> core.Pod:
    found = core.read_args(json.dumps({"Pod": shown, "NodeNames": []}).encode()).pod
    assert found is not None
    return found


@dataclass
class Activator:
    woken: list[str] = field(default_factory=list)

    def activate(self, pods: Iterable[core.Pod]) -> None:
        self.woken += sorted(pod.name for pod in pods)


class World:
    """Watched pods, and binding cycles as the bind verb runs them."""

    synced = True

    def __init__(self, *pods: Json, configuration: object = None, **args: Any) -> None:
        self.store = core.PodStore(max_pod_bytes=64 << 10)
        self.watch(*pods)
        self.now_s = 0.0
        self.activator = Activator()
        self.waiting = WaitingPods()
        self.limits = PluginLimits()
        self.handle = Handle(
            self.waiting,
            ClusterPorts(pods=self, activator=self.activator),
            configuration=configuration,
        )
        parsed = CoschedulingArgs.model_validate(args)
        self.plugin = Coscheduling(parsed, self.handle, clock=lambda: self.now_s)
        self.unreserved: list[str] = []
        self.bound: list[str] = []

    def watch(self, *pods: Json) -> None:
        listed = {"metadata": {"resourceVersion": "1"}, "items": list(pods)}
        self.store.replace(json.dumps(listed).encode())

    def pre_filter(self, shown: Json) -> Status:
        nodes = core.NodeStore().nodes()
        return self.plugin.pre_filter(CycleState(), read(shown), nodes) or Status.success()

    def pre_enqueue(self, shown: Json) -> Status:
        return self.plugin.pre_enqueue(read(shown)) or Status.success()

    def binding(
        self,
        shown: Json,
        *others: Any,
        reserve: Sequence[Any] = (),
        pre_bind: Sequence[Any] = (),
        post_bind: bool = True,
    ) -> "asyncio.Task[Status]":
        """The binding cycle of a pod; other Permit and Reserve plugins run after Coscheduling."""
        plugins = BindingPlugins(
            reserve=[self.plugin, self, *reserve],
            permit=[self.plugin, *others],
            pre_bind=[self.plugin, *pre_bind],
            post_bind=[self.plugin] if post_bind else [],
        )
        return asyncio.ensure_future(self._bound(read(shown), plugins))

    async def _bound(self, of: core.Pod, plugins: BindingPlugins) -> Status:
        async def bind() -> None:
            self.bound.append(of.name)

        self.store.assume(of, "n")
        cycle = BindingCycle(plugins, CycleState(), of, "n", self.waiting, bind, self.limits)
        status = await cycle.run()
        if not status.is_success:
            self.store.forget(of.uid)
        return status

    name = "World"

    async def reserve(self, _state: CycleState, _pod: core.Pod, _node: str) -> None:
        pass

    async def unreserve(self, _state: CycleState, pod: core.Pod, _node: str) -> None:
        self.unreserved.append(pod.name)


ABC = (pod("a"), pod("b"), pod("c"))
GONE = "2026-01-01T00:00:00Z"


async def bind_all(world: World) -> list[Status]:
    return await asyncio.gather(*(world.binding(shown) for shown in ABC))


def gated(*gates: str, **spec: str) -> Json:
    """The third pod of the gang with these scheduling gates."""
    return pod("c") | {"spec": {"schedulingGates": [{"name": gate} for gate in gates], **spec}}


THEIRS = {"schedulerName": "default-scheduler-2"}

# (what the case shows, the watched pods, the pod, what PreFilter says)
PRE_FILTER: list[tuple[str, Sequence[Json], Json, str]] = [
    ("no group", (), pod("a", group=None), ""),
    ("an empty group", (), pod("a", group=""), ""),
    ("enough pods", ABC, pod("a"), ""),
    ("the pod itself counts, seen or not", ABC[:2], pod("c"), ""),
    ("too few", ABC[:2], pod("b"), TOO_FEW),
    ("bound ones count", (pod("a", node="n"), pod("b", node="n")), pod("c"), ""),
    ("another group", (*ABC[:2], pod("c", group="h")), pod("a"), TOO_FEW),
    ("another namespace", (*ABC[:2], pod("c", namespace="web")), pod("a"), TOO_FEW),
    ("a gated one does not count", (*ABC[:2], gated("example.com/gate")), pod("a"), TOO_FEW),
    ("nor with the gate of a queue that is off", (*ABC[:2], gated(QUEUE)), pod("a"), TOO_FEW),
    ("another scheduler's does not", (*ABC[:2], pod("c") | {"spec": THEIRS}), pod("a"), TOO_FEW),
    (
        "unless it runs",
        (*ABC[:2], pod("c") | {"spec": THEIRS | {"nodeName": "n"}}),
        pod("a"),
        "",
    ),
    (
        "one that has ended does not count",
        (*ABC[:2], pod("c", node="n") | {"status": {"phase": "Succeeded"}}),
        pod("a"),
        TOO_FEW,
    ),
    (
        "nor one that failed",
        (*ABC[:2], pod("c", node="n") | {"status": {"phase": "Failed"}}),
        pod("a"),
        TOO_FEW,
    ),
    (
        "one that is being deleted does not count",
        (*ABC[:2], pod("c", deletionTimestamp="2026-01-01T00:00:00Z")),
        pod("a"),
        TOO_FEW,
    ),
    ("one is enough for one", (), pod("a", minimum="1"), ""),
    ("an annotation says it too", (), pod("a", minimum=None, annotations={MINIMUM: "1"}), ""),
    ("nothing says it", ABC, pod("a", minimum=None), NO_NUMBER),
    ("zero", ABC, pod("a", minimum="0"), NO_NUMBER),
    ("negative", ABC, pod("a", minimum="-1"), NO_NUMBER),
    ("a fraction", ABC, pod("a", minimum="1.5"), NO_NUMBER),
    ("other digits", ABC, pod("a", minimum="٣"), NO_NUMBER),
    ("a number without end", ABC, pod("a", minimum="9" * 60), NO_NUMBER),
]


@pytest.mark.parametrize(
    ("shows", "watched", "asked", "reason"), PRE_FILTER, ids=[case[0] for case in PRE_FILTER]
)
def test_whom_pre_filter_rejects(
    shows: str, watched: Sequence[Json], asked: Json, reason: str
) -> None:
    del shows
    expected = Code.UNSCHEDULABLE_AND_UNRESOLVABLE if reason else Code.SUCCESS
    # What can never pass PreFilter is not let out of the queue.
    for said in (World(*watched).pre_filter(asked), World(*watched).pre_enqueue(asked)):
        assert (said.reason, said.code) == (reason, expected)


def test_a_gang_leaves_the_queue_as_soon_as_it_may_be_whole() -> None:
    queued = with_queue(QUEUE)
    first, second, third = (
        pod(name) | {"spec": {"schedulingGates": [{"name": QUEUE}]}} for name in "abc"
    )
    world = World(first, configuration=queued)
    assert [world.pre_enqueue(each).reason for each in (first, second)] == [TOO_FEW] * 2
    world.watch(first, second)
    world.now_s += 1
    # The watch of all pods may be later than the queue's own.
    assert world.pre_enqueue(third).is_success
    assert world.pre_enqueue(first).is_success
    # One of them is gone.
    world.watch(first, third)
    world.now_s += 1
    assert world.pre_enqueue(first).reason == TOO_FEW


def test_a_gang_in_the_queue_is_listed_once_in_a_while() -> None:
    pods = [pod(f"p{number}", minimum="50000") for number in range(1000)]
    world = World(*pods)
    lists = 0
    with_label = world.handle.labelled_pods

    def listing(*args: Any) -> list[core.Pod]:
        nonlocal lists
        lists += 1
        return with_label(*args)

    world.handle.labelled_pods = listing  # type: ignore[method-assign]
    for each in pods:
        assert world.pre_enqueue(each).reason == TOO_FEW
    assert lists == 1


def test_gangs_in_the_queue_push_out_no_gang_that_kube_scheduler_has() -> None:
    world = World(*ABC)
    assert world.pre_filter(ABC[0]).is_success
    known = set(world.plugin._groups)
    for number in range(5000):
        world.pre_enqueue(pod("x", group=f"g{number}"))
    assert set(world.plugin._groups) == known
    assert len(world.plugin._gathering) <= 4096


def test_a_pod_that_is_kept_without_its_labels_is_left_to_pre_filter() -> None:
    store = core.PodStore(max_pod_bytes=64 << 10)
    kept = store.apply(json.dumps({"type": "ADDED", "object": unlabelled("large")}).encode()).pod
    assert kept is not None
    assert kept.truncated
    assert World().plugin.pre_enqueue(kept) is None


def test_a_large_pod_stops_the_gangs_of_its_namespace_until_it_is_gone() -> None:
    world = World(*ABC, unlabelled("large"))
    for asks in (world.pre_filter, world.pre_enqueue):
        assert asks(ABC[0]).reason == UNLISTED
    assert world.pre_enqueue(pod("x", namespace="web", minimum="1")).is_success
    world.watch(*ABC)
    for asks in (world.pre_filter, world.pre_enqueue):
        assert asks(ABC[0]).is_success


def of_pod_group(name: str, **more: Any) -> Json:
    """A pod that names a PodGroup beside the labels of a gang."""
    shown = pod(name, **more)
    shown["spec"]["schedulingGroup"] = {"podGroupName": "theirs"}
    return shown


def test_a_pod_with_a_pod_group_is_left_to_kube_scheduler_which_is_said_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def is_bound() -> None:
        world = World()
        assert world.pre_enqueue(of_pod_group("a")).is_success
        assert world.pre_filter(of_pod_group("a")).is_success
        assert world.plugin.post_filter(CycleState(), read(of_pod_group("a")), []).is_rejected
        assert (await world.binding(of_pod_group("a"))).is_success
        assert world.bound == ["a"]

    run(is_bound())
    (record,) = (each for each in caplog.records if "spec.schedulingGroup" in each.message)
    facts = {name: getattr(record, name) for name in ("plugin", "pod", "profile")}
    assert facts == {"plugin": "Coscheduling", "pod": "ml/a", "profile": "default-scheduler"}


def test_pods_with_a_pod_group_count_for_a_gang_of_labels_once_they_run() -> None:
    pods = [of_pod_group("a"), of_pod_group("b")]
    assert World(*pods).pre_filter(pod("c")).reason == TOO_FEW
    running = [of_pod_group("a", node="n1"), of_pod_group("b", node="n1")]
    assert World(*running).pre_filter(pod("c")).is_success


def test_other_names_for_label_and_minimum() -> None:
    world = World(podGroupLabel="example.com/gang", minAvailableKey="example.com/min")
    labels = {"example.com/gang": "g", "example.com/min": "2"}
    assert world.pre_filter(pod("a", labels=labels)).reason == TOO_FEW
    assert world.pre_filter(pod("a")).is_success


def with_queue(gate: str, *, sorts: bool = True) -> config.ExtenderConfiguration:
    """A configuration whose queue has this gate; without a plugin that sorts there is no queue."""
    queue_sort = {"queueSort": {"enabled": [{"name": "PrioritySort"}] if sorts else []}}
    return config.parse(
        {
            "apiVersion": "kubextend.dev/v1alpha1",
            "kind": "ExtenderConfiguration",
            "cluster": {},
            "queue": {"gate": gate},
            "profiles": [{"schedulerName": "default-scheduler", "plugins": queue_sort}],
        },
        known=IN_TREE,
    )


# (what the case shows, the third of three pods, what PreFilter says of the first)
QUEUED: list[tuple[str, Json, str]] = [
    ("the queue will release it", gated("example.com/turn"), ""),
    ("the queue waits for others", gated("example.com/turn", "example.com/budget"), TOO_FEW),
    ("it is of another queue", gated(QUEUE), TOO_FEW),
    ("another scheduler places it", gated("example.com/turn", **THEIRS), TOO_FEW),
]


@pytest.mark.parametrize(("shows", "third", "reason"), QUEUED, ids=[each[0] for each in QUEUED])
def test_a_pod_that_waits_in_the_queue_counts_as_there(
    shows: str, third: Json, reason: str
) -> None:
    del shows
    world = World(*ABC[:2], third, configuration=with_queue("example.com/turn"))
    assert world.pre_filter(ABC[0]).reason == reason


def test_a_gate_that_no_queue_here_takes_off_keeps_a_pod_away() -> None:
    configuration = with_queue(QUEUE, sorts=False)
    assert not configuration.queues
    world = World(*ABC[:2], gated(QUEUE), configuration=configuration)
    assert world.pre_filter(ABC[0]).reason == TOO_FEW


def test_only_pods_that_kube_scheduler_asks_about_are_woken_after_a_restart() -> None:
    async def scenario() -> None:
        theirs = parked("theirs") | {"spec": THEIRS}
        queued = parked("queued") | {"spec": gated(QUEUE)["spec"]}
        a, c, d = parked("a"), pod("c"), pod("d")
        world = World(a, theirs, queued, c, d, configuration=with_queue(QUEUE))
        held = world.binding(c)
        await until(lambda: len(world.waiting) == 1)
        assert world.activator.woken == ["a"]
        held.cancel()
        await asyncio.wait([held])

    run(scenario())


BAD_ARGS = [
    {"permitWaitingTimeSeconds": 0},
    {"permitWaitingTimeSeconds": 901},
    {"podGroupBackoffSeconds": -1},
    {"podGroupBackoffSeconds": 10},
    {"podGroupLabel": ""},
    {"minMember": 3},
]


@pytest.mark.parametrize("args", BAD_ARGS)
def test_args_that_cannot_be_meant_are_refused(args: Json) -> None:
    with pytest.raises(ValidationError):
        CoschedulingArgs.model_validate(args)


def test_the_first_two_of_three_wait_and_the_third_lets_all_in() -> None:
    async def scenario() -> None:
        world = World(*ABC)
        first = [world.binding(shown) for shown in ABC[:2]]
        await until(lambda: len(world.waiting) == 2)
        assert world.bound == []
        statuses = await asyncio.gather(*first, world.binding(ABC[2]))
        assert all(status.is_success for status in statuses)
        assert sorted(world.bound) == ["a", "b", "c"]
        assert world.unreserved == []

    run(scenario())


def test_a_pod_that_needs_no_others_does_not_wait() -> None:
    async def scenario() -> None:
        world = World(pod("x", node="n"), pod("y", node="n"))
        for shown in (pod("a", group=None), pod("b", minimum="1"), pod("c")):
            assert (await world.binding(shown)).is_success

    run(scenario())


def test_two_groups_wait_each_for_its_own() -> None:
    async def scenario() -> None:
        world = World()
        pairs = [pod(f"{g}{n}", group=g, minimum="2") for n in (1, 2) for g in "gh"]
        cycles = [world.binding(shown) for shown in pairs[:2]]
        await until(lambda: len(world.waiting) == 2)
        assert (await world.binding(pairs[2])).is_success
        assert (await cycles[0]).is_success
        assert [held.pod.name for held in world.waiting] == ["h1"]
        assert (await world.binding(pairs[3])).is_success
        assert (await cycles[1]).is_success

    run(scenario())


def test_with_room_for_two_all_time_out_and_nothing_stays_assumed() -> None:
    async def scenario() -> None:
        world = World(*ABC, permitWaitingTimeSeconds=30)
        cycles = [world.binding(shown) for shown in ABC[:2]]
        await until(lambda: len(world.waiting) == 2)
        await skip(30)
        statuses = await asyncio.gather(*cycles)
        reasons = {status.reason for status in statuses}
        timed_out = "rejected due to timeout after waiting 30s at plugin Coscheduling"
        assert timed_out in reasons
        assert reasons <= {timed_out, GIVEN_UP}
        assert {status.code for status in statuses} == {Code.UNSCHEDULABLE}
        assert sorted(world.unreserved) == ["a", "b"]
        assert world.store.assumed() == []
        assert len(world.waiting) == 0
        assert world.bound == []

    run(scenario())


def test_when_one_is_rejected_all_are_and_the_group_is_denied_for_a_moment() -> None:
    async def scenario() -> None:
        world = World(*ABC)
        cycles = [world.binding(shown) for shown in ABC[:2]]
        await until(lambda: len(world.waiting) == 2)
        world.waiting.reject("a", "test", "the pod was deleted")
        reasons = [status.reason for status in await asyncio.gather(*cycles)]
        assert reasons == ["the pod was deleted", GIVEN_UP]
        assert world.pre_filter(ABC[2]).reason == DENIED
        world.now_s += 3
        assert world.pre_filter(ABC[2]).is_success

    run(scenario())


def test_those_that_were_turned_away_are_activated_when_one_comes_as_far_as_permit() -> None:
    async def scenario() -> None:
        world = World(ABC[0], podGroupBackoffSeconds=0)
        assert world.pre_filter(ABC[0]).reason == TOO_FEW
        assert world.pre_filter(ABC[1]).reason == TOO_FEW
        assert world.activator.woken == []
        world.watch(*ABC)
        assert world.pre_filter(ABC[2]).is_success
        last = world.binding(ABC[2])
        await until(lambda: len(world.waiting) == 1)
        assert world.activator.woken == ["a", "b"]
        others = [world.binding(shown) for shown in ABC[:2]]
        assert all(status.is_success for status in await asyncio.gather(last, *others))
        assert world.activator.woken == ["a", "b"]

    run(scenario())


def test_those_that_timed_out_are_activated_after_the_backoff() -> None:
    async def scenario() -> None:
        world = World(*ABC, podGroupBackoffSeconds=9)
        cycle = world.binding(ABC[0])
        await until(lambda: len(world.waiting) == 1)
        world.waiting.reject("a", "test", "no")
        await cycle
        world.now_s += 1
        await skip(1)
        again = world.binding(ABC[1])
        await until(lambda: len(world.waiting) == 1)
        assert world.activator.woken == []
        assert world.pre_filter(ABC[2]).reason == DENIED
        await skip(7)
        assert world.activator.woken == []
        await skip(1)
        assert world.activator.woken == ["a", "c"]
        again.cancel()
        await asyncio.wait([again])

    run(scenario())


def test_after_a_restart_parked_pods_are_activated_once() -> None:
    async def scenario() -> None:
        older = [parked(name) for name in "ab"]
        world = World(*older, pod("c"), pod("d"))
        cycles = [world.binding(pod(name)) for name in "cd"]
        await until(lambda: len(world.waiting) == 2)
        assert world.activator.woken == ["a", "b"]
        await world.binding(older[0])
        await asyncio.gather(*cycles)
        assert world.activator.woken == ["a", "b"]

    run(scenario())


class Slow:
    """A Permit plugin that is asked after Coscheduling and takes its time."""

    name = "Slow"

    def __init__(self, answer: Status | tuple[Status, float] | None = None) -> None:
        self.asked, self.go = asyncio.Event(), asyncio.Event()
        self.answer = answer or Status.success()

    async def permit(
        self, _state: CycleState, _pod: core.Pod, _node: str
    ) -> Status | tuple[Status, float]:
        self.asked.set()
        await self.go.wait()
        return self.answer


def test_a_pod_that_another_permit_plugin_keeps_busy_is_let_in_as_well() -> None:
    async def scenario() -> None:
        world = World(*ABC)
        slow = Slow()
        busy = world.binding(ABC[0], slow)
        await slow.asked.wait()
        others = await asyncio.gather(*map(world.binding, ABC[1:]))
        slow.go.set()
        await until(lambda: world.waiting.get("a"))
        await skip(1)
        assert all(status.is_success for status in (*others, await busy))

    run(scenario())


def test_a_pod_that_another_permit_plugin_keeps_busy_is_sent_back_as_well() -> None:
    async def scenario() -> None:
        world = World(*ABC)
        slow = Slow()
        busy, held = world.binding(ABC[0], slow), world.binding(ABC[1])
        await slow.asked.wait()
        await until(lambda: world.waiting.get("b"))
        world.waiting.reject("b", "test", "no")
        assert (await held).reason == "no"
        slow.go.set()
        await until(lambda: world.waiting.get("a"))
        await skip(1)
        assert (await busy).reason == GIVEN_UP

    run(scenario())


def test_a_pod_that_fits_nowhere_sends_back_one_that_is_not_held_yet() -> None:
    async def scenario() -> None:
        world = World(*ABC)
        slow = Slow()
        busy = world.binding(ABC[0], slow)
        await slow.asked.wait()
        said = await asyncio.to_thread(world.plugin.post_filter, CycleState(), read(ABC[1]), [])
        assert said.reason == GIVEN_UP
        slow.go.set()
        await until(lambda: world.waiting.get("a"))
        await skip(1)
        assert (await busy).reason == GIVEN_UP

    run(scenario())


def test_a_pod_that_left_before_it_was_held_is_not_looked_for() -> None:
    async def scenario() -> None:
        world = World(*ABC)
        slow = Slow()
        busy, held = world.binding(ABC[0], slow), world.binding(ABC[1])
        await slow.asked.wait()
        await until(lambda: world.waiting.get("b"))
        world.waiting.reject("b", "test", "no")
        await held
        busy.cancel()
        await asyncio.wait([busy])
        looked_for: list[str] = []
        world.waiting.get = looked_for.append  # type: ignore[assignment, method-assign]
        for _ in range(3):
            await skip(1)
        assert looked_for == []

    run(scenario())


# (how many run or are held, of how many, whether those that are held are rejected)
GAPS = [(2, 3, True), (8, 10, True), (9, 10, False), (10, 10, False)]


@pytest.mark.parametrize(("placed", "minimum", "rejected"), GAPS)
def test_a_pod_that_fits_nowhere_takes_its_group_with_it_unless_the_gap_is_small(
    placed: int, minimum: int, rejected: bool
) -> None:
    async def scenario() -> None:
        size = str(minimum)
        running = [pod(f"r{number}", minimum=size, node="n") for number in range(placed - 1)]
        world = World(*running)
        held = world.binding(pod("held", minimum=size if placed < minimum else "99"))
        await until(lambda: len(world.waiting) == 1)
        asked = read(pod("asked", minimum=size))
        said = await asyncio.to_thread(world.plugin.post_filter, CycleState(), asked, [])
        assert said.code is Code.UNSCHEDULABLE
        # kube-scheduler may evict pods for the pod first.
        await skip(0.9)
        assert world.waiting.get("held") is not None
        await skip(0.1)
        assert (world.waiting.get("held") is None) is rejected
        held.cancel()
        await asyncio.wait([held])

    run(scenario())


def nominated(name: str, **more: Any) -> Json:
    return pod(name, **more) | {"status": {"phase": "Pending", "nominatedNodeName": "n"}}


@pytest.mark.parametrize(
    ("other", "stays"),
    [
        (nominated("c"), True),
        (nominated("c", group="h"), False),
        (nominated("c", namespace="another"), False),
        (nominated("c", deletionTimestamp=GONE), False),
        (nominated("c") | {"spec": {"schedulerName": "another"}}, False),
        (pod("c"), False),
    ],
)
def test_a_group_for_which_kube_scheduler_evicts_pods_stays(other: Json, stays: bool) -> None:
    async def scenario() -> None:
        world = World(*ABC)
        held = world.binding(pod("a"))
        await until(lambda: len(world.waiting) == 1)
        await asyncio.to_thread(world.plugin.post_filter, CycleState(), read(pod("c")), [])
        await skip(0.5)
        # The preempt request comes before the group is given up.
        assert world.pre_filter(pod("c")).is_success
        world.watch(pod("a"), pod("b"), other)
        await skip(0.5)
        assert (world.waiting.get("a") is not None) is stays
        assert world.pre_filter(pod("c")).is_success is stays
        # A later failure of the same group counts anew.
        world.watch(*ABC)
        await asyncio.to_thread(world.plugin.post_filter, CycleState(), read(pod("c")), [])
        await skip(1)
        assert world.waiting.get("a") is None
        await asyncio.wait([held])

    run(scenario())


def test_a_nominated_pod_without_its_labels_keeps_no_group() -> None:
    async def scenario() -> None:
        world = World(*ABC)
        held = world.binding(pod("a"))
        await until(lambda: len(world.waiting) == 1)
        await asyncio.to_thread(world.plugin.post_filter, CycleState(), read(pod("c")), [])
        await skip()
        other = unlabelled("other") | {"status": {"phase": "Pending", "nominatedNodeName": "n"}}
        world.watch(*ABC, other)
        await skip(1)
        assert world.waiting.get("a") is None
        await asyncio.wait([held])

    run(scenario())


async def fails_filters(world: World, name: str, **more: Any) -> Status:
    asked = read(pod(name, **more))
    return await asyncio.to_thread(world.plugin.post_filter, CycleState(), asked, [])


def test_a_group_that_becomes_complete_after_post_filter_is_not_rejected() -> None:
    """Also if another Permit plugin still has to answer for one of its pods."""

    async def scenario() -> None:
        world = World(*ABC)
        slow = Slow()
        first = world.binding(ABC[0])
        await until(lambda: world.waiting.get("a"))
        assert (await fails_filters(world, "c")).reason == GIVEN_UP
        await skip(0.9)
        busy = world.binding(ABC[1], slow)
        await slow.asked.wait()
        last = world.binding(ABC[2])
        assert all(status.is_success for status in await asyncio.gather(first, last))
        await skip(0.1)
        slow.go.set()
        await until(lambda: world.waiting.get("b"))
        await skip(0.2)
        assert (await asyncio.wait_for(busy, 1)).is_success
        assert world.pre_filter(ABC[0]).is_success

    run(scenario())


def test_a_group_of_which_few_pods_are_missing_a_second_after_post_filter_stays() -> None:
    async def scenario() -> None:
        pods = [pod(f"p{number}", minimum="20") for number in range(20)]
        world = World(*pods)
        held = [world.binding(pods[0])]
        await until(lambda: len(world.waiting) == 1)
        assert (await fails_filters(world, "p1", minimum="20")).reason == GIVEN_UP
        await skip(0.5)
        held += map(world.binding, pods[2:])
        await until(lambda: len(world.waiting) == 19)
        await skip(0.5)
        assert len(world.waiting) == 19
        for task in held:
            task.cancel()
        await asyncio.wait(held)

    run(scenario())


def test_a_group_that_was_rejected_meanwhile_is_not_rejected_again_for_post_filter() -> None:
    async def scenario() -> None:
        world = World(*ABC, podGroupBackoffSeconds=0)
        held = world.binding(ABC[0])
        await until(lambda: world.waiting.get("a"))
        await fails_filters(world, "c")
        await skip(0.2)
        # The first of the two decides how long the group has.
        await fails_filters(world, "b")
        await skip(0.3)
        await world.plugin.unreserve(CycleState(), read(pod("d")), "n")
        assert (await held).reason == GIVEN_UP
        again = world.binding(ABC[0])
        await until(lambda: world.waiting.get("a"))
        await skip(0.5)
        await skip(0.2)
        assert world.waiting.get("a") is not None
        again.cancel()
        await asyncio.wait([again])

    run(scenario())


def test_a_group_of_which_no_pod_is_held_has_no_backoff_for_post_filter() -> None:
    async def scenario() -> None:
        world = World(*ABC)
        held = world.binding(ABC[0])
        await until(lambda: world.waiting.get("a"))
        await fails_filters(world, "c")
        (group,) = world.plugin._groups.values()
        # An operator lets the pod in before the second is over.
        world.waiting.get("a").allow("Coscheduling")
        assert (await held).is_success
        assert not group.waiting
        await skip(1)
        assert world.pre_filter(ABC[1]).is_success
        # A pod that is in another plugin's PreBind is decided, and nobody holds it.
        group.waiting["a"] = world.plugin._reject
        await fails_filters(world, "c")
        await skip(1)
        assert world.pre_filter(ABC[1]).is_success

    run(scenario())


def test_a_group_that_cannot_be_counted_a_second_after_post_filter_stays() -> None:
    async def scenario() -> None:
        world = World(*ABC)
        held = world.binding(ABC[0])
        await until(lambda: world.waiting.get("a"))
        await fails_filters(world, "c")
        await skip(0.5)
        world.watch(*ABC, unlabelled("large"))
        world.now_s += 1
        await skip(0.5)
        assert world.waiting.get("a") is not None
        held.cancel()
        await asyncio.wait([held])

    run(scenario())


def test_post_filter_has_nothing_to_say_of_other_pods() -> None:
    said = World().plugin.post_filter(CycleState(), read(pod("a", group=None)), [])
    assert said.code is Code.UNSCHEDULABLE


def test_two_hundred_wait_without_a_thread_each_and_all_are_let_in() -> None:
    async def scenario() -> None:
        before = threading.active_count()
        gang = [pod(f"p{number}", minimum="201") for number in range(201)]
        world = World(*gang)
        cycles = [world.binding(shown) for shown in gang[:200]]
        await until(lambda: len(world.waiting) == 200)
        # What is there is the pool that plain methods are called on, whoever waits.
        assert threading.active_count() - before < 100
        cycles.append(world.binding(gang[200]))
        assert all(status.is_success for status in await asyncio.gather(*cycles))

    run(scenario())


def test_pre_filter_may_run_on_many_threads() -> None:
    world = World(*ABC)
    said: list[bool] = []

    def ask(number: int) -> None:
        said.extend(
            world.pre_filter(pod("a", group=f"g{each % 50}")).is_rejected
            for each in range(number, number + 100)
        )

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert said == [True] * 800


def test_the_groups_remembered_are_bounded_but_never_lose_a_waiting_one() -> None:
    async def scenario() -> None:
        world = World(*ABC)
        held = world.binding(ABC[0])
        await until(lambda: len(world.waiting) == 1)
        for number in range(5000):
            world.pre_filter(pod("x", group=f"other-{number}"))
        assert len(world.plugin._groups) <= 4096
        rest = [world.binding(shown) for shown in ABC[1:]]
        assert all(status.is_success for status in await asyncio.gather(held, *rest))

    run(scenario())


class Quota:
    """A Reserve plugin that takes its time and refuses one pod."""

    name = "Quota"

    def __init__(self, refused: str) -> None:
        self.refused = self.slow_to_give_up = refused
        self.asked, self.go = asyncio.Event(), asyncio.Event()
        self.gives_up, self.given_up = asyncio.Event(), asyncio.Event()

    async def reserve(self, _state: CycleState, pod: core.Pod, _node: str) -> Status | None:
        if pod.name != self.refused:
            return None
        self.asked.set()
        await self.go.wait()
        return Status.unschedulable("over quota")

    async def unreserve(self, _state: CycleState, pod: core.Pod, _node: str) -> None:
        if pod.name == self.slow_to_give_up:
            self.gives_up.set()
            await self.given_up.wait()


async def refused_by_a_quota(world: World) -> list[str]:
    """The reasons of ABC when a quota refuses the second pod while the others wait for it."""
    quota = Quota("b")
    held = world.binding(ABC[0])
    refused = world.binding(ABC[1], reserve=[quota])
    await quota.asked.wait()
    # The pods are listed anew, with the node that was chosen for the second one.
    world.now_s += 1
    last = world.binding(ABC[2])
    await until(lambda: len(world.waiting) == 2 or last.done())
    quota.given_up.set()
    quota.go.set()
    return [status.reason for status in await asyncio.gather(held, refused, last)]


def test_a_pod_that_another_plugin_may_still_refuse_to_reserve_does_not_complete_its_group() -> (
    None
):
    async def scenario() -> None:
        world = World(*ABC)
        assert await refused_by_a_quota(world) == [GIVEN_UP, "over quota", GIVEN_UP]
        assert world.bound == []

    run(scenario())


def test_a_pod_whose_unreserve_runs_does_not_complete_its_group() -> None:
    async def scenario() -> None:
        world = World(*ABC)
        quota = Quota("")
        quota.slow_to_give_up = "a"
        held = world.binding(ABC[1])
        await until(lambda: world.waiting.get("b"))
        slow = Slow()
        failing = world.binding(ABC[0], slow, reserve=[quota])
        await slow.asked.wait()
        slow.answer = Status.unschedulable("no licence")
        slow.go.set()
        await quota.gives_up.wait()
        last = world.binding(ABC[2])
        await until(lambda: world.waiting.get("c"))
        quota.given_up.set()
        reasons = [status.reason for status in await asyncio.gather(failing, held, last)]
        assert reasons == ["no licence", GIVEN_UP, GIVEN_UP]
        assert world.bound == []

    run(scenario())


def test_a_pod_that_is_bound_although_its_bind_failed_completes_its_group() -> None:
    """The watch shows the pod on its node, and its Unreserve still runs."""

    async def scenario() -> None:
        first, second = (pod(name, minimum="2") for name in "ab")
        world, slow, quota = World(first, second), Slow(Status.unschedulable("no")), Quota("")
        quota.slow_to_give_up = "a"
        failing = world.binding(first, slow, reserve=[quota])
        await slow.asked.wait()
        slow.go.set()
        await quota.gives_up.wait()
        world.watch(pod("a", minimum="2", node="n"), second)
        world.now_s += 1
        other = world.binding(second)
        await until(lambda: other.done() or world.waiting.get("b"))
        assert other.done()
        quota.given_up.set()
        assert not (await failing).is_success

    run(scenario())


@pytest.mark.parametrize("how", ["rejected", "cancelled"])
def test_a_pod_that_was_sent_back_in_this_moment_does_not_complete_its_group(how: str) -> None:
    async def scenario() -> None:
        world = World(*ABC)
        first = [world.binding(shown) for shown in ABC[:2]]
        await until(lambda: len(world.waiting) == 2)
        if how == "rejected":
            world.waiting.reject("a", "test", "the pod was deleted")
        else:
            first[0].cancel()
        # Asked before the cycle of the first one has gone on.
        said = await world.plugin.permit(CycleState(), read(ABC[2]), "n")
        assert isinstance(said, tuple)
        assert said[0].code is Code.WAIT
        await asyncio.wait(first)
        assert world.bound == []

    run(scenario())


def test_a_pod_that_is_being_deleted_does_not_complete_its_group() -> None:
    async def scenario() -> None:
        running = [pod(name, minimum="4", node="n") for name in "xy"]
        world = World(*running)
        held = world.binding(pod("a", minimum="4"))
        await until(lambda: len(world.waiting) == 1)
        world.watch(running[0], pod("y", minimum="4", node="n", deletionTimestamp=GONE))
        last = world.binding(pod("b", minimum="4"))
        await until(lambda: len(world.waiting) == 2)
        assert world.bound == []
        for task in (held, last):
            task.cancel()
        await asyncio.wait([held, last])

    run(scenario())


@pytest.mark.parametrize("told", [True, False])
def test_a_pod_that_an_operator_lets_in_leaves_nothing_behind(told: bool) -> None:
    """Whether or not the profile has the plugin's PostBind."""

    async def scenario() -> None:
        world = World(*ABC)
        alone = world.binding(ABC[0], post_bind=told)
        await until(lambda: len(world.waiting) == 1)
        held = world.waiting.get("a")
        assert held is not None
        assert held.allow("Coscheduling")
        assert (await alone).is_success
        (group,) = world.plugin._groups.values()
        assert bool(group.waiting) is not told
        world.watch(pod("a", node="n"), *ABC[1:])
        world.store.forget("a")
        others = [world.binding(shown) for shown in ABC[1:]]
        assert all(status.is_success for status in await asyncio.gather(*others))
        for _ in range(3):
            await skip(1)
        assert not group.waiting
        assert group.settle_timer is None

    run(scenario())


def test_a_pod_turned_away_from_a_group_that_is_complete_without_it_is_activated() -> None:
    async def scenario() -> None:
        gang = [pod(name, minimum="1") for name in "abc"]
        world = World(*gang, podGroupBackoffSeconds=3)
        failing = world.binding(gang[0], reserve=[quota := Quota("a")])
        quota.go.set()
        quota.given_up.set()
        await failing
        assert world.pre_filter(gang[1]).reason == DENIED
        assert world.pre_filter(gang[2]).reason == DENIED
        # Its attempt began before the group was given up.
        assert (await world.binding(gang[0])).is_success
        assert world.activator.woken == []
        world.now_s += 3
        await skip(3)
        assert world.activator.woken == ["b", "c"]

    run(scenario())


def test_a_group_that_runs_is_not_denied_because_a_pod_beyond_its_minimum_failed() -> None:
    async def scenario() -> None:
        running = [pod(name, minimum="2", node="n") for name in "ab"]
        beyond = [pod(name, minimum="2") for name in "cd"]
        world = World(*running, *beyond)
        quota = Quota("c")
        quota.go.set()
        quota.given_up.set()
        await world.binding(beyond[0], reserve=[quota])
        assert world.pre_filter(beyond[1]).is_success
        assert (await world.binding(beyond[1])).is_success

    run(scenario())


def test_when_the_backoff_ends_one_pod_tries_for_those_that_were_denied() -> None:
    async def scenario() -> None:
        world = World(*ABC)
        quota = Quota("a")
        quota.go.set()
        quota.given_up.set()
        await world.binding(ABC[0], reserve=[quota])
        for shown in ABC:
            assert world.pre_filter(shown).reason == DENIED
        world.now_s += 3
        await skip(3)
        assert world.activator.woken == ["a"]
        await skip(60)
        assert world.activator.woken == ["a"]

    run(scenario())


def test_each_rejection_in_a_row_doubles_the_backoff_up_to_a_minute() -> None:
    async def scenario() -> None:
        world = World(*ABC)
        lasted_s = []
        for _ in range(7):
            quota = Quota("a")
            quota.go.set()
            quota.given_up.set()
            await world.binding(ABC[0], reserve=[quota])
            before_s = world.now_s
            while world.pre_filter(ABC[1]).reason == DENIED:
                world.now_s += 1
            lasted_s.append(world.now_s - before_s)
        assert lasted_s == [3, 6, 12, 24, 48, 60, 60]
        assert all(status.is_success for status in await asyncio.gather(*map(world.binding, ABC)))
        for shown in ABC:
            await world.plugin.unreserve(CycleState(), read(shown), "n")
        await world.binding(ABC[0], reserve=[quota])
        world.now_s += 2
        assert world.pre_filter(ABC[1]).reason == DENIED
        world.now_s += 1
        assert world.pre_filter(ABC[1]).is_success

    run(scenario())


def test_a_large_group_is_activated_over_ten_seconds() -> None:
    async def scenario() -> None:
        world = World(pod("p0", minimum="2000"), podGroupBackoffSeconds=0)
        gang = [pod(f"p{number}", minimum="2000") for number in range(2000)]
        for shown in gang[:1999]:
            assert world.pre_filter(shown).reason == TOO_FEW
        world.watch(*gang)
        assert world.pre_filter(gang[1999]).is_success
        last = world.binding(gang[1999])
        await until(lambda: len(world.waiting) == 1)
        woken = [len(world.activator.woken)]
        for _ in range(25):
            await skip(1)
            woken.append(len(world.activator.woken))
        most = max(after - before for before, after in itertools.pairwise(woken))
        assert woken[0] == 200
        assert most <= 200
        assert woken[-1] == 1999
        last.cancel()
        await asyncio.wait([last])

    run(scenario())


def test_a_large_group_is_not_listed_for_each_of_its_pods(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario() -> None:
        gang = [pod(f"p{number}", minimum="1000") for number in range(1000)]
        world = World(*gang)
        listed = []
        members = world.plugin._members

        def counted(key: tuple[str, str]) -> list[core.Pod]:
            listed.append(key)
            return members(key)

        monkeypatch.setattr(world.plugin, "_members", counted)
        assert all(world.pre_filter(shown).is_success for shown in gang)
        cycles = [world.binding(shown) for shown in gang]
        assert all(status.is_success for status in await asyncio.gather(*cycles))
        assert len(listed) <= 4
        world.now_s += 0.2
        world.watch(gang[0])
        assert world.pre_filter(gang[0]).reason == TOO_FEW

    run(scenario())


def test_a_group_of_which_one_pod_waits_is_not_listed_for_each_pod_that_is_bound() -> None:
    async def scenario() -> None:
        world = World(*[pod(f"p{number}", minimum="8") for number in range(100)])
        lists = 0
        members = world.plugin._members

        def counted(key: tuple[str, str, str]) -> list[core.Pod]:
            nonlocal lists
            lists += 1
            return members(key)

        world.plugin._members = counted  # type: ignore[method-assign]
        # Pods of one gang may say different numbers, so that one waits whenever another counts.
        for number in range(10):
            waits = world.binding(pod(f"p{2 * number}", minimum="90"))
            await until(lambda: len(world.waiting) == 1)
            assert (await world.binding(pod(f"p{2 * number + 1}", minimum="1"))).is_success
            assert (await waits).is_success
        waits = world.binding(pod("p20", minimum="90"))
        await until(lambda: len(world.waiting) == 1)
        await world.plugin.unreserve(CycleState(), read(pod("p21", minimum="8")), "n")
        # Once to know its pods, and once for the pods that an earlier process turned away.
        assert lists == 2
        waits.cancel()
        await asyncio.wait([waits])

    run(scenario())


@dataclass
class Searched:
    """Pods, and the nodes on which pods were searched."""

    pods: core.PodSnapshot
    nodes: list[str]

    def pods_on(self, node: str) -> list[core.Pod]:
        self.nodes.append(node)
        return self.pods.pods_on(node)

    def pod_on(self, node: str, uid: str) -> core.Pod | None:
        self.nodes.append(node)
        return self.pods.pod_on(node, uid)


def test_the_pods_of_a_node_are_searched_once_however_many_are_of_the_group() -> None:
    async def scenario() -> None:
        on_n = [pod(f"p{number}", minimum="51", node="n") for number in range(49)]
        world = World(*on_n, pod("elsewhere", minimum="51", node="other"))
        nodes: list[str] = []
        world.plugin._handle = SimpleNamespace(  # type: ignore[assignment]
            pods=lambda: Searched(world.store.snapshot(), nodes),
            labelled_pods=world.handle.labelled_pods,
            assumed_pods=world.handle.assumed_pods,
            waiting_pods=world.handle.waiting_pods,
        )
        assert (await world.binding(pod("last", minimum="51"))).is_success
        assert sorted(nodes) == ["n", "other"]

    run(scenario())


UNLISTED = (
    "pods of the pod group cannot be listed: pod ml/large is kept without its labels, "
    "which are too large; make them smaller"
)


def test_a_pod_kept_without_labels_stops_the_groups_of_its_namespace_and_no_others() -> None:
    async def scenario() -> None:
        world = World(unlabelled("large"), *ABC)
        said = world.pre_filter(ABC[0])
        assert (said.code, said.reason) == (Code.UNSCHEDULABLE_AND_UNRESOLVABLE, UNLISTED)
        others = [pod(name, namespace="web", minimum="2") for name in "xy"]
        world.watch(unlabelled("large"), *ABC, *others)
        assert all(world.pre_filter(shown).is_success for shown in others)
        assert all(s.is_success for s in await asyncio.gather(*map(world.binding, others)))

    run(scenario())


def test_a_group_that_waits_is_sent_back_once_its_namespace_has_a_pod_without_labels() -> None:
    async def scenario() -> None:
        world = World(*ABC)
        held = [world.binding(shown) for shown in ABC[:2]]
        await until(lambda: len(world.waiting) == 2)
        world.watch(unlabelled("large"), *ABC)
        world.now_s += 1
        said = world.plugin.post_filter(CycleState(), read(ABC[2]), [])
        assert (said.code, said.reason) == (Code.UNSCHEDULABLE, UNLISTED)
        last = await world.binding(ABC[2])
        assert (last.code, last.reason) == (Code.UNSCHEDULABLE_AND_UNRESOLVABLE, UNLISTED)
        assert [status.reason for status in await asyncio.gather(*held)] == [GIVEN_UP] * 2
        assert world.bound == []
        world.watch(*ABC)
        world.now_s += 3
        await skip(3)
        first = world.binding(ABC[0])
        await until(lambda: len(world.waiting) == 1)
        assert world.activator.woken == ["b", "c"]
        rest = map(world.binding, ABC[1:])
        assert all(s.is_success for s in await asyncio.gather(first, *rest))

    run(scenario())


def test_a_group_that_cannot_be_counted_at_permit_has_its_backoff() -> None:
    async def scenario() -> None:
        world = World(*ABC)
        held = [world.binding(shown) for shown in ABC[:2]]
        await until(lambda: len(world.waiting) == 2)
        world.watch(unlabelled("large"), *ABC)
        world.now_s += 1
        last = await world.binding(ABC[2])
        assert (last.code, last.reason) == (Code.UNSCHEDULABLE_AND_UNRESOLVABLE, UNLISTED)
        assert [status.reason for status in await asyncio.gather(*held)] == [GIVEN_UP] * 2
        world.watch(*ABC)
        assert world.pre_filter(ABC[2]).reason == DENIED

    run(scenario())


def test_a_pod_turned_away_for_one_without_labels_is_activated_when_that_one_is_gone() -> None:
    async def scenario() -> None:
        world = World(unlabelled("large"), *ABC)
        assert world.pre_filter(ABC[0]).reason == UNLISTED
        world.watch(*ABC)
        held = world.binding(ABC[1])
        await until(lambda: len(world.waiting) == 1)
        assert world.activator.woken == ["a"]
        held.cancel()
        await asyncio.wait([held])

    run(scenario())


def test_a_timer_that_meets_a_pod_without_labels_wakes_those_that_are_remembered() -> None:
    async def scenario() -> None:
        world = World(*ABC)
        await refused_by_a_quota(world)
        assert world.pre_filter(ABC[0]).reason == DENIED
        # Its attempt began before the group was given up.
        again = world.binding(ABC[2])
        await until(lambda: len(world.waiting) == 1)
        (group,) = world.plugin._groups.values()
        group.may_be_more = True
        world.watch(unlabelled("large"), *ABC)
        world.now_s += 3
        await skip(3)
        assert world.activator.woken == ["a", "b"]
        again.cancel()
        await asyncio.wait([again])

    run(scenario())


def name_groups(world: World, number: int) -> None:
    """Ask about pods of so many groups of another namespace."""
    for each in range(number):
        world.pre_filter(pod("t", namespace="tenant", group=f"g{each}"))


def test_a_tenant_with_thousands_of_groups_makes_no_neighbour_wait() -> None:
    async def scenario() -> None:
        world = World(ABC[0], podGroupBackoffSeconds=0)
        for shown in ABC[:2]:
            assert world.pre_filter(shown).reason == TOO_FEW
        name_groups(world, 4096)
        world.watch(parked("a"), parked("b"), ABC[2])
        last = world.binding(ABC[2])
        await until(lambda: len(world.waiting) == 1)
        assert world.activator.woken == ["a", "b"]
        last.cancel()
        await asyncio.wait([last])

    run(scenario())


def turned_away(world: World, size: int) -> list[Json]:
    """So many pods of a group that is too small."""
    gang = [parked(f"p{number:04}", minimum="5001") for number in range(size)]
    for shown in gang:
        assert world.pre_filter(shown).reason == TOO_FEW
    return gang


def test_of_a_group_of_five_thousand_all_are_woken() -> None:
    async def scenario() -> None:
        gang = [parked(f"p{number:04}", minimum="5001") for number in range(5000)]
        last = pod("last", minimum="5001")
        world = World(last)
        first = world.binding(last)
        await until(lambda: len(world.waiting) == 1)
        world.waiting.reject("last", "test", "no")
        await first
        assert {world.pre_filter(shown).reason for shown in gang} == {DENIED}
        (group,) = world.plugin._groups.values()
        assert len(group.turned_away) == 4096
        world.watch(*gang, last)
        world.now_s += 5
        await skip(5)
        assert world.activator.woken == ["p0000"]
        again = world.binding(last)
        await until(lambda: len(world.waiting) == 1)
        for _ in range(40):
            await skip(1)
        woken = world.activator.woken[1:]
        assert len(woken) == len(set(woken)) == 5000
        again.cancel()
        await asyncio.wait([again])

    run(scenario())


def test_the_pod_that_tries_for_the_others_is_woken_however_many_they_are() -> None:
    async def scenario() -> None:
        world = World(podGroupBackoffSeconds=3)
        turned_away(world, 4096)
        world.watch(pod("g", minimum="5001"))
        failing = world.binding(pod("f", minimum="5001"), reserve=[quota := Quota("f")])
        quota.go.set()
        quota.given_up.set()
        await failing
        for name in ("g", *(f"q{number}" for number in range(4096))):
            assert world.pre_filter(pod(name, minimum="5001")).reason == DENIED
        world.now_s += 3
        await skip(3)
        assert world.activator.woken == ["g"]

    run(scenario())


class Refuses:
    """Rejects each pod in Permit, after Coscheduling."""

    name = "Refuses"

    def permit(self, state: CycleState, pod: core.Pod, node_name: str) -> Status:
        del state, pod, node_name
        return Status.unschedulable("no")


class SlowLicence:
    """Permits pods a second late, and rejects the one named ``surplus`` at once."""

    name = "SlowLicence"

    async def permit(self, state: CycleState, pod: core.Pod, node_name: str) -> Status:
        del state, node_name
        if pod.name == "surplus":
            return Status.unschedulable("no licence is left")
        await asyncio.sleep(1)
        return Status.success()


def test_a_surplus_pod_that_fails_takes_no_allowed_pod_of_a_complete_group_with_it() -> None:
    labels = {
        "scheduling.x-k8s.io/pod-group": "gang",
        "pod-group.scheduling.sigs.k8s.io/min-available": "2",
    }
    pods = [testing.make_pod(name, labels=labels) for name in ("first", "second", "surplus")]
    with testing.Cluster(Coscheduling, SlowLicence, nodes=3) as cluster:
        for pod in pods:
            cluster.add(pod)
        for number, pod in enumerate(pods):
            cluster.bind(pod, f"node-{number}")
            cluster.advance(0.1)
        cluster.advance(5)
        nodes = [cluster.outcome(pod).node for pod in pods]
    assert nodes == ["node-0", "node-1", None]


def test_a_failed_pod_of_a_group_that_is_complete_without_it_frees_the_held_pods() -> None:
    """Another scheduler placed the pod that was missing, on another node than Permit was told."""

    async def scenario() -> None:
        world = World(*ABC)
        held = [world.binding(pod(name)) for name in "ab"]
        await until(lambda: all(map(world.waiting.get, "ab")))
        world.watch(pod("a"), pod("b", node="elsewhere"), pod("c", node="elsewhere"))
        world.store.forget("b")
        world.now_s += 1
        surplus = read(pod("d"))
        await world.plugin.unreserve(CycleState(), surplus, "n")
        for each in held:
            assert (await asyncio.wait_for(each, 1)).is_success
        assert world.pre_filter(pod("d")).is_success
        assert (await world.binding(pod("e"))).is_success
        await skip(1)
        assert world.activator.woken == []

    run(scenario())


def test_a_failed_pod_frees_one_that_another_permit_plugin_keeps_busy() -> None:
    async def scenario() -> None:
        world = World(*ABC)
        slow = Slow()
        busy = world.binding(ABC[0], slow)
        await slow.asked.wait()
        world.watch(pod("a"), pod("b", node="elsewhere"), pod("c", node="elsewhere"))
        world.now_s += 1
        await world.plugin.unreserve(CycleState(), read(pod("d")), "n")
        slow.go.set()
        await until(lambda: world.waiting.get("a"))
        await skip(1)
        assert (await asyncio.wait_for(busy, 1)).is_success

    run(scenario())


def test_the_last_decision_counts_for_a_pod_that_another_permit_plugin_keeps_busy() -> None:
    """The group is rejected, and complete a moment later."""

    async def scenario() -> None:
        world = World(*ABC)
        slow = Slow()
        busy, failed = world.binding(ABC[0], slow), world.binding(ABC[1])
        await slow.asked.wait()
        await until(lambda: world.waiting.get("b"))
        world.waiting.reject("b", "test", "no")
        await failed
        others = [world.binding(shown) for shown in ABC[1:]]
        assert all(status.is_success for status in await asyncio.gather(*others))
        slow.go.set()
        await until(lambda: world.waiting.get("a"))
        await skip(1)
        assert (await asyncio.wait_for(busy, 1)).is_success

    run(scenario())


class Approval:
    """Holds each pod until a person allows or rejects it."""

    name = "Approval"

    def permit(self, state: CycleState, pod: core.Pod, node_name: str) -> tuple[Status, float]:
        del state, pod, node_name
        return Status.wait(), 50.0


@pytest.mark.parametrize(("fails", "stays"), [("first", "second"), ("second", "first")])
def test_a_failed_pod_takes_those_with_it_that_another_permit_plugin_holds(
    fails: str, stays: str
) -> None:
    """This plugin has allowed both pods, and the other one holds both."""
    labels = {
        "scheduling.x-k8s.io/pod-group": "gang",
        "pod-group.scheduling.sigs.k8s.io/min-available": "2",
    }
    pods = {name: testing.make_pod(name, labels=labels) for name in ("first", "second")}
    with testing.Cluster(Coscheduling, Approval, nodes=2) as cluster:
        cluster.add(*pods.values())
        for each in pods.values():
            cluster.schedule(each)
        assert cluster.outcome(pods[stays]).waiting == ("Approval",)
        cluster.held(pods[fails]).reject("Approval", "no")
        cluster.advance(1)
        assert cluster.outcome(pods[stays]).error == GIVEN_UP
        assert cluster.bindings.nodes == {}


async def rejected_while_asked(world: World, slow: Slow) -> "asyncio.Task[Status]":
    """Reject a complete group while another Permit plugin is asked about the pod that completed it.

    This plugin does not hold that pod.

    Returns: the pod's binding cycle.
    """
    held = [world.binding(shown, Approval()) for shown in ABC[:2]]
    await until(lambda: len(world.waiting) == 2)
    last = world.binding(ABC[2], slow)
    await slow.asked.wait()
    await skip(1)
    assert world.waiting.reject("b", "Approval", "no")
    await asyncio.wait(held)
    return last


def test_a_failed_pod_takes_one_with_it_about_which_another_permit_plugin_is_asked() -> None:
    async def scenario() -> None:
        world, slow = World(*ABC), Slow((Status.wait(), 500.0))
        last = await rejected_while_asked(world, slow)
        slow.go.set()
        await until(lambda: world.waiting.get("c"))
        await skip(1)
        assert (await last).reason == GIVEN_UP
        assert world.bound == []

    run(scenario())


@pytest.mark.parametrize("answer", [Status.success(), (Status.wait(), 500.0)])
def test_a_pod_that_permit_lets_go_on_after_its_group_was_rejected_is_not_bound(
    answer: Status | tuple[Status, float],
) -> None:
    """The other plugin answers success, or allows the pod before this plugin may reject it."""

    async def scenario() -> None:
        world, slow = World(*ABC), Slow(answer)
        last = await rejected_while_asked(world, slow)
        slow.go.set()
        for _ in range(20):
            await asyncio.sleep(0)
            if held := world.waiting.get("c"):
                held.allow("Slow")
        assert (await last).reason == GIVEN_UP
        assert world.bound == []
        # The next attempt of the whole group succeeds.
        world.now_s += 10
        assert all(status.is_success for status in await bind_all(world))

    run(scenario())


def test_a_pod_that_counts_again_after_it_was_rejected_is_bound_with_its_group() -> None:
    async def scenario() -> None:
        world, slow = World(*ABC), Slow(Status.success())
        last = await rejected_while_asked(world, slow)
        again = [world.binding(shown) for shown in ABC[:2]]
        await asyncio.wait(again)
        slow.go.set()
        assert (await last).is_success
        assert sorted(world.bound) == ["a", "b", "c"]

    run(scenario())


def test_a_pod_that_counts_again_after_it_was_rejected_takes_its_group_with_it() -> None:
    """The group is complete again before the rejected pod has failed."""

    async def scenario() -> None:
        world, slow = World(*ABC), Slow((Status.wait(), 500.0))
        last = await rejected_while_asked(world, slow)
        again = [world.binding(shown, Approval()) for shown in ABC[:2]]
        await until(lambda: len(world.waiting) == 2)
        slow.go.set()
        await until(lambda: world.waiting.get("c"))
        await skip(1)
        assert world.waiting.reject("c", "Slow", "no")
        await asyncio.wait([last])
        assert [(await each).reason for each in again] == [GIVEN_UP] * 2
        assert world.bound == []

    run(scenario())


class FailsLater:
    """A PreBind plugin that fails when it is told to."""

    name = "FailsLater"

    def __init__(self) -> None:
        self.may_fail = asyncio.Event()

    async def pre_bind(self, *_: object) -> Status:
        await self.may_fail.wait()
        return Status.unschedulable("no volume")


@pytest.mark.parametrize("steps", range(6))
def test_a_pod_that_was_allowed_just_before_its_group_was_rejected_counts_again(
    steps: int,
) -> None:
    """The rejection comes too late for the pod, whose PreBind fails in the group's next round."""

    async def scenario() -> None:
        world, fails = World(*ABC), FailsLater()
        bound = [world.binding(shown, Approval()) for shown in ABC[:2]]
        last = world.binding(ABC[2], Approval(), pre_bind=[fails])
        await until(lambda: len(world.waiting) == 3)
        await skip(1)
        assert world.waiting.reject("b", "Approval", "no")
        for _ in range(steps):
            await asyncio.sleep(0)
        if held := world.waiting.get("c"):
            held.allow("Approval")
        await asyncio.wait(bound)
        await skip(1)
        world.now_s += 10
        bound = [world.binding(shown, Approval()) for shown in ABC[:2]]
        await until(lambda: len(world.waiting) == 2)
        await skip(1)
        fails.may_fail.set()
        assert not (await last).is_success
        await skip(2)
        for name in "ab":
            if held := world.waiting.get(name):
                held.allow("Approval")
        await skip(1)
        assert world.bound == []
        for each in bound:
            each.cancel()
        await asyncio.wait(bound)

    run(scenario())


def test_a_group_stays_remembered_while_all_others_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kubextend.plugins.coscheduling._GROUPS", 3)

    async def scenario() -> None:
        others = [
            pod(f"other-{number}", group=f"other-{number}", minimum="2") for number in range(3)
        ]
        there = [pod(f"more-{number}", group=f"other-{number}", minimum="2") for number in range(3)]
        world = World(*others, *there, *ABC)
        held = [world.binding(shown) for shown in others]
        await until(lambda: len(world.waiting) == 3)
        statuses = await bind_all(world)
        assert [status.is_success for status in statuses] == [True] * 3
        for each in held:
            each.cancel()
        await asyncio.wait(held)

    run(scenario())


def test_a_tenant_that_names_thousands_of_groups_splits_no_gang() -> None:
    """Another Permit plugin holds the gang, which this plugin has allowed."""

    async def scenario() -> None:
        world = World(*ABC)
        gang = [world.binding(shown, Approval()) for shown in ABC]
        await until(lambda: len(world.waiting) == 3)
        await skip(1)
        name_groups(world, 4200)
        assert world.waiting.reject("a", "Approval", "no")
        assert [(await each).reason for each in gang[1:]] == [GIVEN_UP] * 2
        assert world.bound == []

    run(scenario())


def test_a_tenant_that_names_thousands_of_groups_ends_no_backoff() -> None:
    async def scenario() -> None:
        world = World(*ABC)
        await reject_one(world, ABC[0])
        name_groups(world, 4200)
        assert world.pre_filter(ABC[1]).reason == DENIED
        world.now_s += 3
        name_groups(world, 4200)
        assert len(world.plugin._groups) <= 4097

    run(scenario())


def test_the_group_that_was_asked_for_the_longest_ago_is_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("kubextend.plugins.coscheduling._GROUPS", 2)

    async def scenario() -> None:
        world = World(ABC[0], podGroupBackoffSeconds=0)
        world.pre_filter(ABC[0])
        name_groups(world, 1)
        world.pre_filter(ABC[1])
        world.pre_filter(pod("other", group="other"))
        # Nobody marked the two as unschedulable yet: only what is remembered of them wakes them.
        world.watch(*ABC)
        last = world.binding(ABC[2])
        await until(lambda: len(world.waiting) == 1)
        assert world.activator.woken == ["a", "b"]
        last.cancel()
        await asyncio.wait([last])

    run(scenario())


def test_a_group_with_longer_names_than_the_api_has_is_not_remembered() -> None:
    world = World(*ABC)
    world.pre_filter(pod("a", group="g" * 254))
    world.pre_filter(pod("a", namespace="n" * 254))
    assert not world.plugin._groups
    assert world.pre_filter(pod("a", group="g" * 253)).reason == TOO_FEW
    world.pre_filter(pod("a" * 254, group="h"))
    groups = {key[2]: group for key, group in world.plugin._groups.items()}
    assert groups.keys() == {"g" * 253, "h"}
    assert not groups["h"].turned_away


def test_all_groups_together_remember_a_bounded_number_of_rejected_pods() -> None:
    world = World()
    for group in range(64):
        for number in range(1000):
            world.pre_filter(pod(f"p{number}", group=f"g{group}"))
    sizes = [len(group.turned_away) for group in world.plugin._groups.values()]
    assert sizes[:8] == [1000] * 8
    # An equal share of 32,768.
    assert sizes[-1] == 512


def test_rejected_pods_that_are_deleted_take_no_memory() -> None:
    world = World()
    of = read(pod("p", annotations={"a": "x" * 100}))
    before = sys.getrefcount(of)
    assert world.plugin.pre_filter(CycleState(), of, core.NodeStore().nodes()) is not None
    assert sys.getrefcount(of) == before


@pytest.mark.parametrize("late_s", [0, 5])
def test_a_pod_that_the_watch_shows_late_is_activated(late_s: int) -> None:
    """A second later, or once another pod of the group reaches Permit."""

    async def scenario() -> None:
        world = World(ABC[0], podGroupBackoffSeconds=0)
        assert world.pre_filter(ABC[1]).reason == TOO_FEW
        world.watch(ABC[0], ABC[2])
        first = world.binding(ABC[2])
        await until(lambda: len(world.waiting) == 1)
        assert world.activator.woken == []
        for _ in range(late_s):
            await skip(1)
        world.watch(ABC[0], parked("b"), ABC[2])
        if not late_s:
            await skip(1)
            assert world.activator.woken == ["b"]
        second = world.binding(ABC[0])
        await until(lambda: len(world.waiting) == 2)
        await skip(1)
        assert world.activator.woken == ["b"]
        first.cancel()
        second.cancel()
        await asyncio.wait([first, second])

    run(scenario())


def test_each_round_of_a_gang_is_rejected_together() -> None:
    """What a pod of the last round was is nothing to the next one."""

    async def scenario() -> None:
        world = World(*ABC)
        for fails, stays in ("ab", "ba", "ab"):
            gang = {name: world.binding(pod(name)) for name in "ab"}
            await until(lambda: len(world.waiting) == 2)
            assert world.waiting.reject(fails, "test", "no")
            assert (await gang[stays]).reason == GIVEN_UP
            await gang[fails]
            world.now_s += 100

    run(scenario())


async def reject_one(world: World, shown: Json) -> None:
    """Reject a pod as soon as Permit holds it, and await the end of its binding cycle."""
    cycle = world.binding(shown)
    await until(lambda: world.waiting.get(shown["metadata"]["uid"]))
    assert world.waiting.reject(shown["metadata"]["uid"], "test", "no")
    await cycle


def test_a_pod_that_fails_within_the_backoff_makes_it_no_longer() -> None:
    """kube-scheduler had asked the filters about the second pod before the backoff began."""

    async def scenario() -> None:
        world = World(*ABC)
        await reject_one(world, ABC[0])
        world.now_s += 2
        await reject_one(world, ABC[1])
        assert world.pre_filter(ABC[2]).reason == DENIED
        world.now_s += 1
        assert world.pre_filter(ABC[2]).is_success

    run(scenario())


class LateVolumes:
    """A Reserve plugin that gives up what it reserved for the pod named ``late`` after 30 s."""

    name = "LateVolumes"

    async def reserve(self, *_: object) -> None:
        pass

    async def unreserve(self, _state: CycleState, pod: core.Pod, _node: str) -> None:
        if pod.name == "late":
            await asyncio.sleep(30)


def test_a_pod_of_the_last_round_whose_unreserve_ends_late_rejects_nobody() -> None:
    labels = {GROUP: "gang", MINIMUM: "2"}
    names = ("first", "late", "second", "third")
    pods = {name: testing.make_pod(name, labels=labels) for name in names}
    with testing.Cluster(Coscheduling, Approval, LateVolumes, nodes=2) as cluster:
        cluster.add(*pods.values())
        for name in ("first", "late"):
            cluster.schedule(pods[name])
        cluster.held(pods["first"]).reject("Approval", "no")
        cluster.advance(1)
        # The group is complete without the pod that was rejected with the first one.
        for name in ("second", "third"):
            cluster.bind(pods[name], "node-0")
        cluster.held(pods["second"]).allow("Approval")
        cluster.advance(1)
        cluster.delete(pods["second"])
        cluster.advance(35)
        assert cluster.outcome(pods["late"]).error == GIVEN_UP
        assert cluster.outcome(pods["third"]).waiting == ("Approval",)


def test_a_pod_refused_by_a_slow_permit_plugin_after_its_group_was_complete_has_no_backoff() -> (
    None
):
    """The plugin has allowed the pod, and nobody holds it yet."""

    async def scenario() -> None:
        world, slow = World(*ABC), Slow(Status.unschedulable("no"))
        failing = world.binding(ABC[0], slow)
        await slow.asked.wait()
        others = [world.binding(shown, Approval()) for shown in ABC[1:]]
        await until(lambda: len(world.waiting) == 2)
        slow.go.set()
        assert not (await failing).is_success
        assert [(await other).reason for other in others] == [GIVEN_UP] * 2
        assert world.pre_filter(ABC[0]).is_success

    run(scenario())


def test_a_group_that_is_rejected_together_is_looked_through_once() -> None:
    async def scenario() -> None:
        names = [f"p{number}" for number in range(100)]
        pods = [pod(name, minimum="100") for name in names]
        world = World(*pods)
        held = [world.binding(shown, Approval()) for shown in pods]

        def pending() -> set[tuple[str, ...]]:
            found = [world.waiting.get(name) for name in names]
            return {() if each is None else each.pending_plugins for each in found}

        await until(lambda: len(world.waiting) == 100)
        await skip(1)
        assert pending() == {("Approval",)}
        asked: list[str] = []
        get = world.waiting.get
        world.waiting.get = lambda uid: (asked.append(uid), get(uid))[1]  # type: ignore[method-assign]
        assert world.waiting.reject("p0", "Approval", "no")
        await asyncio.wait(held)
        # To look for each pod once more for each other one would be 10,000 times.
        assert sorted(asked) == sorted(names)
        assert world.bound == []

    run(scenario())


def test_a_pod_that_fails_after_its_group_was_complete_waits_for_no_other_pod() -> None:
    async def scenario() -> None:
        world = World(*ABC)
        bound = [world.binding(shown) for shown in ABC[:2]]
        await until(lambda: len(world.waiting) == 2)
        failing = world.binding(ABC[2], Refuses())
        assert not (await failing).is_success
        await asyncio.gather(*bound)
        assert world.pre_filter(ABC[2]).is_success
        assert (await world.binding(ABC[2])).is_success

    run(scenario())


def test_a_group_that_became_complete_without_a_failed_pod_begins_its_backoff_anew() -> None:
    async def scenario() -> None:
        world = World(*ABC, podGroupBackoffSeconds=3)

        async def fails(name: str) -> None:
            world.now_s += 100
            await world.plugin.unreserve(CycleState(), read(pod(name)), "n")

        for _ in range(3):
            await fails("a")
        world.watch(*(pod(name, node="n") for name in "abc"))
        await fails("d")
        world.watch(*ABC)
        await fails("a")
        assert world.pre_filter(pod("a")).reason == DENIED
        world.now_s += 3
        assert world.pre_filter(pod("a")).is_success

    run(scenario())


def test_pods_that_a_thread_finds_gone_while_others_are_counted_end_no_count() -> None:
    """PreFilter lists a group in a thread, while Permit counts it on the event loop."""
    pods = [pod(name) for name in "abcd"]
    world = World(*pods)

    async def told() -> Status | tuple[Status, float]:
        for each in pods[:3]:
            world.store.assume(read(each), "n")
        for each in pods[:2]:
            await world.plugin.permit(CycleState(), read(each), "n")

        def gives_up(uid: str) -> bool:
            # The other thread, at the worst moment: a is gone, and is no longer counted.
            world.watch(*pods[1:])
            world.now_s += 60
            world.pre_filter(pods[3])
            return False

        world.waiting.gives_up = gives_up  # type: ignore[method-assign]
        return await world.plugin.permit(CycleState(), read(pods[2]), "n")

    said = asyncio.run(told())
    assert said == Status.success()


def test_pods_that_a_thread_finds_gone_while_others_are_rejected_end_no_rejection() -> None:
    pods = [pod(name) for name in "abcd"]
    world = World(*pods)

    async def scenario() -> list[str]:
        for each in pods[:2]:
            world.store.assume(read(each), "n")
            await world.plugin.permit(CycleState(), read(each), "n")
        (group,) = world.plugin._groups.values()
        # They are allowed, and another plugin holds them.
        group.waiting.clear()
        looked_for = []

        def get(uid: str) -> None:
            looked_for.append(uid)
            # The other thread: both are gone.
            world.watch(*pods[2:])
            world.now_s += 60
            world.pre_filter(pods[3])
            world.plugin.unblock(read(pods[3]), None)

        world.waiting.get = get  # type: ignore[assignment, method-assign]
        await world.plugin.unreserve(CycleState(), read(pods[2]), "n")
        assert not group.permitted
        return sorted(looked_for)

    assert asyncio.run(scenario()) == ["a", "b"]
