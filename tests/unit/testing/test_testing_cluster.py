"""A cluster answers as kubextend does, on a clock that the test moves, and shows what happened."""

import gc
import logging
import weakref
from contextlib import suppress
from typing import Any

import pytest
from pydantic import BaseModel

from kubextend import core, testing
from kubextend.errors import ConfigError, PluginError
from kubextend.framework.cycle_state import CycleState
from kubextend.framework.handle import Handle
from kubextend.framework.informer import KubeObject
from kubextend.framework.plugin import Rejection, Scores
from kubextend.framework.status import Status

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
    ("call", "point", "cause"),
    [
        (testing.run_filter, "Filter", LookupError),
        (testing.run_score, "Score", ValueError),
        (testing.run_binding_cycle, "Reserve", LookupError),
    ],
)
def test_a_plugin_that_fails_alone_raises_with_its_cause(
    call: Any, point: str, cause: type[Exception]
) -> None:
    class Reserves:
        name = "Fails"
        reserve, unreserve = Fails.reserve, Fails.unreserve

    with pytest.raises(PluginError) as caught:
        call(Reserves if point == "Reserve" else Fails, testing.make_pod())
    assert (caught.value.plugin, caught.value.extension_point) == ("Fails", point)
    assert isinstance(caught.value.__cause__, cause)


def test_a_plugin_that_fails_in_a_cluster_is_an_error_of_the_outcome_and_a_failure() -> None:
    cluster = testing.Cluster(Fails)
    outcome = cluster.schedule(testing.make_pod())
    assert outcome == testing.Outcome(error=f'Filter plugin "Fails" failed{IN_LOG}')
    [failure] = cluster.failures
    assert (failure.extension_point, type(failure.__cause__)) == ("Filter", LookupError)
    bound = cluster.bind(testing.make_pod("other"), "node-0")
    assert bound == testing.Outcome(error='Reserve plugin "Fails" failed')
    assert [each.extension_point for each in cluster.failures] == ["Filter", "Reserve"]


@pytest.mark.parametrize("plugin", [WaitingWrites, Fails])
def test_a_call_leaves_nothing_at_the_log(plugin: type) -> None:
    logger = logging.getLogger("kubextend")
    before = list(logger.handlers)
    with suppress(PluginError):
        testing.run_score(plugin, testing.make_pod())
    assert logger.handlers == before


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
    cluster.advance(9)
    assert cluster.activated == []
    # Seconds of the clock: the pod is due within the next one.
    cluster.advance(2)
    assert cluster.activated == ["pod"]
    assert cluster.schedule(pod).waiting == ("Room",)


def test_a_held_pod_that_is_deleted_gives_up_what_it_reserved() -> None:
    cluster = testing.Cluster(Room, nodes=1)
    pod = testing.make_pod(labels={"wait": "30"})
    cluster.schedule(pod)
    cluster.delete(pod)
    assert cluster.outcome(pod) == testing.Outcome(error="the pod is deleted")
    assert cluster.plugins[0].steps[-1] == "unreserve pod on node-0"
    assert cluster.schedule(testing.make_pod("next")).node == "node-0"


def test_a_held_pod_is_not_bound_to_a_node_that_is_deleted() -> None:
    cluster = testing.Cluster(Room, nodes=["a"])
    pod = testing.make_pod(labels={"wait": "30"})
    cluster.schedule(pod)
    cluster.delete(testing.make_node("a"))
    assert "deleted" in cluster.outcome(pod).error
    assert cluster.schedule(testing.make_pod("next")) == testing.Outcome()


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
    class Changes:
        name = "Changes"

        def __init__(self) -> None:
            self.reason = "first"

        def filter_nodes(
            self, state: CycleState, pod: core.Pod, nodes: core.Nodes
        ) -> list[Rejection]:
            return [Rejection(nodes.everything(), Status.unschedulable(self.reason))]

    cluster = testing.Cluster(Changes, nodes=1)
    pod = testing.make_pod()
    assert cluster.filter(pod).rejected == {"node-0": "first"}
    cluster.plugins[0].reason = "second"
    assert cluster.filter(pod).rejected == {"node-0": "first"}
    cluster.advance(60)
    assert cluster.filter(pod).rejected == {"node-0": "second"}


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

    cluster = testing.Cluster(Other, Asks)
    cluster.filter(testing.make_pod())
    assert "set needs_pods = True on Lp" in str(cluster.failures[0])


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
    cluster = testing.Cluster(Quota, nodes=NODES)
    pod = testing.make_pod("p", labels={"group": "g"})
    assert set(cluster.filter(pod).rejected.values()) == {"the PodGroup is missing"}
    assert {(event.regarding.name, event.reason) for event in cluster.events} == {("p", "NoGroup")}
    cluster.put(GROUPS, group("g", 2))
    assert cluster.filter(pod).kept == ("a", "b", "c")
    assert cluster.bind(pod, "a").node == "a"
    assert cluster.bindings.annotations == {pod.uid: {"example.com/groups": "1"}}
    cluster.remove(GROUPS, group("g", 2))
    assert cluster.filter(pod).kept == ()
    changes = cluster.plugins[0].changes
    assert [(before is None, now is None) for before, now in changes] == [
        (True, False),
        (False, True),
    ]


