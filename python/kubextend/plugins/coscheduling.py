"""Coscheduling: pods of a group run together, or none of them does.

A pod names its group and how many pods have to run for any of them to be of use. Permit holds each
pod on its node until that many are held or run; kube-scheduler keeps its room meanwhile.
Source: kubernetes-sigs/scheduler-plugins pkg/coscheduling, with the group written on its pods
"""

import asyncio
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from kubextend import core
from kubextend.framework.cycle_state import CycleState
from kubextend.framework.handle import Handle, HeldPod
from kubextend.framework.plugin import Rejection
from kubextend.framework.status import Status

__all__ = ["Coscheduling", "CoschedulingArgs"]

_NUMBER = re.compile(r"[1-9][0-9]{0,5}", re.ASCII)
# A gap of a tenth may close by itself: such a group is not given up for one of its pods.
_SMALL_GAP = 0.1
_SETTLE_AGAIN_S = 0.2
_GROUPS = 4096
_TURNED_AWAY = 4096

_NO_NUMBER = "pod of a pod group does not say how many pods are the minimum"
_TOO_FEW = "pod group has fewer pods than its minimum"
_DENIED = "pod group was rejected a moment ago"
_WAITING = "waiting for other pods of the pod group"
_GIVEN_UP = "pod group was rejected because of another of its pods"

_Key = tuple[str, str]


