"""What kubextend remembers of each pod that is on no node yet. Each part has a bound of its own.

- The pod's last scheduling attempt with its CycleState. filter begins the attempt; prioritize and
  bind find it by the pod, because a request names no attempt.
- A rejection of the pod by filters on every node, to be checked again. kube-scheduler reacts to a
  node event within milliseconds, and may ask before kubextend's watch has the event. The filters
  then reject the pod on stale labels, and no further event makes kube-scheduler try the pod again.
  If nodes change within two seconds, the filters therefore run again, and kubextend activates a pod
  that passes: it makes kube-scheduler try the pod again.
- A rejection of the pod by Permit. bind can answer this rejection with an Error only, and
  kube-scheduler retries a pod with an Error after a few seconds, again and again. The pod's filter
  calls of the next 30 s therefore reject every node with Permit's reason, and the pod becomes
  unschedulable. Then kubextend activates the pod, because not every Permit plugin does so.

A restarted kubextend remembers nothing, and a replica that answers bind but not filter lacks some.
kube-scheduler then simply tries the pods again.
"""

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
from kubextend.verbs.bounded_dict import BoundedDict
from kubextend.verbs.filter_outside_request import LookAgain, filter_anew

__all__ = ["HOLD_S", "NOT_PERMITTED", "Attempt", "UnplacedPods", "unschedulable_before"]

NOT_PERMITTED: Final = "a Permit plugin rejected the pod"
"""What is said of a pod for which ``why_not_tried`` has a status."""

HOLD_S: Final = 30.0
"""For how many seconds filter repeats a rejection by Permit."""

_WOKEN: Final = Family(
    "kubextend_pods_woken",
    "Rejected pods that a later node change would let pass, and that were activated.",
)
# More than the members of the largest gangs: all of a pod group are filtered before the first bind.
_MOST_PODS: Final = 4096
# Ordinary pods take 2 to 4 KB each, and whoever may create pods can make one of several MB.
_MOST_BYTES: Final = 16 << 20
# A rejection keeps the rows of its nodes, 60 KB at 15,000 nodes, and costs a run of the filters at
# each change.
_MOST_RECHECKS: Final = 256
_RECHECK_S: Final = 2.0
_LATE_RECHECK_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class Attempt:
    """One scheduling attempt of a pod, from kube-scheduler's filter request to its bind request.

    Attributes:
        pod: the pod as the filter request brought it.
        state: the CycleState, in which the plugins of the attempt keep what they found out.
    """

    pod: core.Pod
    state: CycleState = field(default_factory=CycleState)


@dataclass(frozen=True, slots=True, eq=False)
class _Recheck:
    """A pod that filters rejected on every node, and that a change of a node may let pass.

    Attributes:
        profile: the profile whose filters rejected the pod.
        pod: the pod as the filter request brought it.
        nodes: the nodes in the filter request.
        at_s: when the pod was rejected.
    """

    profile: Profile
    pod: core.Pod
    nodes: core.Nodes
    at_s: float

    def is_worth_asking(self, look_again: LookAgain) -> bool:
        """Return whether kube-scheduler should try the pod again: it passes, or filters fail.

        kube-scheduler does not retry an unschedulable pod by itself.
        """
        try:
            passing, _ = look_again(self.profile, self.pod, self.nodes.latest())
        except (PluginError, TimeoutError):
            return True
        return passing.any()


@dataclass(frozen=True, slots=True, eq=False)
class _Hold:
    """A rejection of a pod by Permit, which filter repeats for a time.

    Attributes:
        pod: the pod as Permit saw it.
        said: why Permit rejected the pod.
        until_s: until when filter repeats the rejection.
    """

    pod: core.Pod
    said: Status
    until_s: float


