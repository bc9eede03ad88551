"""The ports of Go plugins reject and score nodes as the originals do; their answers are recorded.

The cases are in tests/ports; `python -m tests.ports` asks the originals again.
"""

import asyncio
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

import pytest
from tests.ports.capacity_cases import in_namespaces
from tests.ports.cases import (
    CLUSTERS,
    MEASURED_AT,
    PORTS,
    QUESTIONS,
    cluster_for,
    clusters,
    questions,
)
from tests.ports.gang_cases import OVERCOMMITTED, TENTH, UNCOUNTED
from tests.ports.numa_cases import UNSORTED
from tests.ports.recorded import asked, read

from kubextend import core
from kubextend.framework.cycle_state import CycleState
from kubextend.framework.handle import ClusterPorts, Handle
from kubextend.framework.status import Code
from kubextend.plugins import IN_TREE
from kubextend.plugins.capacity_scheduling import ELASTIC_QUOTAS, CapacityScheduling
from kubextend.plugins.coscheduling import GangArgs
from kubextend.plugins.pod_group_coscheduling import PodGroupCoscheduling
from kubextend.prometheus import Query, Sources, Vector
from kubextend.testing.stand_ins import ListedObjects

MEASURED = {
    "avg_over_time((cpu)[15m:1m])": ("CPU", "AVG"),
    "stddev_over_time((cpu)[15m:1m])": ("CPU", "STD"),
    "avg_over_time((memory)[15m:1m])": ("Memory", "AVG"),
    "stddev_over_time((memory)[15m:1m])": ("Memory", "STD"),
    "cpu_now": ("CPU", "AVG"),
}
PROMETHEUS = {"prometheusAddress": "http://127.0.0.1:9"}
LOAD = PROMETHEUS | {"cpuQuery": "cpu", "memoryQuery": "memory"}
OUR_ARGS = {
    "LoadVariationRiskBalancing": LOAD,
    "LowRiskOverCommitment": LOAD,
    "TargetLoadPacking": PROMETHEUS | {"query": "cpu_now"},
}


class Measurement:
    """A stand-in for a source of numbers from Prometheus, with the numbers of a generated case."""

    def __init__(self, query: Query, metrics: Mapping[str, Any]) -> None:
        kind, operator = MEASURED[query.promql]
        by_node = {
            node: metric["value"]
            for node, measured in metrics["data"]["NodeMetricsMap"].items()
            for metric in measured["metrics"]
            if (metric["type"], metric["operator"]) == (kind, operator)
        }
        self._vector = Vector(by_node, float(MEASURED_AT))

    def latest(self, _time_to_live_s: float) -> Vector:
        return self._vector


class WatchedPods(NamedTuple):
    """The pods of a generated cluster, as a watch would have brought them."""

    store: core.PodStore
    synced: bool = True


class WatchedNodes(NamedTuple):
    """The nodes of a generated cluster, as a watch would have brought them."""

    store: core.NodeStore
    synced: bool = True


class Cluster:
    """A generated cluster as our plugins see it."""

    def __init__(self, cluster: Mapping[str, Any]) -> None:
        self.raw = cluster
        self.names = [node["metadata"]["name"] for node in cluster["nodes"]]
        self.store = core.NodeStore()
        self.store.replace(_list("NodeList", cluster["nodes"]))
        self.nodes = self.store.select(self.names)
        found = cluster.get("objects", {})
        self.informers = ListedObjects(found)
        for resource, manifests in found.items():
            for manifest in manifests:
                self.informers.apply("ADDED", resource, manifest)
        self._pods = core.PodStore(raw=True)
        self._pods.replace(_list("PodList", cluster["pods"]))

    def plugin(self, name: str, args: Mapping[str, Any]) -> Any:
        ports = ClusterPorts(
            pods=WatchedPods(self._pods),  # type: ignore[arg-type]
            nodes=WatchedNodes(self.store),  # type: ignore[arg-type]
            informers=self.informers,
        )
        handle = Handle(None, ports)  # type: ignore[arg-type]
        registered = IN_TREE[name]
        metrics = self.raw["metrics"]
        handle.shared(Sources, lambda: Sources(make=lambda query: Measurement(query, metrics)))  # type: ignore[arg-type,return-value]
        model = registered.args_model
        given = None if model is None else model.model_validate({**OUR_ARGS.get(name, {}), **args})
        return registered.make(given, handle)


def _list(kind: str, items: Any) -> bytes:
    body = {"kind": kind, "metadata": {"resourceVersion": "1"}, "items": items}
    return json.dumps(body).encode()


