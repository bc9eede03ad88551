"""The ports of Go plugins reject and score nodes as the originals do; their answers are recorded.

The cases are in tests/ports; `python -m tests.ports` asks the originals again.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from tests.doors.ported_plugins import Cluster, pod_of
from tests.ports.capacity_cases import QUOTAS, in_namespaces
from tests.ports.cases import CLUSTERS, PORTS, QUESTIONS, cluster_for, clusters, questions
from tests.ports.gang_cases import OVERCOMMITTED, TENTH, UNCOUNTED
from tests.ports.numa_cases import UNSORTED
from tests.ports.recorded import asked, read

from kubextend.framework import Code, CycleState

GANGS = "PodGroupCoscheduling"
TOO_FAR = " does not meet several network requirements from Workload"


class Case(NamedTuple):
    """A question about a cluster, and the answer of the original.

    Attributes:
        number: the number of the cluster.
    """

    number: int
    cluster: Cluster
    args: Mapping[str, Any]
    pod: Mapping[str, Any]
    go: Any


def cases(plugin: str) -> Iterator[Case]:
    digest, answers = read(plugin)
    every = [cluster_for(plugin, number, cluster) for number, cluster in enumerate(clusters())]
    assert digest == asked(plugin, every), "python -m tests.ports"
    assert len(answers) == CLUSTERS * QUESTIONS >= 2000
    theirs = iter(answers)
    for number, manifests in enumerate(every):
        cluster = Cluster(manifests)
        for args, pod in questions(plugin, number):
            yield Case(number, cluster, args, pod, next(theirs))


class Difference(NamedTuple):
    """Another answer than that of the original about one node: reasons, or a score."""

    node: int
    go: Any
    ours: Any


def differences(plugin: str, case: Case) -> Iterator[Difference]:
    if plugin == "CapacityScheduling":
        ours = [limits_exceeded(case)], None
    else:
        made, pod = case.cluster.plugin(plugin, case.args), pod_of(case.pod)
        ours = rejected(made, pod, case.cluster), scores(made, pod, case.cluster)
    reasons = case.go.get("rejected")
    theirs = reasons and [each or [] for each in reasons], case.go.get("scores")
    for mine, recorded in zip(ours, theirs, strict=True):
        assert (mine is None) == (recorded is None), (plugin, case.number)
        for node, pair in enumerate(zip(recorded or [], mine or [], strict=True)):
            if pair[0] != pair[1]:
                yield Difference(node, *pair)


def rejected(plugin: Any, pod: Any, cluster: Cluster) -> list[list[str]] | None:
    """Return the sorted reasons of each node's rejection; None if the plugin does not filter."""
    if not hasattr(plugin, "filter_nodes"):
        return None
    reasons: list[list[str]] = [[] for _ in cluster.names]
    for rejection in plugin.filter_nodes(CycleState(), pod, cluster.nodes):
        for node in rejection.nodes.indices():
            reasons[node] = sorted(rejection.status.reason.split(", "))
    return reasons


def scores(plugin: Any, pod: Any, cluster: Cluster) -> list[int] | None:
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


def limits_exceeded(case: Case) -> list[str]:
    """Return whether CapacityScheduling rejects a pod for the max, or the sum of min, or not."""
    manifests = case.cluster.manifests
    pod, *others = in_namespaces(case.args, [case.pod, *manifests["pods"]])
    cluster = Cluster({**manifests, "pods": others, "objects": {QUOTAS: case.args["quotas"]}})
    plugin = cluster.plugin("CapacityScheduling", {})
    status = plugin.pre_filter(CycleState(), pod_of(pod), cluster.nodes)
    if status is None:
        return []
    assert status.code is Code.UNSCHEDULABLE
    return ["max" if "max" in status.reason else "min"]


def has_sidecar(pod: Mapping[str, Any]) -> bool:
    init_containers = pod["spec"].get("initContainers", ())
    return any(each.get("restartPolicy") == "Always" for each in init_containers)


def sidecars_count(case: Case, each: Difference) -> str:
    """The originals of 0.33 take a sidecar for an init container that ends, or leave it out."""
    name = case.cluster.names[each.node]
    there = (pod for pod in case.cluster.manifests["pods"] if node_of(pod) == name)
    return "sidecar" if any(map(has_sidecar, (case.pod, *there))) else ""


def node_of(pod: Mapping[str, Any]) -> str:
    return str(pod["spec"].get("nodeName", ""))


def without_their_status(case: Case, node: int) -> set[str]:
    """Return the devices that a pod requests and of which a node has none in its status.

    kube-scheduler asks dynamic resource allocation about them from 1.36 on; the originals of 1.33
    reject the node.
    """
    spec = case.pod["spec"]
    containers = [*spec["containers"], *spec.get("initContainers", ())]
    named = {name for each in containers for name in each["resources"]["requests"]}
    nodes = case.cluster.nodes
    return {name for name in named if "/" in name and not nodes.allocatable(name)[node]}


def lacks_device(case: Case, each: Difference) -> str:
    absent = {f"Insufficient {name}" for name in without_their_status(case, each.node)}
    return "device" if [reason for reason in each.go if reason not in absent] == each.ours else ""


def has_no_cpu(case: Case, each: Difference) -> str:
    """The original takes the use of no CPU for none, and gives the node the best packed score."""
    if case.cluster.nodes.allocatable("cpu")[each.node] == 0:
        return "no cpu" if each.ours == 0 else ""
    return sidecars_count(case, each)


