"""HelloWorldAtOnce: the same plugin over all nodes at once, for clusters with thousands of them."""

from hello_world import HelloWorldArgs
from kubextend.core import Nodes, Pod
from kubextend.framework import CycleState

__all__ = ["HelloWorldAtOnce"]


class HelloWorldAtOnce:
    """Says what HelloWorldPlugin says; one call of the core brings the label of every node."""

    name = "HelloWorldAtOnce"
    Args = HelloWorldArgs

    def __init__(self, args: HelloWorldArgs) -> None:
        self._label = args.xxx
        # An absent label comes as None.
        self._scores = {None: 0, args.yyy: 100}
        self._other = args.zzz

    def score_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> list[int]:
        """0..100 for each node, in their order."""
        score_of, other = self._scores.get, self._other
        return [score_of(value, other) for value in nodes.labels(self._label)]
