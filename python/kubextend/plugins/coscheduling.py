"""Coscheduling: gang scheduling, in which the pods of a group run together or not at all.

Each pod names its group and the least number of pods of the group that have to run together. The
plugin's Permit holds a pod, for which kube-scheduler chose a node, until that many pods of the
group are held or run. kube-scheduler keeps the resources of held pods reserved. A pod that names a
PodGroup in ``spec.schedulingGroup`` belongs to kube-scheduler's own gang scheduling, and to no
group of this plugin.

Source: kubernetes-sigs/scheduler-plugins pkg/coscheduling; here labels of the pods define the group
"""

import asyncio
import itertools
import logging
import re
import threading
import time
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from pydantic import Field

from kubextend import core
from kubextend.errors import TruncatedObjectError, TruncatedPodError
from kubextend.framework.args_model import ArgsModel
from kubextend.framework.cycle_state import CycleState
from kubextend.framework.handle import Handle, HeldPod
from kubextend.framework.informer import KubeObject
from kubextend.framework.plugin import Rejection
from kubextend.framework.status import Status

__all__ = ["Coscheduling", "CoschedulingArgs", "GangArgs", "Gangs", "may_be_parked", "unlisted"]

_LOGGER = logging.getLogger(__name__)

_NUMBER = re.compile(r"[1-9][0-9]{0,5}", re.ASCII)
# PostFilter does not give up a group that lacks at most this share of its minimum.
_SMALL_GAP = 0.1
_SETTLE_AGAIN_S = 0.2
# After filter, kube-scheduler calls preempt and nominates the pod at once.
_PREEMPTION_S = 1.0
_LONGEST_BACKOFF_S = 60.0
# Listing a group of 3,200 pods takes 4 ms, so a list of n pods is used for n / 5,000 s.
_LISTED_PER_S = 5000
_WOKEN_PER_S = 100
# A tenth of the pods, and at least 100, are activated each second: 4,096 pods within 24 s.
_WAKE_WITHIN_S = 10
_GROUPS = 4096
# A group that is in use is looked at again when so many other groups were asked for.
_LOOKS = 32
# How many rejected pods are remembered of one group, and of all groups together if each has as
# many. Groups that had theirs while there were fewer groups make that seven times as many at most:
# 45 MB of UIDs.
_TURNED_AWAY = 4096
_ALL_TURNED_AWAY = 32768
_COMPLETED_PODS = "pods?status.phase=Succeeded"
# For so many runs of groups, the deleted ones of their completed pods are counted: 10 MB.
_RUNS = 32768
# No namespace, label, scheduler name or UID of the API is longer.
_LONGEST_NAME = 253

_NO_NUMBER = "pod of a pod group does not say how many pods are the minimum"
_TOO_FEW = "pod group has fewer pods than its minimum"
_DENIED = "pod group was rejected a moment ago"
_WAITING = "waiting for other pods of the pod group"
_GIVEN_UP = "pod group was rejected because of another of its pods"
_UNLISTED = "pods of the pod group cannot be listed"

_Key = tuple[str, str, str]
"""Scheduler name, namespace and name of a group."""

_Run = tuple[str, str, str]
"""Namespace and name of a group, and the value of the label that tells its runs apart."""

_Decision = Callable[[HeldPod], None]
"""Allows or rejects a pod once Permit holds it."""


class GangArgs(ArgsModel):
    """Arguments of every plugin that holds gangs: the label of a group, and how long pods wait.

    Attributes:
        pod_group_label: the label with the name of the pod's group, unique within the namespace.
        permit_waiting_time_seconds: how many seconds Permit holds a pod; at most as long as the
            configuration allows for Permit.
        pod_group_backoff_seconds: for how many seconds every pod of a rejected group is rejected.
            Each rejection of the group in a row doubles the time, up to a minute.
        run_label: the label whose value tells the runs of a group apart: completed pods count
            towards the minimum of pods with the same value. Pods without the label have the same.
    """

    pod_group_label: str = Field(default="scheduling.x-k8s.io/pod-group", min_length=1)
    permit_waiting_time_seconds: int = Field(default=60, ge=1, le=900)
    # kube-scheduler retries pods rejected after Permit after 10 s; the first backoff is shorter.
    pod_group_backoff_seconds: float = Field(default=3.0, ge=0, le=9)
    # The UID of the Job.
    run_label: str = "batch.kubernetes.io/controller-uid"


