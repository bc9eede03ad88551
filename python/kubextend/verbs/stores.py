"""The node stores that requests are read against; they never mix."""

from dataclasses import dataclass

from kubextend import core
from kubextend.framework.handle import NodeSource
from kubextend.verbs.answer import Body

__all__ = ["Stores"]

_NO_CACHE = (
    "the request brings node names, but kubextend has no node cache: set nodeCacheCapable: false "
    "in kube-scheduler's extender entry, or configure `cluster` in kubextend"
)
_NOT_SYNCED = "kubextend has not listed the nodes yet"


@dataclass(frozen=True, slots=True)
class Stores:
    """Where the nodes of a request come from.

    Attributes:
        request: filled by full-mode requests alone.
        watched: filled by list and watch alone; None where there is no access to an API.
    """

    request: core.NodeStore
    watched: NodeSource | None

    def read_args(self, body: Body) -> core.ExtenderArgs:
        """A filter or prioritize request.

        Raises: WireError: the body cannot be read.
        """
        return core.read_args(body, self.request, watched=self._watched_store)

    def read_preemption_args(self, body: Body) -> core.PreemptionArgs:
        """A preempt request. It names its candidates in both modes.

        Raises: WireError: the body cannot be read.
        """
        return core.read_preemption_args(body, self.request, watched=self._watched_store)

    def nodes_named(self, *names: str) -> core.Nodes:
        """Nodes by name: watched ones, or else those that full-mode requests brought."""
        store = self.request if self._watched_store is None else self._watched_store
        return store.select(names)

    def why_names_fail(self) -> str:
        """Why names cannot be looked up at present; empty where they can."""
        if self.watched is None:
            return _NO_CACHE
        return "" if self.watched.synced else _NOT_SYNCED

    @property
    def candidates_can_be_looked_up(self) -> bool:
        """Whether preemption candidates are found: in the watched store, else the request one."""
        return self.watched is None or self.watched.synced

    @property
    def _watched_store(self) -> core.NodeStore | None:
        return None if self.watched is None else self.watched.store
