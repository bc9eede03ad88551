"""The queue against a model that looks through everything each time, and against its promises."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.doors.queue_stories import (
    GATE,
    MAX_HOLD_S,
    Clock,
    PreEnqueuePlugin,
    Queue,
    Strategy,
    pod,
)

from kubextend import Status, core

NAMES = st.sampled_from([f"p{number}" for number in range(12)])
GROUPS = st.sampled_from(["", "", "g", "h"])
CLASSES = ("BestEffort", "Burstable", "Guaranteed")
PRIORITIES = st.sampled_from([None, 0, 1, 1000])
OTHER_GATE = "example.com/other"

pytestmark = pytest.mark.slow


@dataclass
class Fact:
    """A pod of the API, and what has happened to it.

    Attributes:
        arrived: its turn among equals.
        tried: whether the queue ever had its gate taken off.
        aside_s: until when it is set aside.
        free: whether the queue knows that it has no gate.
        waited_for: whether it is free and the window waits for it.
    """

    name: str
    arrived: int
    priority: int | None
    qos: str
    second: int
    group: str = ""
    gated: bool = True
    other_gate: bool = False
    held: bool = False
    verdict: str = "SchedulingGated"
    releasing: bool = False
    tried: bool = False
    aside_s: float = 0.0
    refusals: int = 0
    free: bool = False
    waited_for: bool = False

    @property
    def unit(self) -> str:
        """What takes a place in the window: its group, or the pod alone."""
        return self.group or self.name

    def made(self) -> core.Pod:
        gates = [GATE] * self.gated + [OTHER_GATE] * self.other_gate
        return pod(
            self.name,
            gates=gates,
            priority=self.priority,
            second=self.second,
            qos=self.qos,
            reason=self.verdict,
            labels={"held": "yes"} if self.held else None,
            group=self.group,
        )

    @property
    def key(self) -> tuple[int, ...]:
        return -(self.priority or 0), -CLASSES.index(self.qos), self.second, self.arrived


@dataclass
class Place:
    """A place in the window, which is given up at ``until_s`` at the latest."""

    until_s: float
    is_released: bool = False


def held_by_label(made: core.Pod) -> Status | None:
    return Status.unschedulable("held") if made.labels.get("held") else None


class QueueMachine(RuleBasedStateMachine):
    """Everything that may happen, in any order; what is due is what the model says."""

    strategy = Strategy.STRICT_FIFO
    window = 2

    def __init__(self) -> None:
        super().__init__()
        self.clock = Clock()
        plugins = (PreEnqueuePlugin(held_by_label),)
        self.queue = Queue(self.strategy, self.window, clock=self.clock, pre_enqueue=plugins)
        self.facts: dict[str, Fact] = {}
        self.places: dict[str, Place] = {}
        self.arrivals = 0

    def those_of(self, unit: str) -> list[Fact]:
        """The pods that have a place together."""
        return [
            fact
            for fact in self.facts.values()
            if fact.unit == unit and (fact.releasing or fact.waited_for)
        ]

    def enter(self, fact: Fact, *, is_released: bool) -> None:
        place = self.places.get(fact.unit)
        if place is None or (is_released and not place.is_released):
            self.places[fact.unit] = Place(self.clock() + MAX_HOLD_S, is_released)
        fact.releasing, fact.waited_for = not is_released, is_released

    def leave(self, fact: Fact) -> None:
        fact.releasing = fact.waited_for = False
        if not self.those_of(fact.unit):
            self.places.pop(fact.unit, None)

    def expire(self) -> None:
        now_s = self.clock()
        for unit, place in list(self.places.items()):
            if now_s < place.until_s:
                continue
            for fact in self.those_of(unit):
                if fact.releasing:
                    self.set_aside(fact)
                else:
                    self.leave(fact)

    def set_aside(self, fact: Fact) -> None:
        self.leave(fact)
        fact.aside_s = self.clock() + min(2.0**fact.refusals, 300.0)
        fact.refusals += 1

    def let_go(self, fact: Fact) -> None:
        """The queue learns that a pod has no gate; only one of ours is waited for.

        One that was set aside does not begin a new place of its group.
        """
        if not fact.free:
            fact.free = True
            is_late = bool(fact.group) and not fact.releasing and fact.unit not in self.places
            if fact.tried and not is_late:
                self.enter(fact, is_released=True)
        self.judge(fact)

    def judge(self, fact: Fact) -> None:
        """With BestEffortFIFO the window does not wait for a pod that kube-scheduler has tried."""
        is_tried = fact.verdict != "SchedulingGated"
        if is_tried and fact.waited_for and self.strategy is Strategy.BEST_EFFORT_FIFO:
            self.leave(fact)

    def next(self) -> Fact | None:
        """The first that may take a free place, or else one that follows its group."""
        ready = [
            fact
            for fact in self.facts.values()
            if fact.gated and not (fact.other_gate or fact.held or fact.releasing)
            if fact.aside_s <= self.clock()
        ]
        ready.sort(key=lambda fact: fact.key)
        if len(self.places) < self.window:
            for fact in ready:
                if fact.unit not in self.places:
                    return fact
        for unit in self.places:
            releasing = sum(fact.releasing for fact in self.those_of(unit))
            following = [fact for fact in ready if fact.group == unit]
            if following and releasing < self.window:
                return following[0]
        return None

    def show(self, fact: Fact) -> None:
        if not fact.gated and not fact.other_gate:
            self.let_go(fact)
        self.queue.show(fact.made())

    def named(self, data: st.DataObject, wanted: Callable[[Fact], bool]) -> Fact | None:
        names = sorted(fact.name for fact in self.facts.values() if wanted(fact))
        return self.facts[data.draw(st.sampled_from(names))] if names else None

    @rule(
        name=NAMES,
        sorted_by=st.tuples(PRIORITIES, st.sampled_from(CLASSES), st.integers(0, 3)),
        group=GROUPS,
        kept_back=st.tuples(st.booleans(), st.booleans()),
    )
    def create(self, name: str, sorted_by: Any, group: str, kept_back: tuple[bool, bool]) -> None:
        if name not in self.facts:
            self.arrivals += 1
            fact = self.facts[name] = Fact(name, self.arrivals, *sorted_by, group)
            fact.other_gate, fact.held = kept_back
            self.show(fact)

    @rule(data=st.data(), priority=PRIORITIES)
    def change_before_it_is_released(self, data: st.DataObject, priority: int | None) -> None:
        if fact := self.named(data, lambda fact: fact.gated and not fact.releasing):
            fact.priority = priority
            fact.held = not fact.held
            self.show(fact)

    @rule(data=st.data())
    def others_take_their_gate_off(self, data: st.DataObject) -> None:
        if fact := self.named(data, lambda fact: fact.gated and fact.other_gate):
            fact.other_gate = False
            self.show(fact)

    @rule(data=st.data())
    def somebody_takes_our_gate_off(self, data: st.DataObject) -> None:
        if fact := self.named(data, lambda fact: fact.gated and not fact.other_gate):
            fact.gated = False
            self.show(fact)

    @rule()
    def look(self) -> None:
        self.expire()
        expected = []
        while fact := self.next():
            self.enter(fact, is_released=False)
            fact.tried = True
            expected.append(fact.name)
        assert self.queue.due() == expected

    @rule(data=st.data(), seen=st.booleans())
    def the_patch_succeeds(self, data: st.DataObject, seen: bool) -> None:
        if fact := self.named(data, lambda fact: fact.gated and fact.tried and not fact.other_gate):
            stale = replace(fact).made()
            fact.gated = False
            self.let_go(fact)
            if seen:
                self.show(fact)
            self.queue.patched(fact.name)
            self.queue.show(stale)

    @rule(data=st.data())
    def the_patch_is_not_made(self, data: st.DataObject) -> None:
        if fact := self.named(data, lambda fact: fact.releasing):
            self.leave(fact)
            self.queue.unsent(fact.name)

    @rule(data=st.data())
    def the_patch_is_refused(self, data: st.DataObject) -> None:
        if fact := self.named(data, lambda fact: fact.releasing):
            self.set_aside(fact)
            self.queue.refused(fact.name)

    @rule(data=st.data())
    def permit_holds_it(self, data: st.DataObject) -> None:
        if fact := self.named(data, lambda fact: fact.free):
            self.leave(fact)
            self.queue.permit_holds(fact.name)

    @rule(data=st.data(), verdict=st.sampled_from(["Unschedulable", "SchedulerError"]))
    def kube_scheduler_finds_no_node(self, data: st.DataObject, verdict: str) -> None:
        if fact := self.named(data, lambda fact: fact.free):
            fact.verdict = verdict
            self.show(fact)

    @rule(data=st.data(), deleted=st.booleans())
    def it_is_bound_or_deleted(self, data: st.DataObject, deleted: bool) -> None:
        if fact := self.named(data, lambda fact: deleted or fact.free):
            self.leave(fact)
            del self.facts[fact.name]
            self.queue.gone(fact.name)

    @rule(seconds=st.sampled_from([0.0, 1.0, 20.0, 60.0]))
    def time_passes(self, seconds: float) -> None:
        self.clock.pass_s(seconds)

    @rule()
    def everything_is_listed_again(self) -> None:
        for fact in self.facts.values():
            if not fact.gated and not fact.other_gate:
                self.let_go(fact)
        self.queue.list(*(fact.made() for fact in self.facts.values()))

    @invariant()
    def no_pod_is_lost(self) -> None:
        counts = self.queue.counts()
        gated = sum(fact.gated for fact in self.facts.values())
        waiting = ("ready", "held", "set_aside", "releasing")
        assert sum(counts[state] for state in waiting) == gated
        assert counts["releasing"] == sum(fact.releasing for fact in self.facts.values())
        assert counts["released"] == sum(fact.waited_for for fact in self.facts.values())

    def teardown(self) -> None:
        """In the end every pod is released, once."""
        self.clock.pass_s(300)
        for fact in self.facts.values():
            fact.other_gate = fact.held = False
            self.show(fact)
        left = {fact.name for fact in self.facts.values() if fact.gated and not fact.releasing}
        for fact in list(self.facts.values()):
            if fact.name not in left:
                self.queue.gone(fact.name)
        released: list[str] = []
        while due := self.queue.due():
            released += due
            self.queue.gone(*due)
        assert sorted(released) == sorted(left)


class BestEffortMachine(QueueMachine):
    """The same where an unschedulable pod holds up nobody."""

    strategy = Strategy.BEST_EFFORT_FIFO
    window = 3


class OneByOneMachine(QueueMachine):
    """The same with the default window."""

    window = 1


@dataclass
class Api:
    """Pods as they are, the events that are still on their way, and what was done to each pod."""

    pods: dict[str, Fact] = field(default_factory=dict)
    events: list[tuple[str, core.Pod | None]] = field(default_factory=list)
    releases: dict[str, int] = field(default_factory=dict)

    def changed(self, name: str) -> None:
        fact = self.pods.get(name)
        self.events.append((name, fact.made() if fact else None))


class LateMachine(RuleBasedStateMachine):
    """The watch lags behind, and the queue is restarted in the middle."""

    window = 2

    def __init__(self) -> None:
        super().__init__()
        self.api = Api()
        self.created = 0
        self.start()

    def start(self) -> None:
        self.queue = Queue(Strategy.STRICT_FIFO, self.window)
        self.api.events.clear()
        self.queue.list(*(fact.made() for fact in self.api.pods.values()))

    @rule(priority=PRIORITIES, group=GROUPS)
    def create(self, priority: int | None, group: str) -> None:
        self.created += 1
        name = f"p{self.created:03}"
        made = Fact(name, self.created, priority, "BestEffort", self.created, group)
        self.api.pods[name] = made
        self.api.changed(name)

    @rule(count=st.integers(1, 5))
    def the_watch_shows_some(self, count: int) -> None:
        for name, made in self.api.events[:count]:
            if made is None:
                self.queue.gone(name)
            else:
                self.queue.show(made)
        del self.api.events[:count]

    @rule(answered=st.booleans())
    def release(self, answered: bool) -> None:
        for name in self.queue.due():
            fact = self.api.pods.get(name)
            if fact is None:
                self.queue.gone(name)
                continue
            if fact.gated:
                self.api.releases[fact.name] = self.api.releases.get(fact.name, 0) + 1
                fact.gated = False
                self.api.changed(fact.name)
            if answered:
                self.queue.patched(name)

    @precondition(lambda self: any(not fact.gated for fact in self.api.pods.values()))
    @rule(data=st.data())
    def bind(self, data: st.DataObject) -> None:
        free = sorted(fact.name for fact in self.api.pods.values() if not fact.gated)
        name = data.draw(st.sampled_from(free))
        del self.api.pods[name]
        self.api.changed(name)

    @rule()
    def restart(self) -> None:
        self.start()

    @invariant()
    def no_more_than_the_window_are_on_their_way(self) -> None:
        on_their_way = {fact.unit for fact in self.api.pods.values() if not fact.gated}
        assert len(on_their_way) <= self.window

    def teardown(self) -> None:
        """Everything that was made is released, and nothing twice."""
        while self.api.pods or self.api.events:
            self.the_watch_shows_some(len(self.api.events))
            self.release(answered=True)
            for fact in list(self.api.pods.values()):
                if not fact.gated:
                    del self.api.pods[fact.name]
                    self.api.changed(fact.name)
        assert len(self.api.releases) == self.created
        assert set(self.api.releases.values()) <= {1}


LONG = settings(max_examples=150, stateful_step_count=50, deadline=None)

TestStrictFifo = QueueMachine.TestCase
TestBestEffortFifo = BestEffortMachine.TestCase
TestOneByOne = OneByOneMachine.TestCase
TestLateWatch = LateMachine.TestCase
TestStrictFifo.settings = TestBestEffortFifo.settings = LONG
TestOneByOne.settings = TestLateWatch.settings = LONG