def test_a_plugin_is_told_at_once_of_the_objects_that_exist() -> None:
    cluster = testing.Cluster(Quota, objects={GROUPS: [group("g", 2), group("h", 3)]})
    told = [(before, now["metadata"]["name"]) for before, now in cluster.plugins[0].changes]
    assert told == [(None, "g"), (None, "h")]


def test_a_plugin_is_told_of_objects_when_its_start_has_ended() -> None:
    class Starts(Quota):
        handle: Handle
        failures = 1

        def __init__(self, handle: Handle) -> None:
            super().__init__(handle)
            self.handle = handle

        def start(self) -> None:
            self.changes.append("started")
            self.handle.informer(GROUPS).on_change(self.heard)
            if len(self.changes) <= self.failures:
                message = "not yet"
                raise OSError(message)

        def heard(self, before: KubeObject | None, now: KubeObject | None) -> None:
            self.changes.append(None if now is None else now["metadata"]["name"])

    cluster = testing.Cluster(Starts, objects={GROUPS: [group("g", 2)]})
    [plugin] = cluster.plugins
    with cluster:
        cluster.put(GROUPS, group("h", 2))
        assert plugin.changes == ["started"]
        cluster.advance(5)
        assert plugin.changes[:2] == ["started", "started"]
        assert plugin.changes[4:] == ["g", "h"]
        assert [now["metadata"]["name"] for _, now in plugin.changes[2:4]] == ["g", "h"]


def test_what_a_function_of_on_change_raises_about_an_object_that_exists_ends_the_test() -> None:
    class Fails(Quota):
        def __init__(self, handle: Handle) -> None:
            handle.informer(GROUPS).on_change(lambda _, now: now["status"] if now else None)

    class FailsLater(Fails):
        def start(self) -> None: ...

    objects = {GROUPS: [group("g", 2)]}
    what = "the handler of changes of .*: KeyError: 'status'"
    with pytest.raises(PluginError, match=what):
        testing.Cluster(Fails, objects=objects)
    with pytest.raises(PluginError, match=what), testing.Cluster(FailsLater, objects=objects):
        pytest.fail("the plugins have started")


def test_plugins_with_a_start_and_without_are_told_each_in_its_time() -> None:
    class Starts(Quota):
        name = "Starts"
        started = False

        def start(self) -> None:
            self.started = True

    cluster = testing.Cluster(Quota, Starts, objects={GROUPS: [group("g", 2)]})
    quota, starts = cluster.plugins
    assert (len(quota.changes), len(starts.changes)) == (1, 0)
    cluster.filter(testing.make_pod("p"))
    assert starts.changes == []
    with cluster:
        assert (len(quota.changes), len(starts.changes)) == (1, 1)


def test_plugins_are_stopped_though_a_function_of_on_change_raises() -> None:
    calls: list[str] = []

    class Fails(Quota):
        def __init__(self, handle: Handle) -> None:
            handle.informer(GROUPS).on_change(lambda _, now: now["status"] if now else None)

        def start(self) -> None:
            calls.append("start")

        def stop(self) -> None:
            calls.append("stop")

    with (
        pytest.raises(PluginError, match="KeyError"),
        testing.Cluster(Fails, objects={GROUPS: [group("g", 2)]}),
    ):
        pytest.fail("the plugins have started")
    assert calls == ["start", "stop"]


class OpensTogether:
    """Holds pods until the informer of pods shows that the pod ``last`` is on a node."""

    name = "OpensTogether"
    informers = ("pods",)

    def __init__(self, handle: Handle) -> None:
        self._waiting_pods = handle.waiting_pods
        handle.informer("pods").on_change(self._heard)

    def permit(self, state: CycleState, pod: core.Pod, node: str) -> tuple[Status, float] | None:
        return None if pod.name == "last" else (Status.wait(), 60.0)

    def _heard(self, before: KubeObject | None, now: KubeObject | None) -> None:
        if now and now["metadata"]["name"] == "last" and now["spec"].get("nodeName"):
            for held in list(self._waiting_pods):
                held.allow(self.name)


