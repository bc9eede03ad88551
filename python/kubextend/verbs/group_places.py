"""Places of the members of pod groups, from their filter calls until their binds.

kube-scheduler looks for nodes for the members of a PodGroup in one pass: filter is called for one
member after the other, and no member is bound before enough members have a node. No request says
which node an earlier member got. If filters count the pods on nodes, filter therefore keeps one
node for each member and remembers that node as the member's place, which later members of the pass
find taken.

Nothing says how a pass ended. The places of a pass end when kube-scheduler asks about a member
again that has a place, when the member is bound, refused or deleted, or after a while. A pass is
undecided for half a second after its last filter call, or until the first bind shows that the pass
succeeded. Meanwhile the places of the pass are taken for all other groups, and for pods that are to
be bound. filter waits for nothing, because kube-scheduler asks about one pod after the other; a
pod that is to be bound waits for the outcome, which delays nobody else.
"""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import ClassVar, Final, TypeAlias

from kubextend import core
from kubextend.framework.plugin import Rejection
from kubextend.framework.status import Status
from kubextend.metrics import ScrapedGauge
from kubextend.profile import FilterOutcome, Profile
from kubextend.verbs.filter_outside_request import GoesOn
from kubextend.verbs.memory_bounded_map import KeptPods
from kubextend.verbs.scoring import LeftOut, first_of_the_best
from kubextend.verbs.unplaced_pods import Attempt

__all__ = ["MOST_LOOKS", "GroupPlaces", "fit_member", "is_member"]

_LOGGER = logging.getLogger(__name__)

MOST_LOOKS: Final = 3
"""How often filters run for one decision while the pods of the chosen node keep changing."""

# The API allows no longer name of a PodGroup.
_LONGEST_NAME: Final = 253
# The objects of a member, about.
_MEMBER_BYTES: Final = 1024
# The binds of a pass begin within milliseconds of its last filter call.
_UNDECIDED_S: Final = 0.5
_KEPT_S: Final = 60.0
# Volumes may delay the bind of a member for longer than the binds of the others: kube-scheduler
# waits 600 s for volumes by default.
_BINDS_S: Final = 600.0
# The work for each member of a pass grows with the members before it.
_MOST_MEMBERS: Final = 1_000
_MOST_PASSES: Final = 10_000

_CHOSEN_ELSEWHERE = "another node was chosen"
_TOO_MANY = "kubextend cannot remember the nodes of so many members of pod groups"
_RESTLESS = "the pods on the chosen node kept changing"

Pods: TypeAlias = Callable[[], core.PodSnapshot | None]
"""Returns the watched and assumed pods on nodes as they are now."""


@dataclass(slots=True, eq=False)
class _Pass:
    """One pass of kube-scheduler over the members of a pod group: an attempt or a dry run.

    Attributes:
        number: grows from pass to pass.
        at_s: when the last call about a member came, in monotonic seconds.
        last: the UID of the member that the last filter call was about.
        binds: whether the bind of a member has begun, so that the pass has succeeded.
        failed: whether the time for a first bind is over.
        incomplete: whether a member was forgotten for want of memory.
        members: how many members of the pass are remembered.
        nodes: UID -> node of each member that got a place, in the order of the filter calls. Stays
            when members are bound.
    """

    number: int
    at_s: float = 0.0
    last: str = ""
    binds: bool = False
    failed: bool = False
    incomplete: bool = False
    members: int = 0
    nodes: dict[str, str] = field(default_factory=dict)

    def undecided_s(self, now_s: float) -> float:
        """Return for how many seconds more nobody knows how the pass ended; 0: it is known."""
        known = self.binds or self.failed
        return 0.0 if known else max(0.0, self.at_s + _UNDECIDED_S - now_s)

    def counts_for_others(self, now_s: float) -> bool:
        """Return whether the places of the pass count for pods outside of its group."""
        return self.is_kept(now_s) if self.binds else self.undecided_s(now_s) > 0

    def is_kept(self, now_s: float) -> bool:
        """Return whether the pass is of use: the last call about a member is not too long ago."""
        return now_s - self.at_s < _BINDS_S

    def counts_for_group(self, now_s: float) -> bool:
        """Return whether the places of the pass count for later passes of its group."""
        return now_s - self.at_s < (_BINDS_S if self.binds else _KEPT_S)


