"""Base classes for plugins in the Rust core, which handles all nodes of a request in one call."""

from functools import lru_cache

from kubextend import core
from kubextend.framework.cycle_state import CycleState
from kubextend.framework.plugin import Rejection, in_core
from kubextend.framework.status import Status

__all__ = ["NativeFilter", "NativeScore"]


class NativeFilter:
    """Filters nodes by a plugin that the Rust core implements.

    The constructor makes the plugin of the core called ``name``, without arguments. A subclass with
    arguments sets ``_native`` in its own constructor.
    """

    name: str
    _native: core.NativePlugin

    def __init__(self) -> None:
        self._native = core.NativePlugin.named(self.name)

    @in_core
    def filter_nodes(self, state: CycleState, pod: core.Pod, nodes: core.Nodes) -> list[Rejection]:
        """Return the nodes that the Rust plugin rejects, with a Status for each reason."""
        del state
        return self._rejections(pod, nodes)

    def _rejections(
        self, pod: core.Pod, nodes: core.Nodes, pods: core.PodSnapshot | None = None
    ) -> list[Rejection]:
        return [
            Rejection(mask, _status(reason, unresolvable))
            for mask, reason, unresolvable in self._native.filter_nodes(pod, nodes, pods)
        ]


class NativeScore:
    """Scores nodes by a plugin that the Rust core implements."""

    _native: core.NativePlugin

    @in_core
    def score_nodes(self, state: CycleState, pod: core.Pod, nodes: core.Nodes) -> memoryview:
        """Return a score 0..100 for each node, in the order of ``nodes``."""
        del state
        return self._native.score_nodes(pod, nodes)


# A plugin of the core has few reasons, and to make a Status takes as long as to look for ten.
@lru_cache(maxsize=64)
def _status(reason: str, unresolvable: bool) -> Status:
    return Status.unresolvable(reason) if unresolvable else Status.unschedulable(reason)
