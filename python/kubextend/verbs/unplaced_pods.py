"""What kubextend remembers of each pod that is on no node yet: one record for each pod.

A pod's record begins with kube-scheduler's first call about the pod. The record ends when the pod
is bound or deleted, when kube-scheduler has not asked about the pod for an hour, or when the
records take too much memory. To activate a pod is to make kube-scheduler try the pod again. A
record holds:

- The pod's last scheduling attempt with its CycleState. filter begins the attempt; prioritize and
  bind find it by the pod, because a request names no attempt.
- A rejection of the pod by filters on every node, for ten seconds. kube-scheduler reacts to a node
  event within milliseconds, and may ask before kubextend's watch has the event. The filters then
  reject the pod on stale labels, and no further event makes kube-scheduler try the pod again.
  kubextend activates a pod that a later change would let pass. If a filter raises while kubextend
  checks that, kubextend activates the pod too, because kube-scheduler does not retry an
  unschedulable pod by itself.
- The reasons that kubextend told kube-scheduler.
- A rejection of the pod by Permit. bind can answer this rejection with an Error only, and
  kube-scheduler retries a pod with an Error after a few seconds, again and again. The pod's next
  filter call therefore rejects every node with Permit's reason, and the pod becomes unschedulable.
  The Permit plugin may activate the pod; kubextend activates the pod after a while in any case,
  because not every plugin does so. The rejection ends when labels, annotations or spec of the pod
  change, because kube-scheduler tries a changed pod again.
- How often bind refused the pod, if the pod belongs to a pod group. bind answers each refusal later
  than the one before.

A restarted kubextend has no records, and a replica that answers bind but not filter lacks some.
kube-scheduler then simply tries the pods again.
"""

import logging
import math
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from kubextend import core
from kubextend.errors import PluginError
from kubextend.framework.cycle_state import CycleState
from kubextend.framework.handle import Activator, PodSource
from kubextend.framework.status import Status
from kubextend.metrics import Family, Metrics
from kubextend.profile import Profile, Profiles
from kubextend.verbs.filter_outside_request import LookAgain, filter_anew
from kubextend.verbs.memory_bounded_map import KeptPods
from kubextend.verbs.stable_reasons import Entry, Reasons, entries_of

__all__ = ["NOT_PERMITTED", "Attempt", "UnplacedPods", "unschedulable_before"]

NOT_PERMITTED: Final = "a Permit plugin rejected the pod"
"""What is said of a pod for which ``why_not_tried`` has a status."""

_LOGGER = logging.getLogger(__name__)

_WOKEN: Final = Family(
    "kubextend_pods_woken",
    "Rejected pods that a later node change would let pass, and that were activated.",
)
# The objects of a record, and the state that plugins write, about.
_RECORD_BYTES: Final = 4096
# A rejection keeps the rows of its nodes, 60 KB at 15,000 nodes, and the names of nodes that nobody
# knows, which are as long as the request's sender made them.
_MOST_WITH_NODES: Final = 512
_MOST_BYTES_OF_NODES: Final = 64 << 20
# A million nodes, or 50,000 names that nobody knows. One request does not push out what is
# remembered of all other pods; kube-scheduler itself tries its pod again after some minutes.
_MOST_BYTES_OF_ONE: Final = 4 << 20
# No wait between filter and bind is longer.
_IDLE_S: Final = 3600.0

_REJECTION_S: Final = 10.0
# Filters that run for unschedulable pods delay the verbs. A pod that is not looked at within this
# time has its turn a second later.
_LOOK_S: Final = 0.2

# Between the two requests of one attempt, kube-scheduler runs its own filters for all nodes. A
# second request that counts as a first one splits the pass of a pod group.
_SAME_ATTEMPT_S: Final = 10.0

_PERMIT_HOLD_S: Final = 10.0
_LONGEST_PERMIT_HOLD_S: Final = 300.0


@dataclass(frozen=True, slots=True)
class Attempt:
    """One scheduling attempt of a pod, from kube-scheduler's filter request to its bind request.

    Attributes:
        pod: the pod as the filter request brought it.
        state: the CycleState, in which the plugins of the attempt keep what they found out.
        nominated_alone: whether the filter request names the pod's nominated node and no other; if
            that node is rejected, kube-scheduler asks about all nodes in the same cycle.
    """

    pod: core.Pod
    state: CycleState
    nominated_alone: bool = False


