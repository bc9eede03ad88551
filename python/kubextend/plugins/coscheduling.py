"""Coscheduling: pods of a group run together, or none of them does.

A pod names its group and the number of pods without which none of them is useful. Permit holds each
pod on its node until that many are held or run; kube-scheduler reserves their room meanwhile.

Source: kubernetes-sigs/scheduler-plugins pkg/coscheduling, with the group written on its pods
"""

import asyncio
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from kubextend import core
from kubextend.errors import TruncatedPodError
from kubextend.framework.cycle_state import CycleState
from kubextend.framework.handle import Handle, HeldPod
from kubextend.framework.plugin import Rejection
from kubextend.framework.status import Status

__all__ = ["Coscheduling", "CoschedulingArgs"]

_NUMBER = re.compile(r"[1-9][0-9]{0,5}", re.ASCII)
# A gap of a tenth may close by itself, so one pod that fits nowhere does not end such a group.
_SMALL_GAP = 0.1
_SETTLE_AGAIN_S = 0.2
# kube-scheduler's own limit: no Permit plugin holds a pod for longer.
_LONGEST_PERMIT_S = 900.0
_LONGEST_BACKOFF_S = 60.0
# Listing a group of 3,200 pods takes 4 ms, and kube-scheduler asks about each of the pods.
_LISTED_PER_S = 5000
_WOKEN_PER_S = 100
# A group of any size is awake again within ten seconds, long before its first pod times out.
_WAKE_WITHIN_S = 10
_GROUPS = 4096
_TURNED_AWAY = 4096

_NO_NUMBER = "pod of a pod group does not say how many pods are the minimum"
_TOO_FEW = "pod group has fewer pods than its minimum"
_DENIED = "pod group was rejected a moment ago"
_WAITING = "waiting for other pods of the pod group"
_GIVEN_UP = "pod group was rejected because of another of its pods"
_UNLISTED = "pods of the pod group cannot be listed"

_Key = tuple[str, str, str]
"""Scheduler name, namespace and name of a group."""