class UnplacedPods:
    """What is remembered of all pods that are on no node; any number of threads may use it.

    Plugins make kube-scheduler try a pod again through ``activate``, which also ends a rejection by
    Permit.

    Args:
        activator: makes kube-scheduler try a pod again; None: no pod is tried again.
        metrics: counts the pods that are woken.
        look_again: runs the filters of a profile for a pod outside of a request.
        clock: returns the present time in monotonic seconds.
    """

    def __init__(
        self,
        activator: Activator | None = None,
        *,
        metrics: Metrics,
        look_again: LookAgain = filter_anew,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._activator = activator
        self._woken = metrics.counter(_WOKEN)
        self._look_again = look_again
        self._clock = clock
        self._lock = threading.Lock()
        self._attempts: BoundedDict[Attempt] = BoundedDict(_MOST_PODS, _MOST_BYTES)
        self._rechecks: BoundedDict[_Recheck] = BoundedDict(_MOST_RECHECKS, _MOST_BYTES)
        self._holds: BoundedDict[_Hold] = BoundedDict(_MOST_PODS, _MOST_BYTES)
        self._changes = 0
        self._late = False

    # The attempt.

    def begin(self, pod: core.Pod) -> Attempt:
        """Begin and return a scheduling attempt, which replaces the pod's last attempt."""
        attempt = Attempt(pod)
        with self._lock:
            self._attempts.put(pod.uid, attempt, pod.held_bytes)
        return attempt

    def find(self, uid: str) -> Attempt | None:
        """Return the last attempt of the pod with this UID; None if it is not remembered."""
        return self._attempts.get(uid)

    def take(self, uid: str) -> Attempt | None:
        """Return and forget the pod's last attempt: a bind keeps the attempt it began with."""
        with self._lock:
            return self._attempts.pop(uid, None)

    def drop(self, attempt: Attempt) -> None:
        """Forget an attempt that left no node or failed, unless a newer attempt replaced it."""
        with self._lock:
            if self._attempts.get(attempt.pod.uid) is attempt:
                del self._attempts[attempt.pod.uid]

    # The rejection by filters.

    @property
    def changes(self) -> int:
        """How many times the watched nodes changed; read before looking up a request's nodes."""
        return self._changes

    def reject(
        self, attempt: Attempt, profile: Profile, nodes: core.Nodes, changes: int | None
    ) -> None:
        """End an attempt whose pod filters rejected on every node, and remember the rejection.

        Args:
            attempt: the pod's attempt.
            profile: the profile whose filters rejected the pod.
            nodes: the nodes that the filters saw.
            changes: the property ``changes``, read before the nodes were looked up; if nodes
                changed since, the filters run once more before this method returns. None: the nodes
                came with the request and never change.
        """
        self.drop(attempt)
        pod = attempt.pod
        recheck = _Recheck(profile, pod, nodes, self._clock())
        with self._lock:
            # kube-scheduler tries a rejected pod group after its backoff, and for nothing else.
            if changes is None or self._activator is None or pod.scheduling_group:
                self._rechecks.pop(pod.uid, None)
                return
            self._rechecks.put(pod.uid, recheck, pod.held_bytes + nodes.held_bytes)
            missed = changes != self._changes
        if missed:
            self._look_at([recheck])

    def passed(self, attempt: Attempt) -> None:
        """Forget that filters rejected a pod, because this attempt found a node."""
        with self._lock:
            if self._attempts.get(attempt.pod.uid) is attempt:
                self._rechecks.pop(attempt.pod.uid, None)

    def nodes_changed(self) -> None:
        """Make kube-scheduler retry pods that were just rejected and pass now, as nodes changed.

        Any thread may call. The call runs filters, so gather node events before the call.
        """
        with self._lock:
            self._changes += 1
            kept_s = _LATE_RECHECK_S if self._late else _RECHECK_S
            self._late = False
            since_s = self._clock() - kept_s
            recent = [each for each in self._rechecks.values() if each.at_s >= since_s]
        self._look_at(recent)

    def expect_change(self) -> None:
        """Record that pods rejected in the last ten seconds may pass now; never waits.

        The change came late: after a break of the watch, or as an Unreserve took its time. The next
        call of ``nodes_changed`` or ``wake_due`` looks at these pods. Any thread may call.
        """
        self._late = True

    # The rejection by Permit.

    def reject_permit(self, pod: core.Pod, said: Status, told_in_s: float = 0.0) -> None:
        """Remember that Permit rejected a pod; filter repeats it for 30 s.

        Args:
            pod: the pod.
            said: why Permit rejected the pod.
            told_in_s: in how many seconds kube-scheduler is told; the time begins then.
        """
        hold = _Hold(pod, said, self._clock() + told_in_s + HOLD_S)
        with self._lock:
            gone = self._holds.put(pod.uid, hold, pod.held_bytes)
        # The pods may be unschedulable by now, and nobody else would wake them.
        self._activate([each.pod for each in gone])

    def why_not_tried(self, pod: core.Pod) -> Status | None:
        """Return Permit's rejection of a pod, which filter has to repeat; None: filters decide.

        The rejection ends here if the pod has changed since: Permit has not seen the pod as it is.

        Args:
            pod: the pod as kube-scheduler's request brought it.
        """
        with self._lock:
            hold = self._holds.get(pod.uid)
            if hold is None or hold.until_s <= self._clock():
                return None
            if _judged_by_plugins(hold.pod) != _judged_by_plugins(pod):
                del self._holds[pod.uid]
                return None
            return hold.said

    # The end.

    def activate(self, pods: Iterable[core.Pod]) -> None:
        """Make kube-scheduler try the pods again, because a plugin says that they may succeed.

        A member of a pod group is tried after the backoff of its group.
        """
        pods = list(pods)
        with self._lock:
            for pod in pods:
                self._holds.pop(pod.uid, None)
        self._activate(pods)

    def forget(self, uid: str) -> None:
        """Forget a pod that is bound or deleted. Any thread may call; the call never waits."""
        with self._lock:
            for kept in (self._attempts, self._rechecks, self._holds):
                kept.pop(uid, None)

    def forget_all(self) -> None:
        """Forget all pods, because another replica decides about them; any thread may call."""
        with self._lock:
            for kept in (self._attempts, self._rechecks, self._holds):
                kept.clear()

    def wake_due(self) -> None:
        """Make kube-scheduler retry the pods that are due; call this each second, on a thread.

        The pods are those that may pass after ``expect_change``, and those that Permit rejected a
        while ago. The call runs filters.
        """
        if self._late:
            self.nodes_changed()
        with self._lock:
            now_s = self._clock()
            over = [each.pod for each in self._holds.values() if each.until_s <= now_s]
            for pod in over:
                del self._holds[pod.uid]
        self._activate(over)

    def _look_at(self, rechecks: list[_Recheck]) -> None:
        """Run filters again for pods, and activate those that may pass, each once."""
        awake = [each for each in rechecks if each.is_worth_asking(self._look_again)]
        with self._lock:
            awake = [each for each in awake if self._rechecks.get(each.pod.uid) is each]
            for each in awake:
                del self._rechecks[each.pod.uid]
        self._activate([each.pod for each in awake])
        self._woken.inc(len(awake))

    def _activate(self, pods: list[core.Pod]) -> None:
        """Activate the pods, except members of pod groups: no update of a pod wakes its group."""
        lone = [pod for pod in pods if not pod.scheduling_group]
        if lone and self._activator is not None:
            self._activator.activate(lone)


def _judged_by_plugins(pod: core.Pod) -> tuple[object, ...]:
    """Return what plugins judge a pod by.

    kube-scheduler tries a pod again after any change but of the status, the managed fields and the
    resourceVersion. Changes of owners and finalizers are not looked for here: the pod waits until
    the hold ends. ``metadata.generation`` shows most changes of the spec, but not in Kubernetes
    1.33, so tolerations and requests are compared as well.

    Source: kubernetes v1.36 pkg/scheduler/backend/queue/scheduling_queue.go isPodUpdated
    """
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
