"""PodState: prefers nodes that pods are leaving to nodes that pods are about to come to.

Source: kubernetes-sigs/scheduler-plugins v0.33.5 pkg/podstate/pod_state.go
"""

from kubextend import core
from kubextend.framework.cycle_state import CycleState
from kubextend.framework.handle import Handle
from kubextend.framework.plugin import Scores
from kubextend.plugins.stretched_scores import stretched

__all__ = ["PodState"]


class PodState:
    """Scores a node by its number of terminating pods less that of pods nominated to the node."""

    name = "PodState"
    needs_pods = True

    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    def score_nodes(self, state: CycleState, pod: core.Pod, nodes: core.Nodes) -> list[int]:
        """Return for each node the terminating pods less the nominated pods."""
        del pod
        pods = self._handle.pods(state)
        if pods is None:
            return [0] * len(nodes)
        counts = zip(pods.terminating(nodes), pods.nominated_to(nodes), strict=True)
        return [leaving - coming for leaving, coming in counts]

    def normalize_score(self, state: CycleState, pod: core.Pod, scores: Scores) -> Scores:
        """Return the scores stretched to 0..100."""
        del state, pod
        return stretched(scores)
