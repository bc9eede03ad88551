"""The queue releases the members of a PodGroup together; kube-scheduler waits for the last gate."""

import itertools
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from .controlplane import ControlPlane
from .kubeapi import NewPool, NodePool
from .pod_groups import PodGroups
from .queue_policies import QUEUED, SCHEDULER, gates, install_queue
from .queue_stack import QueueStack, queue_scheduler, sorted_by
from .stack import BACKOFF
from .versions import needs
from .workbench import until
from .workload import Workload

pytestmark = needs("PodGroup")

# A group whose members waited for each other's turns would not be placed before a test gives up.
LONG_HOLD = "600s"

_numbers = itertools.count()


@pytest.fixture(scope="module", autouse=True)
def scheduler(group_plane: ControlPlane) -> Iterator[None]:
    install_queue(group_plane)
    with queue_scheduler(group_plane, "queue-groups", **BACKOFF):
        yield


@pytest.fixture
def pool(group_plane: ControlPlane, new_pool: NewPool) -> NodePool:
    return new_pool(f"queue-groups-{next(_numbers)}", 4, api=group_plane.api)


@pytest.fixture
def groups(group_plane: ControlPlane, pool: NodePool, ends: ExitStack) -> PodGroups:
    name = f"queued-groups-{next(_numbers)}"
    workload = Workload(group_plane.api, name, SCHEDULER, pool)
    ends.callback(workload.close)
    return PodGroups(group_plane.api, workload, pool)


def queue(plane: ControlPlane, **settings: object) -> QueueStack:
    name = f"queue-groups-{next(_numbers)}"
    settings = {"maxHold": LONG_HOLD, **settings}
    return QueueStack(plane, name, sorted_by("PrioritySort"), **settings)


def gated(plane: ControlPlane, groups: PodGroups) -> set[str]:
    pods = plane.api.pods(groups.workload.namespace)
    return {pod["metadata"]["name"] for pod in pods if gates(pod)}


@pytest.mark.parametrize("strategy", ["StrictFIFO", "BestEffortFIFO"])
def test_a_gang_in_a_window_of_one_is_placed_without_waiting_for_max_hold(
    strategy: str, group_plane: ControlPlane, groups: PodGroups
) -> None:
    names = groups.gang("gang", 20, QUEUED)
    # The next pod has its turn as soon as the gang is placed.
    alone = groups.workload.create("alone", 1, QUEUED)
    assert gated(group_plane, groups) == {*names, *alone}
    with queue(group_plane, strategy=strategy, window=1):
        groups.workload.until_placed([*names, *alone])


def test_a_member_that_comes_late_completes_its_gang(
    group_plane: ControlPlane, groups: PodGroups
) -> None:
    groups.declare("gang", 4)
    names = groups.join("gang", 3, QUEUED)
    with queue(group_plane, window=1):
        until(lambda: not gated(group_plane, groups), "the members are released")
        alone = groups.workload.create("alone", 1, QUEUED)
        names += groups.join("gang", 1, QUEUED, first=3)
        groups.workload.until_placed([*names, *alone])


@pytest.mark.parametrize("fitting", [0, 3])
def test_members_that_fit_nowhere_hold_up_nobody_with_best_effort_fifo(
    fitting: int, group_plane: ControlPlane, groups: PodGroups
) -> None:
    groups.declare("gang", 3)
    names = groups.join("gang", fitting, QUEUED)
    groups.join("gang", 5 - fitting, QUEUED, first=fitting, cpu="100")
    with queue(group_plane, strategy="BestEffortFIFO", window=1):
        until(lambda: not gated(group_plane, groups), "the members are released")
        alone = groups.workload.create("alone", 3, QUEUED)
        groups.workload.until_placed([*names, *alone])