@cache
def every_cluster(plugin: str = "") -> list[Cluster]:
    """Return the clusters that a plugin is asked about; most plugins share the clusters."""
    common = list(clusters())
    own = [cluster_for(plugin, number, cluster) for number, cluster in enumerate(common)]
    return [Cluster(cluster) for cluster in own] if own != common or not plugin else every_cluster()


class Difference(NamedTuple):
    """Another answer than that of the original about one node."""

    cluster: int
    question: int
    node: int
    go: object
    ours: object


def differences(plugin: str) -> Iterator[Difference]:
    digest, answers = read(plugin)
    every = every_cluster(plugin)
    assert digest == asked(plugin, [cluster.raw for cluster in every]), "python -m tests.ports"
    assert len(answers) == CLUSTERS * QUESTIONS >= 2000
    theirs = iter(answers)
    for number, cluster in enumerate(every):
        for question, (args, pod) in enumerate(questions(plugin, number)):
            go = next(theirs)
            if "rejected" in go:
                go["rejected"] = [reasons or [] for reasons in go["rejected"]]
            made = cluster.plugin(plugin, args)
            asked_about = pod_of(pod)
            ours = (rejected(made, asked_about, cluster), scores(made, asked_about, cluster))
            for mine, recorded in zip(ours, (go.get("rejected"), go.get("scores")), strict=True):
                assert (mine is None) == (recorded is None), (plugin, number, question)
                for node, pair in enumerate(zip(recorded or [], mine or [], strict=True)):
                    if pair[0] != pair[1]:
                        yield Difference(number, question, node, *pair)


def pod_of(body: Mapping[str, Any]) -> core.Pod:
    request = json.dumps({"Pod": body, "Nodes": None, "NodeNames": []}).encode()
    pod = core.read_args(request, core.RequestStore(raw=True)).pod
    assert pod is not None
    return pod


def rejected(plugin: Any, pod: core.Pod, cluster: Cluster) -> list[list[str]] | None:
    """Return the sorted reasons of each node's rejection; None if the plugin does not filter."""
    if not hasattr(plugin, "filter_nodes"):
        return None
    reasons: list[list[str]] = [[] for _ in cluster.names]
    for rejection in plugin.filter_nodes(CycleState(), pod, cluster.nodes):
        for node in rejection.nodes.indices():
            reasons[node] = sorted(rejection.status.reason.split(", "))
    return reasons


def scores(plugin: Any, pod: core.Pod, cluster: Cluster) -> list[int] | None:
    """Return the normalised scores; None if the plugin does not score the pod."""
    state = CycleState()
    if hasattr(plugin, "pre_score"):
        status = plugin.pre_score(state, pod, cluster.nodes)
        if status is not None and status.code is Code.SKIP:
            return None
    found = list(plugin.score_nodes(state, pod, cluster.nodes))
    if hasattr(plugin, "normalize_score"):
        found = list(plugin.normalize_score(state, pod, found))
    return found


OF_THEIR_OWN = {
    "CapacityScheduling",
    "LoadVariationRiskBalancing",
    "LowRiskOverCommitment",
    "NetworkOverhead",
    "NodeResourceTopologyMatch",
    "NodeResourcesFit",
    "PodGroupCoscheduling",
    "TargetLoadPacking",
}


@pytest.mark.parametrize("plugin", sorted(PORTS.keys() - OF_THEIR_OWN))
def test_a_port_decides_as_the_original(plugin: str) -> None:
    assert list(differences(plugin)) == []


def has_sidecar(pod: Mapping[str, Any]) -> bool:
    init_containers = pod["spec"].get("initContainers", ())
    return any(each.get("restartPolicy") == "Always" for each in init_containers)


def asked_about(plugin: str, difference: Difference) -> Mapping[str, Any]:
    """Return the pod of the question in whose answer there is a difference."""
    _, pod = list(questions(plugin, difference.cluster))[difference.question]
    return pod


def sidecars_count(plugin: str, difference: Difference) -> bool:
    """Return whether the pod that is asked about, or one on the node, has a sidecar.

    The originals of 0.33 take a sidecar for an init container that ends, or leave it out.
    """
    cluster = every_cluster()[difference.cluster]
    there = (pod for pod in cluster.raw["pods"] if node_of(pod) == cluster.names[difference.node])
    return has_sidecar(asked_about(plugin, difference)) or any(map(has_sidecar, there))


def without_their_status(pod: Mapping[str, Any], cluster: Cluster, node: int) -> set[str]:
    """Return the devices that a pod requests and of which a node has none in its status.

    kube-scheduler asks dynamic resource allocation about them from 1.36 on; the originals of 1.33
    reject the node.
    """
    containers = [*pod["spec"]["containers"], *pod["spec"].get("initContainers", ())]
    named = {name for each in containers for name in each["resources"]["requests"]}
    return {name for name in named if "/" in name and not cluster.nodes.allocatable(name)[node]}