@dataclass(slots=True, eq=False)
class _Rejection:
    """A rejection of a pod by filters on every node.

    Attributes:
        profile: the profile whose filters rejected the pod.
        pod: the pod as the filter request brought it.
        nodes: the nodes in the filter request.
        at_s: when the pod was rejected.
        looked_s: when the filters last ran for the pod.
        seen: the value of ``UnplacedPods.changes`` when the filters last ran.
    """

    profile: Profile
    pod: core.Pod
    nodes: core.Nodes
    at_s: float
    looked_s: float
    seen: int

    def entries_now(self, look_again: LookAgain) -> list[Entry] | None:
        """Run the filters over the rejected nodes as they are now; return each with its reason.

        Returns: None if the pod passes on some node.

        Raises PluginError: a filter failed; TimeoutError: the filters took too long.
        """
        latest = self.nodes.latest()
        passing, outcome = look_again(self.profile, self.pod, latest)
        return None if passing.any() else entries_of(~latest.known, outcome.rejections)


@dataclass(slots=True, eq=False)
class _Record:
    """What kubextend remembers of one pod that is on no node.

    Attributes:
        pod: the pod as kube-scheduler's last request brought it.
        asked_s: when that request came.
        attempt: the last attempt; None if it left no node, failed, or is being bound.
        rejection: the last rejection by filters on every node.
        reasons: the reasons that kube-scheduler was told.
        untold: a later rejection, with reasons that kube-scheduler was not told.
        permit: the Status with which Permit rejected the pod; None if kube-scheduler may try the
            pod again.
        permit_hold_s: how many seconds filter rejects the pod because Permit rejected it.
        permit_until_s: until when filter rejects the pod because Permit rejected it.
        refusals: how often bind refused the pod, as far as ``refuse_bind`` was told.
    """

    pod: core.Pod
    asked_s: float
    attempt: Attempt | None = None
    rejection: _Rejection | None = None
    reasons: Reasons = field(default_factory=Reasons)
    untold: _Rejection | None = None
    permit: Status | None = None
    permit_hold_s: float = 0.0
    permit_until_s: float = -math.inf
    refusals: int = 0

    @property
    def held_bytes(self) -> int:
        return _RECORD_BYTES + self.pod.held_bytes

    @property
    def is_empty(self) -> bool:
        """Whether the record equals a new record of the pod, so that it can be dropped."""
        now = self.attempt is not None or self.rejection is not None
        later = self.permit_hold_s or self.reasons.told or self.refusals
        return not (now or later)


