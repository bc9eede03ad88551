"""The Handle that plugins are given, and the ports through which kubextend reaches the cluster."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Iterator
from copy import copy
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias, TypeVar

from kubextend import core
from kubextend.errors import KubextendError
from kubextend.framework.cycle_state import CycleState

__all__ = [
    "NO_CLUSTER",
    "Activator",
    "Binder",
    "ClusterPorts",
    "Handle",
    "HeldPod",
    "HeldPods",
    "InThread",
    "NodeSource",
    "PodReader",
    "PodSource",
    "needs_pods_undeclared",
]

MAX_POD_BYTES: Final = 64 << 10
"""What tolerations, affinity and annotations of one kept pod may take, and once more its requests,
gates, labels and containers: whoever may create pods chooses how large they are, and the store
holds those of the whole cluster."""

_Shared = TypeVar("_Shared")


class NodeSource(Protocol):
    """Nodes kept up to date by list and watch."""

    @property
    def store(self) -> core.NodeStore:
        """The store that holds the nodes."""

    @property
    def synced(self) -> bool:
        """Whether the nodes have been listed once."""

    def age_s(self) -> float | None:
        """Return the seconds since the API last answered; None before the first answer."""


class PodSource(Protocol):
    """Pods kept up to date by list and watch, with the ledger of assumed pods."""

    @property
    def store(self) -> core.PodStore:
        """The store that holds the pods."""

    @property
    def synced(self) -> bool:
        """Whether the pods have been listed once."""


class PodReader(Protocol):
    """Reads one pod from the Kubernetes API."""

    def get(self, namespace: str, name: str) -> core.Pod | None:
        """Return the pod as it is now; None where there is none. Blocks.

        Raises: ClusterError: the API did not answer, or refused.
        """


class Binder(Protocol):
    """Writes the Binding of a pod."""

    def bind(
        self, namespace: str, name: str, uid: str, node: str, *, timeout_s: float | None = None
    ) -> None:
        """Bind the pod to the node; a pod that is bound there already counts as bound.

        Args:
            namespace: namespace of the pod.
            name: name of the pod.
            uid: UID of the pod; another pod of the same name is left alone.
            node: name of the node.
            timeout_s: seconds after which nothing is written any more; None: no limit.

        Raises: ClusterError: the pod is not bound; the message says why.
        """


class Activator(Protocol):
    """Makes kube-scheduler ask about unschedulable pods again."""

    def activate(self, pods: Iterable[core.Pod]) -> None:
        """Wake the pods soon, from another thread; never blocks and never raises."""


class HeldPod(Protocol):
    """A pod that Permit holds; its methods may be called from any thread."""

    pod: core.Pod
    node_name: str
    since_s: float
    """When the wait began, in Unix time."""

    @property
    def pending_plugins(self) -> tuple[str, ...]:
        """The plugins that still hold the pod."""

    @property
    def deadline_s(self) -> float | None:
        """When the first timeout rejects the pod, in Unix time; None where no plugin holds it."""

    def allow(self, plugin: str) -> bool:
        """End one plugin's hold and return whether there was one; without any the pod goes on."""

    def reject(self, plugin: str, reason: str) -> bool:
        """Send the pod back as rejected; return False where the pod was decided before."""


class HeldPods(Protocol):
    """The pods that Permit holds now."""

    def get(self, uid: str) -> HeldPod | None:
        """Return the held pod of this UID."""

    def reject(self, uid: str, plugin: str, reason: str) -> bool:
        """Send the pod back as rejected if it is held, and return whether it was."""

    def gives_up(self, uid: str) -> bool:
        """Return whether the pod's binding cycle failed and an Unreserve still has to run."""

    def __iter__(self) -> Iterator[HeldPod]:
        """Iterate over the pods that are held at this moment."""


InThread: TypeAlias = Callable[[Callable[[], Any]], Coroutine[Any, Any, Any]]
"""Runs a blocking call in a thread."""


@dataclass(frozen=True, slots=True)
class ClusterPorts:
    """What the cluster offers; without access to an API, nothing.

    Attributes:
        nodes: watched nodes.
        pods: watched pods, and the ledger of assumed pods; None unless a plugin needs them.
        pod_reader: reads one pod.
        binder: posts Bindings.
        activator: wakes unschedulable pods.
        kubernetes_client: returns an ``ApiClient`` of the official client with the present
            credentials.
        in_thread: runs a call that waits for the Kubernetes API.
    """

    nodes: NodeSource | None = None
    pods: PodSource | None = None
    pod_reader: PodReader | None = None
    binder: Binder | None = None
    activator: Activator | None = None
    kubernetes_client: Callable[[], Any] | None = None
    in_thread: InThread = asyncio.to_thread


