"""What people met with bundled plugins, and its relatives, at public doors.

The expectations are written from kube-scheduler 1.37 and its kubelet, not from kubextend: DRA is
dynamic resource allocation, a sidecar is an init container with ``restartPolicy: Always``.
"""

import itertools
import json
import logging
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
    SySched,
    TargetLoadPacking,
)
from kubextend.prometheus import NodeLabel, PrometheusError, read_vector

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


# Seccomp profiles without a namespace in their path.


def profile(name: str, *calls: str, namespace: str = "") -> Any:
    rules = [{"action": "SCMP_ACT_ALLOW", "names": list(calls)}]
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"metadata": metadata, "spec": {"syscalls": rules}}


EVERY = profile("all-syscalls", "read", "write", "mount", "ptrace")
QUIET, LOUD = profile("quiet", "read"), profile("loud", "read", "mount", "ptrace")


def localhost(path: str) -> dict[str, Any]:
    return {"seccompProfile": {"type": "Localhost", "localhostProfile": path}}


def confined(name: str, path: str, **fields: Any) -> Any:
    return testing.pod_manifest(name, uid=f"uid-{name}", securityContext=localhost(path), **fields)


def beside(*found: Any, asked: Any, quiet: Any, loud: Any) -> dict[str, int]:
    """Return the scores of a node with a pod that may call little, and of one with much."""
    with testing.Cluster(
        SySched, nodes=["with-quiet", "with-loud"], pods=[quiet, loud], objects={PROFILES: found}
    ) as cluster:
        return cluster.prioritize(asked)


PREFERS_QUIET = {"with-quiet": 10, "with-loud": 0}


@pytest.mark.parametrize(
    ("path", "namespace"),
    [
        ("operator/{}.json", ""),
        ("localhost/operator/{}.json", ""),
        ("operator/apps/{}.json", "apps"),
        ("localhost/operator/apps/{}.json", "apps"),
        # A pod from before the operator's update names the namespace still.
        ("operator/apps/{}.json", ""),
    ],
)
@pytest.mark.parametrize("where", ["pod", "container", "sidecar", "annotation"])
@pytest.mark.parametrize("suffix", ["", ".v1.2"])
def test_profiles_in_a_namespace_and_in_none_are_found(
    path: str, namespace: str, where: str, suffix: str
) -> None:
    def pod(name: str, of: str, **fields: Any) -> Any:
        context = localhost(path.format(of + suffix))
        plain, uid = {"name": "c", "image": "x"}, f"uid-{name}"
        if where == "pod":
            fields["securityContext"] = context
        if where == "container":
            fields["containers"] = [plain | {"securityContext": context}]
        if where == "sidecar":
            fields["initContainers"] = [
                plain | {"securityContext": context, "restartPolicy": "Always"}
            ]
        if where == "annotation":
            key = "container.seccomp.security.alpha.kubernetes.io/c"
            fields["annotations"] = {key: path.format(of + suffix)}
        return testing.pod_manifest(name, uid=uid, **fields)

    found = [
        profile(f"quiet{suffix}", "read", namespace=namespace),
        profile(f"loud{suffix}", "read", "mount", "ptrace", namespace=namespace),
    ]
    scores = beside(
        *found,
        asked=pod("new", "quiet"),
        quiet=pod("q", "quiet", node_name="with-quiet"),
        loud=pod("l", "loud", node_name="with-loud"),
    )
    assert scores == PREFERS_QUIET


def test_a_profile_of_another_namespace_is_not_found() -> None:
    loud = confined("l", "operator/loud.json", node_name="with-loud")
    elsewhere = profile("quiet", "read", namespace="apps")
    quiet = confined("q", "operator/other/quiet.json", node_name="with-quiet")
    # The pod on the node counts as one without a profile, and may call everything.
    asked = confined("new", "operator/loud.json")
    scores = beside(EVERY, LOUD, elsewhere, asked=asked, quiet=quiet, loud=loud)
    assert scores == {"with-quiet": 0, "with-loud": 10}