class UnplacedPods:
    """The records of all pods that are on no node; any number of threads may use them.

    The class makes kube-scheduler try a pod again if the pod may succeed. Plugins ask for that
    through ``activate``, which also ends a rejection by Permit.

    Args:
        activator: makes kube-scheduler try a pod again; None: no pod is tried again.
        metrics: counts the pods that are woken.
        look_again: runs the filters of a profile for a pod outside of a request.
        clock: returns the present time in monotonic seconds.
        most_bytes: the most bytes of memory of all records; None: the usual limit.
    """

    def __init__(
        self,
        activator: Activator | None = None,
        *,
        metrics: Metrics,
        look_again: LookAgain = filter_anew,
        clock: Callable[[], float] = time.monotonic,
        most_bytes: int | None = None,
    ) -> None:
        self._activator = activator
        self._woken = metrics.counter(_WOKEN)
        self._look_again = look_again
        self._clock = clock
        self._lock = threading.Lock()
        self._records: KeptPods[_Record]
        self._records = KeptPods() if most_bytes is None else KeptPods(most_bytes)
        # The records that hold the nodes of a rejection by filters: of the last one, or of one
        # whose reasons are still to be told. The oldest rejection comes first.
        self._rejected: dict[str, _Record] = {}
        # How many bytes these nodes take, by the UID of the pod, and together.
        self._node_bytes: dict[str, int] = {}
        self._all_node_bytes = 0
        # Scheduler name -> UID and nominated node of the pod of the scheduler's last filter
        # request, if that was about the node alone and left no node, and when it was answered.
        self._left_nominated: dict[str, tuple[str, str, float]] = {}
        self._forgotten: list[core.Pod] = []
        self._looking = threading.Lock()
        self._changes = 0
        self._expected = False
        self._behind = False

    def asks_alone(self, pod: core.Pod, nodes: core.Nodes) -> bool:
        """Return whether a filter request is about the pod's nominated node and no other.

        If kube-scheduler's own filters left only the nominated node, kube-scheduler's request about
        that node and its request about all nodes are equal. The second of two such requests is
        about all nodes, if it comes within ten seconds and no request about another pod came
        between them: kube-scheduler asks about one pod after the other. It sends no second request
        if another extender rejects all nodes, and may try the pod again much later.

        Args:
            pod: the pod.
            nodes: the nodes in the filter request.
        """
        nominated = pod.nominated_node_name
        if not nominated or len(nodes) != 1 or nodes.names[0] != nominated:
            return False
        *asked, at_s = self._left_nominated.get(pod.scheduler_name, ("", "", -math.inf))
        is_second = asked == [pod.uid, nominated] and self._clock() < at_s + _SAME_ATTEMPT_S
        return not is_second

    def leave_nominated(self, pod: core.Pod) -> None:
        """Note that a filter request about the pod's nominated node alone left no node."""
        asked = pod.uid, pod.nominated_node_name, self._clock()
        self._left_nominated[pod.scheduler_name] = asked

    def begin(self, pod: core.Pod, *, nominated_alone: bool | None = None) -> Attempt:
        """Begin and return a scheduling attempt, which replaces the pod's last attempt.

        Args:
            pod: the pod.
            nominated_alone: what ``asks_alone`` returned for the filter request; None: the attempt
                begins without one.
        """
        with self._lock:
            record = self._record_of(pod)
            if nominated_alone is not None:
                self._left_nominated.pop(pod.scheduler_name, None)
            record.attempt = attempt = Attempt(pod, CycleState(), bool(nominated_alone))
            self._keep(record)
        return attempt

    def find(self, uid: str) -> Attempt | None:
        """Return the last attempt of the pod with this UID; None if it is not remembered."""
        record = self._records.get(uid)
        return None if record is None else record.attempt

    def pod(self, uid: str) -> core.Pod | None:
        """Return the pod with this UID as kube-scheduler's last request brought it, if known."""
        record = self._records.get(uid)
        return None if record is None else record.pod

    def take(self, uid: str) -> Attempt | None:
        """Return and forget the pod's last attempt: a bind keeps the attempt it began with."""
        with self._lock:
            record = self._records.get(uid)
            if record is None:
                return None
            attempt, record.attempt = record.attempt, None
            self._drop_if_empty(uid, record)
        return attempt

    def drop(self, attempt: Attempt, *, abandoned: bool = False) -> None:
        """Forget an attempt that left no node or failed, unless a newer attempt replaced it.

        Args:
            attempt: the attempt.
            abandoned: whether its request was answered before; ``leave_nominated`` was called then,
                and kube-scheduler may have asked about other pods since.
        """
        with self._lock:
            record = self._records.get(attempt.pod.uid)
            if record is None or record.attempt is not attempt:
                return
            record.attempt = None
            if attempt.nominated_alone and not abandoned:
                self.leave_nominated(attempt.pod)
            self._drop_if_empty(attempt.pod.uid, record)

    @property
    def changes(self) -> int:
        """How many times the watched nodes changed; read before looking up a request's nodes."""
        return self._changes

    def reject(
        self,
        attempt: Attempt,
        profile: Profile,
        nodes: core.Nodes,
        entries: list[Entry],
        changes: int | None,
    ) -> list[Entry]:
        """Remember that filters rejected a pod on every node, and choose the reasons to answer.

        Args:
            attempt: the pod's attempt, which ends with the rejection.
            profile: the profile whose filters rejected the pod.
            nodes: the nodes that the filters saw.
            entries: masks of nodes that share a reason; each node is in one of them.
            changes: the property ``changes``, read before the nodes were looked up; if nodes
                changed since, the filters run once more before this method returns. None: the nodes
                came with the request and never change.

        Returns: the same nodes with the reasons for kube-scheduler, which stay as they are for a
        while; for a pod without a UID and for a member of a pod group ``entries``.
        """
        self.drop(attempt)
        pod, now_s = attempt.pod, self._clock()
        if pod.scheduling_group:
            # kube-scheduler tries a rejected pod group after its backoff, and for nothing else.
            return entries
        rejection = None
        with self._lock:
            record = self._record_of(pod)
            large = nodes.held_bytes > _MOST_BYTES_OF_ONE
            if changes is not None and self._activator is not None and not large:
                rejection = _Rejection(profile, pod, nodes, now_s, now_s, self._changes)
            record.rejection = rejection
            if pod.uid and entries and not attempt.nominated_alone:
                entries = record.reasons.steady(entries, now_s)
                record.untold = None if record.reasons.newer is None else rejection
            self._list(record)
            self._unlist_without_nodes(record)
            self._keep(record)
            woken = self._bound_nodes()
        self._activate(woken)
        if rejection is not None and rejection.seen != changes and self._is_worth_asking(rejection):
            self._wake([rejection])
        return entries

    def passed(self, attempt: Attempt) -> None:
        """Forget that filters rejected a pod, because this attempt found a node.

        Do nothing if a newer attempt to schedule the pod has begun.
        """
        with self._lock:
            record = self._records.get(attempt.pod.uid)
            if record is not None and record.attempt is attempt:
                self._let_nodes_go(record)

    def reject_permit(self, pod: core.Pod, status: Status, told_in_s: float = 0.0) -> None:
        """Remember a pod that Permit rejected; filter rejects it for 10 s, later up to 5 min.

        Args:
            pod: the pod.
            status: why Permit rejected the pod.
            told_in_s: in how many seconds kube-scheduler is told; the time begins then.
        """
        now_s = self._clock()
        with self._lock:
            record = self._record_of(pod)
            again = now_s < record.permit_until_s + _LONGEST_PERMIT_HOLD_S
            hold_s = 2 * record.permit_hold_s if again else _PERMIT_HOLD_S
            record.permit = status
            record.permit_hold_s = min(hold_s, _LONGEST_PERMIT_HOLD_S)
            record.permit_until_s = now_s + told_in_s + record.permit_hold_s
            self._keep(record)

    def refuse_bind(self, pod: core.Pod) -> int:
        """Count a refusal of bind for a pod; return how many refusals the pod has had."""
        with self._lock:
            record = self._record_of(pod)
            record.refusals += 1
            self._keep(record)
            return record.refusals

    def why_not_tried(self, pod: core.Pod) -> Status | None:
        """Return Permit's rejection of a pod, which filter has to repeat; None: filters decide.

        The rejection ends here if the pod has changed since: Permit has not seen the pod as it is.

        Args:
            pod: the pod as kube-scheduler's request brought it.
        """
        with self._lock:
            record = self._records.get(pod.uid)
            if record is None or record.permit is None or record.permit_until_s <= self._clock():
                return None
            if _may_be_judged_anew(record.pod, pod):
                record.permit = None
            return record.permit

    def activate(self, pods: Iterable[core.Pod]) -> None:
        """Make kube-scheduler try the pods again, because a plugin says that they may succeed.

        A member of a pod group is tried after the backoff of its group.
        """
        pods = list(pods)
        with self._lock:
            for pod in pods:
                if (record := self._records.get(pod.uid)) is not None:
                    record.permit = None
        self._activate(pods)

    def forget(self, uid: str) -> None:
        """Forget a pod that is bound or deleted. Any thread may call; the call never waits."""
        with self._lock:
            self._drop(uid)

    def forget_all(self) -> None:
        """Forget all pods, because another replica decides about them; any thread may call."""
        with self._lock:
            for uid in [record.pod.uid for record in self._records.values()]:
                self._drop(uid)
            self._forgotten.clear()
            self._left_nominated.clear()

    def nodes_changed(self) -> None:
        """Make kube-scheduler retry rejected pods that may pass because nodes changed.

        Any thread may call. The call runs the filters for one pod after the other until 0.2 s are
        over, so gather node events before the call. Later calls of ``wake_due`` check the remaining
        pods.
        """
        self._note_change()
        if not self._behind:
            self._look()

    def expect_change(self) -> None:
        """Record that pods may pass now though no node changed; never waits, on any thread."""
        self._expected = True

    def wake_due(self) -> None:
        """Make kube-scheduler retry the pods that are due; call this each second.

        The call runs filters, so it needs a thread that may wait. The pods are those
        - that may pass after ``expect_change``, or that ``nodes_changed`` had no time to check,
        - that Permit rejected a while ago,
        - whose reasons changed while kube-scheduler has the old ones.
        """
        if self._expected:
            self._expected = False
            self._note_change()
            self._look()
        elif self._behind:
            self._look()
        self._activate([*self._due_by_time(), *self._due_for_reasons()])
        with self._lock:
            self._end_old_rejections()
            oldest_s = self._clock() - _IDLE_S
            for record in [each for each in self._records.values() if each.asked_s < oldest_s]:
                self._drop(record.pod.uid)

    def __len__(self) -> int:
        """Return how many pods are remembered."""
        return len(self._records)

    def _record_of(self, pod: core.Pod) -> _Record:
        record = self._records.get(pod.uid) or _Record(pod, 0.0)
        record.pod, record.asked_s = pod, self._clock()
        return record

    def _keep(self, record: _Record) -> None:
        for gone in self._records.put(record):
            self._unlist(gone.pod.uid)
            if gone.permit is not None:
                # The pod may be unschedulable by now, and ``wake_due`` no longer finds it.
                self._forgotten.append(gone.pod)

    def _drop(self, uid: str) -> None:
        self._records.pop(uid)
        self._unlist(uid)

    def _drop_if_empty(self, uid: str, record: _Record) -> None:
        # Permit may hold thousands of pods, and kubextend knows nothing else of most of these pods.
        if record.is_empty:
            self._records.pop(uid)

    def _end_rejection(self, record: _Record) -> None:
        record.rejection = None
        self._unlist_without_nodes(record)

    def _end_untold(self, record: _Record) -> None:
        """Forget the reasons in a record that kube-scheduler was not told."""
        record.reasons.settle()
        record.untold = None
        self._unlist_without_nodes(record)

    def _unlist_without_nodes(self, record: _Record) -> None:
        if record.rejection is None and record.untold is None:
            self._unlist(record.pod.uid)

    def _list(self, record: _Record) -> None:
        """Add a record that holds the nodes of a new rejection."""
        self._unlist(record.pod.uid)
        # Often both are the same rejection.
        kept = {record.rejection, record.untold}
        size = sum(rejection.nodes.held_bytes for rejection in kept if rejection)
        self._rejected[record.pod.uid] = record
        self._node_bytes[record.pod.uid] = size
        self._all_node_bytes += size

    def _unlist(self, uid: str) -> None:
        self._rejected.pop(uid, None)
        self._all_node_bytes -= self._node_bytes.pop(uid, 0)

    def _let_nodes_go(self, record: _Record) -> None:
        record.reasons.settle()
        record.untold = record.rejection = None
        self._unlist(record.pod.uid)

    def _bound_nodes(self) -> list[core.Pod]:
        """Forget the oldest rejections beyond 512 and beyond 64 MiB of nodes.

        Returns: their pods if nodes changed since.
        """
        woken = []
        while len(self._rejected) > _MOST_WITH_NODES or self._all_node_bytes > _MOST_BYTES_OF_NODES:
            record = next(iter(self._rejected.values()))
            if record.rejection is not None and record.rejection.seen != self._changes:
                woken.append(record.pod)
            self._let_nodes_go(record)
        return woken

    def _note_change(self) -> None:
        with self._lock:
            self._end_old_rejections()
            self._changes += 1

    def _look(self) -> None:
        """Run filters again for pods rejected before nodes changed; activate them if they may pass.

        The method begins with the pod whose filters ran the longest ago, and begins no further pod
        after 0.2 s.
        """
        with self._looking:
            until_s = self._clock() + _LOOK_S
            with self._lock:
                self._end_old_rejections()
                unseen = self._unseen()
            awake = []
            for rejection in sorted(unseen, key=lambda each: each.looked_s):
                rejection.seen = self._changes
                if self._is_worth_asking(rejection):
                    awake.append(rejection)
                rejection.looked_s = now_s = self._clock()
                if now_s >= until_s:
                    break
            self._wake(awake)
            with self._lock:
                # The records include pods that were rejected while the filters ran.
                self._behind = bool(self._unseen())

    def _unseen(self) -> list[_Rejection]:
        rejections = (record.rejection for record in self._rejected.values())
        return [each for each in rejections if each and each.seen != self._changes]

    def _is_worth_asking(self, rejection: _Rejection) -> bool:
        """Return whether kube-scheduler should retry a rejected pod: it passes, or filters fail."""
        try:
            return rejection.entries_now(self._look_again) is None
        except (PluginError, TimeoutError):
            return True

    def _wake(self, rejections: Iterable[_Rejection]) -> None:
        """Make kube-scheduler retry the pods of these rejections, if not rejected once more."""
        with self._lock:
            pods = []
            for rejection in rejections:
                record = self._rejected.get(rejection.pod.uid)
                if record is not None and record.rejection is rejection:
                    self._end_rejection(record)
                    pods.append(rejection.pod)
        self._activate(pods)
        self._woken.inc(len(pods))

    def _activate(self, pods: list[core.Pod]) -> None:
        """Activate the pods, except members of pod groups: no update of a pod wakes its group."""
        lone = [pod for pod in pods if not pod.scheduling_group]
        if lone and self._activator is not None:
            self._activator.activate(lone)

    def _end_old_rejections(self) -> None:
        """Forget rejections by filters after 10 s; activate the pods if nodes changed since."""
        oldest_s = self._clock() - _REJECTION_S
        for record in list(self._rejected.values()):
            rejection = record.rejection
            if rejection is None:
                continue
            if rejection.at_s >= oldest_s:
                break
            self._end_rejection(record)
            if rejection.seen != self._changes:
                self._activate([rejection.pod])
                self._woken.inc()

    def _due_by_time(self) -> list[core.Pod]:
        """Return the pods, each once, to retry because Permit rejected them a while ago."""
        now_s = self._clock()
        with self._lock:
            due, self._forgotten = self._forgotten, []
            for record in self._records.values():
                if record.permit is not None and record.permit_until_s <= now_s:
                    record.permit = None
                    due.append(record.pod)
        return due

    def _due_for_reasons(self) -> list[core.Pod]:
        """Return pods, once each, to retry because their reasons differ from kube-scheduler's.

        The reasons have differed for 40 s, and the filters, run again, still give them or let the
        pod pass.
        """
        now_s = self._clock()
        with self._lock:
            due = [each for each in self._records.values() if each.reasons.due_s <= now_s]
        return [record.pod for record in due if self._stayed(record, now_s)]

    def _stayed(self, record: _Record, now_s: float) -> bool:
        """Run the pod's filters; return whether the pod passes or its newer reasons still hold."""
        untold, entries, asks = record.untold, None, False
        if untold is None:
            return False
        try:
            entries = untold.entries_now(self._look_again)
            asks = entries is None
        except (PluginError, TimeoutError) as error:
            _LOGGER.warning("reasons cannot be looked at again: %s", error)
        with self._lock:
            if self._records.get(record.pod.uid) is not record or record.untold is not untold:
                return False
            if entries is not None:
                return record.reasons.stayed(entries, now_s)
            self._end_untold(record)
        return asks


