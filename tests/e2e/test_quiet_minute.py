"""What must not happen while nothing else does: three pods that fit nowhere, for one minute.

The three stand side by side on one control plane, so that the minute is waited for once.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from .controlplane import ControlPlane
from .kubeapi import Api, NodePool
from .stack import HIGH_COMM, NO_RDMA, Mode, Stack
from .workload import Workload

MINUTE_S = 60.0
CALLS_WINDOW_S = 40.0
MODES = {"names": Mode(names=True), "full": Mode(names=False)}


@dataclass
class Trap:
    """Labelled nodes full of equals, unlabelled ones full of pods that could be evicted."""

    stack: Stack
    workload: Workload
    pod: str
    before: dict[str, str]


@dataclass
class Minute:
    traps: dict[str, Trap]
    hopeless: Workload
    hopeless_pod: str
    filter_calls: int


def spring(stack: Stack, api: Api, name: str) -> tuple[Workload, NodePool]:
    pool = NodePool(api, f"trap-{name}", 5, cpu="4")
    pool.enable_rdma(*pool.names[:2])
    workload = Workload(api, f"trap-{name}", stack.scheduler_name, pool)
    workload.fill(2, "e2e-high", HIGH_COMM)
    workload.fill(3, "e2e-low")
    return workload, pool


def wait_until(instant: float) -> None:
    time.sleep(max(0.0, instant - time.monotonic()))


@pytest.fixture(scope="module")
def minute(control_plane: ControlPlane, thousand_nodes: NodePool) -> Iterator[Minute]:
    api = control_plane.api
    thousand_nodes.enable_rdma()
    stacks = {name: Stack(control_plane, f"trap-{name}", mode) for name, mode in MODES.items()}
    sprung = {name: spring(stack, api, name) for name, stack in stacks.items()}
    patient = Stack(control_plane, "hopeless", Mode(names=True))
    hopeless = Workload(api, "hopeless", patient.scheduler_name, thousand_nodes)
    traps = {}
    for name, (workload, _) in sprung.items():
        before = workload.uids()
        (pod,) = workload.create("urgent", 1, HIGH_COMM, cpu="1", priority_class="e2e-high")
        traps[name] = Trap(stacks[name], workload, pod, before)
    start = time.monotonic()
    (pod,) = hopeless.create("hopeless", 1, HIGH_COMM)
    wait_until(start + CALLS_WINDOW_S)
    calls = patient.calls("filter")
    wait_until(start + MINUTE_S)
    yield Minute(traps, hopeless, pod, calls)
    for workload in (hopeless, *(trap.workload for trap in traps.values())):
        workload.close()
    for stack in (patient, *stacks.values()):
        stack.close()
    for _, pool in sprung.values():
        pool.delete()


@pytest.mark.parametrize("mode", MODES)
def test_no_pod_is_evicted_where_filter_would_reject_the_node_anyway(
    minute: Minute, mode: str
) -> None:
    trap = minute.traps[mode]
    evicted = [name for uid, name in trap.before.items() if uid not in trap.workload.uids()]
    assert evicted == []
    assert trap.stack.calls("preempt") >= 1
    assert trap.pod not in trap.workload.placed()
    assert trap.workload.why_pending(trap.pod)


def test_a_pod_that_no_node_of_1000_fits_is_asked_about_3_times_in_40_s_at_most(
    minute: Minute,
) -> None:
    assert 1 <= minute.filter_calls <= 3
    assert NO_RDMA in minute.hopeless.why_pending(minute.hopeless_pod)
