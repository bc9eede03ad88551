"""NodeResourcesBalancedAllocation: prefers nodes whose resources are in equal use.

Source: kubernetes v1.33 plugins/noderesources/balanced_allocation.go
"""

from kubextend import core
from kubextend.framework.args_model import ArgsModel
from kubextend.framework.cycle_state import CycleState
from kubextend.framework.handle import Handle
from kubextend.framework.plugin import in_core
from kubextend.framework.status import Status
from kubextend.plugins.native import NativeScore
from kubextend.plugins.resource_args import Resources, ResourceSpec, pairs

__all__ = ["NodeResourcesBalancedAllocation", "NodeResourcesBalancedAllocationArgs"]


class NodeResourcesBalancedAllocationArgs(ArgsModel):
    """Arguments of NodeResourcesBalancedAllocation, with the names of kube-scheduler's plugin.

    Attributes:
        resources: the resources that are compared; their weights have no effect.
    """

    resources: Resources = (ResourceSpec(name="cpu"), ResourceSpec(name="memory"))


class NodeResourcesBalancedAllocation(NativeScore):
    """Scores nodes by how equal the shares of their resources in use are, with the pod there.

    The score is 100 * (1 - standard deviation of the shares). A pod that requests none of the
    resources gets no scores.
    """

    name = "NodeResourcesBalancedAllocation"
    Args = NodeResourcesBalancedAllocationArgs
    needs_pods = True

    def __init__(self, args: NodeResourcesBalancedAllocationArgs, handle: Handle) -> None:
        self._handle = handle
        self._names = [resource.name for resource in args.resources]
        self._native = core.NativePlugin.node_resources_balanced_allocation(pairs(args.resources))

    @in_core
    def pre_score(self, state: CycleState, pod: core.Pod, nodes: core.Nodes) -> Status | None:
        """Return Skip for a pod that requests none of the resources."""
        del state, nodes
        return None if any(map(pod.request, self._names)) else Status.skip()

    @in_core
    def score_nodes(self, state: CycleState, pod: core.Pod, nodes: core.Nodes) -> memoryview:
        """Return a score 0..100 for each node, in the order of ``nodes``."""
        return self._native.score_nodes(pod, nodes, self._handle.pods(state))
