"""PodGroupCoscheduling: gang scheduling with the PodGroups of scheduling.x-k8s.io.

The label of a pod names a PodGroup, whose spec says how many pods have to run together, what they
need at least, and how long they wait for each other. The gangs are held as by Coscheduling.

Source: kubernetes-sigs/scheduler-plugins pkg/coscheduling
"""

import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Final

from kubextend import core
from kubextend.errors import TruncatedPodError
from kubextend.framework.cycle_state import CycleState
from kubextend.framework.handle import Handle
from kubextend.framework.informer import KubeObject
from kubextend.framework.status import Status
from kubextend.plugins.coscheduling import GangArgs, Gangs, may_be_parked, unlisted

__all__ = ["POD_GROUPS", "PodGroupCoscheduling"]

POD_GROUPS: Final = "scheduling.x-k8s.io/v1alpha1/podgroups"

_NO_POD_GROUP = "there is no PodGroup with a minMember for the pod's label"
_LACKS_RESOURCES = "cluster lacks minResources of the PodGroup"
_NO_QUANTITY = "minResources of the PodGroup has an amount that is no quantity"
# For each resource, the amounts of all nodes are summed.
_MOST_RESOURCES: Final = 32
_TOO_MANY_RESOURCES: Final = (
    f"minResources of the PodGroup has more than {_MOST_RESOURCES} resources; name fewer"
)


class PodGroupCoscheduling(Gangs):
    """Schedules the pods of a PodGroup together or not at all.

    A pod whose label names no PodGroup waits until the PodGroup is created.
    """

    name = "PodGroupCoscheduling"
    Args = GangArgs
    informers = (POD_GROUPS, *Gangs.informers)

    def __init__(
        self, args: GangArgs, handle: Handle, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(args, handle, clock)
        self._pod_groups = handle.informer(POD_GROUPS)
        self._pod_groups.on_change(self._changed)
        self._scheduler_name = ""

    def minimum(self, pod: core.Pod, group: str) -> int | None:
        """Return ``spec.minMember`` of the PodGroup; None: there is no PodGroup, or no number."""
        number = self._spec(pod, group).get("minMember")
        return number if isinstance(number, int) and number > 0 else None

    def no_minimum(self) -> Status:
        """Return the rejection of a pod without a PodGroup, or whose PodGroup has no minMember."""
        return Status.unresolvable(_NO_POD_GROUP, "in a PodGroup of the pod's namespace")

    def wait_s(self, pod: core.Pod, group: str) -> float:
        """Return ``spec.scheduleTimeoutSeconds`` of the PodGroup; without it, as for all groups."""
        seconds = self._spec(pod, group).get("scheduleTimeoutSeconds")
        if isinstance(seconds, int) and seconds > 0:
            return float(seconds)
        return super().wait_s(pod, group)

    def pre_filter(self, state: CycleState, pod: core.Pod, nodes: core.Nodes) -> Status | None:
        """Return a rejection if the group is too small, was rejected, or lacks resources."""
        self._scheduler_name = pod.scheduler_name
        rejected = super().pre_filter(state, pod, nodes)
        gang = self._gang_of(pod)
        if rejected is not None or gang is None:
            return rejected
        # Where pods of the group have completed, the others need less than minResources.
        if gang.min_available == self.minimum(pod, gang.key[2]):
            rejected = self._without_resources(pod, gang.key[2], state)
        if rejected is not None:
            self._turn_away(self._group(gang.key), pod)
        return rejected

    def _without_resources(self, pod: core.Pod, group: str, state: CycleState) -> Status | None:
        """Return a rejection if the nodes lack resources of the group, or nobody can say that."""
        spec = self._spec(pod, group)
        given = spec.get("minResources") or {}
        if not given:
            return None
        try:
            amounts = {resource: core.amount(resource, str(given[resource])) for resource in given}
        except ValueError as error:
            return Status.unresolvable(_NO_QUANTITY, f"PodGroup {group}: {error!s:.200}")
        least = {resource: amount for resource, amount in amounts.items() if amount > 0}
        if len(least) > _MOST_RESOURCES:
            return Status.unresolvable(_TOO_MANY_RESOURCES, f"PodGroup {group} has {len(least)}")
        least["pods"] = spec["minMember"]
        try:
            lacking = self._lacking(least, pod, group, state)
        except TruncatedPodError as error:
            return Status.unresolvable(unlisted(error))
        return Status.unresolvable(_LACKS_RESOURCES, lacking) if lacking else None

    def _lacking(
        self, least: Mapping[str, int], pod: core.Pod, group: str, state: CycleState
    ) -> str:
        """Return a resource of which all nodes together have too little left; "" if there is none.

        What the group's own pods on nodes request is left for the group.
        """
        nodes = self._handle.snapshot(state)
        if nodes is None:
            return "nodes"
        label = self._args.pod_group_label
        pods = self._handle.labelled_pods(pod.namespace, label, group, state)
        names = nodes.names
        # Most pods of a large group may be on no node, and count nowhere.
        placed = [(each.node_name, each) for each in pods if each.node_name]
        for resource, wanted in least.items():
            own = Counter[str]()
            for name, each in placed:
                own[name] += 1 if resource == "pods" else each.request(resource)
            room = nodes.allocatable(resource)
            if core.is_dra_extended_resource(resource) and not any(room):
                continue  # Nodes may have it by dynamic resource allocation.
            used = nodes.pods.requested(nodes, resource)
            left = sum(max(room[row] - used[row] + own[name], 0) for row, name in enumerate(names))
            if left < wanted:
                return f"{resource}: {left} of {wanted}"
        return ""

    def _spec(self, pod: core.Pod, group: str) -> Mapping[str, Any]:
        found = self._pod_groups.get(pod.namespace, group)
        return {} if found is None else found.get("spec") or {}

    def _changed(self, before: KubeObject | None, now: KubeObject | None) -> None:
        """Make kube-scheduler retry the unschedulable pods of a PodGroup that is new or changed."""
        if now is None or (before is not None and before.get("spec") == now.get("spec")):
            return
        metadata = now["metadata"]
        label = self._args.pod_group_label
        pods = self._handle.labelled_pods(metadata["namespace"], label, metadata["name"])
        ours = (pod for pod in pods if pod.scheduler_name == self._scheduler_name)
        self._handle.activate(pod for pod in ours if may_be_parked(pod))
