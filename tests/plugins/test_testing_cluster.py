"""A cluster answers as kubextend does, on a clock that the test moves, and shows what happened."""

import gc
import logging
import weakref
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import BaseModel
from tests.doors.stories import Plugin
from tests.doors.wire import answers, raises

from kubextend import core, testing
from kubextend.errors import ConfigError, PluginError
from kubextend.framework import CycleState, Handle, Scores, Status

IN_LOG = "; kubextend's log says how"
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


NO_NODES = Plugin(
    "Fails",
    filter=raises(LookupError("node")),
    score=answers(101),
    reserve=raises(LookupError("room")),
    unreserve=answers(None),
)
RESERVES = Plugin("Fails", reserve=raises(LookupError("room")), unreserve=answers(None))


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
    with pytest.raises(ConfigError, match=r'unknown field "kee"|kee'):
        testing.run_filter(NeedsLabel, pod, NODES, args={"kee": "zone"})
    with pytest.raises(ConfigError, match="WaitingWrites takes no arguments"):
        testing.run_score(WaitingWrites, pod, NODES, args={"key": "zone"})
    with pytest.raises(ConfigError, match="NeedsLabel takes no arguments"):
        testing.run_filter(NeedsLabel(Args()), pod, NODES, args={"key": "zone"})


def test_scores_are_those_of_the_plugin_unscaled_after_normalize_score() -> None:
    scores = testing.run_score(WaitingWrites, testing.make_pod(), ["a", "b", "d"])
    assert scores == {"a": 0, "b": 33, "d": 100}


def test_prioritize_answers_the_points_that_kube_scheduler_gets() -> None:
    cluster = testing.Cluster(WaitingWrites, nodes=["a", "b"], weights={"WaitingWrites": 3})
    assert cluster.prioritize(testing.make_pod()) == {"a": 0, "b": 30}


def test_preempt_drops_the_candidates_that_filter_rejects() -> None:
    cluster = testing.Cluster(NeedsLabel, nodes=NODES)
    left = cluster.preempt(testing.make_pod(), {"a": ["1", "2"], "b": ["3"]})
    assert left == {"a": ["1", "2"]}


@pytest.mark.parametrize(
    ("call", "plugin", "point", "cause"),
    [
        (testing.run_filter, NO_NODES, "Filter", LookupError),
        (testing.run_score, NO_NODES, "Score", ValueError),
        (testing.run_binding_cycle, RESERVES, "Reserve", LookupError),
    ],
)
def test_a_plugin_that_fails_alone_raises_with_its_cause_and_leaves_nothing_at_the_log(
    call: Any, plugin: Plugin, point: str, cause: type[Exception]
) -> None:
    logger = logging.getLogger("kubextend")
    before = list(logger.handlers)
    with pytest.raises(PluginError) as caught:
        call(plugin, testing.make_pod())
    assert (caught.value.plugin, caught.value.extension_point) == ("Fails", point)
    assert isinstance(caught.value.__cause__, cause)
    assert logger.handlers == before


def test_a_plugin_that_fails_in_a_cluster_is_an_error_of_the_outcome_and_a_failure() -> None:
    cluster = testing.Cluster(NO_NODES)
    outcome = cluster.schedule(testing.make_pod())
    assert outcome == testing.Outcome(error=f'Filter plugin "Fails" failed{IN_LOG}')
    [failure] = cluster.failures
    assert (failure.extension_point, type(failure.__cause__)) == ("Filter", LookupError)
    bound = cluster.bind(testing.make_pod("other"), "node-0")
    assert bound == testing.Outcome(error='Reserve plugin "Fails" failed')
    assert [each.extension_point for each in cluster.failures] == ["Filter", "Reserve"]


