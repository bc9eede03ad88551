"""The two stores in which verbs look up nodes: nodes that requests bring, and watched nodes."""

from dataclasses import dataclass

from kubextend import core
from kubextend.framework.handle import NodeSource
from kubextend.verbs.answer import Body

__all__ = ["Stores"]


@dataclass(frozen=True, slots=True)
class Stores:
    """The store of the nodes that requests bring, and the store of the watched nodes.

    Attributes:
        request: the nodes that requests brought whole (``nodeCacheCapable: false``), and no others.
        watched: the nodes of list and watch, and no others; None without access to an API.
    """

    request: core.RequestStore
    watched: NodeSource | None

    def read_args(self, body: Body) -> core.ExtenderArgs:
        """Read the body of a filter or prioritize request.

        Raises: WireError: the body cannot be read.
        """
        return core.read_args(body, self.request, watched=self._watched_store)

    def read_preemption_args(self, body: Body) -> core.PreemptionArgs:
        """Read the body of a preempt request, which always has names of nodes, not whole nodes.

        Raises: WireError: the body cannot be read.
        """
        return core.read_preemption_args(body, self.request, watched=self._watched_store)

    def nodes_named(self, *names: str) -> core.Nodes:
        """Return nodes by name: watched nodes or, without a watch, nodes that requests brought."""
        store = self.request if self._watched_store is None else self._watched_store
        return store.select(names)

    def watched_node(self, name: str) -> core.NodeInfo | None:
        """Return a node as the watch shows it now; None: the watch shows no node of this name."""
        store = self._watched_store
        return None if store is None else store.get(name)

    @property
    def _watched_store(self) -> core.NodeStore | None:
        return None if self.watched is None else self.watched.store
