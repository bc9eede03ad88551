"""The parts of nodes and pods that a store keeps only where a plugin declares to need them."""

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pod_world import event, listed

from kubextend import core
from kubextend.errors import KubextendError, TruncatedPodError

RECORDED = json.loads((Path(__file__).parents[2] / "data/wire/full/filter.json").read_bytes())
NODES: list[dict[str, Any]] = RECORDED["Nodes"]["items"]

SELECTOR = {
    "matchLabels": {"app": "web"},
    "matchExpressions": [
        {"key": "tier", "operator": "In", "values": ["b", "a"]},
        {"key": "track", "operator": "NotIn", "values": ["canary"]},
        {"key": "release", "operator": "Exists"},
        {"key": "old", "operator": "DoesNotExist"},
    ],
}
AS_TEXT = "app=web,tier in (a,b),track notin (canary),release,!old"
ZONE = "topology.kubernetes.io/zone"
OWNERS = [
    {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u0"},
    {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "uid": "u1", "controller": True},
]
POD: dict[str, Any] = {
    "metadata": {
        "name": "p",
        "namespace": "ns",
        "uid": "u",
        "ownerReferences": OWNERS,
        "managedFields": [{"manager": "kubectl", "fieldsV1": {"f:spec": {}}}],
    },
    "spec": {
        "affinity": {
            "podAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": 7, "podAffinityTerm": {"topologyKey": ZONE, "labelSelector": {}}}
                ]
            },
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {"topologyKey": "host", "labelSelector": SELECTOR},
                    {"topologyKey": "host", "namespaces": ["x", "y"]},
                    {
                        "topologyKey": "host",
                        "labelSelector": {"matchLabels": {"a": "b"}},
                        "namespaceSelector": {"matchLabels": {"team": "t"}},
                        "matchLabelKeys": ["hash"],
                        "mismatchLabelKeys": ["tenant"],
                    },
                ]
            },
        },
        "topologySpreadConstraints": [
            {
                "maxSkew": 2,
                "topologyKey": ZONE,
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": SELECTOR,
                "minDomains": 3,
                "nodeTaintsPolicy": "Honor",
                "matchLabelKeys": ["hash"],
            },
            {"maxSkew": 1, "topologyKey": "host", "whenUnsatisfiable": "ScheduleAnyway"},
        ],
        "volumes": [
            {"name": "data", "persistentVolumeClaim": {"claimName": "data-0"}},
            {"name": "tmp", "emptyDir": {}, "secret": None},
            {"name": "odd", "flexVolume": {"driver": "d"}},
            {"name": "bare"},
        ],
        "runtimeClassName": "gvisor",
        "resourceClaims": [
            {"name": "gpu", "resourceClaimTemplateName": "one-gpu"},
            {"name": "nic", "resourceClaimName": "nic-7"},
        ],
        "initContainers": [
            {"name": "i", "image": "init:1", "ports": [{"hostPort": 1}]},
            {
                "name": "s",
                "image": "side:1",
                "restartPolicy": "Always",
                "ports": [{"hostPort": 53, "protocol": "UDP", "hostIP": "10.0.0.1"}],
            },
        ],
        "containers": [
            {"name": "c", "image": "main:1", "ports": [{"containerPort": 80}, {"hostPort": 8080}]}
        ],
    },
    "status": {
        "phase": "Pending",
        "conditions": [
            {
                "type": "PodScheduled",
                "status": "False",
                "reason": "Unschedulable",
                "lastTransitionTime": "2030-01-01T00:00:00Z",
                "message": "0/3 nodes",
            },
            {"type": "example.com/Own", "status": "True", "lastTransitionTime": None},
        ],
    },
}


def by_request(pod: dict[str, Any]) -> core.Pod:
    body = json.dumps({"Pod": pod, "NodeNames": []}).encode()
    found = core.read_args(body, watched=core.NodeStore(details=True, raw=True)).pod
    assert found is not None
    return found


