"""Stand-ins for the cluster in tests: given nodes and pods, and records of what plugins did."""

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from prometheus_client import CollectorRegistry

from kubextend import core
from kubextend.cluster import Informers
from kubextend.errors import ClusterError, PluginError
from kubextend.framework.events import PluginEvent
from kubextend.framework.handle import (
    NO_ANNOTATIONS,
    Activator,
    ClusterPorts,
    Handle,
    HeldPods,
)
from kubextend.framework.informer import Informer, Owner, Resource, UnwatchedInformer
from kubextend.profile import WaitingPods
from kubextend.testing.objects import (
    Manifest,
    NodesLike,
    PodLike,
    manifests_of_nodes,
    node_store,
    pod_manifest_of,
    pod_store,
)

__all__ = [
    "Activations",
    "Bindings",
    "ListedNodes",
    "ListedObjects",
    "ListedPods",
    "RecordedEvents",
    "at_once",
    "make_handle",
]


@dataclass(frozen=True, slots=True)
class ListedNodes:
    """A ``NodeSource`` for tests: has the given nodes instead of nodes watched in a cluster."""

    store: core.NodeStore
    synced: bool = True

    def age_s(self) -> float | None:
        """Return 0 seconds, as if the Kubernetes API had just sent something about the nodes."""
        return 0.0


@dataclass(frozen=True, slots=True)
class ListedPods:
    """A ``PodSource`` for tests: has the given pods instead of pods watched in a cluster."""

    store: core.PodStore
    synced: bool = True

    def get(self, namespace: str, name: str) -> core.Pod | None:
        """Return the pod of this namespace and name; None: there is no such pod."""
        return self.store.by_name(namespace, name)


@dataclass(frozen=True, slots=True)
class Bindings:
    """A binder for tests that only records which pod it bound to which node.

    Attributes:
        nodes: the node of each bound pod, by the pod's UID.
        annotations: what the Bindings annotated pods with, by the pod's UID.
    """

    nodes: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, dict[str, str]] = field(default_factory=dict)

    def bind(  # noqa: PLR0913  all but four by name
        self,
        namespace: str,
        name: str,
        uid: str,
        node: str,
        *,
        timeout_s: float | None = None,
        annotations: Mapping[str, str] = NO_ANNOTATIONS,
        why_not: Callable[[], str] = lambda: "",
    ) -> None:
        """Record that the pod with this UID is bound to the node, unless ``why_not`` says why not.

        Raises: ClusterError: the pod must not be bound to the node.
        """
        del namespace, name, timeout_s
        if why := why_not():
            raise ClusterError(why)
        self.nodes[uid] = node
        if annotations:
            self.annotations[uid] = dict(annotations)


@dataclass(frozen=True, slots=True)
class Activations:
    """An ``Activator`` for tests that only records which pods kube-scheduler is asked to retry.

    Attributes:
        names: the names of the pods, in the order of their activation.
    """

    names: list[str] = field(default_factory=list)

    def activate(self, pods: Iterable[core.Pod]) -> None:
        """Record the names of the activated pods."""
        self.names.extend(pod.name for pod in pods)


