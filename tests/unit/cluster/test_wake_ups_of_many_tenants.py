"""Thousands of gang pods that Permit rejected, and a neighbour's pod, on a simulated clock.

kube-scheduler is a line that is served one pod at a time, 100 a second: what a real one does where
everything shares two cores.
"""

from __future__ import annotations

import json
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from kubextend import core
from kubextend.cluster.activator import BURST, RATE
from kubextend.cluster.api_call import Call
from kubextend.cluster.pod_conditions import POD_INTERVAL_S
from kubextend.cluster.write_queue import TokenBucket, WaitingWrites, Write
from kubextend.framework.status import Status
from kubextend.metrics import Metrics
from kubextend.verbs.unplaced_pods import UnplacedPods

if TYPE_CHECKING:
    from collections.abc import Iterable

GROUPS, SIZE = 200, 16
ATTEMPTS_PER_S = 100
SECONDS = 120
STEP_S = 1 / ATTEMPTS_PER_S
MOST_S = 2.0
REJECTED = Status.unschedulable("waiting for other pods of the pod group")


def pod(name: str, namespace: str, group: str) -> core.Pod:
    metadata = {"name": name, "namespace": namespace, "uid": name, "labels": {"group": group}}
    found = core.read_args(json.dumps({"Pod": {"metadata": metadata}, "NodeNames": []}).encode())
    assert found.pod is not None
    return found.pod


@dataclass
class World:
    """What kubextend remembers, the patches it sends, and kube-scheduler's line."""

    now_s: float = 0.0
    line: deque[str] = field(default_factory=deque)
    tried: list[tuple[float, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        bucket = TokenBucket(RATE, BURST, self.clock)
        self.writes = WaitingWrites(bucket, POD_INTERVAL_S, self.clock)
        self.unplaced = UnplacedPods(self, metrics=Metrics(), clock=self.clock)
        self.pods: dict[str, core.Pod] = {}

    def clock(self) -> float:
        return self.now_s

    def activate(self, pods: Iterable[core.Pod]) -> None:
        for each in pods:
            self.writes.put(Write.about(each, each.uid, lambda: Call("PATCH", "", 1.0)))

    def reject(self, each: core.Pod) -> None:
        self.pods[each.uid] = each
        self.unplaced.reject_permit(each, REJECTED)

    def step(self, second: bool) -> None:
        self.now_s += STEP_S
        if second:
            self.unplaced.wake_due()
        while isinstance(write := self.writes.take(), Write):
            self.line.append(write.key)
        if self.line:
            uid = self.line.popleft()
            self.tried.append((self.now_s, uid))
            if uid in self.pods:
                self.unplaced.reject_permit(self.pods[uid], REJECTED)


# With 200 tenants each may have a pod tried in ten seconds.
@pytest.mark.parametrize(("tenants", "every_s"), [(1, 3), (10, 3), (GROUPS, 12)])
def test_a_neighbours_pod_is_tried_within_two_seconds_beside_3200_gang_pods(
    tenants: int, every_s: int
) -> None:
    world = World()
    for group in range(GROUPS):
        for number in range(SIZE):
            world.reject(pod(f"{group}-{number}", f"tenant-{group % tenants}", str(group)))
    asked_s: dict[str, float] = {}
    for step in range(SECONDS * ATTEMPTS_PER_S):
        world.step(second=step % ATTEMPTS_PER_S == 0)
        # All are due after 10 s; from then on the neighbour's pods may be placed, one at a time.
        if step > 11 * ATTEMPTS_PER_S and step % (every_s * ATTEMPTS_PER_S) == 17:
            name = f"neighbour-{step}"
            asked_s[name] = world.now_s
            world.activate([pod(name, "neighbours", "")])
            fresh = f"fresh-{step}"
            asked_s[fresh] = world.now_s
            world.line.append(fresh)
    tried_s = {uid: at_s for at_s, uid in world.tried if uid in asked_s}
    assert tried_s.keys() == asked_s.keys()
    waits_s = [at_s - asked_s[uid] for uid, at_s in tried_s.items()]
    assert max(waits_s) < MOST_S
    gang_pods = sum(uid not in asked_s for _, uid in world.tried)
    assert gang_pods > (SECONDS - 12) * RATE * 0.9, "they are tried, too"


def test_the_pods_of_a_gang_are_tried_together_though_many_gangs_are_due() -> None:
    world = World()
    for number in range(SIZE):
        for group in range(GROUPS):
            world.reject(pod(f"{group}-{number}", "tenant", str(group)))
    for step in range(SECONDS * ATTEMPTS_PER_S):
        world.step(second=step % ATTEMPTS_PER_S == 0)
    tried_s: dict[str, list[float]] = {}
    for at_s, uid in world.tried[: 50 * SIZE]:
        tried_s.setdefault(uid.split("-")[0], []).append(at_s)
    whole = [each for each in tried_s.values() if len(each) >= SIZE]
    assert len(whole) >= 50 - 1
    assert all(each[SIZE - 1] - each[0] < MOST_S for each in whole)