Undecided: TypeAlias = dict[_Pass, float]
"""Passes of which nobody knows how they ended, each with the time of its last call."""


@dataclass(slots=True, eq=False)
class _Member:
    """A member of a pod group that filter was called for.

    Attributes:
        pod: the pod as the filter request brought it.
        of: the pass of the filter call: one attempt of kube-scheduler to place all members.
        nominated_alone: whether the call was about the pod's nominated node and no other, so that
            kube-scheduler may ask about all nodes next.
        node: the member's place; empty: filter found no node, or has not ended.
    """

    pod: core.Pod
    of: _Pass
    nominated_alone: bool = False
    node: str = ""

    @property
    def held_bytes(self) -> int:
        return _MEMBER_BYTES + self.pod.held_bytes


class GroupPlaces:
    """The places of the members of all pod groups; safe to use from many threads.

    Takes at most 16 MiB, divided between namespaces as ``KeptPods`` says. If a member of a pass had
    to be forgotten, no later member of the pass gets a place.

    Args:
        clock: returns monotonic seconds.
    """

    METRICS: ClassVar[tuple["ScrapedGauge[GroupPlaces]"]] = (
        ScrapedGauge(
            "kubextend_pod_group_members",
            "Members of pod groups that filter was called for and whose places are remembered.",
            len,
        ),
    )

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.RLock()
        self._members: KeptPods[_Member] = KeptPods()
        self._passes: dict[tuple[str, str], _Pass] = {}
        self._numbers = count()

    def __len__(self) -> int:
        """Return how many members are remembered."""
        return len(self._members)

    def ask(self, pod: core.Pod, *, nominated_alone: bool = False) -> _Member:
        """Note that filter is called for a member, which ends the member's earlier place.

        A call begins a new pass if an earlier call of the pass was about the member, or if a bind
        of the pass has begun. Two calls of which one directly follows the other belong to one pass
        if the second is for the same request, because filters are run again without a plugin that
        hung, or if only the first is about the member's nominated node alone: kube-scheduler then
        asks about all nodes.

        Args:
            pod: the member; the same object for all calls for one request.
            nominated_alone: whether the call is about the pod's nominated node and no other.
        """
        with self._lock:
            group = pod.namespace, pod.scheduling_group
            current = self._passes.get(group)
            earlier = self._members.get(pod.uid)
            if earlier is not None and not (
                earlier.of is current
                and current.last == pod.uid
                and (earlier.pod is pod or (earlier.nominated_alone and not nominated_alone))
            ):
                if earlier.node and not earlier.of.binds:
                    # kube-scheduler asks about no pod that it has assumed: the pass has failed.
                    self._end(earlier.of)
                if earlier.of is current:
                    current = None
            if current is None or current.binds:
                # No filter call of a pass comes after its first bind.
                current = _Pass(next(self._numbers))
                self._passes.pop(group, None)
                self._passes[group] = current
                if len(self._passes) > _MOST_PASSES:
                    del self._passes[next(iter(self._passes))]
            current.at_s, current.last, current.failed = self._clock(), pod.uid, False
            member = _Member(pod, current, nominated_alone)
            current.nodes.pop(pod.uid, None)
            current.incomplete |= len(current.nodes) >= _MOST_MEMBERS
            current.members += 1
            self._pop(pod.uid)
            for gone in self._members.put(member):
                self._dropped(gone)
                if not gone.of.incomplete:
                    gone.of.incomplete = True
                    _LOGGER.warning(
                        "pod group %s/%s: the members take too much memory", *_group(gone.pod)
                    )
        return member

    def pods_with_places(self, pod: core.Pod, pods: Pods) -> core.PodSnapshot | None:
        """Return the pods on nodes with the places that count for a pod; None: pods are unknown.

        The places are those of members that were asked about before the pod in the pod's own pass,
        those of other passes of the pod's group, and those of passes of other groups that have
        succeeded or are undecided. Members that were asked about after the pod in its own pass are
        left out, even if they are bound: kube-scheduler may bind the members in any order.

        Args:
            pod: a member that filter was called for, or any pod that is to be bound.
            pods: returns the pods on nodes.
        """
        # A place that becomes an assumed pod meanwhile is in both, and counts once.
        places = self._counting_for(pod)
        later = self._later_than(pod)
        seen = pods()
        if seen is not None and later:
            seen = seen.before(later)
        return seen if seen is None or not places else seen.with_places(places)

    def if_unchanged(
        self,
        pod: core.Pod,
        node: str,
        seen: core.PodSnapshot | None,
        pods: Pods,
        act: Callable[[], object],
    ) -> bool:
        """Call ``act`` if a node has the same pods as when it was looked at; return whether it has.

        Of two pods that are decided at the same time for one node, the second is decided again.

        Args:
            pod: the pod that was looked at the node for.
            node: the name of the node.
            seen: what ``pods_with_places`` returned for the pod.
            pods: returns the pods on nodes.
            act: takes the node for the pod; must not wait.
        """
        with self._lock:
            now = _uids_on(pods(), node)
            now -= {uid for at, uids in self._later_than(pod) if at == node for uid in uids}
            now |= {other.uid for other, at in self._counting_for(pod) if at == node}
            if _uids_on(seen, node) != now:
                return False
            act()
            return True

    def take(self, member: _Member, node: str) -> None:
        """Remember the place of a member, unless filter was called for the member again since."""
        with self._lock:
            if self._members.get(member.pod.uid) is member:
                member.node, member.of.at_s = node, self._clock()
                member.of.nodes[member.pod.uid] = node

    def bind_begins(self, uid: str) -> None:
        """Note that the pass of a member has succeeded, if the pod with this UID is a member."""
        with self._lock:
            if (member := self._members.get(uid)) is not None:
                member.of.binds, member.of.at_s = True, self._clock()

    def undecided(self, pod: core.Pod) -> Undecided:
        """Return other pod groups' passes whose nodes a pod may need, and whose outcome is open.

        Such a pass has chosen nodes for members, and nobody knows yet whether kube-scheduler binds
        the members.
        """
        with self._lock:
            now_s = self._clock()
            return {each: each.at_s for each in self._others(pod) if each.undecided_s(now_s)}

    def left_s(self, undecided: Undecided) -> float:
        """Return in how many seconds all of these passes are decided."""
        with self._lock:
            now_s = self._clock()
            return max((each.undecided_s(now_s) for each in undecided), default=0.0)

    def decide(self, undecided: Undecided) -> None:
        """Take passes as failed of which no bind has begun, and no further member was asked about.

        Args:
            undecided: what ``undecided`` returned, at least ``left_s`` ago.
        """
        with self._lock:
            for each, at_s in undecided.items():
                each.failed |= not each.binds and each.at_s == at_s

    def forget(self, uid: str) -> None:
        """Forget a pod that is bound or gone."""
        with self._lock:
            self._pop(uid)

    def groups_on(self, pod: core.Pod, node: str) -> list[str]:
        """Return the groups that have places on a node which count for a pod."""
        places = self._counting_for(pod)
        return sorted({"/".join(_group(other)) for other, at in places if at == node})

    def forget_old(self) -> None:
        """Forget what has not been of use for ten minutes; call this each second or so."""
        with self._lock:
            now_s = self._clock()
            for member in [each for each in self._members.values() if not each.of.is_kept(now_s)]:
                self._pop(member.pod.uid)
            old = [group for group, each in self._passes.items() if not each.is_kept(now_s)]
            for group in old:
                del self._passes[group]

    def forget_all(self) -> None:
        """Forget all members and passes: another replica decides from now on."""
        with self._lock:
            for member in list(self._members.values()):
                self._pop(member.pod.uid)
            self._passes.clear()

    def _counting_for(self, pod: core.Pod) -> list[tuple[core.Pod, str]]:
        with self._lock:
            now_s = self._clock()
            own = self._members.get(pod.uid)
            places, before = [], True
            for member in self._members.values():
                if member is own:
                    before = False
                    continue
                if own is not None and member.of is own.of:
                    counts = before
                elif own is not None and _group(member.pod) == _group(pod):
                    # If that pass had failed, kube-scheduler would first ask again about members
                    # with places, which ends the pass. It has succeeded, and others come late.
                    counts = member.of.number < own.of.number and member.of.counts_for_group(now_s)
                else:
                    counts = member.of.counts_for_others(now_s)
                if member.node and counts:
                    places.append((member.pod, member.node))
            return places

    def _others(self, pod: core.Pod) -> set[_Pass]:
        """Return the passes with places of other groups than the pod's, if the pod is a member."""
        own = None if self._members.get(pod.uid) is None else _group(pod)
        return {
            member.of
            for member in self._members.values()
            if member.node and _group(member.pod) != own
        }

    def _later_than(self, pod: core.Pod) -> list[tuple[str, list[str]]]:
        """Return the members of its group that were asked about after a member, by their nodes."""
        with self._lock:
            own = self._members.get(pod.uid)
            if own is None or pod.uid not in own.of.nodes:
                return []
            uids = list(own.of.nodes)
            later = {uid: own.of.nodes[uid] for uid in uids[uids.index(pod.uid) + 1 :]}
            newest = self._passes.get(_group(pod))
            if newest is not None and newest.number > own.of.number:
                later |= newest.nodes
            by_node: dict[str, list[str]] = {}
            for uid, node in later.items():
                by_node.setdefault(node, []).append(uid)
            return list(by_node.items())

    def _pop(self, uid: str) -> None:
        if (member := self._members.get(uid)) is not None:
            self._members.pop(uid)
            self._dropped(member)

    def _dropped(self, member: _Member) -> None:
        """Count that a member is forgotten; forget a pass without members and without nodes."""
        member.of.members -= 1
        group, empty = _group(member.pod), not (member.of.members or member.of.nodes)
        if empty and self._passes.get(group) is member.of:
            del self._passes[group]

    def _end(self, ended: _Pass) -> None:
        for member in [each for each in self._members.values() if each.of is ended]:
            self._pop(member.pod.uid)