class ListedObjects:
    """The informers of a test: objects that the test puts, instead of objects of a cluster.

    The functions of ``on_change`` run on the caller's thread, before ``put`` and ``remove`` return.

    Args:
        resources: the names of the resources, as in a plugin's ``informers``.
        not_started: returns the names of the plugins whose functions of ``on_change`` must not run
            yet.
    """

    def __init__(
        self,
        resources: Iterable[str] = (),
        not_started: Callable[[], Collection[str]] = frozenset,
    ) -> None:
        named = map(Resource.of, dict.fromkeys(resources))
        self._informers = Informers(None, named, lambda: None, _raised, not_started)

    def of(self, resource: Resource, owner: Owner) -> Informer:
        """Return the informer of a resource for one plugin.

        Of a resource that no plugin of the test has in its ``informers``, nothing is watched.
        """
        try:
            return self._informers.of(resource, owner)
        except KeyError:
            return UnwatchedInformer(resource)

    def why_not_synced(self, names: Iterable[str]) -> str:
        """Return which of the resources no plugin of the test declares; "" if there are none."""
        return self._informers.why_not_synced(names)

    def __contains__(self, resource: str) -> bool:
        """Return whether a plugin of the test has the resource in its ``informers``."""
        path = Resource.of(resource).path
        return any(each.resource.path == path for each in self._informers)

    def apply(self, event: str, resource: str, manifest: Manifest) -> None:
        """Apply a watch event to the objects, and call the functions of ``on_change``.

        Args:
            event: ADDED, MODIFIED or DELETED.
            resource: the name of the resource, as in a plugin's ``informers``.
            manifest: the object, with ``metadata.name``.

        Raises:
            KeyError: no plugin of the test has the resource in its ``informers``.
            PluginError: an index function or a function of ``on_change`` raised.
        """
        self.change(event, resource, manifest)
        self.call_handlers()

    def change(self, event: str, resource: str, manifest: Manifest) -> None:
        """Apply a watch event to the objects; ``call_handlers`` tells the plugins of it.

        Args:
            event: ADDED, MODIFIED or DELETED.
            resource: the name of the resource, as in a plugin's ``informers``.
            manifest: the object, with ``metadata.name``.

        Raises:
            KeyError: no plugin of the test has the resource in its ``informers``.
            PluginError: an index function raised.
        """
        if resource not in self:
            raise KeyError(resource)
        path = Resource.of(resource).path
        for each in self._informers:
            if each.resource.path == path:
                each.store.apply(json.dumps(_shown(event, each.resource, manifest)).encode())

    def call_handlers(self) -> bool:
        """Call the functions of ``on_change`` with what they have not been told yet.

        Returns: whether a function was called.

        Raises: PluginError: a function raised.
        """
        return self._informers.call_handlers()


def _raised(error: PluginError) -> None:
    raise error


def _shown(event: str, resource: Resource, manifest: Manifest) -> dict[str, Any]:
    """Return the event of a watch of a resource, with a field selector if the resource has one."""
    if not resource.field_selector:
        return {"type": event, "object": manifest}
    path, _, value = resource.field_selector.partition("=")
    found: Any = manifest
    for name in path.split("."):
        found = found.get(name, {})
    metadata = {"metadata": manifest["metadata"]}
    return {"type": event if found == value else "DELETED", "object": metadata}


@dataclass(frozen=True, slots=True)
class RecordedEvents:
    """An ``EventSink`` for tests that only records the Events that plugins write.

    Attributes:
        written: the Events, in the order in which plugins wrote them.
    """

    written: list[PluginEvent] = field(default_factory=list)

    def record(self, event: PluginEvent) -> None:
        """Record an Event."""
        self.written.append(event)


async def at_once(work: Callable[[], Any]) -> Any:
    """Call a function on this thread, and return its result: no call of a test waits for an API."""
    return work()


def make_handle(
    nodes: NodesLike = (),
    pods: Iterable[PodLike] = (),
    *,
    waiting_pods: HeldPods | None = None,
    activator: Activator | None = None,
    kubernetes_client: Any = None,
    configuration: Any = None,
) -> Handle:
    """Make a Handle for a plugin that a test constructs itself.

    A ``Cluster`` makes a Handle of its own for plugins that are given as classes.

    Args:
        nodes: the cluster's nodes, in any form that ``make_nodes`` takes.
        pods: the cluster's pods; a bound pod has a ``node_name``.
        waiting_pods: the pods that Permit plugins hold; None: no pods.
        activator: records or forwards activations of pods; None: activations have no effect.
        kubernetes_client: the client that the plugin finds as ``handle.kubernetes_client``.
        configuration: the whole configuration that the plugin finds in the Handle.
    """
    cluster = ClusterPorts(
        nodes=ListedNodes(node_store(manifests_of_nodes(nodes))),
        pods=ListedPods(pod_store(pod_manifest_of(pod) for pod in pods)),
        activator=Activations() if activator is None else activator,
        kubernetes_client=lambda: kubernetes_client,
    )
    return Handle(
        WaitingPods() if waiting_pods is None else waiting_pods,
        cluster,
        configuration=configuration,
        common_metrics=CollectorRegistry(),
    )
