"""What people met with bundled plugins, and its relatives, at public doors.

The expectations are written from kube-scheduler 1.37 and its kubelet, not from kubextend: DRA is
dynamic resource allocation, a sidecar is an init container with ``restartPolicy: Always``.
"""

import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pytest

from kubextend import config, core, discovery, testing
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
PROFILES = "security-profiles-operator.x-k8s.io/v1beta1/seccompprofiles"


def container(name: str = "c", *, sidecar: bool = False, **amounts: str) -> dict[str, Any]:
    """Return a container with equal requests and limits; ``CARD`` is written as ``card``."""
    named = {{"card": CARD, "huge": HUGE}.get(key, key): value for key, value in amounts.items()}
    made: dict[str, Any] = {
        "name": name,
        "image": "x",
        "resources": {"requests": named, "limits": named},
    }
    return made | ({"restartPolicy": "Always"} if sidecar else {})


def wanting(resource: str, amount: str = "1", **more: Any) -> Any:
    amounts = {"cpu": "1", "memory": "1Gi", resource: amount}
    asked = {"name": "c", "image": "x", "resources": {"requests": amounts, "limits": amounts}}
    return testing.pod_manifest("p", uid="uid-p", containers=[asked], **more)


# Extended resources that DRA serves.


def zones(*free: Mapping[str, str], policy: str = "single-numa-node", scope: str = "pod") -> Any:
    """Return the NodeResourceTopology of the node ``n`` with zones that have these amounts free."""
    listed = [
        {
            "name": f"node-{number}",
            "type": "Node",
            "resources": [
                {"name": name, "capacity": amount, "allocatable": amount, "available": amount}
                for name, amount in of.items()
            ],
        }
        for number, of in enumerate(free)
    ]
    attributes = {"topologyManagerPolicy": policy, "topologyManagerScope": scope}
    return {
        "metadata": {"name": "n"},
        "zones": listed,
        "attributes": [{"name": name, "value": value} for name, value in attributes.items()],
    }


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
    allocatable = {} if status is None else {resource: status}
    node = testing.node_manifest("n", allocatable=allocatable)
    with testing.Cluster(NodeResourcesFit, nodes=[node]) as cluster:
        found = cluster.filter(wanting(resource, requested)).rejected
    assert found == ({"n": rejected} if rejected else {})


def test_node_resources_fit_decides_about_each_node_by_its_own_status() -> None:
    nodes = [
        testing.node_manifest("by-dra"),
        testing.node_manifest("free", allocatable={CARD: "1"}),
        testing.node_manifest("used", allocatable={CARD: "1"}),
    ]
    there = testing.pod_manifest("q", uid="uid-q", node_name="used", requests={CARD: "1"})
    with testing.Cluster(NodeResourcesFit, nodes=nodes, pods=[there]) as cluster:
        assert cluster.filter(wanting(CARD)).kept == ("by-dra", "free")


def test_an_init_container_may_ask_for_what_dra_serves() -> None:
    asked = testing.pod_manifest(
        "p",
        initContainers=[container("i", card="2"), container("s", card="1", sidecar=True)],
        containers=[container(cpu="1")],
    )
    with testing.Cluster(NodeResourcesFit, nodes=[testing.node_manifest("n")]) as cluster:
        assert cluster.filter(asked).rejected == {}


def test_preempt_keeps_the_node_of_a_pod_that_asks_for_what_dra_serves() -> None:
    node = testing.node_manifest("n", allocatable={"cpu": "1"})
    victim = testing.pod_manifest("v", uid="uid-v", node_name="n", requests={"cpu": "1"})
    with testing.Cluster(NodeResourcesFit, nodes=[node], pods=[victim]) as cluster:
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
    node = testing.node_manifest("n", allocatable={} if status is None else {resource: status})
    found = {TOPOLOGIES: [zones({**ROOMY, **of_zone}, scope=scope)]}
    with testing.Cluster(NodeResourceTopologyMatch, nodes=[node], objects=found) as cluster:
        kept = cluster.filter(wanting(resource, "2Mi" if resource == HUGE else "1")).kept
    assert kept == (() if rejected else ("n",))


def test_a_best_effort_pod_may_ask_for_what_dra_serves() -> None:
    asked = testing.pod_manifest("p", containers=[container(card="1")])
    found = {TOPOLOGIES: [zones({"cpu": "8"})]}
    with testing.Cluster(NodeResourceTopologyMatch, nodes=["n"], objects=found) as cluster:
        assert cluster.filter(asked).kept == ("n",)


@pytest.mark.parametrize("strategy", ["LeastAllocated", "BalancedAllocation", "LeastNUMANodes"])
def test_what_dra_serves_counts_in_no_score_of_a_numa_zone(strategy: str) -> None:
    args = {"NodeResourceTopologyMatch": {"scoringStrategy": {"type": strategy}}}
    found = {TOPOLOGIES: [zones({"cpu": "4", "memory": "2Gi"}, {"cpu": "4", "memory": "2Gi"})]}
    with testing.Cluster(
        NodeResourceTopologyMatch,
        nodes=["n", "m"],
        objects=found,
        args=args,
        weights={"NodeResourceTopologyMatch": 10},
    ) as cluster:
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
    nodes = [
        testing.node_manifest(f"n{at}", allocatable={CARD: amount})
        for at, amount in enumerate(cards)
    ] or [testing.node_manifest("n0")]
    asked = testing.pod_manifest(
        "p", uid="uid-p", namespace="ml", labels={"scheduling.x-k8s.io/pod-group": "g"}
    )
    group = {
        "metadata": {"name": "g", "namespace": "ml"},
        "spec": {"minMember": 1, "minResources": dict(least)},
    }
    with testing.Cluster(
        PodGroupCoscheduling, nodes=nodes, pods=[asked], objects={POD_GROUPS: [group]}
    ) as cluster:
        found = cluster.filter(asked).rejected
    assert set(found.values()) == (
        {"cluster lacks minResources of the PodGroup"} if rejected else set()
    )


