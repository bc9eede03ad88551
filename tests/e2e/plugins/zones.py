"""A filter that allows one pod of an app in each zone, and so counts pods on other nodes too."""

from kubextend.core import Nodes, Pod
from kubextend.framework import CycleState, Handle, Rejection, Status

ZONE = "topology.kubernetes.io/zone"


class OneAppPerZone:
    name = "OneAppPerZone"
    needs_pods = True

    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> list[Rejection]:
        every, pods = self._handle.nodes(), self._handle.pods(state)
        assert every is not None
        taken = {
            zone
            for name, zone in zip(every.names, every.labels(ZONE), strict=True)
            if zone and any(_is_of_one_app(pod, other) for other in pods.pods_on(name))
        }
        full = nodes.matches(f"{ZONE} in ({','.join(sorted(taken))})") if taken else None
        reason = "the zone has a pod of this app"
        return [] if full is None else [Rejection(full, Status.unschedulable(reason))]


def _is_of_one_app(pod: Pod, other: Pod) -> bool:
    app = pod.labels.get("app")
    return bool(app) and (other.namespace, other.labels.get("app")) == (pod.namespace, app)
