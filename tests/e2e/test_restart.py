"""kubextend goes away and comes back while pods are being scheduled."""

from collections.abc import Callable, Iterator

import pytest

from .controlplane import ControlPlane
from .door import Door
from .kubeapi import NewPool
from .stack import HIGH_COMM, Mode, NewStack, Scheduler, Stack, default_configuration
from .workbench import until
from .workload import NewWorkload

PODS = 15


@pytest.fixture
def stack(names_stack: Stack, door: Door) -> Iterator[Stack]:
    """The stack, which is well again after the test whatever became of it."""
    yield names_stack
    door.open()
    if not names_stack.is_ready():
        names_stack.kill_kubextend()
        names_stack.start_kubextend()
    until(names_stack.is_ready, "kubextend is back")


def terminate(stack: Stack) -> None:
    assert stack.stop_kubextend() == 0


@pytest.mark.parametrize("end", [terminate, Stack.kill_kubextend])
def test_a_restart_in_names_mode_evicts_nothing_and_parks_no_pod(
    end: Callable[[Stack], None],
    stack: Stack,
    door: Door,
    new_pool: NewPool,
    new_workload: NewWorkload,
) -> None:
    pool = new_pool(f"restart-{end.__name__.replace('_', '-')}", 10, cpu="8")
    pool.enable_rdma(*pool.names[:4])
    workload = new_workload(stack, pool)
    # Something that could be evicted, on every node.
    workload.until_placed(workload.create("cheap", 20, cpu="1", priority_class="e2e-lowest"))
    before = workload.uids()
    names = workload.create("before", PODS, HIGH_COMM, priority_class="e2e-high")
    until(lambda: len(workload.placed()) > len(before), "the first pod is placed")
    parked, failed = stack.attempts("unschedulable"), stack.attempts("error")
    end(stack)
    names += workload.create("during", PODS, HIGH_COMM, priority_class="e2e-high")
    plain = workload.create("plain", PODS, priority_class="e2e-high")
    until(lambda: stack.attempts("error") > failed, "kube-scheduler finds nobody there")
    door.shut()
    stack.start_kubextend()
    until(stack.is_alive, "kubextend answers")
    names += workload.create("starting", PODS, HIGH_COMM, priority_class="e2e-high")
    until(lambda: stack.calls("filter") > 0, "kubextend is asked while it knows no node")
    assert not stack.is_ready()
    door.open()
    nodes = workload.until_placed(names + plain, timeout_s=60.0)
    assert {nodes[name] for name in names} <= set(pool.names[:4])
    assert [n for uid, n in before.items() if uid not in workload.uids()] == []
    # kube-scheduler tries again by itself after an error. A pod that it calls unschedulable stays
    # parked until something happens.
    assert stack.attempts("unschedulable") == parked


def test_while_kubextend_is_dead_pods_of_the_clusters_own_scheduler_are_bound_and_ours_wait(
    control_plane: ControlPlane, new_stack: NewStack, new_pool: NewPool, new_workload: NewWorkload
) -> None:
    pool, stack = new_pool("own-scheduler", 3), new_stack("own-scheduler", Mode(binds=True))
    ours, others = new_workload(stack, pool), new_workload(stack, pool, "default-scheduler")
    ours.until_placed(ours.create("before", PODS))
    stack.kill_kubextend()
    waiting = ours.create("waiting", PODS)
    until(
        lambda: all("connection refused" in ours.why_pending(name) for name in waiting),
        "kube-scheduler has tried each of ours",
    )
    config = default_configuration(control_plane, leaderElection={"leaderElect": False})
    with Scheduler(control_plane, "default", config):
        others.until_placed(others.create("other", PODS))
    assert ours.placed().keys().isdisjoint(waiting)
    stack.start_kubextend()
    ours.until_placed(waiting)
