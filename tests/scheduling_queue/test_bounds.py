"""How long a neighbour's pods wait in a simulated cluster, while tenants do harm.

The simulated kube-scheduler works on one pod at a time, in its own order, and retries a pod that it
cannot place. It tries no member of a pod group while one has a gate, and then all of them at once.
The tenant creates more pods than kube-scheduler can place. The simulation takes no real time.
"""

import heapq
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import partial
from typing import TypeAlias

import pytest
from tests.doors.queue_stories import MAX_HOLD_S, Clock, Queue, Strategy, pod, released

from kubextend.plugins import PrioritySort

PATCH_S, REJECTION_S = 0.02, 0.01
# kube-scheduler's own backoff.
FIRST_BACKOFF_S, LONGEST_BACKOFF_S = 1.0, 10.0
# The seconds after the attempt until a volume is made and the pod is bound.
VOLUME_S = 2.0
TENANT, OTHER_TENANT, NEIGHBOUR = "tenant", "other-tenant", "neighbour"

Makers: TypeAlias = Sequence[tuple[float, str, "Outcome", int]]
"""Kinds of pods: the seconds from one pod to the next, the namespace, the outcome, the priority."""


class Outcome(Enum):
    """What happens to a simulated pod after its release."""

    BOUND = auto()
    HELD_IN_PERMIT = auto()
    UNSCHEDULABLE = auto()
    UNPATCHABLE = auto()
    SLOW_VOLUME = auto()
    # The pod and others are a pod group, which is placed, or lacks a member and is never tried.
    GANG = auto()
    INCOMPLETE_GANG = auto()


GANGS = {Outcome.GANG, Outcome.INCOMPLETE_GANG}


@dataclass
class Made:
    """A simulated pod; ``members`` are the pods of its pod group, with itself, if it has one."""

    name: str
    namespace: str
    outcome: Outcome
    priority: int
    created_s: float
    members: list["Made"] = field(default_factory=list, repr=False)
    has_gate: bool = True
    bound: bool = False
    tries: int = 0

    @property
    def fields(self) -> dict[str, object]:
        return {
            "namespace": self.namespace,
            "priority": self.priority,
            "second": int(self.created_s),
            "group": self.members[0].name if self.members else "",
        }


