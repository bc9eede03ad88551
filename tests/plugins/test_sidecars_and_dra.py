"""Dynamic resource allocation (DRA) and sidecars, written from kube-scheduler 1.37 and its kubelet.

A sidecar is an init container with ``restartPolicy: Always``.
"""

import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pytest
from tests.doors.stories import configuration

from kubextend import core, testing
from kubextend.plugins import (
    CapacityScheduling,
    NodeResourcesFit,
    NodeResourceTopologyMatch,
    PodGroupCoscheduling,
    TargetLoadPacking,
)

CARD = "example.com/card"
OF_A_CLASS = "deviceclass.resource.kubernetes.io/card"
HUGE = "hugepages-2Mi"
TOPOLOGIES = "topology.node.k8s.io/v1alpha2/noderesourcetopologies"
POD_GROUPS = "scheduling.x-k8s.io/v1alpha1/podgroups"
QUOTAS = "scheduling.x-k8s.io/v1alpha1/elasticquotas"
NAMES = {"card": CARD, "huge": HUGE}
NUMA = NodeResourceTopologyMatch.name


def container(name: str = "c", *, sidecar: bool = False, **amounts: str) -> dict[str, Any]:
    """Return a container with equal requests and limits; ``CARD`` is written as ``card``."""
    named = {NAMES.get(key, key): value for key, value in amounts.items()}
    made = {"name": name, "image": "x", "resources": {"requests": named, "limits": named}}
    return made | ({"restartPolicy": "Always"} if sidecar else {})


def wanting(resource: str, amount: str = "1") -> Any:
    asked = container(cpu="1", memory="1Gi", **{resource: amount})
    return testing.pod_manifest("p", uid="uid-p", containers=[asked])


def node_with(name: str = "n", **allocatable: str | None) -> Any:
    """Return a node with these amounts in its status, without those that are None."""
    told = {NAMES.get(key, key): of for key, of in allocatable.items() if of is not None}
    return testing.node_manifest(name, allocatable=told)


# Extended resources that DRA serves.


def zones(*free: Mapping[str, str], policy: str = "single-numa-node", scope: str = "pod") -> Any:
    """Return the NodeResourceTopology of the node ``n`` with zones that have these amounts free."""
    listed = []
    for number, of in enumerate(free):
        resources = [{"name": name, "available": amount} for name, amount in of.items()]
        listed.append({"name": f"node-{number}", "type": "Node", "resources": resources})
    attributes = [
        {"name": "topologyManagerPolicy", "value": policy},
        {"name": "topologyManagerScope", "value": scope},
    ]
    return {"metadata": {"name": "n"}, "zones": listed, "attributes": attributes}


def numa(found: Any, *nodes: Any, strategy: str = "LeastAllocated") -> testing.Cluster:
    """Return a cluster with the NodeResourceTopology of ``n``; its answers are the scores."""
    return testing.Cluster(
        NodeResourceTopologyMatch,
        nodes=nodes or ["n", "m"],
        objects={TOPOLOGIES: [found]},
        args={NUMA: {"scoringStrategy": {"type": strategy}}},
        weights={NUMA: 10},
    )


ROOMY = {"cpu": "8", "memory": "32Gi"}


@pytest.mark.parametrize(
    ("resource", "status", "requested", "rejected"),
    [
        # kube-scheduler's fit.go, shouldDelegateResourceToDRA: nothing in allocatable, or 0.
        (CARD, None, "1", ""),
        (CARD, "0", "1", ""),
        (CARD, "1", "1", ""),
        (CARD, "1", "2", "Insufficient example.com/card"),
        # The name that each DeviceClass has by itself.
        (OF_A_CLASS, None, "1", ""),
        (OF_A_CLASS, "1", "2", f"Insufficient {OF_A_CLASS}"),
        # DRA serves none of Kubernetes' own resources.
        (HUGE, None, "2Mi", "Insufficient hugepages-2Mi"),
        (HUGE, "0", "2Mi", "Insufficient hugepages-2Mi"),
        ("example.kubernetes.io/card", None, "1", "Insufficient example.kubernetes.io/card"),
    ],
)
def test_node_resources_fit_leaves_what_a_node_has_not_in_its_status_to_kube_scheduler(
    resource: str, status: str | None, requested: str, rejected: str
) -> None:
    cluster = testing.Cluster(NodeResourcesFit, nodes=[node_with(**{resource: status})])
    found = cluster.filter(wanting(resource, requested)).rejected
    assert found == ({"n": rejected} if rejected else {})