def by_preemption(pod: dict[str, Any]) -> core.Pod:
    body = json.dumps({"Pod": pod, "NodeNameToMetaVictims": {}}).encode()
    store = core.RequestStore(details=True, raw=True)
    found = core.read_preemption_args(body, store).pod
    assert found is not None
    return found


def by_event(pod: dict[str, Any]) -> core.Pod:
    found = core.PodStore(details=True, raw=True).apply(event("ADDED", pod)).pod
    assert found is not None
    return found


def by_list(pod: dict[str, Any]) -> core.Pod:
    store = core.PodStore(details=True, raw=True, max_pod_bytes=64 << 10)
    store.replace(listed([pod]))
    return store.pods()[0]


def by_assumption(pod: dict[str, Any]) -> core.Pod:
    store = core.PodStore(details=True, raw=True)
    store.assume(by_request(pod), "n")
    return store.snapshot().pods_on("n")[0]


READERS = [by_request, by_preemption, by_event, by_list, by_assumption]


@pytest.mark.parametrize("read", READERS)
def test_a_pod_has_its_details_however_it_came(
    read: Callable[[dict[str, Any]], core.Pod],
) -> None:
    pod = read(POD)
    selector = core.Selector(AS_TEXT)
    assert pod.pod_affinity.required == []
    [(weight, preferred)] = pod.pod_affinity.preferred
    everything = core.Selector("")
    assert (weight, preferred.topology_key, preferred.selector) == (7, ZONE, everything)
    first, second, third = pod.pod_anti_affinity.required
    assert (first.topology_key, first.selector) == ("host", selector)
    assert (first.namespaces, first.namespace_selector) == (["ns"], None)
    assert (second.selector, second.namespaces) == (None, ["x", "y"])
    assert (third.namespaces, third.namespace_selector) == ([], core.Selector("team=t"))
    assert (third.match_label_keys, third.mismatch_label_keys) == (["hash"], ["tenant"])

    hard, soft = pod.topology_spread_constraints
    assert (hard.max_skew, hard.topology_key, hard.min_domains) == (2, ZONE, 3)
    assert (hard.when_unsatisfiable, hard.selector) == ("DoNotSchedule", selector)
    assert (hard.node_affinity_policy, hard.node_taints_policy) == ("Honor", "Honor")
    assert (hard.match_label_keys, soft.match_label_keys) == (["hash"], [])
    assert (soft.selector, soft.min_domains) == (None, None)
    assert (soft.node_affinity_policy, soft.node_taints_policy) == ("Honor", "Ignore")

    volumes = [(volume.name, volume.source, volume.claim_name) for volume in pod.volumes]
    assert volumes == [
        ("data", "persistentVolumeClaim", "data-0"),
        ("tmp", "emptyDir", ""),
        ("odd", "flexVolume", ""),
        ("bare", "", ""),
    ]
    assert pod.claim_names == ["data-0"]
    owners = [
        (owner.api_version, owner.kind, owner.name, owner.uid, owner.controller)
        for owner in pod.owner_references
    ]
    assert owners == [("v1", "Node", "n", "u0", False), ("apps/v1", "ReplicaSet", "rs", "u1", True)]
    assert pod.controller is not None
    assert pod.controller.name == "rs"
    assert pod.host_ports == [("10.0.0.1", "UDP", 53), ("0.0.0.0", "TCP", 8080)]
    assert pod.images == ["init:1", "side:1", "main:1"]
    assert pod.runtime_class_name == "gvisor"
    claims = [
        (claim.name, claim.resource_claim_name, claim.resource_claim_template_name)
        for claim in pod.resource_claims
    ]
    assert claims == [("gpu", "", "one-gpu"), ("nic", "nic-7", "")]
    conditions = [
        (condition.type, condition.status, condition.reason, condition.last_transition_time)
        for condition in pod.conditions
    ]
    assert conditions == [
        ("PodScheduled", "False", "Unschedulable", "2030-01-01T00:00:00Z"),
        ("example.com/Own", "True", "", ""),
    ]
    metadata = POD["metadata"] | {"managedFields": []}
    assert json.loads(pod.raw) == POD | {"metadata": metadata}


