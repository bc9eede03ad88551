"""A Python filter that counts what a node's pods request, while hundreds of binds are under way."""

from collections import Counter
from pathlib import Path

import pytest

from .kubeapi import NewPool
from .stack import NewStack, Stack, profile
from .workbench import until
from .workload import NewWorkload

NODES = 200
TOO_MANY = 10
# A node has 32 cores; the plugin lets it take one of these pods.
CPU_MILLI = 10
# Nobody is held for so long: the pods wait for one that is created when all of them wait.
PERMIT_TIMEOUT_S = 280.0
# Every pod is sent to the same node first, so some binds are refused and come back after a backoff.
HELD_WITHIN_S = 200.0


@pytest.fixture(scope="module")
def stack(new_stack: NewStack) -> Stack:
    name = "room"
    args = {"limit_milli": CPU_MILLI + CPU_MILLI // 2, "timeout_s": PERMIT_TIMEOUT_S}
    room = profile(name, Room=args)
    room["plugins"]["multiPoint"]["enabled"] = [{"name": "Room", "weight": 15}]
    return new_stack(
        name,
        profile=room,
        out_of_tree=["room:Room"],
        extender={"permitMaxWait": "300s"},
    )


def binds_under_way(stack: Stack) -> int:
    return int(stack.scheduler_counts().total("scheduler_goroutines", operation="binding"))


def status_of(pid: int, field: str) -> int:
    """A number of /proc/PID/status."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{field}:"))


def test_no_two_pods_share_room_for_one_in_200_concurrent_binds(
    stack: Stack, new_pool: NewPool, new_workload: NewWorkload
) -> None:
    pool = new_pool("room", NODES)
    workload = new_workload(stack, pool)
    threads_before = status_of(stack.pid, "Threads")
    names = workload.create("roomy", NODES + TOO_MANY, cpu=f"{CPU_MILLI}m")
    until(lambda: binds_under_way(stack) == NODES, "200 binds are under way", HELD_WITHIN_S, 0.2)
    assert workload.placed() == {}
    threads_held = status_of(stack.pid, "Threads")
    workload.create("starter", 1, {"starts": "yes"})
    until(lambda: len(workload.placed()) >= NODES, "the nodes are full")
    until(lambda: binds_under_way(stack) == 0, "no bind is under way any more")
    (late,) = workload.create("late", 1, cpu=f"{CPU_MILLI}m")
    assert f"{NODES} node has no room" in workload.until_pending(late)
    on_node = Counter(workload.placed().values())
    assert set(on_node) == set(pool.names)
    assert set(on_node.values()) == {1}
    assert set(workload.placed()) < set(names)
    assert threads_held - threads_before <= 40, "a pod that waits holds no thread"