@dataclass
class Simulation:
    """Runs the events of the simulated cluster in the order of their times.

    Attributes:
        seconds: for how long pods are created.
        attempt_s: for how long kube-scheduler works on a pod that it places.
        pauses_s: from when to when kube-scheduler begins no attempt.
        gang: how many members each pod group has.
        waited_s: the seconds that each of the neighbour's pods waited until it was bound.
    """

    strategy: Strategy
    by_namespace: bool = True
    seconds: float = 600.0
    attempt_s: float = 0.1
    pauses_s: tuple[float, float] = (0.0, 0.0)
    gang: int = 30
    waited_s: list[float] = field(default_factory=list)
    _made: dict[str, Made] = field(default_factory=dict)
    _events: list[tuple[float, int, Callable[[], object]]] = field(default_factory=list)
    _active: list[tuple[int, float, int, Made]] = field(default_factory=list)
    _busy: bool = False

    def __post_init__(self) -> None:
        self._clock = Clock(0.0)
        self._numbers = itertools.count()
        self._queue = Queue(self.strategy, 1, self.by_namespace, PrioritySort(), clock=self._clock)

    def run(self, makers: Makers = ()) -> list[float]:
        """Run the simulation; return the seconds for which the neighbour's pods waited, sorted.

        Args:
            makers: who creates pods; empty: a tenant with harmful pods of all kinds.
        """
        makers = makers or (
            (0.19, TENANT, Outcome.UNSCHEDULABLE, 2000),
            (0.31, TENANT, Outcome.HELD_IN_PERMIT, 1000),
            (6.0, TENANT, Outcome.UNSCHEDULABLE, 2_000_001_000),
            (1.0, TENANT, Outcome.BOUND, 1000),
            (15.0, OTHER_TENANT, Outcome.UNPATCHABLE, 0),
            (0.5, OTHER_TENANT, Outcome.BOUND, 0),
            (1.0, NEIGHBOUR, Outcome.BOUND, 0),
        )
        for every_s, namespace, outcome, priority in makers:
            for number in range(1, int(self.seconds / every_s)):
                self._at(number * every_s, partial(self._make, namespace, outcome, priority))
        look_s: float | None = None
        end_s = self.seconds + MAX_HOLD_S
        while (self._events or look_s is not None) and self._clock() < end_s:
            if look_s is not None and (
                not self._events or self._clock() + look_s < self._events[0][0]
            ):
                self._clock.pass_s(look_s)
            else:
                self._clock.now_s, _, event = heapq.heappop(self._events)
                event()
            self._release()
            look_s = self._queue.next_look_s()
        mine = [made for made in self._made.values() if made.namespace == NEIGHBOUR]
        late_s = [self._clock() - made.created_s for made in mine if not made.bound]
        return sorted([*self.waited_s, *late_s])

    def _at(self, now_s: float, event: Callable[[], object]) -> None:
        heapq.heappush(self._events, (now_s, next(self._numbers), event))

    def _after(self, seconds: float, event: Callable[[], object]) -> None:
        self._at(self._clock() + seconds, event)

    def _make(self, namespace: str, outcome: Outcome, priority: int) -> None:
        members: list[Made] = []
        for _ in range(self.gang if outcome in GANGS else 1):
            name = f"p{next(self._numbers)}"
            made = Made(name, namespace, outcome, priority, self._clock())
            if outcome in GANGS:
                members.append(made)
                made.members = members
            self._made[name] = made
            self._queue.show(pod(name, **made.fields))  # type: ignore[arg-type]

    def _release(self) -> None:
        """Send a patch that removes the gate of each pod that is due for release."""
        for name in self._queue.due():
            made = self._made[name]
            is_refused = made.outcome is Outcome.UNPATCHABLE
            answer = (
                partial(self._queue.refused, name) if is_refused else partial(self._ungate, made)
            )
            self._after(PATCH_S, answer)

    def _ungate(self, made: Made) -> None:
        self._queue.patched(made.name)
        made.has_gate = False
        waits = made.outcome is Outcome.INCOMPLETE_GANG
        if not (waits or any(member.has_gate for member in made.members)):
            self._activate(made)

    def _activate(self, made: Made) -> None:
        """Put a pod into kube-scheduler's active queue."""
        # A pod that was never tried is sorted by when it was created, not by its release.
        since_s = self._clock() if made.tries else made.created_s
        heapq.heappush(self._active, (-made.priority, since_s, next(self._numbers), made))
        self._schedule()

    def _schedule(self) -> None:
        """Let kube-scheduler begin with the next pod, if it works on none."""
        if self._active and not self._busy:
            self._busy = True
            made = heapq.heappop(self._active)[-1]
            begins_s, ends_s = self.pauses_s
            pause_s = ends_s - self._clock() if begins_s <= self._clock() < ends_s else 0.0
            is_quick = made.members or made.outcome is Outcome.UNSCHEDULABLE
            took_s = REJECTION_S * max(len(made.members), 1) if is_quick else self.attempt_s
            self._after(pause_s + took_s, partial(self._end, made))

    def _end(self, made: Made) -> None:
        self._busy = False
        if made.outcome is Outcome.UNSCHEDULABLE:
            self._queue.show(released(made.name, "Unschedulable", **made.fields))
            backoff_s = min(FIRST_BACKOFF_S * 2.0**made.tries, LONGEST_BACKOFF_S)
            made.tries += 1
            self._after(backoff_s, lambda: self._activate(made))
        elif made.outcome is Outcome.SLOW_VOLUME:
            self._after(VOLUME_S, lambda: self._queue.gone(made.name))
        elif made.outcome is Outcome.HELD_IN_PERMIT:
            self._queue.permit_holds(made.name)
        else:
            for bound in made.members or [made]:
                self._queue.gone(bound.name)
            if made.namespace == NEIGHBOUR:
                made.bound = True
                self.waited_s.append(self._clock() - made.created_s)
        self._schedule()