def test_a_resource_of_another_extender_may_be_ignored_by_name_and_by_group() -> None:
    node = testing.node_manifest("n", allocatable={CARD: "1"})
    for args in ({"ignoredResources": [CARD]}, {"ignoredResourceGroups": ["example.com"]}):
        with testing.Cluster(
            NodeResourcesFit, nodes=[node], args={"NodeResourcesFit": args}
        ) as cluster:
            assert cluster.filter(wanting(CARD, "2")).rejected == {}


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
    """The kubelet fails a pod that wants more of an extended resource than the node lists.

    It leaves out only what the node does not list, and knows no ignored resources. Source:
    kubernetes v1.37 pkg/kubelet/lifecycle/predicate.go removeMissingExtendedResources
    """
    node = testing.node_manifest("n", allocatable={} if status is None else {CARD: status})
    kind = {"apiVersion": "kubextend.dev/v1alpha1", "kind": "ExtenderConfiguration"}
    tree = {**kind, "cluster": {}, "guard": {"resources": True}, **sections}
    with testing.Cluster(
        config.parse(tree, known=discovery.known_plugins()), nodes=[node]
    ) as cluster:
        outcome = cluster.schedule(wanting(CARD, "2"))
    refused_by_guard = f"the node has no room left for the pod: {lacks}"
    assert (outcome.node, outcome.error) == (("n", "") if not lacks else (None, refused_by_guard))


@pytest.mark.parametrize(
    ("name", "by_dra"),
    [
        # kubernetes pkg/scheduler/util IsDRAExtendedResourceName
        ("example.com/card", True),
        ("deviceclass.resource.kubernetes.io/card", True),
        ("resource.kubernetes.io/card", False),
        ("cpu", False),
        ("pods", False),
        ("hugepages-1Gi", False),
        ("attachable-volumes-aws-ebs", False),
        ("node.kubernetes.io/card", False),
    ],
)
def test_dra_may_serve_extended_resources_and_those_of_device_classes(
    name: str, by_dra: bool
) -> None:
    assert core.is_dra_extended_resource(name) is by_dra


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
    named = {"card": CARD, "huge": HUGE}
    node = testing.node_manifest(
        "n", allocatable={named.get(key, key): value for key, value in allocatable.items()}
    )
    found = {TOPOLOGIES: [zones(*free, scope=scope)]}
    with testing.Cluster(NodeResourceTopologyMatch, nodes=[node], objects=found) as cluster:
        return str(cluster.filter(pod).rejected.get("n", ""))


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
def test_a_sidecar_counts_in_the_scores_of_numa_zones(
    strategy: str, before: Sequence[Mapping[str, Any]], score: int
) -> None:
    args = {"NodeResourceTopologyMatch": {"scoringStrategy": {"type": strategy}}}
    with testing.Cluster(
        NodeResourceTopologyMatch,
        nodes=["n", "m"],
        objects={TOPOLOGIES: [zones(FOUR)]},
        args=args,
        weights={"NodeResourceTopologyMatch": 10},
    ) as cluster:
        assert cluster.prioritize(guaranteed(before, [{"cpu": "1"}]))["n"] == score


def test_a_pod_needs_more_numa_zones_for_a_sidecar() -> None:
    args = {"NodeResourceTopologyMatch": {"scoringStrategy": {"type": "LeastNUMANodes"}}}
    with testing.Cluster(
        NodeResourceTopologyMatch,
        nodes=["n", "m"],
        objects={TOPOLOGIES: [zones(FOUR, FOUR, policy="restricted")]},
        args=args,
        weights={"NodeResourceTopologyMatch": 10},
    ) as cluster:
        alone = cluster.prioritize(guaranteed([], [{"cpu": "3"}]))["n"]
        after_init = cluster.prioritize(guaranteed([init("3")], [{"cpu": "3"}]))["n"]
        with_sidecar = cluster.prioritize(guaranteed([sidecar("3")], [{"cpu": "3"}]))["n"]
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
    quota = {
        "metadata": {"name": "q", "namespace": "ml"},
        "spec": {"min": {"cpu": "4", "memory": "64Gi"}, "max": {"cpu": "4", "memory": "64Gi"}},
    }

    def passes(before: Sequence[Mapping[str, Any]]) -> bool:
        made = [container(f"i{at}", **each) for at, each in enumerate(before)]
        pod = testing.pod_manifest(
            "p", namespace="ml", initContainers=made, containers=[container(cpu="3")]
        )
        with testing.Cluster(CapacityScheduling, nodes=["n"], objects={QUOTAS: [quota]}) as cluster:
            return cluster.filter(pod).kept == ("n",)

    assert [passes([]), passes([init("4")]), passes([sidecar("1")])] == [True] * 3
    assert [passes([sidecar("2")]), passes([sidecar("1"), init("4")])] == [False] * 2
