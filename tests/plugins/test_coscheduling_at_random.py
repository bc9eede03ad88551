"""A gang beside another Permit plugin and a PreBind plugin that answer in random order.

A pod passes Permit only if its gang is complete: with the pods that are bound, and with those whose
binding cycles have not failed.
"""

import asyncio
import random
from dataclasses import dataclass, field

import pytest
from tests.doors.stories import Process, member, run, skip

from kubextend import core
from kubextend.framework import CycleState, Status

NAMES = "abcd"
MINIMUM = 3
STEPS = 80
# After a pod failed, the others are told within a few passes of the event loop: each plugin's
# Unreserve is a task of its own.
PASSES_UNTIL_KNOWN = 12
# As many rounds as the longest backoff takes, and some more.
ROUNDS = 100
PODS = {name: member(name, minimum=str(MINIMUM)) for name in NAMES}
WAIT = (Status.wait(), 500.0)
YES = Status.success()
NO = Status.unschedulable("no")


@dataclass
class Cycle:
    """The binding cycle of one pod.

    Attributes:
        slow: the other Permit plugin thinks before it answers; else it answers Wait at once.
        thinks: which plugin thinks about the pod: ``Other``, ``Volumes`` or none.
        failed_at: how many passes of the event loop had begun when the pod's failure was seen.
    """

    slow: bool
    thinks: str = ""
    answer: "asyncio.Future[Status | tuple[Status, float]]" = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )
    failed_at: int | None = None
    task: "asyncio.Task[Status] | None" = None

    async def asked(self, plugin: str) -> Status | tuple[Status, float]:
        self.thinks = plugin
        self.answer = asyncio.get_running_loop().create_future()
        return await self.answer

    def fail(self, at: int) -> None:
        if self.failed_at is None:
            self.failed_at = at


class Gang:
    """Four pods of which three have to run together, and the plugins beside Coscheduling."""

    name = "Other"

    def __init__(self, seed: int) -> None:
        self.now_s = 0.0
        self.world = Process(lambda: self.now_s)
        self.world.list(PODS.values())
        self.bound: list[str] = []
        self.random = random.Random(seed)
        self.cycles: dict[str, Cycle] = {}
        self.alone: list[str] = []
        self.passes = 0

    async def permit(self, _state: CycleState, of: core.Pod, _node: str) -> object:
        cycle = self.cycles[of.name]
        return await cycle.asked("Other") if cycle.slow else WAIT

    async def reserve(self, _state: CycleState, _of: core.Pod, _node: str) -> None:
        pass

    async def unreserve(self, _state: CycleState, of: core.Pod, _node: str) -> None:
        self.cycles[of.name].fail(self.passes)

    async def pre_bind(self, _state: CycleState, of: core.Pod, _node: str) -> object:
        there = [name for name in NAMES if self.counts(name)]
        if len(there) < MINIMUM:
            self.alone.append(f"{of.name} passed Permit with {there}")
        return await self.cycles[of.name].asked("Volumes")

    def say(self, cycle: Cycle, answer: Status | tuple[Status, float]) -> None:
        if answer is NO:
            cycle.fail(self.passes)
        cycle.thinks = ""
        cycle.answer.set_result(answer)

    def counts(self, name: str) -> bool:
        """Return whether a pod is bound, or may be: it has not failed, or failed just now."""
        if name in self.bound:
            return True
        cycle = self.cycles.get(name)
        if cycle is None:
            return False
        if self.world.is_sent_back(name):
            cycle.fail(self.passes)
        return cycle.failed_at is None or self.passes <= cycle.failed_at + PASSES_UNTIL_KNOWN

    def is_held(self, name: str) -> bool:
        held = self.world.held(name)
        return held is not None and self.name in held.pending_plugins

    def allow(self, name: str) -> None:
        held = self.world.held(name)
        if held is not None:
            held.allow(self.name)

    def begin(self, name: str, *, slow: bool) -> None:
        """Let kube-scheduler try a pod, unless the pod is bound or PreFilter rejects it."""
        if name in self.bound or name in self.cycles:
            return
        if not self.world.pre_filter(PODS[name]):
            self.cycles[name] = cycle = Cycle(slow)
            cycle.task = asyncio.ensure_future(self.bind(name))

    async def bind(self, name: str) -> Status:
        async def bind() -> None:
            self.bound.append(name)

        both = [self.world.plugin, self]
        beside = {"reserve": [self], "permit": both, "pre_bind": [self]}
        return await self.world.bind(PODS[name], bind, **beside)

    async def run_loop(self, passes: int) -> None:
        for _ in range(passes):
            self.passes += 1
            await asyncio.sleep(0)
        self.forget_ended()

    async def pass_time(self, seconds: float) -> None:
        self.now_s += seconds
        await skip(seconds)
        self.passes += PASSES_UNTIL_KNOWN
        self.forget_ended()

    def forget_ended(self) -> None:
        for name, cycle in list(self.cycles.items()):
            if cycle.task is not None and cycle.task.done():
                del self.cycles[name]

    async def step(self) -> None:
        """Let one thing happen: an attempt, an answer or a decision."""
        name = self.random.choice(NAMES)
        cycle = self.cycles.get(name)
        if cycle is None:
            self.begin(name, slow=self.random.random() < 0.4)
        elif cycle.thinks == "Other":
            self.say(cycle, self.random.choice([WAIT, WAIT, YES, NO]))
            if self.random.random() < 0.2:
                # The plugin allows the pod before Coscheduling may reject it.
                await self.run_loop(self.random.randrange(6))
                self.allow(name)
        elif cycle.thinks == "Volumes":
            self.say(cycle, self.random.choice([YES, YES, NO]))
        elif self.is_held(name):
            if self.random.random() < 0.5:
                self.allow(name)
            else:
                cycle.fail(self.passes)
                self.world.reject(name, self.name)
        await self.run_loop(self.random.randrange(6))
        if self.random.random() < 0.5:
            await self.pass_time(self.random.choice([0.5, 0.5, 5.0]))

    async def help_all(self) -> None:
        """Let every pod be tried, and every plugin agree."""
        for name in NAMES:
            self.begin(name, slow=False)
        await self.pass_time(0.0)
        # Coscheduling rejects a pod at most 0.2 s after Permit begins to hold it.
        await self.pass_time(0.5)
        for name, cycle in list(self.cycles.items()):
            if cycle.thinks:
                self.say(cycle, WAIT if cycle.thinks == "Other" else YES)
            self.allow(name)
        await self.pass_time(0.0)
        await self.pass_time(1.0)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 150, 30))
def test_no_pod_passes_permit_without_its_gang_and_in_the_end_all_are_bound(first: int) -> None:
    async def scenario(seed: int) -> None:
        gang = Gang(seed)
        for _ in range(STEPS):
            await gang.step()
        for _ in range(ROUNDS):
            await gang.help_all()
        assert (gang.alone, sorted(gang.bound)) == ([], list(NAMES)), f"seed {seed}"

    for seed in range(first, first + 30):
        run(scenario(seed))
