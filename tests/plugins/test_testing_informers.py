"""A cluster gives plugins the objects of their informers, and tells of changes at once."""

from typing import Any

import pytest
from tests.doors.stories import Plugin

from kubextend import core, testing
from kubextend.errors import PluginError
from kubextend.framework import CycleState, Handle, KubeObject, Status

NODES = ["a", "b", "c"]
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
    (came, _), (_, gone) = cluster.plugins[0].changes
    assert (came, gone) == (None, None)


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


def test_what_a_handler_of_changes_raises_about_an_object_ends_the_test_and_plugins() -> None:
    calls: list[str] = []

    class Fails(Quota):
        def __init__(self, handle: Handle) -> None:
            handle.informer(GROUPS).on_change(lambda _, now: now["status"] if now else None)

    class FailsLater(Fails):
        def start(self) -> None:
            calls.append("start")

        def stop(self) -> None:
            calls.append("stop")

    objects = {GROUPS: [group("g", 2)]}
    what = "the handler of changes of .*: KeyError: 'status'"
    with pytest.raises(PluginError, match=what):
        testing.Cluster(Fails, objects=objects)
    with pytest.raises(PluginError, match=what), testing.Cluster(FailsLater, objects=objects):
        pytest.fail("the plugins have started")
    assert calls == ["start", "stop"]


def test_plugins_with_a_start_and_without_are_told_each_in_its_time() -> None:
    class Starts(Quota):
        name = "Starts"
        started = False

        def start(self) -> None:
            self.started = True

    cluster = testing.Cluster(Quota, Starts, objects={GROUPS: [group("g", 2)]})
    quota, starts = cluster.plugins
    [(before, now)] = quota.changes
    assert (before, now["metadata"]["name"], starts.changes) == (None, "g", [])
    cluster.filter(testing.make_pod("p"))
    assert starts.changes == []
    with cluster:
        assert (len(quota.changes), len(starts.changes)) == (1, 1)


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
        testing.Cluster(Plugin(filter=lambda *_: None)).put(GROUPS, group("g", 2))


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