def _may_be_judged_anew(before: core.Pod, now: core.Pod) -> bool:
    """Return whether something changed in a pod by which plugins judge.

    kube-scheduler tries a pod again after any change but of the status, the managed fields and the
    resourceVersion. Changes of owners and finalizers are not looked for here: the pod waits until
    the hold ends. ``metadata.generation`` shows most changes of the spec, but not in Kubernetes
    1.33, so tolerations and requests are compared as well.

    Source: kubernetes v1.36 pkg/scheduler/backend/queue/scheduling_queue.go isPodUpdated
    """
    return _judged_by_plugins(before) != _judged_by_plugins(now)


def _judged_by_plugins(pod: core.Pod) -> tuple[object, ...]:
    return pod.labels, pod.annotations, pod.generation, pod.tolerations, pod.requests


def unschedulable_before(pods: PodSource, profiles: Profiles) -> list[core.Pod]:
    """Return unschedulable pods that an earlier process of kubextend may have rejected.

    What the earlier process remembered of the pods is lost, so kubextend makes kube-scheduler try
    each of these pods again once.
    """
    return [
        pod
        for pod in pods.store.pods()
        if not pod.node_name
        and pod.scheduled_reason == "Unschedulable"
        and (profile := profiles.for_pod(pod)) is not None
        and (profile.rejects or profile.binding.permit)
    ]
