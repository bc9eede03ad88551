"""Gangs whose number comes from a PodGroup; test_coscheduling has what holds for all gangs."""

import asyncio
from typing import Any

import pytest

from kubextend import testing
from kubextend.framework.cycle_state import CycleState
from kubextend.framework.status import Code
from kubextend.plugins.pod_group_coscheduling import POD_GROUPS, PodGroupCoscheduling

LABEL = "scheduling.x-k8s.io/pod-group"
NO_POD_GROUP = "there is no PodGroup with a minMember for the pod's label"
TOO_FEW = "pod group has fewer pods than its minimum"
LACKS_RESOURCES = "cluster lacks minResources of the PodGroup"


def pod(name: str, group: str = "g", namespace: str = "ml", **fields: Any) -> Any:
    return testing.pod_manifest(
        name, uid=f"uid-{name}", namespace=namespace, labels={LABEL: group}, **fields
    )


def pod_group(name: str = "g", namespace: str = "ml", **spec: Any) -> Any:
    return {"metadata": {"name": name, "namespace": namespace}, "spec": spec}


def cluster(*groups: Any, pods: Any = ()) -> testing.Runner:
    room = {"cpu": "4", "memory": "8Gi", "pods": "4"}
    nodes = [testing.node_manifest(name, allocatable=room) for name in ("n", "m")]
    runner = testing.Runner(PodGroupCoscheduling, nodes=nodes, pods=pods)
    for each in groups:
        runner.put(POD_GROUPS, each)
    return runner


def why_not(runner: testing.Runner, asked: Any) -> str:
    result = runner.filter(asked)
    assert result.unresolvable == result.rejected.keys()
    return result.rejected.get("n", "")


def test_a_pod_without_a_pod_group_waits_for_it() -> None:
    runner = cluster(pod_group(namespace="elsewhere", minMember=1), pods=[pod("a")])
    assert why_not(runner, pod("a")) == NO_POD_GROUP
    assert why_not(runner, testing.pod_manifest("unlabelled", namespace="ml")) == ""
    runner.put(POD_GROUPS, pod_group(minMember=1))
    assert why_not(runner, pod("a")) == ""
    runner.remove(POD_GROUPS, pod_group())
    assert why_not(runner, pod("a")) == NO_POD_GROUP


@pytest.mark.parametrize("spec", [{}, {"minMember": 0}, {"minMember": "3"}, {"minMember": None}])
def test_a_pod_group_without_a_number_is_none(spec: Any) -> None:
    runner = cluster(pod_group(**spec), pods=[pod("a")])
    assert why_not(runner, pod("a")) == NO_POD_GROUP
    assert runner.bind(pod("a"), "n").error == NO_POD_GROUP


def test_the_number_is_that_of_the_pod_group_at_the_time() -> None:
    runner = cluster(pod_group(minMember=3), pods=[pod("a"), pod("b"), pod("c", group="other")])
    assert why_not(runner, pod("a")) == TOO_FEW
    runner.put(POD_GROUPS, pod_group(minMember=2))
    assert why_not(runner, pod("a")) == ""


def test_pods_are_held_until_as_many_as_min_member_have_a_node() -> None:
    pods = [pod(name) for name in "abc"]
    runner = cluster(pod_group(minMember=3), pods=pods)

    async def gang() -> list[bool]:
        first = [asyncio.ensure_future(runner.binding(each, "n")) for each in pods[:2]]
        for each in pods[:2]:
            await runner.held(each)
        assert runner.bindings.nodes == {}
        last = await runner.binding(pods[2], "m")
        return [last.bound, *[result.bound for result in await asyncio.gather(*first)]]

    assert asyncio.run(gang()) == [True] * 3


@pytest.mark.parametrize(("given", "seconds"), [(7, 7), (None, 60), (0, 60)])
def test_the_pod_group_says_how_long_its_pods_wait(given: int | None, seconds: int) -> None:
    runner = cluster(pod_group(minMember=2, scheduleTimeoutSeconds=given))
    [plugin] = runner.plugins
    assert isinstance(plugin, PodGroupCoscheduling)
    permitted = plugin.permit(
        CycleState(), testing.make_pod("a", namespace="ml", labels={LABEL: "g"}), "n"
    )
    said = asyncio.run(permitted)
    assert isinstance(said, tuple)
    assert (said[0].code, said[1]) == (Code.WAIT, seconds)


@pytest.mark.parametrize(
    ("least", "fits"),
    [
        ({"cpu": "8"}, True),
        ({"cpu": "8001m"}, False),
        ({"memory": "16Gi", "cpu": 8}, True),
        ({"memory": "17179869185"}, False),
        ({"nvidia.com/gpu": "1"}, False),
        ({}, True),
    ],
)
def test_all_nodes_together_need_min_resources(least: Any, fits: bool) -> None:
    runner = cluster(pod_group(minMember=1, minResources=least), pods=[pod("a")])
    assert why_not(runner, pod("a")) == ("" if fits else LACKS_RESOURCES)


def test_what_others_request_is_not_left_and_what_the_group_requests_is() -> None:
    def on(node: str, name: str, group: str, cpu: str) -> Any:
        return pod(name, group, node_name=node, requests={"cpu": cpu})

    there = [on("n", "own", "g", "3"), on("m", "other", "h", "1"), pod("a")]
    runner = cluster(pod_group(minMember=2, minResources={"cpu": "7"}), pods=there)
    assert why_not(runner, pod("a")) == ""
    runner.put(POD_GROUPS, pod_group(minMember=2, minResources={"cpu": "7001m"}))
    assert why_not(runner, pod("a")) == LACKS_RESOURCES


def test_a_node_with_too_many_requests_takes_nothing_from_other_nodes() -> None:
    there = [pod("huge", "h", node_name="n", requests={"cpu": "9"}), pod("a")]
    runner = cluster(pod_group(minMember=1, minResources={"cpu": "4"}), pods=there)
    assert why_not(runner, pod("a")) == ""


def test_the_nodes_need_places_for_as_many_pods_as_min_member() -> None:
    others = [pod(f"p{number}", "h", node_name="n") for number in range(3)]
    members = [pod(f"m{number}") for number in range(6)]
    least = {"cpu": "1"}
    runner = cluster(pod_group(minMember=5, minResources=least), pods=[*others, *members])
    assert why_not(runner, pod("m0")) == ""
    runner.put(POD_GROUPS, pod_group(minMember=6, minResources=least))
    assert why_not(runner, pod("m0")) == LACKS_RESOURCES


def parked(name: str, group: str = "g", **fields: Any) -> Any:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    return pod(name, group, **fields) | {"status": {"conditions": [condition]}}


def test_unschedulable_pods_are_tried_again_when_their_pod_group_comes_or_changes() -> None:
    stranger = parked("stranger", scheduler_name="other")
    waiting = [parked("a"), pod("new"), parked("b", "other"), stranger]
    runner = cluster(pods=waiting)
    assert why_not(runner, parked("a")) == NO_POD_GROUP
    runner.put(POD_GROUPS, pod_group(minMember=3))
    assert runner.activations.names == ["a"]
    runner.put(POD_GROUPS, pod_group(minMember=3) | {"status": {"phase": "Pending"}})
    assert runner.activations.names == ["a"]
    runner.put(POD_GROUPS, pod_group(minMember=2))
    assert runner.activations.names == ["a", "a"]
