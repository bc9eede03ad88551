"""A Reserve plugin that refuses every pod."""

from kubextend.core import Pod
from kubextend.framework import CycleState, Status


class Refuses:
    name = "Refuses"

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status:
        del state, pod, node_name
        return Status.unschedulable("nobody may")

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        pass
