"""A Handle over pods and nodes of a test, and what a plugin does through it, written down."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from prometheus_client import CollectorRegistry

from kubextend import core
from kubextend.framework.handle import Activator, Handle, HeldPods
from kubextend.profile import WaitingPods
from kubextend.testing.objects import (
    NodesLike,
    PodLike,
    manifests_of_nodes,
    node_store,
    pod_manifest_of,
    pod_store,
)

__all__ = ["Activations", "Bindings", "ListedNodes", "ListedPods", "make_handle"]


@dataclass(frozen=True, slots=True)
class ListedNodes:
    """Nodes in the place of watched ones."""

    store: core.NodeStore
    synced: bool = True

    def age_s(self) -> float | None:
        """They are always as the test made them."""
        return 0.0


@dataclass(frozen=True, slots=True)
class ListedPods:
    """Pods in the place of watched ones, with a ledger of assumed ones."""

    store: core.PodStore
    synced: bool = True

    def get(self, namespace: str, name: str) -> core.Pod | None:
        """The pod as the API would show it."""
        return self.store.by_name(namespace, name)


@dataclass(frozen=True, slots=True)
class Bindings:
    """Writes down what is bound.

    Attributes:
        nodes: of each bound pod, by its UID.
    """

    nodes: dict[str, str] = field(default_factory=dict)

    def bind(
        self, namespace: str, name: str, uid: str, node: str, *, timeout_s: float | None = None
    ) -> None:
        """The pod counts as bound."""
        del namespace, name, timeout_s
        self.nodes[uid] = node


@dataclass(frozen=True, slots=True)
class Activations:
    """Writes down who is woken.

    Attributes:
        names: of the pods, in the order in which they were woken.
    """

    names: list[str] = field(default_factory=list)

    def activate(self, pods: Iterable[core.Pod]) -> None:
        """Their names are added."""
        self.names.extend(pod.name for pod in pods)


def make_handle(  # noqa: PLR0913  one keyword for each thing a plugin may reach
    nodes: NodesLike = (),
    pods: Iterable[PodLike] = (),
    *,
    waiting_pods: HeldPods | None = None,
    activator: Activator | None = None,
    kubernetes_client: Any = None,
    configuration: Any = None,
) -> Handle:
    """A Handle for a plugin that is made by hand; ``Runner`` makes its own."""
    return Handle(
        waiting_pods=WaitingPods() if waiting_pods is None else waiting_pods,
        nodes=ListedNodes(node_store(manifests_of_nodes(nodes))),
        pods=ListedPods(pod_store(pod_manifest_of(pod) for pod in pods)),
        activator=Activations() if activator is None else activator,
        kubernetes_client=lambda: kubernetes_client,
        configuration=configuration,
        metrics=CollectorRegistry(),
    )
