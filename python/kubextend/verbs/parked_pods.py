"""Pods that were rejected a moment ago, and what wakes them.

kube-scheduler reacts to a node event within milliseconds and may ask before our own watch has the
event. The filters then reject the pod on stale labels, and no further event unparks it. kubextend
therefore remembers a rejection for a while and activates a pod that a later change would let pass.
kubextend also activates a pod when its filters fail: kube-scheduler retries an Error by itself, but
not a parked pod.
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
from kubextend.verbs.refilter import LookAgain, filter_anew

__all__ = ["ParkedPods", "parked_before"]

_WINDOW_S = 10.0
# Each remembered pod keeps the node rows of its request alive, and runs its filters at every
# change.
_LIMIT = 512
# Filters that run for parked pods delay the verbs. A pod that is not looked at within this time has
# its turn a second later.
_LOOK_S = 0.2

_Key = tuple[str, str, str]


@dataclass(slots=True, eq=False)
class _Rejected:
    """A rejection, when kubextend last looked at it, and whether nodes changed since."""

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
        """Return whether kube-scheduler should ask: the pod passes, or its filters fail."""
        try:
            passing, _ = look_again(self.profile, self.pod, self.nodes.latest())
        except (PluginError, TimeoutError):
            return True
        return passing.any()


class ParkedPods:
    """Remembers rejected pods for ten seconds and activates those whose verdict no longer holds.

    Args:
        activator: makes kube-scheduler ask about a pod again; None: no pod is remembered.
        metrics: where woken pods are counted.
        look_again: asks the filters about a pod once more.
        clock: monotonic seconds.
        limit: pods remembered, see ``KeptPods``.
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
        """How often the nodes changed; read it before you look up the nodes of a request."""
        return self._changes

    def remember(self, profile: Profile, pod: core.Pod, nodes: core.Nodes, changes: int) -> None:
        """Remember that filters rejected the pod on every one of these nodes.

        Args:
            profile: the profile whose filters rejected the pod.
            pod: the pod.
            nodes: the nodes as they were looked up.
            changes: ``changes`` from before the lookup; if nodes changed since, filters run again
                now.
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
        """Forget a pod that passed somewhere: nothing has to wake it."""
        if not self._pods:
            return
        with self._lock:
            self._pods.pop(_key(pod))

    def nodes_changed(self) -> None:
        """Activate, once, each pod that may pass since the nodes changed; any thread may call.

        Runs the filters of these pods for 0.2 s at most, so gather events before you call. Later
        calls of ``look_if_expected`` look at the remaining pods.
        """
        self._note_change()
        if not self._behind:
            self._look()

    def expect_change(self) -> None:
        """Note that verdicts may change though no node did; any thread may call, never blocks."""
        self._expected = True

    def look_if_expected(self) -> None:
        """Look at parked pods after ``expect_change``, as if nodes changed; call this each second.

        Pods that an earlier look had no time for have their turn now. Pods are forgotten after ten
        seconds, whether anything changes or not.
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
        """Run the filters of changed pods while there is time, longest unseen first."""
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
        """Forget pods older than the window, and wake those of them with an unseen change."""
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
        """Forget the rejection, and return whether it was the one remembered."""
        with self._lock:
            if self._pods.get(rejected.key) is not rejected:
                return False
            self._pods.pop(rejected.key)
            return True


def parked_before(pods: PodSource, profiles: Profiles) -> list[core.Pod]:
    """Return parked pods that an earlier process of kubextend may have rejected.

    kube-scheduler marks a parked pod as unschedulable. The earlier process took its memory of what
    wakes the pods with it.
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