def test_node_resources_fit_decides_about_each_node_by_its_own_status() -> None:
    nodes = [node_with("by-dra"), node_with("free", card="1"), node_with("used", card="1")]
    there = testing.pod_manifest("q", uid="uid-q", node_name="used", requests={CARD: "1"})
    cluster = testing.Cluster(NodeResourcesFit, nodes=nodes, pods=[there])
    assert cluster.filter(wanting(CARD)).kept == ("by-dra", "free")


def test_an_init_container_may_ask_for_what_dra_serves() -> None:
    asked = testing.pod_manifest(
        "p",
        initContainers=[container("i", card="2"), container("s", card="1", sidecar=True)],
        containers=[container(cpu="1")],
    )
    assert testing.run_filter(NodeResourcesFit, asked, [node_with()]).rejected == {}


def test_preempt_keeps_the_node_of_a_pod_that_asks_for_what_dra_serves() -> None:
    victim = testing.pod_manifest("v", uid="uid-v", node_name="n", requests={"cpu": "1"})
    cluster = testing.Cluster(NodeResourcesFit, nodes=[node_with(cpu="1")], pods=[victim])
    assert cluster.preempt(wanting(CARD), {"n": ["uid-v"]}) == {"n": ["uid-v"]}
    assert cluster.preempt(wanting(HUGE, "2Mi"), {"n": ["uid-v"]}) == {}


@pytest.mark.parametrize("scope", ["pod", "container"])
@pytest.mark.parametrize(
    ("resource", "status", "of_zone", "rejected"),
    [
        (CARD, None, {}, False),
        (CARD, "0", {}, False),
        (CARD, None, {CARD: "0"}, False),
        (OF_A_CLASS, None, {}, False),
        # A device plugin serves it: the zone has none free.
        (CARD, "1", {CARD: "0"}, True),
        (CARD, "1", {CARD: "1"}, False),
        (HUGE, None, {}, True),
    ],
)
def test_numa_zones_need_no_room_for_what_the_node_has_not_in_its_status(
    scope: str, resource: str, status: str | None, of_zone: Mapping[str, str], rejected: bool
) -> None:
    cluster = numa(zones({**ROOMY, **of_zone}, scope=scope), node_with(**{resource: status}))
    kept = cluster.filter(wanting(resource, "2Mi" if resource == HUGE else "1")).kept
    assert kept == (() if rejected else ("n",))


def test_a_best_effort_pod_may_ask_for_what_dra_serves() -> None:
    asked = testing.pod_manifest("p", containers=[container(card="1")])
    assert numa(zones({"cpu": "8"}), "n").filter(asked).kept == ("n",)


@pytest.mark.parametrize("strategy", ["LeastAllocated", "BalancedAllocation", "LeastNUMANodes"])
def test_what_dra_serves_counts_in_no_score_of_a_numa_zone(strategy: str) -> None:
    cluster = numa(zones(*[{"cpu": "4", "memory": "2Gi"}] * 2), strategy=strategy)
    plain = testing.pod_manifest("q", containers=[container(cpu="1", memory="1Gi")])
    assert cluster.prioritize(wanting(CARD)) == cluster.prioritize(plain)
    assert cluster.prioritize(plain)["n"] > 0