NO_CLUSTER: Final = ClusterPorts()
"""The ports without access to an API."""


class Handle:
    """Everything that a plugin may reach: cluster state, held pods, wake-ups, configuration.

    Args:
        waiting_pods: the pods that Permit holds.
        cluster: what the cluster offers.
        configuration: the whole typed configuration.
        metrics: a ``prometheus_client.CollectorRegistry`` for the plugin's own metrics.
    """

    def __init__(
        self,
        waiting_pods: HeldPods,
        cluster: ClusterPorts = NO_CLUSTER,
        *,
        configuration: Any = None,
        metrics: Any = None,
    ) -> None:
        self.waiting_pods = waiting_pods
        self.configuration = configuration
        self.metrics = metrics
        self._nodes = cluster.nodes
        self._pods = cluster.pods
        self._activator = cluster.activator
        self._kubernetes_client = cluster.kubernetes_client
        self._shared: dict[type[Any], Any] = {}
        self._undeclared = ""

    def of(self, plugin: str, *, needs_pods: bool) -> "Handle":
        """Return the Handle of one plugin: with pods only if its class says ``needs_pods = True``.

        kubextend watches pods only if an enabled plugin needs them; a plugin must not see pods by
        chance, because another plugin is enabled.
        """
        mine = copy(self)
        mine._undeclared = "" if needs_pods else plugin  # noqa: SLF001  it is of this class
        return mine

    def shared(self, kind: type[_Shared], make: Callable[[], _Shared]) -> _Shared:
        """Return the one object of a kind that all plugins share; the first that asks makes it."""
        if kind not in self._shared:
            self._shared[kind] = make()
        shared: _Shared = self._shared[kind]
        return shared

    @property
    def kubernetes_client(self) -> Any:
        """An ``ApiClient`` of the official client; None without access to an API.

        Renewed credentials make another client, so ask for the client at each use.
        """
        return None if self._kubernetes_client is None else self._kubernetes_client()

    def nodes(self) -> core.Nodes | None:
        """Return every watched node as it is now; None where nodes are not watched."""
        return None if self._nodes is None else self._nodes.store.nodes()

    def pods(self, state: CycleState | None = None) -> core.PodSnapshot | None:
        """Return the pods on nodes as they are now, with assumed ones; None if not watched.

        Args:
            state: the state of the attempt that asks. A filter should give it: preempt judges a
                candidate without the victims of that candidate alone, and a node with nominated
                pods is judged with them too.
        """
        self._check_declared()
        if state is not None:
            state.asked_for_pods = True
            if state.pods_seen is not None:
                return state.pods_seen
        return None if self._pods is None else self._pods.store.snapshot()

    def pending_pods(self) -> list[core.Pod]:
        """Return the watched pods without a node; empty where pods are not watched."""
        self._check_declared()
        if self._pods is None:
            return []
        return [pod for pod in self._pods.store.pods() if not pod.node_name]

    def labelled_pods(
        self, namespace: str, label: str, value: str, state: CycleState | None = None
    ) -> list[core.Pod]:
        """Return the pods of a namespace that have a label of this value.

        An assumed pod names its node, as a bound pod does. The list is empty where pods are not
        watched.

        Args:
            namespace: namespace of the pods.
            label: key of the label.
            value: value of the label.
            state: the state of the attempt that asks, as for ``pods``: in preempt the victims are
                gone, and a pod that is nominated to the node names it.

        Raises: TruncatedPodError: a pod of the namespace has too many labels to keep.
        """
        self._check_declared()
        if self._pods is None:
            return []
        pods = self._pods.store.with_label(namespace, label, value)
        if state is None:
            return pods
        state.asked_for_pods = True
        seen = state.pods_seen
        return pods if seen is None else seen.these(pods)

    def assumed_pods(self) -> frozenset[str]:
        """Return the UIDs of the pods on their way to a node, until the watch shows them bound."""
        self._check_declared()
        if self._pods is None:
            return frozenset()
        return frozenset(pod.uid for pod, _ in self._pods.store.assumed())

    def activate(self, pods: Iterable[core.Pod]) -> None:
        """Make kube-scheduler ask about these pods soon, if they are unschedulable."""
        if self._activator is not None:
            self._activator.activate(pods)

    def _check_declared(self) -> None:
        if self._undeclared:
            raise needs_pods_undeclared(self._undeclared)


def needs_pods_undeclared(plugin: str) -> KubextendError:
    """Return the error for a plugin that asks for pods without ``needs_pods = True``."""
    return KubextendError(f"set needs_pods = True on {plugin}: it asks for pods")