def other_zones(case: Case, each: Difference) -> str:
    is_score = isinstance(each.ours, int)
    # Fewer nodes are rejected for a device without a status, more for a sidecar.
    if without_their_status(case, each.node) and (is_score or each.go):
        return "device"
    if has_sidecar(case.pod):
        return "sidecar" if is_score or each.ours else ""
    # The original takes the number of a zone for its place in the list.
    strategy = case.args["scoringStrategy"]["type"]
    unsorted = case.number % UNSORTED == 0 and strategy == "LeastNUMANodes" and is_score
    return "unsorted" if unsorted else ""


def other_words(_case: Case, each: Difference) -> str:
    [reason] = each.go
    ours = each.ours == ["node is too far from pods that the pod depends on"]
    return "words" if ours and TOO_FAR in reason else ""


# What is known to differ, as the pages of the plugins list it, and how often the cases show it.
KNOWN: dict[str, tuple[Callable[[Case, Difference], str], dict[str, int]]] = {
    "LoadVariationRiskBalancing": (sidecars_count, {"sidecar": 424}),
    "LowRiskOverCommitment": (sidecars_count, {"sidecar": 974}),
    "NetworkOverhead": (other_words, {"words": 15420}),
    "NodeResourceTopologyMatch": (other_zones, {"device": 5444, "sidecar": 115, "unsorted": 3}),
    "NodeResourcesFit": (lacks_device, {"device": 8230}),
    "TargetLoadPacking": (has_no_cpu, {"no cpu": 6784, "sidecar": 1762}),
}


@pytest.mark.parametrize("plugin", sorted(PORTS.keys() - {GANGS}))
def test_a_port_decides_as_the_original_but_for_what_its_page_lists(plugin: str) -> None:
    known, expected = KNOWN.get(plugin, (lambda *_: "", {}))
    found = Counter[str]()
    for case in cases(plugin):
        for each in differences(plugin, case):
            name = known(case, each)
            assert name, (case.number, case.args, case.pod, each)
            found[name] += 1
    assert found == expected


IN_PRE_FILTER = {
    "pod group has fewer pods than its minimum": "few",
    "cluster lacks minResources of the PodGroup": "resources",
    "there is no PodGroup with a minMember for the pod's label": "no PodGroup",
}


async def gang_verdicts(case: Case) -> list[str]:
    """Return the verdict about a pod, and about each pod of its PodGroup that is on no node."""
    manifests = case.cluster.manifests
    others = manifests["pods"]
    cluster = Cluster({**manifests, "pods": [case.pod, *others]})
    plugin, held = cluster.plugin(GANGS, case.args), cluster.held
    mine = gang_of(case.pod)
    with_it = [pod for pod in others if mine and gang_of(pod) == mine and not node_of(pod)]
    verdicts = []
    for body in [case.pod, *with_it]:
        pod, state = pod_of(body), CycleState()
        rejected = plugin.pre_filter(state, pod, cluster.nodes)
        if rejected is not None:
            assert rejected.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
            verdicts.append(f"PreFilter: {IN_PRE_FILTER[rejected.reason]}")
            continue
        # kube-scheduler assumes the pod before it asks Permit.
        cluster.pods.assume(pod, cluster.names[0])
        waited_before = len(held)
        said = await plugin.permit(state, pod, cluster.names[0])
        if isinstance(said, tuple):
            assert said[0].code is Code.WAIT
            held[pod.uid] = SimpleNamespace(allow=lambda _, uid=pod.uid: held.pop(uid))
            verdicts.append(f"Permit: waits {said[1]:.0f}")
        else:
            assert said.code is Code.SUCCESS
            verdicts.append(f"Permit: runs with {waited_before - len(held)}")
    return verdicts


def gang_of(pod: Mapping[str, Any]) -> tuple[str, str] | None:
    metadata = pod["metadata"]
    name = metadata.get("labels", {}).get("scheduling.x-k8s.io/pod-group")
    return (metadata["namespace"], name) if name else None


def test_gangs_wait_and_run_as_with_the_original() -> None:
    differ = Counter[str]()
    # The original takes what a node lacks from what other nodes have left, and counts pods that
    # can get no node.
    known = {OVERCOMMITTED: "overcommitted", UNCOUNTED: "uncounted"}
    for case in cases(GANGS):
        ours = asyncio.run(gang_verdicts(case))
        go = [verdict.replace("Permit: no", "PreFilter: no") for verdict in case.go["verdicts"]]
        if go != ours:
            assert case.number % TENTH in known, (case.number, go, ours)
            differ[known[case.number % TENTH]] += 1
    assert differ == {"uncounted": 38, "overcommitted": 8}


def test_the_recorded_answers_have_every_verdict_often() -> None:
    verdicts = (verdict for answer in read(GANGS)[1] for verdict in answer["verdicts"])
    of_gangs = Counter(verdict.rstrip(" 0123456789") for verdict in verdicts)
    steps = ("PreFilter: few", "PreFilter: resources", "Permit: waits", "Permit: runs with")
    assert of_gangs.keys() == {"Permit: no PodGroup", *steps}
    assert min(of_gangs.values()) > 300, of_gangs
    of_quotas = Counter(str(answer["rejected"]) for answer in read("CapacityScheduling")[1])
    assert len(of_quotas) == 3
    assert min(of_quotas.values()) > 400, of_quotas