class CoschedulingArgs(GangArgs):
    """Arguments of Coscheduling: the labels that form a group, and how long a group's pods wait.

    Attributes:
        min_available_key: the label or annotation with the least number of pods of the group that
            have to run together; equal on all pods of a group.
    """

    min_available_key: str = Field(
        default="pod-group.scheduling.sigs.k8s.io/min-available", min_length=1
    )


@dataclass(frozen=True, slots=True)
class _Gang:
    """The pod group that the label of a pod names.

    Attributes:
        key: scheduler name, namespace and name of the group.
        min_available: the least number of pods that have to run together, without those that have
            completed; None: not a valid number.
    """

    key: _Key
    min_available: int | None


@dataclass(slots=True)
class _Roster:
    """The pods of a group when they were last listed.

    Attributes:
        there: UIDs of the pods that run or that kube-scheduler may place, and of the pods for which
            PreEnqueue or PreFilter was called since.
        bound: by UID, the node of each pod that the watch shows on a node.
        until_s: when to list the pods again, in monotonic seconds.
    """

    there: set[str]
    bound: dict[str, str]
    until_s: float


@dataclass(slots=True)
class _Group:
    """What Coscheduling remembers about one pod group.

    Attributes:
        permitted: by UID, the node of each pod that reached Permit, and has not failed since.
        waiting: by UID, what is decided of each pod that this plugin allows or rejects once Permit
            holds the pod; None: nothing yet.
        sent_back: UIDs of the pods that were rejected together last: when one of them fails, no
            other pod of the group is rejected again.
        turned_away: UIDs of pods that were rejected because of the group and that only this plugin
            activates, the first one first; True: the watch did not show the pod when it was to be
            activated. The pods themselves, which may be deleted by now, would take any amount of
            memory.
        probe: the UID of the one pod to activate when the backoff ends; the other pods are
            activated when a pod of the group reaches Permit.
        wake_all: whether a pod reached Permit since the plugin last rejected the group's held pods.
        given_up: how often in a row the plugin rejected the group's held pods.
        denied_until_s: the end of the group's backoff, in which its pods are rejected, in monotonic
            seconds.
        may_be_more: whether more pods may have been rejected because of the group than
            ``turned_away`` holds: by an earlier process, before the group itself was forgotten,
            beyond the limit, or earlier than the watch showed the pod.
        roster: the pods of the group when they were last listed; None: not listed yet.
        settle_timer: runs ``_carry_out`` again for decided pods that are not held yet.
        wake_timer: activates rejected pods when the backoff is over, or a second later.
        give_up_timer: rejects the held pods after PostFilter, unless preemption helps the group or
            the plugin allows or rejects them before.
    """

    permitted: dict[str, str] = field(default_factory=dict)
    waiting: dict[str, _Decision | None] = field(default_factory=dict)
    sent_back: set[str] = field(default_factory=set)
    turned_away: dict[str, bool] = field(default_factory=dict)
    probe: str = ""
    wake_all: bool = False
    given_up: int = 0
    denied_until_s: float = float("-inf")
    may_be_more: bool = True
    roster: _Roster | None = None
    settle_timer: asyncio.TimerHandle | None = None
    wake_timer: asyncio.TimerHandle | None = None
    give_up_timer: asyncio.TimerHandle | None = None


