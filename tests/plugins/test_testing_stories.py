"""Stories in a cluster: plugins that count, profiles of a configuration, starts, slow plugins."""

import asyncio
import gc
import threading
from typing import Any

import pytest
from tests.doors import command_line
from tests.doors.stories import WAIT, Plugin, configuration, longest_call, stop_here
from tests.doors.wire import answers

from kubextend import core, testing
from kubextend.config import Configuration
from kubextend.errors import ConfigError, KubextendError
from kubextend.framework import CycleState, Handle, Status


class OnePod:
    """Lets one pod into a namespace, and looks for it at one extension point; Permit holds pods."""

    name = "OnePod"
    needs_pods = True

    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    def verdict(self, state: CycleState, pod: core.Pod) -> Status | None:
        pods = self._handle.pods(state)
        assert pods is not None
        full = pods.requested_in(pod.namespace).get("cpu", 0) > 0
        return Status.unschedulable("the namespace has a pod") if full else None


class OnePodInPreFilter(OnePod):
    def pre_filter(self, state: CycleState, pod: core.Pod, nodes: core.Nodes) -> Status | None:
        return self.verdict(state, pod)


class OnePodInFilter(OnePod):
    def filter(self, state: CycleState, pod: core.Pod, node: core.NodeInfo) -> Status | None:
        return self.verdict(state, pod)


async def takes_long(*_: object) -> None:
    await asyncio.sleep(20)


HOLDS = {
    "permit": Plugin("Holds", permit=answers(WAIT)),
    "reserve": Plugin("Holds", reserve=takes_long, unreserve=answers(None)),
    "pre_bind": Plugin("Holds", pre_bind=takes_long),
}
COUNTING = [OnePodInPreFilter, OnePodInFilter]


@pytest.mark.parametrize("kind", COUNTING)
@pytest.mark.parametrize("group", [None, {"podGroupName": "g"}])
def test_of_two_pods_decided_before_either_is_bound_one_is_bound(kind: Any, group: object) -> None:
    more = {} if group is None else {"schedulingGroup": group}
    pods = [testing.make_pod(name, requests={"cpu": "1"}, **more) for name in "ab"]
    cluster = testing.Cluster(kind, nodes=["n", "m"], pods=pods)
    kept = [cluster.filter(pod).kept for pod in pods]
    for pod, nodes in zip(pods, kept, strict=True):
        if nodes:
            cluster.bind(pod, nodes[0])
    cluster.advance(10)
    assert list(cluster.bindings.nodes) == [pods[0].uid]


@pytest.mark.parametrize("kind", COUNTING)
@pytest.mark.parametrize("holds", HOLDS)
def test_a_pod_is_not_rejected_because_of_itself_during_its_bind(
    kind: type[OnePod], holds: str
) -> None:
    """A new kube-scheduler asks while the bind request of the one before it is still open."""
    pod = testing.make_pod("a", requests={"cpu": "1"})
    cluster = testing.Cluster(kind, HOLDS[holds], nodes=["n", "m"], pods=[pod])
    assert cluster.filter(pod).kept == ("n", "m")
    assert not cluster.bind(pod, "n").answered
    assert cluster.filter(pod).kept == ("n", "m")
    victims = {"n": ["u"], "m": ["v"]}
    assert cluster.preempt(pod, victims) == victims
    assert not cluster.filter(testing.make_pod("b", requests={"cpu": "1"})).kept


@pytest.mark.parametrize("kind", COUNTING)
def test_a_member_of_a_pod_group_is_not_rejected_because_of_itself(kind: type[OnePod]) -> None:
    more = {"schedulingGroup": {"podGroupName": "g"}}
    pod, other = (testing.make_pod(name, requests={"cpu": "1"}, **more) for name in "ab")
    cluster = testing.Cluster(kind, HOLDS["permit"], nodes=["n", "m"], pods=[pod, other])
    # A member is offered one node.
    (place,) = cluster.filter(pod).kept
    assert cluster.bind(pod, place).waiting == ("Holds",)
    assert len(cluster.filter(pod).kept) == 1
    assert not cluster.filter(other).kept


class CountsInScore(OnePodInFilter):
    def __init__(self, handle: Handle) -> None:
        super().__init__(handle)
        self.seen: list[int] = []

    def score_nodes(self, state: CycleState, pod: core.Pod, nodes: core.Nodes) -> list[int]:
        pods = self._handle.pods(state)
        assert pods is not None
        self.seen.append(pods.requested_in(pod.namespace).get("cpu", 0))
        return [0] * len(nodes)


