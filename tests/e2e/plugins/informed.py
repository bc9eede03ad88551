"""A plugin that reads PodGroups of a CRD and claims, writes Events, and annotates Bindings."""

from kubextend.core import NodeInfo, Pod
from kubextend.framework import CycleState, Handle, KubeObject, Status

GROUPS = "e2e.kubextend.dev/v1alpha1/podgroups"
CLAIMS = "persistentvolumeclaims"


class Informed:
    """Lets a pod with the label ``group`` run if its PodGroup exists and its queue is open."""

    name = "Informed"
    informers = (GROUPS, CLAIMS)

    def __init__(self, handle: Handle) -> None:
        self._groups = handle.informer(GROUPS)
        self._claims = handle.informer(CLAIMS)
        self._events = handle.events
        self._logger = handle.logger

    async def start(self) -> None:
        self._groups.add_index("queue", lambda group: [group["spec"]["queue"]])
        self._groups.on_change(self._changed)

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        name = pod.labels.get("group")
        if name is None:
            return None
        if self._groups.get(pod.namespace, name) is None:
            self._events.warning(pod, "NoPodGroup", "Scheduling", "the PodGroup is missing")
            return Status.unschedulable("the PodGroup is missing")
        return None

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        group = self._groups.get(pod.namespace, pod.labels.get("group", ""))
        if group is None:
            return
        members = self._groups.by_index("queue", group["spec"]["queue"])
        claims = self._claims.list(pod.namespace)
        state.annotate(pod, "e2e.kubextend.dev/groups", str(len(members)))
        state.annotate(pod, "e2e.kubextend.dev/claims", str(len(claims)))

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None: ...

    def _changed(self, before: KubeObject | None, now: KubeObject | None) -> None:
        known = before if now is None else now
        assert known is not None
        what = "is gone" if now is None else "is there"
        self._logger.info("PodGroup %s %s", known["metadata"]["name"], what)
