"""The runner answers as kubextend does, and lets a test see what its plugins did."""

import asyncio
import logging
from contextlib import suppress
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from kubextend import core, testing
from kubextend.errors import PluginError
from kubextend.framework.cycle_state import CycleState
from kubextend.framework.handle import Handle
from kubextend.framework.plugin import Rejection, Scores
from kubextend.framework.status import Status

NODES = {"a": {"disk": "ssd"}, "b": {"disk": "hdd"}, "c": {}}


class Args(BaseModel, extra="forbid"):
    key: str = "disk"


class NeedsLabel:
    name = "NeedsLabel"
    Args = Args

    def __init__(self, args: Args) -> None:
        self._key = args.key

    def filter(self, state: CycleState, pod: core.Pod, node: core.NodeInfo) -> Status | None:
        value = node.label(self._key)
        if value is None:
            return Status.unresolvable("node has no label")
        return None if value == "ssd" else Status.unschedulable("node is busy")


class WaitingWrites:
    name = "WaitingWrites"

    def score_nodes(self, state: CycleState, pod: core.Pod, nodes: core.Nodes) -> list[int]:
        return [ord(name[0]) - ord("a") for name in nodes.names]

    def normalize_score(self, state: CycleState, pod: core.Pod, scores: Scores) -> Scores:
        return core.normalize(scores)  # type: ignore[arg-type]


class Room:
    """One pod a node, by what the ledger says."""

    name = "Room"
    needs_pods = True

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self.steps: list[str] = []

    def filter(self, state: CycleState, pod: core.Pod, node: core.NodeInfo) -> Status | None:
        return Status.unschedulable("node is taken") if node.requested("pods") else None

    def reserve(self, state: CycleState, pod: core.Pod, node_name: str) -> Status | None:
        self.steps.append(f"reserve {pod.name} on {node_name}")
        return None

    def unreserve(self, state: CycleState, pod: core.Pod, node_name: str) -> None:
        self.steps.append(f"unreserve {pod.name} on {node_name}")

    async def permit(
        self, state: CycleState, pod: core.Pod, node_name: str
    ) -> tuple[Status, float] | Status:
        if pod.labels.get("wait"):
            return Status.wait(), float(pod.labels["wait"])
        if pod.labels.get("refuse"):
            return Status.unschedulable("not today")
        self._handle.activate([pod])
        return Status.success()


class Fails:
    name = "Fails"

    def filter(self, state: CycleState, pod: core.Pod, node: core.NodeInfo) -> Status | None:
        message = f"no {node.name}"
        raise LookupError(message)

    def score(self, state: CycleState, pod: core.Pod, node: core.NodeInfo) -> int:
        return 101

    def reserve(self, state: CycleState, pod: core.Pod, node_name: str) -> None:
        raise LookupError(node_name)

    def unreserve(self, state: CycleState, pod: core.Pod, node_name: str) -> None: ...


def test_filter_tells_kept_nodes_from_rejected_and_unresolvable_ones() -> None:
    result = testing.run_filter(NeedsLabel, testing.make_pod(), NODES)
    assert result == testing.FilterResult(
        kept=("a",),
        rejected={"b": "node is busy", "c": "node has no label"},
        unresolvable=frozenset({"c"}),
    )


def test_arguments_are_read_as_a_configuration_is_read() -> None:
    pod = testing.make_pod()
    assert testing.run_filter(NeedsLabel, pod, NODES, args={"key": "zone"}).kept == ()
    assert testing.run_filter(NeedsLabel(Args(key="disk")), pod, NODES).kept == ("a",)
    with pytest.raises(ValidationError):
        testing.run_filter(NeedsLabel, pod, NODES, args={"kee": "zone"})
    with pytest.raises(ValueError, match="WaitingWrites takes no arguments"):
        testing.run_score(WaitingWrites, pod, NODES, args={"key": "zone"})
    with pytest.raises(ValueError, match="NeedsLabel is made already"):
        testing.run_filter(NeedsLabel(Args()), pod, NODES, args={"key": "zone"})


def test_scores_are_those_of_the_plugin_unscaled_after_normalize_score() -> None:
    scores = testing.run_score(WaitingWrites, testing.make_pod(), ["a", "b", "d"])
    assert scores == {"a": 0, "b": 33, "d": 100}


def test_prioritize_answers_the_points_that_kube_scheduler_gets() -> None:
    runner = testing.Runner(WaitingWrites, nodes=["a", "b"], weights={"WaitingWrites": 3})
    assert runner.prioritize(testing.make_pod()) == {"a": 0, "b": 30}


def test_preempt_drops_the_candidates_that_filter_rejects() -> None:
    runner = testing.Runner(NeedsLabel, nodes=NODES)
    left = runner.preempt(testing.make_pod(), {"a": ["1", "2"], "b": ["3"]})
    assert left == {"a": ["1", "2"]}