def test_the_default_profile_may_be_in_no_namespace() -> None:
    free = testing.pod_manifest("free", uid="uid-free", node_name="with-loud")
    quiet = confined("q", "operator/quiet.json", node_name="with-quiet")
    asked = confined("new", "operator/quiet.json")
    assert beside(EVERY, QUIET, asked=asked, quiet=quiet, loud=free) == PREFERS_QUIET


def test_profiles_that_are_missing_are_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    with (
        caplog.at_level(logging.WARNING),
        testing.Cluster(SySched, nodes=["a", "b"], objects={PROFILES: [QUIET]}) as cluster,
    ):
        for name in ("one", "two"):
            asked = confined(name, "operator/absent.json")
            assert cluster.prioritize(asked) == {"a": 10, "b": 10}
    said = [record.getMessage() for record in caplog.records]
    assert sum("absent" in line for line in said) == 1
    assert sum("no SeccompProfile all-syscalls in namespace default" in line for line in said) == 1


def test_tenants_fill_no_log_with_profiles_that_are_missing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with (
        caplog.at_level(logging.WARNING),
        testing.Cluster(SySched, nodes=["a", "b"], objects={PROFILES: [QUIET]}) as cluster,
    ):
        for number in range(300):
            cluster.prioritize(confined(f"p{number}", f"operator/absent-{number}.json"))
    assert len(caplog.records) < 150


# Tolerations with Gt and Lt.

LOWEST, HIGHEST = -(2**63), 2**63 - 1


@pytest.mark.parametrize(
    ("operator", "value", "taint", "tolerated"),
    [
        # core/v1/toleration.go ToleratesTaint: Gt: taint > toleration, Lt: taint < toleration.
        ("Gt", "900", "950", True),
        ("Gt", "950", "950", False),
        ("Gt", "999", "950", False),
        ("Lt", "900", "950", False),
        ("Lt", "950", "950", False),
        ("Lt", "999", "950", True),
        ("Gt", "-1", "0", True),
        ("Lt", "-1", "-2", True),
        ("Lt", "9", "10", False),
        ("Gt", str(HIGHEST - 1), str(HIGHEST), True),
        ("Gt", str(LOWEST), str(LOWEST + 1), True),
        ("Lt", str(HIGHEST), str(HIGHEST - 1), True),
        # What is no integer of 64 bits, written as people write it, is neither above nor below.
        ("Gt", "0900", "950", False),
        ("Gt", "+900", "950", False),
        ("Gt", "9e2", "950", False),
        ("Gt", "900.0", "950", False),
        ("Gt", " 900", "950", False),
        ("Gt", "", "950", False),
        ("Gt", "-0", "950", False),
        ("Gt", "many", "950", False),
        ("Gt", str(LOWEST - 1), "950", False),
        ("Lt", str(HIGHEST + 1), "950", False),
        ("Gt", "900", "0950", False),
        ("Gt", "900", "+950", False),
        ("Gt", "900", "", False),
        ("Lt", "999", "", False),
        ("Gt", "900", str(HIGHEST + 1), False),
        ("gt", "900", "950", False),
        ("Ge", "900", "900", False),
    ],
)
@pytest.mark.parametrize("more", [0, 1, 40])
def test_a_toleration_may_compare_numbers(
    operator: str, value: str, taint: str, tolerated: bool, more: int
) -> None:
    nodes = testing.make_nodes(
        [testing.make_node("n", taints=[f"example.com/sla={taint}:NoSchedule"])]
    )
    toleration = {"key": "example.com/sla", "operator": operator, "value": value}
    others = [{"key": f"example.com/other-{at}", "operator": "Exists"} for at in range(more)]
    for effect, covered in (("NoSchedule", True), ("", True), ("NoExecute", False)):
        pod = testing.make_pod("p", tolerations=[*others, toleration | {"effect": effect}])
        assert list(nodes.tolerated_by(pod)) == [tolerated and covered]
    other_key = testing.make_pod("p", tolerations=[*others, toleration | {"key": "a"}])
    assert list(nodes.tolerated_by(other_key)) == [False]


