"""NetworkOverhead beside its recorded cases: objects that are missing, misformed or changed."""

from typing import Any

import pytest

from kubextend import testing
from kubextend.plugins import NetworkOverhead

APP_GROUPS = "appgroup.diktyo.x-k8s.io/v1alpha1/appgroups"
TOPOLOGIES = "networktopology.diktyo.x-k8s.io/v1alpha1/networktopologies"
GROUP = "appgroup.diktyo.x-k8s.io"
REGION, ZONE = "topology.kubernetes.io/region", "topology.kubernetes.io/zone"
TOO_FAR = "node is too far from pods that the pod depends on"
NODES = {
    "near": {REGION: "east", ZONE: "a"},
    "there": {REGION: "east", ZONE: "a"},
    "next": {REGION: "east", ZONE: "b"},
    "abroad": {REGION: "west", ZONE: "c"},
    "nowhere": {},
}


def member(name: str, workload: str, **fields: Any) -> Any:
    labels = {GROUP: "shop", f"{GROUP}.workload": workload}
    return testing.pod_manifest(name, uid=f"uid-{name}", labels=labels, **fields)


def app_group(most: Any = 5, *on: str, namespace: str = "default") -> Any:
    needs = [{"workload": {"selector": each}, "maxNetworkCost": most} for each in on or ("db",)]
    web = {"workload": {"selector": "web"}, "dependencies": needs}
    spec = {"workloads": [web, {"workload": {"selector": "db"}}]}
    return {"metadata": {"name": "shop", "namespace": namespace}, "spec": spec}


def between(key: str, **costs: int) -> Any:
    """Return costs; a pair of places is written as origin_destination."""
    pairs = [(*pair.split("_"), cost) for pair, cost in costs.items()]
    origins = [
        {"origin": origin, "costList": [{"destination": destination, "networkCost": cost}]}
        for origin, destination, cost in pairs
    ]
    return {"topologyKey": key, "originList": origins}


def topology(zones: Any, regions: Any) -> Any:
    spec = {"weights": [{"name": "UserDefined", "topologyList": [zones, regions]}]}
    return {"metadata": {"name": "nt-default", "namespace": "default"}, "spec": spec}


COSTS = topology(between(ZONE, b_a=5), between(REGION, west_east=20))
WEB = member("asked", "web")
DB = member("db-0", "db", node_name="there")


def world(*pods: Any, group: Any = None, costs: Any = COSTS, **args: Any) -> testing.Cluster:
    name = NetworkOverhead.name
    # With a weight of ten, the answer is the score.
    made = testing.Cluster(
        NetworkOverhead, nodes=NODES, pods=pods, args={name: args}, weights={name: 10}
    )
    for resource, found in ((APP_GROUPS, group or app_group()), (TOPOLOGIES, costs)):
        if found != {}:
            made.put(resource, found)
    return made


def test_nodes_pass_that_are_near_enough_or_whose_costs_are_unknown() -> None:
    result = world(DB).filter(WEB)
    assert result.rejected == {"abroad": TOO_FAR}
    assert "abroad" not in result.unresolvable
    assert world(DB, group=app_group(4)).filter(WEB).rejected.keys() == {"next", "abroad"}
    assert world(DB, group=app_group(20)).filter(WEB).rejected == {}


def test_more_than_32_dependencies_of_a_workload_reject_its_pods() -> None:
    """Each call counts the pods on all nodes for each dependency; a tenant may name hundreds."""
    names = [f"w{number}" for number in range(33)]
    assert world(DB, group=app_group(5, *names[:32])).filter(WEB).rejected == {}
    many = world(DB, group=app_group(5, *names))
    reason = "the AppGroup has more than 32 dependencies of the workload; name fewer"
    assert many.filter(WEB).rejected == dict.fromkeys(NODES, reason)
    assert many.filter(member("other", "db")).rejected == {}


def test_as_many_near_pods_as_far_pods_are_enough() -> None:
    far = member("db-1", "db", node_name="next")
    assert "near" in world(DB, far).filter(WEB).kept
    # There is no cost from zone a to zone b: only pods of the same zone count there.
    costs = topology(between(ZONE, a_b=9), between(REGION))
    assert world(DB, far, costs=costs).filter(WEB).rejected == {}
    more = member("db-2", "db", node_name="next")
    assert world(DB, far, more, costs=costs).filter(WEB).rejected.keys() == {"near", "there"}


