"""Pods, nodes and masks as bytes for another process."""

import pytest
from core_world import event, node, pod_of, watched

from kubextend import core

NODES = [
    node(
        "n0",
        {"zone": "a"},
        spec={"taints": [{"key": "k", "value": "v", "effect": "NoExecute"}]},
        status={"allocatable": {"cpu": "3920m", "memory": "64Gi"}},
    ),
    node("n1", {"zone": "b"}, spec={"unschedulable": True}),
]


def seen(nodes: core.Nodes) -> list[object]:
    return [
        (each.name, each.known, each.labels, each.taints, each.unschedulable) for each in nodes
    ] + [nodes.allocatable(resource).tolist() for resource in ("cpu", "memory")]


def test_a_pod_is_what_it_was() -> None:
    pod = pod_of(
        {"app": "web"},
        priority=7,
        nodeSelector={"zone": "a"},
        containers=[{"name": "c", "resources": {"requests": {"cpu": "1500m"}}}],
    )
    again = core.Pod.unpack(pod.pack())
    fields = [name for name in dir(core.Pod) if not name.startswith("_")]
    values = [name for name in fields if not callable(getattr(pod, name))]
    values.remove("containers")
    assert {"labels", "requests", "priority", "node_selector"} <= set(values)
    for name in values:
        assert getattr(again, name) == getattr(pod, name), name
    assert [each.requests for each in again.containers] == [{"cpu": 1500}]
    assert again.pack() == pod.pack()


def test_nodes_are_what_they_were_however_they_change() -> None:
    store = watched(*NODES)
    sender, receiver = core.NodeSender(), core.NodeReceiver()
    for changed in (NODES[0], node("n0", {"zone": "c"}), node("n2"), NODES[0]):
        store.apply(event("MODIFIED", changed))
        nodes = store.select(["n1", "n0", "unheard-of", "n2"])
        there = receiver.unpack(sender.pack(nodes))
        assert seen(there) == seen(nodes)
        assert there.labels("zone") == nodes.labels("zone")
        assert there.matches("zone in (a,c)") == nodes.matches("zone in (a,c)")
        assert seen(there.latest()) == seen(nodes)


@pytest.mark.parametrize("length", [0, 1, 7, 8, 9, 64, 65])
def test_a_mask_is_what_it_was(length: int) -> None:
    mask = core.Mask([at % 3 == 0 for at in range(length)])
    packed = mask.pack()
    assert packed == sum(1 << at for at in range(0, length, 3)).to_bytes(-(-length // 8), "little")
    assert core.Mask.unpack(packed, length) == mask


def test_bytes_of_something_else_are_refused() -> None:
    with pytest.raises(ValueError, match="the same version of kubextend"):
        core.Pod.unpack(b"{}")
    with pytest.raises(ValueError, match="the same version of kubextend"):
        core.NodeReceiver().unpack(b"\xff" * 9)
    with pytest.raises(ValueError, match="no mask of 3 nodes"):
        core.Mask.unpack(b"\xff", 3)
    with pytest.raises(ValueError, match="no mask of 9 nodes"):
        core.Mask.unpack(b"\x01", 9)
