"""Pods that fit nowhere: while nothing happens in the cluster, and when something does.

All of them stand side by side on one control plane, so that the quiet time is waited for once. A
pod that fails is the clock: kube-scheduler tries it again after each backoff. So it would a pod
whose rejection changes at each call, because a changed condition is an update of the pod.
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

import pytest

from .controlplane import ControlPlane
from .door import Door
from .kubeapi import Api, NodePool
from .stack import HIGH_COMM, NO_RDMA, PLUGIN_FOLDER, Mode, Stack, profile
from .workbench import until
from .workload import Workload

OPEN_LABEL = "e2e.kubextend.dev/open"
WEATHER_LABEL = "e2e.kubextend.dev/weather"
PLUGINS = ("Counting", "Proportions", "Weather", "Fails")
# In the last two, the requests of preempt bring whole pods, and an answer that fails is ignored.
TRAPS = ("names", "full", "names-preempt-groups", "full-preempt-groups")
PATIENT = ("hopeless", "Counting", "Proportions")
# After the first ticks nothing is left of what was made before the quiet time.
SETTLED_TICKS, QUIET_TICKS = 2, 8
# kubextend says the same for 30 s at least, and lets kube-scheduler ask after 40 s.
CHANGED_WITHIN_S = 120.0


@dataclass
class Pending:
    """A pod that is kept pending, the first of a workload of its own."""

    stack: Stack
    workload: Workload
    pool: NodePool
    name: str
    # Those that could be evicted for it, by UID.
    others: dict[str, str]

    def why(self) -> str:
        return self.workload.why_pending(self.name)

    def is_placed(self) -> bool:
        return self.name in self.workload.placed()

    def parked(self) -> int:
        """How often kube-scheduler called a pod of the profile unschedulable."""
        return self.stack.attempts("unschedulable", self.workload.scheduler)

    def ticks(self) -> int:
        return self.stack.attempts("error", self.workload.scheduler)

    def open_a_node(self) -> None:
        """Let the plugin pass one node."""
        self.pool.label_only(OPEN_LABEL, "yes", self.pool.names[1])

    def has_come_in(self) -> bool:
        """Wait until the pod has a node, and say whether it ever got one."""
        with suppress(TimeoutError):
            self.workload.until_placed([self.name])
        return self.is_placed()


@pytest.fixture(scope="module")
def pools(api: Api, thousand_nodes: NodePool) -> Iterator[dict[str, NodePool]]:
    thousand_nodes.enable_rdma()
    made = {plugin: NodePool(api, f"quiet-{plugin.lower()}", 5) for plugin in PLUGINS}
    made["Weather"].label_only(WEATHER_LABEL, "sunshine", *made["Weather"].names)
    made |= {trap: NodePool(api, f"trap-{trap}", 5, cpu="4") for trap in TRAPS}
    for trap in TRAPS:
        made[trap].enable_rdma(*made[trap].names[:2])
    yield {**made, "hopeless": thousand_nodes}
    for pool in made.values():
        pool.delete()


@pytest.fixture(scope="module")
def stack(control_plane: ControlPlane, door: Door, pools: dict[str, NodePool]) -> Iterator[Stack]:
    """kube-scheduler and kubextend, which both list the nodes when they start."""
    assert pools
    running = Stack(
        control_plane,
        "quiet",
        Mode(names=True),
        more_profiles=[profile(f"quiet-{plugin.lower()}", plugin) for plugin in PLUGINS],
        out_of_tree=[f"reasons:{plugin}" for plugin in PLUGINS],
        python_path=[PLUGIN_FOLDER],
        api_url=door.url,
    )
    yield running
    running.close()


@pytest.fixture(scope="module")
def trap_stacks(
    control_plane: ControlPlane, stack: Stack, full_stack: Stack
) -> Iterator[dict[str, Stack]]:
    """The stack of each trap."""
    made = {"names": stack, "full": full_stack}
    for trap in TRAPS[2:]:
        mode = Mode(names=trap.startswith("names"))
        name, extender = f"quiet-{trap}", {"preemptGroups": True}
        made[trap] = Stack(control_plane, name, mode, extender=extender)
    yield made
    for trap in TRAPS[2:]:
        made[trap].close()


@pytest.fixture(scope="module")
def pods(
    api: Api, stack: Stack, trap_stacks: dict[str, Stack], pools: dict[str, NodePool]
) -> Iterator[dict[str, Pending]]:
    """Every pod of this module. The one that fails comes last."""
    made: dict[str, Pending] = {}
    traps: dict[str, tuple[Stack, Workload]] = {}
    for trap in TRAPS:
        its = trap_stacks[trap]
        workload = Workload(api, f"trap-{trap}", its.scheduler_name, pools[trap])
        # Labelled nodes are full of equals, the others full of pods that could be evicted.
        workload.fill(2, "e2e-high", HIGH_COMM)
        workload.fill(3, "e2e-low")
        traps[trap] = its, workload
    for trap, (its, workload) in traps.items():
        others = workload.uids()
        (name,) = workload.create("urgent", 1, HIGH_COMM, cpu="1", priority_class="e2e-high")
        made[trap] = Pending(its, workload, pools[trap], name, others)
    for kind in ("hopeless", *PLUGINS):
        scheduler = f"quiet-{kind.lower()}" if kind in PLUGINS else stack.scheduler_name
        workload = Workload(api, f"quiet-{kind.lower()}", scheduler, pools[kind])
        labels = HIGH_COMM if kind == "hopeless" else {}
        (name,) = workload.create("patient", 1, labels)
        made[kind] = Pending(stack, workload, pools[kind], name, {})
    yield made
    for pending in made.values():
        pending.workload.close()


@dataclass
class Outcome:
    asked_in_quiet: dict[str, int]
    sunshine: str
    placed_while_shut: bool
    woken: float
    came_in: dict[str, bool]
    rain: str


@pytest.fixture(scope="module")
def outcome(api: Api, pods: dict[str, Pending], stack: Stack, door: Door) -> Outcome:
    weather, clock = pods["Weather"], pods["Fails"]
    sunshine = weather.workload.until_pending(weather.name)
    api.label_nodes(weather.pool.names, {WEATHER_LABEL: "rain"})
    begin = clock.ticks()
    until(lambda: clock.ticks() >= begin + SETTLED_TICKS, "nothing is under way")
    before, begin = {k: p.parked() for k, p in pods.items()}, clock.ticks()
    until(lambda: clock.ticks() >= begin + QUIET_TICKS, "it was quiet for a while", 120.0)
    asked = {k: p.parked() - before[k] for k, p in pods.items()}
    placed_while_shut, woken = open_behind_the_door(pods["Proportions"], stack, door)
    pods["Counting"].open_a_node()
    came_in = {k: pods[k].has_come_in() for k in ("Counting", "Proportions")}
    with suppress(TimeoutError):
        until(lambda: "5 node has rain" in weather.why(), "the rain shows", CHANGED_WITHIN_S)
    rain = weather.why()
    weather.open_a_node()
    came_in["Weather"] = weather.has_come_in()
    return Outcome(asked, sunshine, placed_while_shut, woken, came_in, rain)


def open_behind_the_door(pending: Pending, stack: Stack, door: Door) -> tuple[bool, float]:
    """Open a node of which kube-scheduler hears first, and kubextend once it was asked.

    Returns: whether the pod was placed before kubextend had heard, and how many pods it then woke.
    """

    def woken() -> float:
        return stack.counts().total("kubextend_pods_woken_total")

    parked, before = pending.parked(), woken()
    door.shut()
    try:
        pending.open_a_node()
        until(lambda: pending.parked() > parked, "it was asked about on the strength of the label")
        placed = pending.is_placed()
    finally:
        door.open()
    pending.has_come_in()
    return placed, woken() - before


@pytest.mark.parametrize("kind", PATIENT)
def test_a_pod_that_fits_nowhere_is_left_in_peace_while_one_that_fails_is_tried_12_times(
    outcome: Outcome, pods: dict[str, Pending], kind: str
) -> None:
    assert pods[kind].parked() > 0
    # kube-scheduler itself has a reason or two; a changed condition would be one each second.
    assert outcome.asked_in_quiet[kind] <= 3


def test_a_pod_that_no_node_of_1000_fits_says_why(
    outcome: Outcome, pods: dict[str, Pending]
) -> None:
    assert f"1000 {NO_RDMA}" in pods["hopeless"].why()


@pytest.mark.parametrize("trap", TRAPS)
def test_no_pod_is_evicted_where_filter_would_reject_the_node_anyway(
    outcome: Outcome, pods: dict[str, Pending], trap: str
) -> None:
    pending = pods[trap]
    assert pending.parked() > 0
    assert pending.stack.calls("preempt") > 0
    alive = pending.workload.uids()
    assert [name for uid, name in pending.others.items() if uid not in alive] == []
    assert not pending.is_placed()


def test_a_pod_whose_reasons_vary_is_bound_once_a_node_is_labelled(outcome: Outcome) -> None:
    assert outcome.came_in["Counting"]


def test_it_is_bound_also_where_kubextend_hears_of_the_label_after_it_was_asked(
    outcome: Outcome,
) -> None:
    assert not outcome.placed_while_shut
    assert outcome.came_in["Proportions"]
    assert outcome.woken >= 1


def test_a_real_change_of_the_reason_shows_though_nothing_else_happens(outcome: Outcome) -> None:
    assert "5 node has sunshine" in outcome.sunshine
    assert "5 node has rain" in outcome.rain
    assert outcome.came_in["Weather"]
