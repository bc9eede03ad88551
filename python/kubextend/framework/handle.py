"""The Handle, by which plugins read and change the cluster, and protocols of a Handle's parts."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, TypeVar

from prometheus_client import CollectorRegistry

from kubextend import core
from kubextend.errors import KubextendError
from kubextend.framework.cycle_state import CycleState
from kubextend.framework.events import EventSink, PluginEvents
from kubextend.framework.informer import (
    Informer,
    InformerSource,
    Owner,
    Resource,
    UnwatchedInformer,
)
from kubextend.framework.plugin_logger import PluginLogger

if TYPE_CHECKING:
    # Types alone: this package calls neither, and plugins without a cluster load no client.
    from kubernetes.client import ApiClient

    from kubextend.config import Configuration

__all__ = [
    "NO_ANNOTATIONS",
    "NO_CLUSTER",
    "Activator",
    "Binder",
    "ClusterPorts",
    "Handle",
    "HeldPod",
    "HeldPods",
    "InThread",
    "LeaderSource",
    "NodeSource",
    "PodReader",
    "PodSource",
    "needs_pods_undeclared",
]

MAX_POD_BYTES: Final = 64 << 10
"""The most bytes that a pod store keeps of one pod's tolerations, affinity and annotations
together, and also the most of the pod's requests, gates, labels and containers together. The limit
exists because users choose how large their pods are, and the store holds the pods of the whole
cluster.
"""

NO_ANNOTATIONS: Final[Mapping[str, str]] = MappingProxyType({})
"""The annotations of a Binding for which no plugin called ``state.annotate``."""

_Shared = TypeVar("_Shared")


class NodeSource(Protocol):
    """Gives access to the cluster's nodes, usually kept up to date by list and watch."""

    @property
    def store(self) -> core.NodeStore:
        """The store that holds the cluster's nodes."""

    @property
    def synced(self) -> bool:
        """Whether the store has had a complete list of nodes."""

    def age_s(self) -> float | None:
        """Return the seconds since kube-apiserver last sent anything about nodes; None: not yet."""


class PodSource(Protocol):
    """Gives access to the cluster's pods, usually kept up to date by list and watch.

    The pods include assumed pods: those for which kube-scheduler has chosen a node, and which the
    watch does not show bound yet.
    """

    @property
    def store(self) -> core.PodStore:
        """The store of the cluster's pods; it shows pods on nodes from before their Binding on."""

    @property
    def synced(self) -> bool:
        """Whether the store has had a complete list of pods."""


class PodReader(Protocol):
    """Reads one pod from the Kubernetes API."""

    def get(self, namespace: str, name: str) -> core.Pod | None:
        """Read a pod from the Kubernetes API; return None if no pod has that name. Blocks.

        Raises: ClusterError: the API did not respond, or refused the request.
        """


class Binder(Protocol):
    """Binds pods to nodes by posting Bindings to the Kubernetes API."""

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
        """Bind a pod to a node; a pod that was already bound to this node is a success. Blocks.

        Args:
            namespace: namespace of the pod.
            name: name of the pod.
            uid: UID of the pod; another pod of the same name is never bound.
            node: name of the node.
            timeout_s: the most seconds for this call; None: the limit that the Binder itself has.
            annotations: what the Binding adds to the pod's annotations.
            why_not: called right before each attempt; returns why the pod must not be bound to the
                node, or "" if it may be.

        Raises: ClusterError: the pod is not bound, or the result is unknown; the message says why.
        """


class Activator(Protocol):
    """Makes kube-scheduler try unschedulable pods again, by updating the pods in the API."""

    def activate(self, pods: Iterable[core.Pod]) -> None:
        """Queue an update of each pod that makes kube-scheduler try it again; never blocks."""


class LeaderSource(Protocol):
    """Says whether this replica is the one that decides where plugins keep state.

    A term is a time in which this replica leads without a break.
    """

    @property
    def term(self) -> int:
        """The number of the replica's latest term; 0: the replica has never led."""

    def why_not(self) -> str:
        """Return why this replica may not begin to decide now; empty: it may. Never blocks."""

    def why_over(self, term: int) -> str:
        """Return why what began in this term must not go on; empty: it may. Never blocks."""

    def left_s(self) -> float:
        """Return the seconds for which this replica surely leads."""


