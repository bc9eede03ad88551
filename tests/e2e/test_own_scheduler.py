"""kubextend behind a kube-scheduler of its own, beside the one that the cluster has."""

from collections.abc import Iterator

import pytest

from .controlplane import ControlPlane
from .kubeapi import NewPool
from .stack import Mode, NewStack, Scheduler, Stack, default_configuration
from .workbench import until
from .workload import NewWorkload

PODS = 5


@pytest.fixture(scope="module")
def default_scheduler(control_plane: ControlPlane) -> Iterator[Scheduler]:
    """A kube-scheduler that knows of no extender."""
    config = default_configuration(control_plane, leaderElection={"leaderElect": False})
    with Scheduler(control_plane, "default", config) as running:
        yield running


@pytest.fixture(scope="module")
def stack(new_stack: NewStack) -> Stack:
    return new_stack("own-scheduler", Mode(names=True, binds=True))


def test_while_kubextend_is_dead_other_pods_are_bound_and_ours_wait_for_it(
    stack: Stack, default_scheduler: Scheduler, new_pool: NewPool, new_workload: NewWorkload
) -> None:
    assert default_scheduler.get("/readyz").is_success
    pool = new_pool("own-scheduler", 3)
    ours, others = new_workload(stack, pool), new_workload(stack, pool, "default-scheduler")
    ours.until_placed(ours.create("before", PODS))
    stack.kill_kubextend()
    waiting = ours.create("waiting", PODS)
    until(
        lambda: all("connection refused" in ours.why_pending(name) for name in waiting),
        "kube-scheduler has tried each of ours",
    )
    others.until_placed(others.create("other", PODS))
    assert ours.placed().keys().isdisjoint(waiting)
    stack.start_kubextend()
    until(stack.is_ready, "kubextend is back")
    ours.until_placed(waiting)
