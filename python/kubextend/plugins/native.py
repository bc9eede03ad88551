"""Base classes for plugins of the core: one call for all nodes, without a loop in Python."""

from kubextend import core
from kubextend.framework.cycle_state import CycleState
from kubextend.framework.plugin import Rejection, in_core
from kubextend.framework.status import Status

__all__ = ["NativeFilter", "NativeScore"]


class NativeFilter:
    """The Filter extension point of a native plugin."""

    _native: core.NativePlugin

    @in_core
    def filter_nodes(self, state: CycleState, pod: core.Pod, nodes: core.Nodes) -> list[Rejection]:
        """Return the nodes that the core rejects."""
        del state
        return [
            Rejection(mask, _status(reason, unresolvable=unresolvable))
            for mask, reason, unresolvable in self._native.filter_nodes(pod, nodes)
        ]


class NativeScore:
    """The Score extension point of a native plugin."""

    _native: core.NativePlugin

    @in_core
    def score_nodes(self, state: CycleState, pod: core.Pod, nodes: core.Nodes) -> memoryview:
        """Return the core's scores, 0..100."""
        del state
        return self._native.score_nodes(pod, nodes)


def _status(reason: str, *, unresolvable: bool) -> Status:
    return Status.unresolvable(reason) if unresolvable else Status.unschedulable(reason)