def test_node_resources_fit_differs_on_nodes_without_the_device_only() -> None:
    left_out = 0
    for each in differences("NodeResourcesFit"):
        pod, cluster = asked_about("NodeResourcesFit", each), every_cluster()[each.cluster]
        absent = without_their_status(pod, cluster, each.node)
        assert isinstance(each.go, list), each
        of_devices = {f"Insufficient {name}" for name in absent}
        assert [reason for reason in each.go if reason not in of_devices] == each.ours, each
        left_out += 1
    assert left_out > 1000


@pytest.mark.parametrize("plugin", ["LoadVariationRiskBalancing", "LowRiskOverCommitment"])
def test_a_port_that_reads_the_load_differs_where_sidecars_count_only(plugin: str) -> None:
    assert [each for each in differences(plugin) if not sidecars_count(plugin, each)] == []


def test_target_load_packing_differs_on_nodes_without_cpu_and_with_sidecars_only() -> None:
    every = every_cluster()
    for each in differences("TargetLoadPacking"):
        # The original takes the use of no CPU for none, and gives the node the best packed score.
        if every[each.cluster].nodes.allocatable("cpu")[each.node] == 0:
            assert each.ours == 0, each
        else:
            assert sidecars_count("TargetLoadPacking", each), each


def limit_exceeded(args: Mapping[str, Any], pod: Any, cluster: Cluster) -> list[str]:
    """Return whether CapacityScheduling rejects a pod for the max or for the sum of min, or not."""
    asked_about, *others = in_namespaces(args, [pod, *cluster.raw["pods"]])
    pods = core.PodStore()
    pods.replace(_list("PodList", others))
    objects = ListedObjects([ELASTIC_QUOTAS])
    for quota in args["quotas"]:
        objects.apply("ADDED", ELASTIC_QUOTAS, quota)
    ports = ClusterPorts(pods=WatchedPods(pods), informers=objects)  # type: ignore[arg-type]
    plugin = CapacityScheduling(Handle(None, ports))  # type: ignore[arg-type]
    status = plugin.pre_filter(CycleState(), pod_of(asked_about), cluster.nodes)
    if status is None:
        return []
    assert status.code is Code.UNSCHEDULABLE
    return ["max" if "max" in status.reason else "min"]


def test_capacity_scheduling_rejects_for_the_limit_for_which_the_original_does() -> None:
    digest, answers = read("CapacityScheduling")
    every = every_cluster()
    assert digest == asked("CapacityScheduling", [c.raw for c in every]), "python -m tests.ports"
    assert len(answers) == CLUSTERS * QUESTIONS >= 2000
    theirs = iter(answers)
    seen = Counter[str]()
    for number, cluster in enumerate(every):
        for question, (args, pod) in enumerate(questions("CapacityScheduling", number)):
            [go] = next(theirs)["rejected"]
            assert limit_exceeded(args, pod, cluster) == go, (number, question)
            seen.update(go or ["none"])
    assert min(seen[limit] for limit in ("max", "min", "none")) > 400, seen


class HeldPod:
    """A pod that Permit holds until the plugin allows it."""

    def __init__(self, uid: str, held: dict[str, "HeldPod"]) -> None:
        self._uid, self._held = uid, held

    def allow(self, plugin: str) -> bool:
        del self._held[self._uid]
        return True


class HeldPods(dict[str, HeldPod]):
    """The pods that Permit holds."""

    def gives_up(self, uid: str) -> bool:
        return False


IN_PRE_FILTER = {
    "pod group has fewer pods than its minimum": "few",
    "cluster lacks minResources of the PodGroup": "resources",
    "there is no PodGroup with a minMember for the pod's label": "no PodGroup",
}


