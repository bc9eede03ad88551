"""A filter that lets one pod with the label ``seat`` onto each node."""

from kubextend.core import NodeInfo, Pod
from kubextend.framework import CycleState, Status

SEAT = "e2e.kubextend.dev/seat"


class Seats:
    """Counts the pods on a node that have the label, and no other pods."""

    name = "Seats"
    needs_pods = True

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        taken = SEAT in pod.labels and any(SEAT in other.labels for other in node.pods)
        return Status.unschedulable("the seat is taken") if taken else None


class SeatLedger:
    """Keeps which pod has reserved which seat, and refuses a seat that another pod has reserved."""

    name = "SeatLedger"

    def __init__(self) -> None:
        self._reserved: dict[str, str] = {}

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        if SEAT not in pod.labels:
            return None
        holder = self._reserved.setdefault(node_name, pod.uid)
        return None if holder == pod.uid else Status.unschedulable("the seat is reserved")

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        if self._reserved.get(node_name) == pod.uid:
            del self._reserved[node_name]