@pytest.mark.parametrize("read", READERS)
def test_a_pod_without_any_of_the_fields_has_empty_details(
    read: Callable[[dict[str, Any]], core.Pod],
) -> None:
    bare = {"metadata": {"name": "p", "uid": "u"}, "spec": {}, "status": {}}
    pod = read(bare)
    affinity = (pod.pod_affinity, pod.pod_anti_affinity)
    assert [(terms.required, terms.preferred) for terms in affinity] == [([], []), ([], [])]
    lists = (pod.topology_spread_constraints, pod.volumes, pod.claim_names, pod.owner_references)
    assert lists == ([], [], [], [])
    assert (pod.host_ports, pod.images, pod.resource_claims, pod.conditions) == ([], [], [], [])
    assert (pod.controller, pod.runtime_class_name) == (None, "")
    assert json.loads(pod.raw) == bare


@pytest.mark.parametrize(
    ("selector", "why"),
    [
        ({"matchExpressions": [{"key": "a", "operator": "Near"}]}, "Near"),
        ({"matchExpressions": [{"key": "a", "operator": "In", "values": []}]}, "values"),
        ({"matchLabels": {"a b": "c"}}, "a b"),
    ],
)
def test_a_selector_that_kubernetes_refuses_is_an_error_and_never_matches_nothing(
    selector: dict[str, Any], why: str
) -> None:
    term = {"topologyKey": "z", "labelSelector": selector}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    spec = {"affinity": {"podAntiAffinity": required}, "topologySpreadConstraints": [term]}
    pod = by_event({"metadata": {"name": "p"}, "spec": spec})
    with pytest.raises(ValueError, match=why):
        _ = pod.pod_anti_affinity.required
    with pytest.raises(ValueError, match=why):
        _ = pod.topology_spread_constraints


DETAILS = [
    "pod_affinity",
    "pod_anti_affinity",
    "topology_spread_constraints",
    "volumes",
    "claim_names",
    "owner_references",
    "controller",
    "host_ports",
    "images",
    "runtime_class_name",
    "resource_claims",
    "conditions",
]


@pytest.mark.parametrize("field", [*DETAILS, "raw"])
def test_what_no_plugin_has_declared_is_an_error_that_names_the_declaration(field: str) -> None:
    found = core.PodStore().apply(event("ADDED", POD)).pod
    needed = "needs_raw" if field == "raw" else "needs_details"
    with pytest.raises(KubextendError, match=rf"set {needed} = True .*{field} of pods"):
        getattr(found, field)


@pytest.mark.parametrize("field", [*DETAILS, "raw"])
def test_details_that_are_too_large_are_not_kept_and_never_read_as_empty(field: str) -> None:
    volumes = [{"name": f"v{i}", "persistentVolumeClaim": {"claimName": "c"}} for i in range(50)]
    large = POD | {"spec": POD["spec"] | {"volumes": volumes}}
    found = core.PodStore(details=True, raw=True, max_pod_bytes=1000).apply(event("ADDED", large))
    assert found.pod is not None
    assert found.pod.truncated
    with pytest.raises(TruncatedPodError):
        getattr(found.pod, field)


def nodes_by_list() -> core.Nodes:
    store = core.NodeStore(details=True, raw=True)
    store.replace(listed(NODES))
    return store.select([node["metadata"]["name"] for node in NODES])


def nodes_by_request() -> core.Nodes:
    found = core.read_args(json.dumps(RECORDED).encode(), core.RequestStore(details=True, raw=True))
    assert found.nodes is not None
    return found.nodes


def nodes_recognised() -> core.Nodes:
    store = core.RequestStore(details=True, raw=True)
    body = json.dumps(RECORDED, separators=(",", ":")).encode()
    core.read_args(body, store)
    found = core.read_args(body, store).nodes
    assert found is not None
    assert store.stats().hits == len(NODES)
    return found