class HeldPod(Protocol):
    """A pod that Permit plugins hold: its bind request waits for their decision.

    Any thread may call the methods.

    Attributes:
        pod: the held pod.
        node_name: the node that the pod is to be bound to.
    """

    pod: core.Pod
    node_name: str
    since_s: float
    """When the pod began to wait, in seconds of Unix time."""

    @property
    def pending_plugins(self) -> tuple[str, ...]:
        """The names of the Permit plugins that still hold the pod, so that it is not bound."""

    @property
    def deadline_s(self) -> float | None:
        """When the earliest timeout of a Permit plugin rejects the pod, in seconds of Unix time.

        The time is None if no plugin holds the pod any more.
        """

    def allow(self, plugin: str) -> bool:
        """End the hold of one Permit plugin; after the last hold has ended, the pod is bound.

        Returns: whether this plugin held the pod.
        """

    def reject(self, plugin: str, reason: str) -> bool:
        """Reject the held pod, so that kube-scheduler puts the pod back into its own queue.

        Args:
            plugin: the name of the plugin that rejects the pod.
            reason: the text of the rejection.

        Returns: False if the pod was allowed or rejected already.
        """


class HeldPods(Protocol):
    """The pods that Permit plugins hold now; iterating yields each as a ``HeldPod``."""

    def get(self, uid: str) -> HeldPod | None:
        """Return the pod with this UID if Permit plugins hold it, else None.

        A pod is held once the method ``permit`` of every plugin has returned.
        """

    def reject(self, uid: str, plugin: str, reason: str) -> bool:
        """Reject a pod that Permit plugins hold; return whether this call rejected the pod.

        False means that Permit plugins hold no pod with this UID, or that the pod was allowed or
        rejected already.

        Args:
            uid: UID of the pod.
            plugin: the name of the plugin that rejects the pod.
            reason: the text of the rejection.
        """

    def gives_up(self, uid: str) -> bool:
        """Return whether a pod's binding cycle has failed and the Unreserve calls are not done yet.

        Args:
            uid: UID of the pod.
        """

    def __iter__(self) -> Iterator[HeldPod]:
        """Iterate over the pods that Permit plugins hold at this moment."""


InThread: TypeAlias = Callable[[Callable[[], Any]], Coroutine[Any, Any, Any]]
"""A function that runs a blocking function in a thread, and whose coroutine returns the result."""


@dataclass(frozen=True, slots=True)
class ClusterPorts:
    """Holds the objects by which kubextend reads and changes the cluster.

    Without access to a Kubernetes API, every object except ``in_thread`` is None.

    Attributes:
        nodes: the watched nodes.
        pods: the watched pods, and the assumed pods, whose node is chosen and whose binding is not
            seen yet; None unless a plugin needs pods.
        pod_reader: reads one pod from the Kubernetes API.
        binder: binds pods.
        activator: makes kube-scheduler try again pods for which it found no node.
        leader: says whether this replica leads; None: no leader is elected.
        informers: the objects of other resources that plugins declare.
        events: writes the Events of plugins.
        kubernetes_client: returns an ``ApiClient`` of the official client with the present
            credentials.
        in_thread: runs, in a thread, a call that waits for the Kubernetes API.
    """

    nodes: NodeSource | None = None
    pods: PodSource | None = None
    pod_reader: PodReader | None = None
    binder: Binder | None = None
    activator: Activator | None = None
    leader: LeaderSource | None = None
    informers: InformerSource | None = None
    events: EventSink | None = None
    kubernetes_client: "Callable[[], ApiClient] | None" = None
    in_thread: InThread = asyncio.to_thread


NO_CLUSTER: Final = ClusterPorts()
"""The ``ClusterPorts`` without access to a Kubernetes API."""