class Gangs:
    """Schedules the pods of a group together or not at all; a subclass says what a group needs.

    PreEnqueue keeps the pods of a group in the queue until enough of them exist, and PreFilter
    rejects pods whose group cannot be complete. Permit holds a pod until its group is complete.
    When one pod of a group times out, or is rejected after Permit, the plugin rejects all held pods
    of the group. The plugin makes kube-scheduler retry the rejected pods when another pod of the
    group reaches Permit.
    """

    name = ""
    needs_pods = True
    informers: tuple[str, ...] = (_COMPLETED_PODS,)

    def __init__(
        self, args: GangArgs, handle: Handle, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._args = args
        self._handle = handle
        self._clock = clock
        self._lock = threading.Lock()
        self._groups: OrderedDict[_Key, _Group] = OrderedDict()
        # The pods of each group as PreEnqueue listed them; only the thread of the queue reads this.
        self._gathering: OrderedDict[_Key, _Roster] = OrderedDict()
        # Completed pods are on no node, and in no pod store.
        self._completed = handle.informer(_COMPLETED_PODS)
        self._completed.add_index("run", self._runs_of)
        self._completed.on_change(self._completed_changed)
        self._deleted: OrderedDict[_Run, int] = OrderedDict()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._left_one = False
        config = handle.configuration
        # kubextend's queue removes its own gate; when another gate is removed is unknown.
        self._own_gates = {config.queue.gate} if config is not None and config.queues else set()

    def minimum(self, pod: core.Pod, group: str) -> int | None:
        """Return how many pods of a pod's group have to run together; None: nobody says that."""
        raise NotImplementedError

    def no_minimum(self) -> Status:
        """Return the rejection of a pod for whose group ``minimum`` is None."""
        raise NotImplementedError

    def wait_s(self, pod: core.Pod, group: str) -> float:
        """Return for how many seconds Permit holds a pod of a group."""
        del pod, group
        return float(self._args.permit_waiting_time_seconds)

    def pre_enqueue(self, pod: core.Pod) -> Status | None:
        """Hold the pod back in the queue while its pod group has fewer pods than the minimum.

        If the queue released the pods of a group that is too small, kube-scheduler would retry each
        pod again and again, and delay all other pods.

        Returns: a rejection while the pod has to wait; None: the queue may release the pod.

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
            return self.no_minimum()
        try:
            there = self._gathered(gang.key).there
        except TruncatedPodError as error:
            return Status.unresolvable(unlisted(error))
        there.add(pod.uid)
        if len(there) < gang.min_available:
            return Status.unresolvable(_TOO_FEW, f"{len(there)} of {gang.min_available}")
        return None

    def pre_filter(self, state: CycleState, pod: core.Pod, nodes: core.Nodes) -> Status | None:
        """Return a rejection if the pod's group is too small or was rejected lately, else None."""
        del state, nodes
        gang = self._gang_of(pod)
        if gang is None:
            return None
        if gang.min_available is None:
            return self.no_minimum()
        group = self._group(gang.key)
        if self._clock() < group.denied_until_s:
            self._turn_away(group, pod)
            with self._lock:
                group.probe = group.probe or pod.uid
            return Status.unresolvable(_DENIED)
        try:
            there = self._roster(gang.key, group).there
        except TruncatedPodError as error:
            self._turn_away(group, pod)
            return Status.unresolvable(unlisted(error))
        with self._lock:
            there.add(pod.uid)
            number = len(there)
        if number < gang.min_available:
            self._turn_away(group, pod)
            return Status.unresolvable(_TOO_FEW, f"{number} of {gang.min_available}")
        return None

    def unblock(self, pod: core.Pod, node: core.NodeInfo | None) -> str:
        """Return how many pods the pod's group lacks, or for how long it is rejected."""
        gang = self._gang_of(pod)
        if gang is None or node is not None:
            return ""
        name = gang.key[2]
        if gang.min_available is None:
            return f"a valid number {self.no_minimum().detail}"
        group = self._group(gang.key)
        least, there = gang.min_available, len(self._roster(gang.key, group).there)
        if there < least:
            return f"{least - there} more pods of the pod group {name}: {there} of {least} exist"
        if (rest_s := group.denied_until_s - self._clock()) > 0:
            return f"the end of the rejection of the pod group {name}, in {rest_s:.0f} s"
        number = self._counted(gang.key, group)
        whose = f"more pods of the pod group {name}: {number} of {least} have one"
        return f"a node for {least - number} {whose}" if number < least else ""

    def post_filter(
        self, state: CycleState, pod: core.Pod, rejections: Sequence[Rejection]
    ) -> Status:
        """Reject the held pods of a group whose pod fits no node, if too many pods are missing.

        The held pods stay while at most 10 % of the group's minimum are missing. They are rejected
        a second later, if more than 10 % are still missing then and no pod of the group is
        nominated to a node. kube-scheduler looks for pods to evict only after this call, and in
        kube-scheduler this plugin is not asked about a pod for which preemption helps.

        Returns: a status that says whether the group's pods are to be rejected; kubextend only logs
            the status.
        """
        del state, rejections
        gang = self._gang_of(pod)
        if gang is None or gang.min_available is None:
            return Status.unschedulable("the pod belongs to no pod group")
        group = self._group(gang.key)
        try:
            missing = self._missing(gang.key, gang.min_available, group)
        except TruncatedPodError as error:
            return Status.unschedulable(unlisted(error))
        if not missing:
            return Status.unschedulable("the pod group may still become complete")
        if group.waiting and self._loop is not None:
            least = gang.min_available
            self._loop.call_soon_threadsafe(self._give_up_later, gang.key, least, group)
        return Status.unschedulable(_GIVEN_UP, f"{missing} of {gang.min_available} are missing")

    async def reserve(self, state: CycleState, pod: core.Pod, node_name: str) -> None:
        """Do nothing: only ``permit``, which runs after Reserve, adds the pod to its group."""

    async def unreserve(self, state: CycleState, pod: core.Pod, node_name: str) -> None:
        """Reject all held pods of the pod's group, because the binding cycle of the pod failed.

        If the group is complete without the pod, the held pods are allowed instead. The group's
        backoff begins only if the pod failed while it waited for its group, or before: a pod of a
        group that was complete has to wait for no other pod.
        """
        del state, node_name
        key = self._key_of(pod)
        if key is None:
            return
        group = self._group(key)
        undecided = group.waiting.pop(pod.uid, self._allow) is None
        was_decided = group.permitted.pop(pod.uid, None) is not None and not undecided
        was_sent_back = pod.uid in group.sent_back
        group.sent_back.discard(pod.uid)
        if self._needs_no_more(key, pod, group):
            # Another scheduler may have placed a pod of the group since Permit counted last.
            self._let_in(group)
            return
        self._turn_away(group, pod)
        if was_sent_back:
            return
        if was_decided:
            self._send_back(group)
        else:
            self._give_up(key, group)

    async def pre_bind(self, state: CycleState, pod: core.Pod, node_name: str) -> Status | None:
        """Reject the pod if its group was rejected before Permit held the pod; else return None.

        Another Permit plugin may still have been asked about the pod then, and nobody can reject a
        pod before Permit holds it.
        """
        del state, node_name
        key = self._key_of(pod)
        if key is None or self._group(key).waiting.get(pod.uid) != self._reject:
            return None
        return Status.unschedulable(_GIVEN_UP)

    async def post_bind(self, state: CycleState, pod: core.Pod, node_name: str) -> None:
        """Record that the pod, now bound, no longer waits for its group."""
        del state, node_name
        key = self._key_of(pod)
        if key is not None:
            self._group(key).waiting.pop(pod.uid, None)

    async def permit(
        self, state: CycleState, pod: core.Pod, node_name: str
    ) -> Status | tuple[Status, float]:
        """Hold the pod while its group is incomplete, else allow all held pods of the group.

        Returns: success if the group is complete, a rejection, or ``Status.wait()`` with the
            seconds to hold the pod.
        """
        del state
        gang = self._gang_of(pod)
        if gang is None:
            return Status.success()
        if gang.min_available is None:
            return self.no_minimum()
        self._loop = asyncio.get_running_loop()
        group = self._group(gang.key)
        with self._lock:
            group.turned_away.pop(pod.uid, None)
        group.permitted[pod.uid] = node_name
        try:
            complete = self._is_complete(gang.key, gang.min_available, group)
            number = self._counted(gang.key, group)
        except TruncatedPodError as error:
            group.permitted.pop(pod.uid, None)
            return Status.unresolvable(unlisted(error))
        self._wake_later(gang.key, group)
        if complete:
            self._let_in(group)
            return Status.success()
        group.waiting[pod.uid] = None
        detail = f"{number} of {gang.min_available}"
        return Status.wait(_WAITING, detail), self.wait_s(pod, gang.key[2])

    def _gang_of(self, pod: core.Pod) -> _Gang | None:
        key = self._key_of(pod)
        if key is None:
            return None
        least = self.minimum(pod, key[2])
        return _Gang(key, least and max(least - self._completed_of(pod, key), 1))

    def _completed_of(self, pod: core.Pod, key: _Key) -> int:
        """Return how many pods of a pod's group and run have completed, and so are not replaced.

        A completed pod that is deleted counts on. Without the label of runs, completed pods count
        while a pod of the group is on a node: once there is none, the next pods may be another run.
        """
        run = (*key[1:], pod.labels.get(self._args.run_label, ""))
        listed = len(self._completed.by_index("run", run)) if self._completed.synced else 0
        number = listed + self._deleted.get(run, 0)
        if not number or run[2] or self._is_on_a_node(key):
            return number
        self._deleted.pop(run, None)
        return 0

    def _is_on_a_node(self, key: _Key) -> bool:
        """Return whether a pod of a group is on a node; False if its pods cannot be listed."""
        pods = self._handle.pods()
        with suppress(TruncatedPodError):
            bound = self._roster(key, self._group(key)).bound
            return any(_number_on(pods, node, {uid}) for uid, node in bound.items())
        return False

    def _runs_of(self, pod: KubeObject) -> list[_Run]:
        """Return the run of a completed pod; the list is empty if the pod does not count.

        A pod that is deleted while it runs may end as a completed one does. Its owner replaces it
        then, unless the owner is a Job.
        """
        metadata = pod["metadata"]
        with suppress(TruncatedObjectError):
            labels = metadata.get("labels") or {}
            group = labels.get(self._args.pod_group_label, "")
            run = labels.get(self._args.run_label, "")
            if group and (run or "deletionTimestamp" not in metadata):
                return [(metadata["namespace"], group, run)]
        return []

    def _completed_changed(self, before: KubeObject | None, now: KubeObject | None) -> None:
        """Go on to count a completed pod that was deleted."""
        for run in self._runs_of(before) if before is not None and now is None else ():
            self._deleted[run] = self._deleted.pop(run, 0) + 1
            if len(self._deleted) > _RUNS:
                self._deleted.popitem(last=False)

    def _key_of(self, pod: core.Pod) -> _Key | None:
        if pod.scheduling_group:
            self._leave(pod)
            return None
        name = pod.labels.get(self._args.pod_group_label)
        if not name:
            return None
        key = pod.scheduler_name, pod.namespace, name
        # Whoever can reach the port may name groups that no pod of the API has.
        return key if max(map(len, key)) <= _LONGEST_NAME else None

    def _leave(self, pod: core.Pod) -> None:
        """Log once that pods with a PodGroup are left to kube-scheduler.

        kube-scheduler places the members of a PodGroup together, and binds each only after all have
        a node. A member that Permit holds back as well would only delay the others.
        """
        if not self._left_one:
            self._left_one = True
            name = f"{pod.namespace}/{pod.name}"
            facts = {"plugin": self.name, "pod": name, "profile": pod.scheduler_name}
            message = "%s leaves pods with spec.schedulingGroup to kube-scheduler: %s is the first"
            _LOGGER.warning(message, self.name, name, extra=facts)

    def _group(self, key: _Key) -> _Group:
        with self._lock:
            group = self._groups.setdefault(key, _Group())
            self._groups.move_to_end(key)
            if len(self._groups) > _GROUPS:
                self._forget_one()
        return group

    def _forget_one(self) -> None:
        """Forget the group that was asked for the longest ago, unless it is in use.

        A group is in use while its pods are being bound, or are rejected for a time.
        """
        # One look at all assumed pods is enough, and takes the longest.
        assumed = self._handle.assumed_pods()
        # The group that was asked for last stays.
        for _ in range(min(_LOOKS, len(self._groups) - 1)):
            key, group = next(iter(self._groups.items()))
            is_rejected = self._clock() < group.denied_until_s
            if not (group.waiting or is_rejected) and assumed.isdisjoint(group.permitted):
                del self._groups[key]
                return
            self._groups.move_to_end(key)

    def _members(self, key: _Key) -> list[core.Pod]:
        """Return the pods of a group that run, or that kube-scheduler may place in this profile.

        A running pod counts, whichever scheduler placed it. A pod without a node may never get one
        if it names another scheduler, or has a scheduling gate other than that of kubextend's
        queue. If the pod names a PodGroup, kube-scheduler places it with other pods than this
        plugin would.
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
        if pod.scheduling_group:
            return False
        return pod.scheduler_name == scheduler_name and self._own_gates.issuperset(
            pod.scheduling_gates
        )

    def _counted(self, key: _Key, group: _Group) -> int:
        """Count a group's pods that run, or that reached Permit and were not rejected after it.

        The number may be too high: pods deleted since the group's pods were last listed count.
        """
        bound = self._roster(key, group).bound
        return len(group.permitted) + len(bound.keys() - group.permitted.keys())

    def _is_complete(self, key: _Key, min_available: int, group: _Group) -> bool:
        """Return whether enough pods of a group run, or reached Permit and have not been rejected.

        Deleted pods do not count. Each pod is looked up on its node, because a list of the group
        would have all pods without a node as well, of which a tenant may create any number.
        """
        if self._counted(key, group) < min_available:
            return False
        pods = self._handle.pods()
        gives_up = self._handle.waiting_pods.gives_up
        bound = self._roster(key, group).bound
        # A thread that lists may change the dict meanwhile; to copy a dict is one step.
        placed = (group.permitted | bound).items()
        by_node: defaultdict[str, set[str]] = defaultdict(set)
        for uid, node in placed:
            # A failed pod may be bound nevertheless: its bind got no answer.
            if uid in bound or not gives_up(uid):
                by_node[node].add(uid)
        numbers = (_number_on(pods, node, uids) for node, uids in by_node.items())
        return any(number >= min_available for number in itertools.accumulate(numbers))

    def _needs_no_more(self, key: _Key, pod: core.Pod, group: _Group) -> bool:
        """Return whether a group is complete without a pod whose binding cycle failed.

        Return False if the pods cannot be listed, because one of them is kept without labels.
        """
        with suppress(TruncatedPodError):
            gang = self._gang_of(pod)
            if gang is not None and gang.min_available is not None:
                return self._is_complete(key, gang.min_available, group)
        return False

    def _roster(self, key: _Key, group: _Group) -> _Roster:
        """Return a group's pods as last listed; a list of n pods is made anew after n / 5,000 s."""
        roster = group.roster
        if roster is None or self._clock() >= roster.until_s:
            permitted = set(group.permitted)
            roster = group.roster = self._listed(key)
            # A deleted pod; another may reach Permit on the event loop while a thread lists.
            for uid in permitted - roster.there:
                group.permitted.pop(uid, None)
        return roster

    def _gathered(self, key: _Key) -> _Roster:
        """Return the pods of a group for PreEnqueue; a list of n pods is used for n / 5,000 s.

        Unlike ``_roster``, this method does not change what the plugin remembers of the group.
        """
        roster = self._gathering.pop(key, None)
        if roster is None or self._clock() >= roster.until_s:
            roster = self._listed(key)
        self._gathering[key] = roster
        if len(self._gathering) > _GROUPS:
            self._gathering.popitem(last=False)
        return roster

    def _listed(self, key: _Key) -> _Roster:
        """List a group's pods now."""
        members = self._members(key)
        assumed = self._handle.assumed_pods()
        return _Roster(
            there={pod.uid for pod in members},
            bound={
                pod.uid: node
                for pod in members
                if (node := pod.node_name) and pod.uid not in assumed
            },
            until_s=self._clock() + len(members) / _LISTED_PER_S,
        )

    def _turn_away(self, group: _Group, pod: core.Pod) -> None:
        with self._lock:
            most = min(_TURNED_AWAY, _ALL_TURNED_AWAY // len(self._groups))
            if len(group.turned_away) < most and len(pod.uid) <= _LONGEST_NAME:
                group.turned_away[pod.uid] = False
            else:
                group.may_be_more |= pod.uid not in group.turned_away

    def _missing(self, key: _Key, min_available: int, group: _Group) -> int:
        """Return how many pods a group lacks; 0 if at most 10 % of its minimum are missing."""
        missing = min_available - self._counted(key, group)
        return missing if missing > min_available * _SMALL_GAP else 0

    def _give_up_later(self, key: _Key, min_available: int, group: _Group) -> None:
        """Reject a group's held pods in a second, unless more pods or preemption help by then."""
        if group.give_up_timer is None:
            loop = asyncio.get_running_loop()
            group.give_up_timer = loop.call_later(
                _PREEMPTION_S, self._give_up_unless_helped, key, min_available, group
            )

    def _give_up_unless_helped(self, key: _Key, min_available: int, group: _Group) -> None:
        group.give_up_timer = None
        pods = self._handle.pods()
        nominated = [] if pods is None else pods.nominated_pods()
        undecided = None in group.waiting.values()
        if not undecided or any(self._is_of(key, pod) for pod in nominated):
            return
        with suppress(TruncatedPodError):
            if self._missing(key, min_available, group):
                self._give_up(key, group)

    def _is_of(self, key: _Key, pod: core.Pod) -> bool:
        """Return whether a pod is of a group and stays; False if it is kept without its labels."""
        with suppress(TruncatedPodError):
            return self._key_of(pod) == key and pod.deletion_timestamp is None
        return False

    def _give_up(self, key: _Key, group: _Group) -> None:
        """Reject all held pods of a group, and for a time all its pods; call on the event loop."""
        now_s = self._clock()
        if now_s >= group.denied_until_s:
            backoff_s = self._args.pod_group_backoff_seconds * 2.0 ** min(group.given_up, 10)
            backoff_s = min(backoff_s, _LONGEST_BACKOFF_S)
            group.given_up += 1
            group.denied_until_s = now_s + backoff_s
            if group.wake_timer is not None:
                group.wake_timer.cancel()
            self._wake_in(backoff_s, key, group)
        self._send_back(group)

    def _let_in(self, group: _Group) -> None:
        """Allow all pods of a group that is complete; call on the event loop."""
        group.given_up = 0
        # Pods that were to be rejected, and have not failed, count as members again.
        gives_up = self._handle.waiting_pods.gives_up
        group.sent_back = {uid for uid in group.sent_back if gives_up(uid)}
        self._settle(group, self._allow)

    def _send_back(self, group: _Group) -> None:
        """Reject all pods of a group that Permit holds or will hold; call on the event loop.

        Another Permit plugin may hold a pod that this plugin has allowed, or may still be asked
        about it. If Permit lets such a pod go on before this plugin rejects it, PreBind rejects it.
        """
        group.wake_all = False
        group.sent_back = set(self._handle.assumed_pods().intersection(group.permitted))
        for uid in group.sent_back:
            group.waiting.setdefault(uid)
        self._settle(group, self._reject)

    def _allow(self, held: HeldPod) -> None:
        held.allow(self.name)

    def _reject(self, held: HeldPod) -> None:
        held.reject(self.name, _GIVEN_UP)

    def _settle(self, group: _Group, decide: _Decision) -> None:
        """Allow or reject, by calling ``decide``, all pods of a group that Permit told to wait.

        Call this method on the event loop.
        """
        if group.give_up_timer is not None:
            group.give_up_timer.cancel()
            group.give_up_timer = None
        group.waiting = dict.fromkeys(group.waiting, decide)
        self._carry_out(group)

    def _carry_out(self, group: _Group) -> None:
        """Allow or reject, as decided, the pods of a group that Permit holds.

        Permit holds a pod only after every Permit plugin has answered. A decision that comes
        earlier is tried again 0.2 s later. A decided pod that is no longer assumed is bound or
        gone, and is forgotten.
        """
        loop = asyncio.get_running_loop()
        if group.settle_timer is not None:
            group.settle_timer.cancel()
            group.settle_timer = None
        late = []
        for uid, decide in list(group.waiting.items()):
            if decide is None:
                continue
            held = self._handle.waiting_pods.get(uid)
            if held is None:
                late.append(uid)
            else:
                del group.waiting[uid]
                decide(held)
        assumed = self._handle.assumed_pods() if late else frozenset()
        for uid in late:
            if uid not in assumed:
                del group.waiting[uid]
            elif group.settle_timer is None:
                again = loop.call_later(_SETTLE_AGAIN_S, self._carry_out, group)
                group.settle_timer = again

    def _wake_later(self, key: _Key, group: _Group) -> None:
        """Make kube-scheduler retry a group's rejected pods when the group's backoff is over."""
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
        """Make kube-scheduler retry some pods rejected because of a group, and more each second.

        If no pod of the group has reached Permit since the group's rejection, kube-scheduler
        retries only one pod.
        """
        group.wake_timer = None
        # While pods cannot be listed, none reaches Permit; the next that does calls this again.
        with suppress(TruncatedPodError):
            self._recall(key, group)
        with self._lock:
            pods = []
            for uid, was_unseen in self._to_wake(group).items():
                pod = self._handle.pod(uid)
                if pod is not None:
                    pods.append(pod)
                elif was_unseen:
                    group.may_be_more = True
                else:
                    # The watch may be a moment late.
                    group.turned_away[uid] = True
        if pods:
            self._handle.activate(pods)
        if group.wake_all and group.turned_away:
            self._wake_in(1.0, key, group)

    def _recall(self, key: _Key, group: _Group) -> None:
        """Add to ``group.turned_away`` those unschedulable pods of the group that it lacks."""
        if not (group.wake_all and group.may_be_more):
            return
        parked = [pod for pod in self._members(key) if may_be_parked(pod)]
        with self._lock:
            group.may_be_more = False
            for pod in parked:
                group.turned_away.setdefault(pod.uid, False)

    def _to_wake(self, group: _Group) -> dict[str, bool]:
        """Take from ``group.turned_away`` the pods to activate now."""
        probe, group.probe = group.probe, ""
        if not group.wake_all:
            # No pod has reached Permit since the group was given up: only one pod tries again.
            if not probe or probe in group.permitted:
                return {}
            return {probe: group.turned_away.pop(probe, False)}
        for uid in group.permitted.keys() & group.turned_away.keys():
            del group.turned_away[uid]
        size = len(group.turned_away)
        number = min(size, max(_WOKEN_PER_S, -(-size // _WAKE_WITHIN_S)))
        first = list(itertools.islice(group.turned_away, number))
        return {uid: group.turned_away.pop(uid) for uid in first}


class Coscheduling(Gangs):
    """Schedules the pods of a group together or not at all, without a PodGroup resource."""

    name = "Coscheduling"
    Args = CoschedulingArgs

    _args: CoschedulingArgs

    def minimum(self, pod: core.Pod, group: str) -> int | None:
        """Return the number in the pod's label or annotation; None if there is no valid number."""
        del group
        key = self._args.min_available_key
        text = pod.labels.get(key) or pod.annotations.get(key) or ""
        return int(text) if _NUMBER.fullmatch(text) else None

    def no_minimum(self) -> Status:
        """Return the rejection of a pod without a valid number."""
        return Status.unresolvable(_NO_NUMBER, f"in {self._args.min_available_key}")


def _number_on(pods: core.PodSnapshot | None, node: str, uids: set[str]) -> int:
    """Return how many pods of these UIDs are on a node, and are not being deleted."""
    if pods is None:
        return 0
    # A search for each of many pods would read the node's pods as often.
    there = pods.pods_on(node) if len(uids) > 1 else [pods.pod_on(node, *uids)]
    return sum(
        pod is not None and pod.uid in uids and pod.deletion_timestamp is None for pod in there
    )


def may_be_parked(pod: core.Pod) -> bool:
    """Return whether kube-scheduler marked a pod Unschedulable and may not retry it by itself."""
    unplaced = not (pod.node_name or pod.scheduling_gates)
    return unplaced and pod.scheduled_reason == "Unschedulable"


def unlisted(error: TruncatedPodError) -> str:
    """Return the reason for a rejection: labels of a pod in the namespace are too large to keep."""
    return f"{_UNLISTED}: {error}"
