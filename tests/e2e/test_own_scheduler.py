"""kubextend behind a kube-scheduler of its own, beside the one that the cluster has."""

import json
from collections.abc import Iterator

import pytest

from .controlplane import ControlPlane
from .kubeapi import NodePool
from .stack import Mode, Scheduler, Stack
from .workbench import until
from .workload import NewWorkload

PODS = 5


@pytest.fixture(scope="module")
def default_scheduler(control_plane: ControlPlane) -> Iterator[Scheduler]:
    """A kube-scheduler that knows of no extender."""
    config = control_plane.bench.folder / "default-scheduler.yaml"
    kubeconfig = control_plane.kubeconfig("system:kube-scheduler")
    content = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(kubeconfig)},
        "leaderElection": {"leaderElect": False},
    }
    config.write_text(json.dumps(content))
    running = Scheduler(control_plane, "default", config)
    yield running
    running.close()


@pytest.fixture(scope="module")
def stack(control_plane: ControlPlane) -> Iterator[Stack]:
    running = Stack(control_plane, "own-scheduler", Mode(names=True, binds=True))
    yield running
    running.close()


def test_while_kubextend_is_dead_other_pods_are_bound_and_ours_wait_for_it(
    stack: Stack,
    default_scheduler: Scheduler,
    control_plane: ControlPlane,
    new_workload: NewWorkload,
) -> None:
    assert default_scheduler.get("/readyz").is_success
    pool = NodePool(control_plane.api, "own-scheduler", 3)
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
    pool.delete()
