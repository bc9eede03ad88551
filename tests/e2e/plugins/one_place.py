"""A filter that lets one pod of each app onto a node, by counting the pods that are there."""

from kubextend.core import NodeInfo, Pod
from kubextend.framework import CycleState, Status

APP = "e2e.kubextend.dev/app"


class OnePlace:
    """Rejects a node that has a pod with the same label ``app`` already."""

    name = "OnePlace"
    needs_pods = True

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        app = pod.labels.get(APP)
        if any(other.labels.get(APP) == app for other in node.pods):
            return Status.unschedulable("node has a pod of this app")
        return None