@pytest.mark.parametrize(
    ("least", "cards", "rejected"),
    [
        ({CARD: "4"}, (), False),
        ({CARD: "4"}, ("0", "0"), False),
        ({OF_A_CLASS: "4"}, (), False),
        ({CARD: "4"}, ("4",), False),
        ({CARD: "4"}, ("2", "1"), True),
        ({HUGE: "2Mi"}, (), True),
        ({CARD: "4", "cpu": "9999"}, (), True),
    ],
)
def test_min_resources_may_name_what_no_node_has_in_its_status(
    least: Mapping[str, str], cards: Sequence[str], rejected: bool
) -> None:
    nodes = [node_with(f"n{at}", card=amount) for at, amount in enumerate(cards)] or [node_with()]
    labels = {"scheduling.x-k8s.io/pod-group": "g"}
    asked = testing.pod_manifest("p", uid="uid-p", namespace="ml", labels=labels)
    spec = {"minMember": 1, "minResources": dict(least)}
    found = {POD_GROUPS: [{"metadata": {"name": "g", "namespace": "ml"}, "spec": spec}]}
    cluster = testing.Cluster(PodGroupCoscheduling, nodes=nodes, pods=[asked], objects=found)
    reasons = set(cluster.filter(asked).rejected.values())
    assert reasons == ({"cluster lacks minResources of the PodGroup"} if rejected else set())


FIT = {
    "profiles": [
        {
            "schedulerName": "default-scheduler",
            "plugins": {"filter": {"enabled": [{"name": "NodeResourcesFit"}]}},
            "pluginConfig": [{"name": "NodeResourcesFit", "args": {"ignoredResources": [CARD]}}],
        }
    ]
}
BINDS_ALONE = {
    "extender": {"bind": True, "managedResources": [{"name": CARD, "ignoredByScheduler": True}]},
    "profiles": [{"schedulerName": "default-scheduler"}],
}


@pytest.mark.parametrize("sections", [FIT, BINDS_ALONE], ids=["by-a-plugin", "by-kube-scheduler"])
@pytest.mark.parametrize(
    ("status", "lacks"), [(None, ""), ("1", f"Insufficient {CARD}"), ("2", "")]
)
def test_the_guard_looks_at_an_ignored_resource_as_the_kubelet_does(
    status: str | None, lacks: str, sections: Mapping[str, Any]
) -> None:
    """The guard leaves out only what the node does not list, and knows no ignored resources.

    Source: kubernetes v1.37 pkg/kubelet/lifecycle/predicate.go removeMissingExtendedResources
    """
    made = configuration({"guard": {"resources": True}, **sections})
    cluster = testing.Cluster(made, nodes=[node_with(card=status)])
    outcome = cluster.schedule(wanting(CARD, "2"))
    refused_by_guard = f"the node has no room left for the pod: {lacks}"
    assert (outcome.node, outcome.error) == (("n", "") if not lacks else (None, refused_by_guard))


@pytest.mark.parametrize(
    ("resource", "ignored"), [(CARD, True), (OF_A_CLASS, False)], ids=["extended", "of a class"]
)
def test_only_extended_resources_can_be_ignored(resource: str, ignored: bool) -> None:
    # kubernetes v1.37 noderesources/fit.go asks IsExtendedResourceName before ignoredResources.
    args = {"ignoredResources": [resource]}
    nodes = [testing.node_manifest("n", allocatable={resource: "1"})]
    cluster = testing.Cluster(NodeResourcesFit, args={NodeResourcesFit.name: args}, nodes=nodes)
    assert cluster.filter(wanting(resource, "2")).rejected == (
        {} if ignored else {"n": f"Insufficient {resource}"}
    )


def test_dra_may_serve_extended_resources_and_those_of_device_classes() -> None:
    # kubernetes pkg/scheduler/util IsDRAExtendedResourceName
    own = ("cpu", "pods", "hugepages-1Gi", "attachable-volumes-aws-ebs")
    others = ("resource.kubernetes.io/card", "node.kubernetes.io/card")
    assert not any(core.is_dra_extended_resource(name) for name in (*own, *others))
    assert all(core.is_dra_extended_resource(name) for name in (CARD, OF_A_CLASS))


# Sidecars.


def guaranteed(init: Sequence[Mapping[str, Any]], apps: Sequence[Mapping[str, Any]]) -> Any:
    """Return a Guaranteed pod; each container has cpu and, if none is given, 1Gi of memory."""
    made = [
        [container(f"{kind}{at}", **{"memory": "1Gi", **each}) for at, each in enumerate(of)]
        for kind, of in (("i", init), ("a", apps))
    ]
    return testing.pod_manifest(
        "p", initContainers=made[0], containers=made[1], status={"qosClass": "Guaranteed"}
    )