async def gang_verdicts(args: Mapping[str, Any], asked_about: Any, cluster: Cluster) -> list[str]:
    """Return the verdict about a pod, and about each pod of its PodGroup that is on no node."""
    others = cluster.raw["pods"]
    pods = core.PodStore()
    pods.replace(_list("PodList", [asked_about, *others]))
    held = HeldPods()
    ports = ClusterPorts(
        pods=WatchedPods(pods),  # type: ignore[arg-type]
        nodes=WatchedNodes(cluster.store),  # type: ignore[arg-type]
        informers=cluster.informers,
    )
    plugin = PodGroupCoscheduling(
        GangArgs.model_validate(args),
        Handle(held, ports),  # type: ignore[arg-type]
        clock=lambda: 0.0,
    )
    mine = gang_of(asked_about)
    with_it = [pod for pod in others if mine and gang_of(pod) == mine and not node_of(pod)]
    verdicts = []
    for body in [asked_about, *with_it]:
        pod, state = pod_of(body), CycleState()
        rejected = plugin.pre_filter(state, pod, cluster.nodes)
        if rejected is not None:
            assert rejected.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
            verdicts.append(f"PreFilter: {IN_PRE_FILTER[rejected.reason]}")
            continue
        # kube-scheduler assumes the pod before it asks Permit.
        pods.assume(pod, cluster.names[0])
        waited_before = len(held)
        said = await plugin.permit(state, pod, cluster.names[0])
        if isinstance(said, tuple):
            assert said[0].code is Code.WAIT
            held[pod.uid] = HeldPod(pod.uid, held)
            verdicts.append(f"Permit: waits {said[1]:.0f}")
        else:
            assert said.code is Code.SUCCESS
            verdicts.append(f"Permit: runs with {waited_before - len(held)}")
    return verdicts


def gang_of(pod: Any) -> tuple[str, str] | None:
    metadata = pod["metadata"]
    name = metadata.get("labels", {}).get("scheduling.x-k8s.io/pod-group")
    return (metadata["namespace"], name) if name else None


def node_of(pod: Any) -> str:
    return str(pod["spec"].get("nodeName", ""))


class Gang(NamedTuple):
    """What was said about the pods of a PodGroup that have no node, in order."""

    cluster: int
    go: list[str]
    ours: list[str]


@cache
def gangs() -> list[Gang]:
    plugin = "PodGroupCoscheduling"
    digest, answers = read(plugin)
    every = every_cluster(plugin)
    assert digest == asked(plugin, [cluster.raw for cluster in every]), "python -m tests.ports"
    assert len(answers) == CLUSTERS * QUESTIONS >= 2000
    theirs = iter(answers)
    return [
        Gang(number, next(theirs)["verdicts"], asyncio.run(gang_verdicts(args, pod, cluster)))
        for number, cluster in enumerate(every)
        for args, pod in questions(plugin, number)
    ]


def test_gangs_wait_and_run_as_with_the_original() -> None:
    differ = Counter[str]()
    for each in gangs():
        go = [verdict.replace("Permit: no", "PreFilter: no") for verdict in each.go]
        if go == each.ours:
            continue
        kind = each.cluster % TENTH
        # The original takes what a node lacks from what other nodes have left.
        # It counts pods that can get no node.
        assert kind in {OVERCOMMITTED, UNCOUNTED}, each
        differ[{OVERCOMMITTED: "overcommitted", UNCOUNTED: "uncounted"}[kind]] += 1
    assert differ == {"uncounted": 38, "overcommitted": 8}


def test_the_cases_of_gangs_have_every_verdict_often() -> None:
    seen = Counter(verdict.rstrip(" 0123456789") for each in gangs() for verdict in each.go)
    assert seen.keys() == {
        "PreFilter: few",
        "PreFilter: resources",
        "Permit: no PodGroup",
        "Permit: waits",
        "Permit: runs with",
    }
    assert min(seen.values()) > 300, seen


def test_node_resource_topology_match_differs_in_what_its_page_lists_only() -> None:
    plugin = "NodeResourceTopologyMatch"
    unsorted = 0
    for each in differences(plugin):
        args, pod = list(questions(plugin, each.cluster))[each.question]
        cluster = every_cluster(plugin)[each.cluster]
        absent = without_their_status(pod, cluster, each.node)
        if absent or has_sidecar(pod):
            # For a device without a status, fewer nodes are rejected than by the original, for a
            # sidecar more; the scores may be others.
            is_score = isinstance(each.ours, int)
            assert is_score or (absent and each.go) or (has_sidecar(pod) and each.ours), each
            continue
        # The original takes the number of a zone for its place in the list.
        assert each.cluster % UNSORTED == 0, each
        assert args["scoringStrategy"]["type"] == "LeastNUMANodes", each
        assert isinstance(each.ours, int), each
        unsorted += 1
    assert unsorted == 3


def test_network_overhead_differs_in_the_words_of_its_reason_only() -> None:
    rejected = 0
    for each in differences("NetworkOverhead"):
        assert isinstance(each.go, list), each
        [reason] = each.go
        assert " does not meet several network requirements from Workload" in reason
        assert each.ours == ["node is too far from pods that the pod depends on"]
        rejected += 1
    assert rejected > 10_000


def test_clusters_have_5_to_200_nodes_and_pods_in_every_state() -> None:
    sizes = [len(cluster.names) for cluster in every_cluster()]
    assert (min(sizes), max(sizes)) == (5, 200)