@pytest.mark.parametrize(
    ("call", "point", "cause"),
    [
        (lambda runner, pod: runner.filter(pod), "Filter", LookupError),
        (lambda runner, pod: runner.prioritize(pod), "Score", ValueError),
        (lambda runner, pod: runner.bind(pod, "node-0"), "Reserve", LookupError),
    ],
)
def test_a_plugin_that_fails_raises_with_its_cause(
    call: Any, point: str, cause: type[Exception]
) -> None:
    with pytest.raises(PluginError) as caught:
        call(testing.Runner(Fails), testing.make_pod())
    assert (caught.value.plugin, caught.value.extension_point) == ("Fails", point)
    assert isinstance(caught.value.__cause__, cause)


@pytest.mark.parametrize("plugin", [WaitingWrites, Fails])
def test_a_call_leaves_nothing_at_the_log(plugin: type) -> None:
    logger = logging.getLogger("kubextend")
    before = list(logger.handlers)
    with suppress(PluginError):
        testing.run_score(plugin, testing.make_pod())
    assert logger.handlers == before


def test_a_bound_pod_takes_its_room_from_then_on_until_it_is_deleted() -> None:
    runner = testing.Runner(Room, nodes=["a", "b"], pods=[testing.make_pod(node_name="a")])
    first, second = testing.make_pod("first"), testing.make_pod("second")
    assert runner.schedule(first) == "b"
    assert runner.bindings.nodes == {first.uid: "b"}
    assert runner.activations.names == ["first"]
    assert runner.schedule(second) is None
    runner.delete(first)
    assert runner.schedule(second) == "b"


def test_a_rejected_pod_is_not_bound_and_gives_up_what_it_reserved() -> None:
    runner = testing.Runner(Room)
    result = runner.bind(testing.make_pod("p", labels={"refuse": "yes"}), "node-1")
    assert (result.bound, runner.bindings.nodes) == (False, {})
    assert "not today" in result.error
    assert runner.plugins[0].steps == ["reserve p on node-1", "unreserve p on node-1"]


def test_a_held_pod_can_be_allowed_while_its_binding_waits() -> None:
    async def scenario() -> testing.BindResult:
        runner = testing.Runner(Room)
        pod = testing.make_pod(labels={"wait": "60"})
        binding = asyncio.ensure_future(runner.binding(pod, "node-0"))
        held = await runner.held(pod)
        assert held.pending_plugins == ("Room",)
        held.allow("Room")
        return await binding

    assert asyncio.run(scenario()).bound


def test_waiting_for_a_pod_that_nobody_holds_ends() -> None:
    with pytest.raises(TimeoutError):
        asyncio.run(testing.Runner(Room).held(testing.make_pod(), timeout_s=0.01))


def test_the_binding_cycle_of_one_plugin_is_one_call() -> None:
    assert testing.run_binding_cycle(Room, testing.make_pod(), "node-2").bound
    refused = testing.run_binding_cycle(Room, testing.make_pod(labels={"wait": "0.01"}), "node-2")
    assert "rejected due to timeout after waiting 10ms at plugin Room" in refused.error


def test_an_unstable_reason_is_not_held_back_between_calls_of_a_test() -> None:
    class Changes:
        name = "Changes"

        def __init__(self) -> None:
            self.reason = "first"

        def filter_nodes(
            self, state: CycleState, pod: core.Pod, nodes: core.Nodes
        ) -> list[Rejection]:
            return [Rejection(nodes.everything(), Status.unschedulable(self.reason))]

    runner = testing.Runner(Changes, nodes=1)
    pod = testing.make_pod()
    assert runner.filter(pod).rejected == {"node-0": "first"}
    runner.plugins[0].reason = "second"
    assert runner.filter(pod).rejected == {"node-0": "second"}


class Counts:
    """Asks for pods in the ways there are, and does not say that it needs them."""

    name = "Lp"

    def __init__(self, handle: Handle) -> None:
        self.handle = handle

    def ask(self, way: str) -> object:
        match way:
            case "pods":
                return self.handle.pods()
            case "pending":
                return self.handle.pending_pods()
            case "labelled":
                return self.handle.labelled_pods("default", "app", "a")
        return self.handle.assumed_pods()


@pytest.mark.parametrize("way", ["pods", "pending", "labelled", "assumed", "node"])
def test_who_asks_for_pods_without_saying_so_is_told_what_to_set(way: str) -> None:
    class Asks(Counts):
        def filter(self, _state: CycleState, _pod: core.Pod, node: core.NodeInfo) -> None:
            _ = node.pods if way == "node" else self.ask(way)

    class Declares(Asks):
        needs_pods = True

    with pytest.raises(PluginError, match="set needs_pods = True on Lp: it asks for pods"):
        testing.run_filter(Asks, testing.make_pod())
    assert testing.run_filter(Declares, testing.make_pod()).kept


def test_a_plugin_that_says_so_lends_its_pods_to_no_other() -> None:
    class Asks(Counts):
        def filter(self, _state: CycleState, _pod: core.Pod, node: core.NodeInfo) -> None:
            _ = node.pods

    class Other:
        name = "Other"
        needs_pods = True

        def filter(self, _state: CycleState, _pod: core.Pod, _node: core.NodeInfo) -> None:
            pass

    with pytest.raises(PluginError, match="set needs_pods = True on Lp"):
        testing.Runner(Other, Asks).filter(testing.make_pod())


