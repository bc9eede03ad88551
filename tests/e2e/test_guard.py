"""Nodes that another scheduler fills while kubextend has pods for them."""

from collections.abc import Iterator

import pytest
from tests.trials.flooded_nodes import Flood

from .controlplane import ControlPlane
from .kubeapi import NodePool, pod
from .stack import PLUGIN_FOLDER, Mode, Stack, profile
from .workbench import until
from .workload import NewWorkload

NODES = 3
# Two of these pods are too much for a node of one core, and for the plugin Room too.
CPU = "600m"
ROOM = {"limit_milli": 1100, "timeout_s": 280.0}


@pytest.fixture(params=[True, False], ids=["guarded", "unguarded"])
def stack(control_plane: ControlPlane, request: pytest.FixtureRequest) -> Iterator[Stack]:
    running = Stack(
        control_plane,
        f"guard-{request.param}".lower(),
        Mode(names=True),
        profile=profile(f"guard-{request.param}".lower(), Room=ROOM),
        out_of_tree=["room:Room"],
        python_path=[PLUGIN_FOLDER],
        extender={"permitMaxWait": "300s"},
        guard=request.param,
    )
    yield running
    running.close()


def held(stack: Stack) -> int:
    return int(stack.counts().total("kubextend_waiting_pods"))


def refusals(stack: Stack) -> int:
    return int(stack.counts().total("kubextend_guard_refusals_total"))


def test_held_pods_are_bound_to_nodes_that_others_filled_only_without_the_guard(
    stack: Stack, control_plane: ControlPlane, new_workload: NewWorkload
) -> None:
    api, guarded = control_plane.api, stack.name == "guard-true"
    pool = NodePool(api, stack.name, NODES, cpu="1")
    workload = new_workload(stack, pool)
    names = workload.create("held", NODES, cpu=CPU)
    until(lambda: held(stack) == NODES, "all pods are held")
    foreign = [pod(f"foreign-{node}", "none", pool.name, cpu=CPU) for node in pool.names]
    for each, node in zip(foreign, pool.names, strict=True):
        each["spec"]["nodeName"] = node
    api.create_pods(workload.namespace, foreign)
    until(lambda: not stack.kept(pool.names), "kubextend has seen that the nodes are full")
    # kube-scheduler would not ask about a pod for full nodes.
    stack.kept(pool.names, {"starts": "yes"})
    if guarded:
        until(lambda: refusals(stack) == NODES, "the guard has refused all pods")
        assert "Insufficient cpu" in workload.until_pending(names[0])
        assert not set(names) & set(workload.placed())
    else:
        workload.until_placed(names)
    pool.delete()


def test_no_node_is_overfull_where_both_schedulers_bind_through_the_guard(
    control_plane: ControlPlane,
) -> None:
    nodes = 20
    outcome = Flood(control_plane, "together", nodes).run()
    assert (outcome.bound, outcome.overfull) == (nodes, 0)
