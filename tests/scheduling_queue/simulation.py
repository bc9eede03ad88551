"""Simulates a cluster in which a tenant creates all kinds of harmful pods next to a neighbour.

The simulated kube-scheduler works on one pod at a time, in its own order, and kube-apiserver on one
patch. kube-scheduler retries a pod that it cannot place, as it does when an extender rejected the
pod and anything happens in the cluster. It tries no member of a pod group while one has a gate, and
then all of them at once. The tenant creates more pods than kube-scheduler can place. The simulation
is deterministic and takes no real time.
"""

import heapq
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TypeAlias

from tests.doors.queue_stories import MAX_HOLD_S, Clock, Queue, Strategy, pod, released

from kubextend.plugins import PrioritySort

PATCH_S = 0.02
ATTEMPT_S = 0.1
REJECTION_S = 0.01
# kube-scheduler's own backoff.
FIRST_BACKOFF_S, LONGEST_BACKOFF_S = 1.0, 10.0
# The seconds that the ungater waits between its attempts at a pod whose patch is refused. All such
# pods together have five more attempts in five minutes.
PAUSES_S = (0.2, 0.4, 0.8, 1.6, 2.0)
ATTEMPT_AGAIN_EVERY_S = 60.0
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
    GANG = auto()
    """The pod and others are a pod group, which is placed."""
    INCOMPLETE_GANG = auto()
    """The pod and others are a pod group that lacks a member, so that none is ever tried."""


GANGS = {Outcome.GANG, Outcome.INCOMPLETE_GANG}


@dataclass
class Made:
    """A simulated pod.

    Attributes:
        name: the name of the pod.
        namespace: the pod's namespace.
        outcome: what happens to the pod after its release.
        priority: the pod's priority.
        created_s: when the pod was created, in simulated seconds.
        members: the pods of its pod group, with itself; empty: it has none.
        has_gate: whether it has the queue's gate.
        bound: whether the pod is bound.
        tries: how often kube-scheduler has tried the pod.
    """

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
        strategy: the strategy of the queue.
        by_namespace: whether namespaces take turns.
        window: the size of the queue's window.
        seconds: for how many simulated seconds pods are created.
        attempt_s: for how long kube-scheduler works on a pod that it places.
        pauses_s: from when to when kube-scheduler begins no attempt.
        gang: how many members each pod group has.
        waited_s: the seconds that each of the neighbour's pods waited until it was bound.
    """

    strategy: Strategy
    by_namespace: bool = True
    window: int = 1
    seconds: float = 600.0
    attempt_s: float = ATTEMPT_S
    pauses_s: tuple[float, float] = (0.0, 0.0)
    gang: int = 30
    waited_s: list[float] = field(default_factory=list)
    _made: dict[str, Made] = field(default_factory=dict)
    _events: list[tuple[float, int, Callable[[], object]]] = field(default_factory=list)
    _active: list[tuple[int, float, int, Made]] = field(default_factory=list)
    _busy: bool = False
    _attempts: float = len(PAUSES_S)
    _attempts_at_s: float = 0.0

    def __post_init__(self) -> None:
        self._clock = Clock(0.0)
        self._numbers = itertools.count()
        self._queue = Queue(
            self.strategy,
            self.window,
            self.by_namespace,
            PrioritySort(),
            clock=self._clock,
        )

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
                make = self._maker(namespace, outcome, priority)
                self._at(number * every_s, make)
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
        late_s = [
            self._clock() - made.created_s
            for made in self._made.values()
            if made.namespace == NEIGHBOUR and not made.bound
        ]
        return sorted([*self.waited_s, *late_s])

    def _at(self, now_s: float, event: Callable[[], object]) -> None:
        heapq.heappush(self._events, (now_s, next(self._numbers), event))

    def _after(self, seconds: float, event: Callable[[], object]) -> None:
        self._at(self._clock() + seconds, event)

    def _maker(self, namespace: str, outcome: Outcome, priority: int) -> Callable[[], None]:
        def make() -> None:
            members: list[Made] = []
            for _ in range(self.gang if outcome in GANGS else 1):
                name = f"p{next(self._numbers)}"
                made = Made(name, namespace, outcome, priority, self._clock())
                if outcome in GANGS:
                    members.append(made)
                    made.members = members
                self._made[name] = made
                self._queue.show(pod(name, **made.fields))  # type: ignore[arg-type]

        return make

    def _release(self) -> None:
        """Send a patch that removes the gate of each pod that is due for release."""
        for name in self._queue.due():
            made = self._made[name]
            if made.outcome is Outcome.UNPATCHABLE:
                self._after(PATCH_S, self._refuser(made))
            else:
                self._after(PATCH_S, self._releaser(made))

    def _pauses_s(self) -> float:
        """Return for how many seconds the ungater retries a pod whose patch is refused."""
        most = float(len(PAUSES_S))
        now_s = self._clock()
        self._attempts += (now_s - self._attempts_at_s) / ATTEMPT_AGAIN_EVERY_S
        self._attempts_at_s = now_s
        attempts = int(min(self._attempts, most))
        self._attempts = min(self._attempts, most) - attempts
        return sum(PAUSES_S[:attempts])

    def _refuser(self, made: Made) -> Callable[[], None]:
        def refuse() -> None:
            self._queue.refused(made.name)

        def refuse_once() -> None:
            self._queue.refused_once(made.name)
            self._after(self._pauses_s(), refuse)

        return refuse_once

    def _releaser(self, made: Made) -> Callable[[], None]:
        def release() -> None:
            self._queue.patched(made.name)
            made.has_gate = False
            waits = made.outcome is Outcome.INCOMPLETE_GANG
            if not (waits or any(member.has_gate for member in made.members)):
                self._activate(made)

        return release

    def _activate(self, made: Made) -> None:
        """Put a pod into kube-scheduler's active queue."""
        # A pod that was never tried is sorted by when it was created, not by its release.
        since_s = self._clock() if made.tries else made.created_s
        place = (-made.priority, since_s, next(self._numbers), made)
        heapq.heappush(self._active, place)
        self._schedule()

    def _schedule(self) -> None:
        """Let kube-scheduler begin with the next pod, if it works on none."""
        if self._active and not self._busy:
            self._busy = True
            made = heapq.heappop(self._active)[-1]
            rejected = made.outcome is Outcome.UNSCHEDULABLE
            begins_s, ends_s = self.pauses_s
            pause_s = ends_s - self._clock() if begins_s <= self._clock() < ends_s else 0.0
            took_s = REJECTION_S * len(made.members) if made.members else self.attempt_s
            took_s = REJECTION_S if rejected else took_s
            self._after(pause_s + took_s, lambda: self._end(made))

    def _end(self, made: Made) -> None:
        self._busy = False
        if made.outcome is Outcome.UNSCHEDULABLE:
            seen = released(made.name, "Unschedulable", **made.fields)
            self._queue.show(seen)
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
