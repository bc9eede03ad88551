"""Gangs whose number comes from a PodGroup; test_coscheduling has what holds for all gangs."""

from typing import Any

import pytest

from kubextend import testing
from kubextend.plugins import PodGroupCoscheduling

POD_GROUPS = "scheduling.x-k8s.io/v1alpha1/podgroups"
LABEL = "scheduling.x-k8s.io/pod-group"
NO_POD_GROUP = "there is no PodGroup with a minMember for the pod's label"
TOO_FEW = "pod group has fewer pods than its minimum"
LACKS_RESOURCES = "cluster lacks minResources of the PodGroup"


def pod(name: str, group: str = "g", namespace: str = "ml", **fields: Any) -> Any:
    metadata = {"uid": f"uid-{name}", "namespace": namespace, "labels": {LABEL: group}}
    return testing.pod_manifest(name, **metadata, **fields)


def pod_group(name: str = "g", namespace: str = "ml", **spec: Any) -> Any:
    return {"metadata": {"name": name, "namespace": namespace}, "spec": spec}


def cluster(*groups: Any, pods: Any = (), **args: Any) -> testing.Cluster:
    room = {"cpu": "4", "memory": "8Gi", "pods": "4"}
    nodes = [testing.node_manifest(name, allocatable=room) for name in ("n", "m")]
    named = {"PodGroupCoscheduling": args}
    world = testing.Cluster(PodGroupCoscheduling, nodes=nodes, pods=pods, args=named)
    for each in groups:
        world.put(POD_GROUPS, each)
    return world


def why_not(world: testing.Cluster, asked: Any) -> str:
    result = world.filter(asked)
    assert result.unresolvable == result.rejected.keys()
    return result.rejected.get("n", "")


def test_a_pod_without_a_pod_group_waits_for_it() -> None:
    world = cluster(pod_group(namespace="elsewhere", minMember=1), pods=[pod("a")])
    assert why_not(world, pod("a")) == NO_POD_GROUP
    assert why_not(world, testing.pod_manifest("unlabelled", namespace="ml")) == ""
    world.put(POD_GROUPS, pod_group(minMember=1))
    assert why_not(world, pod("a")) == ""
    world.remove(POD_GROUPS, pod_group())
    assert why_not(world, pod("a")) == NO_POD_GROUP


@pytest.mark.parametrize("spec", [{}, {"minMember": 0}, {"minMember": "3"}, {"minMember": None}])
def test_a_pod_group_without_a_number_is_none(spec: Any) -> None:
    world = cluster(pod_group(**spec), pods=[pod("a")])
    assert why_not(world, pod("a")) == NO_POD_GROUP
    assert world.bind(pod("a"), "n").error == NO_POD_GROUP


def test_the_number_is_that_of_the_pod_group_at_the_time() -> None:
    world = cluster(pod_group(minMember=3), pods=[pod("a"), pod("b"), pod("c", group="other")])
    assert why_not(world, pod("a")) == TOO_FEW
    world.put(POD_GROUPS, pod_group(minMember=2))
    assert why_not(world, pod("a")) == ""


def test_pods_are_held_until_as_many_as_min_member_have_a_node() -> None:
    pods = [pod(name) for name in "abc"]
    world = cluster(pod_group(minMember=3), pods=pods)
    for each in pods[:2]:
        assert world.bind(each, "n").waiting == ("PodGroupCoscheduling",)
    assert world.bindings.nodes == {}
    assert world.bind(pods[2], "m").node == "m"
    assert [world.outcome(each).node for each in pods] == ["n", "n", "m"]


@pytest.mark.parametrize(("given", "seconds"), [(7, 7), (None, 40), (0, 40)])
def test_the_pod_group_says_how_long_its_pods_wait(given: int | None, seconds: int) -> None:
    pods = [pod("a"), pod("b")]
    group = pod_group(minMember=2, scheduleTimeoutSeconds=given)
    world = cluster(group, pods=pods, permitWaitingTimeSeconds=40)
    world.bind(pods[0], "n")
    world.advance(seconds - 0.1)
    assert world.outcome(pods[0]).waiting
    world.advance(0.1)
    assert "rejected due to timeout" in world.outcome(pods[0]).error


@pytest.mark.parametrize(
    ("least", "fits"),
    [
        ({"cpu": "8"}, True),
        ({"cpu": "8001m"}, False),
        ({"memory": "16Gi", "cpu": 8}, True),
        ({"memory": "17179869185"}, False),
        ({"hugepages-2Mi": "2Mi"}, False),
        ({}, True),
    ],
)
def test_all_nodes_together_need_min_resources(least: Any, fits: bool) -> None:
    world = cluster(pod_group(minMember=1, minResources=least), pods=[pod("a")])
    assert why_not(world, pod("a")) == ("" if fits else LACKS_RESOURCES)