BEST_EFFORT = Strategy.BEST_EFFORT_FIFO
PRIORITIES = pytest.mark.parametrize("priority", [0, 9])

pytestmark = pytest.mark.slow


def p99(waited_s: list[float]) -> float:
    return waited_s[int(len(waited_s) * 0.99)]


@pytest.mark.parametrize(
    ("strategy", "bound_s"), [(BEST_EFFORT, 2.0), (Strategy.STRICT_FIFO, 60.0)]
)
def test_a_neighbour_does_not_wait_for_all_pods_of_a_tenant(
    strategy: Strategy, bound_s: float
) -> None:
    assert p99(Simulation(strategy).run()) <= bound_s
    # The tenant makes enough pods to matter.
    assert p99(Simulation(strategy, by_namespace=False, seconds=120.0).run()) > bound_s


@pytest.mark.parametrize(
    ("every_s", "attempt_s", "pauses_s", "most_s"),
    [
        *((0.02, attempt_s, (0.0, 0.0), 6 * attempt_s + 0.5) for attempt_s in (0.05, 0.2, 0.5)),
        # A pause of kube-scheduler is over when it ends.
        (0.04, 0.2, (20.3, 22.3), 5.0),
    ],
)
@PRIORITIES
def test_two_namespaces_keep_no_slow_kube_scheduler_from_a_neighbour(
    every_s: float, attempt_s: float, pauses_s: tuple[float, float], most_s: float, priority: int
) -> None:
    """Two namespaces have more pods than kube-scheduler can try, all older than a neighbour's."""
    simulation = Simulation(BEST_EFFORT, True, 60.0, attempt_s, pauses_s)
    older = [(every_s, namespace, Outcome.BOUND, priority) for namespace in ("old", "older")]
    assert simulation.run([*older, (5.0, NEIGHBOUR, Outcome.BOUND, 0)])[-1] <= most_s


@PRIORITIES
def test_slow_volumes_of_thirty_namespaces_do_not_stop_a_neighbour(priority: int) -> None:
    slow = [(10.0, f"slow-{number}", Outcome.SLOW_VOLUME, number % 5) for number in range(30)]
    simulation = Simulation(BEST_EFFORT, seconds=60.0, attempt_s=0.05)
    waited_s = simulation.run([*slow, (0.2, NEIGHBOUR, Outcome.BOUND, priority)])
    assert waited_s[-1] <= 10.0


@pytest.mark.parametrize("strategy", Strategy)
@PRIORITIES
@pytest.mark.parametrize("outcome", [Outcome.GANG, Outcome.INCOMPLETE_GANG])
def test_gangs_of_two_tenants_do_not_stop_a_neighbour(
    outcome: Outcome, priority: int, strategy: Strategy
) -> None:
    gangs = [(1.0, tenant, outcome, priority) for tenant in (TENANT, OTHER_TENANT)]
    alone: Makers = [(0.3, TENANT, Outcome.BOUND, 9), (1.0, NEIGHBOUR, Outcome.BOUND, 0)]
    assert Simulation(strategy, seconds=60.0).run([*gangs, *alone])[-1] <= 2.0


def test_a_gang_of_ten_thousand_does_not_stop_a_neighbour() -> None:
    simulation = Simulation(BEST_EFFORT, seconds=150.0, gang=10_000)
    gang: Makers = [(70.0, TENANT, Outcome.INCOMPLETE_GANG, 9)]
    waited_s = simulation.run([*gang, (1.0, NEIGHBOUR, Outcome.BOUND, 0)])
    assert waited_s[-1] <= 1.0
