"""No node gets more than it has room for, while many binds or two schedulers race."""

from collections import Counter
from pathlib import Path

import pytest
from tests.trials.flooded_nodes import Flood

from .controlplane import ControlPlane
from .kubeapi import NewPool
from .stack import NewStack, Stack, profile
from .workbench import until
from .workload import NewWorkload

NODES = 100
TOO_MANY, FLOODED = 10, 20
# A node has 32 cores; the plugin lets it take one of these pods.
CPU_MILLI = 10
# Nobody is held for so long: the pods wait for one that is created when all of them wait.
PERMIT_TIMEOUT_S = 280.0
# Every pod is sent to the same node first, so some binds are refused and come back after a backoff.
HELD_WITHIN_S = 200.0


@pytest.fixture(scope="module")
def stack(new_stack: NewStack) -> Stack:
    args = {"limit_milli": CPU_MILLI + CPU_MILLI // 2, "timeout_s": PERMIT_TIMEOUT_S}
    room = profile("room", Room=args)
    room["plugins"]["multiPoint"]["enabled"] = [{"name": "Room", "weight": 15}]
    extender = {"permitMaxWait": "300s"}
    return new_stack("room", profile=room, out_of_tree=["room:Room"], extender=extender)


def binds_under_way(stack: Stack) -> int:
    return int(stack.scheduler_counts().total("scheduler_goroutines", operation="binding"))


def test_no_two_pods_share_room_for_one_in_100_concurrent_binds(
    stack: Stack, new_pool: NewPool, new_workload: NewWorkload
) -> None:
    pool = new_pool("room", NODES)
    workload = new_workload(stack, pool)
    threads = Path(f"/proc/{stack.pid}/task")
    before = len([*threads.iterdir()])
    names = workload.create("roomy", NODES + TOO_MANY, cpu=f"{CPU_MILLI}m")
    until(lambda: binds_under_way(stack) == NODES, "the binds are under way", HELD_WITHIN_S, 0.2)
    assert workload.placed() == {}
    held = len([*threads.iterdir()])
    workload.create("starter", 1, {"starts": "yes"})
    until(lambda: len(workload.placed()) >= NODES, "the nodes are full")
    until(lambda: binds_under_way(stack) == 0, "no bind is under way any more")
    (late,) = workload.create("late", 1, cpu=f"{CPU_MILLI}m")
    assert f"{NODES} node has no room" in workload.until_pending(late)
    on_node = Counter(workload.placed().values())
    assert set(on_node) == set(pool.names)
    assert set(on_node.values()) == {1}
    assert set(workload.placed()) < set(names)
    assert held - before <= 40, "a pod that waits holds no thread"


def test_no_node_is_overfull_where_both_schedulers_bind_through_the_guard(
    control_plane: ControlPlane,
) -> None:
    outcome = Flood(control_plane, "together", FLOODED).run()
    assert (outcome.bound, outcome.overfull) == (FLOODED, 0)
