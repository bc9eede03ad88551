"""A gang that ran is repaired: the Job controller replaces crashed pods and no completed ones."""

import itertools
from collections.abc import Iterator
from functools import partial

import pytest

from .controlplane import ControlPlane
from .kubeapi import STRATEGIC, NodePool
from .manifests import POD_GROUPS, define
from .stack import Mode, Stack, grant_needed, profile
from .workbench import until
from .workload import NewWorkload, Workload

SIZE = 4
LABELS, OBJECTS = "repaired-by-labels", "repaired-by-objects"

_numbers = itertools.count()


def of_job(uid: str) -> dict[str, str]:
    """Labels of the pods of an Indexed Job that is a gang."""
    return {
        "scheduling.x-k8s.io/pod-group": "train",
        "pod-group.scheduling.sigs.k8s.io/min-available": str(SIZE),
        "batch.kubernetes.io/controller-uid": uid,
    }


@pytest.fixture(scope="module")
def stack(control_plane: ControlPlane) -> Iterator[Stack]:
    define(control_plane.api, POD_GROUPS)
    by_objects = profile(OBJECTS, PodGroupCoscheduling={})
    grant_needed(control_plane, by_objects)
    running = Stack(
        control_plane,
        "repaired-gang",
        Mode(names=True),
        profile=profile(LABELS, Coscheduling={}),
        more_profiles=[by_objects],
        extender={"permitMaxWait": "300s"},
    )
    yield running
    running.close()


@pytest.fixture(params=[LABELS, OBJECTS])
def workload(
    request: pytest.FixtureRequest,
    control_plane: ControlPlane,
    stack: Stack,
    new_workload: NewWorkload,
) -> Iterator[Workload]:
    """A namespace with a PodGroup of four, and nodes for four pods of one core each."""
    pool = NodePool(control_plane.api, f"repaired-{next(_numbers)}", SIZE, cpu="1")
    made = new_workload(stack, pool, request.param)
    group = {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": "train"},
        "spec": {"minMember": SIZE},
    }
    path = f"/apis/scheduling.x-k8s.io/v1alpha1/namespaces/{made.namespace}/podgroups"
    control_plane.api.call("POST", path, group)
    yield made
    pool.delete()


@pytest.fixture
def names(workload: Workload) -> list[str]:
    """The names of the pods of a gang that runs."""
    names = workload.create("train", SIZE, of_job("first"), cpu="1")
    workload.until_placed(names)
    return names


def end(plane: ControlPlane, workload: Workload, phase: str, *names: str) -> None:
    for name in names:
        path = f"/api/v1/namespaces/{workload.namespace}/pods/{name}/status"
        plane.api.call("PATCH", path, {"status": {"phase": phase}}, STRATEGIC)


@pytest.mark.parametrize("completed", [1, 3])
def test_the_replacement_of_a_crashed_pod_is_bound_though_other_pods_have_completed(
    control_plane: ControlPlane, workload: Workload, names: list[str], completed: int
) -> None:
    end(control_plane, workload, "Succeeded", *names[:completed])
    end(control_plane, workload, "Failed", names[-1])
    workload.until_placed(workload.create("again", 1, of_job("first"), cpu="1"))


def test_the_replacement_is_bound_after_a_restart_of_kubextend_and_a_deletion(
    control_plane: ControlPlane, stack: Stack, workload: Workload, names: list[str]
) -> None:
    end(control_plane, workload, "Succeeded", *names[:2])
    end(control_plane, workload, "Failed", *names[2:])
    assert stack.stop_kubextend() == 0
    stack.start_kubextend()
    until(stack.is_ready, "kubextend is back")
    workload.delete(names[0])
    workload.until_placed(workload.create("again", 2, of_job("first"), cpu="1"))


def test_the_next_job_of_the_group_is_not_split(
    control_plane: ControlPlane, workload: Workload, names: list[str]
) -> None:
    end(control_plane, workload, "Succeeded", *names)
    later = workload.create("later", SIZE - 1, of_job("second"), cpu="1")
    for name in later:
        until(partial(has_too_few, workload, name), "the pod waits for its gang")
    assert not workload.placed().keys() & set(later)
    workload.until_placed([*later, *workload.create("last", 1, of_job("second"), cpu="1")])


def has_too_few(workload: Workload, name: str) -> bool:
    return "pod group has fewer pods than its minimum" in workload.why_pending(name)