def test_many_tolerations_cover_what_each_of_them_covers() -> None:
    draw = random.Random(5471)
    keys, values = ("a", "b"), ("-7", "0", "3", "5", "05", "x", "12")

    def covers(toleration: Mapping[str, str], taint: tuple[str, str, str]) -> bool:
        key, value, effect = taint
        if toleration["key"] != key or toleration["effect"] not in {"", effect}:
            return False
        if toleration["operator"] in {"Equal", "Exists"}:
            return toleration["operator"] == "Exists" or toleration["value"] == value
        if any(
            str(int(text)) != text if text.lstrip("-").isdigit() else True
            for text in (value, toleration["value"])
        ):
            return False
        above = int(value) > int(toleration["value"])
        equal = int(value) == int(toleration["value"])
        return above if toleration["operator"] == "Gt" else not above and not equal

    seen = Counter[bool]()
    for _ in range(200):
        tolerations = [
            {
                "key": draw.choice(keys),
                "operator": draw.choice(("Gt", "Lt", "Gt", "Lt", "Equal")),
                "value": draw.choice(values),
                "effect": draw.choice(("", "NoSchedule", "NoExecute")),
            }
            for _ in range(draw.choice((1, 2, 4, 25)))
        ]
        if draw.random() < 0.1:
            tolerations.append({"key": "a", "operator": "Exists", "value": "", "effect": ""})
        taints = [
            (draw.choice(keys), draw.choice(values), draw.choice(("NoSchedule", "NoExecute")))
            for _ in range(draw.randint(1, 2))
        ]
        texts = [f"{key}={value}:{effect}" for key, value, effect in taints]
        nodes = testing.make_nodes([testing.make_node("n", taints=texts)])
        expected = all(any(covers(each, taint) for each in tolerations) for taint in taints)
        found = list(nodes.tolerated_by(testing.make_pod("p", tolerations=tolerations)))
        assert found == [expected], (tolerations, taints)
        seen[expected] += 1
    assert min(seen[True], seen[False]) > 20


def test_a_toleration_that_compares_numbers_is_read_as_it_is_written() -> None:
    toleration = {"key": "a", "operator": "Gt", "value": "5", "effect": "NoSchedule"}
    pod = testing.make_pod("p", tolerations=[toleration])
    assert pod.tolerations == [("a", "Gt", "5", "NoSchedule")]


# Counts by selector, sums of scores, answers of Prometheus.


def listed(kind: str, items: Iterable[Mapping[str, Any]]) -> bytes:
    metadata = {"resourceVersion": "1"}
    return json.dumps({"kind": kind, "metadata": metadata, "items": list(items)}).encode()


def event(kind: str, of: Mapping[str, Any]) -> bytes:
    return json.dumps({"type": kind, "object": of}).encode()


def in_rack(name: str, rack: int) -> Mapping[str, Any]:
    return {"metadata": {"name": name, "labels": {"rack": f"r{rack}"}}}


def of_app(name: str, app: int, namespace: str, node: str) -> Mapping[str, Any]:
    labels = {"app": f"a{app}"}
    metadata = {"name": name, "namespace": namespace, "uid": name, "labels": labels}
    return {"metadata": metadata, "spec": {"nodeName": node}}


