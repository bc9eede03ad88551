"""What turns of namespaces promise, whatever happens in whatever order."""

from dataclasses import dataclass

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from tests.doors.queue_stories import MAX_HOLD_S, NEXT_NAMESPACE_S, Queue, pod, released

from kubextend.plugins import PrioritySort

pytestmark = pytest.mark.slow

MOST_UNSCHEDULABLE = 3


@dataclass
class Fact:
    """A pod that waits until ``released_s``, is ``untried``, and may be ``bad``: fit nowhere."""

    name: str
    namespace: str
    priority: int
    arrived: int
    released_s: float | None = None
    untried: bool = False
    bad: bool = False

    @property
    def key(self) -> tuple[int, int]:
        return -self.priority, self.arrived


class TurnsMachine(RuleBasedStateMachine):
    """Pods of three namespaces come, are released, and are tried or not."""

    window = 1

    def __init__(self) -> None:
        super().__init__()
        self.queue = Queue(
            window=self.window,
            by_namespace=True,
            plugin=PrioritySort(),
            most_unschedulable=MOST_UNSCHEDULABLE,
        )
        self.facts: dict[str, Fact] = {}
        self.arrivals = 0
        self.last_s: dict[str, float] = {}
        self.paused: dict[str, bool] = {}

    def of(self, namespace: str) -> list[Fact]:
        return [fact for fact in self.facts.values() if fact.namespace == namespace]

    def some(self, data: st.DataObject, *, waits: bool) -> Fact | None:
        found = [fact for fact in self.facts.values() if (fact.released_s is None) is waits]
        return data.draw(st.sampled_from(found)) if found else None

    def note_pauses(self) -> None:
        """A pause lasts only while a namespace has many unschedulable pods without a break."""
        for namespace in "abc":
            many = sum(fact.bad for fact in self.of(namespace)) >= MOST_UNSCHEDULABLE
            self.paused[namespace] = many and self.paused.get(namespace, False)

    @rule(namespace=st.sampled_from("abc"), priority=st.integers(0, 2), count=st.integers(1, 4))
    def create(self, namespace: str, priority: int, count: int) -> None:
        for _ in range(count):
            self.arrivals += 1
            fact = Fact(f"p{self.arrivals}", namespace, priority, self.arrivals)
            self.facts[fact.name] = fact
            self.queue.show(pod(fact.name, namespace=namespace, priority=priority))

    @rule(seconds=st.sampled_from([0.0625, 0.125, 0.25, 1.0, 8.0, 40.0]))
    def time_passes(self, seconds: float) -> None:
        self.queue.clock.pass_s(seconds)

    @rule()
    def look(self) -> None:
        now_s = self.queue.clock()
        for name in self.queue.release():
            fact = self.facts[name]
            waiting = [each for each in self.of(fact.namespace) if each.released_s is None]
            assert fact is min(waiting, key=lambda each: each.key)
            many = sum(each.bad for each in self.of(fact.namespace)) >= MOST_UNSCHEDULABLE
            if many and self.paused.get(fact.namespace):
                assert now_s - self.last_s[fact.namespace] >= MAX_HOLD_S
            self.paused[fact.namespace] = many
            self.last_s[fact.namespace] = fact.released_s = now_s
            fact.untried = True
        untried = [each for each in self.facts.values() if each.untried]
        recent = [each for each in untried if now_s - (each.released_s or 0) < NEXT_NAMESPACE_S]
        assert len(recent) <= self.window
        waited_for = [each for each in untried if now_s - (each.released_s or 0) < MAX_HOLD_S]
        for namespace in "abc":
            assert sum(each.namespace == namespace for each in waited_for) <= self.window

    @rule(data=st.data(), waits=st.booleans())
    def one_is_bound_or_deleted(self, data: st.DataObject, waits: bool) -> None:
        if fact := self.some(data, waits=waits):
            del self.facts[fact.name]
            self.queue.gone(fact.name)
            self.note_pauses()

    @rule(data=st.data())
    def kube_scheduler_finds_no_node(self, data: st.DataObject) -> None:
        if fact := self.some(data, waits=False):
            fact.untried, fact.bad = False, True
            self.queue.show(released(fact.name, "Unschedulable", namespace=fact.namespace))

    @rule(data=st.data())
    def permit_holds_one_and_places_it(self, data: st.DataObject) -> None:
        if fact := self.some(data, waits=False):
            self.queue.permit_holds(fact.name)
            self.queue.gone(fact.name)
            del self.facts[fact.name]
            self.note_pauses()

    @invariant()
    def the_queue_has_exactly_the_pods_that_wait(self) -> None:
        waiting = {fact.name for fact in self.facts.values() if fact.released_s is None}
        assert {name for _, name, state, _ in self.queue.shown() if state == "ready"} == waiting
        places = list(self.queue.positions().values())
        assert places == list(range(1, len(places) + 1))

    def teardown(self) -> None:
        """In the end every pod is released, once."""
        left = sorted(fact.name for fact in self.facts.values() if fact.released_s is None)
        self.queue.gone(*(fact.name for fact in self.facts.values() if fact.released_s is not None))
        assert sorted(self.queue.drain()) == left


class WideTurnsMachine(TurnsMachine):
    """Three pods are released at a time."""

    window = 3


LONG = settings(max_examples=100, stateful_step_count=40, deadline=None)

TestTurns = TurnsMachine.TestCase
TestWideTurns = WideTurnsMachine.TestCase
TestTurns.settings = TestWideTurns.settings = LONG