def test_what_a_function_of_on_change_allows_is_bound_when_the_call_returns() -> None:
    cluster = testing.Cluster(OpensTogether, nodes=["a"])
    first = testing.make_pod("first")
    assert cluster.schedule(first).waiting == ("OpensTogether",)
    cluster.schedule(testing.make_pod("last"))
    assert cluster.outcome(first).node == "a"


class SeesAll:
    """Reads pods and nodes by informers, and annotates what it binds."""

    name = "SeesAll"
    informers = ("pods", "nodes")
    needs_pods = True

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self._seen = {each: handle.informer(each) for each in self.informers}
        self.told: list[str] = []
        for informer in self._seen.values():
            informer.on_change(self._heard)

    def reserve(self, state: CycleState, pod: core.Pod, node_name: str) -> None:
        state.annotate(pod, "example.com/gpu", "3")

    def unreserve(self, state: CycleState, pod: core.Pod, node_name: str) -> None: ...

    def seen(self, resource: str) -> list[str]:
        return [each["metadata"]["name"] for each in self._seen[resource].list()]

    def pod(self, name: str) -> KubeObject:
        found = self._seen["pods"].get("default", name)
        assert found is not None
        return found

    def on(self, node: str) -> list[core.Pod]:
        return self._handle.pods(CycleState()).pods_on(node)

    def _heard(self, _before: KubeObject | None, now: KubeObject | None) -> None:
        self.told.append("gone" if now is None else f"{now['kind']} {now['metadata']['name']}")


def test_informers_of_pods_and_nodes_have_those_of_the_cluster() -> None:
    on_a = testing.make_pod("on-a", node_name="a")
    cluster = testing.Cluster(SeesAll, nodes=["a"], pods=[on_a])
    [plugin] = cluster.plugins
    assert (plugin.seen("pods"), plugin.seen("nodes")) == (["on-a"], ["a"])
    cluster.add(testing.make_node("b"))
    cluster.schedule(testing.make_pod("p", annotations={"mine": "1"}))
    assert plugin.seen("nodes") == ["a", "b"]
    assert plugin.pod("p")["spec"]["nodeName"] == "a"
    assert set(plugin.told[:2]) == {"Pod on-a", "Node a"}
    assert plugin.told[2:] == ["Node b", "Pod p", "Pod p"]
    cluster.delete(on_a, testing.make_node("b"))
    assert (plugin.seen("pods"), plugin.seen("nodes")) == (["p"], ["a"])
    assert plugin.told[5:] == ["gone", "gone"]
    with pytest.raises(ValueError, match="the nodes of a Cluster come by its argument nodes"):
        cluster.put("nodes", testing.node_manifest("c"))


def test_a_bound_pod_has_the_annotations_of_its_binding() -> None:
    cluster = testing.Cluster(SeesAll, nodes=["a"])
    [plugin] = cluster.plugins
    cluster.schedule(testing.make_pod("p", annotations={"mine": "1"}))
    [bound] = plugin.on("a")
    assert bound.annotations == {"mine": "1", "example.com/gpu": "3"}
    assert plugin.pod("p")["metadata"]["annotations"] == bound.annotations


def test_an_object_of_an_informer_that_no_plugin_declares_is_an_error_of_the_test() -> None:
    with pytest.raises(KeyError):
        testing.Cluster(NeedsLabel, nodes=NODES).put(GROUPS, group("g", 2))


def test_what_a_handler_raises_reaches_the_test() -> None:
    class Fails(Quota):
        def __init__(self, handle: Handle) -> None:
            handle.informer(GROUPS).add_index("x", lambda group: [group["status"]])

    with pytest.raises(PluginError, match=r"the index x of .*: KeyError: 'status'"):
        testing.Cluster(Fails, nodes=NODES).put(GROUPS, group("g", 2))


def test_a_rejected_pod_is_activated_when_an_object_lets_it_pass() -> None:
    cluster = testing.Cluster(Quota, nodes=NODES, objects={GROUPS: [group("x", 1)]})
    pod, other = (testing.make_pod(name, labels={"group": name}) for name in ("p", "q"))
    assert cluster.schedule(pod).node is None
    assert cluster.schedule(other).node is None
    cluster.put(GROUPS, group("x", 2))
    assert cluster.activated == []
    cluster.put(GROUPS, group("p", 1))
    assert cluster.activated == ["p"]
    assert cluster.schedule(pod).node == "a"


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