def test_a_bound_pod_takes_its_room_from_then_on_until_it_is_deleted() -> None:
    cluster = testing.Cluster(Room, nodes=["a", "b"], pods=[testing.make_pod(node_name="a")])
    first, second = testing.make_pod("first"), testing.make_pod("second")
    assert cluster.schedule(first) == testing.Outcome("b", rejected={"a": "node is taken"})
    assert cluster.bindings.nodes == {first.uid: "b"}
    assert cluster.activated == ["first"]
    taken = {"a": "node is taken", "b": "node is taken"}
    assert cluster.schedule(second) == testing.Outcome(rejected=taken)
    cluster.delete(first)
    assert cluster.schedule(second).node == "b"
    with pytest.raises(ValueError, match="pod default/second is on node b already"):
        cluster.schedule(second)


def test_a_rejected_pod_is_not_bound_and_gives_up_what_it_reserved() -> None:
    cluster = testing.Cluster(Room)
    result = cluster.bind(testing.make_pod("p", labels={"refuse": "yes"}), "node-1")
    assert result == testing.Outcome(error="not today")
    assert cluster.bindings.nodes == {}
    assert cluster.plugins[0].steps == ["reserve p on node-1", "unreserve p on node-1"]


def test_a_held_pod_is_bound_once_it_is_allowed() -> None:
    cluster = testing.Cluster(Room, nodes=1)
    pod = testing.make_pod(labels={"wait": "60"})
    assert cluster.schedule(pod) == testing.Outcome(waiting=("Room",), answered=False)
    assert cluster.schedule(testing.make_pod("next")).rejected == {"node-0": "node is taken"}
    cluster.held(pod).allow("Room")
    cluster.advance()
    assert cluster.outcome(pod) == testing.Outcome("node-0")
    with pytest.raises(KeyError):
        cluster.held(pod)


def test_permit_holds_a_pod_for_as_long_as_it_says_and_filter_repeats_why() -> None:
    cluster = testing.Cluster(Room, nodes=1)
    pod = testing.make_pod(labels={"wait": "30"})
    why = "rejected due to timeout after waiting 30s at plugin Room"
    cluster.schedule(pod)
    cluster.advance(29.9)
    assert cluster.outcome(pod).waiting == ("Room",)
    cluster.advance(0.1)
    assert cluster.outcome(pod) == testing.Outcome(error=why)
    assert cluster.plugins[0].steps[-1] == "unreserve pod on node-0"
    assert cluster.schedule(pod).rejected == {"node-0": why}
    cluster.advance(29)
    assert cluster.activated == []
    # Seconds of the clock: the pod is due within the next one.
    cluster.advance(2)
    assert cluster.activated == ["pod"]
    assert cluster.schedule(pod).waiting == ("Room",)


def test_a_held_pod_gives_up_what_it_reserved_where_it_or_its_node_is_deleted() -> None:
    for gone in ("pod", "node"):
        cluster = testing.Cluster(Room, nodes=["a"])
        pod = testing.make_pod(labels={"wait": "30"})
        cluster.schedule(pod)
        cluster.delete(pod if gone == "pod" else testing.make_node("a"))
        assert "deleted" in cluster.outcome(pod).error
        assert cluster.plugins[0].steps[-1] == "unreserve pod on a"
        following = cluster.schedule(testing.make_pod("next"))
        assert following == testing.Outcome("a" if gone == "pod" else None)


def test_a_cluster_that_nobody_needs_gives_up_what_held_pods_reserved() -> None:
    room = Room(testing.make_handle())
    cluster = testing.Cluster(room)
    cluster.schedule(testing.make_pod(labels={"wait": "30"}))
    forgotten = weakref.ref(cluster)
    del cluster
    gc.collect()
    assert forgotten() is None
    assert room.steps == ["reserve pod on node-0", "unreserve pod on node-0"]


def test_the_binding_cycle_of_one_plugin_is_one_call() -> None:
    assert testing.run_binding_cycle(Room, testing.make_pod(), "node-2").node == "node-2"
    held = testing.run_binding_cycle(Room, testing.make_pod(labels={"wait": "9"}), "node-2")
    assert held.waiting == ("Room",)


