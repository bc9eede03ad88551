"""Places random pod groups with kube-scheduler 1.37: none may be bound in part.

In each round some groups want nodes with a label, and others want seats: a filter that counts pods
lets one pod sit on each node, and a plugin at Reserve keeps a ledger. Lone pods want seats, too,
and there are too few seats for all. When nothing is bound any more, each group must be bound as a
whole or not at all, and no node may have two pods on its seat. kube-apiserver's audit log must have
one Binding of each bound pod.
"""

import random
import time
from argparse import Namespace
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import Final

from tests.e2e.controlplane import ControlPlane
from tests.e2e.kubeapi import RDMA_LABEL, NodePool
from tests.e2e.plugins.seats import SEAT
from tests.e2e.pod_groups import APIS, GATES, PodGroups
from tests.e2e.program_plane import program_plane
from tests.e2e.stack import HIGH_COMM, PLUGIN_FOLDER, Mode, Stack, profile
from tests.e2e.workload import Workload

from .harness import Report, trial

GROUPS_AT_A_TIME: Final = 10
SEATS, LABELLED = 60, 10
SITS: Final = {SEAT: "yes"}
# Seconds without a Binding after which a round is over; the longest backoff is 2 s here.
QUIET_S, ROUND_S = 6.0, 120.0
IN_PART, SHARED, TWICE = "groups_bound_in_part", "seats_taken_twice", "not_bound_once"


class Round:
    """Some groups, by name with their members, and lone pods that want the same nodes."""

    def __init__(self, groups: PodGroups, chance: random.Random, count: int) -> None:
        self._groups = groups
        self.members: dict[str, list[str]] = {}
        kinds: dict[str, Mapping[str, str]] = {}
        for number in range(count):
            name = f"gang-{number}"
            size = chance.choice((2, 3, 5, 8, 13, 21, chance.randint(2, 100)))
            kinds[name] = HIGH_COMM if chance.random() < 0.3 else SITS
            groups.declare(name, size)
            self.members[name] = [f"{name}-{each:03}" for each in range(size)]
        for name, pods in self.members.items():
            if chance.random() < 0.5:
                groups.workload.create(f"lone-{name}", chance.randint(1, 3), SITS)
            late = chance.randrange(len(pods)) if chance.random() < 0.3 else 0
            groups.join(name, len(pods) - late, kinds[name])
            if late:
                groups.join(name, late, kinds[name], first=len(pods) - late)
        self._sitting = {pod for name in kinds if kinds[name] is SITS for pod in self.members[name]}

    def until_quiet(self) -> dict[str, str]:
        """Wait until no pod has been bound for some seconds; return the node of each bound pod."""
        placed: dict[str, str] = {}
        began_s = quiet_s = time.monotonic()
        while time.monotonic() - quiet_s < QUIET_S and time.monotonic() - began_s < ROUND_S:
            time.sleep(0.5)
            now = self._groups.workload.placed()
            if now != placed:
                placed, quiet_s = now, time.monotonic()
        return placed

    def wrong(
        self, placed: Mapping[str, str], bindings: Counter[str], unknown: set[str]
    ) -> Iterator[tuple[str, str]]:
        """Yield what is wrong with the bound pods: its kind and a sentence.

        Args:
            placed: the node of each bound pod.
            bindings: how many Bindings of each pod kube-apiserver took.
            unknown: pods with a Binding that kube-apiserver gave up, and that may have taken
                effect.
        """
        for name, pods in self.members.items():
            bound = [pod for pod in pods if pod in placed]
            if bound and len(bound) < len(pods):
                yield IN_PART, f"{len(bound)} of {len(pods)} members of {name} are bound"
        sit = (pod for pod in placed if pod in self._sitting or pod.startswith("lone-"))
        for node, count in Counter(placed[pod] for pod in sit).items():
            if count > 1:
                yield SHARED, f"{count} pods sit on {node}"
        for pod in (placed.keys() | bindings.keys()) - unknown:
            if bindings[pod] != 1:
                yield TWICE, f"kube-apiserver took {bindings[pod]} Bindings of {pod}"


class Rounds:
    """Makes rounds on one control plane, and judges them.

    Attributes:
        seen: how often each kind of mistake was made, and how many groups, members, groups that
            were bound whole, and bound pods there were.
    """

    def __init__(self, plane: ControlPlane, stack: Stack, report: Report) -> None:
        self._plane = plane
        self._stack = stack
        self._report = report
        self.seen = Counter[str]()

    def make(self, name: str, chance: random.Random, count: int) -> None:
        """Make a round of some groups in a namespace."""
        api = self._plane.api
        pool = NodePool(api, name, SEATS, born_with=(RDMA_LABEL, "true", range(LABELLED)))
        workload = Workload(api, name, self._stack.scheduler_name, pool)
        made = Round(PodGroups(api, workload, pool), chance, count)
        placed = made.until_quiet()
        events = self._plane.bindings(workload.namespace)
        bindings = Counter(str(event["objectRef"]["name"]) for event in events)
        unknown = self._plane.given_up(workload.namespace)
        for kind, what in made.wrong(placed, bindings, unknown):
            self.seen[kind] += 1
            self._report.mistake(f"{name}: {what}")
        complete = sum(placed.keys() >= set(pods) for pods in made.members.values())
        self.seen += Counter(groups=count, groups_bound_whole=complete, pods_bound=len(placed))
        self.seen["members"] += sum(map(len, made.members.values()))
        self._report.say(f"{name}: {complete} of {count} groups, {len(placed)} pods bound")
        workload.close()
        pool.delete()


@trial(groups=200, seed=0)
def pod_groups(options: Namespace, report: Report) -> None:
    """Random pod groups of kube-scheduler 1.37: none is bound in part, no member twice."""
    chance = random.Random(options.seed)
    with (
        program_plane(GATES, APIS) as plane,
        closing(
            Stack(
                plane,
                "random-groups",
                Mode(names=True, binds=True),
                profile=profile("random-groups", "HighCommPodFilter", "Seats", "SeatLedger"),
                out_of_tree=["seats:Seats", "seats:SeatLedger"],
                python_path=[PLUGIN_FOLDER],
            )
        ) as stack,
    ):
        rounds = Rounds(plane, stack, report)
        for number, first in enumerate(range(0, options.groups, GROUPS_AT_A_TIME)):
            count = min(GROUPS_AT_A_TIME, options.groups - first)
            rounds.make(f"round-{number}", chance, count)
    report.tell(**{name: rounds.seen[name] for name in (*rounds.seen, IN_PART, SHARED, TWICE)})
