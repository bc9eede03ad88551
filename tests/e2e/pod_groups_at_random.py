"""Places random pod groups with kube-scheduler 1.37: none may be bound in part.

``make pod-groups-at-random`` makes 200 groups of 2 to 100 members, a few at a time. In each round
some groups want nodes with a label, and others want seats: a filter that counts pods lets one pod
sit on each node, and a plugin at Reserve keeps a ledger. Lone pods want seats, too, and there are
too few seats for all. When nothing is bound any more, each group must be bound as a whole or not at
all, and no node may have two pods on its seat. The program prints its seed; exit code 0: nothing
was wrong.
"""

import argparse
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack

from . import pod_groups
from .kubeapi import RDMA_LABEL, NodePool
from .plugins.seats import SEAT
from .pod_groups import PodGroups
from .program_plane import program_plane
from .stack import HIGH_COMM, PLUGIN_FOLDER, Mode, Stack, profile
from .workbench import say
from .workload import Workload

GROUPS_AT_A_TIME = 10
SEATS, LABELLED = 60, 10
SITS = {SEAT: "yes"}
# Seconds without a Binding after which a round is over; the longest backoff is 2 s here.
QUIET_S, ROUND_S = 6.0, 120.0


class Round:
    """Some groups and lone pods that want the same nodes.

    Args:
        groups: makes the groups of the round in a namespace of its own.
        chance: decides everything.
        count: how many groups.
    """

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
        self.sitting = {pod for name in kinds if kinds[name] is SITS for pod in self.members[name]}

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

    def wrong(self, placed: Mapping[str, str]) -> Iterator[str]:
        """Yield what is wrong with the nodes of the bound pods."""
        for name, pods in self.members.items():
            bound = [pod for pod in pods if pod in placed]
            if bound and len(bound) < len(pods):
                yield f"{len(bound)} of {len(pods)} members of {name} are bound"
        on = Counter(node for pod, node in placed.items() if self.sits(pod))
        yield from (f"{count} pods sit on {node}" for node, count in on.items() if count > 1)

    def sits(self, pod: str) -> bool:
        """Return whether a pod of the round wants a seat."""
        return pod in self.sitting or pod.startswith("lone-")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--groups", type=int, default=200)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**9))
    options = parser.parse_args()
    say(f"seed {options.seed}")
    chance = random.Random(options.seed)
    wrong: list[str] = []
    whole = bound = members = 0
    began_s = time.monotonic()
    with ExitStack() as ending:
        plane = ending.enter_context(program_plane(pod_groups.GATES, pod_groups.APIS))
        stack = Stack(
            plane,
            "random-groups",
            Mode(names=True, binds=True),
            profile=profile("random-groups", "HighCommPodFilter", "Seats", "SeatLedger"),
            out_of_tree=["seats:Seats", "seats:SeatLedger"],
            python_path=[PLUGIN_FOLDER],
        )
        ending.callback(stack.close)
        for number, first in enumerate(range(0, options.groups, GROUPS_AT_A_TIME)):
            count = min(GROUPS_AT_A_TIME, options.groups - first)
            born = (RDMA_LABEL, "true", range(LABELLED))
            pool = NodePool(plane.api, f"round-{number}", SEATS, born_with=born)
            workload = Workload(plane.api, f"round-{number}", stack.scheduler_name, pool)
            each = Round(PodGroups(plane.api, workload, pool), chance, count)
            placed = each.until_quiet()
            mistakes = [f"round {number}: {what}" for what in each.wrong(placed)]
            for line in mistakes:
                say(f"WRONG {line}")
            wrong += mistakes
            complete = [pods for pods in each.members.values() if set(pods) <= set(placed)]
            whole += len(complete)
            members += sum(map(len, each.members.values()))
            bound += len(placed)
            say(f"round {number}: {len(complete)} of {count} groups, {len(placed)} pods bound")
            workload.close()
            pool.delete()
        filters, binds = stack.calls("filter"), stack.calls("bind")
    say(
        f"{options.groups} groups with {members} members, {whole} bound as a whole, {len(wrong)}"
        f" wrong; {bound} pods bound with {binds} bind and {filters} filter calls,"
        f" {time.monotonic() - began_s:.0f} s"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