def test_score_counts_the_pods_that_are_on_nodes_when_it_runs() -> None:
    held, other = (testing.make_pod(name, requests={"cpu": "1"}) for name in "ab")
    cluster = testing.Cluster(CountsInScore, HOLDS["permit"], nodes=["n", "m"], pods=[held])
    cluster.bind(held, "n")
    # Filter leaves out the pod that it judges; prioritize comes later, when all count.
    assert cluster.filter(held).kept == ("n", "m")
    cluster.prioritize(held)
    cluster.prioritize(other)
    assert cluster.plugins[0].seen == [1000, 1000]


class Zone:
    """Keeps the nodes of one zone, and says who was asked."""

    name = "Zone"

    def __init__(self, handle: Any) -> None:
        self.handle = handle
        self.broken = False

    def filter(self, state: CycleState, pod: core.Pod, node: core.NodeInfo) -> Status | None:
        if self.broken:
            raise LookupError
        return None if node.label("zone") == "a" else Status.unschedulable("another zone")


class Prefers:
    name = "Prefers"

    def score(self, state: CycleState, pod: core.Pod, node: core.NodeInfo) -> int:
        return 100 if node.label("fast") else 0


def of_scheduler(*names: str) -> list[core.Pod]:
    return [testing.make_pod(name, scheduler_name=name) for name in names]


def profiles() -> Configuration:
    ignores = {"pluginConfig": [{"name": "Zone", "failurePolicy": "Ignore"}]}
    tree = [
        command_line.profile("strict", multiPoint="Zone"),
        command_line.profile("lenient", multiPoint="Zone") | ignores,
        command_line.profile("fast", multiPoint="Prefers"),
    ]
    return configuration({"profiles": tree}, Zone, Prefers)


def test_each_pod_of_a_configuration_meets_the_plugins_of_its_profile() -> None:
    nodes = {"n1": {"zone": "b"}, "n2": {"zone": "a"}, "n3": {"fast": "yes"}}
    cluster = testing.Cluster(profiles(), nodes=nodes)
    strict, fast, other = of_scheduler("strict", "fast", "other")
    elsewhere = {"n1": "another zone", "n3": "another zone"}
    assert cluster.schedule(strict) == testing.Outcome("n2", rejected=elsewhere)
    assert cluster.schedule(fast).node == "n3"
    outcome = cluster.schedule(other)
    assert (outcome.node, outcome.rejected.keys()) == (None, {"n1", "n2", "n3"})
    assert cluster.plugins[0].handle.configuration.profiles[0].scheduler_name == "strict"


def test_a_plugin_with_failure_policy_ignore_fails_without_an_error() -> None:
    cluster = testing.Cluster(profiles(), nodes={"n1": {"zone": "b"}})
    for plugin in cluster.plugins[:2]:
        plugin.broken = True
    lenient, strict = of_scheduler("lenient", "strict")
    assert cluster.schedule(lenient) == testing.Outcome("n1")
    assert "failed" in cluster.schedule(strict).error
    assert [type(failure.__cause__) for failure in cluster.failures] == [LookupError] * 2


def test_a_configuration_is_given_alone() -> None:
    with pytest.raises(ValueError, match="give it alone"):
        testing.Cluster(profiles(), Zone)
    with pytest.raises(ValueError, match="give it alone"):
        testing.Cluster(profiles(), weights={"Zone": 2})


def test_what_a_configuration_file_refuses_a_cluster_refuses() -> None:
    methods = {"__init__": lambda self, args: None, "filter": answers(None)}
    wants = type("Wants", (), {"name": "Wants", **methods})
    with pytest.raises(ConfigError, match="Zone takes no arguments"):
        testing.Cluster(Zone, args={"Zone": {"zone": "a"}})
    with pytest.raises(KubextendError, match='plugin "Wants" cannot be made'):
        testing.Cluster(wants)
    with pytest.raises(KeyError, match="services"):
        testing.Cluster(Zone, objects={"services": [{"metadata": {"name": "x"}}]})


class Works:
    """Works in the background: is started, and says so at filter."""

    name = "Works"

    def __init__(self, handle: Any = None, failures: int = 0) -> None:
        self.steps: list[str] = []
        self.failures = failures

    def start(self) -> None:
        self.steps.append("start")
        if self.steps.count("start") <= self.failures:
            raise ConnectionError

    def stop(self) -> None:
        self.steps.append("stop")

    def filter(self, state: CycleState, pod: core.Pod, node: core.NodeInfo) -> None:
        self.steps.append("filter")


class WorksAsync(Works):
    async def start(self) -> None:  # type: ignore[override]
        await asyncio.sleep(0)
        super().start()

    async def stop(self) -> None:  # type: ignore[override]
        await asyncio.to_thread(super().stop)


