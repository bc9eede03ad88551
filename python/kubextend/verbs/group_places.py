"""Places of the members of pod groups, from their filter calls until their binds.

kube-scheduler looks for nodes for the members of a PodGroup in one pass: filter is called for one
member after the other, and no member is bound before enough members have a node. No request says
which node an earlier member got. If filters count the pods on nodes, filter therefore keeps one
node for each member and remembers that node as the member's place, which later members find taken.

Nothing says how a pass ended. kube-scheduler asks about no member that has a node, unless the pass
has failed: a filter call about a member that has a place ends the places of its pass. A place also
ends when the member is bound, refused or deleted, or after a while. For half a second after the
last filter call of a pass, and once a bind of the pass has begun, its places count for members of
other groups and for binds too, and a bind that finds no room waits for that half second: otherwise
groups that are tried within milliseconds of each other would be bound in part.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import ClassVar, Final, TypeAlias

from kubextend import core
from kubextend.framework.plugin import Rejection
from kubextend.framework.status import Status
from kubextend.metrics import ScrapedGauge
from kubextend.profile import FilterOutcome, Profile
from kubextend.verbs.bounded_dict import BoundedDict
from kubextend.verbs.scoring import LeftOut, first_of_the_best
from kubextend.verbs.unplaced_pods import Attempt

__all__ = ["MOST_LOOKS", "MOST_WAITS", "GroupPlaces", "fit_member", "is_member"]

_LOGGER = logging.getLogger(__name__)

MOST_LOOKS: Final = 3
"""How often filters run for one decision while the pods of the chosen node keep changing."""

MOST_WAITS: Final = 10
"""How often a bind waits half a second for groups that may be bound to its node."""

_COUNTS_S: Final = 60.0
# The binds of a pass begin within milliseconds of its last filter call.
_OPEN_S: Final = 0.5
# Volumes may delay the bind of a member for longer than the binds of the others: kube-scheduler
# waits 600 s for volumes by default.
_KEPT_S: Final = 600.0
_MOST_GROUPS: Final = 1_000
# The work for each member grows with those before it.
_MOST_MEMBERS: Final = 1_000

_CHOSEN_ELSEWHERE = "another node was chosen"
_TOO_MANY = f"{_MOST_MEMBERS} members of the pod group wait for their bind already"
_RESTLESS = "the pods on the chosen node kept changing"

Pods: TypeAlias = Callable[[], core.PodSnapshot | None]
"""Returns the watched and assumed pods on nodes as they are now."""


@dataclass(slots=True, eq=False)
class _Pass:
    """A pass of kube-scheduler over the members of a group.

    Attributes:
        at_s: when filter or bind was called last for a member of it, in monotonic seconds.
        succeeded: whether a bind of it has begun.
    """

    at_s: float = 0.0
    succeeded: bool = False

    def counts(self, now_s: float) -> bool:
        """Return whether the places of the pass count for later passes of its group."""
        return now_s < self.at_s + (_KEPT_S if self.succeeded else _COUNTS_S)

    def counts_for_others(self, now_s: float) -> bool:
        """Return whether the places of the pass count outside of its group."""
        return self.counts(now_s) if self.succeeded else now_s < self.at_s + _OPEN_S


@dataclass(slots=True, eq=False)
class _Member:
    """A member of a pod group that filter was called for.

    Attributes:
        pod: the pod as the filter request brought it.
        of: the pass in which filter was called.
        node: the node that filter kept; empty: none, or filter has not ended.
        waits: whether the member waits for its bind: the node is its place.
    """

    pod: core.Pod
    of: _Pass
    node: str = ""
    waits: bool = False


@dataclass(slots=True, eq=False)
class _Group:
    """A pod group.

    Attributes:
        members: the members by UID, in the order of the filter calls; those that are bound stay
            for ten minutes, because kube-scheduler binds the members in any order.
        last: the latest pass.
    """

    members: dict[str, _Member] = field(default_factory=dict)
    last: _Pass = field(default_factory=_Pass)

    def for_others(self, now_s: float) -> Iterator[_Member]:
        """Yield the members with places that count outside of the group."""
        for each in self.members.values():
            if each.waits and each.of.counts_for_others(now_s):
                yield each


class GroupPlaces:
    """The places of the members of all pod groups; safe to use from many threads.

    Args:
        clock: returns monotonic seconds.
    """

    METRICS: ClassVar[tuple["ScrapedGauge[GroupPlaces]"]] = (
        ScrapedGauge(
            "kubextend_pod_group_members",
            "Members of pod groups that filter found a node for and that wait for their bind.",
            len,
        ),
    )

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.RLock()
        self._groups: BoundedDict[_Group] = BoundedDict(_MOST_GROUPS)

    def __len__(self) -> int:
        """Return how many members have a place."""
        with self._lock:
            groups = self._groups.values()
            return sum(each.waits for group in groups for each in group.members.values())

    def ask(self, pod: core.Pod) -> _Member | None:
        """Note that filter is called for a member, which ends the member's earlier place.

        The call begins a new pass if an earlier call of the pass was about the member, but for the
        call about all nodes that follows one about the member's nominated node alone; or if a bind
        of the pass has begun.

        Returns: the member; None: too many members have a place.
        """
        with self._lock:
            group = self._groups.get(_key(pod), _Group())
            # The group that filter was called for least recently goes first.
            self._groups.put(_key(pod), group)
            members, is_new_pass = group.members, group.last.succeeded
            if (earlier := members.get(pod.uid)) is not None:
                is_last = next(reversed(members)) == pod.uid
                is_second_call = is_last and bool(pod.nominated_node_name) and not earlier.waits
                is_new_pass |= earlier.of is group.last and not is_second_call
                failed = earlier.of if earlier.waits and not earlier.of.succeeded else None
                del members[pod.uid]
                group.members = {u: each for u, each in members.items() if each.of is not failed}
            if is_new_pass:
                group.last = _Pass()
            if len(group.members) >= _MOST_MEMBERS:
                group.members = {u: each for u, each in members.items() if each.waits}
            if len(group.members) >= _MOST_MEMBERS:
                return None
            group.last.at_s = self._clock()
            member = group.members[pod.uid] = _Member(pod, group.last)
            return member

    def pods_with_places(self, pod: core.Pod, pods: Pods) -> core.PodSnapshot | None:
        """Return the pods on nodes with the places that count for a pod; None: pods are unknown.

        The places are those of the members of the pod's group that filter was called for before the
        pod, and those of other groups that are about to be bound. The members of the group that
        came after are left out, even if they are bound.

        Args:
            pod: a member that filter was called for, or any pod that is to be bound.
            pods: returns the pods on nodes.
        """
        # A place that becomes an assumed pod meanwhile is in both, and counts once.
        places, later = self._before_and_after(pod)
        seen = pods()
        if seen is not None and later:
            seen = seen.before(list(later.items()))
        return seen if seen is None or not places else seen.with_places(places)

    @contextmanager
    def unchanged(
        self, pod: core.Pod, node: str, seen: core.PodSnapshot | None, pods: Pods
    ) -> Iterator[bool]:
        """Return a context that says whether a node has the same pods as when it was looked at.

        Of two pods that are decided at the same time for one node, the second is decided again:
        take the node within the context, which must not wait.

        Args:
            pod: the pod that was looked at the node for.
            node: the name of the node.
            seen: what ``pods_with_places`` returned for the pod.
            pods: returns the pods on nodes.
        """
        with self._lock:
            places, later = self._before_and_after(pod)
            now = _uids_on(pods(), node).difference(later.get(node, ()))
            yield _uids_on(seen, node) == now.union(of.uid for of, at in places if at == node)

    def take(self, member: _Member, node: str) -> None:
        """Remember the place of a member, unless filter was called for the member again since."""
        with self._lock:
            group = self._groups.get(_key(member.pod))
            if group is not None and group.members.get(member.pod.uid) is member:
                member.node, member.waits = node, True
                member.of.at_s = self._clock()

    def bind_begins(self, uid: str) -> _Member | None:
        """Note that the pass of a member has succeeded; return None if the pod is no member."""
        with self._lock:
            member = next((group.members[uid] for group in self._with(uid)), None)
            if member is not None:
                member.of.succeeded, member.of.at_s = True, self._clock()
            return member

    def bind_ends(self, member: _Member | None) -> None:
        """End the place with which a bind began; filter may have given the pod another since."""
        if member is not None:
            with self._lock:
                member.waits = False

    def open_s(self, pod: core.Pod, node: str) -> float:
        """Return for how many seconds nobody knows whether another group is bound to a node."""
        with self._lock:
            now_s, mine = self._clock(), self._groups.get(_key(pod))
            others = (group for group in self._groups.values() if group is not mine)
            on_node = (
                each.of.at_s + _OPEN_S - now_s
                for group in others
                for each in group.members.values()
                if each.waits and each.node == node and not each.of.succeeded
            )
            return max(on_node, default=0.0)

    def forget(self, uid: str) -> None:
        """End the place of a pod that is bound or gone."""
        with self._lock:
            for group in self._with(uid):
                group.members[uid].waits = False

    def forget_old(self) -> None:
        """Forget passes whose last call was ten minutes ago; call this each second or so."""
        with self._lock:
            old_s = self._clock() - _KEPT_S
            for key, group in list(self._groups.items()):
                for uid in [uid for uid, each in group.members.items() if each.of.at_s < old_s]:
                    del group.members[uid]
                if not group.members:
                    del self._groups[key]

    def forget_all(self) -> None:
        """Forget all members: another replica decides from now on."""
        with self._lock:
            self._groups.clear()

    def _before_and_after(
        self, pod: core.Pod
    ) -> tuple[list[tuple[core.Pod, str]], dict[str, list[str]]]:
        """Return the places that count for a pod, and the later members of its group.

        Returns: pods, each with the name of its node; and the UIDs of those members by node that
            filter was called for after the pod.
        """
        places: list[tuple[core.Pod, str]] = []
        later: dict[str, list[str]] = {}
        with self._lock:
            group = self._groups.get(_key(pod), _Group())
            now_s, is_later = self._clock(), False
            mine = group.members[pod.uid].of if pod.uid in group.members else None
            for uid, each in group.members.items():
                if uid == pod.uid:
                    is_later = True
                elif is_later and each.node:
                    later.setdefault(each.node, []).append(uid)
                # kube-scheduler has assumed these nodes, however long its pass takes.
                elif each.waits and (each.of is mine or each.of.counts(now_s)):
                    places.append((each.pod, each.node))
            others = (each for each in self._groups.values() if each is not group)
            theirs = (each for other in others for each in other.for_others(now_s))
            return [*places, *((each.pod, each.node) for each in theirs)], later

    def _with(self, uid: str) -> list[_Group]:
        """Return the groups that have the pod with this UID as a member: one or none."""
        return [each for each in self._groups.values() if uid in each.members]


def is_member(profile: Profile, pod: core.Pod) -> bool:
    """Return whether filter keeps one node for a pod, as the member of a group with places."""
    return profile.counts_pods and bool(pod.scheduling_group and pod.uid)


def fit_member(
    places: GroupPlaces,
    profile: Profile,
    attempt: Attempt,
    nodes: core.Nodes,
    left_out: LeftOut,
) -> FilterOutcome:
    """Run the filters for a member of a pod group; keep the best node, which becomes its place.

    The arguments are those of ``Profile.find_nodes_that_fit``. The best node is the first of those
    with the highest score of the profile's score plugins.

    Raises: PluginError: a filter failed.
    """
    pod, state = attempt.pod, attempt.state
    if (member := places.ask(pod)) is None:
        return _rejected(nodes, _TOO_MANY)
    try:
        for _ in range(MOST_LOOKS):
            state.pods_seen = seen = places.pods_with_places(pod, profile.pods)
            outcome = profile.find_nodes_that_fit(state, pod, nodes, left_out)
            passing = outcome.passing(nodes)
            if not passing.any():
                group = f"{pod.namespace}/{pod.scheduling_group}"
                _LOGGER.info("pod %s of pod group %s fits no node", pod.name, group)
                return outcome
            node = first_of_the_best(profile, state, pod, nodes.only(passing), left_out)
            with places.unchanged(pod, node, seen, profile.pods) as same:
                if same:
                    places.take(member, node)
                    return _narrowed(outcome, nodes, passing, node)
        return _rejected(nodes, _RESTLESS)
    finally:
        # The later verbs of the attempt see the pods as they are then.
        state.pods_seen = None


def _narrowed(
    outcome: FilterOutcome, nodes: core.Nodes, passing: core.Mask, node: str
) -> FilterOutcome:
    others = passing & core.Mask([name != node for name in nodes.names])
    rejection = Rejection(others, Status.unschedulable(_CHOSEN_ELSEWHERE))
    return FilterOutcome(passing & ~others, [*outcome.rejections, rejection])


def _rejected(nodes: core.Nodes, why: str) -> FilterOutcome:
    return FilterOutcome(
        nodes.nothing(), [Rejection(nodes.everything(), Status.unschedulable(why))]
    )


def _uids_on(pods: core.PodSnapshot | None, node: str) -> frozenset[str]:
    return frozenset() if pods is None else frozenset(pod.uid for pod in pods.pods_on(node))


def _key(pod: core.Pod) -> str:
    return f"{pod.namespace}/{pod.scheduling_group}"