def init(cpu: str, **more: Any) -> dict[str, Any]:
    return {"cpu": cpu, **more}


def sidecar(cpu: str, **more: Any) -> dict[str, Any]:
    return {"cpu": cpu, "sidecar": True, **more}


def refused(scope: str, pod: Any, *free: Mapping[str, str], **allocatable: str) -> str:
    rejected = numa(zones(*free, scope=scope), node_with(**allocatable)).filter(pod).rejected
    return rejected.get("n", "")


FOUR = {"cpu": "4", "memory": "16Gi"}


@pytest.mark.parametrize(
    ("before", "apps", "rejected"),
    [
        # Two zones with 4 free CPUs. cpumanager/policy_static.go podGuaranteedCPUs
        ([sidecar("2")], ["3"], True),
        ([sidecar("2")], ["2"], False),
        ([sidecar("1"), sidecar("1")], ["3"], True),
        ([sidecar("1"), sidecar("1")], ["2"], False),
        # An ordinary init container ends: the most that is needed at one time counts.
        ([init("4"), sidecar("2")], ["2"], False),
        ([init("4")], ["4"], False),
        ([sidecar("2"), init("3")], ["1"], True),
        ([sidecar("2"), init("2")], ["1"], False),
        ([init("3"), sidecar("2")], ["1"], False),
        ([sidecar("1"), init("2"), sidecar("1"), init("3")], ["1"], True),
        ([sidecar("1"), init("3"), sidecar("1"), init("2")], ["2"], False),
        # Memory and devices as CPUs.
        ([sidecar("1", memory="10Gi")], ["1"], False),
        ([sidecar("1", memory="15Gi")], ["1", "1"], True),
        ([sidecar("1", card="1")], ["1"], False),
        ([sidecar("1", card="2")], ["1"], True),
    ],
)
def test_a_sidecar_keeps_what_it_has_while_the_pod_runs_in_the_scope_pod(
    before: Sequence[Mapping[str, Any]], apps: Sequence[str], rejected: bool
) -> None:
    pod = guaranteed(before, [{"cpu": cpu} for cpu in apps])
    of_zone = {**FOUR, CARD: "1"}
    found = refused("pod", pod, of_zone, of_zone, card="2")
    assert found == ("cannot align pod" if rejected else "")


@pytest.mark.parametrize(
    ("before", "apps", "rejected"),
    [
        # Two zones with 4 free CPUs: each container has one zone, in the order of their start.
        ([sidecar("3")], ["3"], ""),
        ([sidecar("3")], ["3", "3"], "container"),
        ([sidecar("3"), sidecar("3")], ["2"], "container"),
        ([sidecar("3"), sidecar("3"), sidecar("3")], ["1"], "sidecar container"),
        ([sidecar("3"), sidecar("3")], ["1", "1"], ""),
        # An ordinary init container needs room beside the sidecars before it, and leaves it.
        ([init("4"), sidecar("4")], ["4"], ""),
        ([init("4"), init("4"), init("4")], ["4", "4"], ""),
        ([sidecar("3"), sidecar("3"), init("2")], ["1"], "init container"),
        ([init("4"), sidecar("3"), sidecar("3")], ["1", "1"], ""),
        # Memory and devices as CPUs.
        ([sidecar("1", memory="16Gi")], ["1"], ""),
        ([sidecar("1", memory="15500Mi"), sidecar("1", memory="15500Mi")], ["1"], "container"),
        ([sidecar("1", card="1"), sidecar("1", card="1")], ["1"], ""),
        (
            [sidecar("1", card="1"), sidecar("1", card="1"), init("1", card="1")],
            ["1"],
            "init container",
        ),
    ],
)
def test_a_sidecar_keeps_what_it_has_while_the_pod_runs_in_the_scope_container(
    before: Sequence[Mapping[str, Any]], apps: Sequence[str], rejected: str
) -> None:
    pod = guaranteed(before, [{"cpu": cpu} for cpu in apps])
    of_zone = {**FOUR, CARD: "1"}
    found = refused("container", pod, of_zone, of_zone, card="2")
    assert found == (f"cannot align {rejected}" if rejected else "")


