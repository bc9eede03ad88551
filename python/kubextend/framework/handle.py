"""What the rest of kubextend is to plugins and verbs: the ports that ``cluster`` fills."""

from collections.abc import Iterable
from typing import Protocol

from kubextend import core

__all__ = ["Activator", "Binder", "NodeSource"]


class NodeSource(Protocol):
    """Nodes kept up to date by list and watch."""

    @property
    def store(self) -> core.NodeStore:
        """Where they are."""

    @property
    def synced(self) -> bool:
        """Whether they have been listed once."""

    def age_s(self) -> float | None:
        """Seconds since the Kubernetes API was last heard of; None before that."""


class Binder(Protocol):
    """Writes the Binding of a pod."""

    def bind(self, namespace: str, name: str, uid: str, node: str) -> None:
        """The pod is bound to the node afterwards, by this call or by an earlier one.

        Raises: ClusterError: it is not, and why.
        """


class Activator(Protocol):
    """Makes kube-scheduler ask about parked pods again."""

    def activate(self, pods: Iterable[core.Pod]) -> None:
        """Soon, from another thread; never blocks and never raises."""
