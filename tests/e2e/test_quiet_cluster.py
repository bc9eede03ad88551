"""Pods that fit nowhere: while nothing happens in the cluster, and when something does.

All of them wait for the quiet time at once. A pod that fails is the clock: kube-scheduler tries it
again after each backoff. So it would a pod whose rejection changes at each call, because a changed
condition is an update of the pod.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from .door import Door
from .kubeapi import Api, NodePool, condition
from .stack import HIGH_COMM, NO_RDMA, NewStack, Stack, profile
from .workbench import until
from .workload import Workload

OPEN_LABEL = "e2e.kubextend.dev/open"
PLUGINS = ("Counting", "Fails")
PATIENT = ("hopeless", "Counting")
TRAPS = ("names", "full")
# After the first ticks nothing is left of what was made before the quiet time.
SETTLED_TICKS, QUIET_TICKS = 2, 6


@dataclass
class Pending:
    """A pod that is kept pending, and the names of those that could be evicted for it, by UID."""

    stack: Stack
    workload: Workload
    pool: NodePool
    name: str
    others: dict[str, str] = field(default_factory=dict)

    def is_placed(self) -> bool:
        return self.name in self.workload.placed()

    def attempts(self, result: str) -> int:
        return self.stack.attempts(result, self.workload.scheduler)


@pytest.fixture(scope="module")
def pools(api: Api, thousand_nodes: NodePool) -> Iterator[dict[str, NodePool]]:
    thousand_nodes.enable_rdma()
    made = {plugin: NodePool(api, f"quiet-{plugin.lower()}", 5) for plugin in PLUGINS}
    made |= {trap: NodePool(api, f"trap-{trap}", 5, cpu="4") for trap in TRAPS}
    for trap in TRAPS:
        made[trap].enable_rdma(*made[trap].names[:2])
    yield {**made, "hopeless": thousand_nodes}
    for pool in made.values():
        pool.delete()


@pytest.fixture(scope="module")
def stack(door: Door, pools: dict[str, NodePool], new_stack: NewStack) -> Stack:
    """kube-scheduler and kubextend, which both list the nodes when they start."""
    assert pools
    more = [profile(f"quiet-{plugin.lower()}", plugin) for plugin in PLUGINS]
    plugins = [f"reasons:{plugin}" for plugin in PLUGINS]
    return new_stack("quiet", more_profiles=more, out_of_tree=plugins, api_url=door.url)


@pytest.fixture(scope="module")
def pods(
    api: Api, stack: Stack, full_stack: Stack, pools: dict[str, NodePool]
) -> Iterator[dict[str, Pending]]:
    """Every pod of this module. The one that fails comes last."""
    made: dict[str, Pending] = {}
    for trap, its in zip(TRAPS, (stack, full_stack), strict=True):
        workload = Workload(api, f"trap-{trap}", its.scheduler_name, pools[trap])
        # Labelled nodes are full of equals, the others full of pods that could be evicted.
        workload.fill(2, "e2e-high", HIGH_COMM)
        workload.fill(3, "e2e-low")
        made[trap] = Pending(its, workload, pools[trap], "urgent-00", workload.uids())
        workload.create("urgent", 1, HIGH_COMM, cpu="1", priority_class="e2e-high")
    for kind in ("hopeless", *PLUGINS):
        scheduler = f"quiet-{kind.lower()}" if kind in PLUGINS else stack.scheduler_name
        workload = Workload(api, f"quiet-{kind.lower()}", scheduler, pools[kind])
        (name,) = workload.create("patient", 1, HIGH_COMM if kind == "hopeless" else {})
        made[kind] = Pending(stack, workload, pools[kind], name)
    yield made
    for pending in made.values():
        pending.workload.close()


def tick(pods: dict[str, Pending], times: int) -> None:
    """Wait until kube-scheduler has tried the failing pod so often again."""
    begin = pods["Fails"].attempts("error")
    until(lambda: pods["Fails"].attempts("error") >= begin + times, "time has passed", 120.0)


def test_pods_that_fit_nowhere_are_left_in_peace_until_a_node_is_labelled(
    pods: dict[str, Pending], stack: Stack, door: Door
) -> None:
    tick(pods, SETTLED_TICKS)
    before = {kind: pods[kind].attempts("unschedulable") for kind in PATIENT}
    tick(pods, QUIET_TICKS)
    for kind in PATIENT:
        assert before[kind] > 0
        # kube-scheduler itself has a reason or two; a changed condition would be one each second.
        assert pods[kind].attempts("unschedulable") - before[kind] <= 3, kind
    hopeless = pods["hopeless"]
    assert f"1000 {NO_RDMA}" in hopeless.workload.why_pending(hopeless.name)
    for trap in TRAPS:
        # Filter would reject the nodes anyway on which a pod could be evicted.
        assert pods[trap].stack.calls("preempt") > 0
        assert pods[trap].others.items() <= pods[trap].workload.uids().items()
        assert not pods[trap].is_placed()
    open_behind_the_door(pods["Counting"], stack, door)


def open_behind_the_door(pending: Pending, stack: Stack, door: Door) -> None:
    """Open a node of which kube-scheduler hears first, and kubextend once it was asked."""

    def woken() -> float:
        return stack.counts().total("kubextend_pods_woken_total")

    tried, before = pending.attempts("unschedulable"), woken()
    door.shut()
    try:
        pending.pool.label_only(OPEN_LABEL, "yes", pending.pool.names[1])
        until(lambda: pending.attempts("unschedulable") > tried, "it was asked about again")
        assert not pending.is_placed()
    finally:
        door.open()
    pending.workload.until_placed([pending.name])
    assert woken() > before
    # That is true of a bound pod, too.
    told = condition(pending.workload.pods()[pending.name], "kubextend.dev/Activated")
    assert told["reason"] == "AskedToTryAgain"
    assert told["message"].startswith("kubextend asked kube-scheduler at 20")
    assert told["message"].endswith(" to try this pod again")