@pytest.mark.parametrize("kind", [Works, WorksAsync])
def test_a_with_statement_starts_and_stops_the_plugins(kind: type[Works]) -> None:
    with testing.Cluster(kind, nodes=1) as cluster:
        [plugin] = cluster.plugins
        assert cluster.schedule(testing.make_pod()).node == "node-0"
    assert plugin.steps == ["start", "filter", "stop"]
    [plugin] = testing.Cluster(kind).plugins
    assert plugin.steps == []


@pytest.mark.parametrize("kind", [Works, WorksAsync])
def test_a_start_that_fails_is_repeated_and_nobody_is_asked_meanwhile(kind: type[Works]) -> None:
    with testing.Cluster(kind(failures=5), nodes=1) as cluster:
        [plugin], pod = cluster.plugins, testing.make_pod()
        for starts, pause_s in enumerate((0, 5, 10, 20, 30), start=1):
            cluster.advance(pause_s)
            assert "Works" in cluster.schedule(pod).error
            assert plugin.steps == ["start"] * starts
        cluster.advance(29)
        assert cluster.schedule(pod).error
        cluster.advance(1)
        assert cluster.schedule(pod).node == "node-0"
    assert [failure.extension_point for failure in cluster.failures] == ["Start"] * 5
    assert isinstance(cluster.failures[0].__cause__, ConnectionError)


PAIR = ("reserve", "unreserve")


def test_the_end_of_a_with_statement_ends_what_permit_holds() -> None:
    methods = {each: lambda self, *_, each=each: self.steps.append(each) for each in PAIR}
    holds = type("Holds", (Works,), {**methods, "permit": answers(WAIT)})
    with testing.Cluster(holds, nodes=1) as cluster:
        pod = testing.make_pod()
        assert cluster.schedule(pod).waiting == ("Works",)
    assert cluster.plugins[0].steps == ["start", "filter", "reserve", "unreserve", "stop"]
    assert cluster.outcome(pod).error == "the test ends"


class Slow:
    """Takes seconds of the test's time, and a thread, before a pod is bound."""

    name = "Slow"

    async def pre_bind(self, state: CycleState, pod: core.Pod, node_name: str) -> None:
        for _ in range(2):
            await asyncio.sleep(float(pod.labels["seconds"]) / 2)
        await asyncio.to_thread(str)


def test_an_async_method_takes_the_time_of_the_test() -> None:
    cluster = testing.Cluster(Slow)
    quick = testing.make_pod("quick", labels={"seconds": "0"})
    slow = testing.make_pod("slow", labels={"seconds": "3"})
    assert cluster.schedule(quick).node == "node-0"
    assert cluster.schedule(slow) == testing.Outcome(answered=False)
    cluster.advance(2.5)
    assert cluster.outcome(slow) == testing.Outcome(answered=False)
    cluster.advance(0.5)
    assert cluster.outcome(slow).node == "node-0"
    assert cluster.now_s == 1003.0


def test_an_async_method_that_takes_longer_than_a_bind_may_is_given_up() -> None:
    cluster = testing.Cluster(Slow)
    pod = testing.make_pod(labels={"seconds": "1000"})
    cluster.schedule(pod)
    cluster.advance(119)
    assert "Slow" in cluster.outcome(pod).error


def test_a_method_that_never_returns_ends_the_test() -> None:
    done = threading.Event()

    cluster = testing.Cluster(Plugin(pre_bind=lambda *_: stop_here(done)))
    pod = testing.make_pod()
    with longest_call(0.01), pytest.raises(TimeoutError, match=r"not returned for 0\.01 s"):
        cluster.schedule(pod)
    done.set()
    cluster.advance()
    assert cluster.outcome(pod).node == "node-0"


def test_two_clusters_of_one_test_have_nothing_in_common() -> None:
    one, other = (testing.Cluster(Works) for _ in range(2))
    one.advance(10)
    assert (one.now_s - other.now_s, one.plugins[0] is other.plugins[0]) == (10, False)
    pod = testing.make_pod()
    assert [cluster.schedule(pod).node for cluster in (one, other)] == ["node-0"] * 2


def test_a_running_event_loop_is_said_to_be_in_the_way() -> None:
    async def scenario() -> None:
        testing.Cluster(Slow).schedule(testing.make_pod(labels={"seconds": "0"}))

    with pytest.raises(RuntimeError, match="another loop is running"):
        asyncio.run(scenario())
    # A task that nobody can run would be reported in some later test.
    gc.collect()
