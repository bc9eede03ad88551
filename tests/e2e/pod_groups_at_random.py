"""Places random pod groups with kube-scheduler 1.37: none may be bound in part.

``make pod-groups-at-random`` makes 200 groups of 2 to 100 members, a few at a time. In each round
some groups want nodes with a label, and others want seats: a filter that counts pods lets one pod
sit on each node, and a plugin at Reserve keeps a ledger. Lone pods want seats, too, and there are
too few seats for all. When nothing is bound any more, each group must be bound as a whole or not at
all, and no node may have two pods on its seat. kube-apiserver's audit log must have one Binding of
each bound pod, and a relay in front of kubextend at most three filter calls about a member in one
attempt of kube-scheduler. The program prints its seed; exit code 0: nothing was wrong. The last
line has the figures as JSON.
"""

import argparse
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping
from contextlib import ExitStack

from . import pod_groups
from .attempts import Attempt, Relay, strangers
from .kubeapi import RDMA_LABEL, NodePool, Object
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
# The nominated node, all nodes, and a dry run of a preemption.
MOST_CALLS = 3
IN_PART, SHARED, TWICE = "groups_bound_in_part", "seats_taken_twice", "not_bound_once"
CALLS = "members_asked_too_often"


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
        on = Counter(node for pod, node in placed.items() if self.sits(pod))
        for node, count in on.items():
            if count > 1:
                yield SHARED, f"{count} pods sit on {node}"
        for pod in (placed.keys() | bindings.keys()) - unknown:
            if bindings[pod] != 1:
                yield TWICE, f"kube-apiserver took {bindings[pod]} Bindings of {pod}"

    def sits(self, pod: str) -> bool:
        """Return whether a pod of the round wants a seat."""
        return pod in self.sitting or pod.startswith("lone-")

    def groups_of_members(self) -> dict[str, str]:
        """Return the group of each member, both as NAMESPACE/NAME."""
        space = self._groups.workload.namespace
        return {
            f"{space}/{pod}": f"{space}/{of}" for of in self.members for pod in self.members[of]
        }


def calls_of_members(
    attempts: Iterable[Attempt], members: Container[str]
) -> Iterator[tuple[int, str]]:
    """Yield how often filter was called about each member in each attempt, and the member.

    Args:
        attempts: the attempts.
        members: the members of all groups, as NAMESPACE/NAME.
    """
    for attempt in attempts:
        yield from ((n, pod) for pod, n in attempt.calls.items() if pod in members)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--groups", type=int, default=200)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**9))
    options = parser.parse_args()
    say(f"seed {options.seed}")
    chance = random.Random(options.seed)
    wrong: Counter[str] = Counter(dict.fromkeys((IN_PART, SHARED, TWICE, CALLS), 0))
    whole = bound = 0
    groups_of: dict[str, str] = {}

    def is_wrong(kind: str, what: str) -> None:
        wrong[kind] += 1
        say(f"WRONG {what}")

    began_s = time.monotonic()
    with ExitStack() as ending:
        plane = ending.enter_context(program_plane(pod_groups.GATES, pod_groups.APIS))
        relay = ending.enter_context(Relay(plane.bench.free_port()))
        stack = Stack(
            plane,
            "random-groups",
            Mode(names=True, binds=True),
            profile=profile("random-groups", "HighCommPodFilter", "Seats", "SeatLedger"),
            out_of_tree=["seats:Seats", "seats:SeatLedger"],
            python_path=[PLUGIN_FOLDER],
            extender={"urlPrefix": relay.url},
        )
        relay.to = stack.url
        ending.callback(stack.close)
        for number, first in enumerate(range(0, options.groups, GROUPS_AT_A_TIME)):
            count = min(GROUPS_AT_A_TIME, options.groups - first)
            born = (RDMA_LABEL, "true", range(LABELLED))
            pool = NodePool(plane.api, f"round-{number}", SEATS, born_with=born)
            workload = Workload(plane.api, f"round-{number}", stack.scheduler_name, pool)
            each = Round(PodGroups(plane.api, workload, pool), chance, count)
            placed = each.until_quiet()
            unknown = plane.given_up(workload.namespace)
            bindings = Counter(_pod_of(event) for event in plane.bindings(workload.namespace))
            for kind, what in each.wrong(placed, bindings, unknown):
                is_wrong(kind, f"round {number}: {what}")
            complete = [pods for pods in each.members.values() if set(pods) <= set(placed)]
            whole += len(complete)
            groups_of |= each.groups_of_members()
            bound += len(placed)
            say(f"round {number}: {len(complete)} of {count} groups, {len(placed)} pods bound")
            workload.close()
            pool.delete()
        filters, binds = stack.calls("filter"), stack.calls("bind")
        attempts = relay.attempts(stack.scheduler_log())
    for what in strangers(attempts, groups_of):
        is_wrong(CALLS, what)
    calls = list(calls_of_members(attempts, groups_of))
    for number, member in calls:
        if number > MOST_CALLS:
            is_wrong(CALLS, f"filter was called {number} times about {member} in one attempt")
    say(f"{time.monotonic() - began_s:.0f} s")
    figures = {
        "groups": options.groups,
        "members": len(groups_of),
        "groups_bound_whole": whole,
        **wrong,
        "most_filter_calls_of_a_member_in_an_attempt": max(number for number, _ in calls),
        "attempts_of_groups": sum(attempt.of in groups_of.values() for attempt in attempts),
        "pods_bound": bound,
        "filter_calls": filters,
        "bind_calls": binds,
    }
    say(json.dumps(figures))
    return 1 if wrong.total() else 0


def _pod_of(event: Object) -> str:
    return str(event["objectRef"]["name"])


if __name__ == "__main__":
    sys.exit(main())
