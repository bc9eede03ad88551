"""A filter that lets one pod with the label ``seat`` onto each node."""

from kubextend.core import NodeInfo, Pod
from kubextend.framework.cycle_state import CycleState
from kubextend.framework.status import Status

SEAT = "e2e.kubextend.dev/seat"


class Seats:
    """Counts the pods on a node that have the label, and no other pods."""

    name = "Seats"
    needs_pods = True

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        del state
        taken = SEAT in pod.labels and any(SEAT in other.labels for other in node.pods)
        return Status.unschedulable("the seat is taken") if taken else None