NO_QUANTITY = "minResources of the PodGroup has an amount that is no quantity"
TOO_MANY = "minResources of the PodGroup has more than 32 resources; name fewer"


def test_min_resources_with_too_many_names_are_refused_until_there_are_fewer() -> None:
    def named(number: int) -> Any:
        least = {f"hugepages-{at + 1}Mi": "1" for at in range(number)}
        return pod_group(minMember=1, minResources=least)

    assert why_not(cluster(named(32)), pod("a")) == LACKS_RESOURCES
    world = cluster(named(33))
    assert why_not(world, pod("a")) == TOO_MANY
    world.put(POD_GROUPS, pod_group(minMember=1, minResources={"cpu": "1"}))
    assert why_not(world, pod("a")) == ""


def test_an_amount_that_is_no_quantity_rejects_the_pods_of_the_pod_group_alone() -> None:
    spaces = ["ml", "web", "db"]
    # The CustomResourceDefinition of scheduler-plugins takes a fraction in the exponent.
    amounts = dict.fromkeys(spaces, "1e1.5") | {"calm": "1"}
    world = cluster(
        *(
            pod_group(namespace=space, minMember=1, minResources={"cpu": amount})
            for space, amount in amounts.items()
        )
    )
    for at in range(5):
        for each in spaces:
            assert why_not(world, pod(f"p{at}", namespace=each)) == NO_QUANTITY
    assert world.failures == []
    assert why_not(world, pod("a", namespace="calm")) == ""


def test_names_without_an_amount_are_not_looked_for() -> None:
    nothing = {f"example.com/r{at}": amount for at, amount in enumerate(["0", "-1"] * 20)}
    world = cluster(pod_group(minMember=1, minResources=nothing), pods=[pod("a")])
    assert why_not(world, pod("a")) == ""


@pytest.mark.parametrize(
    ("there", "left_milli"),
    [
        # On which of the nodes with 4 CPUs each, of which group, and how many CPUs.
        pytest.param([("n", "g", "3"), ("m", "h", "1")], 7000, id="own requests count as left"),
        pytest.param([("n", "h", "9")], 4000, id="an overfull node takes nothing from others"),
        pytest.param([("n", "g", "3"), ("n", "h", "3")], 5000, id="no more than without others"),
    ],
)
def test_what_others_request_is_not_left(there: Any, left_milli: int) -> None:
    pods = [
        pod(f"p{at}", group, node_name=node, requests={"cpu": cpu})
        for at, (node, group, cpu) in enumerate(there)
    ]
    for asked, said in ((left_milli, ""), (left_milli + 1, LACKS_RESOURCES)):
        group = pod_group(minMember=1, minResources={"cpu": f"{asked}m"})
        assert why_not(cluster(group, pods=[*pods, pod("a")]), pod("a")) == said


def test_the_nodes_need_places_for_as_many_pods_as_min_member() -> None:
    others = [pod(f"p{number}", "h", node_name="n") for number in range(3)]
    members = [pod(f"m{number}") for number in range(6)]
    least = {"cpu": "1"}
    world = cluster(pod_group(minMember=5, minResources=least), pods=[*others, *members])
    assert why_not(world, pod("m0")) == ""
    world.put(POD_GROUPS, pod_group(minMember=6, minResources=least))
    assert why_not(world, pod("m0")) == LACKS_RESOURCES


def parked(name: str, group: str = "g", **fields: Any) -> Any:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    return pod(name, group, **fields) | {"status": {"conditions": [condition]}}


def test_unschedulable_pods_are_tried_again_when_their_pod_group_comes_or_changes() -> None:
    stranger = parked("stranger", scheduler_name="other")
    waiting = [parked("a"), pod("new"), parked("b", "other"), stranger]
    world = cluster(pods=waiting)
    assert why_not(world, testing.pod_manifest("unlabelled", namespace="ml")) == ""
    world.put(POD_GROUPS, pod_group(minMember=3))
    assert world.activated == ["a"]
    world.put(POD_GROUPS, pod_group(minMember=3) | {"status": {"phase": "Pending"}})
    assert world.activated == ["a"]
    world.put(POD_GROUPS, pod_group(minMember=2))
    assert world.activated == ["a", "a"]


def test_those_for_whom_min_resources_lacked_are_tried_again_when_a_member_finds_a_node() -> None:
    members = [parked("a"), parked("b"), parked("c")]
    huge = pod("huge", "h", node_name="n", requests={"cpu": "4"})
    world = cluster(pod_group(minMember=2, minResources={"cpu": "8"}), pods=[*members, huge])
    for each in members[:2]:
        assert why_not(world, each) == LACKS_RESOURCES
    world.delete(huge | {"kind": "Pod"})
    assert why_not(world, members[2]) == ""
    before = len(world.activated)
    world.bind(members[2], "n")
    assert world.activated[before:] == ["a", "b"]
