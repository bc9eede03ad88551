"""The two stores in which verbs look up nodes: nodes that requests bring, and watched nodes."""

import os
import threading
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Final

from kubextend import core
from kubextend.framework.handle import NodeSource
from kubextend.verbs.answer import Body

__all__ = ["Stores"]

# To read this much takes about a millisecond.
_LARGE_BODY_BYTES: Final = 1_000_000


def _large_bodies_at_once(processors: int | None) -> int:
    """Return how many large bodies may be read at once, at least one.

    One processor is left to the event loop, which would wait behind the threads of many bodies.

    Args:
        processors: how many processors this process may use; None: nobody knows.
    """
    return max(1, (processors or 1) - 1)


def _processors() -> int | None:
    """Return how many processors this process may run on, which may be fewer than there are.

    A container's CPU limit is a share of time and reduces this number only where kubelet gives the
    container processors of its own.
    """
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


_READING_LARGE_BODIES: Final = threading.BoundedSemaphore(_large_bodies_at_once(_processors()))


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
        """Read the body of a filter or prioritize request; a large one may wait for others.

        Raises: WireError: the body cannot be read.
        """
        with _turn_of(body):
            return core.read_args(body, self.request, watched=self._watched_store)

    def read_preemption_args(self, body: Body) -> core.PreemptionArgs:
        """Read the body of a preempt request, which always has names of nodes, not whole nodes.

        A large body may wait for others.

        Raises: WireError: the body cannot be read.
        """
        with _turn_of(body):
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


def _turn_of(body: Body) -> AbstractContextManager[object]:
    """Return a context in which a body may be read.

    Of the large bodies, fewer are read at once than there are processors. None of them would be
    read later for it, on average: those that are read side by side all end late.
    """
    return _READING_LARGE_BODIES if len(body) > _LARGE_BODY_BYTES else nullcontext()