@pytest.mark.parametrize("read", [nodes_by_list, nodes_by_request, nodes_recognised])
def test_a_recorded_node_has_its_details_however_it_came(read: Callable[[], core.Nodes]) -> None:
    nodes = read()
    for node, shown in zip(NODES, nodes, strict=True):
        status, metadata = node["status"], node["metadata"]
        assert shown.annotations == metadata["annotations"]
        assert shown.annotation("no such") is None
        conditions = [
            (each.type, each.status, each.reason, each.last_transition_time)
            for each in shown.conditions
        ]
        assert conditions == [
            (each["type"], each["status"], each["reason"], each["lastTransitionTime"])
            for each in status["conditions"]
        ]
        assert shown.addresses == [(each["type"], each["address"]) for each in status["addresses"]]
        assert shown.provider_id == node["spec"]["providerID"]
        assert shown.system_info == status["nodeInfo"]
        sizes = {name: image["sizeBytes"] for image in status["images"] for name in image["names"]}
        assert shown.images == sizes
        assert shown.capacity("pods") == int(status["capacity"]["pods"])
        assert shown.capacity("no such") == 0
        assert json.loads(shown.raw) == node | {"metadata": metadata | {"managedFields": []}}
    assert list(nodes.capacity("pods")) == [
        int(node["status"]["capacity"]["pods"]) for node in NODES
    ]
    for key in NODES[0]["metadata"]["annotations"]:
        assert nodes.annotations(key) == [
            node["metadata"]["annotations"].get(key) for node in NODES
        ]
        for node, shown in zip(NODES, nodes, strict=True):
            assert shown.annotation(key) == node["metadata"]["annotations"].get(key)
    for name in [NODES[0]["status"]["images"][0]["names"][0], "no such"]:
        sizes = [
            next((i["sizeBytes"] for i in node["status"]["images"] if name in i["names"]), -1)
            for node in NODES
        ]
        assert list(nodes.images(name)) == sizes


def test_texts_of_all_nodes_are_those_of_each_wherever_among_its_keys_they_are() -> None:
    rng = random.Random(6)
    keys = [f"example.com/{letter}" for letter in "abcdefgh"]
    texts = ["", "same", "é", "x" * 400]
    nodes = []
    for number in range(300):
        metadata = {"name": f"n{number}"}
        for field in ("labels", "annotations"):
            some = rng.sample(keys, rng.randrange(len(keys) + 1))
            metadata[field] = {key: rng.choice([*texts, f"only-{number}"]) for key in some}
        nodes.append({"metadata": metadata})
    store = core.NodeStore(details=True)
    store.replace(json.dumps({"metadata": {}, "items": nodes}).encode())
    unknown = {"metadata": {"name": "unknown", "labels": {}, "annotations": {}}}
    asked = [rng.choice([*nodes, unknown]) for _ in range(1000)]
    found = store.select([node["metadata"]["name"] for node in asked])
    for key in [*keys, "", "example.com/absent", "zzz"]:
        for field, read in (("labels", found.labels), ("annotations", found.annotations)):
            values = read(key)
            assert values == [node["metadata"][field].get(key) for node in asked]
            same = {id(value) for value in values if value == "same"}
            assert len(same) <= 1


def test_a_node_that_the_store_does_not_know_has_no_details() -> None:
    nodes = core.NodeStore(details=True, raw=True).select(["n"])
    node = nodes[0]
    assert (node.annotations, node.conditions, node.addresses, node.images) == ({}, [], [], {})
    assert (node.provider_id, node.system_info, node.capacity("cpu")) == ("", {}, 0)
    assert (node.annotation("a"), node.raw) == (None, b"")
    assert nodes.annotations("a") == [None]
    assert list(nodes.images("i")) == [-1]