def test_more_selectors_than_are_remembered_are_right_while_pods_and_labels_change() -> None:
    """Counts of 512 selectors and matches of 64 are remembered; here more are asked for."""
    draw = random.Random(65)
    names = [f"n{number}" for number in range(20)]
    racks = {name: number for number, name in enumerate(names)}
    pods = {f"p{of}": (of % 700, f"ns{of % 3}", names[of % 20]) for of in range(2100)}
    nodes, store = core.NodeStore(), core.PodStore()
    nodes.replace(listed("NodeList", itertools.starmap(in_rack, racks.items())))
    store.replace(listed("PodList", (of_app(name, *pod) for name, pod in pods.items())))
    for _ in range(3):
        snapshot, every = store.snapshot(), nodes.select(names)
        expected = Counter(pods.values())
        for _, app, namespace in itertools.product(range(2), range(700), ("ns0", "ns1")):
            counts = snapshot.count(every, f"app=a{app}", namespaces=[namespace])
            assert list(counts) == [expected[app, namespace, name] for name in names]
        for _, rack in itertools.product(range(2), range(100)):
            assert list(every.matches(f"rack=r{rack}")) == [racks[name] == rack for name in names]
        changed = draw.sample(names, 5)
        for name, (_, namespace, node) in [*pods.items()]:
            if node in changed and draw.random() < 0.5:
                pods[name] = draw.randrange(700), namespace, node
                store.apply(event("MODIFIED", of_app(name, *pods[name])))
            elif node in changed and draw.random() < 0.5:
                store.apply(event("DELETED", of_app(name, *pods.pop(name))))
        for name in changed:
            racks[name] = draw.randrange(100)
            nodes.apply(event("MODIFIED", in_rack(name, racks[name])))


@pytest.mark.parametrize(
    ("scores", "total"),
    [
        ([HIGHEST, HIGHEST], HIGHEST),
        ([LOWEST, LOWEST], LOWEST),
        ([HIGHEST, 1, -1], HIGHEST),
        ([LOWEST, -1, 1], LOWEST),
        ([HIGHEST, HIGHEST, LOWEST, LOWEST], -2),
        ([60, 40], 100),
        ([], 0),
    ],
)
def test_a_sum_of_scores_beyond_64_bits_is_the_nearest_that_fits(
    scores: Sequence[int], total: int
) -> None:
    plugin = core.NativePlugin.label_match([], [("", "", score) for score in scores])
    nodes = testing.make_nodes(2)
    assert list(plugin.score_nodes(testing.make_pod("p"), nodes)) == [total] * 2


def test_weighted_scores_beyond_64_bits_are_the_nearest_that_fits() -> None:
    for parts, expected in (
        ([([HIGHEST], HIGHEST), ([HIGHEST], HIGHEST)], HIGHEST),
        ([([LOWEST], HIGHEST), ([LOWEST], HIGHEST)], LOWEST),
    ):
        assert list(core.weigh(parts)) == [expected]


INSTANCE = NodeLabel("instance")
NO_SAMPLES = [
    '{"status":"success","data":{"resultType":"vector","result":[]}}',
    '{"status":"success","data":{"resultType":"vector","result":null}}',
    '{"status":"success","data":{"resultType":"vector","result":null},"warnings":["w"],"infos":null}',
    '{"status":"success","data":null}',
    '{"status":"success","data":null,"warnings":null,"error":""}',
]


@pytest.mark.parametrize("body", NO_SAMPLES)
def test_an_empty_answer_of_prometheus_may_be_null(body: str) -> None:
    assert read_vector(body.encode(), INSTANCE) == read_vector(NO_SAMPLES[0].encode(), INSTANCE)
    assert read_vector(body.encode(), INSTANCE).by_node == {}


def test_a_series_without_labels_names_no_node() -> None:
    data = {"resultType": "vector", "result": [{"metric": None, "value": [1.0, "5"]}]}
    vector = read_vector(json.dumps({"status": "success", "data": data}).encode(), INSTANCE)
    assert (vector.by_node, vector.dropped) == ({}, {"no_node": 1})


@pytest.mark.parametrize(
    "body",
    [
        '{"status":"success","data":{"resultType":"scalar","result":[1,"5"]}}',
        '{"status":"success","data":{"resultType":"matrix","result":null}}',
        '{"status":"success","data":{"resultType":null,"result":null}}',
        '{"status":"success","data":{"resultType":"vector","result":{}}}',
        '{"status":"success","data":[]}',
        '{"status":"success"}',
        '{"status":"error","data":null,"error":"no"}',
        "null",
    ],
)
def test_an_answer_that_is_no_instant_vector_stays_an_error(body: str) -> None:
    with pytest.raises(PrometheusError):
        read_vector(body.encode(), INSTANCE)