class Handle:
    """A plugin's access to the cluster, to held pods, to the configuration, metrics and logs.

    Any thread may call the methods. No method waits for the Kubernetes API.

    Args:
        waiting_pods: the pods that Permit plugins hold.
        cluster: access to the cluster.
        configuration: the whole typed configuration, a ``Configuration``.
        registries: returns the registry for the metrics of one plugin instance.
        common_metrics: the registry for metrics of what ``shared`` makes; None: no such metrics.

    Attributes:
        waiting_pods: the pods that Permit plugins hold.
        configuration: the whole typed configuration; None in most tests.
        common_metrics: the registry for metrics of what all plugins share.
    """

    def __init__(
        self,
        waiting_pods: HeldPods,
        cluster: ClusterPorts = NO_CLUSTER,
        *,
        configuration: "Configuration | None" = None,
        registries: Callable[[Owner], CollectorRegistry] = lambda _owner: CollectorRegistry(),
        common_metrics: CollectorRegistry | None = None,
    ) -> None:
        self.waiting_pods = waiting_pods
        self.configuration = configuration
        self.common_metrics = common_metrics
        self._cluster = cluster
        self._nodes = cluster.nodes
        self._pods = cluster.pods
        self._activator = cluster.activator
        self._kubernetes_client = cluster.kubernetes_client
        self._registries = registries
        self._shared: dict[type[Any], Any] = {}
        self._undeclared = ""
        self._informers: frozenset[str] | None = None
        self._belongs_to(Owner(""))

    def in_profile(self, profile: str) -> "Handle":
        """Return the Handle from which those of a profile's plugins are made.

        Args:
            profile: the name of the profile.
        """
        mine = copy(self)
        mine._belongs_to(Owner("", profile))  # noqa: SLF001  it is of this class
        return mine

    def of(self, plugin: str, *, needs_pods: bool, informers: Iterable[str] = ()) -> "Handle":
        """Return the Handle for one plugin, which can read what the plugin's class declares.

        kubextend watches pods only if an enabled plugin needs pods. Without this check, a plugin
        that does not declare its need would work by chance where another enabled plugin declares
        one.

        Args:
            plugin: the name of the plugin.
            needs_pods: whether the plugin's class has ``needs_pods = True``; if not, the Handle's
                methods that read pods raise KubextendError.
            informers: the names of resources in ``informers`` of the plugin's class.
        """
        mine = copy(self)
        mine._undeclared = "" if needs_pods else plugin  # noqa: SLF001  it is of this class
        mine._informers = frozenset(informers)  # noqa: SLF001
        mine._belongs_to(Owner(plugin, self._owner.profile))  # noqa: SLF001
        return mine

    def _belongs_to(self, owner: Owner) -> None:
        self._owner = owner
        self._metrics: CollectorRegistry | None = None
        self._logger = PluginLogger(owner)
        self._events = PluginEvents(owner, self._cluster.events)

    @property
    def logger(self) -> PluginLogger:
        """The plugin's logger, whose lines name the plugin and the profile."""
        return self._logger

    @property
    def events(self) -> PluginEvents:
        """Writes Events of the plugin on pods, nodes and objects of informers."""
        return self._events

    @property
    def metrics(self) -> CollectorRegistry:
        """The registry for the plugin's own metrics.

        kubextend adds the labels ``plugin`` and ``profile`` to each metric, so that the instances
        of two profiles may have metrics of one name.
        """
        if self._metrics is None:
            self._metrics = self._registries(self._owner)
        return self._metrics

    def informer(self, resource: str) -> Informer:
        """Return the informer of a resource that the plugin's class names in ``informers``.

        Call this method in the constructor or in ``start``, and keep the informer.

        Args:
            resource: the plural of a core resource, such as ``persistentvolumeclaims``, or
                ``group/version/plural``, spelled as in ``informers``.

        Raises: KubextendError: the class does not name the resource.
        """
        if self._informers is not None and resource not in self._informers:
            message = f"add {resource!r} to informers of {self._owner.plugin}: it asks for them"
            raise KubextendError(message)
        wanted = Resource.of(resource)
        if self._cluster.informers is None:
            return UnwatchedInformer(wanted)
        return self._cluster.informers.of(wanted, self._owner)

    def shared(self, kind: type[_Shared], make: Callable[[], _Shared]) -> _Shared:
        """Return the instance of a class that all plugins share; the first call makes the instance.

        Args:
            kind: the class of the instance.
            make: makes the instance.
        """
        if kind not in self._shared:
            self._shared[kind] = make()
        shared: _Shared = self._shared[kind]
        return shared

    @property
    def kubernetes_client(self) -> "ApiClient | None":
        """An ``ApiClient`` of the official Kubernetes client; None without access to an API.

        Renewed credentials make another client, so ask for the client at each use.
        """
        return None if self._kubernetes_client is None else self._kubernetes_client()

    def nodes(self) -> core.Nodes | None:
        """Return all watched nodes as they are now; None if kubextend does not watch nodes."""
        return None if self._nodes is None else self._nodes.store.nodes()

    def snapshot(self, state: CycleState | None = None) -> core.Nodes | None:
        """Return all watched nodes with their pods; None if kubextend does not watch nodes.

        The nodes that a plugin's method gets are those that kube-scheduler's own filters left. To
        count pods by zone, use this snapshot. If the plugin's class does not have ``needs_pods =
        True``, the nodes show no pods.

        Args:
            state: the CycleState of the present attempt, as in ``pods``.
        """
        nodes = self.nodes()
        if nodes is None or self._undeclared:
            return nodes
        pods = self.pods(state)
        return nodes if pods is None else nodes.with_pods(pods)

    def pods(self, state: CycleState | None = None) -> core.PodSnapshot | None:
        """Return a snapshot of the pods on nodes, assumed pods included; None: not watched.

        kubextend watches pods only if an enabled plugin needs them.

        Args:
            state: the CycleState of the present attempt; a Filter plugin should give its own
                ``state``. Then the snapshot leaves out the victims of the node that the preempt
                verb asks about, and has the pods nominated to a node when the filter checks the
                node with these pods. For a member of a pod group, the snapshot has the members
                that filter was called for before.

        Raises: KubextendError: the plugin's class does not have ``needs_pods = True``.
        """
        self._check_declared()
        if state is not None:
            state.asked_for_pods = True
            if state.pods_seen is not None:
                return state.pods_seen
        return None if self._pods is None else self._pods.store.snapshot()

    def pending_pods(self) -> list[core.Pod]:
        """Return the watched pods that are on no node; empty if kubextend does not watch pods.

        Raises: KubextendError: the plugin's class does not have ``needs_pods = True``.
        """
        self._check_declared()
        if self._pods is None:
            return []
        return [pod for pod in self._pods.store.pods() if not pod.node_name]

    def pod(self, uid: str) -> core.Pod | None:
        """Return the watched pod with this UID; None if there is none, or pods are not watched.

        The ``node_name`` of an assumed pod is the node that kube-scheduler chose.

        Raises: KubextendError: the plugin's class does not have ``needs_pods = True``.
        """
        self._check_declared()
        return None if self._pods is None else self._pods.store.get(uid)

    def labelled_pods(
        self, namespace: str, label: str, value: str, state: CycleState | None = None
    ) -> list[core.Pod]:
        """Return the watched pods of a namespace that have a label with this value.

        The ``node_name`` of an assumed pod is the node that kube-scheduler chose. The list is empty
        if kubextend does not watch pods.

        Args:
            namespace: namespace of the pods.
            label: key of the label.
            value: value of the label.
            state: the CycleState of the present attempt, if given. Then the list leaves out the
                victims of the node that the preempt verb asks about, and the ``node_name`` of a pod
                that is nominated to a node is that node.

        Raises:
            KubextendError: the plugin's class does not have ``needs_pods = True``.
            TruncatedPodError: the labels of a pod of the namespace are too large to be kept.
        """
        self._check_declared()
        if self._pods is None:
            return []
        pods = self._pods.store.with_label(namespace, label, value)
        if state is None:
            return pods
        state.asked_for_pods = True
        seen = state.pods_seen
        if seen is None:
            return pods
        # A filter request may bring a member of a pod group earlier than the watch does.
        known = {pod.uid for pod in pods}
        placed = seen.placed_with_label(namespace, label, value)
        return seen.these(pods) + [pod for pod in placed if pod.uid not in known]

    def assumed_pods(self) -> frozenset[str]:
        """Return the UIDs of pods whose node is chosen and that the watch does not show bound yet.

        Raises: KubextendError: the plugin's class does not have ``needs_pods = True``.
        """
        self._check_declared()
        if self._pods is None:
            return frozenset()
        return frozenset(pod.uid for pod, _ in self._pods.store.assumed())

    def activate(self, pods: Iterable[core.Pod]) -> None:
        """Make kube-scheduler soon retry those of the pods for which it found no node.

        The call never blocks. Without access to a cluster nothing happens. Nothing happens for a
        pod of a pod group either: kube-scheduler retries groups after their backoff only. Nothing
        happens for a pod of which kubextend rejected no node in its last attempt, because
        kube-scheduler's own filters had rejected all of them.
        """
        if self._activator is not None:
            self._activator.activate(pods)

    def _check_declared(self) -> None:
        if self._undeclared:
            raise needs_pods_undeclared(self._undeclared)


def needs_pods_undeclared(plugin: str) -> KubextendError:
    """Return the error for a plugin that reads pods though its class lacks ``needs_pods = True``.

    Args:
        plugin: the name of the plugin.
    """
    return KubextendError(f"set needs_pods = True on {plugin}: it asks for pods")