def most_at_one_time(before: Sequence[tuple[bool, int]], apps: Iterable[int]) -> int:
    """Return the most CPUs that a pod needs, by looking at each moment of its life."""
    moments = []
    for at, (_, cpu) in enumerate(before):
        moments.append(sum(each for is_sidecar, each in before[:at] if is_sidecar) + cpu)
    moments.append(sum(cpu for is_sidecar, cpu in before if is_sidecar) + sum(apps))
    return max(moments)


def test_a_zone_needs_the_most_that_a_pod_needs_at_one_time() -> None:
    draw = random.Random(37)
    seen = Counter[bool]()
    for _ in range(60):
        before = [(draw.random() < 0.5, draw.randint(1, 4)) for _ in range(draw.randint(0, 4))]
        apps = [draw.randint(1, 3) for _ in range(draw.randint(1, 3))]
        made = [{"cpu": str(cpu), "sidecar": is_sidecar} for is_sidecar, cpu in before]
        pod = guaranteed(made, [{"cpu": str(cpu)} for cpu in apps])
        free = draw.randint(2, 12)
        found = refused("pod", pod, {"cpu": str(free), "memory": "64Gi"})
        assert bool(found) == (most_at_one_time(before, apps) > free), (before, apps, free)
        seen[bool(found)] += 1
    assert min(seen[True], seen[False]) > 10


@pytest.mark.parametrize(
    ("strategy", "before", "score"),
    [
        # Of 4 CPUs and 16Gi, 1 and 1Gi, or with the sidecar 2 and 2Gi, are taken: (75+93)/2.
        ("LeastAllocated", [], 84),
        ("LeastAllocated", [sidecar("1")], 68),
        ("LeastAllocated", [init("1")], 84),
        ("MostAllocated", [], 15),
        ("MostAllocated", [sidecar("1")], 31),
    ],
)
def test_a_sidecar_counts_in_scores_of_numa_zones(strategy: str, before: Any, score: int) -> None:
    pod = guaranteed(before, [{"cpu": "1"}])
    assert numa(zones(FOUR), strategy=strategy).prioritize(pod)["n"] == score


def test_a_pod_needs_more_numa_zones_for_a_sidecar() -> None:
    cluster = numa(zones(FOUR, FOUR, policy="restricted"), strategy="LeastNUMANodes")
    alone, after_init, with_sidecar = (
        cluster.prioritize(guaranteed(before, [{"cpu": "3"}]))["n"]
        for before in ([], [init("3")], [sidecar("3")])
    )
    assert alone == after_init > with_sidecar > 0


def test_target_load_packing_predicts_what_sidecars_use() -> None:
    args = {"prometheusAddress": "http://127.0.0.1:9"}
    plugin = TargetLoadPacking(TargetLoadPacking.Args.model_validate(args), testing.make_handle())
    pod = testing.make_pod(
        "p",
        initContainers=[container("i", cpu="8"), container("s", cpu="2", sidecar=True)],
        containers=[container(cpu="1")],
    )
    assert plugin.predicted_milli(pod) == 3000


def test_a_quota_counts_sidecars() -> None:
    most = {"cpu": "4", "memory": "64Gi"}
    quota = {"metadata": {"name": "q", "namespace": "ml"}, "spec": {"min": most, "max": most}}
    cluster = testing.Cluster(CapacityScheduling, nodes=["n"], objects={QUOTAS: [quota]})

    def passes(before: Sequence[Mapping[str, Any]]) -> bool:
        made = [container(f"i{at}", **each) for at, each in enumerate(before)]
        containers = {"initContainers": made, "containers": [container(cpu="3")]}
        return cluster.filter(testing.pod_manifest(namespace="ml", **containers)).kept == ("n",)

    assert [passes([]), passes([init("4")]), passes([sidecar("1")])] == [True] * 3
    assert [passes([sidecar("2")]), passes([sidecar("1"), init("4")])] == [False] * 2