def test_a_changed_reason_is_told_later_as_in_a_server() -> None:
    reasons = ["first"]
    cluster = testing.Cluster(Plugin(filter=lambda *_: Status.unschedulable(reasons[-1])), nodes=1)
    pod = testing.make_pod()
    assert cluster.filter(pod).rejected == {"node-0": "first"}
    reasons.append("second")
    assert cluster.filter(pod).rejected == {"node-0": "first"}
    cluster.advance(60)
    assert cluster.filter(pod).rejected == {"node-0": "second"}


# The ways to ask for pods.
ASKS: dict[str, Callable[[Handle, core.NodeInfo], object]] = {
    "pods": lambda handle, _: handle.pods(),
    "pending": lambda handle, _: handle.pending_pods(),
    "labelled": lambda handle, _: handle.labelled_pods("default", "app", "a"),
    "assumed": lambda handle, _: handle.assumed_pods(),
    "node": lambda _, node: node.pods,
}


@pytest.mark.parametrize("way", ASKS)
def test_who_asks_for_pods_without_saying_so_is_told_what_to_set(way: str) -> None:
    class Asks:
        name = "Lp"

        def __init__(self, handle: Handle) -> None:
            self.handle = handle

        def filter(self, _state: CycleState, _pod: core.Pod, node: core.NodeInfo) -> None:
            ASKS[way](self.handle, node)

    class Declares(Asks):
        needs_pods = True

    with pytest.raises(PluginError, match="set needs_pods = True on Lp: it asks for pods"):
        testing.run_filter(Asks, testing.make_pod())
    assert testing.run_filter(Declares, testing.make_pod()).kept
    # A plugin that says so lends its pods to no other.
    cluster = testing.Cluster(Plugin(filter=answers(None), needs_pods=True), Asks)
    cluster.filter(testing.make_pod())
    assert "set needs_pods = True on Lp" in str(cluster.failures[0])


def test_a_rejected_pod_is_activated_when_a_node_lets_it_pass() -> None:
    cluster = testing.Cluster(NeedsLabel, nodes={"c": {}})
    pod = testing.make_pod("p")
    assert cluster.filter(pod).kept == ()
    cluster.add(testing.make_node("d", labels={"disk": "hdd"}))
    assert cluster.activated == []
    cluster.add(testing.make_node("c", labels={"disk": "ssd"}))
    assert cluster.activated == ["p"]
    assert cluster.filter(pod).kept == ("c",)
    assert cluster.filter(pod).rejected == {"d": "node is busy"}


def test_a_rejected_pod_is_activated_when_a_pod_leaves_its_node() -> None:
    old = testing.make_pod("old", node_name="node-0")
    cluster = testing.Cluster(Room, nodes=1, pods=[old])
    pod = testing.make_pod("p")
    assert cluster.schedule(pod).node is None
    cluster.delete(old)
    assert cluster.activated == ["p"]
    cluster.add(testing.make_pod("faster", node_name="node-0"))
    assert cluster.schedule(pod).node is None


def test_a_preemption_is_a_question_a_deletion_and_another_attempt() -> None:
    low, high = testing.make_pod("low", node_name="a"), testing.make_pod("high", node_name="b")
    cluster = testing.Cluster(Room, nodes=["a", "b"], pods=[low, high])
    pod = testing.make_pod("p")
    assert cluster.schedule(pod).node is None
    assert cluster.preempt(pod, {"a": [low], "b": []}) == {"a": [low.uid]}
    cluster.delete(low)
    assert cluster.schedule(pod).node == "a"


def test_only_pods_and_nodes_can_be_added() -> None:
    cluster = testing.Cluster(Room)
    with pytest.raises(ValueError, match=r"kind is None: give make_pod"):
        cluster.add({"metadata": {"name": "x"}})
    cluster.add({**testing.node_manifest("x"), "kind": "Node"})
    assert "x" in cluster.filter(testing.make_pod()).kept
