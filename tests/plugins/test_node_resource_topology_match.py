"""NodeResourceTopologyMatch beside its recorded cases: objects that are missing or misformed."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from kubextend import testing
from kubextend.plugins import NodeResourceTopologyMatch

TOPOLOGIES = "topology.node.k8s.io/v1alpha2/noderesourcetopologies"
GPU = "nvidia.com/gpu"
INVALID = "invalid node topology data"
ROOM = {"cpu": "16", "memory": "64Gi", "pods": "110", GPU: "2"}
FEW = {"scoringStrategy": {"type": "LeastNUMANodes"}}


def zone(number: int, costs: Mapping[int, int] | None = None, **available: str) -> dict[str, Any]:
    named = {GPU if name == "gpu" else name: amount for name, amount in available.items()}
    return {
        "name": f"node-{number}",
        "type": "Node",
        "resources": [{"name": name, "available": amount} for name, amount in named.items()],
        "costs": [{"name": f"node-{to}", "value": cost} for to, cost in (costs or {}).items()],
    }


def topology(*zones: Mapping[str, Any], scope: str = "container", **attributes: str) -> Any:
    default = {"topologyManagerPolicy": "single-numa-node", "topologyManagerScope": scope}
    named = [{"name": name, "value": value} for name, value in (default | attributes).items()]
    return {"metadata": {"name": "n0"}, "attributes": named, "zones": list(zones)}


def world(*found: Any, rooms: Sequence[Mapping[str, str]] = (ROOM,), **args: Any) -> Any:
    """Return a cluster of as many nodes as objects, at least one: n0, n1 and so on."""
    name = NodeResourceTopologyMatch.name
    many = rooms if len(rooms) > 1 else [ROOM] * max(len(found), 1)
    nodes = [testing.node_manifest(f"n{at}", allocatable=room) for at, room in enumerate(many)]
    objects = [each | {"metadata": {"name": f"n{at}"}} for at, each in enumerate(found)]
    # With a weight of ten, the answer is the score.
    return testing.Cluster(
        NodeResourceTopologyMatch,
        nodes=nodes,
        objects={TOPOLOGIES: objects},
        args={name: args},
        weights={name: 10},
    )


def guaranteed(*containers: Mapping[str, str]) -> Any:
    asked = [{"requests": each, "limits": each} for each in containers]
    made: list[Any] = [{"name": f"c{at}", "resources": each} for at, each in enumerate(asked)]
    return testing.pod_manifest("pod", containers=made)


def reason(of: testing.Cluster, pod: Any) -> str:
    return of.filter(pod).rejected.get("n0", "")


def score(of: testing.Cluster, pod: Any) -> int:
    return of.prioritize(pod)["n0"]


FOUR_CPUS = guaranteed({"cpu": "4", "memory": "8Gi"})
HALVES = (zone(0, cpu="3", memory="32Gi"), zone(1, cpu="5", memory="32Gi"))


def test_a_pod_needs_one_zone_with_room_for_all_that_it_requests() -> None:
    assert reason(world(topology(*HALVES)), FOUR_CPUS) == ""
    short = topology(zone(0, cpu="3", memory="32Gi"), zone(1, cpu="5", memory="1Gi"))
    assert reason(world(short), FOUR_CPUS) == "cannot align container"
    of_pods = topology(*short["zones"], scope="pod")
    assert reason(world(of_pods), FOUR_CPUS) == "cannot align pod"


def test_containers_of_a_pod_take_room_from_each_other() -> None:
    two = guaranteed({"cpu": "3", "memory": "1Gi"}, {"cpu": "5", "memory": "1Gi"})
    assert reason(world(topology(*HALVES)), two) == ""
    # kubelet gives the first container the zone with the lowest number that has room.
    other_way = guaranteed({"cpu": "4", "memory": "1Gi"}, {"cpu": "4", "memory": "1Gi"})
    assert reason(world(topology(*HALVES)), other_way) == "cannot align container"


def test_without_an_object_or_with_another_policy_a_node_passes() -> None:
    found = topology(zone(0, cpu="1", memory="1Gi"), topologyManagerPolicy="restricted")
    assert reason(world(found), FOUR_CPUS) == ""
    assert reason(world(), FOUR_CPUS) == ""
    assert score(world(), FOUR_CPUS) == 0


def test_a_device_whose_plugin_tells_no_zone_needs_none() -> None:
    gpu = guaranteed({"cpu": "1", "memory": "1Gi", GPU: "1"})
    assert reason(world(topology(*HALVES)), gpu) == ""


@pytest.mark.parametrize(
    "broken",
    [
        topology(zone(0, cpu="much")),
        topology({"name": "node-0"}),
        topology(zone(0, cpu="1"), zone(0, cpu="4")),
        topology() | {"attributes": [{"name": "topologyManagerPolicy"}]},
        topology() | {"zones": 7},
        topology() | {"zones": [zone(at, cpu="1" * 20) for at in range(1000)]},
    ],
)
def test_an_object_that_cannot_be_read_rejects_the_node_and_is_logged(
    broken: Any, caplog: pytest.LogCaptureFixture
) -> None:
    of = world(broken)
    assert reason(of, FOUR_CPUS) == INVALID
    assert score(of, FOUR_CPUS) == 0
    assert "the NodeResourceTopology n0 cannot be read" in caplog.text
    of.put(TOPOLOGIES, topology(*HALVES))
    assert reason(of, FOUR_CPUS) == ""


def test_a_changed_and_a_deleted_object_count_at_once() -> None:
    of = world(topology(zone(0, cpu="1", memory="32Gi")))
    assert reason(of, FOUR_CPUS) == "cannot align container"
    of.put(TOPOLOGIES, topology(*HALVES))
    assert reason(of, FOUR_CPUS) == ""
    of.remove(TOPOLOGIES, topology(zone(0, cpu="1", memory="32Gi")))
    assert score(of, FOUR_CPUS) == 0


def test_zones_need_no_numbers_without_gaps() -> None:
    # The original ends with a panic here.
    gap = topology(zone(3, cpu="8", memory="16Gi"), zone(9, cpu="8", memory="16Gi"))
    assert score(world(gap), FOUR_CPUS) == 50  # half of the CPUs, half of the memory
    assert score(world(gap, **FEW), FOUR_CPUS) == 100 - 12 + 6


def test_a_pod_that_needs_more_zones_than_kubelet_allows_has_no_points() -> None:
    # The original gives a score below 0, which kube-scheduler refuses.
    quarters = [zone(at, cpu="1", memory="4Gi") for at in range(4)]
    found = topology(*quarters, topologyManagerMaxNUMANodes="2")
    assert score(world(found, **FEW), FOUR_CPUS) == 0


def test_many_zones_do_not_take_for_ever() -> None:
    # 64 zones have 2**64 sets; the sets of one and of two zones are looked at.
    many = topology(*(zone(at, cpu="1", memory="4Gi") for at in range(64)))
    assert score(world(many, **FEW), FOUR_CPUS) == 0
    two = guaranteed({"cpu": "2", "memory": "8Gi"})
    assert score(world(many, **FEW), two) == 100 - 2 * 12 + 6


def test_one_resource_is_balanced() -> None:
    # The original scores the lowest int64, as the variance of one value is not a number.
    container: dict[str, Any] = {"name": "c", "resources": {"requests": {"cpu": "1"}}}
    one = testing.pod_manifest("pod", containers=[container])
    one["status"] = {"qosClass": "Guaranteed"}
    args = {"scoringStrategy": {"type": "BalancedAllocation"}}
    assert score(world(topology(*HALVES), **args), one) == 100
    one["spec"]["containers"][0]["resources"] = {}
    assert score(world(topology(*HALVES)), one) == 0


def rows(*, alike: bool, **args: Any) -> testing.Cluster:
    """Return a cluster of 200 nodes with two zones each, which are alike or all different."""
    amounts = ["8" if alike else f"{8000 + at}m" for at in range(200)]
    halves = [[zone(half, cpu=cpu, memory="32Gi") for half in range(2)] for cpu in amounts]
    return world(*(topology(*each) for each in halves), **args)  # type: ignore[no-any-return]


def test_of_nodes_whose_zones_are_alike_each_is_judged_by_its_own_devices() -> None:
    without = {name: amount for name, amount in ROOM.items() if name != GPU}
    taken = topology(zone(0, cpu="8", memory="32Gi", gpu="0"))
    of = world(taken, taken, rooms=(ROOM, without))
    result = of.filter(guaranteed({"cpu": "1", "memory": "1Gi", GPU: "1"}))
    # What the status of n1 has not, dynamic resource allocation may serve.
    assert (result.kept, result.rejected) == (("n1",), {"n0": "cannot align container"})


def test_of_nodes_whose_zones_are_alike_each_is_scored_by_the_zones_it_allows() -> None:
    # A pod in one zone keeps all but one of so many parts of the score, and half a part for its
    # nearest zones.
    of = world(topology(*HALVES), topology(*HALVES, topologyManagerMaxNUMANodes="2"), **FEW)
    assert of.prioritize(FOUR_CPUS) == {"n0": 100 - 100 // 8 + 6, "n1": 100 - 100 // 2 + 25}


def test_of_nodes_whose_zones_are_alike_each_is_scored_by_its_own_costs() -> None:
    def zones(apart: int) -> list[Any]:
        # The pod needs the zones 0 and 1 together.
        return [
            zone(0, {0: 10, 1: apart, 2: 20}, cpu="2", memory="8Gi"),
            zone(1, {0: apart, 1: 10, 2: 20}, cpu="2", memory="8Gi"),
            zone(2, {0: 20, 1: 20, 2: 10}, cpu="1", memory="8Gi"),
        ]

    # Only where the zones 0 and 1 are no farther apart than others, they are the nearest.
    of = world(topology(*zones(20)), topology(*zones(40)), **FEW)
    assert of.prioritize(FOUR_CPUS) == {"n0": 100 - 2 * 12 + 6, "n1": 100 - 2 * 12}


MANY = guaranteed(*({"cpu": f"{1 + at % 9}m", "memory": f"{1 + at}Ki"} for at in range(1500)))
LIMIT = "pod needs more than 1,000,000 comparisons with NUMA zones"
TOO_MUCH = f"{LIMIT}; give it fewer containers or resources"


def test_a_pod_of_many_containers_is_rejected_in_place_of_keeping_the_plugin_busy() -> None:
    of = rows(alike=False)
    result = of.filter(MANY)
    assert set(result.rejected.values()) == {TOO_MUCH}
    assert len(result.unresolvable) == 200
    assert of.failures == []
    assert len(of.filter(FOUR_CPUS).kept) == 200


def test_a_pod_of_many_resources_is_rejected_in_place_of_keeping_the_plugin_busy() -> None:
    names = {f"example.com/r{at}": "1" for at in range(6000)}
    result = rows(alike=True).filter(guaranteed({"cpu": "1", "memory": "1Gi"} | names))
    assert set(result.rejected.values()) == {TOO_MUCH}


def test_nodes_that_are_alike_are_compared_once() -> None:
    assert len(rows(alike=True).filter(MANY).kept) == 200
    # Of 8 CPUs, 7 stay, and nearly all memory: the mean of 87 and 99.
    assert set(rows(alike=True).prioritize(MANY).values()) == {93}


@pytest.mark.parametrize("args", [{}, FEW])
def test_no_node_has_points_for_many_containers(
    args: Any, caplog: pytest.LogCaptureFixture
) -> None:
    of = rows(alike=False, **args)
    assert set(of.prioritize(MANY).values()) == {0}
    assert f"no node has points for the pod default/pod: {TOO_MUCH}" in caplog.text
    assert min(of.prioritize(FOUR_CPUS).values()) > 0