def test_the_lowest_sum_of_costs_has_the_highest_score() -> None:
    # there 0, near 1, next 5, abroad 20, nowhere 100, as no cost from it is known.
    scores = world(DB).prioritize(WEB)
    assert scores == {"there": 100, "near": 99, "next": 95, "abroad": 80, "nowhere": 0}


def test_a_pod_on_a_node_without_a_place_is_near_enough_to_that_node_only() -> None:
    lost = member("db-0", "db", node_name="nowhere")
    assert world(lost).filter(WEB).kept == ("nowhere",)
    assert world(lost).prioritize(WEB)["nowhere"] == 100


@pytest.mark.parametrize(
    ("pod", "pods"),
    [
        (testing.pod_manifest("lone"), [DB]),
        (member("asked", "db"), [DB]),
        (member("asked", "unknown"), [DB]),
        (WEB, []),
        (WEB, [member("db-0", "db")]),
        (WEB, [member("other", "web", node_name="there")]),
    ],
)
def test_pods_without_dependencies_that_run_go_anywhere(pod: Any, pods: Any) -> None:
    of = world(*pods)
    assert of.filter(pod).rejected == {}
    assert set(of.prioritize(pod).values()) == {0}


def test_without_its_app_group_a_pod_waits_until_the_group_comes() -> None:
    of = world(DB, group=app_group(namespace="elsewhere"))
    result = of.filter(WEB)
    reason = "there is no AppGroup shop in the namespaces of NetworkOverhead"
    assert result.rejected == dict.fromkeys(NODES, reason)
    # To evict pods would not bring the object.
    assert set(result.unresolvable) == set(NODES)
    assert set(of.prioritize(WEB).values()) == {0}
    of.put(APP_GROUPS, app_group())
    assert "near" in of.filter(WEB).kept


def test_without_the_network_topology_a_pod_waits_until_it_comes() -> None:
    of = world(DB, costs={})
    reason = "there is no NetworkTopology nt-default in the namespaces of NetworkOverhead"
    assert of.filter(WEB).rejected == dict.fromkeys(NODES, reason)
    of.put(TOPOLOGIES, COSTS)
    assert of.filter(WEB).rejected == {"abroad": TOO_FAR}
    of.put(TOPOLOGIES, topology(between(ZONE, b_a=6), between(REGION, west_east=1)))
    assert of.filter(WEB).rejected == {"next": TOO_FAR}


@pytest.mark.parametrize(
    ("resource", "broken"),
    [
        (APP_GROUPS, app_group("much")),
        (APP_GROUPS, {"metadata": app_group()["metadata"], "spec": {"workloads": [{}]}}),
        (APP_GROUPS, {"metadata": app_group()["metadata"]}),
        (TOPOLOGIES, {"metadata": COSTS["metadata"], "spec": {"weights": 3}}),
        (TOPOLOGIES, topology({"topologyKey": ZONE}, between(REGION))),
    ],
)
def test_an_invalid_object_holds_the_pod_back(resource: str, broken: Any) -> None:
    of = world(DB)
    of.put(resource, broken)
    assert len(of.filter(WEB).unresolvable) == len(NODES)


def test_the_error_about_a_too_large_object_names_the_object() -> None:
    of = world(DB, group=app_group(0, *("w" * 60 for _ in range(1000))))
    assert of.filter(WEB).error
    assert "default/shop is too large" in str(of.failures[0])


def test_no_pod_has_a_label_with_a_selector_of_another_form() -> None:
    group = app_group(0, "db,x notin (y)", "d b", "a" * 64)
    assert world(DB, group=group).filter(WEB).rejected == {}


def test_namespaces_are_looked_through_in_their_order() -> None:
    of = world(DB, group=app_group(0, namespace="first"), namespaces=["first", "default"])
    of.put(APP_GROUPS, app_group(100))
    assert of.filter(WEB).rejected.keys() == {"next", "abroad"}