@pytest.mark.parametrize(
    ("read", "need"),
    [
        (lambda nodes: nodes[0].annotations, "needs_details"),
        (lambda nodes: nodes[0].annotation("a"), "needs_details"),
        (lambda nodes: nodes[0].conditions, "needs_details"),
        (lambda nodes: nodes[0].addresses, "needs_details"),
        (lambda nodes: nodes[0].provider_id, "needs_details"),
        (lambda nodes: nodes[0].system_info, "needs_details"),
        (lambda nodes: nodes[0].images, "needs_details"),
        (lambda nodes: nodes[0].capacity("cpu"), "needs_details"),
        (lambda nodes: nodes.annotations("a"), "needs_details"),
        (lambda nodes: nodes.images("a"), "needs_details"),
        (lambda nodes: nodes.capacity("cpu"), "needs_details"),
        (lambda nodes: nodes[0].raw, "needs_raw"),
    ],
)
def test_reading_what_no_plugin_needs_of_nodes_is_an_error_that_names_the_declaration(
    read: Callable[[core.Nodes], object], need: str
) -> None:
    store = core.NodeStore()
    store.replace(listed(NODES))
    with pytest.raises(KubextendError, match=f"set {need} = True"):
        read(store.select(["unknown", NODES[0]["metadata"]["name"]]).only(core.Mask([False, True])))


def test_a_heartbeat_is_no_change_of_details_and_is_one_of_the_json() -> None:
    node = NODES[0]
    beat = json.loads(json.dumps(node))
    for condition in beat["status"]["conditions"]:
        condition["lastHeartbeatTime"] = "2031-01-01T00:00:00Z"
    for raw in (False, True):
        store = core.NodeStore(details=True, raw=raw)
        store.apply(event("ADDED", node))
        assert store.apply(event("MODIFIED", beat)).changed is raw
        shown = store.get(node["metadata"]["name"])
        assert shown is not None
        if raw:
            assert json.loads(shown.raw)["status"] == beat["status"]


@pytest.mark.parametrize(
    "change",
    [
        lambda node: node["metadata"]["annotations"].update({"a": "b"}),
        lambda node: node["status"]["conditions"][0].update({"status": "Unknown"}),
        lambda node: node["status"]["images"].pop(),
        lambda node: node["status"]["capacity"].update({"cpu": "1"}),
        lambda node: node["spec"].update({"providerID": "x"}),
    ],
)
def test_a_change_of_a_detail_is_a_change_only_where_details_are_kept(
    change: Callable[[dict[str, Any]], object],
) -> None:
    changed = json.loads(json.dumps(NODES[0]))
    change(changed)
    for details in (False, True):
        store = core.NodeStore(details=details)
        store.apply(event("ADDED", NODES[0]))
        assert store.apply(event("MODIFIED", changed)).changed is details


def test_managed_fields_alone_are_no_change() -> None:
    other = POD | {"metadata": POD["metadata"] | {"managedFields": []}}
    store = core.PodStore(details=True, raw=True)
    store.apply(event("ADDED", POD))
    assert not store.apply(event("MODIFIED", other)).changed


def test_ports_and_claims_of_a_node_are_those_of_its_pods() -> None:
    def on_node(name: str, namespace: str, port: int) -> dict[str, Any]:
        container = {"name": "c", "ports": [{"hostPort": port}]}
        volumes = [
            {"name": volume, "persistentVolumeClaim": {"claimName": "shared"}} for volume in "ab"
        ]
        return {
            "metadata": {"name": name, "namespace": namespace, "uid": name},
            "spec": {"nodeName": "n", "containers": [container], "volumes": volumes},
        }

    pods = core.PodStore(details=True)
    pods.replace(listed([on_node("a", "x", 80), on_node("b", "x", 81), on_node("c", "y", 82)]))
    nodes = core.NodeStore(details=True)
    nodes.apply(event("ADDED", {"metadata": {"name": "n"}}))
    node = nodes.get("n", pods.snapshot())
    assert node is not None
    assert sorted(node.used_ports) == [("0.0.0.0", "TCP", port) for port in (80, 81, 82)]
    assert node.pvc_ref_counts == {"x/shared": 4, "y/shared": 2}