class CoschedulingArgs(BaseModel):
    """Which pods belong together, and how long they wait for each other.

    Attributes:
        pod_group_label: the label with the name of the pod's group, unique within the namespace.
        min_available_key: the label or annotation with the number of pods that have to run; equal
            on all pods of a group.
        permit_waiting_time_seconds: how long a pod is held; at most as long as the configuration
            allows for Permit.
        pod_group_backoff_seconds: how long no pod of a rejected group is tried. Each rejection in a
            row doubles the time, up to a minute.
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", alias_generator=to_camel, validate_by_name=False
    )

    pod_group_label: str = Field(default="scheduling.x-k8s.io/pod-group", min_length=1)
    min_available_key: str = Field(
        default="pod-group.scheduling.sigs.k8s.io/min-available", min_length=1
    )
    permit_waiting_time_seconds: int = Field(default=60, ge=1, le=900)
    # Pods rejected after Permit are tried again after 10 s, when the first backoff is over.
    pod_group_backoff_seconds: float = Field(default=3.0, ge=0, le=9)


@dataclass(frozen=True, slots=True)
class _Gang:
    """The group that a pod names."""

    key: _Key
    min_available: int | None


@dataclass(slots=True)
class _Told:
    """A pod that was told to wait.

    Attributes:
        until_s: the end of the longest possible wait, on the clock of the event loop.
        decide: a decision from before the pod was held; None: nothing is decided yet.
    """

    until_s: float
    decide: Callable[[HeldPod], None] | None = None


@dataclass(slots=True)
class _Roster:
    """The pods of a group at their last listing.

    Attributes:
        there: UIDs of pods that run or may be placed soon, and of pods asked about since.
        bound: UIDs of pods that the watch shows on a node.
        until_s: when the list is too old.
    """

    there: set[str]
    bound: set[str]
    until_s: float


@dataclass(slots=True)
class _Group:
    """The state of a group.

    Attributes:
        permitted: UIDs of pods that reached Permit, and did not fail since.
        waiting: by UID, pods that were told to wait and neither allowed nor rejected since.
        turned_away: pods that were rejected because of the group, and that nothing else wakes; not
            all of them where they are many.
        probe: the pod that is tried when the backoff ends; the others follow when a pod of the
            group reaches Permit.
        wake_all: whether a pod reached Permit since the group was last given up.
        given_up: how often in a row the group was given up.
        denied_until_s: the end of the backoff.
        may_be_more: whether pods were turned away that are not remembered: by an earlier process,
            before the group itself was forgotten, or more than are remembered.
    """

    permitted: set[str] = field(default_factory=set)
    waiting: dict[str, _Told] = field(default_factory=dict)
    turned_away: OrderedDict[str, core.Pod] = field(default_factory=OrderedDict)
    probe: core.Pod | None = None
    wake_all: bool = False
    given_up: int = 0
    denied_until_s: float = float("-inf")
    may_be_more: bool = True
    roster: _Roster | None = None
    settle_timer: asyncio.TimerHandle | None = None
    wake_timer: asyncio.TimerHandle | None = None


class Coscheduling:
    """Gangs without a PodGroup resource.

    PreEnqueue keeps the pods of a group in the queue until enough of them exist, and PreFilter
    rejects pods whose group cannot be complete. Permit holds a pod until its group is complete.
    When one pod of a group times out, or is rejected after Permit, the plugin rejects all held pods
    of the group. The plugin activates them when another pod of the group reaches Permit.
    """

    name = "Coscheduling"
    Args = CoschedulingArgs
    needs_pods = True

    def __init__(
        self,
        args: CoschedulingArgs,
        handle: Handle,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._args = args
        self._handle = handle
        self._clock = clock
        self._lock = threading.Lock()
        self._groups: OrderedDict[_Key, _Group] = OrderedDict()
        # What PreEnqueue counted; only the thread of the queue looks at it.
        self._gathering: OrderedDict[_Key, _Roster] = OrderedDict()
        self._loop: asyncio.AbstractEventLoop | None = None
        config = handle.configuration
        # The queue removes this gate by itself; nobody knows when another gate goes.
        self._own_gates = {config.queue.gate} if config is not None and config.queues else set()

    def pre_enqueue(self, pod: core.Pod) -> Status | None:
        """Hold the pod back in the queue while its group has fewer pods than its minimum.

        kube-scheduler would try each of them again and again, and other pods would wait meanwhile.

        Source: kubernetes v1.36 pkg/scheduler/framework/plugins/gangscheduling/gangscheduling.go
        """
        try:
            gang = self._gang_of(pod)
        except TruncatedPodError:
            # kube-scheduler shows PreFilter the whole pod.
            return None
        if gang is None:
            return None
        if gang.min_available is None:
            return Status.unresolvable(_NO_NUMBER, f"in {self._args.min_available_key}")
        try:
            there = self._gathered(gang.key).there
        except TruncatedPodError as error:
            return Status.unresolvable(_unlisted(error))
        there.add(pod.uid)
        if len(there) < gang.min_available:
            return Status.unresolvable(_TOO_FEW, f"{len(there)} of {gang.min_available}")
        return None

    def pre_filter(self, state: CycleState, pod: core.Pod, nodes: core.Nodes) -> Status | None:
        """Reject the pod if its group cannot be complete, or was rejected a moment ago."""
        del state, nodes
        gang = self._gang_of(pod)
        if gang is None:
            return None
        if gang.min_available is None:
            return Status.unresolvable(_NO_NUMBER, f"in {self._args.min_available_key}")
        group = self._group(gang.key)
        if self._clock() < group.denied_until_s:
            self._turn_away(group, pod)
            with self._lock:
                group.probe = group.probe or pod
            return Status.unresolvable(_DENIED)
        try:
            there = self._roster(gang.key, group).there
        except TruncatedPodError as error:
            self._turn_away(group, pod)
            return Status.unresolvable(_unlisted(error))
        with self._lock:
            there.add(pod.uid)
            number = len(there)
        if number < gang.min_available:
            self._turn_away(group, pod)
            return Status.unresolvable(_TOO_FEW, f"{number} of {gang.min_available}")
        return None

    def post_filter(
        self, state: CycleState, pod: core.Pod, rejections: Sequence[Rejection]
    ) -> Status:
        """Give up a group of which one pod fits nowhere, unless the group may still be complete."""
        del state, rejections
        gang = self._gang_of(pod)
        if gang is None or gang.min_available is None:
            return Status.unschedulable("the pod belongs to no pod group")
        group = self._group(gang.key)
        try:
            missing = gang.min_available - self._counted(gang.key, group)
        except TruncatedPodError as error:
            return Status.unschedulable(_unlisted(error))
        if missing <= gang.min_available * _SMALL_GAP:
            return Status.unschedulable("the pod group may still become complete")
        if group.waiting and self._loop is not None:
            self._loop.call_soon_threadsafe(self._give_up, gang.key, group)
        return Status.unschedulable(_GIVEN_UP, f"{missing} of {gang.min_available} are missing")

    async def reserve(self, state: CycleState, pod: core.Pod, node_name: str) -> None:
        """Do nothing: a pod counts from Permit on, when every Reserve has let it pass."""

    async def unreserve(self, state: CycleState, pod: core.Pod, node_name: str) -> None:
        """Send the whole group back together with one of its pods."""
        del state, node_name
        gang = self._gang_of(pod)
        if gang is None:
            return
        group = self._group(gang.key)
        group.permitted.discard(pod.uid)
        group.waiting.pop(pod.uid, None)
        self._turn_away(group, pod)
        self._give_up(gang.key, group)

    async def post_bind(self, state: CycleState, pod: core.Pod, node_name: str) -> None:
        """Note that the pod waits no longer, whoever let it in."""
        del state, node_name
        gang = self._gang_of(pod)
        if gang is not None:
            self._group(gang.key).waiting.pop(pod.uid, None)

    async def permit(
        self, state: CycleState, pod: core.Pod, node_name: str
    ) -> Status | tuple[Status, float]:
        """Hold the pod until its group is complete, then let all pods of the group in."""
        del state, node_name
        gang = self._gang_of(pod)
        if gang is None:
            return Status.success()
        if gang.min_available is None:
            return Status.unresolvable(_NO_NUMBER)
        self._loop = asyncio.get_running_loop()
        group = self._group(gang.key)
        with self._lock:
            group.turned_away.pop(pod.uid, None)
        group.permitted.add(pod.uid)
        try:
            complete = self._is_complete(gang.key, gang.min_available, group)
            number = self._counted(gang.key, group)
        except TruncatedPodError as error:
            return Status.unresolvable(_unlisted(error))
        self._wake_later(gang.key, group)
        if complete:
            group.given_up = 0
            self._settle(group, self._allow)
            return Status.success()
        now_s = asyncio.get_running_loop().time()
        group.waiting[pod.uid] = _Told(now_s + _LONGEST_PERMIT_S)
        detail = f"{number} of {gang.min_available}"
        return Status.wait(_WAITING, detail), float(self._args.permit_waiting_time_seconds)

    def _gang_of(self, pod: core.Pod) -> _Gang | None:
        labels = pod.labels
        name = labels.get(self._args.pod_group_label)
        if not name:
            return None
        key = self._args.min_available_key
        text = labels.get(key) or pod.annotations.get(key) or ""
        number = int(text) if _NUMBER.fullmatch(text) else None
        return _Gang((pod.scheduler_name, pod.namespace, name), number)

    def _group(self, key: _Key) -> _Group:
        with self._lock:
            group = self._groups.setdefault(key, _Group())
            self._groups.move_to_end(key)
            if len(self._groups) > _GROUPS:
                self._forget_one()
        return group

    def _forget_one(self) -> None:
        idle = next((key for key, group in self._groups.items() if not group.waiting), None)
        if idle is not None:
            del self._groups[idle]

    def _members(self, key: _Key) -> list[core.Pod]:
        """Return the pods of a group that run, or that kube-scheduler may place in this profile.

        A running pod counts, whoever placed it. A pod without a node may never get one if it
        belongs to another scheduler, or has a gate that is not the queue's.
        """
        scheduler_name, namespace, name = key
        pods = self._handle.labelled_pods(namespace, self._args.pod_group_label, name)
        return [
            pod
            for pod in pods
            if pod.deletion_timestamp is None
            and (pod.node_name or self._may_be_placed(pod, scheduler_name))
        ]

    def _may_be_placed(self, pod: core.Pod, scheduler_name: str) -> bool:
        return pod.scheduler_name == scheduler_name and self._own_gates.issuperset(
            pod.scheduling_gates
        )

    def _counted(self, key: _Key, group: _Group) -> int:
        """Count the pods that run, or reached Permit and did not fail since: an upper bound."""
        bound = self._roster(key, group).bound
        return len(group.permitted) + len(bound - group.permitted)

    def _is_complete(self, key: _Key, min_available: int, group: _Group) -> bool:
        """Return whether enough pods run or are about to, without those deleted or rejected."""
        if self._counted(key, group) < min_available:
            return False
        if group.waiting:
            group.roster = self._listed(key, group)
        gives_up = self._handle.waiting_pods.gives_up
        about_to = {uid for uid in group.permitted if not gives_up(uid)}
        return len(about_to | self._roster(key, group).bound) >= min_available

    def _roster(self, key: _Key, group: _Group) -> _Roster:
        """Return the last list of the group's pods; the list of a large group is kept longer."""
        roster = group.roster
        if roster is None or self._clock() >= roster.until_s:
            roster = group.roster = self._listed(key, group)
        return roster

    def _gathered(self, key: _Key) -> _Roster:
        """Return the last list of a group's pods for PreEnqueue, which changes no group."""
        roster = self._gathering.pop(key, None)
        if roster is None or self._clock() >= roster.until_s:
            uids = {pod.uid for pod in self._members(key)}
            roster = _Roster(uids, set(), self._clock() + len(uids) / _LISTED_PER_S)
        self._gathering[key] = roster
        if len(self._gathering) > _GROUPS:
            self._gathering.popitem(last=False)
        return roster

    def _listed(self, key: _Key, group: _Group) -> _Roster:
        """List the group's pods as they are now; pods that are gone are no longer permitted."""
        permitted = set(group.permitted)
        members = self._members(key)
        assumed = self._handle.assumed_pods()
        uids = {pod.uid for pod in members}
        # A pod may reach Permit on the event loop while a thread lists.
        group.permitted -= permitted - uids
        return _Roster(
            there=uids,
            bound={pod.uid for pod in members if pod.node_name and pod.uid not in assumed},
            until_s=self._clock() + len(members) / _LISTED_PER_S,
        )

    def _turn_away(self, group: _Group, pod: core.Pod) -> None:
        with self._lock:
            if len(group.turned_away) < _TURNED_AWAY:
                group.turned_away[pod.uid] = pod
            else:
                group.may_be_more |= pod.uid not in group.turned_away

    def _give_up(self, key: _Key, group: _Group) -> None:
        """Reject all held pods of a group; call this on the event loop."""
        group.wake_all = False
        now_s = self._clock()
        if now_s >= group.denied_until_s:
            backoff_s = self._args.pod_group_backoff_seconds * 2.0 ** min(group.given_up, 10)
            backoff_s = min(backoff_s, _LONGEST_BACKOFF_S)
            group.given_up += 1
            group.denied_until_s = now_s + backoff_s
            if group.wake_timer is not None:
                group.wake_timer.cancel()
            self._wake_in(backoff_s, key, group)
        self._settle(group, self._reject)

    def _allow(self, held: HeldPod) -> None:
        held.allow(self.name)

    def _reject(self, held: HeldPod) -> None:
        held.reject(self.name, _GIVEN_UP)

    def _settle(self, group: _Group, decide: Callable[[HeldPod], None]) -> None:
        """Decide for the pods that were told to wait; call this on the event loop."""
        for told in group.waiting.values():
            told.decide = decide
        self._carry_out(group)

    def _carry_out(self, group: _Group) -> None:
        """Carry the decision out for each pod that is held.

        A pod is held only after every Permit plugin has answered, so it may come later. A pod that
        is no longer assumed is bound or gone.
        """
        loop = asyncio.get_running_loop()
        if group.settle_timer is not None:
            group.settle_timer.cancel()
            group.settle_timer = None
        late = []
        for uid, told in list(group.waiting.items()):
            if told.decide is None:
                continue
            held = self._handle.waiting_pods.get(uid)
            if held is None:
                late.append(uid)
            else:
                del group.waiting[uid]
                told.decide(held)
        assumed = self._handle.assumed_pods() if late else frozenset()
        for uid in late:
            if uid not in assumed or loop.time() >= group.waiting[uid].until_s:
                del group.waiting[uid]
            elif group.settle_timer is None:
                again = loop.call_later(_SETTLE_AGAIN_S, self._carry_out, group)
                group.settle_timer = again

    def _wake_later(self, key: _Key, group: _Group) -> None:
        """Activate the pods that were turned away, once they would no longer be turned away."""
        group.wake_all = True
        if group.wake_timer is None:
            self._wake_in(group.denied_until_s - self._clock(), key, group)

    def _wake_in(self, seconds: float, key: _Key, group: _Group) -> None:
        if seconds > 0:
            loop = asyncio.get_running_loop()
            group.wake_timer = loop.call_later(seconds, self._wake, key, group)
        else:
            self._wake(key, group)

    def _wake(self, key: _Key, group: _Group) -> None:
        """Activate some of the pods that were turned away, and the rest in the next seconds."""
        group.wake_timer = None
        # While pods cannot be listed none reaches Permit: the next that does recalls the others.
        with suppress(TruncatedPodError):
            self._recall(key, group)
        with self._lock:
            pods = self._to_wake(group)
        if pods:
            self._handle.activate(pods)
        if group.wake_all and group.turned_away:
            self._wake_in(1.0, key, group)

    def _recall(self, key: _Key, group: _Group) -> None:
        """Pods that are not remembered, and that were turned away for all that is known, are."""
        if not (group.wake_all and group.may_be_more):
            return
        parked = [pod for pod in self._members(key) if _may_be_parked(pod)]
        with self._lock:
            group.may_be_more = False
            for pod in parked:
                group.turned_away.setdefault(pod.uid, pod)

    def _to_wake(self, group: _Group) -> list[core.Pod]:
        probe, group.probe = group.probe, None
        if not group.wake_all:
            # No pod has reached Permit: one pod finds out whether that is still so.
            if probe is None or probe.uid in group.permitted:
                return []
            group.turned_away.pop(probe.uid, None)
            return [probe]
        for uid in group.permitted & group.turned_away.keys():
            del group.turned_away[uid]
        size = len(group.turned_away)
        number = min(size, max(_WOKEN_PER_S, -(-size // _WAKE_WITHIN_S)))
        return [group.turned_away.popitem(last=False)[1] for _ in range(number)]


def _may_be_parked(pod: core.Pod) -> bool:
    """Whether kube-scheduler has called the pod unschedulable, and asks about it no more."""
    unplaced = not (pod.node_name or pod.scheduling_gates)
    return unplaced and pod.scheduled_reason == "Unschedulable"


def _unlisted(error: TruncatedPodError) -> str:
    """Why no group of a namespace can be counted: one of its pods is kept without its labels."""
    return f"{_UNLISTED}: {error}"