class CoschedulingArgs(BaseModel):
    """Which pods belong together, and how long they wait for each other.

    Attributes:
        pod_group_label: its value is the name of the pod's group, within the namespace.
        min_available_key: the label or annotation that holds how many pods have to run; all pods of
            a group say the same.
        permit_waiting_time_seconds: how long a pod is held. Longer than the configuration lets a
            Permit wait last has no effect.
        pod_group_backoff_seconds: for how long no pod of a rejected group is looked at.
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", alias_generator=to_camel, validate_by_name=False
    )

    pod_group_label: str = Field(default="scheduling.x-k8s.io/pod-group", min_length=1)
    min_available_key: str = Field(
        default="pod-group.scheduling.sigs.k8s.io/min-available", min_length=1
    )
    permit_waiting_time_seconds: int = Field(default=60, ge=1, le=900)
    # Rejected pods are tried again after 10 s, and what they find must not be a backoff.
    pod_group_backoff_seconds: float = Field(default=3.0, ge=0, le=9)


@dataclass(frozen=True, slots=True)
class _Gang:
    """What a pod says of its group."""

    key: _Key
    min_available: int | None


@dataclass(slots=True)
class _Group:
    """What happened to the pods of a group.

    Attributes:
        waiting: by UID, those that were told to wait and neither allowed nor rejected since.
        turned_away: those that were rejected for the group's sake, which nothing else wakes.
        denied_until_s: the end of the backoff.
        met_before: pods may have been turned away by a process before this one.
    """

    waiting: dict[str, core.Pod] = field(default_factory=dict)
    turned_away: OrderedDict[str, core.Pod] = field(default_factory=OrderedDict)
    denied_until_s: float = float("-inf")
    met_before: bool = True


class Coscheduling:
    """Gangs, without a PodGroup resource.

    PreFilter rejects pods whose group cannot be complete. Permit holds a pod until the group is.
    When one pod of a group times out, or is rejected after Permit, all that are held are rejected.
    They are activated when another pod of the group comes as far as Permit.
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
        self._began = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        self._lock = threading.Lock()
        self._groups: OrderedDict[_Key, _Group] = OrderedDict()
        self._loop: asyncio.AbstractEventLoop | None = None

    def pre_filter(self, state: CycleState, pod: core.Pod, nodes: core.Nodes) -> Status | None:
        """Rejects the pod where its group cannot be complete, or was rejected a moment ago."""
        del state, nodes
        gang = self._gang_of(pod)
        if gang is None:
            return None
        if gang.min_available is None:
            return Status.unresolvable(_NO_NUMBER, f"in {self._args.min_available_key}")
        group = self._group(gang.key)
        if self._clock() < group.denied_until_s:
            self._turn_away(group, pod)
            return Status.unresolvable(_DENIED)
        there = {each.uid for each in self._members(gang.key) if not each.scheduling_gates}
        there.add(pod.uid)
        if len(there) < gang.min_available:
            self._turn_away(group, pod)
            return Status.unresolvable(_TOO_FEW, f"{len(there)} of {gang.min_available}")
        return None

    def post_filter(
        self, state: CycleState, pod: core.Pod, rejections: Sequence[Rejection]
    ) -> Status:
        """Where one pod of a group fits nowhere, most likely others do not either."""
        del state, rejections
        gang = self._gang_of(pod)
        if gang is None or gang.min_available is None:
            return Status.unschedulable("the pod belongs to no pod group")
        missing = gang.min_available - len(self._placed(gang.key))
        if missing <= gang.min_available * _SMALL_GAP:
            return Status.unschedulable("the pod group may still become complete")
        group = self._group(gang.key)
        if group.waiting and self._loop is not None:
            self._loop.call_soon_threadsafe(self._give_up, group)
        return Status.unschedulable(_GIVEN_UP, f"{missing} of {gang.min_available} are missing")

    def reserve(self, state: CycleState, pod: core.Pod, node_name: str) -> None:
        """Nothing: the ledger of assumed pods has what is needed."""

    async def unreserve(self, state: CycleState, pod: core.Pod, node_name: str) -> None:
        """With one of its pods the whole group is sent back."""
        del state, node_name
        gang = self._gang_of(pod)
        if gang is None:
            return
        group = self._group(gang.key)
        group.waiting.pop(pod.uid, None)
        self._turn_away(group, pod)
        self._give_up(group)

    async def permit(
        self, state: CycleState, pod: core.Pod, node_name: str
    ) -> Status | tuple[Status, float]:
        """Holds the pod until its group is complete, then lets all of them in."""
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
        placed = self._placed(gang.key) | {pod.uid}
        if len(placed) >= gang.min_available:
            self._settle(group, list(group.waiting), self._allow)
            return Status.success()
        group.waiting[pod.uid] = pod
        self._wake_later(gang.key, group)
        detail = f"{len(placed)} of {gang.min_available}"
        return Status.wait(_WAITING, detail), float(self._args.permit_waiting_time_seconds)

    def _gang_of(self, pod: core.Pod) -> _Gang | None:
        labels = pod.labels
        name = labels.get(self._args.pod_group_label)
        if not name:
            return None
        key = self._args.min_available_key
        text = labels.get(key) or pod.annotations.get(key) or ""
        number = int(text) if _NUMBER.fullmatch(text) else None
        return _Gang((pod.namespace, name), number)

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
        """The pods of a group that are there to stay."""
        namespace, name = key
        pods = self._handle.labelled_pods(namespace, self._args.pod_group_label, name)
        return [pod for pod in pods if pod.deletion_timestamp is None]

    def _placed(self, key: _Key) -> set[str]:
        """UIDs of those that run or are about to: bound, held, or between the two."""
        return {pod.uid for pod in self._members(key) if pod.node_name}

    def _turn_away(self, group: _Group, pod: core.Pod) -> None:
        with self._lock:
            group.turned_away[pod.uid] = pod
            if len(group.turned_away) > _TURNED_AWAY:
                group.turned_away.popitem(last=False)

    def _give_up(self, group: _Group) -> None:
        """Rejects all pods of a group that are held; on the event loop."""
        group.denied_until_s = self._clock() + self._args.pod_group_backoff_seconds
        self._settle(group, list(group.waiting), self._reject)

    def _allow(self, held: HeldPod) -> None:
        held.allow(self.name)

    def _reject(self, held: HeldPod) -> None:
        held.reject(self.name, _GIVEN_UP)

    def _settle(
        self, group: _Group, uids: Iterable[str], decide: Callable[[HeldPod], None]
    ) -> None:
        """Decides for pods that were told to wait; on the event loop.

        A pod is held only after every Permit plugin has been asked about it, so it may come later.
        """
        late = []
        for uid in uids:
            if uid not in group.waiting:
                continue
            held = self._handle.waiting_pods.get(uid)
            if held is None:
                late.append(uid)
            else:
                del group.waiting[uid]
                decide(held)
        if late:
            loop = asyncio.get_running_loop()
            loop.call_later(_SETTLE_AGAIN_S, self._settle, group, late, decide)

    def _wake_later(self, key: _Key, group: _Group) -> None:
        """Activates those that were turned away, once they would not be turned away again."""
        if group.met_before:
            group.met_before = False
            for older in filter(self._is_older, self._members(key)):
                self._turn_away(group, older)
        if not group.turned_away:
            return
        backoff_s = group.denied_until_s - self._clock()
        if backoff_s > 0:
            asyncio.get_running_loop().call_later(backoff_s, self._wake, group)
        else:
            self._wake(group)

    def _is_older(self, pod: core.Pod) -> bool:
        """Whether a process before this one may have turned it away."""
        return not pod.node_name and pod.creation_timestamp < self._began

    def _wake(self, group: _Group) -> None:
        with self._lock:
            pods = [pod for uid, pod in group.turned_away.items() if uid not in group.waiting]
            group.turned_away.clear()
        if pods:
            self._handle.activate(pods)
