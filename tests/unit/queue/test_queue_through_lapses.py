"""The queue while its lease lapses and comes back: every thread is a turn, time is a number."""

import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

import pytest
from queue_world import Clock, Queue, pod, released

from kubextend import core
from kubextend.cluster import Election, LeaseName, UnreachableError
from kubextend.queue import QueueRunner, SchedulingQueue

if TYPE_CHECKING:
    from kubextend.cluster.api_call import Call
    from kubextend.cluster.client import Cluster

PODS = 500
LAPSES = 50
STUCK_S = 3.0
STEP_S = 0.05
LEASE = LeaseName("kubextend-system", "kubextend-queue")


@dataclass
class LeaseApi:
    """The API of one lease; a lapse begins with a call that fails or that takes long.

    Attributes:
        away_until_s: no call is answered before.
        slow_s: how long the next write takes.
        takes: lets so many seconds pass for everybody else.
    """

    clock: Clock
    takes: Callable[[float], object]
    away_until_s: float = 0.0
    slow_s: float = 0.0
    version: int = 0
    spec: dict[str, object] = field(default_factory=dict)

    def request(self, call: "Call") -> bytes:
        if self.clock() < self.away_until_s:
            raise UnreachableError(call, "no route")
        if call.method == "PUT":
            slow_s, self.slow_s = self.slow_s, 0.0
            self.takes(slow_s)
            self.version += 1
            assert call.body is not None
            self.spec = dict(cast("dict[str, object]", call.body["spec"]))
        metadata = {"name": LEASE.name, "resourceVersion": str(self.version)}
        return json.dumps({"metadata": metadata, "spec": self.spec}).encode()


class World:
    """One replica, kube-scheduler, and a lease that is taken away again and again.

    Attributes:
        bound: names of pods in the order in which they were bound.
        lapses: how often the lease was lost.
    """

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.clock = Clock(0.0)
        self.api = LeaseApi(self.clock, self._pass_s)
        self.election = Election(
            cast("Cluster", self.api),
            LEASE,
            self._wake,
            identity="us",
            clock=self.clock,
        )
        self.election._rng = self.rng
        queue = Queue(clock=self.clock, leads=lambda: self.election.leads).queue
        self.runner = QueueRunner(queue, self._patch, lambda: self.election.leads, self.clock)
        self.waiting = {f"p{number:03}" for number in range(PODS)}
        self.bound: list[str] = []
        self.lapses = 0
        self._patches: list[tuple[float, core.Pod]] = []
        self._binds: list[tuple[float, str]] = []
        self._election_at_s = 0.0
        self._runner_at_s: float | None = None
        self._led = False
        self._moved_at_s = 0.0

    def run(self) -> None:
        """Every pod is bound, and the lease lapses as often as it is to; never stuck meanwhile."""
        self.runner.tell(
            SchedulingQueue.replace,
            [pod(name, second=int(name[1:])) for name in sorted(self.waiting)],
        )
        lapse_at_s = self._soon()
        while self.waiting or self.lapses < LAPSES:
            if self.clock() >= lapse_at_s and self.lapses < LAPSES and self.election.leads:
                self._take_the_lease_away()
                lapse_at_s = self.clock() + 15.0 + self._soon()
            if self.clock() >= self._election_at_s:
                self._election_at_s = self.election.turn() + self.clock()
            self._pass_s(STEP_S)

    def _pass_s(self, seconds: float) -> None:
        """Everybody but the election is at work for so long."""
        until_s = self.clock() + seconds
        while self.clock() < until_s:
            self._step()
            self.clock.pass_s(STEP_S)
            assert not self._is_stuck(), f"at {self.clock():.1f} s with {len(self.bound)} bound"

    def _wake(self) -> None:
        self.runner.wake()

    def _soon(self) -> float:
        return self.rng.uniform(0.0, 6.0)

    def _take_the_lease_away(self) -> None:
        """Either no call is answered for a while, or one renewal takes longer than the lease."""
        self.lapses += 1
        if self.rng.random() < 0.5:
            self.api.away_until_s = self.clock() + self.rng.uniform(10.0, 14.0)
        else:
            self.api.slow_s = self.rng.uniform(8.0, 12.0)

    def _step(self) -> None:
        told = not self.runner._inbox.empty()
        if told or (self._runner_at_s is not None and self.clock() >= self._runner_at_s):
            wait_s = self.runner.turn(0)
            self._runner_at_s = None if wait_s is None else self.clock() + wait_s
        for made in _due(self._patches, self.clock()):
            self._answer(made)
        for name in _due(self._binds, self.clock()):
            self.waiting.remove(name)
            self.bound.append(name)
            self.runner.tell(SchedulingQueue.forget, f"uid-{name}")
            self._moved_at_s = self.clock()

    def _patch(self, made: core.Pod) -> None:
        self._patches.append((self.clock() + self.rng.uniform(0.0, 0.3), made))

    def _answer(self, made: core.Pod) -> None:
        """As the ungater does: nothing is patched unless we lead."""
        if not self.election.leads:
            self.runner.tell(SchedulingQueue.returned, made.uid)
            return
        self.runner.tell(SchedulingQueue.released, made.uid)
        self.runner.tell(SchedulingQueue.observe, released(made.name))
        self._binds.append((self.clock() + self.rng.uniform(0.0, 1.0), made.name))
        self._moved_at_s = self.clock()

    def _is_stuck(self) -> bool:
        leads = self.election.leads
        if leads and not self._led:
            self._moved_at_s = self.clock()
        self._led = leads
        return leads and bool(self.waiting) and self.clock() - self._moved_at_s > STUCK_S


def _due(things: list, now_s: float) -> Iterator:  # type: ignore[type-arg]
    """Take out those whose time has come."""
    due = [thing for at_s, thing in things if at_s <= now_s]
    things[:] = [(at_s, thing) for at_s, thing in things if at_s > now_s]
    yield from due


@pytest.mark.parametrize("seed", range(4))
def test_no_pod_is_lost_or_stuck_while_the_lease_lapses_and_comes_back(seed: int) -> None:
    world = World(seed)
    world.run()
    assert world.lapses == LAPSES
    # A pod is released once, in its turn; kube-scheduler has one of them at a time.
    assert world.bound == [f"p{number:03}" for number in range(PODS)]
