"""Pods that were rejected a moment ago, and what wakes them.

kube-scheduler reacts to a node event within milliseconds and may ask before our own watch has the
event. The pod is then rejected on stale labels, and parked with no further event to come. So a
rejection is remembered for a while, and a pod that a later change would let pass is activated. So
is one of which the filters cannot say that: kube-scheduler tries an Error again by itself.
"""

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from kubextend import core
from kubextend.errors import PluginError
from kubextend.framework.handle import Activator, PodSource
from kubextend.metrics import Metrics
from kubextend.profile import Profile, Profiles
from kubextend.verbs.kept_pods import KeptPods
from kubextend.verbs.verdict import LookAgain, filter_anew

__all__ = ["ParkedPods", "parked_before"]

_WINDOW_S = 10.0
# Each pod keeps the node rows of its request alive, and is looked at again at every change.
_LIMIT = 512
# Looking runs filters that the verbs wait for: what is not looked at in this time has its turn a
# second later.
_LOOK_S = 0.2

_Key = tuple[str, str, str]


@dataclass(slots=True, eq=False)
class _Rejected:
    """A rejection, when it was last looked at, and whether something changed since."""

    profile: Profile
    pod: core.Pod
    nodes: core.Nodes
    at_s: float
    looked_s: float
    changed: bool = False

    @property
    def key(self) -> _Key:
        return _key(self.pod)

    def is_worth_asking(self, look_again: LookAgain) -> bool:
        """It passes now, or nobody can say: an Error is tried again, a parked pod is not."""
        try:
            passing, _ = look_again(self.profile, self.pod, self.nodes.latest())
        except (PluginError, TimeoutError):
            return True
        return passing.any()


class ParkedPods:
    """Remembers rejected pods for ten seconds and activates those whose verdict no longer holds.

    Args:
        activator: makes kube-scheduler ask about a pod again; None switches all of this off.
        metrics: what is counted.
        look_again: asks the filters about a pod once more.
        clock: seconds that only go forward.
        limit: pods remembered, as of ``KeptPods``.
    """

    def __init__(
        self,
        activator: Activator | None,
        *,
        metrics: Metrics,
        look_again: LookAgain = filter_anew,
        clock: Callable[[], float] = time.monotonic,
        limit: int = _LIMIT,
    ) -> None:
        self._activator = activator
        self._metrics = metrics
        self._look_again = look_again
        self._clock = clock
        self._lock = threading.Lock()
        self._pods: KeptPods[_Key, _Rejected] = KeptPods(limit)
        self._looking = threading.Lock()
        self._changes = 0
        self._expected = False
        self._behind = False

    @property
    def changes(self) -> int:
        """How often the nodes changed; to be read before they are looked up for a request."""
        return self._changes

    def remember(self, profile: Profile, pod: core.Pod, nodes: core.Nodes, changes: int) -> None:
        """The pod was rejected on all of these nodes.

        Args:
            profile: whose filters rejected it.
            pod: the pod.
            nodes: as they were looked up.
            changes: ``changes`` from before that; where more came since, it is looked at again.
        """
        if self._activator is None:
            return
        now = self._clock()
        rejected = _Rejected(profile, pod, nodes, now, now)
        with self._lock:
            self._pods.put(rejected.key, rejected, pod)
            overtaken = self._changes != changes
        if overtaken and rejected.is_worth_asking(self._look_again):
            self._wake([rejected])

    def forget(self, pod: core.Pod) -> None:
        """The pod passed somewhere: there is nothing to wake."""
        if not self._pods:
            return
        with self._lock:
            self._pods.pop(_key(pod))

    def nodes_changed(self) -> None:
        """Pods that pass since the nodes changed, or may, are activated, once; from any thread.

        Runs their filters: whoever calls this for single events should gather them first. For
        0.2 s at most; the others have their turn with the next calls of ``look_if_expected``.
        """
        self._note_change()
        if not self._behind:
            self._look()

    def expect_change(self) -> None:
        """Filters may say something else though no node changed; from any thread, never blocks."""
        self._expected = True

    def look_if_expected(self) -> None:
        """Look at parked pods where a change is expected, as if nodes changed; call each second.

        Pods whose turn has not come since an earlier change have it now; after ten seconds they
        are forgotten, whether anything changes or not.
        """
        if self._expected:
            self._expected = False
            self._note_change()
            self._look()
        elif self._behind:
            self._look()
        else:
            with self._lock:
                self._forget_old()

    def __len__(self) -> int:
        return len(self._pods)

    def _note_change(self) -> None:
        with self._lock:
            self._changes += 1
            self._forget_old()
            for rejected in self._pods.values():
                rejected.changed = True

    def _look(self) -> None:
        """Look at the pods that waited longest for a look first, for as long as there is time."""
        with self._looking:
            until_s = self._clock() + _LOOK_S
            with self._lock:
                self._forget_old()
                changed = [each for each in self._pods.values() if each.changed]
            awake = []
            for rejected in sorted(changed, key=lambda each: each.looked_s):
                rejected.changed = False
                if rejected.is_worth_asking(self._look_again):
                    awake.append(rejected)
                rejected.looked_s = now = self._clock()
                if now >= until_s:
                    break
            self._wake(awake)
            with self._lock:
                # Pods that were remembered or changed while the filters looked are among them.
                self._behind = any(each.changed for each in self._pods.values())

    def _forget_old(self) -> None:
        """A pod is woken if it may pass since a change at which its turn has not come."""
        oldest_s = self._clock() - _WINDOW_S
        old = []
        for rejected in [*self._pods.values()]:
            if rejected.at_s >= oldest_s:
                break
            self._pods.pop(rejected.key)
            if rejected.changed:
                old.append(rejected.pod)
        self._activate(old)

    def _wake(self, awake: Iterable[_Rejected]) -> None:
        self._activate([rejected.pod for rejected in awake if self._take(rejected)])

    def _activate(self, pods: list[core.Pod]) -> None:
        if pods and self._activator is not None:
            self._activator.activate(pods)
            self._metrics.pods_woken.inc(len(pods))

    def _take(self, rejected: _Rejected) -> bool:
        """Whether this rejection was still the one remembered; it no longer is."""
        with self._lock:
            if self._pods.get(rejected.key) is not rejected:
                return False
            self._pods.pop(rejected.key)
            return True


def parked_before(pods: PodSource, profiles: Profiles) -> list[core.Pod]:
    """Pods that are parked, maybe since a kubextend rejected them that has ended since.

    kube-scheduler says of a parked pod that it is unschedulable. Whatever the other process would
    have woken them for went with it.
    """
    return [
        pod
        for pod in pods.store.pods()
        if not pod.node_name
        and pod.scheduled_reason == "Unschedulable"
        and (profile := profiles.for_pod(pod)) is not None
        and (profile.rejects or profile.binding.permit)
    ]


def _key(pod: core.Pod) -> _Key:
    return pod.namespace, pod.name, pod.uid