GROUPS = "scheduling.x-k8s.io/v1alpha1/podgroups"


class Quota:
    """Lets as many pods run as the PodGroup of their label says; speaks in every way."""

    name = "Quota"
    informers = (GROUPS,)

    def __init__(self, handle: Handle) -> None:
        self._groups = handle.informer(GROUPS)
        self._groups.add_index("least", lambda group: [group["spec"]["minMember"]])
        self._groups.on_change(lambda before, now: self.changes.append((before, now)))
        self._events = handle.events
        self.changes: list[Any] = []

    def filter(self, state: CycleState, pod: core.Pod, node: core.NodeInfo) -> Status | None:
        group = self._groups.get(pod.namespace, pod.labels["group"])
        if group is None:
            self._events.warning(pod, "NoGroup", "Scheduling", "its PodGroup is missing")
            return Status.unschedulable("the PodGroup is missing")
        return None

    def reserve(self, state: CycleState, pod: core.Pod, node_name: str) -> None:
        state.annotate(pod, "example.com/groups", str(len(self._groups.by_index("least", 2))))

    def unreserve(self, state: CycleState, pod: core.Pod, node_name: str) -> None: ...


def group(name: str, least: int) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "default"}, "spec": {"minMember": least}}


def test_a_plugin_reads_the_objects_that_the_test_puts_and_speaks_to_the_test() -> None:
    runner = testing.Runner(Quota, nodes=NODES)
    pod = testing.make_pod("p", labels={"group": "g"})
    assert set(runner.filter(pod).rejected.values()) == {"the PodGroup is missing"}
    assert {(event.regarding.name, event.reason) for event in runner.events} == {("p", "NoGroup")}
    runner.put(GROUPS, group("g", 2))
    assert runner.filter(pod).kept == ("a", "b", "c")
    assert runner.bind(pod, "a").bound
    assert runner.bindings.annotations == {pod.uid: {"example.com/groups": "1"}}
    runner.remove(GROUPS, group("g", 2))
    assert runner.filter(pod).kept == ()
    changes = runner.plugins[0].changes
    assert [(before is None, now is None) for before, now in changes] == [
        (True, False),
        (False, True),
    ]


def test_an_object_of_an_informer_that_no_plugin_declares_is_an_error_of_the_test() -> None:
    with pytest.raises(KeyError):
        testing.Runner(NeedsLabel, nodes=NODES).put(GROUPS, group("g", 2))


def test_what_a_handler_raises_reaches_the_test() -> None:
    class Fails(Quota):
        def __init__(self, handle: Handle) -> None:
            handle.informer(GROUPS).add_index("x", lambda group: [group["status"]])

    with pytest.raises(PluginError, match=r"the index x of .*: KeyError: 'status'"):
        testing.Runner(Fails, nodes=NODES).put(GROUPS, group("g", 2))


def test_a_rejected_pod_is_activated_when_an_object_lets_it_pass() -> None:
    runner = testing.Runner(Quota, nodes=NODES)
    runner.pass_time(0)
    pod, other = (testing.make_pod(name, labels={"group": name}) for name in ("p", "q"))
    assert runner.filter(pod).kept == ()
    assert runner.filter(other).kept == ()
    runner.put(GROUPS, group("x", 1))
    assert runner.activations.names == []
    runner.put(GROUPS, group("p", 1))
    assert runner.activations.names == ["p"]


def test_a_rejected_pod_is_activated_when_a_node_lets_it_pass() -> None:
    runner = testing.Runner(NeedsLabel, nodes={"c": {}})
    runner.pass_time(0)
    pod = testing.make_pod("p")
    assert runner.filter(pod).kept == ()
    runner.put_nodes({"d": {"disk": "hdd"}})
    assert runner.activations.names == []
    runner.put_nodes({"c": {"disk": "ssd"}})
    assert runner.activations.names == ["p"]
    assert runner.filter(pod).kept == ("c",)
    assert runner.filter(pod).rejected == {"d": "node is busy"}


class FailsAtFirst:
    """Fails until it is mended."""

    name = "FailsAtFirst"
    broken = True

    def filter(self, state: CycleState, pod: core.Pod, node: core.NodeInfo) -> None:
        if self.broken:
            message = "broken"
            raise RuntimeError(message)


def test_the_breaker_opens_and_closes_by_the_time_of_the_test() -> None:
    plugin = FailsAtFirst()
    runner = testing.Runner(plugin, nodes=1)
    runner.pass_time(0)
    pods = [testing.make_pod("p", namespace=f"team-{number}") for number in range(3)]
    for pod in pods:
        with pytest.raises(PluginError, match="broken"):
            runner.filter(pod)
    plugin.broken = False
    assert 'plugin "FailsAtFirst" failed' in runner.filter(pods[0]).error
    runner.pass_time(29)
    assert 'plugin "FailsAtFirst" failed' in runner.filter(pods[0]).error
    runner.pass_time(1)
    assert runner.filter(pods[0]).kept == ("node-0",)
