"""Plugins that score nodes by their resources; tests/contract compares them with Go's decisions."""

from typing import Any

import pytest
from pydantic import ValidationError

from kubextend import testing
from kubextend.plugins import NodeResourcesAllocatable, NodeResourcesFit, PodState

SHAPE = [{"utilization": 5, "score": 1}, {"utilization": 5, "score": 2}]
RATIO = "RequestedToCapacityRatio"
ROOM = {"cpu": "4", "memory": "8Gi", "pods": "3"}


def on(node: str, name: str, **fields: Any) -> Any:
    return testing.pod_manifest(name, uid=f"uid-{name}", node_name=node, **fields)


def filtered(pod: Any, *pods: Any, **args: Any) -> testing.FilterResult:
    nodes = [testing.node_manifest("node", allocatable=ROOM | {"example.com/fpga": "1"})]
    return testing.run_filter(NodeResourcesFit, pod, nodes, pods=pods, args=args)


def test_a_node_is_full_when_the_requests_of_its_pods_leave_too_little() -> None:
    there = on("node", "there", requests={"cpu": "3"})
    fits = testing.pod_manifest("fits", requests={"cpu": "1"})
    assert filtered(fits, there).kept == ("node",)
    more = testing.pod_manifest("more", requests={"cpu": "1001m", "memory": "9Gi"})
    assert filtered(more, there).rejected == {"node": "Insufficient cpu, Insufficient memory"}


def test_a_node_has_no_more_pods_than_it_may() -> None:
    three = [on("node", str(number)) for number in range(3)]
    assert filtered(testing.pod_manifest(), *three).rejected == {"node": "Too many pods"}


def test_ignored_devices_need_no_room() -> None:
    pod = testing.pod_manifest(requests={"example.com/fpga": "2"})
    assert filtered(pod).rejected == {"node": "Insufficient example.com/fpga"}
    assert filtered(pod, ignoredResourceGroups=["example.com"]).kept == ("node",)
    assert filtered(pod, ignoredResources=["example.com/fpga"]).kept == ("node",)
    assert not filtered(pod, ignoredResources=["example.com/other"]).kept


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ({"type": "Most"}, "LeastAllocated"),
        ({"type": RATIO}, "give both or neither"),
        ({"requestedToCapacityRatio": {"shape": SHAPE[:1]}}, "give both or neither"),
        ({"resources": [{"name": "pods"}]}, "counts no resource 'pods'"),
        ({"resources": [{"name": "cpu"}, {"name": "cpu"}]}, "names cpu more than once"),
        ({"resources": [{"name": "cpu", "weight": 101}]}, "at most 100"),
        ({"type": RATIO, "requestedToCapacityRatio": {"shape": SHAPE}}, "a higher utilization"),
    ],
)
def test_arguments_that_mean_nothing_are_refused(args: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        NodeResourcesFit.Args.model_validate({"scoringStrategy": args})


def test_equal_nodes_are_equally_good() -> None:
    nodes = [testing.node_manifest(name, allocatable=ROOM) for name in "ab"]
    scores = testing.run_score(NodeResourcesAllocatable, testing.make_pod(), nodes)
    assert scores == {"a": 0, "b": 0}


def test_pods_that_leave_attract_and_nominated_pods_repel() -> None:
    nodes = [testing.node_manifest(name, allocatable=ROOM) for name in "abc"]
    leaving = on("a", "leaving")
    leaving["metadata"]["deletionTimestamp"] = "2030-01-01T00:00:00Z"
    coming = testing.pod_manifest("coming", uid="uid-coming")
    coming.setdefault("status", {})["nominatedNodeName"] = "c"
    scores = testing.run_score(PodState, testing.make_pod(), nodes, pods=[leaving, coming])
    assert scores == {"a": 100, "b": 50, "c": 0}