def is_member(profile: Profile, pod: core.Pod) -> bool:
    """Return whether filter keeps one node for a pod, as the member of a group with places."""
    named = 0 < len(pod.scheduling_group) <= _LONGEST_NAME
    return profile.counts_pods and named and bool(pod.uid)


def fit_member(
    places: GroupPlaces,
    profile: Profile,
    attempt: Attempt,
    nodes: core.Nodes,
    left_out: LeftOut,
    goes_on: GoesOn,
) -> FilterOutcome:
    """Run the filters for a member of a pod group; keep the best node, which becomes its place.

    The arguments are those of ``Profile.find_nodes_that_fit``. The best node is the first of those
    with the highest score of the profile's score plugins.

    Raises: PluginError: a filter failed.
    """
    pod, state = attempt.pod, attempt.state
    member = places.ask(pod, nominated_alone=attempt.nominated_alone)

    def look(seen: core.PodSnapshot | None) -> FilterOutcome:
        state.pods_seen = seen
        return profile.find_nodes_that_fit(state, pod, nodes, left_out, goes_on)

    try:
        for _ in range(MOST_LOOKS):
            if member.of.incomplete:
                return _rejected(nodes, _TOO_MANY)
            seen = places.pods_with_places(pod, profile.pods)
            outcome = look(seen)
            if (passing := outcome.passing(nodes)).any():
                left = nodes.only(passing)
                node = first_of_the_best(profile, state, pod, left, left_out)
                take = partial(places.take, member, node)
                if places.if_unchanged(pod, node, seen, profile.pods, take):
                    return _narrowed(outcome, nodes, passing, node)
            else:
                _LOGGER.info(
                    "pod %s of pod group %s/%s fits no node",
                    pod.name,
                    pod.namespace,
                    pod.scheduling_group,
                )
                return outcome
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


def _group(pod: core.Pod) -> tuple[str, str]:
    return pod.namespace, pod.scheduling_group
