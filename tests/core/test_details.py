"""Details and JSON of pods and nodes, where a plugin declares that it needs them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.doors.core_objects import Json, compact, event, listed, names

from kubextend import core
from kubextend.errors import KubextendError

RECORDED = json.loads((Path(__file__).parents[1] / "data/wire/full/filter.json").read_bytes())
NODES: list[Json] = RECORDED["Nodes"]["items"]
OWNERS = [
    {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u0"},
    {"apiVersion": "v1", "kind": "Job", "name": "j", "uid": "u1", "controller": True},
]
EXPRESSIONS = [
    {"key": "tier", "operator": "NotIn", "values": ["b", "a"]},
    {"key": "old", "operator": "DoesNotExist"},
]
SELECTOR = {"matchLabels": {"app": "web"}, "matchExpressions": EXPRESSIONS}
TERMS = [{"topologyKey": "host", "labelSelector": SELECTOR}]
SPREAD = {"maxSkew": 2, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
NAMED = {"name": "p", "namespace": "ns", "uid": "u"}
POD: Json = {
    "metadata": {
        **NAMED,
        "ownerReferences": OWNERS,
        "managedFields": [{"manager": "kubectl", "fieldsV1": {"f:spec": {}}}],
    },
    "spec": {
        "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": TERMS}},
        "topologySpreadConstraints": [SPREAD],
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data-0"}}],
        "runtimeClassName": "gvisor",
        "resourceClaims": [{"name": "nic", "resourceClaimName": "nic-7"}],
        "containers": [{"name": "c", "image": "main:1", "ports": [{"hostPort": 8080}]}],
    },
    "status": {"conditions": [{"type": "example.com/Own", "status": "True"}]},
}


def by_request(shown: Json) -> core.Pod:
    watched = core.NodeStore(details=True, raw=True)
    return core.read_args(names([], shown), watched=watched).pod


def by_event(shown: Json) -> core.Pod:
    return core.PodStore(details=True, raw=True).apply(event("ADDED", shown)).pod


def by_list(shown: Json) -> core.Pod:
    store = core.PodStore(details=True, raw=True)
    store.replace(listed([shown]))
    return store.pods()[0]


@pytest.mark.parametrize("read", [by_request, by_event, by_list])
def test_a_pod_has_its_details_however_it_came(read: Callable[[Json], core.Pod]) -> None:
    pod = read(POD)
    (term,) = pod.pod_anti_affinity.required
    assert (term.topology_key, term.namespaces) == ("host", ["ns"])
    assert str(term.selector) == "app=web,!old,tier notin (a,b)"
    (spread,) = pod.topology_spread_constraints
    assert (spread.max_skew, spread.when_unsatisfiable) == (2, "DoNotSchedule")
    assert [(each.name, each.source) for each in pod.volumes] == [("data", "persistentVolumeClaim")]
    assert pod.claim_names == ["data-0"]
    assert [owner.name for owner in pod.owner_references] == ["n", "j"]
    assert pod.controller.kind == "Job"
    assert pod.host_ports == [("0.0.0.0", "TCP", 8080)]
    assert (pod.images, pod.runtime_class_name) == (["main:1"], "gvisor")
    assert [claim.resource_claim_name for claim in pod.resource_claims] == ["nic-7"]
    assert [(each.type, each.status) for each in pod.conditions] == [("example.com/Own", "True")]
    metadata = POD["metadata"] | {"managedFields": []}
    assert json.loads(pod.raw) == POD | {"metadata": metadata}


DETAILS = ["pod_affinity", "pod_anti_affinity", "topology_spread_constraints", "volumes"]
DETAILS += ["claim_names", "owner_references", "controller", "host_ports", "images"]
DETAILS += ["runtime_class_name", "resource_claims", "conditions"]


@pytest.mark.parametrize("field", [*DETAILS, "raw"])
def test_what_no_plugin_has_declared_is_an_error_that_names_the_declaration(field: str) -> None:
    found = core.PodStore().apply(event("ADDED", POD)).pod
    needed = "needs_raw" if field == "raw" else "needs_details"
    with pytest.raises(KubextendError, match=rf"set {needed} = True .*{field} of pods"):
        getattr(found, field)
    store = core.NodeStore()
    store.replace(listed(NODES))
    (node, *_) = store.nodes()
    for of_node in ("annotations", "conditions", "addresses", "raw"):
        with pytest.raises(KubextendError, match=r"set needs_(raw|details) = True"):
            getattr(node, of_node)


def nodes_by_list() -> core.Nodes:
    store = core.NodeStore(details=True, raw=True)
    store.replace(listed(NODES))
    return store.select([node["metadata"]["name"] for node in NODES])


def nodes_recognised() -> core.Nodes:
    store = core.RequestStore(details=True, raw=True)
    core.read_args(compact(RECORDED), store)
    found = core.read_args(compact(RECORDED), store).nodes
    assert store.stats().hits == len(NODES)
    return found


@pytest.mark.parametrize("read", [nodes_by_list, nodes_recognised])
def test_a_recorded_node_has_its_details_however_it_came(read: Callable[[], core.Nodes]) -> None:
    nodes = read()
    for node, shown in zip(NODES, nodes, strict=True):
        status, metadata = node["status"], node["metadata"]
        assert shown.annotations == metadata["annotations"]
        assert [(each.type, each.status) for each in shown.conditions] == [
            (each["type"], each["status"]) for each in status["conditions"]
        ]
        assert shown.addresses == [(each["type"], each["address"]) for each in status["addresses"]]
        assert shown.provider_id == node["spec"]["providerID"]
        assert shown.system_info == status["nodeInfo"]
        sizes = {name: image["sizeBytes"] for image in status["images"] for name in image["names"]}
        assert shown.images == sizes
        assert shown.capacity("pods") == int(status["capacity"]["pods"])
        assert json.loads(shown.raw) == node | {"metadata": metadata | {"managedFields": []}}
    for key in [*NODES[0]["metadata"]["annotations"], "no such"]:
        texts: list[Any] = [node["metadata"]["annotations"].get(key) for node in NODES]
        assert nodes.annotations(key) == texts
        assert [shown.annotation(key) for shown in nodes] == texts


def test_a_heartbeat_is_no_change_of_details_and_is_one_of_the_json() -> None:
    node = NODES[0]
    beat = json.loads(json.dumps(node))
    for condition in beat["status"]["conditions"]:
        condition["lastHeartbeatTime"] = "2031-01-01T00:00:00Z"
    for raw in (False, True):
        store = core.NodeStore(details=True, raw=raw)
        store.apply(event("ADDED", node))
        assert store.apply(event("MODIFIED", beat)).changed is raw
